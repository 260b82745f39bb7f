"""Tests. Every worker is a process of its own: numpy has one thread in each, and servers take memory instead of time."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("GOGC", "400")
