"""inferdoc.serve"""
