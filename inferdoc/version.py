"""The version of this package, and its container image; the lowest module of all, so that anything may import it."""

__version__ = "0.1.0"

IMAGE = f"localhost/inferdoc:{__version__}"
"""The container image of this release, inferdoc with kubectl, as packaging/Containerfile builds it. No registry holds
it: a name in one that somebody else may own would let him run what he likes in the clusters of users."""
