"""Handlers of operators that go over an axis: sums, means, maxima, softmax, layer norm."""

import math

import numpy as np

from .batch_axis import argument, dims_of
from .emit import is_mask
from .lower_math import divided
from .lower_pick import position
from .values import Filled, Floats, expand, permute, reshape


_LEAST = -3e38  #: below every score, in place of minus infinity where it is replaced behind


def _axes(lower, node, at=1, key="dim"):
    """The axes, among the dims without the rows, that a reduction takes away."""
    x = node.args[0]
    return [lower.axis(x, d) for d in dims_of(node, argument(node, at, key))]


def _merged(lower, v, axes):
    """The value with these axes as one axis, and its place: neighbours are merged, others moved together first."""
    axes = sorted(axes)
    if axes != list(range(axes[0], axes[-1] + 1)):
        perm = [i for i in range(len(v.dims)) if i not in axes] + axes
        v, axes = permute(lower.g, v, perm), list(range(len(perm) - len(axes), len(perm)))
    dims = v.dims[:axes[0]] + (math.prod(v.dims[a] for a in axes),) + v.dims[axes[-1] + 1:]
    return reshape(lower.g, v, dims), axes[0]


def _reduce(lower, node, kind, v, axes, **keys):
    v, axis = _merged(lower, v, axes)
    return lower.elementwise(lower.g.reduce(kind, v.op, axis, **keys))


def reduction(kind):
    """sum or mean over any dims."""
    def handler(lower, node):
        value = lower.floats(node.args[0])
        axes = _axes(lower, node)
        if kind == "mean" and axes and lower.exact:  # a sum of whole numbers is exact, and so is torch's quotient
            return divided(lower, _reduce(lower, node, "sum", value, axes), float(math.prod(value.dims[a] for a in axes)))
        return _reduce(lower, node, kind, value, axes) if axes else value
    return handler


def maximum(lower, node):
    """The largest entry along an axis (max also gives where it stands); of masked entries, of those kept."""
    value, axes = lower.value(node.args[0]), _axes(lower, node)
    if isinstance(value, Filled) and len(axes) == 1 and value.fill < -1e8:
        out = _masked_maximum(lower, node, value, axes[0])
    else:
        out = _reduce_max(lower, node, lower.as_floats(value), axes)
    return out if hasattr(node.value, "dim") else [out, _place(lower, node, axes, True)]


def _place(lower, node, axes, largest):
    """Where the extreme entry stands, if that is asked for."""
    if not any(user.op == "getitem" and user.args[0] is node and user.args[1] == 1 for user in lower.pair.nodes):
        return None
    return position(lower, node.args[0], axes[0], _result_dims(lower, node), largest)


def _result_dims(lower, node):
    if hasattr(node.value, "dim"):
        return lower.dims(node)
    first, x = node.value[0], node.args[0]
    dims = list(lower.dims(x))
    for axis in sorted(_axes(lower, node), reverse=True):
        if len(first.shape) == len(x.shape):
            dims[axis] = 1
        else:
            del dims[axis]
    return tuple(dims)


def _reduce_max(lower, node, v, axes, sign=1.0):
    dims = _result_dims(lower, node)
    v, axis = _merged(lower, v, axes)
    op = lower.g.affine(lower.g.reduce("max", lower.g.affine(v.op, sign, 0.0), axis), sign, 0.0)
    return Floats(lower.g.reshape(op, dims), dims)


def _masked_maximum(lower, node, value, axis):
    """max over kept entries; `fill` where none is kept. The mask reaches up to the axis only where it says the same behind it."""
    g, dims = lower.g, _result_dims(lower, node)
    keep = lower.as_floats(value.keep)
    x = expand(g, lower.as_floats(value.x), value.dims)
    lead = (1,) * (len(value.dims) - len(keep.dims)) + keep.dims
    if not math.isfinite(value.fill):
        return _infinite_maximum(lower, value, axis, lead, dims)
    if math.prod(lead[axis + 1:]) != 1:
        return _reduce_max(lower, node, lower.filled(value), [axis])
    mask = g.expand(g.reshape(keep.op, lead[:axis + 1]), value.dims[:axis + 1])
    op = g.reduce("max", x.op, axis, mask, empty=float(value.fill))
    return Floats(g.reshape(op, dims), dims)


def _infinite_maximum(lower, value, axis, lead, dims):
    """The maximum where an entry is kept; where none is, still minus infinity: the model has to replace it by the same mask."""
    if math.prod(lead[axis + 1:]) != 1 or lead[axis] == 1:
        lower.refuse("takes a maximum over entries that may all be filled with minus infinity; fill with a finite number such as -1e9")
    finite = _masked_maximum(lower, lower.node, Filled(value.x, value.keep, _LEAST, value.dims), axis)
    g = lower.g
    kept = g.reduce("max", g.reshape(lower.as_floats(value.keep).op, lead[:axis + 1]), axis)
    kept_dims = tuple(d if i < axis else 1 for i, d in enumerate(dims)) if dims else ()
    return Filled(finite, Floats(g.reshape(kept, kept_dims), kept_dims), -math.inf, dims)


def minimum(lower, node):
    """-max(-x)"""
    axes = _axes(lower, node)
    out = _reduce_max(lower, node, lower.floats(node.args[0]), axes, -1.0)
    return out if hasattr(node.value, "dim") else [out, _place(lower, node, axes, False)]


def any_of(lower, node):
    """Whether any of several truth values holds: their maximum."""
    value = lower.floats(node.args[0])
    if not is_mask(value.op):
        lower.refuse("asks which computed numbers are not 0, for which there is no primitive")
    return _reduce_max(lower, node, value, _axes(lower, node))


def all_of(lower, node):
    """Whether all of several truth values hold: their minimum."""
    value = lower.floats(node.args[0])
    if not is_mask(value.op):
        lower.refuse("asks whether all computed numbers differ from 0, for which there is no primitive")
    return _reduce_max(lower, node, value, _axes(lower, node), -1.0)


def variance(lower, node):
    """Mean of the squared distances from the mean; Bessel's correction is a factor."""
    v, axes, g = lower.floats(node.args[0]), _axes(lower, node), lower.g
    unbiased = node.kwargs.get("unbiased", node.args[2] if len(node.args) > 2 and isinstance(node.args[2], bool) else True)
    correction = argument(node, 2, "correction", 1) if "correction" in node.op else int(bool(unbiased))
    merged, axis = _merged(lower, v, axes)
    n = merged.dims[axis]
    mean = g.reshape(g.reduce("mean", merged.op, axis), merged.dims[:axis] + (1,) + merged.dims[axis + 1:])
    centred = g.binary("sub", merged.op, mean)
    total = g.reduce("sum", g.binary("mul", centred, centred), axis)
    return lower.elementwise(g.affine(total, 1.0 / (n - (1 if correction is None else correction)), 0.0))


def deviation(lower, node):
    """The root of the variance."""
    v = variance(lower, node)
    return Floats(lower.g.unary("sqrt", v.op), v.dims)


def norm(lower, node):
    """Of order 2, 1, infinity (the largest), minus infinity (the smallest), 0 (how many are not 0), or any other above 0."""
    order = argument(node, 1, "ord" if "linalg" in node.base else "p", 2)
    order, axes = 2.0 if order is None else float(order), _axes(lower, node, 2, "dim")
    v, g = lower.floats(node.args[0]), lower.g
    merged, axis = _merged(lower, v, axes)
    if order == 2:
        return lower.elementwise(g.unary("sqrt", g.reduce("sumsq", merged.op, axis)))
    if order == 1:
        return lower.elementwise(g.reduce("sum", g.unary("abs", merged.op), axis))
    size = g.unary("abs", merged.op)
    if order == math.inf:
        return lower.elementwise(g.reduce("max", size, axis))
    if order == -math.inf:
        return lower.elementwise(g.unary("affine", g.reduce("max", g.unary("affine", size, a=-1.0, b=0.0), axis), a=-1.0, b=0.0))
    if order == 0:
        return lower.elementwise(g.reduce("sum", g.binary("ne", size, g.const([0.0])), axis))
    if order < 0:
        return lower.refuse(f"norm of order {order}: expected 0 or more; write x.abs().pow(p).sum(dim).pow(1 / p) for numbers that are never 0")
    return lower.elementwise(g.unary("pow", g.reduce("sum", g.unary("pow", size, a=order), axis), a=1 / order))


def cumsum(lower, node):
    """Running sums: a product with a triangle of ones."""
    axis, v = lower.axis(node.args[0], node.args[1]), lower.floats(node.args[0])
    size = v.dims[axis]
    return _last(lower, v, axis, lambda op: lower.g.linear(op, np.tril(np.ones((size, size), np.float32))))


def _last(lower, v, axis, apply):
    """apply(op) with an axis as the last one, and back."""
    rank = len(v.dims)
    if axis == rank - 1:
        return Floats(apply(v.op), v.dims)
    perm = [i for i in range(rank) if i != axis] + [axis]
    back = [perm.index(i) for i in range(rank)]
    return Floats(lower.g.transpose(apply(lower.g.transpose(v.op, perm)), back), v.dims)


def softmax(lower, node):
    """Softmax; a fill in front of it becomes its mask."""
    value, axis = lower.value(node.args[0]), lower.axis(node.args[0], node.args[1])
    if not isinstance(value, Filled) or value.fill > -1e3:
        return _last(lower, lower.as_floats(value), axis, lower.g.softmax)
    x = expand(lower.g, lower.as_floats(value.x), value.dims)
    keep = lower.as_floats(value.keep)
    if axis != len(value.dims) - 1:
        keep = expand(lower.g, keep, value.dims)
        perm = [i for i in range(len(x.dims)) if i != axis] + [axis]
        keep = permute(lower.g, keep, perm)
    mode, number = ("ninf", -1e9) if math.isinf(value.fill) else ("replace", float(value.fill))
    return _last(lower, x, axis, lambda op: lower.g.softmax(op, _mask_for(lower, keep, op.shape), mode, number))


def _mask_for(lower, keep, dims):
    """The mask without dims of 1 in front; all dims of x where it could be taken for the first of them."""
    lead = list(keep.dims)
    while len(lead) > 1 and lead[0] == 1:
        lead.pop(0)
    op = lower.g.reshape(keep.op, lead or [1])
    if len(lead) < len(dims) and tuple(lead) == tuple(dims[:len(lead)]):
        return expand(lower.g, Floats(op, lead), dims).op
    return op


def log_softmax(lower, node):
    """x - max - log(sum(exp(x - max)))"""
    return _last(lower, lower.floats(node.args[0]), lower.axis(node.args[0], node.args[1]), lambda op: _minus_log_sum(lower.g, op))


def _minus_log_sum(g, op):
    lead = op.shape[:-1] + (1,)
    centred = g.binary("sub", op, g.reshape(g.reduce("max", op, -1), lead))
    total = g.unary("log", g.reduce("sum", g.unary("exp", centred), -1))
    return g.binary("sub", centred, g.reshape(total, lead))


def logsumexp(lower, node):
    """max + log(sum(exp(x - max)))"""
    v, g = lower.floats(node.args[0]), lower.g
    merged, axis = _merged(lower, v, _axes(lower, node))
    top = g.reduce("max", merged.op, axis)
    centred = g.binary("sub", merged.op, g.reshape(top, merged.dims[:axis] + (1,) + merged.dims[axis + 1:]))
    return lower.elementwise(g.binary("add", g.unary("log", g.reduce("sum", g.unary("exp", centred), axis)), top))


def layer_norm(lower, node):
    """LayerNorm over the last dims, as one axis."""
    x, count = node.args[0], len(node.args[1])
    gamma, beta = (None if node.args[i] is None else lower.weight(node.args[i]).reshape(-1) for i in (2, 3))
    v = lower.floats(x)
    lead = v.dims[:len(v.dims) - count]
    flat = reshape(lower.g, v, lead + (math.prod(v.dims[len(lead):]),))
    op = lower.g.op("LayerNorm", [flat.op], {"eps": float(node.args[4])}, {"gamma": gamma, "beta": beta})
    return [reshape(lower.g, Floats(op, flat.dims), v.dims), None, None]
