"""ONNX operators that move entries, make constants or join values, as calls of torch."""

import math

import numpy as np
import torch

from .sequence import Sequence


def _axis(op, x, default=0, extra=0):
    """The attribute `axis`, counted from 0."""
    return _from_zero(op, op.attr("axis", default), x.dim() + extra)


def _from_zero(op, axis, rank):
    if not -rank <= axis < max(rank, 1):
        op.refuse(f"its axis is {axis}, the value has {rank} dims")
    return axis + rank if axis < 0 else axis


def axes_of(op, values, rank, at=1):
    """Axes from the input at place `at` or the attribute; None where neither is there."""
    axes = op.ints(at, values, "axes") if len(values) > at and values[at] is not None else op.attr("axes")
    if axes is None:
        return None
    axes = [_from_zero(op, a, rank) for a in axes]
    if len(set(axes)) != len(axes):
        op.refuse(f"names an axis twice: {axes}")
    return axes


def constant(op):
    """A constant of the graph."""
    for name, make in (("value", lambda v: torch.from_numpy(v.copy())), ("value_float", lambda v: torch.tensor(v, dtype=torch.float32)),
                       ("value_int", torch.tensor), ("value_floats", lambda v: torch.tensor(v, dtype=torch.float32)),
                       ("value_ints", lambda v: torch.tensor(v, dtype=torch.int64))):
        if op.attr(name) is not None:
            return op.owner.cast(make(op.attr(name)))
    return op.refuse("holds text or sparse values")


def identity(op, x):
    """The value itself."""
    return x


def reshape(op, x, shape):
    """Other dims; 0 keeps a dim, -1 is worked out."""
    dims = op.ints(1, (x, shape), "dims")
    if not op.attr("allowzero", 0):
        if any(d == 0 and i >= x.dim() for i, d in enumerate(dims)):
            op.refuse(f"keeps a dim that the value of dims {list(x.shape)} does not have")
        dims = [x.shape[i] if d == 0 else d for i, d in enumerate(dims)]
    return x.reshape(dims)


def flatten(op, x):
    """Two dims: those before the axis and the others."""
    axis = op.attr("axis", 1)
    axis = axis + x.dim() if axis < 0 else axis
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


def transpose(op, x):
    """Dims in another order; without perm reversed."""
    perm = op.attr("perm") or list(range(x.dim()))[::-1]
    return x if perm == list(range(x.dim())) else x.permute(perm)


def squeeze(op, x, *rest):
    """Without dims of 1."""
    axes = axes_of(op, (x, *rest), x.dim())
    axes = [i for i, d in enumerate(x.shape) if d == 1] if axes is None else axes
    for axis in sorted(axes, reverse=True):
        if x.shape[axis] != 1:
            op.refuse(f"takes away dim {axis} of {list(x.shape)}")
        x = x.squeeze(axis)
    return x


def unsqueeze(op, x, *rest):
    """With new dims of 1."""
    axes = op.ints(1, (x, *rest), "axes") if rest else op.attr("axes")
    axes = [_from_zero(op, a, x.dim() + len(axes)) for a in axes]
    for axis in sorted(axes):
        x = x.unsqueeze(axis)
    return x


def concat(op, *parts):
    """Joins values along an axis."""
    op.room([sum(part.numel() for part in parts)])
    return parts[0] if len(parts) == 1 else torch.cat(parts, _axis(op, parts[0]))


def split(op, x, sizes=None):
    """Pieces along an axis; equal ones where no sizes are given, the last one smaller where it must be."""
    axis, count = _axis(op, x), len(op.node.outputs)
    sizes = op.ints(1, (x, sizes), "sizes") if sizes is not None else op.attr("split")
    if sizes is None:
        step = -(-x.shape[axis] // count)
        sizes = [max(0, min(step, x.shape[axis] - i * step)) for i in range(count)]
        if op.opset < 18 and x.shape[axis] % count:
            op.refuse(f"splits {x.shape[axis]} entries into {count} equal parts")
    return torch.split(x, sizes, axis)


def sliced(op, x, *rest):
    """begin : end : step along some axes."""
    values = (x, *rest)
    starts, ends = op.ints(1, values, "starts"), op.ints(2, values, "ends")
    axes = axes_of(op, values, x.dim(), 3) or list(range(len(starts)))
    steps = op.ints(4, values, "steps") if len(values) > 4 and values[4] is not None else [1] * len(starts)
    for begin, end, axis, step in zip(starts, ends, axes, steps):
        x = _slice(x, axis, begin, end, step)
    return x


def _slice(x, axis, begin, end, step):
    places = range(x.shape[axis])[slice(begin, end, step)]
    if step > 0:
        return x if len(places) == x.shape[axis] else x[(slice(None),) * axis + (slice(places.start, places.stop, step),)]
    if len(places) == x.shape[axis]:
        return torch.flip(x, (axis,))
    return torch.index_select(x, axis, torch.tensor(list(places), dtype=torch.int64))


def expand(op, x, shape):
    """Broadcast to other dims, and these to the value's."""
    dims = torch.broadcast_shapes(x.shape, tuple(op.ints(1, (x, shape), "dims")))
    return x.expand(op.room(dims))


def tile(op, x, repeats):
    """Whole copies along each dim."""
    times = op.ints(1, (x, repeats), "repeats")
    op.room([d * n for d, n in zip(x.shape, times)])
    return x if all(n == 1 for n in times) else x.repeat(times)


def pad(op, x, *rest):
    """Entries of one number around a value."""
    values = (x, *rest)
    if op.attr("mode", "constant") != "constant":
        op.refuse(f"pads in mode '{op.attr('mode')}'; write Slice and Concat")
    pads = op.ints(1, values, "pads")
    number = 0 if len(values) < 3 or values[2] is None else op.number(2, values)
    if number is None:
        op.refuse("pads with a number that depends on the rows")
    axes = axes_of(op, values, x.dim(), 3) or list(range(x.dim()))
    flat = [0] * (2 * x.dim())
    for i, axis in enumerate(axes):
        place = 2 * (x.dim() - 1 - axis)
        flat[place], flat[place + 1] = pads[i], pads[i + len(axes)]
    op.room([d + sum(flat[2 * (x.dim() - 1 - i):][:2]) for i, d in enumerate(x.shape)])
    return torch.nn.functional.pad(x, flat, value=number) if any(flat) else x


def scatter_nd(op, x, indices, updates):
    """A block of x replaced, as x[:, 0:2] = y does: the places are known and lie on a grid."""
    if not op.known[1] or op.attr("reduction", "none") != "none" or not torch.is_tensor(indices) or indices.dim() < 2:
        op.refuse("writes to places that depend on the rows, or adds there; write Where with a mask, or Concat of the parts")
    grid, block = _grid(np.array(indices.tolist())), []
    for size, at in zip(x.shape, grid or []):
        step = at[1] - at[0] if len(at) > 1 else 1
        if step < 1 or at != list(range(at[0], at[-1] + 1, step)):
            grid = None
            break
        block.append(slice(None) if len(at) == size else slice(at[0], at[-1] + 1, step))
    if not grid:
        op.refuse("writes to places that are no block of the value; write Where with a mask, or Concat of the parts")
    out = x.clone()
    out[tuple(block)] = updates
    return out


def scatter_elements(op, x, indices, updates):
    """A block of x along one axis replaced, as torch.select_scatter is exported: everywhere the same places."""
    axis = _axis(op, x)
    if not op.known[1] or op.attr("reduction", "none") != "none":
        op.refuse("writes to places that depend on the rows, or adds there; write Where with a mask, or Concat of the parts")
    places = np.array(indices.tolist())
    first = np.moveaxis(places, axis, -1).reshape(-1, places.shape[axis])[0] if places.size else places
    whole = all(a == b for i, (a, b) in enumerate(zip(indices.shape, x.shape)) if i != axis)
    step = int(first[1] - first[0]) if len(first) > 1 else 1
    if not whole or not places.size or first[0] < 0 or step < 1 or first.tolist() != list(range(first[0], first[-1] + 1, step)) or \
            not (np.moveaxis(places, axis, -1) == first).all():
        op.refuse("writes to places that are no block of the value; write Where with a mask, or Concat of the parts")
    out = x.clone()
    out[(slice(None),) * axis + (slice(int(first[0]), int(first[-1]) + 1, step),)] = updates
    return out


def _grid(places):
    """Coordinates along each dim, where places [dims..., coordinate] are all combinations of them in order; else None."""
    dims = places.ndim - 1
    if dims != places.shape[-1] or not places.size or places.min() < 0:
        return None
    axes = [places[(0,) * i + (slice(None),) + (0,) * (dims - 1 - i) + (i,)] for i in range(dims)]
    return [a.tolist() for a in axes] if np.array_equal(places, np.stack(np.meshgrid(*axes, indexing="ij"), -1)) else None


# -- sizes and constants ----------------------------------------------------------------------------------------------
def shape(op, x):
    """The dims of a value, or some of them."""
    return torch.tensor(list(x.shape)[slice(op.attr("start", 0), op.attr("end"))], dtype=torch.int64)


def size(op, x):
    """How many entries a value has."""
    return torch.tensor(x.numel(), dtype=torch.int64)


def constant_of_shape(op, dims):
    """A value of these dims with one number everywhere."""
    value = op.attr("value")
    filling = torch.zeros(1) if value is None else torch.from_numpy(value.reshape(-1)[:1].copy())
    return op.owner.cast(filling).expand(op.room(op.ints(0, (dims,), "dims"))).clone()


def ranged(op, *ends):
    """start, start + delta, ... below limit."""
    if not all(op.known):
        op.refuse("counts to a number that depends on the rows; compare a constant range with it")
    start, limit, delta = (e.reshape(-1).tolist()[0] for e in ends)
    if delta == 0:
        op.refuse("counts in steps of 0")
    op.room([max(math.ceil((limit - start) / delta), 0)])
    return torch.arange(start, limit, delta, dtype=ends[0].dtype) if (limit - start) / delta > 0 else torch.zeros(0, dtype=ends[0].dtype)


def trilu(op, x, k=None):
    """The upper or lower triangle of a known matrix."""
    if not op.known[0]:
        op.refuse("takes a triangle of a value that depends on the rows; multiply by a constant mask")
    offset = op.number(1, (x, k)) or 0
    return torch.triu(x, int(offset)) if op.attr("upper", 1) else torch.tril(x, int(offset))


def non_zero(op, x):
    """Where a known value is not 0."""
    if not op.known[0]:
        op.refuse("how many entries it gives depends on what the rows hold; multiply by a mask")
    return torch.nonzero(x).t()


# -- sequences --------------------------------------------------------------------------------------------------------
def split_to_sequence(op, x, sizes=None):
    """The entries of an axis one by one, or in pieces."""
    axis = _axis(op, x)
    if sizes is None:
        return (Sequence(torch.unbind(x, axis) if not op.attr("keepdims", 1) else torch.split(x, 1, axis)),)
    given = op.ints(1, (x, sizes), "sizes")
    return (Sequence(torch.split(x, given[0] if sizes.dim() == 0 else given, axis)),)


def sequence_at(op, sequence, place):
    """One of several values."""
    return sequence[op.ints(1, (sequence, place), "place")[0]]


def sequence_of(op, *values):
    """Several values under one name."""
    return (Sequence(values),)


def concat_sequence(op, sequence):
    """The values joined, along a new axis with new_axis=1."""
    join = torch.stack if op.attr("new_axis", 0) else torch.cat
    return join(list(sequence), op.attr("axis"))
