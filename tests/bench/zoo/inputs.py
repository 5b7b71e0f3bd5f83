"""The models with random weights, their rows, and their bundles."""

import numpy as np
import torch
from dpi_export import from_torch

import criteo
import histories
import mixers
import streams

OF_FIELDS = {**criteo.MODELS, **mixers.MODELS}
MODELS = {**OF_FIELDS, **histories.MODELS, **streams.MODELS}
SHARED = [f"f{i}" for i in range(streams.USER)] + [f"history{i}" for i in range(len(histories.PARTS))]  #: what a user is given once with
LOGIT_STD = 1.5  # of random rows' logits, so that scores say something


def small_tables():
    """From now on tables of at most 50 rows, and the models of mixers.py and streams.py narrow: plans differ in these numbers only."""
    for sizes in (criteo.FIELD_ROWS, histories.FIELD_ROWS, histories.PARTS):
        sizes[:] = [min(n, 50) for n in sizes]
    mixers.RANK.update(width=32, hidden=64)
    mixers.EXPERTS.update(hidden=8)
    streams.SIZE.update(width=16)
    mixers.WUKONG.update(rank=8, hidden=(64,))


def made(name):
    """The model in evaluation mode; the last layers are scaled so that its logits spread as trained ones do."""
    torch.manual_seed(sum(map(ord, name)))
    model = MODELS[name]().eval()
    with torch.no_grad():
        for parameter in (m for m in model.modules() if isinstance(m, torch.nn.Embedding)):
            parameter.weight.mul_(0.3)
            if parameter.padding_idx is not None:
                parameter.weight[parameter.padding_idx] = 0
        batch = tensors(rows(name, 512, np.random.default_rng(5), "uniform"))
        with torch.inference_mode():
            spread = torch.logit(model(batch).double()).std()
        last = [m for m in model.modules() if isinstance(m, torch.nn.Linear) and m.out_features == 1]
        for m in last:
            m.weight.mul_(min(20.0, LOGIT_STD / float(spread)))
    return model


def _skewed(rng, shape, sizes, first=0):
    """Ids with the skew of real traffic: Zipf 1.1, spread over each table."""
    sizes = np.asarray(sizes)
    return (rng.zipf(1.1, shape) * 2654435761 % (sizes - first) + first).astype(np.int64)


def rows(name, n, rng, lengths):
    """{input: array}."""
    if name == "dlrm":
        return {"ids": _skewed(rng, (n, 26), criteo.FIELD_ROWS[13:]), "dense": rng.random((n, 13), np.float32)}
    if name in OF_FIELDS:
        return {"ids": _skewed(rng, (n, 39), criteo.FIELD_ROWS)}
    length = np.full(n, histories.PLACES) if lengths == "full" else rng.integers(1, histories.PLACES + 1, n)
    counts = np.arange(histories.PLACES) < length[:, None]
    parts = [_skewed(rng, (n, histories.PLACES), size, 1) * counts for size in histories.PARTS]
    return {"fields": _skewed(rng, (n, 9), histories.FIELD_ROWS), "target": _skewed(rng, (n, 3), histories.PARTS, 1),
            "history": np.concatenate(parts, 1)}


def tensors(arrays):
    return {key: torch.from_numpy(np.ascontiguousarray(value)) for key, value in arrays.items()}


def features(name):
    """As from_torch wants them; in the order of the SDK's slots."""
    if name in OF_FIELDS:
        sizes = criteo.FIELD_ROWS[13:] if name == "dlrm" else criteo.FIELD_ROWS
        out = {f"c{i}": {"kind": "categorical", "input": "ids", "columns": i, "vocab_size": size} for i, size in enumerate(sizes)}
        return {**out, "dense": {"kind": "dense"}} if name == "dlrm" else out
    out = {f"f{i}": {"kind": "categorical", "input": "fields", "columns": i, "vocab_size": size} for i, size in enumerate(histories.FIELD_ROWS)}
    for i, size in enumerate(histories.PARTS):
        out[f"target{i}"] = {"kind": "categorical", "input": "target", "columns": i, "vocab_size": size}
    for i, size in enumerate(histories.PARTS):
        first = i * histories.PLACES
        out[f"history{i}"] = {"kind": "sequence", "input": "history", "columns": (first, first + histories.PLACES), "vocab_size": size}
    for key in SHARED if name in streams.MODELS else ():
        out[key]["space"] = "shared"
    return out


def flat(name, arrays):
    """(ids, dense, offsets) as dpi_predict takes them: histories ragged."""
    if name in OF_FIELDS:
        return np.ascontiguousarray(arrays["ids"]), arrays.get("dense"), None
    ids, offsets = _ragged(np.concatenate([arrays["fields"], arrays["target"]], 1), arrays["history"])
    return ids, None, offsets


def _ragged(single, history):
    """(ids, offsets) of features with one id a row and histories behind them."""
    places, n = histories.PLACES, len(history)
    parts = [history[:, i * places:(i + 1) * places] for i in range(len(histories.PARTS))]
    length = (parts[0] != 0).sum(1)
    counts = np.concatenate([np.ones((n, single.shape[1]), np.int64)] + [length[:, None]] * len(parts), 1)
    ids = [np.concatenate([single[r], *(p[r, :length[r]] for p in parts)]) for r in range(n)]
    return np.concatenate(ids), np.concatenate([[0], np.cumsum(counts.reshape(-1))]).astype(np.int64)


def of_users(arrays, counts):
    """(ids, users' ids, users' bag offsets, users' row offsets) where user u has the next counts[u] rows; the first of them says what the user is."""
    first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    ids, offsets = _ragged(arrays["fields"][first[:-1], :streams.USER], arrays["history"][first[:-1]])
    return np.concatenate([arrays["fields"][:, streams.USER:], arrays["target"]], 1), ids, offsets, first


def export(name, model, path):
    """The bundle, without the exporter's own comparison on hundreds of rows: whoever scores it compares it with float64 first."""
    golden = tensors(rows(name, 8, np.random.default_rng(3), "uniform"))
    heads = ["click", "like"] if name in ("mmoe", "ple") else None
    from_torch(model, path, features=features(name), example=golden, rows=golden, outputs=heads, name=name, check=None)
