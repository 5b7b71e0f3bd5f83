"""Who trains what, and when. Each policy scores a tenth of a period before it may train on it.

    stale      the model of the first period, for ever
    fed        that model, trained on with each tenth once it is over: what a chain of deltas carries
    retrained  a new model at the begin of each period, of all rows so far
    both       that model, trained on with each tenth of its period: a bundle per period, and deltas between
"""

import copy

import numpy as np
import torch

from . import features as f
from . import model
from .stream import TENTHS

POLICIES = ("stale", "fed", "retrained", "both")
FIT = {"epochs": 6, "batch": 256, "lr": 2e-3, "weight_decay": 1e-5}
FEED = {"epochs": 2, "batch": 64, "lr": 1e-3, "weight_decay": 0.0}  # without decay only rows that were met change


class Data:
    """The encoded stream: ids of the longest vocabulary, numbers by the scalers of any time."""

    def __init__(self, stream, periods):
        self.stream, self.periods = stream, periods
        self.vocabularies = f.grown_by_tenth(stream, periods * TENTHS)
        self.ids = f.encode(self.vocabularies[-1], stream)
        self._numbers = {}

    def features(self, fitted, known):
        """Features with scalers of the first `fitted` tenths and vocabularies of the first `known`."""
        return f.scalers(self.stream, fitted) + self.vocabularies[known]

    def encoded(self, fitted, known, rows):
        """(numbers, ids) of a slice of rows, as those features encode them."""
        if fitted not in self._numbers:
            self._numbers[fitted] = f.encode(f.scalers(self.stream, fitted), self.stream).astype(np.float32)
        return self._numbers[fitted][rows], f.as_known(self.ids[rows], f.sizes(self.vocabularies[known]))


def _train(net, data, fitted, known, rows, seed, epochs, batch, lr, weight_decay):
    numbers, ids = (torch.from_numpy(x) for x in data.encoded(fitted, known, rows))
    labels = torch.from_numpy(data.stream.labels[rows].astype(np.float32))
    order = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.Adam(net.parameters(), lr=lr, weight_decay=weight_decay)
    for _ in range(epochs):
        shuffled = torch.randperm(len(labels), generator=order)
        for some in shuffled.split(batch):
            optimiser.zero_grad()
            torch.nn.functional.binary_cross_entropy_with_logits(net(numbers[some], ids[some]), labels[some]).backward()
            optimiser.step()


def _fitted(data, tenths, seed):
    """A model of all rows of the first tenths."""
    torch.manual_seed(seed)
    net = model.Net(f.sizes(data.vocabularies[tenths]))
    _train(net, data, tenths, tenths, data.stream.rows(0, tenths), seed, **FIT)
    return net


def _feed(net, data, fitted, tenth, seed):
    net.grow(f.sizes(data.vocabularies[tenth + 1]))
    _train(net, data, fitted, tenth + 1, data.stream.rows(tenth, tenth + 1), seed * 1000 + tenth, **FEED)


def _scored(net, data, fitted, known, rows):
    return model.scores(net, *data.encoded(fitted, known, rows))


def _fed(net, data, fitted, tenths, seed, publish=None):
    """Scores of `tenths`, each by the version before it; `net` is trained on with each."""
    out = []
    for t in tenths:
        out.append(_scored(net, data, fitted, t, data.stream.rows(t, t + 1)))
        if publish:
            publish(t, net, out[-1])
        _feed(net, data, fitted, t, seed)
    if publish:
        publish(tenths.stop, net, None)
    return np.concatenate(out)


def run(data, seed, publish=None, progress=lambda text: None):
    """{policy: scores of all rows from the second period on} with one seed. `publish(tenths seen, net, scores of the next tenth or None)`
    is given each version of `fed`."""
    stream, end = data.stream, data.periods * TENTHS
    first = _fitted(data, TENTHS, seed)
    out = {"stale": [_scored(first, data, TENTHS, TENTHS, stream.rows(TENTHS, end))], "retrained": [], "both": []}
    out["fed"] = [_fed(copy.deepcopy(first), data, TENTHS, range(TENTHS, end), seed, publish)]
    for begin in range(TENTHS, end, TENTHS):
        net = first if begin == TENTHS else _fitted(data, begin, seed)
        out["retrained"].append(_scored(net, data, begin, begin, stream.rows(begin, begin + TENTHS)))
        out["both"].append(_fed(net, data, begin, range(begin, begin + TENTHS), seed))
        progress(f"seed {seed}: period {begin // TENTHS + 1} of {data.periods}")
    return {policy: np.concatenate(out[policy]) for policy in POLICIES}
