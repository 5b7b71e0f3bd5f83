"""What loading costs on files that were written to make it cost much: time and memory stay below a constant times the file's size,
or the file is refused. Each class below once took, or could take, more than its size allows.

    load_cost_test.py DPI
"""

import functools
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
PREDICTS = 640 << 20  # 256 MiB of values in each flight of a context, of which the machine's threads have some
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


# What an op makes of a number that was expanded to `n` floats, under a name; ops between it and a sum.
LENGTH = 1 << 22
BEHIND = {"sum": [], "mean": [], "affine": [("Unary", {"kind": "affine", "a": 2.0, "b": 0.1})],
          "identity": [("Unary", {"kind": "identity"})], "tanh": [("Unary", {"kind": "tanh"})],
          "leaky": [("Unary", {"kind": "leaky", "a": 0.5})], "square": [("Unary", {"kind": "pow", "a": 2.0})],
          "mul": [("Binary", {"kind": "mul"}, "c")], "div": [("Binary", {"kind": "div"}, "c")], "add": [("Binary", {"kind": "add"}, "c")],
          "sub": [("Binary", {"kind": "sub"}, "c")], "add_x": [("Binary", {"kind": "add"}, "x")], "mul_x": [("Binary", {"kind": "mul"}, "x")],
          "slice": [("View", {"kind": "slice", "axis": 0, "begin": 1, "end": LENGTH - 5})],
          "matrix": [("View", {"kind": "reshape", "dims": [1 << 11, 1 << 11]})],
          "columns": [("View", {"kind": "reshape", "dims": [LENGTH // 4, 4]}), ("Linear", {}, None, {"weight": "w"})],
          "softmax": [("View", {"kind": "reshape", "dims": [1 << 11, 1 << 11]}), ("Softmax", {})],
          "transpose": [("View", {"kind": "reshape", "dims": [1 << 12, 1 << 10]}), ("View", {"kind": "transpose", "perm": [1, 0]})],
          "joined": [("Concat", {"axis": 0}, "twice")]}


def expansion(kind, from_constant=False, heads=1, n=4):
    """`n` values of 2^22 floats each, through an op, added up: coefficients for each of them took 7.7 GB. `from_constant`: of
    numbers of the bundle."""
    ops = [op("x", "Input", feature="x"), op("c", "Const", params={"value": "c"})]
    for i in range(heads * n):
        at = f"e{i}"
        ops.append(op(at, "View", ["c" if from_constant else "x"], kind="expand", dims=[LENGTH - (0 if "reshape" in str(BEHIND[kind]) else i)]))
        dims = 1
        for k, (name, attrs, *more) in enumerate(BEHIND[kind]):
            side = [at] if more[:1] == ["twice"] else more[:1] if more and more[0] else []
            ops.append(op(f"o{i}.{k}", name, [at, *side], *more[1:], **attrs))
            at, dims = f"o{i}.{k}", 2 if "dims" in attrs or name in ("Linear", "Softmax") or attrs.get("kind") == "transpose" else 1
        for axis in reversed(range(dims)):
            ops.append(op(f"r{i}.{axis}", "Reduce", [at], kind="mean" if kind == "mean" else "sum", axis=axis, keepdim=axis == 0))
            at = f"r{i}.{axis}"
    for h in range(heads):
        ops += [op(f"a{h}", "Concat", ["x", *(f"r{i}.0" for i in range(h * n, (h + 1) * n))]),
                op(f"s{h}", "Reduce", [f"a{h}"], kind="sum", axis=0, keepdim=True)]
    m = model([numeric("x", missing="pad")], ops)
    m["heads"] = [{"name": f"h{h}", "value": f"s{h}"} for h in range(heads)]
    return m, {"/params/c": np.full((1,), 0.5, "<f4"), "/params/w": np.full((2, 4), 0.25, "<f4")}


def expansions():
    """Each op over a number that is repeated: of a row, of the bundle, and under many heads."""
    for kind in BEHIND:
        yield functools.partial(expansion, kind), f"expanded, {kind}"
    for kind in ("sum", "mul", "matrix", "columns"):
        yield functools.partial(expansion, kind, from_constant=True), f"expanded constant, {kind}"
        yield functools.partial(expansion, kind, heads=64, n=1), f"expanded, {kind}, 64 heads"


def affine_chain(n=400):
    """A layer and then one map after another: a copy of the layer's weights for each."""
    ops = [op("x", "Input", feature="v"), op("l", "Linear", ["x"], {"weight": "w"})]
    ops += [op(f"a{i}", "Unary", [f"a{i - 1}" if i else "l"], kind="affine", a=1 + (i + 1) / 1e6, b=0.0) for i in range(n)]
    ops += [op("t", "Unary", [f"a{n - 1}"], kind="tanh"), op("y", "Reduce", ["t"], kind="sum", keepdim=True)]
    return model([{"name": "v", "kind": "dense", "dim": 512}], ops), {"/params/w": np.full((512, 512), 0.01, "<f4")}


def many_slices(n=4000):
    """Slices of one wide value: coefficients of all of it for each."""
    ops = [op("x", "Input", feature="x"), op("e", "View", ["x"], kind="expand", dims=[1 << 20]), op("u", "Unary", ["e"], kind="tanh")]
    ops += [op(f"s{i}", "View", ["u"], kind="slice", axis=0, begin=i, end=i + 1) for i in range(n)]
    return model([numeric("x")], [*ops, op("all", "Concat", [f"s{i}" for i in range(n)]), op("y", "Reduce", ["all"], kind="sum", keepdim=True)]), {}


def products_of_constants(n=10, m=256, k=4096):
    """A number, repeated to a matrix and multiplied by itself: little memory and m m k multiply-adds each."""
    ops = [op("x", "Input", feature="x"), op("c", "Const", params={"value": "c"}), op("a", "View", ["c"], kind="expand", dims=[m, k])]
    for i in range(n):
        ops += [op(f"m{i}", "MatMul", ["a", "a"], trans_b=True, alpha=1 + i / 1000), op(f"r{i}", "Reduce", [f"m{i}"], kind="sum", axis=-1),
                op(f"q{i}", "Reduce", [f"r{i}"], kind="sum", axis=0, keepdim=True)]
    ops += [op("all", "Concat", ["x", *(f"q{i}" for i in range(n))]), op("y", "Reduce", ["all"], kind="sum", keepdim=True)]
    return model([numeric("x", missing="pad")], ops), {"/params/c": np.full((1, 1), 0.5, "<f4")}


CLASSES = [(integer_vocabulary, OK), (integer_vocabulary_with_ids, OK), (string_vocabulary, OK), (chosen_keys, OK),
           (crossed_vocabularies, REFUSED), (shared_table, REFUSED), (shared_parameter, OK),
           (shared_parameter_too_often, REFUSED), (derived_columns, OK), (derived_heads, OK), (derived_features, OK), (constants, OK), (many_ops, OK),
           (many_features, OK), (wide_concat, OK), (long_provenance, OK), (many_data_sets, OK), (affine_chain, OK), (many_slices, OK), (products_of_constants, OK)]


def cost(path):
    """(exit status, seconds of processor time, peak bytes, last line) of a load."""
    status, text, seconds, peak = measured([DPI, "verify", path, "--device", "cpu"], stdout=subprocess.STDOUT, cpu_seconds=20, memory=2 << 30)
    return status, seconds, peak, text.strip().split("\n")[-1]


def predicts():
    """A row of 2^22 floats in each of four values, of a model whose default is 4096 rows a call: scored in bounded memory."""
    wrong = []
    for kind in ("mean", "sum"):
        path = raw.write("wide.h5", *expansion(kind))
        rows, out = pathlib.Path(FOLDER.name, "rows.csv"), pathlib.Path(FOLDER.name, "scores.csv")
        rows.write_text("x\n" + "\n".join("0.5" for _ in range(3)) + "\n")
        status, text, seconds, peak = measured([DPI, "predict", path, rows, "-o", out], stdout=subprocess.STDOUT, cpu_seconds=60, memory=2 << 30)
        want = 0.5 * (1 + (4 if kind == "mean" else sum(LENGTH - i for i in range(4))))
        got = [float(line.split(",")[0]) for line in out.read_text().split("\n")[1:] if line] if status == OK else []
        good = len(got) == 3 and all(abs(g - want) <= 1e-3 * want for g in got) and peak <= PREDICTS
        print(f"{kind + ', 3 rows':32s}            exit {status}, {seconds:5.2f} s, {peak / 2**20:7.1f} MiB"
              f"{'' if good else f'   <-- {got}, expected {want}: ' + text[:200]}", flush=True)
        wrong += [] if good else [f"{kind}, 3 rows"]
    return wrong


def main():
    wrong = predicts()
    only = os.environ.get("DPI_COST_ONLY")
    for make, want, name in [*((make, want, make.__name__) for make, want in CLASSES), *((make, OK, name) for make, name in expansions())]:
        if only and name not in only:
            continue
        manifest, arrays = make()
        path = pathlib.Path(raw.write("bundle.h5", manifest, arrays))
        size = path.stat().st_size
        code, seconds, memory, text = cost(path)
        limit = MEMORY + (SHARED_PARAMETERS if make is shared_parameter else 0)
        good = code == want and seconds <= SECONDS + SECONDS_PER_BYTE * size and memory <= limit + MEMORY_PER_BYTE * size
        print(f"{name:32s} {size / 2**20:6.2f} MiB: exit {code}, {seconds:5.2f} s, {memory / 2**20:7.1f} MiB"
              f"{'' if good else '   <-- ' + text[:200]}", flush=True)
        wrong += [] if good else [name]
        path.unlink()
    FOLDER.cleanup()
    assert not wrong, f"too much, or another outcome: {', '.join(wrong)}"


if __name__ == "__main__":
    main()
