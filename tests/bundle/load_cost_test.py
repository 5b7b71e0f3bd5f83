"""What loading costs on files that were written to make it cost much: time and memory stay below a constant times the file's size,
or the file is refused. Each class below once took, or could take, more than its size allows.

    load_cost_test.py DPI
"""

import copy
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
DPI, SKIPPED = sys.argv[1], 77
OK, REFUSED = 0, 3
# What a load may take: seconds of processor time and bytes of memory at most, for a file of `size` bytes. Most is the manifest: a
# feature or op of 100 characters becomes structs of some kilobytes.
SECONDS, SECONDS_PER_BYTE = 1.0, 2e-6
MEMORY, MEMORY_PER_BYTE = 96 << 20, 80
SHARED_PARAMETERS = 768 << 20  # 256 MiB that ops may name over and over, whatever the size: read, merged and packed

try:
    import h5py  # noqa: F401
    import numpy as np
    import xxhash  # noqa: F401
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(SKIPPED)

FOLDER = tempfile.TemporaryDirectory()
sys.argv[1:] = [FOLDER.name]
sys.path[:0] = [str(ROOT / "tests/bundle"), str(ROOT / "tests/support")]
import make_raw_bundles as raw  # noqa: E402
from measured import measured  # noqa: E402


def model(features, ops, tables=(), head="y"):
    return {"format": "dpi-bundle", "version": [2, 0], "name": "cost", "features": features, "tables": list(tables), "ops": ops,
            "heads": [{"name": "h", "value": head}]}


def numeric(name, **keys):
    return {"name": name, "kind": "numeric", **keys}


def op(name, op_kind, inputs=(), params=None, **attrs):
    out = {"name": name, "op": op_kind, "in": list(inputs), "attrs": attrs}
    return {**out, "params": params} if params else out


X = [numeric("x")], [op("y", "Input", feature="x")]


def shared_vocabulary(step, arrays, n):
    """`n` features that name the same vocabulary: 1.2 MB became 3.8 GB."""
    features = [{"name": f"f{i}", "kind": "categorical", "vocab_size": 9, "out_of_range": "oov", "oov_id": 0,
                 "encoder": {"steps": [step]}} for i in range(n)]
    return model([numeric("x"), *features], X[1]), arrays


def integer_vocabulary():
    keys = np.arange(100_000, dtype="<i8")
    return shared_vocabulary({"op": "vocab_int", "keys": "/encoders/k"}, {"/encoders/k": keys}, 5000)


def integer_vocabulary_with_ids():
    keys = np.arange(100_000, dtype="<i8")
    return shared_vocabulary({"op": "vocab_int", "keys": "/encoders/k", "ids": "/encoders/i"}, {"/encoders/k": keys, "/encoders/i": keys},
                             5000)


def string_vocabulary():
    texts = [str(i).encode() for i in range(100_000)]
    offsets = np.concatenate([[0], np.cumsum([len(t) for t in texts])]).astype("<u8")
    arrays = {"/encoders/b": np.frombuffer(b"".join(texts), "u1"), "/encoders/o": offsets}
    return shared_vocabulary({"op": "vocab_string", "bytes": "/encoders/b", "offsets": "/encoders/o"}, arrays, 5000)


def chosen_keys():
    """Keys that met in one place while the hash had no seed: 11 s."""
    k = np.arange(200_000, dtype="<u8") << np.uint64(32)
    with np.errstate(over="ignore"):
        x = k ^ (k >> np.uint64(31)) ^ (k >> np.uint64(62))
        x = x * np.uint64(0x319642B2D24D8EC3)
        x = x ^ (x >> np.uint64(27)) ^ (x >> np.uint64(54))
        x = x * np.uint64(0x96DE1B173F119089)
        x = x ^ (x >> np.uint64(30)) ^ (x >> np.uint64(60))
    return shared_vocabulary({"op": "vocab_int", "keys": "/encoders/k"}, {"/encoders/k": x.view("<i8")}, 1)


def crossed_vocabularies():
    """k texts and k ways to cut them would be k * k indexes."""
    features, arrays = [], {}
    for i in range(10):
        arrays[f"/encoders/b{i}"] = np.frombuffer(b"".join(b"%06d" % (j + i) for j in range(20_000)), "u1")
        arrays[f"/encoders/o{i}"] = (np.arange(20_001) * 6).astype("<u8")
        for j in range(10):
            step = {"op": "vocab_string", "bytes": f"/encoders/b{i}", "offsets": f"/encoders/o{j}"}
            features.append({"name": f"f{i}.{j}", "kind": "categorical", "vocab_size": 9, "out_of_range": "oov", "oov_id": 0,
                             "encoder": {"steps": [step]}})
    return model([numeric("x"), *features], X[1]), arrays


def shared_table():
    """Many tables over one data set."""
    tables = [{"name": f"t{i}", "rows": 100_000, "dim": 4, "dtype": "f32", "data": "/tables/t"} for i in range(500)]
    ops = [op("c", "Input", feature="c"), *(op(f"e{i}", "Embed", ["c"], table=f"t{i}") for i in range(500)),
           op("all", "Concat", [f"e{i}" for i in range(500)]), op("y", "Reduce", ["all"], kind="sum", keepdim=True)]
    features = [{"name": "c", "kind": "categorical", "vocab_size": 100_000}]
    return model(features, ops, tables), {"/tables/t": np.zeros((100_000, 4), "<f4")}


def each(n, value):
    """`n` Linears over a value, none the same as another."""
    for i in range(n):
        yield op(f"l{i}", "Linear", [value], {"weight": "w"})
        yield op(f"u{i}", "Unary", [f"l{i}"], kind="leaky", a=(i + 1) / n / 2)


def shared_parameter(n=200):
    """Many ops over one weight, which a backend packs for each."""
    ops = [op("x", "Input", feature="v"), *each(n, "x"), op("all", "Concat", [f"u{i}" for i in range(n)]), op("y", "Reduce", ["all"], kind="sum", keepdim=True)]
    features = [{"name": "v", "kind": "dense", "dim": 512}]
    return model(features, ops), {"/params/w": np.ones((512, 512), "<f4")}


def shared_parameter_too_often():
    return shared_parameter(1000)


def derived_columns():
    """Many weights over one lookup: folds make columns of the table of them."""
    n, rows = 2000, 100_000
    ops = [op("c", "Input", feature="c"), op("e", "Embed", ["c"], table="t"),
           *each(n, "e"), op("all", "Concat", [f"u{i}" for i in range(n)]), op("y", "Reduce", ["all"], kind="sum", keepdim=True)]
    features = [{"name": "c", "kind": "categorical", "vocab_size": rows}]
    tables = [{"name": "t", "rows": rows, "dim": 4, "dtype": "f32"}]
    return model(features, ops, tables), {"/tables/t": np.zeros((rows, 4), "<f4"), "/params/w": np.ones((1, 4), "<f4")}


def derived_heads(n=256):
    """A head each for many multiples of one lookup: 245 MiB of columns, and twice that while they were summed."""
    rows = 250_000
    ops = [op("c", "Input", feature="c"), op("e", "Embed", ["c"], table="t")]
    for i in range(n):
        ops += [op(f"a{i}", "Unary", ["e"], kind="affine", a=1 + (i + 1) / 1000, b=0.0), op(f"y{i}", "Unary", [f"a{i}"], kind="sigmoid")]
    m = model([{"name": "c", "kind": "categorical", "vocab_size": rows}], ops, [{"name": "t", "rows": rows, "dim": 1, "dtype": "f32"}])
    m["heads"] = [{"name": f"h{i}", "value": f"y{i}"} for i in range(n)]
    return m, {"/tables/t": np.zeros((rows, 1), "<f4")}


def derived_features(n=256):
    """Many features over one table, each with a weight of its own: a column for each."""
    rows = 250_000
    ops = []
    for i in range(n):
        ops += [op(f"c{i}", "Input", feature=f"c{i}"), op(f"e{i}", "Embed", [f"c{i}"], table="t")]
    ops += [op("all", "Concat", [f"e{i}" for i in range(n)]), op("y", "Linear", ["all"], {"weight": "w"})]
    features = [{"name": f"c{i}", "kind": "categorical", "vocab_size": rows} for i in range(n)]
    arrays = {"/tables/t": np.zeros((rows, 1), "<f4"), "/params/w": np.linspace(0.1, 0.9, n, dtype="<f4").reshape(1, n)}
    return model(features, ops, [{"name": "t", "rows": rows, "dim": 1, "dtype": "f32"}]), arrays


def constants():
    """Small constants, expanded."""
    ops = [op("c", "Const", params={"value": "c"})]
    ops += [op(f"v{i}", "View", ["c"], kind="expand", dims=[1024, 1024]) for i in range(200)]
    ops += [op("s", "Reduce", ["v0"], kind="sum", axis=-1), op("x", "Input", feature="x")]
    ops += [op("t", "Reduce", ["s"], kind="sum", axis=-1, keepdim=True), op("y", "Binary", ["x", "t"], kind="add")]
    return model([numeric("x")], ops), {"/params/c": np.ones((1, 1), "<f4")}


def many_ops():
    ops = [op("x", "Input", feature="x")]
    ops += [op(f"u{i}", "Unary", ["x" if i == 0 else f"u{i - 1}"], kind="relu") for i in range(5000)]
    return model([numeric("x")], ops, head="u4999"), {}


def many_features():
    return model([numeric(f"x{i}") for i in range(20_000)], [op("y", "Input", feature="x0")]), {}


def wide_concat():
    ops = [op("x", "Input", feature="x"), op("a", "Concat", ["x"] * 60_000), op("y", "Reduce", ["a"], kind="sum", keepdim=True)]
    return model([numeric("x")], ops), {}


def long_provenance():
    m = model(*X)
    m["provenance"] = {f"k{i}": ["x" * 50] * 3 for i in range(20_000)}
    return m, {}


def many_data_sets():
    return model(*X), {f"/params/p{i}": np.empty((0,), "<f4") for i in range(20_000)}


CLASSES = [(integer_vocabulary, OK), (integer_vocabulary_with_ids, OK), (string_vocabulary, OK), (chosen_keys, OK),
           (crossed_vocabularies, REFUSED), (shared_table, REFUSED), (shared_parameter, OK),
           (shared_parameter_too_often, REFUSED), (derived_columns, OK), (derived_heads, OK), (derived_features, OK), (constants, OK), (many_ops, OK),
           (many_features, OK), (wide_concat, OK), (long_provenance, OK), (many_data_sets, OK)]


def cost(path):
    """(exit status, seconds of processor time, peak bytes, last line) of a load."""
    status, text, seconds, peak = measured([DPI, "verify", path, "--device", "cpu"], stdout=subprocess.STDOUT, cpu_seconds=20, memory=2 << 30)
    return status, seconds, peak, text.strip().split("\n")[-1]


def main():
    wrong = []
    only = os.environ.get("DPI_COST_ONLY")
    for make, want in CLASSES:
        if only and make.__name__ not in only:
            continue
        manifest, arrays = make()
        path = pathlib.Path(raw.write(f"{make.__name__}.h5", manifest, arrays))
        size = path.stat().st_size
        code, seconds, memory, text = cost(path)
        limit = MEMORY + (SHARED_PARAMETERS if make is shared_parameter else 0)
        good = code == want and seconds <= SECONDS + SECONDS_PER_BYTE * size and memory <= limit + MEMORY_PER_BYTE * size
        print(f"{make.__name__:28s} {size / 2**20:6.2f} MiB: exit {code}, {seconds:5.2f} s, {memory / 2**20:7.1f} MiB"
              f"{'' if good else '   <-- ' + text[:200]}", flush=True)
        wrong += [] if good else [make.__name__]
        path.unlink()
    FOLDER.cleanup()
    assert not wrong, f"too much, or another outcome: {', '.join(wrong)}"


if __name__ == "__main__":
    main()
