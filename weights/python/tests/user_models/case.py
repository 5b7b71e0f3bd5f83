"""What one model of this folder is given to from_torch with."""

import dataclasses

import torch
from torch import nn

N = 8  # rows of an example


@dataclasses.dataclass
class Case:
    """A model, the arguments of from_torch, and numbers at which its formula changes branch: edges {feature: values}."""

    model: nn.Module
    example: object
    features: dict
    keywords: dict = dataclasses.field(default_factory=dict)
    edges: dict = dataclasses.field(default_factory=dict)


def ids(vocab, *dims):
    """Random ids [N, *dims]."""
    return torch.randint(0, vocab, (N, *dims))


def padded(vocab, length):
    """Histories [N, length] of every length, 0 behind their end."""
    some = torch.randint(1, vocab, (N, length))
    return some * (torch.arange(length) < torch.arange(N).remainder(length + 1).unsqueeze(1))
