"""Importing any PyTorch model by tracing it: capture, pair, propagate, lower, normalise, build, in this order (pipeline.py)."""
