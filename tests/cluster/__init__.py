"""What Kubernetes tells beside metrics."""
