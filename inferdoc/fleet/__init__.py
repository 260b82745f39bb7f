"""inferdoc.fleet"""
