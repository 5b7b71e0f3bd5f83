"""Handlers of operators that only move entries."""

import numpy as np

from .batch_axis import argument
from .pair import plain
from .values import Floats, Refs, expand, permute as permuted, reshape, take


def view(lower, node):
    """Every operator that only renames dims."""
    return lower.reshaped(node, lower.value(node.args[0]))


def _permuted(lower, node, dims):
    groups, at = lower.groups(node.args[0]), 0
    places = []
    for group in groups:
        places.append(list(range(at, at + len(group))))
        at += len(group)
    perm = [p for d in dims for p in places[d]]
    return permuted(lower.g, lower.value(node.args[0]), perm)


def permute(lower, node):
    """Dims in another order."""
    rank = len(node.args[0].shape)
    return _permuted(lower, node, [d % rank for d in node.args[1]])


def transpose(lower, node):
    """Two dims change places."""
    rank = len(node.args[0].shape)
    if rank < 2:
        return lower.value(node.args[0])
    a, b = (0, 1) if plain(node.base) == "t" else (d % rank for d in node.args[1:3])
    dims = list(range(rank))
    dims[a], dims[b] = dims[b], dims[a]
    return _permuted(lower, node, dims)


def expanded(lower, node):
    """Dims of 1 repeated."""
    return expand(lower.g, lower.value(node.args[0]), lower.dims(node))


def repeat(lower, node):
    """Whole copies along each dim: an extra dim of 1 in front of it, repeated."""
    x, times = node.args[0], list(node.args[1])
    value = lower.value(x)
    lead = len(times) - len(x.shape)
    old, wide = [], []
    for i, n in enumerate(times):
        own = [] if i < lead else list(lower.groups(x)[i - lead])
        if i == node.layout.axis and x.layout.pre > 1:
            old, wide = old + [1] + own, wide + [n] + own  # copies in front of `pre`
        elif n == 1 or i == node.layout.axis or own in ([], [1]):  # the copies become `pre`, or are the dim itself
            old, wide = old + ([1] if n > 1 else []) + (own if own != [1] or n == 1 else []), wide + ([n] if n > 1 else []) + (
                own if own != [1] or n == 1 else [])
        else:
            old, wide = old + [1] + own, wide + [n] + own
    return reshape(lower.g, expand(lower.g, reshape(lower.g, value, old), wide), lower.dims(node))


def sliced(lower, node):
    """begin : end : step along a dim; along the rows it is all of them."""
    x, dim = node.args[0], argument(node, 1, "dim", 0) % len(node.shape)
    if dim == node.layout.axis:
        return lower.value(x)
    begin, end, step = argument(node, 2, "start"), argument(node, 3, "end"), argument(node, 4, "step", 1)
    places = range(x.shape[dim])[slice(begin, end, step)]
    return take(lower.g, lower.value(x), lower.axis(x, dim), list(places))


def _picked(lower, x, dim, begin, end):
    return take(lower.g, lower.value(x), lower.axis(x, dim), list(range(begin, end)))


def select(lower, node):
    """One entry of a dim, which goes away."""
    x, dim = node.args[0], node.args[1] % len(node.args[0].shape)
    at = node.args[2] % x.shape[dim]
    return lower.reshaped(node, _picked(lower, x, dim, at, at + 1))


def split(lower, node):
    """Pieces along a dim; along the rows' dim they are blocks of `pre`."""
    x, dim = node.args[0], argument(node, 2, "dim", 0) % len(node.args[0].shape)
    pieces, at = [], 0
    for piece in node.value:
        if dim == x.layout.axis:
            pieces.append(_block(lower, node, x, len(pieces)))
        else:
            pieces.append(_picked(lower, x, dim, at, at + piece.shape[dim]) if piece.shape[dim] else None)
        at += piece.shape[dim]
    return pieces


def _block(lower, node, x, number):
    size = node.layout.pre
    value = lower.value(x)
    if x.layout.pre == size:
        return value
    axis = sum(len(group) for group in lower.groups(x)[:x.layout.axis])
    piece = take(lower.g, value, axis, list(range(number * size, (number + 1) * size)))
    return reshape(lower.g, piece, piece.dims[:axis] + piece.dims[axis + (size == 1):])


def unbind(lower, node):
    """The entries of a dim one by one."""
    x, dim = node.args[0], argument(node, 1, "dim", 0) % len(node.args[0].shape)
    axis, pieces = lower.axis(x, dim), []
    for i in range(x.shape[dim]):
        piece = _picked(lower, x, dim, i, i + 1)
        pieces.append(reshape(lower.g, piece, piece.dims[:axis] + piece.dims[axis + 1:]))
    return pieces


def _joined(lower, values, axis):
    """Values along an axis; references stay references."""
    if all(isinstance(v, Refs) for v in values):
        return Refs(np.concatenate([v.cells for v in values], axis=axis))
    values = [lower.as_floats(v) for v in values]
    dims = list(values[0].dims)
    dims[axis] = sum(v.dims[axis] for v in values)
    if _of_user_and_rows(lower, values, axis):
        return Floats(lower.g.reshape(lower.g.concat([lower.g.reshape(v.op, v.dims[axis:]) for v in values], 0), dims), dims)
    if np.prod(dims[:axis], dtype=int) == 1:  # one flat join is what every library's own code comes down to
        flat = [lower.g.reshape(v.op, [int(np.prod(v.dims, dtype=int))]) for v in values]
        return Floats(lower.g.reshape(lower.g.concat(flat), dims), dims)
    return Floats(lower.g.concat([v.op for v in values], axis), dims)


def _of_user_and_rows(lower, values, axis):
    """True of positions that are joined in a model with users' features: the engine looks for such a join, [history of the user, candidate], to
    compute what stands at the history's positions once per user."""
    rows = [v.dims[axis + 1:] for v in values]
    positions = any(v.dims[axis] > 1 for v in values) and np.prod(rows[0], dtype=int) > 1 and np.prod(values[0].dims[:axis], dtype=int) == 1
    return positions and any(f.get("space") == "shared" for f in lower.g.features.values())


def _part(lower, node, part):
    """A part of a join; a constant part is repeated where the others have the rows."""
    if part.varies:
        return lower.value(part)
    array = lower.pair.constant(part, node, node.layout, len(node.shape)).astype(np.float32)
    return Floats(lower.g.const(array), array.shape)


def cat(lower, node):
    """A join along a dim; along the rows' dim it joins blocks of `pre`."""
    parts, dim = list(node.args[0]), argument(node, 1, "dim", 0) % len(node.shape)
    parts = [p for p in parts if p.value.numel()]
    if dim != node.layout.axis:
        return _joined(lower, [_part(lower, node, p) for p in parts], lower.axis(node, dim))
    axis = sum(len(group) for group in lower.groups(node)[:dim])
    values = [lower.value(p) for p in parts]
    lifted = [v if p.layout.pre > 1 else reshape(lower.g, v, v.dims[:axis] + (1,) + v.dims[axis:]) for v, p in zip(values, parts)]
    return _joined(lower, lifted, axis)


def stack(lower, node):
    """A join along a new dim."""
    dim = argument(node, 1, "dim", 0) % len(node.shape)
    axis = lower.axis(node, dim)
    values = [_part_of_stack(lower, node, p, dim) for p in node.args[0]]
    return _joined(lower, [reshape(lower.g, v, v.dims[:axis] + (1,) + v.dims[axis:]) for v in values], axis)


def _part_of_stack(lower, node, part, dim):
    if part.varies:
        return lower.value(part)
    layout = node.layout._replace(axis=node.layout.axis - (dim < node.layout.axis))
    array = lower.pair.constant(part, node, layout, len(node.shape) - 1).astype(np.float32)
    return Floats(lower.g.const(array), array.shape)


def index_select(lower, node):
    """Entries of a dim by constant indices."""
    x, dim = node.args[0], node.args[1] % len(node.args[0].shape)
    return take(lower.g, lower.value(x), lower.axis(x, dim), lower.pair.constant(node.args[2], node).reshape(-1).tolist())


def index(lower, node):
    """x[:, i] and x[:, i, j] with constant indices or masks that lie together."""
    x, indices = node.args[0], list(node.args[1])
    given = [i for i, held in enumerate(indices) if held is not None]
    arrays = [lower.pair.constant(indices[i], node) for i in given]
    if arrays[0].dtype == bool:
        return _by_mask(lower, node, x, given[0], arrays[0])
    arrays = np.broadcast_arrays(*arrays)
    sizes = [x.shape[i] for i in given]
    flat = np.ravel_multi_index([a % s for a, s in zip(arrays, sizes)], sizes)
    value, axis = lower.value(x), lower.axis(x, given[0])
    merged = reshape(lower.g, value, value.dims[:axis] + (int(np.prod(sizes)),) + value.dims[axis + len(given):])
    return lower.reshaped(node, take(lower.g, merged, axis, flat.reshape(-1).tolist()))


def _by_mask(lower, node, x, first, mask):
    value, axis = lower.value(x), lower.axis(x, first)
    merged = reshape(lower.g, value, value.dims[:axis] + (mask.size,) + value.dims[axis + mask.ndim:])
    return lower.reshaped(node, take(lower.g, merged, axis, np.flatnonzero(mask).tolist()))


def flip(lower, node):
    """Dims in reverse."""
    x, value = node.args[0], lower.value(node.args[0])
    for dim in node.args[1]:
        value = take(lower.g, value, lower.axis(x, dim), list(range(x.shape[dim]))[::-1])
    return value


def roll(lower, node):
    """Entries move along a dim, those that fall off come back at its other end."""
    x, value = node.args[0], lower.value(node.args[0])
    for shift, dim in zip(node.args[1], node.args[2]):
        value = take(lower.g, value, lower.axis(x, dim), [(i - shift) % x.shape[dim] for i in range(x.shape[dim])])
    return value


def slice_scatter(lower, node):
    """x with entries begin : end of a dim replaced: what stands before, the part, what stands behind."""
    x, part, dim = node.args[0], node.args[1], argument(node, 2, "dim", 0) % len(node.shape)
    if dim == node.layout.axis:
        return _part(lower, node, part)
    begin, end, step = argument(node, 3, "start"), argument(node, 4, "end"), argument(node, 5, "step", 1)
    return _replaced(lower, node, x, part, dim, list(range(node.shape[dim])[slice(begin, end, step)]))


def select_scatter(lower, node):
    """x with one entry of a dim replaced."""
    x, part, dim = node.args[0], node.args[1], argument(node, 2, "dim", 0) % len(node.shape)
    axis = lower.axis(node, dim)
    held = _part_of_stack(lower, node, part, dim)
    held = reshape(lower.g, held, held.dims[:axis] + (1,) + held.dims[axis:])
    at = argument(node, 3, "index") % node.shape[dim]
    return _woven(lower, node, x, held, axis, [at])


def _replaced(lower, node, x, part, dim, places):
    return _woven(lower, node, x, _part(lower, node, part), lower.axis(node, dim), places)


def _woven(lower, node, x, part, axis, places):
    dims = lower.dims(node)
    whole = lower.value(x) if x.varies else lower.floats(x)
    whole = expand(lower.g, lower.as_floats(whole), dims)
    part = expand(lower.g, lower.as_floats(part), dims[:axis] + (len(places),) + dims[axis + 1:])
    pieces = []
    for at in range(dims[axis]):
        source, place = (part, places.index(at)) if at in places else (whole, at)
        pieces.append(take(lower.g, source, axis, [place]))
    return _joined(lower, pieces, axis)


def pad(lower, node):
    """Entries of one number in front of and behind a dim; negative pads cut."""
    x, pads, number = node.args[0], node.args[1], float(argument(node, 2, "value", 0.0))
    value = lower.as_floats(lower.value(x))
    for i in range(0, len(pads), 2):
        dim = len(x.shape) - 1 - i // 2
        if not any(pads[i:i + 2]):
            continue
        axis = lower.axis(x, dim)
        value = take(lower.g, value, axis, list(range(max(0, -pads[i]), value.dims[axis] - max(0, -pads[i + 1]))))
        parts = [_filling(lower, value.dims, axis, pads[i], number), value, _filling(lower, value.dims, axis, pads[i + 1], number)]
        value = _joined(lower, [part for part in parts if part is not None], axis)
    return value


def _filling(lower, dims, axis, count, number):
    if count <= 0:
        return None
    dims = dims[:axis] + (count,) + dims[axis + 1:]
    return Floats(lower.g.const(np.full(dims, number, np.float32)), dims)


def copied(lower, node):
    """x.copy_(y): y in the type and under the dims of x."""
    x, y = node.args[:2]
    if y.value.dtype.is_floating_point and not x.value.dtype.is_floating_point:
        lower.refuse("writes numbers over integers")
    value = lower.value(y) if y.varies else lower.floats(y)
    return expand(lower.g, value, lower.dims(node))


def diagonal(lower, node):
    """The entries of two dims at places i, i + offset, as a new last dim."""
    x, offset, dims = node.args[0], argument(node, 1, "offset", 0), [argument(node, i, f"dim{i - 1}", i - 2) for i in (2, 3)]
    value, axes = lower.value(x), [lower.axis(x, dim) for dim in dims]
    value = permuted(lower.g, value, [i for i in range(len(value.dims)) if i not in axes] + axes)
    high, wide = value.dims[-2:]
    places = [i * wide + i + offset for i in range(high) if 0 <= i + offset < wide]
    flat = reshape(lower.g, value, value.dims[:-2] + (high * wide,))
    return lower.reshaped(node, take(lower.g, flat, len(flat.dims) - 1, places))
