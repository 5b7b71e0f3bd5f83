"""The model: embeddings and numbers into a linear and a deep part. In torch to train, in float64 numpy to check, as a bundle to serve."""

import common
import numpy as np
import torch

import dpi_export

from .features import OOV, builder
from .stream import CATEGORICAL, FEATURES, NUMERIC

DIM, HIDDEN, GOLDEN = 4, (16, 8), 8


class Net(torch.nn.Module):
    """logit = w . x + MLP(x), x = embeddings beside numbers."""

    def __init__(self, sizes):
        super().__init__()
        self.tables = torch.nn.ParameterList(torch.nn.Parameter(torch.randn(n, DIM) * 0.05) for n in sizes)
        for table in self.tables:
            table.data[:OOV + 1] = 0.0
        width = len(sizes) * DIM + len(NUMERIC)
        self.wide = torch.nn.Linear(width, 1)
        dims = [width, *HIDDEN, 1]
        self.layers = torch.nn.ModuleList(torch.nn.Linear(a, b) for a, b in zip(dims, dims[1:]))

    def grow(self, sizes):
        """New entries start at the row of the unknown one, so that no score changes before they are trained."""
        for i, n in enumerate(sizes):
            old = self.tables[i].data
            if n > len(old):
                self.tables[i] = torch.nn.Parameter(torch.cat([old, old[OOV].expand(n - len(old), DIM)]))

    def forward(self, numbers, ids):
        x = torch.cat([torch.nn.functional.embedding(ids[:, i], t) for i, t in enumerate(self.tables)] + [numbers], dim=1)
        h = x
        for layer in self.layers[:-1]:
            h = torch.relu(layer(h))
        return (self.wide(x) + self.layers[-1](h))[:, 0]


def scores(net, numbers, ids):
    """Probabilities in float64 numpy: what the engine's are held to."""
    def linear(layer, x):
        return x @ common.array(layer.weight).astype(np.float64).T + common.array(layer.bias).astype(np.float64)

    x = np.concatenate([common.array(t).astype(np.float64)[ids[:, i]] for i, t in enumerate(net.tables)] + [numbers.astype(np.float64)], axis=1)
    h = x
    for layer in net.layers[:-1]:
        h = np.maximum(linear(layer, h), 0)
    return 1 / (1 + np.exp(-(linear(net.wide, x) + linear(net.layers[-1], h))[:, 0]))


def write(net, features, path, golden, data):
    """The bundle of a version. `golden`: (numbers, ids, {column: raw texts}) of a few rows; `data`: what it was trained on."""
    b = builder(features)
    fields = [b.embed(b.input(c), b.table(c, common.array(net.tables[i])), module="embedding") for i, c in enumerate(CATEGORICAL)]
    x = b.concat(fields + [b.input(name) for name in NUMERIC], name="x", module="embedding")
    h = x
    for i, layer in enumerate(net.layers[:-1]):
        h = b.relu(b.linear(h, common.array(layer.weight), common.array(layer.bias), name=f"mlp/{i}", module="mlp"), name=f"mlp/{i}/relu", module="mlp")
    deep = b.linear(h, common.array(net.layers[-1].weight), common.array(net.layers[-1].bias), name="deep", module="mlp")
    wide = b.linear(x, common.array(net.wide.weight), common.array(net.wide.bias), name="wide", module="wide")
    logit = b.add(wide, deep, name="logit", module="head")
    b.head("subscribes", b.sigmoid(logit, name="probability", module="head"), logit=logit)
    numbers, ids, raw = golden
    columns = {c: ids[:, i].tolist() for i, c in enumerate(CATEGORICAL)}
    columns.update({c: numbers[:, i] for i, c in enumerate(NUMERIC)})
    p = scores(net, numbers, ids)
    b.golden(dpi_export.Rows.from_columns(b, columns), value=p[:, None], logit=np.log(p / (1 - p))[:, None], raw={c: raw[c] for c in FEATURES})
    b.provenance(framework=f"torch {torch.__version__}", data=data)
    b.write(str(path))
