"""Deltas: the difference of two bundles, as a file (weights/DELTA.md)."""

from .make import delta

__all__ = ["delta"]
