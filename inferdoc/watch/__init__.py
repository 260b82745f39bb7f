"""Looking again and again: what changed since the look before, and a terminal that shows it in place."""
