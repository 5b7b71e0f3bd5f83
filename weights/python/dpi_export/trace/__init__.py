"""Importing any PyTorch model by tracing it: capture, pair, batch_axis, lower, normalise, build, in this order (pipeline.py)."""
