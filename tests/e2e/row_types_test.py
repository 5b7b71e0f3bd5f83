#!/usr/bin/env python3
"""Tables of i4, i2 and fp8 through the library: every element against FORMAT.md's definition, read by h5py and plain numbers; pooled rows
against float64; the host tier against resident rows; what a bundle may hold that no exporter writes.

  python3 tests/e2e/row_types_test.py build/release
"""

import json
import math
import pathlib
import struct
import sys
import tempfile

import h5py
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "weights" / "python"), str(ROOT / "tests" / "parity"), str(ROOT / "tests" / "e2e" / "random")]

from dpi_export import Builder, Rows, repack  # noqa: E402
from engine import Engine, EngineError  # noqa: E402

import seeds  # noqa: E402

DIMS = (1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 33, 64)
POOLED = (5, 16, 33)
N, POOLINGS = 40, ("sum", "mean", "max")
LOGIT = 1e-5
#: how each device is asked; an instruction set that a processor lacks is left out
WAYS = {"ref": [{}], "cpu": [{"isa": i} for i in ("scalar", "avx2", "avx512", "neon")], "cuda_emu": [{}, {"debug.fold": "off", "debug.fuse": "off"}]}


def fp8(byte):
    """A number of e4m3fn."""
    sign, exponent, mantissa = -1.0 if byte >> 7 else 1.0, byte >> 3 & 15, byte & 7
    if byte & 127 == 127:
        return math.nan
    return sign * (math.ldexp(mantissa, -9) if exponent == 0 else math.ldexp(8 + mantissa, exponent - 10))


def rows_of(path, name, at=slice(None)):
    """float32 rows of a table, or some of them, by part 6 of FORMAT.md."""
    with h5py.File(path, "r") as f:
        t = next(t for t in json.loads(f["manifest"][()].tobytes())["tables"] if t["name"] == name)
        data = f[t.get("data", "/tables/" + name)][at]
        scale, offset = (f[t[k]][at] if k in t else None for k in ("scale", "offset"))
    out = np.empty((len(data), t["dim"]), np.float32)
    for r in range(len(data)):
        for c in range(t["dim"]):
            if t["dtype"] == "fp8":
                out[r, c] = np.float32(float(scale[r]) * fp8(int(data[r, c])))
                continue
            bits = {"i4": 4, "i2": 2}[t["dtype"]]
            q = int(data[r, c * bits // 8]) >> c * bits % 8 & (1 << bits) - 1
            (s,), (o,) = (struct.unpack("<e", int(x[r]).to_bytes(2, "little")) for x in (scale, offset))
            out[r, c] = np.float32(s * q + o)
    return out


def values(rng, dim):
    """Rows of all sizes, zeros, constants, and rows that one element rules."""
    v = rng.normal(size=(N, dim)) * 10.0 ** rng.integers(-4, 4, (N, 1))
    v[3], v[4], v[5], v[6] = 0, 0.1, -7.25, rng.normal(size=dim) * 1e-7
    v[7, 0] = 500
    return v.astype(np.float32)


def build(dtype):
    """Heads: every column of every table of a row's id, then pooled rows, added up with weights."""
    rng = np.random.default_rng(sum(map(ord, dtype)))
    b = Builder("types")
    b.categorical("id", N)
    b.sequence("bag", N, missing="pad")
    weights = {}
    for dim in DIMS:
        x = b.embed(b.input("id"), b.table(f"t{dim}", values(rng, dim), dtype=dtype))
        for c in range(dim):
            b.head(f"{dim}.{c}", b.slice(x, c, c + 1), activation="none")
    for dim in POOLED:
        for pooling in POOLINGS:
            weights[dim, pooling] = rng.normal(size=(1, dim)).astype("f4")
            b.head(f"{pooling}{dim}", b.linear(b.embed(b.input("bag"), f"t{dim}", pooling), weights[dim, pooling]), activation="none")
    return b, weights


def expected(tables, weights, ids, bags):
    """(the columns, float32; the pooled heads and what they may be off by, float64)."""
    single = np.concatenate([tables[dim][ids] for dim in DIMS], axis=1)
    pooled = []
    for (dim, pooling), w in weights.items():
        rows = [tables[dim][bag].astype(np.float64) for bag in bags]
        x = [getattr(np, pooling)(r, axis=0) if len(r) else np.zeros(dim) for r in rows]
        size = [np.abs(r).sum(axis=0) if len(r) else np.zeros(dim) for r in rows]
        pooled.append([(v @ w[0], s @ np.abs(w[0])) for v, s in zip(x, size)])
    return single, np.array(pooled, np.float64).transpose(1, 0, 2)


def check(engine, path, built, devices):
    b, weights = built
    rng = np.random.default_rng(8)
    bags = [rng.integers(0, N, n).tolist() for n in [0, 1, 2, 3, 7, 20, *rng.integers(0, 30, N - 6)]]
    ids = rng.permutation(N)
    rows = Rows.from_columns(b, {"id": ids.tolist(), "bag": bags})
    single, pooled = expected({dim: rows_of(path, f"t{dim}") for dim in DIMS}, weights, ids, bags)
    heads, tried = single.shape[1] + pooled.shape[1], 0
    for device in devices:
        for options in [*WAYS[device], {**WAYS[device][0], "store.host_bytes": 1 << 20, "store.resident_bytes": 0}]:
            try:
                with engine.load(path, device=device, **options) as model:
                    got, _ = model.predict(rows, N, heads)
            except EngineError as error:
                if "isa" in options and "isa" in str(error):
                    continue
                raise
            tried += 1
            where = f"{path.stem} on {device} {options}: "
            same = got[:, :single.shape[1]].astype(np.float32) == single  # a scalar that is added up has no -0
            if not same.all():
                r, h = np.argwhere(~same)[0]
                yield where + f"row {r}, head {h} is {got[r, h]:.9g}, expected {single[r, h]:.9g}; {np.sum(~same)} are others"
            off = np.abs(got[:, single.shape[1]:] - pooled[..., 0])
            if not (off <= LOGIT * np.maximum(1, pooled[..., 1])).all():
                yield where + f"pooled rows are off by {np.nanmax(off)}"
    if tried < 2 * len(devices):
        yield f"{path.stem}: only {tried} ways were tried"


def check_blocks(engine, folder, devices):
    """A table that is read in several blocks, whose last one is short."""
    n, dim = 600_000, 8
    b = Builder("blocks")
    b.categorical("id", n)
    x = b.embed(b.input("id"), b.table("t", np.random.default_rng(5).normal(size=(n, dim)), dtype="i4"))
    for c in range(dim):
        b.head(str(c), b.slice(x, c, c + 1), activation="none")
    path = folder / "blocks.h5"
    b.write(path, check=None)
    ids = np.unique([0, 1, n - 1, 524286, 524287, 524288, *np.random.default_rng(6).integers(0, n, 50)])
    want = rows_of(path, "t", ids)
    for device in devices:
        with engine.load(path, device=device) as model:
            got, _ = model.predict(Rows.from_columns(b, {"id": ids.tolist()}), len(ids), dim)
        if not np.array_equal(got.astype(np.float32), want):
            yield f"several blocks on {device}: other rows"


def check_any_bits(engine, folder, built, devices):
    """NaN among the elements of fp8, and an infinite scale of it: scores that say so, not a fault."""
    b, path, edited = built[0], folder / "plain.h5", folder / "any.h5"
    b.write(path, check=None)
    with h5py.File(path, "r") as source, h5py.File(edited, "w") as f:
        for name, item in source.items():
            source.copy(item, f, name)
        f["tables/t8"][0, 0] = 0x7F
        f["tables/t16.scale"][1] = np.inf
    repack(edited, folder / "any_bits.h5", check=None)
    rows = Rows.from_columns(b, {"id": [0, 1, 2], "bag": [[0], [1], [2]]})
    want = np.concatenate([rows_of(folder / "any_bits.h5", f"t{dim}")[:3] for dim in DIMS], axis=1)
    if np.isnan(want).sum() != 1 or not np.isinf(want).any():
        yield "any bits: the bundle does not hold what it should"
    for device in devices:
        with engine.load(folder / "any_bits.h5", device=device, nonfinite="return") as model:
            got, _ = model.predict(rows, 3, want.shape[1] + len(POOLED) * len(POOLINGS))
        if not np.array_equal(got[:, :want.shape[1]].astype(np.float32), want, equal_nan=True):
            yield f"any bits on {device}: other rows"


def main():
    args = seeds.parser_of(__doc__, 1, 1).parse_args()
    engine, devices, wrong = Engine(seeds.library_of(args.build)), args.devices.split(","), []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for dtype in ("i4", "i2", "fp8"):
            built = build(dtype)
            built[0].write(folder / f"{dtype}.h5", check=None)
            wrong += check(engine, folder / f"{dtype}.h5", built, devices)
        wrong += check_blocks(engine, folder, devices)
        wrong += check_any_bits(engine, folder, built, devices)
    print("\n".join(wrong) or f"3 types, {len(DIMS)} widths on {', '.join(devices)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
