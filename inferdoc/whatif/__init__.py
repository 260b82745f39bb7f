"""`inferdoc whatif`: the simulator, calibrated on a live pool, plays what would be otherwise after a change."""
