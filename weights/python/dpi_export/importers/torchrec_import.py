"""torchrec models (DLRM, DLRM_DCN and others over an EmbeddingBagCollection) -> bundle, by tracing.

A KeyedJaggedTensor has as many ids as its rows hold, which no trace can show. So features are given as ids [rows, max_len] and lengths;
while the model is traced its collections pool them by their formula, and whenever its scores are asked for it is called as it is, with a
KeyedJaggedTensor: what is compared before a bundle is written is torchrec's own.
"""

import contextlib

import numpy as np

from ..errors import UnsupportedModelError
from .torch_import import from_torch

_DENSE = "dense"


def from_torchrec(model, path, *, dense_features, max_len=1, rows=None, features=None, **keywords):
    """Writes a model that is called as model(dense_features, sparse_features) with a KeyedJaggedTensor.

    dense_features    how many numbers dense_features has in a row
    max_len           the most ids of a feature in a row: a number, or {feature: number}
    rows              (dense, KeyedJaggedTensor); become golden rows
    features          rules of the bundle's features by name (out_of_range, oov_id, missing, space ...)
    Other keywords: as in from_torch.
    """
    import torch

    tables = _tables(model)
    lengths = {name: max_len if isinstance(max_len, int) else max_len.get(name, 1) for name in tables}
    described, example = {_DENSE: {"kind": "dense" if dense_features > 1 else "numeric"}}, {_DENSE: torch.zeros(2, dense_features)}
    for name, size in tables.items():
        described[name] = {"kind": "sequence", "vocab_size": size, **(features or {}).get(name, {})}
        described[f"{name}.length"] = {"kind": "length", "of": name}
        example[name] = torch.zeros(2, lengths[name], dtype=torch.int64)
        example[f"{name}.length"] = torch.zeros(2, dtype=torch.int64)
    if rows is not None:
        rows = _padded(*rows, lengths)
    return from_torch(model, path, features=described, example=example, rows=rows, call=_call, **keywords)


def _collections(model):
    from torchrec.modules.embedding_modules import EmbeddingBagCollection

    found = [m for m in model.modules() if isinstance(m, EmbeddingBagCollection)]
    if not found:
        raise UnsupportedModelError(f"{type(model).__name__}: has no EmbeddingBagCollection")
    return found


def _tables(model):
    """{feature: rows of the smallest table that it is looked up in}."""
    out = {}
    for collection in _collections(model):
        if collection.is_weighted():
            raise UnsupportedModelError(f"{type(model).__name__}: an EmbeddingBagCollection with a weight per id (is_weighted) is not supported; "
                                        "give from_torch a model that takes ids and weights [rows, length], as nn.EmbeddingBag with "
                                        "per_sample_weights does")
        for config in collection.embedding_bag_configs():
            for name in config.feature_names:
                out[name] = min(out.get(name, config.num_embeddings), config.num_embeddings)
    return out


def _padded(dense, jagged, lengths):
    """A KeyedJaggedTensor as ids with 0 behind their end, and lengths."""
    out = {_DENSE: np.asarray(dense)}
    for name, most in lengths.items():
        values, counts = (t.detach().cpu().numpy() for t in (jagged[name].values(), jagged[name].lengths()))
        if counts.max(initial=0) > most:
            raise ValueError(f"rows: feature '{name}' has {int(counts.max())} ids in a row, max_len is {most}")
        ids, at = np.zeros((len(counts), most), np.int64), np.arange(most) < counts[:, None]
        ids[at] = values
        out[name], out[f"{name}.length"] = ids, counts.astype(np.int64)
    return out


def _call(model, inputs):
    """The model's own call, or, while it is traced, with its collections by their formula."""
    import torch

    names = [name for name in inputs if name != _DENSE and not name.endswith(".length")]
    if not torch._is_functional_tensor(inputs[_DENSE]):
        return model(inputs[_DENSE], _jagged(inputs, names))
    with contextlib.ExitStack() as held:
        for collection in _collections(model):
            held.enter_context(_by_formula(collection))
        return model(inputs[_DENSE], _Bags(inputs, names))


def _jagged(inputs, names):
    import torch
    from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

    lengths = [inputs[f"{name}.length"] for name in names]
    values = [inputs[name][torch.arange(inputs[name].shape[1]) < n[:, None]] for name, n in zip(names, lengths)]
    return KeyedJaggedTensor.from_lengths_sync(keys=names, values=torch.cat(values), lengths=torch.cat(lengths).to(torch.int32))


class _Bags:
    """In the place of a KeyedJaggedTensor: ids and lengths by feature."""

    def __init__(self, inputs, names):
        self.inputs, self._names = inputs, names

    def keys(self):
        """Names of the features."""
        return list(self._names)

    def stride(self):
        """How many rows there are."""
        return self.inputs[_DENSE].shape[0]


@contextlib.contextmanager
def _by_formula(collection):
    """An EmbeddingBagCollection that takes _Bags."""
    def forward(bags):
        return _pooled(collection, bags)

    collection.forward = forward
    try:
        yield
    finally:
        del collection.forward


def _pooled(collection, bags):
    import torch
    import torch.nn.functional as F
    from torchrec.modules.embedding_configs import PoolingType
    from torchrec.sparse.jagged_tensor import KeyedTensor

    parts, widths, names = [], [], []
    for config in collection.embedding_bag_configs():
        weight = collection.embedding_bags[config.name].weight
        for name in config.feature_names:
            ids, length = bags.inputs[name], bags.inputs[f"{name}.length"]
            held = (torch.arange(ids.shape[1]) < length[:, None]).to(weight.dtype)
            total = (F.embedding(ids, weight) * held[:, :, None]).sum(1)
            if config.pooling == PoolingType.MEAN:
                total = total / length.clamp(min=1)[:, None].to(weight.dtype)
            parts.append(total)
            widths.append(weight.shape[1])
            names.append(name)
    keys = [key for group in collection._embedding_names_by_table for key in group] if hasattr(collection, "_embedding_names_by_table") else names
    return KeyedTensor(keys=keys, length_per_key=widths, values=torch.cat(parts, 1))
