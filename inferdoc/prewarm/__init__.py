"""Prewarm plans: a floor under the user's autoscaler, made from forecasts, emitted for what people run, and proved."""

# Defaults that help shows: here, without numpy, help is quick.
WINDOWS = 12
"""Maximum windows that start on one day: as many as people can review."""
CHANGE_HOURS = 2.0
"""Replica-hours a week that a change must save: one replica for a quarter of an hour on each day."""
