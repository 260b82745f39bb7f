"""Tests. Workers are processes: numpy has one thread in each, and servers take memory instead of time."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("GOGC", "400")
