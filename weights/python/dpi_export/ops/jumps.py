"""Where a bundle decides: comparisons, signs, the places of the largest, positions that are cut to integers. Ahead of them every op rounds to
float32, as the engine and the framework do, or a number on an edge falls on the other side."""

import numpy as np

from .shapes import COMPARE

_SUMS = ("Embed", "Linear", "MatMul", "LayerNorm", "Softmax", "Reduce", "Recurrent", "Attention")
_EXACT = ("relu", "abs", "sqrt", "identity", "sign", "leaky", "clamp", "affine", "prelu")  #: one rounding, if any
_CLOSE = 1e-5  #: a margin that float32 may cross


def decides(op):
    """Does the op say yes or no, or which?"""
    return op["op"] in ("Mask", "TopK") or (op["op"] in ("Binary", "Unary") and op["attrs"]["kind"] in COMPARE + ("sign",))


def _decided_by(op):
    """The inputs whose roundings may change what the op decides."""
    return op["in"][1:] if op["op"] == "Gather" else op.get("in", ()) if decides(op) else ()


def ahead(model):
    """Names of the ops that are computed in float32 because a decision sees their roundings."""
    ops = {op["name"]: op for op in model.ops}
    stack, found = [name for op in model.ops for name in _decided_by(op)], set()
    while stack:
        op = ops[stack.pop()]
        if op["name"] not in found:
            found.add(op["name"])
            stack.extend(() if op["op"] in _SUMS and op.get("attrs", {}).get("kind") != "max" else op.get("in", ()))
    return found


def inexact(model):
    """The ops that decide by what float32 does not fix: behind a sum, a product that is added without rounding it here and there (Builder.unsure),
    or a function whose last bits differ between libraries."""
    unsure, found = {}, []
    for op in model.ops:
        kind = op.get("attrs", {}).get("kind")
        own = op["op"] in _SUMS and kind != "max" and not (op["op"] == "Embed" and op["attrs"].get("pooling", "single") in ("single", "none")) \
            or op["op"] == "Unary" and kind not in _EXACT or op["name"] in getattr(model, "unsure", ())
        if any(unsure[name] for name in _decided_by(op)):
            found.append(op)
        unsure[op["name"]] = not decides(op) and (own or any(unsure[name] for name in op.get("in", ())))
    return found


def margins(model, values):
    """[(op, smallest relative distance from an edge, row)] of inexact(), for the values {op: array} of some rows. Whole numbers, which float32
    has exactly, are as far from an edge as they are."""
    out = []
    for op in inexact(model):
        gap = _gaps(op, [values[name] for name in op["in"]])
        if gap.size and np.isfinite(gap).any():
            row = int(np.argmin(gap.reshape(len(gap), -1).min(axis=1)))
            out.append((op["name"], float(gap.min()), row))
    return out


def _gaps(op, inputs):
    """[rows, ...] |x - edge| / max(|x|, |edge|)"""
    if op["op"] == "TopK":
        x = np.sort(inputs[0], axis=op["attrs"]["axis"] + 1)
        x, y = (np.take(x, np.arange(a, x.shape[op["attrs"]["axis"] + 1] - 1 + a), axis=op["attrs"]["axis"] + 1) for a in (0, 1))
    elif op["op"] == "Gather":
        x, y = inputs[1], np.rint(inputs[1])
    else:
        x, y = inputs if len(inputs) == 2 else (inputs[0], np.zeros(1))
        n = max(x.ndim, y.ndim)
        x, y = (v.reshape(v.shape[:1] + (1,) * (n - v.ndim) + v.shape[1:]) for v in (x, y))
    with np.errstate(all="ignore"):
        same = (x == y) & (op["op"] == "TopK")  # alike, so computed alike: the first one is taken everywhere
        gap = np.abs(x - y) / np.maximum(np.maximum(np.abs(x), np.abs(y)), np.finfo(np.float32).tiny)
    return np.where(same | (x == np.rint(x)) & (y == np.rint(y)) | np.isnan(gap), np.inf, gap)


def is_close(margin):
    """True for a margin that the roundings of float32 may cross."""
    return margin < _CLOSE
