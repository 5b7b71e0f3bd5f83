"""What the examples of trace_models are made of."""

import torch

N = 6  # rows of an example


def ids(vocab, *dims):
    """Random ids [N, *dims]."""
    return torch.randint(0, vocab, (N, *dims))
