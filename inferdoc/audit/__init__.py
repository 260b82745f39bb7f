"""Standing states: what is wrong with a fleet without having changed, and what it costs."""
