"""How rows of tables are stored (FORMAT.md part 6), type by type, and the arithmetic of those that are narrower than i8."""

import numpy as np

from ..errors import BundleError


class RowType:
    """stored: the type of the data set; bits: of an element; scalars: data sets with a number for each row, role -> type, in the order of
    the manifest's keys; since: the minor version of the format that has it."""

    def __init__(self, stored, bits, scalars=None, since=0):
        self.stored, self.bits, self.scalars, self.since = np.dtype(stored), bits, scalars or {}, since

    def element_bytes(self, dim):
        """Bytes of a row's elements."""
        return (dim * self.bits + 7) // 8

    def columns(self, dim):
        """Columns of the data set for rows of `dim` elements."""
        return self.element_bytes(dim) // self.stored.itemsize


_STEPS = {"scale": "<u2", "offset": "<u2"}  # the bits of f16
ROW_TYPES = {
    "f32": RowType("<f4", 32),
    "f16": RowType("<u2", 16),
    "bf16": RowType("<u2", 16),
    "i8": RowType("i1", 8, {"scale": "<f4"}),
    "i4": RowType("u1", 4, _STEPS, since=2),
    "i2": RowType("u1", 2, _STEPS, since=2),
    "fp8": RowType("u1", 8, {"scale": "<f4"}, since=2),
}


def to_numbers(values, dtype):
    """(bytes [n, columns], (scale, offset)) of float32 rows as i4 or i2, rounded as FBGEMM's row-wise quantisation does."""
    bits = ROW_TYPES[dtype].bits
    most = np.float32(2**bits - 1)
    low, high = values.min(axis=1), values.max(axis=1)
    with np.errstate(over="ignore"):
        offset = low.astype(np.float16)
        begin = offset.astype(np.float32)
        span = high - begin
        scale = np.where(span == 0, np.float32(1), span / most).astype(np.float16)
    good = np.isfinite(offset) & np.isfinite(scale)
    if not good.all():
        row = int(np.flatnonzero(~good)[0])
        raise BundleError(f"values from {low[row]:g} to {high[row]:g} are beyond what an f16 scale and offset of {dtype} hold")
    scale = np.where(scale == 0, np.float16(1), scale)
    inverse = np.float32(1) / scale.astype(np.float32)
    q = np.clip(np.rint((values - begin[:, None]) * inverse[:, None]), 0, most).astype("u1")
    per_byte = 8 // bits
    padded = np.zeros((len(q), ROW_TYPES[dtype].columns(q.shape[1]) * per_byte), "u1")
    padded[:, :q.shape[1]] = q
    shifts = np.arange(per_byte, dtype="u1") * np.uint8(bits)
    packed = np.bitwise_or.reduce(padded.reshape(len(q), -1, per_byte) << shifts, axis=2)
    return packed, (scale.view("<u2"), offset.view("<u2"))


def from_numbers(stored, dtype, scale, offset, dim=None):
    """float32 rows of stored bytes [.., columns] and the bits of f16 scales and offsets [..]."""
    bits = ROW_TYPES[dtype].bits
    shifts = np.arange(8 // bits, dtype="u1") * np.uint8(bits)
    q = (np.asarray(stored)[..., None] >> shifts & np.uint8(2**bits - 1)).reshape(*stored.shape[:-1], -1)[..., :dim]
    scale, offset = (np.ascontiguousarray(x, "<u2").view(np.float16).astype(np.float32)[..., None] for x in (scale, offset))
    return scale * q.astype(np.float32) + offset


def to_fp8(values):
    """(bytes [n, dim], (scale,)) of float32 rows as e4m3fn: the largest magnitude of a row becomes 448, others are rounded to nearest,
    ties to even."""
    scale = (np.abs(values).max(axis=1, initial=0) / np.float32(448)).astype("<f4")
    usable = (scale > 1e-38)[:, None]  # a row of subnormal magnitude is stored as zeros
    x = np.where(usable, values / np.where(usable, scale[:, None], np.float32(1)), np.float32(0)).astype(np.float32)
    bits = x.view(np.uint32)
    sign, size = bits >> 24 & 0x80, bits & 0x7FFFFFFF
    rounded = (size + 0x7FFFF + (size >> 20 & 1) - 0x3C000000) >> 20
    small = np.rint(np.abs(x) * np.float32(512)).astype(np.uint32)  # below 2^-6 all are multiples of 2^-9
    code = np.minimum(np.where(size < 0x3C800000, small, rounded), 0x7E)
    return (sign | code).astype("u1"), (scale,)


def from_fp8(stored, scale):
    """float32 rows of stored bytes [.., dim] and f32 scales [..]."""
    return np.asarray(scale, np.float32)[..., None] * _FP8[np.asarray(stored)]


def _fp8_values():
    """The 256 numbers of e4m3fn: bias 7, no infinities, 0x7F and 0xFF are NaN."""
    code = np.arange(128)
    exponent, mantissa = code >> 3, code & 7
    values = np.where(exponent == 0, mantissa * 2.0**-9, (8 + mantissa) * 2.0**(exponent - 10)).astype(np.float32)
    values[127] = np.nan
    return np.concatenate([values, -values])


_FP8 = _fp8_values()
