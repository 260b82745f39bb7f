"""Evidence from beside the metrics: what Kubernetes tells of the pods in question, read by the user's own kubectl,
which decides what metrics cannot; traces of their slow requests."""
