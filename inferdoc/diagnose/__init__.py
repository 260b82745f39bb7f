"""inferdoc.diagnose"""
