"""inferdoc.report"""
