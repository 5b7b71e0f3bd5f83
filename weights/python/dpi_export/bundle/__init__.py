"""The file: what is written by hand (builder.py), writing it, reading it, its digests, signatures and golden rows."""
