"""The incident record: which alerts belong together, every look that was taken at them, and what it told."""
