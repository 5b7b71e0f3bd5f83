"""Attention (FORMAT.md part 7): its shape rule and its value in numpy, some queries at a time."""

import numpy as np

MOST_POSITIONS, MOST_HEADS = 16384, 16
ATTRS = ("heads", "scale", "form", "divisor", "causal", "candidates", "mask", "bias", "empty")
_NUMBERS = 1 << 22  #: scores of a block


def infer(c):
    """Dims of the value."""
    q, k, v = (c.floats(i) for i in range(3))
    heads = c.integer(c.attr("heads", 1), "heads")
    c.need(1 <= heads <= MOST_HEADS, f"heads is {heads}, expected 1 to {MOST_HEADS}")
    for what, x in (("q", q), ("k", k), ("v", v)):
        c.need(len(x) == 2, f"{what} is {list(x)}, expected [T, heads x dim]")
        c.need(x[0] <= MOST_POSITIONS, f"{what} has {x[0]} positions, {MOST_POSITIONS} are the most")
        c.need(x[1] % heads == 0, f"{what} is {list(x)}, not a multiple of {heads} heads")
    c.need(q[1] == k[1], f"k is {list(k)}, q is {list(q)}: expected as many columns")
    c.need(k[0] == v[0], f"k is {list(k)}, v is {list(v)}: expected as many positions")
    _weighing(c, q[0], k[0])
    mask, bias = c.attr("mask", "none", ("none", "keys", "pairs")), c.attr("bias", "none", ("none", "pairs", "relative"))
    expected = 3 + (mask != "none") + (bias != "none")
    c.need(len(c.inputs) == expected, f"{len(c.inputs)} inputs, mask and bias say {expected}")
    pairs = (q[0], k[0])
    if mask != "none":
        want = (k[0],) if mask == "keys" else pairs
        c.need(c.floats(3) == want, f"mask is {list(c.floats(3))}, expected {list(want)}")
    if bias != "none":
        one, found = pairs if bias == "pairs" else (sum(pairs) - 1,), c.floats(expected - 1)
        c.need(found in (one, (heads,) + one), f"bias is {list(found)}, expected {list(one)} or {[heads, *one]}")
    return (q[0], v[1])


def _weighing(c, queries, keys):
    c.number("scale", 1.0)
    silu = c.attr("form", "softmax", ("softmax", "silu")) == "silu"
    c.need(c.number("divisor", 1.0) > 0, f"divisor is {c.attr('divisor', 1.0)}, expected a number above 0")
    c.attr("empty", "zeros", ("zeros", "mean"))
    c.need(silu or "divisor" not in c.attrs, "divisor is for form silu")
    c.need(not silu or "empty" not in c.attrs, "empty is for form softmax")
    c.flag("causal")
    candidates = c.integer(c.attr("candidates", 0), "candidates")
    c.need(0 <= candidates <= keys, f"candidates is {candidates}, expected 0 to {keys}")
    c.need(candidates == 0 or queries == keys, f"candidates are positions of one sequence: {queries} queries, {keys} keys")


def reach(queries, keys, causal, candidates):
    """[queries, keys] which keys a query may read, given `queries` as an array of positions."""
    i, j = np.asarray(queries)[:, None], np.arange(keys)
    history = keys - candidates
    return (j < history) & (j <= i if causal else True) | (j >= history) & (j == i)


def run(op, attrs, inputs, n_rows, ctx):
    """The value [rows, queries, heads x dim]."""
    heads, rows = attrs.get("heads", 1), max(len(x) for x in inputs) if n_rows else 0
    split = [np.broadcast_to(x, (rows,) + x.shape[1:]).reshape(rows, x.shape[1], heads, -1) for x in inputs[:3]]
    q, k, v = (x.transpose(0, 2, 1, 3) for x in split)
    mask = inputs[3] if attrs.get("mask", "none") != "none" else None
    bias = inputs[-1] if attrs.get("bias", "none") != "none" else None
    out = np.zeros(q.shape[:3] + v.shape[-1:], ctx.dtype)
    some = max(1, _NUMBERS // max(1, rows * heads * k.shape[2]))
    for first in range(0, q.shape[2], some):
        at = np.arange(first, min(first + some, q.shape[2]))
        scores = (q[:, :, at] @ k.swapaxes(-1, -2)) * ctx.dtype(attrs.get("scale", 1.0))
        if bias is not None:
            scores = scores + _bias(attrs["bias"], bias, at, q.shape[2], k.shape[2])
        counts = reach(at, k.shape[2], attrs.get("causal", False), attrs.get("candidates", 0))[None, None]
        if mask is not None:
            counts = counts & ((mask[:, None, None] if attrs["mask"] == "keys" else mask[:, None, at]) != 0)
        out[:, :, at] = _weights(attrs, scores, np.broadcast_to(counts, scores.shape) & (scores != -np.inf)) @ v
    return out.transpose(0, 2, 1, 3).reshape(rows, q.shape[2], -1)


def _bias(kind, bias, at, queries, keys):
    """[rows, heads or 1, queries, keys]"""
    by_head = bias.ndim == (4 if kind == "pairs" else 3)
    bias = bias if by_head else bias[:, None]
    if kind == "pairs":
        return bias[:, :, at]
    return bias[:, :, np.arange(keys) - at[:, None] + queries - 1]


def _weights(attrs, scores, counts):
    if attrs.get("form", "softmax") == "silu":
        e = np.exp(-np.abs(scores))
        silu = scores * np.where(scores >= 0, 1, e) / (1 + e)
        return np.where(counts, silu / attrs.get("divisor", 1.0), 0)
    top = np.where(counts, scores, -np.inf).max(-1, keepdims=True)
    e = np.where(counts, np.exp(scores - np.where(top == -np.inf, 0, top)), 0)
    total = e.sum(-1, keepdims=True)
    of_none = 1 / scores.shape[-1] if attrs.get("empty", "zeros") == "mean" else 0
    return np.where(total == 0, of_none, e / np.where(total == 0, 1, total))
