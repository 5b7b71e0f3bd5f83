"""The ops: their shapes, what they compute in numpy, and a graph of them run over a batch."""
