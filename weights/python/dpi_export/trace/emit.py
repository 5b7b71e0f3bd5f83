"""The primitives that a trace becomes, before they are written: equal ops are one op, and views that undo each other vanish.

An Op's shape leaves out the rows, as everywhere in a bundle. Shapes are those of dpi_export.shapes, so what is emitted can be written.
"""

import math

import numpy as np
import xxhash

from ..ops import shapes

MOST_DIMS = 5  #: of a value (FORMAT.md part 11)

class Op:
    """One primitive; `ins` are Ops, `params` arrays by role."""

    __slots__ = ("kind", "ins", "attrs", "params", "module", "shape")

    def __init__(self, kind, ins, attrs, params, module):
        self.kind, self.ins, self.attrs, self.params, self.module, self.shape = kind, tuple(ins), attrs, params, module, None

    def is_a(self, kind, /, **attrs):
        """True for a primitive of this kind with these attributes."""
        return self.kind == kind and all(self.attrs.get(key) == value for key, value in attrs.items())


def digest(array):
    """Stands for an array's content."""
    return array.shape, xxhash.xxh3_128_intdigest(np.ascontiguousarray(array).tobytes())


class Graph:
    """Makes Ops. `features`: name -> feature dict, `tables`: name -> float array [rows, dim]."""

    def __init__(self, features):
        self.features, self.tables, self._made, self.module = features, {}, {}, ""
        self.most_elements = 2**31  #: of a value that may yet become part of another op
        self._table_of, self._held = {}, []
        self.quotients = {}  #: Op that // and its kin divide by a whole number: that number
        self.unsure = set()  #: Ops ahead of a jump that torch rounds once in whole vectors and twice behind them

    # -- what shape inference asks for (dpi_export.graph.Graph) ---------------------------------------------------------
    @staticmethod
    def shape(op):
        """Dims of an Op."""
        return op.shape

    def feature(self, name):
        """Feature dict by name."""
        return self.features.get(name)

    def source_feature(self, op):
        """The feature whose ids an Op holds."""
        return self.features.get(op.attrs["feature"]) if op.kind == "Input" else None

    def table_info(self, name):
        """Rows and dims of a table."""
        rows, dim = self.tables[name].shape
        return {"name": name, "rows": rows, "dim": dim}

    @staticmethod
    def param_shape(array):
        """Dims of a parameter."""
        return array.shape

    # -- making -------------------------------------------------------------------------------------------------------
    def op(self, kind, ins=(), attrs=None, params=None):
        """An Op; the same one when an equal one was made before."""
        attrs = {k: v for k, v in (attrs or {}).items() if v is not None}
        params = {role: np.asarray(a, np.float32) for role, a in (params or {}).items() if a is not None}
        key = (kind, tuple(map(id, ins)), repr(sorted(attrs.items())), tuple((r, digest(a)) for r, a in sorted(params.items())))
        made = self._made.get(key)
        if made is None:
            made = Op(kind, ins, attrs, params, self.module)
            made.shape = shapes.infer_shape({"name": self.module, "op": kind, "in": list(ins), "attrs": attrs, "params": params}, self)
            self._made[key] = made
        return made

    def table(self, label, values, key):
        """The name of a table with these values; `key` tells it from others without a look at its content."""
        if key not in self._table_of:
            name, k = label, 1
            while name in self.tables:
                k += 1
                name = f"{label}.{k}"
            self.tables[name], self._table_of[key] = values, name
            self._held.append(key)
        return self._table_of[key]

    def input(self, feature):
        """The ids or floats of a feature."""
        return self.op("Input", attrs={"feature": feature})

    def const(self, array):
        """The same value for all rows, of at least one dim."""
        return self.op("Const", params={"value": np.atleast_1d(np.asarray(array, np.float32))})

    def embed(self, x, table, pooling="single", mask="length", eps=0.0, empty=0.0):
        """Embedding lookup."""
        return self.op("Embed", [x], {"table": table, **_given(pooling=(pooling, "single"), mask=(mask, "length"), eps=(eps, 0.0),
                                                               empty=(empty, 0.0))})

    def mask(self, x, rule):
        """1 where a position counts."""
        return self.op("Mask", [x], {"rule": rule})

    def linear(self, x, weight, bias=None, groups=1, axis="last"):
        """W x + b"""
        return self.op("Linear", [x], _given(groups=(groups, 1), axis=(axis, "last")), {"weight": weight, "bias": bias})

    def matmul(self, a, b):
        """a b; a transposed input becomes an attribute, a single number on the right a factor."""
        if b.shape[-2:] == (1, 1) and len(a.shape) == len(b.shape):
            return self.binary("mul", a, b)
        attrs, ins = {}, []
        for x, key in ((a, "trans_a"), (b, "trans_b")):
            if x.is_a("View", kind="transpose") and x.attrs["perm"] == swapped(len(x.shape)):
                attrs[key], x = True, x.ins[0]
            ins.append(x)
        return self.op("MatMul", ins, attrs)

    def binary(self, kind, x, y):
        """Element by element with broadcasting. Dims of 1 that a reshape made on both sides are put back behind it."""
        if len(x.shape) == len(y.shape) and all(v.kind == "Const" or v.is_a("View", kind="reshape") for v in (x, y)):
            keep = [i for i, (a, b) in enumerate(zip(x.shape, y.shape)) if a != 1 or b != 1] or [0]
            if len(keep) < len(x.shape):
                dims = [max(a, b) for a, b in zip(x.shape, y.shape)]
                return self.reshape(self.binary(kind, *(self.reshape(v, [v.shape[i] for i in keep]) for v in (x, y))), dims)
        return self.op("Binary", [x, y], {"kind": kind})

    def unary(self, kind, x, a=None, b=None, **params):
        """Element by element."""
        ones = leading_ones(x.shape)
        if ones:
            return self.reshape(self.unary(kind, self.reshape(x, x.shape[ones:]), a, b, **params), x.shape)
        return self.op("Unary", [x], {"kind": kind, "a": a, "b": b}, params)

    def affine(self, x, scale, shift=0.0):
        """scale x + shift, two scalars; one after another become one, but for a scale behind a shift: (x - 2012) / 7 has no digits left as
        x / 7 - 287.4."""
        if scale == 1 and shift == 0:
            return x
        if x.is_a("Unary", kind="affine") and not x.params and (scale in (1, -1) or x.attrs["b"] == 0):
            return self.affine(x.ins[0], x.attrs["a"] * scale, x.attrs["b"] * scale + shift)
        return self.unary("affine", x, a=float(scale), b=float(shift))

    def softmax(self, x, mask=None, mode="none", value=-1e9):
        """Softmax over the last axis."""
        return self.op("Softmax", [x] if mask is None else [x, mask], _given(mask_mode=(mode, "none"), value=(value, -1e9)))

    def reduce(self, kind, x, axis, mask=None, eps=0.0, empty=0.0):
        """sum, mean, max or sumsq over one axis, which goes away (or stays as [1] when it is the only one)."""
        axis %= len(x.shape)
        rest = x.shape[:axis] + x.shape[axis + 1:]
        if x.shape[axis] == 1 and mask is None and kind != "sumsq":
            return self.reshape(x, rest or [1])
        if kind == "sum" and mask is None:
            square = x.ins[0] if x.is_a("View", kind="reshape") else x
            if square.is_a("Binary", kind="mul") and square.ins[0] is square.ins[1]:
                kind, x = "sumsq", self.reshape(square.ins[0], x.shape)
        attrs = _given(axis=(axis if axis != len(x.shape) - 1 else -1, -1), keepdim=(not rest, False), eps=(eps, 0.0), empty=(empty, 0.0))
        return self.op("Reduce", [x] if mask is None else [x, mask], {"kind": kind, **attrs})

    def concat(self, values, axis=-1):
        """Joins values; neighbours that are slices of one value are that value again, and a join of joins is one join."""
        if len(values) == 1:
            return values[0]
        axis %= len(values[0].shape)
        flat = []
        for value in values:
            inner = value.is_a("Concat") and value.attrs.get("axis", -1) % len(value.shape) == axis
            flat.extend(value.ins if inner else [value])
        flat = _rejoined(self, flat, axis)
        if len(flat) == 1:
            return flat[0]
        return self.op("Concat", flat, _given(axis=(axis if axis != len(values[0].shape) - 1 else -1, -1)))

    # -- views --------------------------------------------------------------------------------------------------------
    def reshape(self, x, dims):
        """Other dims, the same entries."""
        dims = [int(d) for d in dims] or [1]
        if x.is_a("View", kind="reshape"):
            x = x.ins[0]
        if list(x.shape) == dims:
            return x
        if x.kind == "Const":
            return self.const(x.params["value"].reshape(dims))
        return self.op("View", [x], {"kind": "reshape", "dims": dims})

    def transpose(self, x, perm):
        """Dims in another order."""
        perm = [int(p) for p in perm]
        if x.is_a("View", kind="transpose"):
            x, perm = x.ins[0], [x.attrs["perm"][p] for p in perm]
        if [p for p in perm if x.shape[p] != 1] == [p for p in sorted(perm) if x.shape[p] != 1]:
            return self.reshape(x, [x.shape[p] for p in perm])  # only dims of 1 move
        return self.op("View", [x], {"kind": "transpose", "perm": perm})

    def slice(self, x, begin, end, axis):
        """Entries begin .. end - 1; a whole part of a join is that part."""
        axis %= len(x.shape)
        if begin == 0 and end == x.shape[axis]:
            return x
        if x.is_a("View", kind="slice") and x.attrs["axis"] % len(x.shape) == axis:
            return self.slice(x.ins[0], x.attrs["begin"] + begin, x.attrs["begin"] + end, axis)
        if x.is_a("Concat") and x.attrs.get("axis", -1) % len(x.shape) == axis:
            part = _part(self, x, begin, end, axis)
            if part is not None:
                return part
        part = self._slice_of_stack(x, begin, end, axis)
        return part or self.op("View", [x], {"kind": "slice", "axis": axis, "begin": int(begin), "end": int(end)})

    def _slice_of_stack(self, x, begin, end, axis):
        """Slices along dim 0 of a value that is joined and then cut into equal parts."""
        if axis != 0 or not x.is_a("View", kind="reshape") or len(x.ins[0].shape) != 1 or not x.ins[0].is_a("Concat"):
            return None
        size = math.prod(x.shape[1:])
        part = _part(self, x.ins[0], begin * size, end * size, 0)
        return None if part is None else self.reshape(part, (end - begin,) + x.shape[1:])

    def take(self, x, indices, axis):
        """The entries with these indices."""
        axis, indices = axis % len(x.shape), [int(i) for i in indices]
        if indices == list(range(indices[0], indices[0] + len(indices))):
            return self.slice(x, indices[0], indices[0] + len(indices), axis)
        if len(x.shape) < MOST_DIMS and _every(indices, x.shape[axis]):
            lead, count, rest = x.shape[:axis], len(indices), x.shape[axis + 1:]
            column = self.slice(self.reshape(x, (*lead, count, x.shape[axis] // count, *rest)), indices[0], indices[0] + 1, axis + 1)
            return self.reshape(column, (*lead, count, *rest))
        return self.op("View", [x], {"kind": "index_select", "axis": axis, "indices": indices})

    def gather(self, x, index, axis):
        """The entries at computed positions."""
        return self.op("Gather", [x, index], _given(axis=(axis if axis != len(x.shape) - 1 else -1, -1)))

    def expand(self, x, dims):
        """Repeats dims of 1."""
        dims = [int(d) for d in dims]
        return x if list(x.shape) == dims else self.op("View", [x], {"kind": "expand", "dims": dims})


def _every(indices, size):
    """True of begin : size : step where the step divides the size: a column of [size / step, step]."""
    step = indices[1] - indices[0] if len(indices) > 1 else 0
    return step > 1 and size == step * len(indices) and indices[0] < step and indices == list(range(indices[0], size, step))


def _given(**attrs):
    """Attributes that differ from their default: key=(value, default)."""
    return {k: v for k, (v, default) in attrs.items() if v != default}


def leading_ones(shape):
    """How many dims of 1 stand in front of the others; one dim stays."""
    count = 0
    while count < len(shape) - 1 and shape[count] == 1:
        count += 1
    return count


def swapped(rank):
    """The permutation that exchanges the last two of `rank` dims."""
    return list(range(rank - 2)) + [rank - 1, rank - 2]


def _part(graph, joined, begin, end, axis):
    """Entries begin .. end - 1 of a join when they are whole inputs of it or lie within one, else None."""
    at, whole = 0, []
    for value in joined.ins:
        size = value.shape[axis]
        if at <= begin and end <= at + size:
            return graph.slice(value, begin - at, end - at, axis)
        if begin <= at and at + size <= end:
            whole.append(value)
        elif at < end and begin < at + size:
            return None
        at += size
    return graph.concat(whole, axis)


def _rejoined(graph, values, axis):
    """Neighbouring slices of one value as one slice."""
    out = []
    for value in values:
        last = out[-1] if out else None
        if last is not None and all(v.is_a("View", kind="slice", axis=axis) for v in (last, value)) and \
                last.ins[0] is value.ins[0] and last.attrs["end"] == value.attrs["begin"]:
            out[-1] = graph.slice(value.ins[0], last.attrs["begin"], value.attrs["end"], axis)
        else:
            out.append(value)
    return out


_COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")


def is_mask(op):
    """True for values that are 0 or 1 by construction."""
    if op.kind == "Mask":
        return True
    if op.kind == "View":
        return is_mask(op.ins[0])
    if op.is_a("Unary", kind="affine") and not op.params and (op.attrs["a"], op.attrs["b"]) == (-1.0, 1.0):
        return is_mask(op.ins[0])
    if op.kind == "Binary" and op.attrs["kind"] in _COMPARISONS:
        return True
    return op.kind == "Binary" and op.attrs["kind"] in ("mul", "max", "min") and all(is_mask(x) for x in op.ins)
