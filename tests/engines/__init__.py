"""Fleets of other engines than vLLM."""
