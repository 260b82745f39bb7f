"""`inferdoc whatif`: the simulator, calibrated on a live pool, simulates the effect of a change."""
