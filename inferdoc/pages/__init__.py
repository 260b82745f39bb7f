"""Diagnose engines without a Prometheus: live scrapes or saved /metrics files."""
