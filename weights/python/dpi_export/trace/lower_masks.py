"""Handlers of truth values: masks, fills and choices."""

import math

import numpy as np

from ..errors import UnsupportedModelError
from ..ops.shapes import BINARY, OPS
from . import jumps, lower_math
from .batch_axis import argument
from .emit import is_mask
from .lower_ints import is_bool, truth
from .lower_math import constant_number, scaled
from .values import Filled, Floats, Refs


def masked_fill(lower, node):
    """x, and a number where the mask is true."""
    return _fill(lower, node, node.args[0], _not(lower, node.args[1]), lower.number(node.args[2]))


def where(lower, node):
    """x where the condition holds, else y."""
    condition, x, y = node.args[:3]
    for kept, other, keep in ((x, y, condition), (y, x, None)):
        number = lower.number(other)
        if number is not None:
            return _fill(lower, node, kept, _not(lower, condition) if keep is None else _mask(lower, keep), number)
    held, g = (_mask(lower, condition), _not(lower, condition)), lower.g
    a, b = (_left(lower, v, keep) for v, keep in zip((x, y), held))
    if "Where" in OPS:
        return lower.elementwise(g.op("Where", [lower.as_floats(held[0]).op, a.op, b.op]))
    yes, no = (lower.as_floats(m) for m in held)
    return lower.elementwise(g.binary("add", g.binary("mul", yes.op, a.op), g.binary("mul", no.op, b.op)))


def _fill(lower, node, x, keep, number):
    if number is None:
        lower.refuse("fills with a value that is no number")
    inner = None
    if hasattr(x, "varies"):
        inner = lower_math.infinite(lower, x) if not x.varies else lower.value(x)
    if isinstance(inner, Filled) and inner.fill == -math.inf:
        if number == -math.inf:
            zero = lower.g.const([0.0])
            return lower_math.both_kept(lower, node, inner, Filled(Floats(zero, (1,)), keep, number, (1,)))
        if _kept_infinite(lower, inner, keep) is None:
            return _over_infinite(lower, node, inner, keep, number)
    value = _left(lower, x, keep) if hasattr(x, "varies") else constant_number(lower, x)
    return Filled(value, keep, number, lower.dims(node))


def _left(lower, x, keep):
    """What of x is looked at where a mask holds."""
    value = _kept_infinite(lower, lower.value(x), keep) if x.varies else None
    return lower.floats(x) if value is None else value


def _kept_infinite(lower, value, keep):
    """What of `value`, filled with minus infinity, is left where `keep` holds: all of it, when that is where it was not filled."""
    if not isinstance(value, Filled) or math.isfinite(value.fill):
        return None
    a, b = (_bare(lower.as_floats(k).op) for k in (value.keep, keep))
    return lower.as_floats(value.x) if a is b else None


def _bare(op):
    while op.is_a("View", kind="reshape") or op.is_a("View", kind="expand"):
        op = op.ins[0]
    return op


def _over_infinite(lower, node, inner, keep, number):
    """A number over what is filled with minus infinity: kept where it was, and where the number stands now."""
    g, keep, held = lower.g, lower.as_floats(keep).op, lower.as_floats(inner.keep).op
    x = g.op("Where", [keep, lower.as_floats(inner.x).op, g.const([number])])
    kept = g.binary("max", held, g.affine(keep, -1.0, 1.0))
    return Filled(Floats(x, x.shape), Floats(kept, kept.shape), -math.inf, lower.dims(node))


def _mask(lower, node):
    """A truth value: references as they are, floats of 0 and 1."""
    if not node.varies:
        return lower.floats(node)
    value = lower.value(node)
    if isinstance(value, Refs) and node.value.dtype.__str__() != "torch.bool":
        lower.refuse("takes ids as truth values")
    return value if is_bool(node) or isinstance(value, Refs) else truth(lower, value)


def _not(lower, node):
    value = _mask(lower, node)
    if isinstance(value, Refs):
        import torch

        return lower.maps.apply(torch.logical_not, [value], value.dims)
    return scaled(lower, lower.as_floats(value), -1.0, 1.0)


def index_put(lower, node):
    """x[mask] = a number: the mask stands for the first dims of x."""
    x, indices, held = node.args[:3]
    number = lower.number(held)
    if len(indices) != 1 or indices[0] is None or not is_bool(indices[0]) or number is None or len(node.args) > 3 and node.args[3]:
        lower.refuse("writes where indices say; write torch.where(mask, x, y) on the whole value")
    mask = lower.as_floats(_mask(lower, indices[0]))
    dims = lower.dims(node)
    keep = scaled(lower, Floats(lower.g.reshape(mask.op, mask.dims + (1,) * (len(dims) - len(mask.dims))),
                                mask.dims + (1,) * (len(dims) - len(mask.dims))), -1.0, 1.0)
    value = _left(lower, x, keep) if x.varies else lower.floats(x)
    return Filled(value, keep, number, dims)


def triangle(upper):
    """The entries on one side of a diagonal, zeros on the other."""
    def handler(lower, node):
        value, dims = lower.floats(node.args[0]), lower.dims(node)
        ones = np.ones(dims[-2:], np.float32)
        keep = (np.triu if upper else np.tril)(ones, int(argument(node, 1, "diagonal", 0)))
        const = Floats(lower.g.const(keep), dims[-2:])
        return Filled(value, const, 0.0, dims)
    return handler


def is_infinite(lower, node):
    """Which entries are minus infinity: those that were filled with it. Of other numbers there is nothing to ask: a bundle's inputs are
    finite."""
    value = lower.value(node.args[0])
    if not isinstance(value, Filled) or value.fill != -math.inf:
        lower.refuse("asks which numbers are infinite, of others than those that masked_fill(-inf) made so")
    keep = lower.as_floats(value.keep)
    return scaled(lower, Floats(lower.g.expand(lower.g.reshape(keep.op, (1,) * (len(value.dims) - len(keep.dims)) + keep.dims), value.dims)
                                if value.dims else keep.op, value.dims), -1.0, 1.0)


def logical_not(lower, node):
    """1 - x of a mask"""
    return _not(lower, node.args[0])


def logical_and(lower, node):
    """x y of two masks"""
    return _logical(lower, node, "mul")


def logical_or(lower, node):
    """max(x, y) of two masks"""
    return _logical(lower, node, "max")


def exclusive_or(lower, node):
    """x != y of two masks"""
    return _logical(lower, node, "ne")


def add(lower, node):
    """x + alpha y; of two truth values torch takes "or"."""
    return logical_or(lower, node) if is_bool(node) else lower_math.add(lower, node)


def mul(lower, node):
    """x y; of two truth values "and"."""
    return logical_and(lower, node) if is_bool(node) else lower_math.mul(lower, node)


def _logical(lower, node, kind):
    if not is_bool(node):
        lower.refuse("works on the bits of numbers that it computes")
    a, b = (lower.as_floats(_mask(lower, a)) if hasattr(a, "varies")
            else constant_number(lower, float(bool(a))) for a in node.args[:2])
    return lower.elementwise(lower.g.binary(kind, a.op, b.op))


def not_equal(lower, node):
    """x != 0 of a mask, and of a sum over the last axis ("nonzero" positions), need no comparison."""
    found = _nonzero(lower, node)
    return found if found is not None else compare("ne")(lower, node)


def equal(lower, node):
    """x == 0 where x != 0 is known."""
    found = _nonzero(lower, node)
    return scaled(lower, found, -1.0, 1.0) if found is not None else compare("eq")(lower, node)


def greater(lower, node):
    """x > 0 of values that are 0 or 1."""
    found = _truth(lower, node, 0.0, 1.0)
    return found if found is not None else compare("gt")(lower, node)


def less(lower, node):
    """x < 1 of values that are 0 or 1."""
    found = _truth(lower, node, 1e-30, 1.0)
    return scaled(lower, found, -1.0, 1.0) if found is not None else compare("lt")(lower, node)


def _truth(lower, node, least, most):
    """x itself, when it holds 0 and 1 only and is compared with a number from least to below most."""
    number = lower.number(node.args[1])
    value = lower.floats(node.args[0])
    return value if number is not None and least <= number < most and is_mask(value.op) else None


def _nonzero(lower, node):
    number = lower.number(node.args[1])
    if number != 0 or not node.args[0].varies:
        return None
    value = lower.floats(node.args[0])
    op = value.op
    if is_mask(op):
        return value
    while op.is_a("View", kind="reshape"):
        op = op.ins[0]
    if op.is_a("Reduce", kind="sum") and len(op.ins) == 1 and len(op.ins[0].shape) == 2 and op.attrs.get("axis", -1) in (1, -1):
        return Floats(lower.g.reshape(lower.g.op("Mask", [op.ins[0]], {"rule": "nonzero"}), value.dims), value.dims)
    return None


_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}


def compare(kind):
    """A comparison of computed values, where the bundle has one."""
    def handler(lower, node):
        if kind not in BINARY:
            raise UnsupportedModelError(f"{node.place()}: compares computed values, for which there is no primitive; a choice by ids, a "
                                        "padding mask, a maximum or a clamp can be written without")
        x, y = node.args[:2]
        if hasattr(y, "varies") and y.varies and not x.varies:
            return lower.elementwise(_against(lower, y, x, _MIRRORED[kind]))
        if not hasattr(y, "varies") or not y.varies:
            return lower.elementwise(_against(lower, x, y, kind))
        return lower.elementwise(lower.g.binary(kind, lower.floats(x).op, lower.floats(y).op))
    return handler


def _against(lower, x, held, kind):
    """The comparison of x with constants."""
    number = lower.number(held)
    numbers = edges_of(np.array([number]) if number is not None else lower.constant(held), kind, _is_double(lower.node))
    moved = jumps.compared(lower, x, kind, numbers)
    return lower.g.binary(kind, lower.floats(x).op, lower.g.const(numbers)) if moved is None else moved


def _is_double(node):
    """True where torch compares in float64."""
    import torch

    return torch.result_type(*(a.value if hasattr(a, "varies") else a for a in node.args[:2])) == torch.float64


def edges_of(numbers, kind, double):
    """Constants that float32 numbers are compared with, as float32. Compared in float64, they are the neighbour on the right side."""
    single = np.asarray(numbers).astype(np.float32)
    if not double:
        return single
    below, above = single.astype(np.float64) < numbers, single.astype(np.float64) > numbers
    if kind in ("ge", "lt"):
        return np.where(below, np.nextafter(single, np.float32(np.inf)), single)
    if kind in ("gt", "le"):
        return np.where(above, np.nextafter(single, np.float32(-np.inf)), single)
    if (below | above).any():
        raise UnsupportedModelError("compares float32 numbers for equality with float64 ones that no float32 is: compare with a float32 number")
    return single
