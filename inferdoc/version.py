"""The version of this package; the lowest module of all, so that anything may tell it."""

__version__ = "0.1.0"
