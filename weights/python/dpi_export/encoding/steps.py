"""Steps by name, as a model's author writes them (FORMAT.md part 5)."""

import numpy as np

from ..errors import BundleError
from .vocabularies import check_vocabulary


def trim():
    """Drops ASCII white space at both ends."""
    return {"op": "trim"}


def lower():
    """ASCII lower case."""
    return {"op": "lower"}


def upper():
    """ASCII upper case."""
    return {"op": "upper"}


def missing(values):
    """These texts are missing values (the empty text always is)."""
    return {"op": "missing", "values": [str(v) for v in values]}


def vocab_string(values, first_id=1, ids=None):
    """Text -> id: the k-th entry has ids[k], or first_id + k."""
    raw = [v.encode() if isinstance(v, str) else bytes(v) for v in values]
    offsets = np.concatenate([[0], np.cumsum([len(r) for r in raw], dtype=np.int64)]).astype("<u8")
    step = {"op": "vocab_string", "bytes": np.frombuffer(b"".join(raw), "u1"), "offsets": offsets}
    return _with_ids(step, len(raw), first_id, ids)


def vocab_int(keys, first_id=1, ids=None):
    """Integer -> id."""
    keys = np.array([int(k) for k in keys], dtype="<i8")
    return _with_ids({"op": "vocab_int", "keys": keys}, len(keys), first_id, ids)


def vocab_float(keys, first_id=1, ids=None):
    """Number -> id, for categories that are floats. Keys are stored as the bit patterns of float64."""
    keys = np.array([float(k) for k in keys], dtype="<f8") + 0.0  # -0 becomes 0
    return _with_ids({"op": "vocab_float", "keys": keys.view("<i8")}, len(keys), first_id, ids)


def _with_ids(step, n, first_id, ids):
    check_vocabulary(step)
    if ids is None:
        return {**step, "first_id": int(first_id)}
    ids = np.asarray(ids, dtype="<i8")
    if ids.shape != (n,):
        raise BundleError(f"{step['op']}: {ids.size} ids for {n} entries")
    return {**step, "ids": ids}


def hash_xxh64(modulus=None, seed=0, offset=0):
    """Text -> offset + XXH64(bytes, seed) mod modulus; without modulus all 64 bits as an int64, for features of keys."""
    if modulus is None:
        return {"op": "hash", "algorithm": "xxh64", "seed": int(seed)}
    return {"op": "hash", "algorithm": "xxh64", "seed": int(seed), "modulus": int(modulus), "offset": int(offset)}


def hash_murmur3(modulus, seed=0, offset=0):
    """Text -> offset + MurmurHash3_x86_32(bytes, seed) mod modulus."""
    return {"op": "hash", "algorithm": "murmur3_32", "seed": int(seed), "modulus": int(modulus), "offset": int(offset)}


def to_id():
    """The integer itself."""
    return {"op": "to_id"}


def to_float():
    """Decimal text -> number."""
    return {"op": "to_float"}


def clip(lo, hi):
    """min(max(x, lo), hi)"""
    return {"op": "clip", "lo": float(lo), "hi": float(hi)}


def log1p():
    """ln(1 + x)"""
    return {"op": "log1p"}


def signed_log1p():
    """sign(x) ln(1 + |x|)"""
    return {"op": "signed_log1p"}


def standard(mean, std):
    """(x - mean) / std"""
    return {"op": "standard", "mean": float(mean), "std": float(std)}


def minmax(min, max, lo=0.0, hi=1.0):  # noqa: A002 (the names of the format)
    """(x - min) / (max - min) (hi - lo) + lo"""
    return {"op": "minmax", "min": float(min), "max": float(max), "lo": float(lo), "hi": float(hi)}


def buckets(boundaries, right=False, first_id=0):
    """Number -> first_id + numpy.digitize(x, boundaries, right)."""
    return {"op": "buckets", "boundaries": [float(b) for b in boundaries], "right": bool(right), "first_id": int(first_id)}
