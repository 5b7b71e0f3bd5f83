"""Arrays on their way into the library: what has another type or layout is converted, once, without changing a value silently."""

import array
import time
from typing import Any, Optional

import numpy as np

from .errors import invalid


class Cancel:
    """A flag that ends calls. Give it to calls as cancel=; set() in any thread ends those that run at their next chunk, and every
    later one, with Cancelled."""

    __slots__ = ("flag",)

    def __init__(self) -> None:
        self.flag = array.array("i", [0])

    def set(self) -> None:
        """Ends the calls that have this flag."""
        self.flag[0] = 1

    def clear(self) -> None:
        """Calls that begin from now on run again."""
        self.flag[0] = 0

    def is_set(self) -> bool:
        """Whether set() was called."""
        return self.flag[0] != 0

    def address(self) -> int:
        """Where the flag lies, as long as this object lives."""
        return self.flag.buffer_info()[0]


class Shared:
    """The shared (user) part of a batch: features given once for several item rows.

    offsets      [shared_rows + 1] int64: item rows offsets[s] .. offsets[s+1]-1 belong to shared row s
    ids          [shared_rows, shared slots] int64, or [nnz] with bag_offsets
    dense        [shared_rows, shared dense columns] float32
    bag_offsets  [shared_rows * shared slots + 1] int64, or None for one id per bag
    weights      one float32 per id, or None for 1
    """

    __slots__ = ("offsets", "ids", "dense", "bag_offsets", "weights")

    def __init__(self, offsets: Any, ids: Any = None, dense: Any = None, bag_offsets: Any = None, weights: Any = None) -> None:
        self.offsets, self.ids, self.dense, self.bag_offsets, self.weights = offsets, ids, dense, bag_offsets, weights


def deadline_of(timeout: Optional[float]) -> int:
    """A timeout in seconds as a moment of the monotonic clock in nanoseconds; 0 = none."""
    return 0 if timeout is None else max(1, time.monotonic_ns() + int(min(timeout, 1e9) * 1e9))


def integers(what: str, value: Any) -> Optional[np.ndarray]:
    """value as contiguous int64; raises unless it holds integers that int64 has."""
    if value is None:
        return None
    found = _of_kinds(what, value, "iu", "integers")
    if found.dtype.kind == "u" and found.size and int(found.max()) >= 2**63:
        raise invalid(f"{what}: {int(found.max())} is beyond int64")
    return packed(found, np.int64)


def keys(value: Any) -> np.ndarray:
    """value as contiguous 64-bit integers, uint64 as they are; raises unless it is a list of integers."""
    found = _of_kinds("keys", value, "iu", "integers")
    if found.ndim != 1:
        raise invalid(f"keys: {found.ndim} dimensions, expected [n]")
    return packed(found, np.uint64 if found.dtype == np.uint64 else np.int64)


def floats(what: str, value: Any) -> Optional[np.ndarray]:
    """value as contiguous float32, rounded to nearest; raises unless it holds numbers."""
    if value is None:
        return None
    with np.errstate(over="ignore"):
        return packed(_of_kinds(what, value, "fiub", "numbers"), np.float32)


def packed(values: np.ndarray, kind: Any) -> np.ndarray:
    """values as the library reads them: of one type, contiguous, aligned (numpy's ascontiguousarray leaves what is not)."""
    found = np.ascontiguousarray(values, kind)
    return found if found.flags.aligned else found.copy()


def _of_kinds(what: str, value: Any, kinds: str, expected: str) -> np.ndarray:
    """value as an array whose dtype is of one of these kinds; one without elements, of any."""
    found = np.asarray(value)
    if found.dtype.kind not in kinds and found.size:
        raise invalid(f"{what}: {found.dtype}, expected {expected}")
    return found
