"""Outputs: one module per kind, which converts a note to an HTTP request."""
