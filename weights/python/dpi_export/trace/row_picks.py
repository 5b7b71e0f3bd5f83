"""x[torch.arange(B), i]: each row picks entries of its own, at positions i that it computes (the last item of a history) or a constant says.

torch.arange over the rows stands where x has its rows, so row b meets row b, and the positions are those of a Gather."""

import numpy as np

from ..errors import UnsupportedModelError
from . import batch_axis
from .batch_axis import ROWS
from .lower_ints import bounds
from .lower_whole import positions


def rule(pair, node):
    """The layout of x[..., arange, i, ...]; without an arange over the rows, that of other indices."""
    x, indices = node.args[:2]
    at = _rows_at(pair, x, indices)
    if at is None:
        if x.varies and x.layout.axis in _given(indices) and not indices[x.layout.axis].varies:
            batch_axis.refuse(node, f"picks entries of dim {x.layout.axis}, where the rows are")
        return batch_axis.RULES["index"](pair, node)
    given = _given(indices)
    if x.layout._replace(axis=0) != ROWS or given != list(range(given[0], given[-1] + 1)):
        raise UnsupportedModelError(f"{node.place()}: indexes several dims that do not lie together, or rows that are merged with another dim; "
                                    "transpose and reshape x before, so that its rows are dim 0 and what is picked is dim 1")
    rank = max(len(indices[i].shape) for i in given)
    for index in (indices[i] for i in given if indices[i].varies):
        if index.layout._replace(axis=index.layout.axis + rank - len(index.shape)) != ROWS or not _whole(index):
            batch_axis.refuse(node, "picks entries by positions whose rows are not those of torch.arange")
    return ROWS._replace(axis=given[0])


def _given(indices):
    return [i for i, index in enumerate(indices) if index is not None]


def _whole(index):
    return not index.value.dtype.is_floating_point and str(index.value.dtype) != "torch.bool"


def _rows_at(pair, x, indices):
    """Which index is torch.arange over the rows of x: 0, 1 .. in both traces, with dims of 1 behind it. None where none is."""
    if not x.varies or x.layout.axis >= len(indices) or indices[x.layout.axis] is None:
        return None
    index = indices[x.layout.axis]
    rank = max(len(held.shape) for held in indices if held is not None)
    if index.varies or not _whole(index) or len(index.shape) != rank:
        return None
    ordered = all(n.value.shape[:1] == (rows,) and n.value.reshape(-1).tolist() == list(range(rows))
                  for n, rows in zip((index, pair.other(index)), pair.rows))
    return x.layout.axis if ordered else None


def index(handler):
    """Picks by row are a Gather along the dims that are picked from; what else an index is, `handler` knows."""
    def lowered(lower, node):
        x, indices = node.args[:2]
        at = _rows_at(lower.pair, x, indices)
        return handler(lower, node) if at is None else _picked(lower, node, [i for i in _given(indices) if i != at])
    return lowered


def _picked(lower, node, dims):
    x, indices = node.args[:2]
    if not dims:  # x[torch.arange(B)]
        return lower.reshaped(node, lower.value(x))
    v, g, sizes = lower.floats(x), lower.g, [x.shape[i] for i in dims]
    axis, count = lower.axis(x, dims[0]), int(np.prod(sizes))
    flat = None
    for dim, size in zip(dims, sizes):
        one = _position(lower, node, indices[dim], size)
        flat = one if flat is None else g.binary("add", g.affine(flat, float(size), 0.0), one)
    picks = int(np.prod(flat.shape))
    merged = g.reshape(v.op, v.dims[:axis] + (count,) + v.dims[axis + len(dims):])
    along = (1,) * axis + (picks,) + (1,) * (len(merged.shape) - axis - 1)
    return lower.elementwise(g.op("Gather", [merged, g.reshape(flat, along)], {"axis": axis}))


def _position(lower, node, held, size):
    """An index of one dim, a negative one counted from its end."""
    g = lower.g
    if not held.varies:
        rank = max(len(i.shape) for i in node.args[1] if i is not None)
        return g.const(np.atleast_1d(lower.pair.constant(held, node, ROWS, rank) % size).astype(np.float32))
    op = positions(lower, node, lower.value(held)).op
    low = bounds(g, op)
    if low is not None and low[0] >= 0:
        return op
    return g.op("Where", [g.binary("lt", op, g.const(np.zeros((1,) * len(op.shape), np.float32))), g.affine(op, 1.0, float(size)), op])
