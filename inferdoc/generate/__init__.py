"""inferdoc.generate"""
