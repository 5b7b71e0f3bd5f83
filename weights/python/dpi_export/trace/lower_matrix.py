"""Handlers of products with weights, products of values, batch norm and lookups."""

import math

import numpy as np

from . import lookups, lower_whole
from .batch_axis import argument
from .lower_math import infinite, masked_sum, on_channels
from .pair import plain
from .values import Filled, Floats, Refs, permute, reshape


def _operands(node):
    """(added or None, a, b, factor of the added, factor of the product) of mm, addmm, bmm, baddbmm."""
    if plain(node.base) in ("addmm", "baddbmm"):
        return node.args[0], node.args[1], node.args[2], float(node.kwargs.get("beta", 1)), float(node.kwargs.get("alpha", 1))
    return None, node.args[0], node.args[1], 0.0, 1.0


def mm(lower, node):
    """A value and a weight: Linear on the last axis, or on the one before it where the value stands on the right."""
    added, a, b, beta, alpha = _operands(node)
    bias = None
    if added is not None and not added.varies and len(added.shape) <= 1 and not b.varies:
        bias = np.broadcast_to(lower.weight(added) * np.float32(beta), (node.shape[1],))
        added = None
    if not b.varies:
        op = lower.g.linear(lower.floats(a).op, lower.weight(b).T * np.float32(alpha), bias)
        out = lower.elementwise(op)
    else:
        out = _weight_on_the_left(lower, node, lower.weight(a) * np.float32(alpha), b)
    return _plus(lower, node, out, added, beta)


def _weight_on_the_left(lower, node, weight, b):
    """W x with x [in, rows]."""
    v = lower.floats(b)
    if len(v.dims) == 1:
        return lower.elementwise(lower.g.linear(v.op, weight))
    flat = lower.g.reshape(v.op, (v.dims[0], math.prod(v.dims[1:])))
    return lower.elementwise(lower.g.linear(flat, weight, axis="field"))


def _plus(lower, node, out, added, beta):
    """The added part of addmm and baddbmm, by the rules of add (a mask of minus infinity stays a mask)."""
    if added is None or beta == 0:
        return out
    held = lower.value(added) if added.varies else infinite(lower, added) if len(added.shape) > 1 else None
    if isinstance(held, Filled) and not math.isfinite(held.fill):
        return masked_sum(lower, node, held, out)
    return lower.elementwise(lower.g.binary("add", out.op, lower.g.affine(lower.floats(added).op, beta, 0.0)))


def bmm(lower, node):
    """Products of matrices: of two values, or of a value with one weight for each entry of the first dim."""
    added, a, b, beta, alpha = _operands(node)
    if a.varies and b.varies or node.layout.axis == 0:
        out = _both(lower, node, a, b)
    elif a.varies:
        out = _grouped(lower, node, a, lower.weight(b), node.layout.axis)
    else:
        out = _grouped(lower, node, b, lower.weight(a).transpose(0, 2, 1), node.layout.axis)
    if alpha != 1:
        out = Floats(lower.g.affine(out.op, alpha, 0.0), out.dims)
    return _plus(lower, node, out, added, beta)


def _both(lower, node, a, b):
    if a.varies and b.varies:
        return lower.elementwise(lower.g.matmul(lower.floats(a).op, lower.floats(b).op))
    held, fixed = (a, b) if a.varies else (b, a)
    array = lower.pair.constant(fixed, node, node.layout, len(node.shape)).astype(np.float32)
    if array.ndim == 2:  # one weight for all: W on the right is Linear, on the left Linear on the axis before the last
        if held is a:
            return lower.elementwise(lower.g.linear(lower.floats(a).op, array.T))
        return lower.elementwise(lower.g.linear(lower.floats(b).op, array, axis="field"))
    const = lower.g.const(array)
    ops = (lower.floats(a).op, const) if held is a else (const, lower.floats(b).op)
    return lower.elementwise(lower.g.matmul(*ops))


def _grouped(lower, node, x, weight, axis):
    """Linear by groups: x with the rows in dim 1 or 2, weight [groups, in, out]; gives dims of the node."""
    v, groups = lower.floats(x), len(weight)
    rows = [d for d in (x.layout.pre, x.layout.post) if d > 1]
    if x.layout.axis == 2:  # [G, in, rows] -> [G, rows, in]
        v = permute(lower.g, v, [0] + list(range(2, 2 + len(rows))) + [1])
    count = math.prod(rows)
    v = reshape(lower.g, v, (groups, count, v.dims[-1]))
    out = weight.shape[2]
    if groups == 1:
        op = lower.g.linear(lower.g.reshape(v.op, (count, v.dims[-1])), weight[0].T)
    else:
        op = lower.g.linear(permute(lower.g, v, [1, 0, 2]).op, weight.transpose(0, 2, 1), groups=groups)
    product = permute(lower.g, Floats(lower.g.reshape(op, (count, groups, out)), (count, groups, out)), [1, 0, 2])
    product = reshape(lower.g, product, [groups] + rows + [out])
    if axis == 2:
        product = permute(lower.g, product, [0, len(rows) + 1] + list(range(1, 1 + len(rows))))
    return reshape(lower.g, product, lower.dims(node))


def trilinear(lower, node):
    """nn.Bilinear: x W y for each output."""
    a, weight, b, expand_a, expand_w, expand_b, dims = node.args[:7]
    if [list(d) for d in (expand_a, expand_w, expand_b, dims)] != [[1, 3], [0], [1, 2], [2, 3]]:
        lower.refuse("is a product of three values other than nn.Bilinear's")
    array, g = lower.weight(weight), lower.g
    outputs, inputs, others = array.shape
    x, y = lower.floats(a).op, lower.floats(b).op
    lead = x.shape[:-1]
    wide = g.reshape(g.linear(x, array.transpose(0, 2, 1).reshape(-1, inputs)), lead + (outputs, others))
    return lower.elementwise(g.reduce("sum", g.binary("mul", wide, g.reshape(y, lead + (1, others))), -1))


def mv(lower, node):
    """A value and a weight vector."""
    return lower.elementwise(lower.g.linear(lower.floats(node.args[0]).op, lower.weight(node.args[1])[None]))


def batch_norm(lower, node):
    """BatchNorm in evaluation mode: scale and shift per channel, computed in float64."""
    x, weight, bias, mean, var = node.args[:5]
    eps = float(node.args[7])
    mean, var = lower.weight(mean, np.float64), lower.weight(var, np.float64)
    scale = 1 / np.sqrt(var + eps) * (1 if weight is None else lower.weight(weight, np.float64))
    shift = (0 if bias is None else lower.weight(bias, np.float64)) - mean * scale
    v = on_channels(lower, node, lower.floats(x), 1, lambda op: lower.g.unary("affine", op, scale=scale, shift=shift))
    return [v, None, None]


# -- lookups ----------------------------------------------------------------------------------------------------------
def embedding(lower, node):
    """Rows of a table."""
    return lookup(lower, node, node.args[0], node.args[1])


def lookup(lower, node, weight, ids):
    """Embedding of ids that are references."""
    refs = lower.value(ids)
    return _looked_up(lower, node, weight, refs) if isinstance(refs, Refs) else lower_whole.lookup(lower, node, weight, ids)


def _looked_up(lower, node, weight, refs):
    lookups.check_described(refs, node.place())
    label = (weight.name or "table").removesuffix(".weight").replace(".", "/")
    return lookups.embedding(lower, weight, lower.weight(weight), label, refs)


def embedding_bag(lower, node):
    """nn.EmbeddingBag over ids [rows, length]: an Embed with pooling where they are one sequence, else a lookup and a reduction."""
    weight, ids = node.args[:2]
    mode, padding = argument(node, 4, "mode", 0), argument(node, 8, "padding_idx", -1)
    refs, pooling = lower.value(ids), ("sum", "mean", "max")[mode]
    if not isinstance(refs, Refs):
        lower.refuse("looks up rows by numbers that it computes from several inputs")
    bags = node.args[2].shape[0] - bool(argument(node, 7, "include_last_offset", False))
    refs, g = reshape(lower.g, refs, (ids.shape[0] // bags,)), lower.g
    feature = lookups.whole_sequence(lower, refs)
    e = _weighted(lower, _looked_up(lower, node, weight, refs), argument(node, 6, "per_sample_weights"))
    if padding < 0:
        return [Floats(g.reduce(pooling, e.op, 0), e.dims[1:])] + [None] * 3
    if feature is not None and feature.pad_id == padding:
        mask = g.mask(g.input(feature.name), "id")
    else:
        import torch

        mask = lower.as_floats(lower.maps.apply(lambda t: torch.ne(t, padding), [refs], refs.dims)).op
    return [Floats(g.reduce(pooling, e.op, 0, mask), e.dims[1:])] + [None] * 3


def _weighted(lower, rows, weights):
    """Rows of a bag [length, dim], each times a weight of its own."""
    if weights is None:
        return rows
    length, g = rows.dims[0], lower.g
    if weights.varies:
        factor = g.reshape(lower.floats(weights).op, [length, 1])
    else:
        factor = g.const(lower.pair.constant(weights, lower.node, lower.node.args[1].layout, 1).astype(np.float32).reshape(-1, 1))
    return Floats(g.binary("mul", rows.op, factor), rows.dims)
