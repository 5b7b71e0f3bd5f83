"""What a recorded value is while a trace is lowered: floats of an op, references to entries of the inputs, or a masked fill.

References keep ids apart from arithmetic on them: what a model does to an id on its own (id != 0, id + offset, id // 1000) is a function
of that id, so it is kept as one table over the vocabulary and looked up.
"""

import math

import numpy as np

from ..errors import UnsupportedModelError
from .emit import digest

_MOST_BYTES = 256 << 20  #: of a function that is kept as a table


class Floats:
    """The value of an Op; `dims` are its dims without the rows, which the op has as its shape, or [1] where there are none."""

    def __init__(self, op, dims):
        self.op, self.dims = op, tuple(int(d) for d in dims)
        if op.shape != (self.dims or (1,)):
            raise AssertionError(f"an op of dims {op.shape} stands for {self.dims}")


class Complex:
    """Complex numbers: two Floats of the same dims."""

    def __init__(self, re, im):
        self.re, self.im, self.dims = re, im, re.dims


class Refs:
    """`cells`: an object array of (feature name, position, map key), one for each entry of a row."""

    def __init__(self, cells):
        self.cells = cells

    @property
    def dims(self):
        """Dims without the rows."""
        return self.cells.shape

    def flat(self):
        """The cells in order."""
        return list(self.cells.reshape(-1))


class Filled:
    """x where `keep` is 1, the number `fill` elsewhere. Softmax and max take it as a mask; other ops as arithmetic."""

    def __init__(self, x, keep, fill, dims):
        self.x, self.keep, self.fill, self.dims = x, keep, fill, tuple(dims)


class Whole:
    """Floats that were cut to integers, of which it is not known yet between which numbers they lie. `why`: what to refuse them with;
    `floors`: they were cut downwards, not towards 0; `limit`: numbers from it on, and NaN, become the smallest integer (None: floats that
    stay floats)."""

    def __init__(self, x, why, low=None, high=None, floors=False, limit=None):
        self.x, self.why, self.low, self.high, self.floors, self.limit = x, why, low, high, floors, limit

    def moved(self, x):
        """The same of floats that a view has moved."""
        return Whole(x, self.why, self.low, self.high, self.floors, self.limit)

    @property
    def dims(self):
        """Dims without the rows."""
        return self.x.dims

    def within(self, low, high):
        """The same between two integers, of which one may be None."""
        low = self.low if low is None else math.ceil(low) if self.low is None else max(self.low, math.ceil(low))
        high = self.high if high is None else math.floor(high) if self.high is None else min(self.high, math.floor(high))
        return Whole(self.x, self.why, low, high, self.floors, self.limit)


class Maps:
    """Functions of an id: tensors over the vocabulary (over 0 .. max_len for a length), one for each content."""

    def __init__(self, features):
        self._features, self._tensors, self._identity = features, {}, {}

    def identity(self, name, dtype):
        """The key of the id itself, in the input's type; None for floats, which have no vocabulary. Its table is made where it is needed."""
        f = self._features[name]
        if f.kind not in ("categorical", "sequence", "length"):
            return None
        key = (str(dtype), "ids", f.vocab_size if f.has_ids else self._features[f.of].max_len + 1)
        self._identity[key] = (name, dtype)
        return key

    def is_identity(self, key):
        """True for the id itself, as an integer that holds it."""
        return key in self._identity and key[0] in ("torch.int64", "torch.int32")

    def size(self, key):
        """How many ids a function is of."""
        return key[2] if key in self._identity else len(self._tensors[key])

    def add(self, tensor):
        """The key of a function; of the id itself, where it gives that."""
        for key, (_, dtype) in self._identity.items():
            if key[2] == len(tensor) and tensor.dtype == dtype and tensor.equal(self[key]):
                return key
        key = (str(tensor.dtype), digest(tensor.numpy()))
        self._tensors.setdefault(key, tensor)
        return key

    def __getitem__(self, key):
        import torch

        if key not in self._identity:
            return self._tensors[key]
        name, dtype = self._identity[key]
        if key[2] * torch.empty(0, dtype=dtype).element_size() > _MOST_BYTES:
            raise UnsupportedModelError(f"feature '{name}': the model computes with its ids, which are {key[2]}: such a function is kept as a table "
                                        f"over all of them, of {_MOST_BYTES >> 20} MiB at most. Compute it in preprocessing, or by an encoder "
                                        "(hash, modulo), and give its result as the feature, with a vocab_size of its own")
        return torch.arange(key[2]).to(dtype)

    def apply(self, call, parts, dims):
        """call(parts) element by element as Refs, or None where an entry joins two different ids. `parts`: Refs, arrays, numbers."""
        import torch

        spread = [np.broadcast_to(p.cells if isinstance(p, Refs) else np.asarray(p), dims).reshape(-1)
                  if isinstance(p, (Refs, np.ndarray)) else p for p in parts]
        out, seen = np.empty(math.prod(dims), object), {}
        for i in range(len(out)):
            row = [s[i] if isinstance(s, np.ndarray) else s for s in spread]
            ids = {cell[:2] for cell, p in zip(row, parts) if isinstance(p, Refs)}
            if len(ids) != 1 or any(isinstance(p, Refs) and cell[2] is None for cell, p in zip(row, parts)):
                return None
            key = tuple(cell[2] if isinstance(p, Refs) else repr(cell) for cell, p in zip(row, parts))
            if key not in seen:
                given = [self[cell[2]] if isinstance(p, Refs) else
                         torch.as_tensor(np.asarray(cell)[None]) if isinstance(p, np.ndarray) else cell for cell, p in zip(row, parts)]
                made = call(*given)
                if made.is_floating_point() and not made.isfinite().all():
                    return None  # a fill with infinity is a mask, not a number
                seen[key] = self.add(made)
            out[i] = (*ids.pop(), seen[key])
        return Refs(out.reshape(dims))


# -- views: the same moves on every kind of value -----------------------------------------------------------------------
def reshape(g, v, dims):
    """The same entries under other dims."""
    dims = tuple(int(d) for d in dims)
    if isinstance(v, Floats):
        return Floats(g.reshape(v.op, dims), dims)
    if isinstance(v, Refs):
        return Refs(v.cells.reshape(dims))
    if isinstance(v, Whole):
        return v.moved(reshape(g, v.x, dims))
    if isinstance(v, Complex):
        return Complex(reshape(g, v.re, dims), reshape(g, v.im, dims))
    return _both(g, v, dims, lambda part: reshape(g, part, dims))


def permute(g, v, perm):
    """Output dim i is dim perm[i]."""
    dims = tuple(v.dims[p] for p in perm)
    if isinstance(v, Floats):
        return Floats(g.transpose(v.op, perm), dims) if len(perm) > 1 else v
    if isinstance(v, Refs):
        return Refs(v.cells.transpose(perm))
    if isinstance(v, Whole):
        return v.moved(permute(g, v.x, perm))
    if isinstance(v, Complex):
        return Complex(permute(g, v.re, perm), permute(g, v.im, perm))
    return _both(g, v, dims, lambda part: permute(g, part, perm))


def take(g, v, axis, indices):
    """The entries with these indices along an axis."""
    dims = v.dims[:axis] + (len(indices),) + v.dims[axis + 1:]
    if isinstance(v, Floats):
        return Floats(g.take(v.op, indices, axis), dims)
    if isinstance(v, Refs):
        return Refs(np.take(v.cells, indices, axis=axis))
    if isinstance(v, Whole):
        return v.moved(take(g, v.x, axis, indices))
    if isinstance(v, Complex):
        return Complex(take(g, v.re, axis, indices), take(g, v.im, axis, indices))
    return _both(g, v, dims, lambda part: take(g, part, axis, indices))


def expand(g, v, dims):
    """Dims of 1, and new dims in front, repeated."""
    dims = tuple(int(d) for d in dims)
    if isinstance(v, Floats):
        if v.dims == dims:
            return v
        aligned = g.reshape(v.op, (1,) * (len(dims) - len(v.dims)) + v.dims)
        return Floats(g.expand(aligned, dims) if dims else aligned, dims)
    if isinstance(v, Refs):
        return Refs(np.broadcast_to(v.cells, dims))
    if isinstance(v, Whole):
        return v.moved(expand(g, v.x, dims))
    if isinstance(v, Complex):
        return Complex(expand(g, v.re, dims), expand(g, v.im, dims))
    return _both(g, v, dims, lambda part: expand(g, part, dims))


def _both(g, filled, dims, move):
    """A move of both parts of a Filled, which need all dims for it."""
    x, keep = (expand(g, part, filled.dims) for part in (filled.x, filled.keep))
    return Filled(move(x), move(keep), filled.fill, dims)
