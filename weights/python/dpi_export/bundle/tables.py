"""Element types of tables (FORMAT.md part 6): encoding, decoding and block-wise sources."""

import numpy as np

from ..errors import BundleError, check_name
from .row_types import ROW_TYPES, from_fp8, from_numbers, to_fp8, to_numbers

#: dtype -> type of the stored data set
STORED = {name: t.stored for name, t in ROW_TYPES.items()}
BLOCK_BYTES = 4 << 20
_KNOWN = ", ".join([*STORED][:-1]) + " or " + [*STORED][-1]


def encode(values, dtype):
    """(stored block, scalars) of a float block [n, dim]. scalars: the arrays of the type's `scalars` in order, of each row one."""
    values = np.ascontiguousarray(values, dtype=np.float32)
    if not np.isfinite(values).all():
        raise BundleError("a value is not finite")
    if dtype == "f32":
        return values.astype("<f4", copy=False), ()
    if dtype == "f16":
        if np.abs(values).max(initial=0) > 65504:
            raise BundleError(f"value {np.abs(values).max():g} is beyond the range of f16 (65504)")
        return values.astype(np.float16).view("<u2"), ()
    if dtype == "bf16":
        bits = values.view(np.uint32)
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
        if ((rounded & 0x7F80) == 0x7F80).any():
            raise BundleError("a value is beyond the range of bf16")
        return rounded.astype("<u2"), ()
    if dtype == "i8":
        scale = (np.abs(values).max(axis=1, initial=0) / np.float32(127)).astype(np.float32)
        # A row of subnormal magnitude has no usable scale: it is stored as zeros.
        safe = np.where(scale > 1e-38, scale, np.float32(1))[:, None]
        q = np.where(scale[:, None] > 1e-38, np.rint(values / safe), 0)
        return np.clip(q, -127, 127).astype("i1"), (scale.astype("<f4"),)
    if dtype in ("i4", "i2"):
        return to_numbers(values, dtype)
    if dtype == "fp8":
        return to_fp8(values)
    raise BundleError(f"dtype {dtype!r}: expected {_KNOWN}")


def decode(stored, dtype, scalars=(), dim=None):
    """float32 values of a stored block; `scalars` are those of its rows, `dim` their elements where bytes may hold more."""
    stored = np.asarray(stored)
    if dtype == "f32":
        return stored.astype(np.float32, copy=False)
    if dtype == "f16":
        return stored.astype(np.uint16).view(np.float16).astype(np.float32)
    if dtype == "bf16":
        return (stored.astype(np.uint32) << 16).view(np.float32)
    if dtype == "i8":
        return stored.astype(np.float32) * np.asarray(scalars[0], dtype=np.float32)[..., None]
    return from_fp8(stored, *scalars) if dtype == "fp8" else from_numbers(stored, dtype, *scalars, dim)


class TableSource:
    """The rows of one table before writing: an array, or blocks from an iterator (read once) or a callable (read anew)."""

    def __init__(self, name, values, dtype="f32", rows=None, dim=None):
        check_name("table", name)
        if dtype not in STORED:
            raise BundleError(f"table '{name}': dtype {dtype!r}, expected {_KNOWN}")
        self.name, self.dtype, self.array, self._blocks = name, dtype, None, None
        if values is None:
            pass  # a subclass has them
        elif rows is None and dim is None:
            if hasattr(values, "detach"):
                values = values.detach().cpu().numpy()
            self.array = np.asarray(values)
            if self.array.ndim != 2 or self.array.dtype.kind not in "fiu":
                raise BundleError(f"table '{name}': values have shape {list(self.array.shape)} and type "
                                  f"{self.array.dtype}, expected floats [rows, dim]")
            rows, dim = self.array.shape
        elif rows is None or dim is None:
            raise BundleError(f"table '{name}': an iterator of blocks needs both rows and dim")
        else:
            self._blocks = values
        self.rows, self.dim = int(rows), int(dim)
        if not 1 <= self.rows <= 2**31 - 2 or not 1 <= self.dim <= 65536:
            raise BundleError(f"table '{name}': {self.rows} x {self.dim}, expected 1 to 2^31-2 rows and dim 1 to 65536")

    def info(self):
        """The table's manifest entry without data set paths."""
        return {"name": self.name, "rows": self.rows, "dim": self.dim, "dtype": self.dtype}

    def _raw_blocks(self):
        step = max(1, BLOCK_BYTES // (4 * self.dim))
        if self.array is not None:
            for at in range(0, self.rows, step):
                yield self.array[at:at + step]
            return
        if self._blocks is None:
            raise BundleError(f"table '{self.name}': its iterator was already read; give an array or a callable")
        source = self._blocks() if callable(self._blocks) else self._blocks
        if not callable(self._blocks):
            self._blocks = None
        for block in source:
            block = np.asarray(block.detach().cpu().numpy() if hasattr(block, "detach") else block)
            for at in range(0, len(block), step):
                yield block[at:at + step]

    def blocks(self):
        """(first row, stored block, scalars), in order; raises unless they make up exactly `rows` rows."""
        at = 0
        for block in self._raw_blocks():
            if block.ndim != 2 or block.shape[1] != self.dim or at + len(block) > self.rows:
                raise BundleError(f"table '{self.name}': a block of shape {list(block.shape)} at row {at}, "
                                  f"expected [n, {self.dim}] within {self.rows} rows")
            try:
                stored, scalars = self.encoded(block)
            except BundleError as e:
                raise BundleError(f"table '{self.name}', rows {at}..{at + len(block) - 1}: {e}") from None
            yield at, stored, scalars
            at += len(block)
        if at != self.rows:
            raise BundleError(f"table '{self.name}': its blocks hold {at} rows, expected {self.rows}")

    def encoded(self, rows):
        """(stored block, scalars) of float rows."""
        return encode(rows, self.dtype)

    def decoded(self, stored, scalars):
        """float32 values of a stored block."""
        return decode(stored, self.dtype, scalars, self.dim)

    def gather(self, ids):
        """float32 rows as a reader will see them."""
        if self.array is None:
            raise BundleError(f"table '{self.name}' comes from an iterator: its rows can be read after writing only")
        return self.decoded(*self.encoded(self.array[ids]))
