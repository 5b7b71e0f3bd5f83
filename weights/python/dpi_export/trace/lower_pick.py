"""Handlers of what picks entries by their size or by computed positions: TopK gives positions, Gather the entries there.

Of equal entries TopK takes the first ones. torch says so of argmax, max and a stable sort; of topk it leaves the order open.
"""

import math

import numpy as np

from .batch_axis import argument
from .lower_math import constant_number
from .pair import plain
from .values import Filled, Floats, expand, reshape, take

_LEAST = float(np.finfo(np.float32).min)  #: stands for minus infinity where entries are only compared


def _top(lower, v, axis, k, largest):
    return lower.g.op("TopK", [v.op], {"k": int(k), "axis": axis, **({} if largest else {"largest": False})})


def _values(lower, v, positions, axis):
    op = lower.g.op("Gather", [v.op, positions], {"axis": axis})
    return [Floats(op, op.shape), Floats(positions, positions.shape)]


def _picked(lower, x, axis, k, largest):
    """(values, positions). Of what is filled with minus infinity the values stay so."""
    value = lower.value(x) if x.varies else None
    if not isinstance(value, Filled) or value.fill != -math.inf:
        v = lower.floats(x)
        return _values(lower, v, _top(lower, v, axis, k, largest), axis)
    inner, keep = (expand(lower.g, lower.as_floats(part), value.dims) for part in (value.x, value.keep))
    op = lower.g.op("Where", [keep.op, inner.op, lower.g.const([_LEAST])])
    positions = _top(lower, Floats(op, value.dims), axis, k, largest)
    (held, at), (kept, _) = _values(lower, inner, positions, axis), _values(lower, keep, positions, axis)
    return [Filled(held, kept, value.fill, held.dims), at]


def topk(lower, node):
    """(values, positions) of the k largest or smallest."""
    x, k, largest = node.args[0], node.args[1], bool(argument(node, 3, "largest", True))
    return _picked(lower, x, lower.axis(x, argument(node, 2, "dim", -1)), k, largest)


def sort(lower, node):
    """(values, positions) of all entries in order."""
    keys = dict(node.kwargs)
    rest = [a for a in node.args[1:] if not (isinstance(a, bool) and "stable" in node.op and a is node.args[1])]
    dim = keys.get("dim", rest[0] if rest else -1)
    descending = keys.get("descending", rest[1] if len(rest) > 1 else False)
    axis = lower.axis(node.args[0], dim)
    return _picked(lower, node.args[0], axis, lower.dims(node.args[0])[axis], bool(descending))


def argsort(lower, node):
    """The positions of sort()."""
    return sort(lower, node)[1]


def extreme(largest):
    """argmax and argmin: where the first largest or smallest entry stands."""
    def handler(lower, node):
        axis, v = lower.axis(node.args[0], argument(node, 1, "dim")), lower.floats(node.args[0])
        return lower.elementwise(lower.g.reshape(_top(lower, v, axis, 1, largest), lower.dims(node) or (1,)))
    return handler


def position(lower, x, axis, dims, largest):
    """Where the extreme entry along an axis stands, under other dims."""
    v = lower.floats(x)
    return Floats(lower.g.reshape(_top(lower, v, axis, 1, largest), dims or (1,)), dims)


def gather(lower, node):
    """x at computed positions of one dim. Positions that are repeated along the other dims stay one."""
    x, dim, index = node.args[:3]
    axis, v, at = lower.axis(node, dim), lower.floats(x), lower.floats(index)
    for i, size in enumerate(at.dims):
        if i != axis and v.dims[i] != size:
            v = take(lower.g, v, i, list(range(size)))
    op = at.op
    if op.is_a("View", kind="expand") and len(op.ins[0].shape) == len(op.shape):
        narrow = op.ins[0]
        if narrow.shape[axis] == op.shape[axis]:
            op = narrow
    return lower.elementwise(lower.g.op("Gather", [v.op, op], {"axis": axis}))


def scatter(lower, node):
    """x with entries written, or added, at computed places of one dim: each entry looks which of them are for it. Places that could be the
    same one are refused where torch leaves open which entry stays: those of one TopK never are."""
    x, dim, index, source = node.args[:4]
    axis, dims, at, adds = lower.axis(node, dim), lower.dims(node), lower.floats(index), plain(node.base) == "scatter_add"
    g, number = lower.g, lower.number(source)
    apart = at.dims[axis] == 1 or at.op.kind == "TopK" and at.op.attrs["axis"] % len(dims) == axis
    if "reduce" in node.kwargs or at.dims[:axis] + at.dims[axis + 1:] != dims[:axis] + dims[axis + 1:]:
        lower.refuse("reduces what it writes, or leaves entries of other dims out; scatter_add over all of them adds")
    if not (adds or number is not None or apart):
        lower.refuse("writes at places that may be the same one; scatter_add adds what meets there")
    spread = at.dims[:axis + 1] + (1,) + at.dims[axis + 1:]  # one entry of the result stands behind each place
    places = np.arange(dims[axis], dtype=np.float32).reshape((-1,) + (1,) * (len(dims) - axis - 1))
    here = g.binary("eq", g.reshape(at.op, spread), g.const(places))
    old = expand(g, lower.floats(x), dims).op
    if number is not None and not adds:
        return lower.elementwise(g.op("Where", [g.reduce("max", here, axis), constant_number(lower, number).op, old]))
    new = constant_number(lower, number).op if number is not None else g.reshape(
        expand(g, take(g, lower.floats(source), axis, list(range(at.dims[axis]))), at.dims).op, spread)
    written = g.reduce("sum", g.binary("mul", here, new), axis)
    return lower.elementwise(g.binary("add", old, written) if adds else g.op("Where", [g.reduce("max", here, axis), written, old]))


def masked_select(lower, node):
    """The entries where a mask that is the same for all rows holds."""
    x, mask = node.args[:2]
    value, keep = lower.value(x), lower.constant(mask, x)
    keep = np.broadcast_to(keep, value.dims).reshape(-1).astype(bool)
    flat = reshape(lower.g, value, (keep.size,))
    return lower.reshaped(node, take(lower.g, flat, 0, np.flatnonzero(keep).tolist()))


def index_put(number_by_mask):
    """x with a value where a mask holds: x[mask] = y and x[mask, 3] = 0 are a choice; x[mask] = number `number_by_mask` knows."""
    def handler(lower, node):
        alone = len(node.args[1]) == 1 and lower.number(node.args[2]) is not None
        return number_by_mask(lower, node) if alone else _put(lower, node)
    return handler


def _put(lower, node):
    x, indices, part = node.args[:3]
    g, dims = lower.g, lower.dims(node)
    mask = lower.floats(indices[0]).op
    mask = g.reshape(mask, (() if mask.shape == (1,) and not lower.dims(indices[0]) else mask.shape) + (1,) * (
        len(dims) - len(lower.dims(indices[0])))) if dims else mask
    first = len(indices[0].shape)
    for i, index in enumerate(indices[1:], start=first):
        if index is not None:
            here = np.zeros(node.shape[i], np.float32)
            here[int(lower.constant(index).reshape(-1)[0])] = 1
            axis = lower.axis(node, i)
            mask = g.binary("mul", mask, g.const(here.reshape((1,) * axis + (-1,) + (1,) * (len(dims) - axis - 1))))
    number = lower.number(part)
    new = constant_number(lower, number) if number is not None else lower.floats(part)
    old = lower.floats(x)
    return lower.elementwise(_choice(lower, mask, new.op, old.op, dims))


def _choice(lower, mask, new, old, dims):
    op = lower.g.op("Where", [mask, new, old])
    return op if op.shape == (dims or (1,)) else lower.g.expand(op, dims)
