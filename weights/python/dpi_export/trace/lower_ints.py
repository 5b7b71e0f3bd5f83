"""Integers and truth values among the floats of a bundle: what torch computes by type is lowered by type, or refused where a float cannot.

A float32 holds whole numbers up to 2^24; torch's narrow integers wrap around. An operator on one id alone never comes here: it is a
table that torch itself computed.
"""

import numpy as np

from ..ops.shapes import BINARY
from .emit import is_mask
from .pair import plain
from .values import Filled, Floats, Refs

_EXACT = 1 << 24
_NARROW = {"torch.uint8": (0, 255), "torch.int8": (-128, 127), "torch.int16": (-(1 << 15), (1 << 15) - 1),
           "torch.int32": (-(1 << 31), (1 << 31) - 1)}
_INEXACT_INPUTS = ("torch.int64", "torch.float64", "torch.int32")
_ARITHMETIC = ("add", "sub", "rsub", "mul", "neg", "square", "pow", "addcmul", "cumsum", "abs", "_to_copy")

_SHORT = ("torch.bfloat16", "torch.float16")
#: Operators that round nothing.
_MOVES = set("""embedding getitem view _unsafe_view reshape _reshape_alias unsqueeze squeeze permute transpose t expand repeat slice select split
 unsafe_split split_with_sizes unbind cat stack index index_select flip roll clone detach alias contiguous lift_fresh""".split())


def check_result(lower, node, value):
    """Refuses arithmetic in short floats, in an integer type that may wrap around, or in int64 beyond what a float32 holds."""
    dtype = str(getattr(node.value, "dtype", ""))
    if dtype in _SHORT and plain(node.base) not in _MOVES:
        lower.refuse(f"computes in {dtype}, and a bundle computes in float32: convert with .float() before (a table may stay as it is)")
    if lower.exact and dtype == "torch.float64" and plain(node.base) not in (*_MOVES, "_to_copy") and isinstance(value, Floats):
        lower.refuse("computes in torch.float64 what a comparison, a bucket or a cut to integers decides by, and a bundle computes in float32: "
                     "convert with .float() before")
    if node.base not in _ARITHMETIC or not isinstance(value, Floats) or dtype not in (*_NARROW, "torch.int64"):
        return
    least_most = bounds(lower.g, value.op)
    if dtype == "torch.int64":
        if least_most is not None and max(map(abs, least_most)) > _EXACT:
            lower.refuse(f"computes whole numbers up to {max(map(abs, least_most)):.0f}, and a float32 holds them up to 2^24 only; convert "
                         "to float32 before, or compute them in preprocessing")
        return
    low, high = _NARROW[dtype]
    if least_most is None or least_most[0] < low or least_most[1] > high:
        lower.refuse(f"computes in {dtype}, which wraps around outside {low}..{high}; convert to torch.int64 or float32 before")


def bounds(g, op):
    """(least, most) of a value of whole numbers, or None where they are not known."""
    if is_mask(op):
        return 0.0, 1.0
    if op.kind == "Const":
        return float(op.params["value"].min()), float(op.params["value"].max())
    if op.kind == "Embed" and op.attrs.get("pooling", "single") in ("single", "none"):
        return float(g.tables[op.attrs["table"]].min()), float(g.tables[op.attrs["table"]].max())
    if op.kind == "Gather":
        return bounds(g, op.ins[0])
    if op.kind == "TopK":
        return 0.0, float(op.ins[0].shape[op.attrs["axis"]] - 1)
    if op.kind not in ("View", "Concat", "Unary", "Binary", "Reduce"):
        return None
    held = [bounds(g, i) for i in op.ins]
    if any(b is None for b in held):
        return None
    if op.kind in ("View", "Concat"):
        return min(b[0] for b in held), max(b[1] for b in held)
    if op.is_a("Unary", kind="affine") and not op.params:
        return tuple(sorted(op.attrs["a"] * end + op.attrs["b"] for end in held[0]))
    if op.is_a("Unary", kind="clamp"):
        return tuple(min(max(end, op.attrs["a"]), op.attrs["b"]) for end in held[0])
    if op.is_a("Unary", kind="relu"):
        return tuple(max(end, 0.0) for end in held[0])
    if op.is_a("Reduce", kind="sum") and len(held) == 1:
        count = int(np.prod(op.ins[0].shape)) // int(np.prod(op.shape))
        return min(0.0, held[0][0] * count), max(0.0, held[0][1] * count)
    return _of_two(op, *held) if op.kind == "Binary" else None


def _of_two(op, x, y):
    kind = op.attrs["kind"]
    if kind == "add":
        return x[0] + y[0], x[1] + y[1]
    if kind == "sub":
        return x[0] - y[1], x[1] - y[0]
    if kind == "mul":
        ends = [a * b for a in x for b in y]
        return min(ends), max(ends)
    if kind in ("max", "min"):
        return min(x[0], y[0]), max(x[1], y[1])
    return None


def check_input(lower, held, refs):
    """Refuses 64-bit numbers that the model computes with as such: a bundle holds a numeric feature as float32. Where the model converts
    them to float32 first, or torch does, the numbers are the same."""
    types = (str(held.value.dtype), str(getattr(lower.node.value, "dtype", "")))
    if types[0] not in _INEXACT_INPUTS or types[1] in ("torch.float32", "torch.float16", "torch.bfloat16"):
        return
    for name in dict.fromkeys(cell[0] for cell in refs.flat()):
        if name is not None and lower.features[name].kind in ("numeric", "dense"):
            lower.refuse(f"computes with {lower.features[name]} in {types[0]}, and a bundle holds its numbers as float32 (whole numbers up "
                         "to 2^24, so no unix times): subtract or scale it in preprocessing and give it, in the example too, as float32, or "
                         "convert it with .float() before anything else")


def truth(lower, value):
    """x != 0, as .bool() of computed numbers."""
    if isinstance(value, (Refs, Filled)):
        value = lower.as_floats(value)
    if is_mask(value.op):
        return value
    if "ne" not in BINARY:
        lower.refuse("turns computed numbers into truth values")
    return Floats(lower.g.binary("ne", value.op, lower.g.const([0.0])), value.dims)


def is_bool(node):
    """True where a node's own value is of truth values."""
    return str(getattr(node.value, "dtype", "")) == "torch.bool"
