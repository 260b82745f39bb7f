"""Development machinery of inferdoc: imported by tests and benchmarks, and in no wheel."""
