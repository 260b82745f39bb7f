"""inferdoc.store"""
