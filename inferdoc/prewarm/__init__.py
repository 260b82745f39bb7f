"""inferdoc.prewarm"""
