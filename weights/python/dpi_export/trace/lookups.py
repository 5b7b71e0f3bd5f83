"""References to inputs become ops: embedding lookups, masks, tables of what a model computes from one id, dense inputs."""

import math

import numpy as np

from ..errors import UnsupportedModelError
from .emit import digest
from .values import Floats, Refs, expand


def _runs(cells):
    """Neighbouring cells of one feature and map at consecutive positions: [(feature, map, first, count)]."""
    runs = []
    for name, at, key in cells:
        last = runs[-1] if runs else None
        if last is not None and last[:2] == [name, key] and last[2] + last[3] == at:
            last[3] += 1
        else:
            runs.append([name, key, at, 1])
    return runs


def _joined(lowering, refs, base, width):
    """The values of all cells in order: slices of base(feature, map) [entries * width], joined."""
    g, parts, runs = lowering.g, [], list(_runs(refs.flat()))
    if len(runs) > 2 and len({tuple(run[:2]) for run in runs}) == 1:  # entries of one feature from all over it
        picked = g.take(base(*runs[0][:2]), [i for _, _, first, count in runs for i in range(first, first + count)], 0)
        return g.reshape(picked, [len(refs.flat()) * width])
    for name, key, first, count in runs:
        whole = base(name, key)
        entries = whole.shape[0] if len(whole.shape) > 1 or width == 1 else 1
        if len(whole.shape) == 1 and width > 1:
            parts.append(whole)
            continue
        part = g.slice(whole, first, first + count, 0) if count != entries else whole
        parts.append(g.reshape(part, [count * width]))
    return g.concat(parts)


def _narrow(refs):
    """The references with a dim of 1 in place of every axis along which they are all the same."""
    cells = refs.cells
    for axis in range(cells.ndim):
        first = np.take(cells, [0], axis=axis)
        if cells.shape[axis] > 1 and all(a == b for a, b in zip(np.broadcast_to(first, cells.shape).reshape(-1), cells.reshape(-1))):
            cells = first
    return Refs(cells)


def embedding(lowering, weight, values, label, refs):
    """Rows of a table [rows, dim] by ids; gives dims of refs and then dim. `weight` is the constant's Node, `values` its array."""
    narrow = _narrow(refs)
    if narrow.dims != refs.dims:
        return expand(lowering.g, embedding(lowering, weight, values, label, narrow), refs.dims + (values.shape[1],))
    dim, tables = values.shape[1], {}

    def base(name, key):
        feature = lowering.features[name]
        if (name, key) not in tables:
            table = _table(lowering, weight, values, label, feature, key)
            x = lowering.g.input(name)
            tables[name, key] = lowering.g.embed(x, table, **({} if feature.kind == "categorical" else {"pooling": "none"}))
        return tables[name, key]

    for name, _, _ in refs.flat():
        if not lowering.features[name].has_ids:
            lowering.refuse(f"looks up rows of a table by {lowering.features[name]}, which is of kind '{lowering.features[name].kind}'")
    joined = _joined(lowering, refs, base, dim)
    return Floats(lowering.g.reshape(joined, refs.dims + (dim,)), refs.dims + (dim,))


def _table(lowering, weight, values, label, feature, key):
    """The table's name: the whole weight where the id itself is looked up, a part of it behind an offset, or one row per id."""
    if lowering.maps.is_identity(key) and lowering.maps.size(key) <= len(values):
        return lowering.g.table(label, values, (id(weight.value), "all"))
    rows = np.asarray(lowering.maps[key])
    if rows.dtype.kind not in "iu":
        lowering.refuse(f"looks up rows by numbers of type {rows.dtype}")
    if rows.min() < 0 or rows.max() >= len(values):
        wrong = int(rows.max() if rows.max() >= len(values) else rows.min())
        lowering.refuse(f"looks up row {wrong} of a table of {len(values)} rows for an "
                        f"id of {feature}, whose vocab_size is {feature.vocab_size}")
    identity = np.arange(len(rows))
    if np.array_equal(rows, identity):
        return lowering.g.table(label, values, (id(weight.value), "all"))
    if np.array_equal(rows, identity + rows[0]):
        first = int(rows[0])
        return lowering.g.table(f"{label}/{feature.name}", values[first:first + len(rows)], (id(weight.value), first, len(rows)))
    return lowering.g.table(f"{label}/{feature.name}", values[rows], (id(weight.value), key))


# -- ids and floats of the inputs as numbers ----------------------------------------------------------------------------
def floats(lowering, refs):
    """References as numbers."""
    narrow = _narrow(refs)
    if narrow.dims != refs.dims:
        return expand(lowering.g, floats(lowering, narrow), refs.dims)
    cells = refs.flat()
    kinds = {lowering.features[name].kind for name, _, _ in cells}
    if kinds == {"length"}:
        return _lengths(lowering, refs)
    if "length" in kinds:
        lowering.refuse("joins a length with other inputs")
    joined = _joined(lowering, refs, lambda name, key: _number(lowering, lowering.features[name], key), 1)
    return Floats(lowering.g.reshape(joined, refs.dims), refs.dims)


def _number(lowering, feature, key):
    """One feature's entries as floats [entries]."""
    g, x = lowering.g, lowering.g.input(feature.name)
    if not feature.has_ids:
        return x
    whole = np.asarray(lowering.maps[key])
    values = whole.astype(np.float32)
    if whole.dtype.kind in "iu" and not np.array_equal(values.astype(np.float64), whole.astype(np.float64)):
        lowering.refuse(f"computes with the ids of {feature} as numbers, and a float32 holds whole numbers up to 2^24 only")
    if feature.kind == "sequence":
        valid = (np.arange(feature.vocab_size) != feature.pad_id).astype(np.float32)
        if np.array_equal(values, valid):
            return g.mask(x, "id")
        if np.array_equal(values, 1 - valid):
            return g.affine(g.mask(x, "id"), -1.0, 1.0)
    table = g.table(f"{feature.name}/function", values[:, None], ("function", digest(values)))
    return g.reshape(g.embed(x, table, **({} if feature.kind == "categorical" else {"pooling": "none"})), [feature.width])


def _lengths(lowering, refs):
    """A length as a number, or position < length for every position of the sequence."""
    g, cells = lowering.g, refs.flat()
    feature = lowering.features[cells[0][0]]
    sequence = lowering.features[feature.of]
    mask = g.mask(g.input(sequence.name), "length")
    maps = [np.asarray(lowering.maps[key]).astype(np.float64) for _, _, key in cells]
    lengths = np.arange(sequence.max_len + 1)
    if all(name == feature.name for name, _, _ in cells) and len(cells) == sequence.max_len:
        inside = [(t < lengths).astype(np.float64) for t in range(sequence.max_len)][::_step(sequence)]
        if all(np.array_equal(m, want) for m, want in zip(maps, inside)):
            return Floats(g.reshape(mask, refs.dims), refs.dims)
        if all(np.array_equal(m, 1 - want) for m, want in zip(maps, inside)):
            return Floats(g.reshape(g.affine(mask, -1.0, 1.0), refs.dims), refs.dims)
    if len(set(cells)) == 1:
        number = _function_of_length(g, mask, maps[0], lengths, _step(sequence))
        spread = g.reshape(number, (1,) * max(1, len(refs.dims)))
        return Floats(g.expand(spread, refs.dims) if math.prod(refs.dims) > 1 else g.reshape(spread, refs.dims), refs.dims)
    steps = g.linear(mask, np.stack([np.diff(m)[::_step(sequence)] for m in maps]), np.array([m[0] for m in maps]))
    return Floats(g.reshape(steps, refs.dims), refs.dims)


def _step(sequence):
    """In which direction the positions fill up: padding in front leaves the last ones."""
    return -1 if sequence.pad_side == "pre" else 1


def _function_of_length(g, mask, values, lengths, step):
    """A number for each length: a x + b, or at least c, of how many positions there are; else the sum of its steps at these positions."""
    count, slope = g.reduce("sum", mask, 0), values[1] - values[0]
    if np.array_equal(values, slope * lengths + values[0]):
        return g.affine(count, slope, values[0])
    if np.array_equal(values, np.maximum(lengths, values[0])):
        return g.binary("max", count, g.const([values[0]]))
    return g.linear(mask, np.diff(values)[None, ::step], values[:1])


def whole_sequence(lowering, refs):
    """The sequence feature whose ids, as they are and all in order, the references are; else None."""
    cells = refs.flat()
    feature = lowering.features.get(cells[0][0]) if cells else None
    if feature is None or feature.kind != "sequence" or len(cells) != feature.max_len:
        return None
    if any(cell[0] != feature.name or cell[1] != t or cell[2] != cells[0][2] for t, cell in enumerate(cells)):
        return None
    if lowering.maps.is_identity(cells[0][2]):
        return feature
    ids = np.asarray(lowering.maps[cells[0][2]])
    return feature if ids.dtype.kind in "iu" and np.array_equal(ids, np.arange(len(ids))) else None


def input_refs(key, sample, features, maps):
    """The references that an input starts with; entries that no feature describes have the feature None."""
    dims = tuple(sample.shape[1:])
    cells = np.empty(dims, object)
    flat = cells.reshape(-1) if dims else None
    entries = [(None, i, key) for i in range(math.prod(dims))]
    for f in features.values():
        if f.input == key:
            first = 0 if f.columns is None else f.columns[0]
            map_key = maps.identity(f.name, sample.dtype)
            for at in range(f.width):
                entries[first + at] = (f.name, at, map_key)
    for i, entry in enumerate(entries):
        if dims:
            flat[i] = entry
        else:
            cells[()] = entry
    return Refs(cells)


def check_described(refs, module):
    """Raises where the model reads an entry that no feature describes."""
    for name, at, key in refs.flat():
        if name is None:
            raise UnsupportedModelError(f"{module}: reads entry {at} of input {key!r}, which features= does not describe")
