"""Watching a fleet."""
