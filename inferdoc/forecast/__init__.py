"""inferdoc.forecast"""
