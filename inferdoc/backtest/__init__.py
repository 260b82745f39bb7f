"""Replays recordings under alert rules with Prometheus' own rule engine, and scores what fires."""
