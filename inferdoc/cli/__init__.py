"""inferdoc.cli"""
