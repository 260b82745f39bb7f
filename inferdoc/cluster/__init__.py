"""Evidence from outside the metrics: what Kubernetes reports of the affected pods, read with the kubectl of the user,
which decides what metrics cannot; traces of their slow requests."""
