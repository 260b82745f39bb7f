"""Simulated fleets that have every feature a board shows, in one Prometheus, with what rules and inferdoc add."""
