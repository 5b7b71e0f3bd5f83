"""Collects test cases of ops and writes them as vectors.json (what each case is) and vectors.bin (its numbers).

Positions in the json are [first element, number of elements] into the bin, which is one array of 32-bit words
(float32, int32, or the bytes of a table padded to whole words).
"""
import json

import numpy as np


class Const:
    """An input that is the same for all rows: an array without row axis."""

    def __init__(self, data):
        self.data = np.asarray(data, np.float32)


def f32(rng, *shape):
    return rng.normal(size=shape).astype(np.float32)


def f64(x):
    return (x.data if isinstance(x, Const) else np.asarray(x)).astype(np.float64)


class Bags:
    """Ids of one feature. bags: a list of lists, or one id per row (single). weights run parallel."""

    def __init__(self, bags, weights=None, single=False):
        self.bags, self.weights, self.single = bags, weights, single

    def __len__(self):
        return len(self.bags)


def number_rows(values, bits):
    """(bytes of whole rows, their values) of rows as i4 or i2: numbers from the lowest bits of each byte on, then f16 scale and offset."""
    raw, seen = [], []
    for row in values:
        offset = np.float16(row.min())
        scale = np.float16((row.max() - np.float32(offset)) / (2**bits - 1) or 1)
        q = [int(np.clip(np.rint((v - float(offset)) / float(scale)), 0, 2**bits - 1)) for v in row]
        packed = sum(n << (i * bits) for i, n in enumerate(q)).to_bytes((len(q) * bits + 7) // 8, "little")
        raw.append(np.frombuffer(packed + scale.tobytes() + offset.tobytes(), np.uint8))
        seen.append([np.float32(float(scale) * n + float(offset)) for n in q])
    return np.array(raw), np.array(seen, np.float64)


def fp8_rows(values):
    """The same as e4m3fn, each element the nearest number, then an f32 scale."""
    numbers = np.array([m * 2.0**-9 if e == 0 else (8 + m) * 2.0**(e - 10) for e in range(16) for m in range(8)][:127])
    numbers = np.concatenate([numbers, [np.inf], -numbers])  # 0x7F is NaN
    scale = (np.abs(values).max(axis=1) / 448).astype(np.float32)
    scale[scale == 0] = 1
    code = np.abs(values[..., None].astype(np.float64) / scale[:, None, None] - numbers).argmin(axis=-1)
    seen = (scale[:, None].astype(np.float64) * numbers[code]).astype(np.float32)
    return np.concatenate([code.astype(np.uint8), scale[:, None].view(np.uint8)], axis=1), seen.astype(np.float64)


class Table:
    """Rows in a storage type. `values` is what a lookup must see, in float64."""

    DTYPES = {"f32": 0, "f16": 1, "bf16": 2, "i8": 3, "i4": 4, "i2": 5, "fp8": 6}

    def __init__(self, values, dtype="f32"):
        self.dtype, self.scale = dtype, None
        values = np.asarray(values, np.float32)
        self.rows, self.dim = values.shape
        if dtype == "f32":
            self.raw, self.values = values, values.astype(np.float64)
        elif dtype == "f16":
            self.raw = values.astype(np.float16)
            self.values = self.raw.astype(np.float64)
        elif dtype == "bf16":
            self.raw = (values.view(np.uint32) >> 16).astype(np.uint16)
            self.values = (self.raw.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        elif dtype == "fp8":
            self.raw, self.values = fp8_rows(values)
        elif dtype in ("i4", "i2"):
            self.raw, self.values = number_rows(values, int(dtype[1]))
        else:
            top = np.abs(values).max(axis=1)
            self.scale = np.where(top > 0, top / 127, 1).astype(np.float32)
            self.raw = np.rint(values / self.scale[:, None]).astype(np.int8)
            self.values = self.raw.astype(np.float64) * self.scale.astype(np.float64)[:, None]

    def is_nonzero(self, row):
        """Is the float32 sum of the components, added in order, different from 0?"""
        total = np.float32(0)
        for v in self.values[row]:
            total = np.float32(total + np.float32(v))
        return total != 0


class Recorder:
    def __init__(self):
        self.cases, self.words, self.n_words, self.known = [], [], 0, {}

    def _put(self, array, dtype):
        raw = np.ascontiguousarray(array, dtype).tobytes()
        n = len(raw) // np.dtype(dtype).itemsize
        raw += b"\0" * (-len(raw) % 4)
        if raw not in self.known:
            self.known[raw] = self.n_words
            self.words.append(raw)
            self.n_words += len(raw) // 4
        return [self.known[raw], n]

    def _input(self, x):
        if x is None:
            return None
        if isinstance(x, Const):
            return {"dims": list(x.data.shape), "constant": True, "data": self._put(x.data, "<f4")}
        if not isinstance(x, Bags):
            return {"dims": list(x.shape[1:]), "data": self._put(x, "<f4")}
        if x.single:
            return {"ids": self._put(x.bags, "<i4"), "rows": len(x)}
        flat = [i for bag in x.bags for i in bag]
        offsets = np.cumsum([0] + [len(b) for b in x.bags])
        entry = {"ids": self._put(flat, "<i4"), "offsets": self._put(offsets, "<i4"), "rows": len(x)}
        if x.weights is not None:
            entry["weights"] = self._put([w for bag in x.weights for w in bag], "<f4")
        return entry

    def _param(self, p):
        if p is None:
            return None
        p = np.asarray(p)
        return {"dims": list(p.shape), "data": self._put(p, "<f4")}

    def _table(self, t):
        raw = {"f32": "<f4", "f16": "<f2", "bf16": "<u2", "i8": "i1"}.get(t.dtype, "u1")
        entry = {"rows": t.rows, "dim": t.dim, "dtype": Table.DTYPES[t.dtype], "data": self._put(t.raw, raw)}
        if t.scale is not None:
            entry["scale"] = self._put(t.scale, "<f4")
        return entry

    def add(self, op, name, rows, inputs, outputs, attrs=None, params=(), tables=(), row_map=None):
        """outputs: float64 arrays [rows, ..]; NaN = the op leaves the element alone, or the result is NaN."""
        case = {"op": op, "name": name, "rows": int(rows), "attrs": attrs or {},
                "inputs": [self._input(x) for x in inputs],
                "outputs": [None if y is None else {"dims": list(y.shape[1:]), "data": self._put(y, "<f4")}
                            for y in outputs]}
        if params:
            case["params"] = [self._param(p) for p in params]
        if tables:
            case["tables"] = [self._table(t) for t in tables]
        if row_map is not None:
            case["row_map"] = self._put(row_map, "<i4")
        self.cases.append(case)

    def write(self, folder):
        (folder / "vectors.bin").write_bytes(b"".join(self.words))
        lines = ",\n".join(json.dumps(c, separators=(",", ":")) for c in self.cases)
        (folder / "vectors.json").write_text("[\n" + lines + "\n]\n")
        return len(self.cases), 4 * self.n_words
