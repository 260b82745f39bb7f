"""Golden answers: the output of inferdoc for every fixture, stored under fixtures/golden."""
