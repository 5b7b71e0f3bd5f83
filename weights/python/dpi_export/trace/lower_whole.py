"""Handlers of computed whole numbers: numbers cut to integers, buckets, and the rows of a table or entries of a constant that they pick.

An id on its own never comes here: what a model does to it is a table over its vocabulary (values.Maps).
"""

import math

import numpy as np

from . import jumps, lookups, lower_math
from .batch_axis import argument
from .emit import is_mask
from .lower_ints import bounds, is_bool
from .pair import plain
from .values import Floats, Refs, Whole

_MOST = 1 << 24  #: entries of a constant that rows are picked from: positions are floats
_FLOATS = 1 << 24  #: up to here every whole number is a float32
_TABLE = 1 << 20  #: entries of a function of a whole number
_LIMITS = {"torch.int64": 2.0**63, "torch.int32": 2.0**31}  #: the first number that a type does not hold
_REACHED = 256  #: integers that a function is compared with


# -- numbers cut to integers --------------------------------------------------------------------------------------------
def to_copy(lower, node):
    """A copy in another type; a float that becomes an integer loses its fraction."""
    x, value = node.args[0], lower.value(node.args[0])
    cut = x.value.dtype.is_floating_point and not node.value.dtype.is_floating_point and not is_bool(node)
    if not cut or isinstance(value, Refs) and not _numbers(lower, value):
        return lower_math.to_copy(lower, node)
    v = lower.as_floats(value)
    low, high = _interval(v.op)
    if low is None or high is None:
        low, high = bounds(lower.g, v.op) or (low, high)
    if low is not None and low > -1 and high is not None:  # what is cut lies within them
        return _cut(lower, v, 0, int(high))
    if low is not None and high is not None:
        return _signed(lower, Whole(v, "", int(low), int(high)), x)
    return v if is_mask(v.op) else Whole(v, f"{node.place()}: turns computed numbers into integers, of which it is not known that they lie "
                                         "between two numbers; clamp them", 0 if low is not None and low > -1 else None,
                                         limit=_LIMITS.get(str(node.value.dtype)))


def _numbers(lower, refs):
    return all(name is not None and not lower.features[name].has_ids and lower.features[name].kind != "length" for name, _, _ in refs.flat())


def floor(lower, node):
    """The largest integer that is not above x, where a clamp says how large it may be, or says so behind."""
    return _downwards(lower, node, True)


def truncated(lower, node):
    """x without its fraction, likewise."""
    return _downwards(lower, node, False)


def _check_multiples(lower, op, low, high):
    """Refuses a // n, % n or fmod of formulas.py where multiples of n may be no floats: its quotient is rounded up to one of them then."""
    while op.kind == "View":
        op = op.ins[0]
    by = lower.g.quotients.get(op)
    if by is not None and max(abs(low), abs(high)) * by > _FLOATS:
        lower.refuse(f"divides numbers up to {max(abs(low), abs(high)) * by:g} by {by:g}, and beyond {_FLOATS} float32 has not every multiple; clamp them "
                     "within it before, or give the quotient or the rest as a feature")


def _downwards(lower, node, floors):
    v, cloned = lower.floats(node.args[0]), node.args[0]
    if plain(cloned.base) == "clone" and plain(cloned.args[0].base) == "div":
        lower.g.quotients[v.op] = lower.number(cloned.args[0].args[1])
    low, high = _interval(v.op)
    if low is not None and low >= 0 and high is not None:
        return _cut(lower, v, 0, int(high))
    whole = Whole(v, f"{node.place()}: rounds numbers of any size; clamp them between two numbers", 0 if low is not None and low >= 0 else None,
                  floors=floors)
    return whole if low is None or high is None else _signed(lower, whole.within(math.floor(low), math.ceil(high)), node.args[0])


def ceil(lower, node):
    """The least integer that is not below x: how many integers are below."""
    low, high = _bounded(lower, node)
    return _stepped(lower, node.args[0], math.ceil(low), {"gt": np.arange(math.ceil(low), math.ceil(high))})


def rounded(lower, node):
    """The nearest integer, of two the even one."""
    if argument(node, 1, "decimals", 0):
        lower.refuse("rounds to decimals; multiply, round and divide")
    low, high = _bounded(lower, node)
    halves = np.arange(round(low), round(high)) + 0.5
    up = (halves + 0.5) % 2 == 0
    return _stepped(lower, node.args[0], round(low), {"ge": halves[up], "gt": halves[~up]})


def _bounded(lower, node):
    low, high = _interval(lower.floats(node.args[0]).op)
    if low is None or high is None or high - low > _REACHED:
        lower.refuse(f"rounds numbers of any size; clamp them between two numbers before, at most {_REACHED} apart")
    return low, high


def _signed(lower, value, node=None):
    """A Whole between two numbers of which one is negative: how many steps it is above the least."""
    _check_multiples(lower, value.x.op, value.low, value.high)
    if value.high - value.low > _REACHED:
        lower.refuse(f"cuts numbers to integers between {value.low} and {value.high}; from below 0 on, they may be {_REACHED} apart")
    up = np.arange(value.low, value.high + 1)
    steps = {"ge": up[1:]} if value.floors else {"ge": up[up > 0], "gt": up[(up < 0) & (up < value.high)]}
    return _stepped(lower, node or lower.node_of(value.x.op), value.low, steps, value.x, value.limit)


def _stepped(lower, node, first, steps, v=None, limit=None):
    """first + how many comparisons with `steps`, {kind: numbers}, hold for what a node gives; first, too, from `limit` on."""
    v, g, total = lower.floats(node) if v is None else v, lower.g, None
    dims = [math.prod(v.dims), 1]
    for kind, numbers in steps.items():
        if len(numbers):
            array = np.asarray(numbers, np.float32)
            held = None if node is None else jumps.compared(lower, node, kind, array, dims)
            held = g.binary(kind, g.reshape(v.op, dims), g.const(array)) if held is None else held
            count = g.reduce("sum", held, 1)
            total = count if total is None else g.binary("add", total, count)
    if total is not None and limit is not None:
        held = None if node is None else jumps.compared(lower, node, "lt", np.array(limit), dims[:1])
        total = g.binary("mul", total, held or g.binary("lt", g.reshape(v.op, dims[:1]), g.const(np.array([limit], np.float32))))
    if total is None:
        return Floats(g.reshape(g.const(np.full(dims[:1], first, np.float32)), v.dims), v.dims)
    return Floats(g.reshape(g.affine(total, 1.0, float(first)), v.dims), v.dims)


def clamp(handler, low=None, high=None):
    """A clamp, which says between which numbers an integer lies. `low`, `high`: where the argument that bounds it stands."""
    def lowered(lower, node):
        value = lower.value(node.args[0])
        if not isinstance(value, Whole):
            return handler(lower, node)
        given = [None if at is None else argument(node, at, key) for at, key in ((low, "min"), (high, "max"))]
        ends = [None if end is None else lower.number(end) for end in given]
        if any(end is None and held is not None for end, held in zip(ends, given)):
            lower.refuse("bounds integers by values that it computes")
        value = value.within(*ends)
        if value.low is None or value.high is None:
            return value
        if value.high < value.low:
            lower.refuse(f"cuts numbers to integers between {value.low} and {value.high}, of which there is none")
        if value.low < 0:
            return _signed(lower, value)
        return _cut(lower, value.x, value.low, value.high, value.limit)
    return lowered


def _cut(lower, v, low, high, limit=None):
    """v clamped and without its fraction, low and high not below 0: the entry of 0, 1, 2 .. at position v. Of a function such as log, the
    integers are counted that it reaches (jumps.py). What is `limit` or more, or NaN, is the smallest integer in torch, so `low`."""
    _check_multiples(lower, v.op, low, high)
    if high >= _TABLE:
        lower.refuse(f"cuts numbers up to {high} to integers, and only those below {_TABLE} can be")
    g, size, node = lower.g, math.prod(v.dims), lower.node_of(v.op)
    if node is not None and low < high <= low + _REACHED:
        reached = jumps.compared(lower, node, "ge", np.arange(low + 1, high + 1), [size, 1])
        if reached is not None:
            count = g.reduce("sum", reached, 1)
            if limit is not None and (held := jumps.compared(lower, node, "lt", np.array(limit), [size])) is not None:
                count = g.binary("mul", count, held)
            return Floats(g.reshape(g.affine(count, 1.0, float(low)), v.dims), v.dims)
    flat = g.reshape(v.op, [size])
    inside = g.unary("clamp", flat, a=float(low), b=float(high))
    most = _interval(v.op)[1]
    if limit is not None and (most is None or most >= limit):
        inside = g.op("Where", [g.binary("lt", flat, g.const(np.array([limit], np.float32))), inside, g.const(np.array([low], np.float32))])
    return Floats(g.reshape(g.gather(g.const(np.arange(high + 1)), inside, 0), v.dims), v.dims)


def _interval(op):
    """(least, most) that a computed number can be, None where that is not known."""
    if op.kind == "View":
        return _interval(op.ins[0])
    if op.kind == "Unary":
        kind, (low, high) = op.attrs["kind"], _interval(op.ins[0])
        if kind == "clamp":
            return op.attrs["a"], op.attrs["b"]
        if kind == "relu":
            return 0.0, None if high is None else max(0.0, high)
        if kind == "sigmoid":
            return 0.0, 1.0
        if kind in ("exp", "softplus", "abs", "sqrt"):
            return 0.0, None
        if kind == "log":
            return None if low is None or low < 1 else 0.0, None if high is None or high < 1 else math.log(high)
        if kind == "affine" and not op.params:
            ends = [None if end is None else op.attrs["a"] * end + op.attrs["b"] for end in (low, high)]
            return tuple(ends if op.attrs["a"] >= 0 else ends[::-1])
    if op.kind == "Binary" and op.attrs["kind"] in ("max", "min"):
        at = 0 if op.attrs["kind"] == "max" else 1
        known = [end for end in (_interval(x)[at] for x in op.ins) if end is not None]
        return (max(known), None) if known and at == 0 else (None, min(known)) if known else (None, None)
    if op.kind == "Binary" and op.attrs["kind"] in ("add", "sub", "mul", "div"):
        return _arithmetic(op.attrs["kind"], *map(_interval, op.ins))
    if op.kind == "Const":
        return float(op.params["value"].min()), float(op.params["value"].max())
    return (0.0, 1.0) if is_mask(op) else (None, None)


def _arithmetic(kind, x, y):
    """(least, most) of x + y, x - y, x * y or x / y."""
    x, y = ((-math.inf if v[0] is None else v[0], math.inf if v[1] is None else v[1]) for v in (x, y))
    if kind == "div" and y[0] <= 0 <= y[1]:
        return None, None
    if kind in ("add", "sub"):
        ends = (x[0] + y[0], x[1] + y[1]) if kind == "add" else (x[0] - y[1], x[1] - y[0])
    else:
        ends = [a * b if kind == "mul" else a / b for a in x for b in y]
        ends = (None, None) if any(math.isnan(e) for e in ends) else (min(ends), max(ends))
    return tuple(None if e is None or not math.isfinite(e) else e for e in ends)


# -- buckets ------------------------------------------------------------------------------------------------------------
def bucketize(lower, node):
    """How many boundaries lie below x (not above it with right=True)."""
    return _count_below(lower, node, node.args[0], node.args[1])


def searchsorted(lower, node):
    """As bucketize, with the boundaries in front."""
    return _count_below(lower, node, node.args[1], node.args[0])


def _count_below(lower, node, x, edges):
    if not hasattr(edges, "varies") or edges.varies or len(edges.shape) != 1 or not hasattr(x, "varies"):
        lower.refuse("takes boundaries that it computes, or several lists of them")
    whole = lower.pair.constant(edges, node)
    array = whole.astype(np.float32)
    if (np.diff(array) < 0).any() or node.kwargs.get("sorter") is not None:
        lower.refuse("has boundaries that are not in order")
    if not np.array_equal(array.astype(np.float64), whole.astype(np.float64)) or not np.isfinite(array).all():
        lower.refuse("has boundaries that a float32 cannot hold")
    right = bool(node.kwargs.get("right", False)) or node.kwargs.get("side") == "right"
    v, g = lower.floats(x), lower.g
    kind = "lt" if right else "le"  # not "gt": a NaN lies behind the last one
    dims = [math.prod(v.dims), 1]
    above = jumps.compared(lower, x, kind, array, dims)
    if above is None:
        above = g.binary(kind, g.reshape(v.op, dims), g.const(array))
    return lower.elementwise(g.reduce("sum", g.affine(above, -1.0, 1.0), 1))


# -- what they pick -----------------------------------------------------------------------------------------------------
def lookup(lower, node, weight, ids):
    """Rows of a constant [rows, ...] at computed positions; a negative one counts from the end where the operator says so."""
    values, v, g = lower.weight(weight), positions(lower, node, lower.value(ids)), lower.g
    if values.size > _MOST:
        lower.refuse(f"looks up rows of a table of {values.size} entries by numbers that it computes from several inputs, and that is done for "
                     f"tables of up to {_MOST} entries only; compute the id in preprocessing and give it as a feature")
    flat = g.reshape(v.op, [math.prod(v.dims), 1])
    if node.base == "index":
        low = bounds(g, flat)
        if low is None or low[0] < 0:
            flat = g.op("Where", [g.binary("lt", flat, g.const([[0.0]])), g.affine(flat, 1.0, float(len(values))), flat])
    rows = g.gather(g.const(values.reshape(len(values), -1)), flat, 0)
    return Floats(g.reshape(rows, v.dims + values.shape[1:]), v.dims + values.shape[1:])


def positions(lower, node, value):
    """What is picked is picked without the fraction of its position, and below 0 the first."""
    if not isinstance(value, Whole):
        return lower.as_floats(value)
    if node.base == "index" and (value.low is None or value.low < 0):
        lower.refuse("picks entries by integers that may be negative, which count from the end; clamp(min=0) them before")
    op = value.x.op
    for end, kind in ((value.low, "max"), (value.high, "min")):
        if end is not None:
            op = lower.g.binary(kind, op, lower.g.const([end]))
    return Floats(op, value.dims)


def index(handler):
    """x[i] of a constant x with computed i; what else an index is, `handler` knows."""
    def lowered(lower, node):
        x, indices = node.args[0], node.args[1]
        if x.varies or len(indices) != 1:
            return handler(lower, node)
        value = lower.value(indices[0])
        if is_bool(indices[0]):
            lower.refuse("picks entries of a constant by a mask")
        if isinstance(value, Refs) and len(x.shape) == 2 and _only_ids(lower, value):
            return lookups.embedding(lower, x, lower.weight(x), (x.name or "table").removesuffix(".weight").replace(".", "/"), value)
        return lower.reshaped(node, lookup(lower, node, x, indices[0]))
    return lowered


def _only_ids(lower, refs):
    """Ids, and none that counts from the end."""
    return all(name is not None and lower.features[name].has_ids and (lower.maps.is_identity(key) or int(lower.maps[key].min()) >= 0)
               for name, _, key in set(refs.flat()))


# -- functions of them --------------------------------------------------------------------------------------------------
def function(handler=None):
    """remainder, floor_divide and quotients that are rounded, of a computed whole number and a constant one: a list of all results."""
    def lowered(lower, node):
        import torch

        rounds = node.base != "div" or argument(node, 2, "rounding_mode") is not None
        if not rounds:
            return handler(lower, node)
        x, by = node.args[0], lower.number(node.args[1])
        held = lower.floats(x) if hasattr(x, "varies") and not x.value.dtype.is_floating_point else None
        reach = None if held is None or by is None or by != int(by) else bounds(lower.g, held.op)
        if reach is None or reach[1] - reach[0] >= _TABLE:
            lower.refuse(f"rounds a quotient of computed numbers; only whole numbers, of which it is known that there are fewer than {_TABLE}, "
                         "can be divided so by a whole number. Write clamp(low, high) before it")
        made = getattr(torch, node.base)(torch.arange(int(reach[0]), int(reach[1]) + 1), int(by), **node.kwargs)
        position = lower.g.affine(lower.g.reshape(held.op, [math.prod(held.dims)]), 1.0, -reach[0])
        return lower.elementwise(lower.g.gather(lower.g.const(made.numpy()), position, 0))
    return lowered
