"""`inferdoc size`: what a model needs on a tier, how fast it answers and how many replicas a traffic takes, each number
with a range. The formulas are those of `inferdoc.capacity`."""
