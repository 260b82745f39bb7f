"""Repeated diagnosis: changes since the last run, or the report in place on a terminal."""
