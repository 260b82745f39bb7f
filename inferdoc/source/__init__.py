"""inferdoc.source"""
