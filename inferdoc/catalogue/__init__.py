"""inferdoc.catalogue"""
