"""What Kubernetes tells of the pods in question, read by the user's own kubectl: it decides what metrics cannot."""
