"""What holds for a plan where nobody says otherwise; without numpy, so that help is quick."""

WINDOWS = 12
"""Windows that may start on one day: what people still read."""
CHANGE_HOURS = 2.0
"""Replica-hours a week that one changed stretch must save: one replica for a quarter of an hour on each day."""
