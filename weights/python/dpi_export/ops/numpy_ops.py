"""The primitives in numpy (FORMAT.md part 7). Values are [rows, ...]; constants have one row, which broadcasts."""

import math

import numpy as np

from . import attention
from .shapes import mask_is_prefix

SELU_ALPHA, SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
_erf = np.vectorize(math.erf, otypes=[float])


def sigmoid(x):
    """1 / (1 + exp(-x)) without overflow."""
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, e) / (1 + e)


def row_sum_f32(x):
    """float32 sum over the last axis, one after another."""
    x = np.asarray(x, dtype=np.float32)
    total = np.zeros(x.shape[:-1], np.float32)
    for d in range(x.shape[-1]):
        total = total + x[..., d]
    return total


def run(op, inputs, n_rows, ctx):
    """The value of one op."""
    value = _RUN[op["op"]](op, op.get("attrs", {}), inputs, n_rows, ctx)
    return value


def _input(op, attrs, inputs, n_rows, ctx):
    value = ctx.batch.values[attrs["feature"]]
    return value.astype(ctx.dtype) if isinstance(value, np.ndarray) else ctx.in_rows(value)


def _const(op, attrs, inputs, n_rows, ctx):
    return ctx.param(op, "value")[None]


def _embed(op, attrs, inputs, n_rows, ctx):
    bags, pooling, mask = inputs[0], attrs.get("pooling", "single"), attrs.get("mask", "length")
    if pooling == "single":
        return ctx.gather(attrs["table"], bags.ids).astype(ctx.dtype)
    ids, valid = _positions(bags, pooling == "none" or mask == "none")
    flat = ctx.gather(attrs["table"], ids.reshape(-1))
    raw = flat.reshape(ids.shape + flat.shape[-1:])
    e = raw.astype(ctx.dtype)
    if pooling == "none":
        return e
    present = valid if mask != "none" else np.ones_like(valid)
    counted = {"length": valid, "none": present, "id": valid & (ids != bags.feature.get("pad_id", 0)),
               "nonzero": valid & (row_sum_f32(raw) != 0)}[mask]
    if pooling == "max":
        top = np.where(counted[..., None], e, -np.inf).max(axis=1, initial=-np.inf)
        return np.where(counted.any(axis=1)[:, None], top, ctx.dtype(attrs.get("empty", 0.0)))
    w = np.ones(ids.shape, ctx.dtype)
    if bags.weights is not None:
        w = np.zeros(ids.shape, ctx.dtype)
        w[valid] = bags.weights
    adds = valid if mask == "nonzero" else counted
    total = ((w * adds)[..., None] * e).sum(axis=1)
    if pooling == "sum":
        return total
    divisor = (w * counted).sum(axis=1) + attrs.get("eps", 0.0)
    return np.where(counted.any(axis=1)[:, None], total / divisor[:, None], 0.0).astype(ctx.dtype)


def _positions(bags, fixed):
    """(ids, valid) [rows, T]; T = max_len when their number is fixed, else the longest bag of the batch."""
    if fixed:
        return bags.padded()
    length = np.diff(bags.offsets)
    valid = np.arange(max(1, int(length.max(initial=0))))[None, :] < length[:, None]
    ids = np.full(valid.shape, bags.feature.get("pad_id", 0), dtype=np.int64)
    ids[valid] = bags.ids
    return ids, valid


def _mask(op, attrs, inputs, n_rows, ctx):
    if attrs["rule"] == "nonzero":
        return (row_sum_f32(inputs[0]) != 0).astype(ctx.dtype)
    ids, valid = inputs[0].padded()
    if attrs["rule"] == "id":
        valid = valid & (ids != inputs[0].feature.get("pad_id", 0))
    return valid.astype(ctx.dtype)


def _linear(op, attrs, inputs, n_rows, ctx):
    x, w, b = inputs[0], ctx.param(op, "weight"), ctx.param(op, "bias")
    if attrs.get("groups", 1) > 1:
        y = _grouped(np.broadcast_to(x, x.shape[:-2] + (len(w), x.shape[-1])), w)
        return y if b is None else y + b
    if attrs.get("axis", "last") == "field":
        y = w @ x
        return y if b is None else y + b[:, None]
    y = x @ w.T
    return y if b is None else y + b


def _grouped(x, w):
    """x [.., groups, in] and w [groups, out, in]: one product a group, so that each weight is read once and not once a row."""
    rows = x.reshape((-1,) + x.shape[-2:]).swapaxes(0, 1)
    return (rows @ w.swapaxes(1, 2)).swapaxes(0, 1).reshape(x.shape[:-1] + w.shape[1:2])


def _matmul(op, attrs, inputs, n_rows, ctx):
    a, b = inputs
    a = np.swapaxes(a, -1, -2) if attrs.get("trans_a", False) else a
    b = np.swapaxes(b, -1, -2) if attrs.get("trans_b", False) else b
    a, b = _align(a, b)
    return (a @ b) * ctx.dtype(attrs.get("alpha", 1.0))


def _align(*values):
    """Inserts dims of 1 after the row axis, so that the other dims align at the right."""
    n = max(x.ndim for x in values)
    return tuple(x.reshape(x.shape[:1] + (1,) * (n - x.ndim) + x.shape[1:]) for x in values)


def _binary(op, attrs, inputs, n_rows, ctx):
    x, y = _align(*inputs)
    return _BINARY[attrs["kind"]](x, y).astype(ctx.dtype)


_BINARY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "max": np.maximum, "min": np.minimum,
           "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
           "atan2": np.arctan2}


_UNARY = {
    "identity": lambda x: x, "relu": lambda x: np.maximum(x, 0), "sigmoid": sigmoid, "tanh": np.tanh, "exp": np.exp,
    "log": np.log, "abs": np.abs, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "silu": lambda x: x * sigmoid(x),
    "selu": lambda x: SELU_SCALE * np.where(x > 0, x, SELU_ALPHA * np.expm1(np.minimum(x, 0))),
    "gelu_erf": lambda x: 0.5 * x * (1 + _erf(x / math.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "softplus": lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))), "sin": np.sin, "cos": np.cos, "sign": np.sign,
}


def _unary(op, attrs, inputs, n_rows, ctx):
    x, kind, a, b = inputs[0], attrs["kind"], attrs.get("a"), attrs.get("b")
    if kind in _UNARY:
        return _UNARY[kind](x).astype(ctx.dtype)
    p = {role: ctx.param(op, role) for role in ("scale", "shift", "slope", "alpha")}
    if kind == "affine":
        return x * (a if p["scale"] is None else p["scale"]) + (b if p["shift"] is None else p["shift"])
    if kind == "dice":
        gate = sigmoid(p["scale"] * x + p["shift"])
        return gate * x + p["alpha"] * (1 - gate) * x
    return {"leaky": lambda: np.where(x > 0, x, a * x), "prelu": lambda: np.where(x > 0, x, p["slope"] * x),
            "elu": lambda: np.where(x > 0, x, a * np.expm1(np.minimum(x, 0))), "pow": lambda: np.power(x, a),
            "clamp": lambda: np.minimum(np.maximum(x, a), b)}[kind]().astype(ctx.dtype)


def _layer_norm(op, attrs, inputs, n_rows, ctx):
    x = inputs[0]
    centred = x - x.mean(axis=-1, keepdims=True)
    y = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + attrs.get("eps", 1e-5))
    gamma, beta = ctx.param(op, "gamma"), ctx.param(op, "beta")
    y = y if gamma is None else y * gamma
    return y if beta is None else y + beta


def _axis(x, axis):
    """The numpy axis of an axis counted over the dims without rows."""
    return axis % (x.ndim - 1) + 1


def _softmax(op, attrs, inputs, n_rows, ctx):
    x, axis, mode = inputs[0], _axis(inputs[0], attrs.get("axis", -1)), attrs.get("mask_mode", "none")
    if mode == "none":
        e = np.exp(x - x.max(axis=axis, keepdims=True))
        return e / e.sum(axis=axis, keepdims=True)
    mask, value = inputs[1], ctx.dtype(attrs.get("value", -1e9))
    if mask_is_prefix(x.shape[1:], mask.shape[1:], axis - 1):
        mask = mask.reshape(mask.shape + (1,) * (x.ndim - mask.ndim))
    x, mask = np.broadcast_arrays(*_align(x, mask))
    if mode == "ninf":
        top = np.where(mask != 0, x, -np.inf).max(axis=axis, keepdims=True)
        e = np.where(mask != 0, np.exp(x - np.where(np.isfinite(top), top, 0)), 0)
        total = e.sum(axis=axis, keepdims=True)
        return np.divide(e, total, out=np.zeros_like(e), where=total != 0)
    # Added in float32 as every library does: next to -1e9 nothing is left of x.
    x = (x + value * (1 - mask)).astype(np.float32).astype(ctx.dtype) if mode == "add" else np.where(mask != 0, x, value)
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def _reduce(op, attrs, inputs, n_rows, ctx):
    x, kind = inputs[0], attrs["kind"]
    axis, keep = _axis(x, attrs.get("axis", -1)), attrs.get("keepdim", False)
    mask = np.ones(x.shape, ctx.dtype)
    if len(inputs) == 2:
        mask = inputs[1].reshape(inputs[1].shape + (1,) * (x.ndim - inputs[1].ndim))
        x, mask = np.broadcast_arrays(x, mask)
    count = mask.sum(axis=axis, keepdims=keep)
    if kind == "sum":
        return (mask * x).sum(axis=axis, keepdims=keep)
    if kind == "sumsq":
        return (mask * x * x).sum(axis=axis, keepdims=keep)
    empty = ctx.dtype(attrs.get("empty", 0.0))
    if kind == "mean":
        y = (mask * x).sum(axis=axis, keepdims=keep) / (count + attrs.get("eps", 0.0))
        return np.where(count != 0, y, empty).astype(ctx.dtype)
    counted = (mask != 0).any(axis=axis, keepdims=keep)
    return np.where(counted, np.where(mask != 0, x, -np.inf).max(axis=axis, keepdims=keep), empty).astype(ctx.dtype)


def _concat(op, attrs, inputs, n_rows, ctx):
    axis = _axis(inputs[0], attrs.get("axis", -1))
    rows = max(len(x) for x in inputs) if n_rows else 0
    return np.concatenate([x if len(x) == rows else np.broadcast_to(x, (rows,) + x.shape[1:]) for x in inputs], axis=axis)


def _view(op, attrs, inputs, n_rows, ctx):
    x, kind = inputs[0], attrs["kind"]
    if kind == "reshape":
        return x.reshape((len(x),) + tuple(attrs["dims"]))
    if kind == "transpose":
        return x.transpose([0] + [p + 1 for p in attrs["perm"]])
    if kind == "expand":
        dims = tuple(attrs["dims"])
        return np.broadcast_to(x.reshape((len(x),) + (1,) * (len(dims) - x.ndim + 1) + x.shape[1:]), (len(x),) + dims)
    axis = _axis(x, attrs["axis"])
    indices = np.arange(attrs["begin"], attrs["end"]) if kind == "slice" else np.asarray(attrs["indices"])
    return np.take(x, indices, axis=axis)


def _recurrent(op, attrs, inputs, n_rows, ctx):
    rows = max(len(v) for v in inputs) if n_rows else 0
    x, mask = (np.broadcast_to(v, (rows,) + v.shape[1:]) for v in inputs[:2])
    att = np.broadcast_to(inputs[2], (rows,) + inputs[2].shape[1:]) if len(inputs) == 3 else None
    w_h = ctx.param(op, "w_hidden")
    m = w_h.shape[1]
    b_i, b_h = (np.zeros(3 * m, ctx.dtype) if p is None else p for p in (ctx.param(op, "b_input"), ctx.param(op, "b_hidden")))
    g = x @ ctx.param(op, "w_input").T + b_i
    h = np.zeros((rows, m), ctx.dtype)
    out = np.zeros((rows, x.shape[1], m), ctx.dtype)
    for t in range(x.shape[1]):
        u = h @ w_h.T + b_h
        r, z = sigmoid(g[:, t, :m] + u[:, :m]), sigmoid(g[:, t, m:2 * m] + u[:, m:2 * m])
        inner = r * u[:, 2 * m:] if attrs["reset"] == "after" else (r * h) @ w_h[2 * m:].T + b_h[2 * m:]
        n = np.tanh(g[:, t, 2 * m:] + inner)
        a = None if att is None else att[:, t, None]
        new = {"gru": lambda: (1 - z) * n + z * h, "agru": lambda: (1 - a) * h + a * n,
               "augru": lambda: (1 - a * z) * h + a * z * n,
               "vecatt": lambda: (1 - a) * z * h + (1 - (1 - a) * z) * n}[attrs["kind"]]()
        valid = mask[:, t, None] != 0
        h = np.where(valid, new, h)
        out[:, t] = np.where(valid, new, 0)
    return out if attrs["output"] == "all" else h


def _where(op, attrs, inputs, n_rows, ctx):
    cond, x, y = _align(*inputs)
    return np.where(cond != 0, x, y)


def _top_k(op, attrs, inputs, n_rows, ctx):
    x, axis = inputs[0], _axis(inputs[0], attrs.get("axis", -1))
    nan, number = np.isnan(x), np.nan_to_num(x, nan=0.0, posinf=np.inf, neginf=-np.inf)
    keys = (-number, ~nan) if attrs.get("largest", True) else (number, nan)  # the last key counts first; equal ones stay in order
    order = np.lexsort(keys, axis=axis)
    return np.take(order, np.arange(attrs["k"]), axis=axis).astype(ctx.dtype)


def _gather(op, attrs, inputs, n_rows, ctx):
    x, index = inputs
    axis = _axis(x, attrs.get("axis", -1))
    dims = np.broadcast_shapes(x.shape[:axis] + (1,) + x.shape[axis + 1:], index.shape[:axis] + (1,) + index.shape[axis + 1:])
    x = np.broadcast_to(x, dims[:axis] + x.shape[axis:axis + 1] + dims[axis + 1:])
    index = np.broadcast_to(index, dims[:axis] + index.shape[axis:axis + 1] + dims[axis + 1:])
    entry = np.clip(np.nan_to_num(index), 0, x.shape[axis] - 1).astype(np.int64)
    return np.where(np.isnan(index), index, np.take_along_axis(x, entry, axis=axis)).astype(ctx.dtype)


_RUN = {"Input": _input, "Const": _const, "Embed": _embed, "Mask": _mask, "Linear": _linear, "MatMul": _matmul,
        "Binary": _binary, "Unary": _unary, "LayerNorm": _layer_norm, "Softmax": _softmax, "Reduce": _reduce,
        "Concat": _concat, "View": _view, "Recurrent": _recurrent, "Where": _where,
        "TopK": _top_k, "Gather": _gather, "Attention": attention.run}
