#!/usr/bin/env python3
"""Tables of 64-bit keys through the library: scores against dicts and loops in float64, the same bits as the model written with row
numbers, counters, raw values, memory. keyed_models.py says what the models have.

  python3 tests/e2e/keyed/keyed_tables_test.py build/release                       the models of CI
  python3 tests/e2e/keyed/keyed_tables_test.py build/release --first 1 --count 2000 --devices cpu
"""

import ctypes
import json
import pathlib
import sys
import tempfile

import numpy as np
import xxhash

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "weights" / "python"), str(ROOT / "tests" / "parity"), str(ROOT / "tests" / "e2e" / "random")]

from dpi_export import Builder, encoders  # noqa: E402
from engine import Engine, EngineError  # noqa: E402

import seeds  # noqa: E402
from keyed_models import KeyedModel  # noqa: E402

CI_MODELS = 40 if seeds.full() else 16
OUT_OF_MEMORY = 6
LOGIT = 1e-5


def described(model, what):
    """A JSON text of the C API."""
    call = getattr(model.lib, f"dpi_model_{what}_json")
    call.restype, call.argtypes = ctypes.c_size_t, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
    text = ctypes.create_string_buffer(call(model.handle, None, 0))
    call(model.handle, text, len(text))
    return json.loads(text.value)


def tiered(engine, path, rows, items, **options):
    """Scores from the smallest host tier, up to a half, that can hold the rows of a chunk."""
    budget = 1000
    while True:
        budget += budget // 2
        try:
            with engine.load(path, **options, **{"store.host_bytes": budget, "store.resident_bytes": 0}) as model:
                return model.predict(rows, items)[1]
        except EngineError as error:
            if error.code != OUT_OF_MEMORY:
                raise


def check_model(engine, seed, folder, devices):
    """Texts of what is wrong with one model."""
    m = KeyedModel(seed)
    keyed, numbered = (m.builder(k) for k in (True, False))
    paths = [pathlib.Path(folder) / f"{name}{seed}.h5" for name in ("keyed", "numbered")]
    keyed.write(paths[0])
    numbered.write(paths[1])
    want = m.logits()
    for device in devices:
        for fold in ("on", "off"):
            if device in seeds.EMULATED and fold == ("on", "off")[seed // 4 % 2] and not seeds.full():
                continue
            options = {"device": device, "debug.fold": fold, "debug.fuse": fold, "max_rows": ["4096", "7"][seed % 2], "determinism": ["default", "strict"][seed // 2 % 2]}
            where = f"model {seed} on {device}, fold {fold}: "
            with engine.load(paths[0], **options) as a, engine.load(paths[1], **options) as b:
                _, got = a.predict(m.rows(keyed, True), m.items)
                _, same = b.predict(m.rows(numbered, False), m.items)
                counted = {f["name"]: f["absent"] for f in described(a, "counters")["features"]}
                _, flat = a.predict(m.flat_rows(keyed), m.items)
            error = np.abs(got[:, 0] - want) / np.maximum(1, np.abs(want))
            if not (error <= LOGIT).all():
                r = int(np.argmax(np.nan_to_num(error, nan=np.inf)))
                yield where + f"logit of row {r} is {got[r, 0]:.9g}, expected {want[r]:.9g}"
            if got.tobytes() != same.tobytes():
                yield where + "not the bits of the model with row numbers"
            if got.tobytes() != flat.tobytes() and (device in ("ref", "cpu") or seed // 2 % 2):
                yield where + "not the bits of the rows without a shared part"
            if fold == "off" and tiered(engine, paths[0], m.rows(keyed, True), m.items, **options).tobytes() != got.tobytes():
                yield where + "other bits from the host tier"
            # A user is resolved once for each chunk that has rows of it.
            absent = {f.name: f.absent for f in m.features if not f.shared}
            if any(counted[name] != n for name, n in absent.items()):
                yield where + f"absent keys: counted {counted}, expected {absent}"
    for path in paths:
        path.unlink()


def check_raw_values(engine, folder, devices):
    """Texts become keys: integers as they are, and hashes of 64 bits."""
    words = [f"word{i}" for i in range(50)] + ["", "é"]
    hashed = np.array([xxhash.xxh64_intdigest(w.encode(), 5) for w in words], dtype=np.uint64).view(np.int64)
    whole = np.array([-2**63, 2**63 - 1, -7, 0, 12], dtype=np.int64)
    b = Builder("raw")
    b.categorical("word", keys="words", encoder=[encoders.trim(), encoders.hash_xxh64(seed=5)])
    b.sequence("ids", keys="whole", max_len=4, missing="pad", encoder=encoders.Encoder([encoders.to_id()], splitter="^"))
    b.keyed_table("words", hashed, np.arange(1, len(words) + 1)[:, None], default=[-1])
    b.keyed_table("whole", whole, 1000.0 * np.arange(1, 6)[:, None], default=[0.5])
    z = b.add(b.embed(b.input("word"), "words"), b.embed(b.input("ids"), "whole", "sum"))
    b.head("z", z, activation="none")
    path = pathlib.Path(folder) / "raw.h5"
    b.write(path)
    columns = {"word": ["word7", " é ", "never"], "ids": ["12^-9223372036854775808", "9223372036854775807^5", ""]}
    for device in devices:
        with engine.load(path, device=device) as model:
            got = model.predict_texts(columns)[:, 0].tolist()
            if got != [8 + 5000 + 1000, 52 + 2000 + 0.5, -1]:
                yield f"raw values on {device} score {got}"
            schema = {f["name"]: f for f in described(model, "schema")["features"]}
        if schema["word"].get("keys") != "words" or "vocab_size" in schema["word"]:
            yield f"the schema says {schema['word']}"


def check_memory(engine, folder):
    """The index is in the forecast, and the forecast is the limit."""
    n, rng = 200_000, np.random.default_rng(0)
    keys = np.unique(rng.integers(-2**63, 2**63 - 1, n))
    b = Builder("large")
    b.categorical("user", keys="user")
    b.keyed_table("user", keys, rng.normal(size=(len(keys), 4)))
    b.head("z", b.linear(b.embed(b.input("user"), "user"), np.ones((1, 4))))
    path = pathlib.Path(folder) / "large.h5"
    b.write(path)
    options = {"device": "cpu", "max_rows": 64, "max_contexts": 1}
    with engine.load(path, **options) as model:
        memory = described(model, "info")["memory"]
    if memory["key_bytes"] != 64 * ((4 * len(keys) + 14) // 15):
        yield f"the index of {len(keys)} keys takes {memory['key_bytes']} bytes"
    with engine.load(path, memory_limit=memory["most_bytes"], **options):
        pass
    try:
        engine.load(path, memory_limit=memory["most_bytes"] - 1, **options)
        yield "one byte below the forecast it was loaded"
    except EngineError as refused:
        if f"keys {memory['key_bytes']}" not in str(refused):
            yield f"the refusal says nothing of keys: {refused}"


def lookup(model, table, keys, dim, room=None):
    """dpi_table_lookup: rows [n, dim], or EngineError. `room`: floats of out, where it is another number."""
    call = model.lib.dpi_table_lookup
    call.restype, call.argtypes = ctypes.c_int32, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p,
                                                   ctypes.c_size_t, ctypes.c_void_p]
    keys, out = np.asarray(keys, np.int64), np.full((len(keys), dim), np.nan, np.float32)
    model._call(call, model.handle, table.encode(), keys.ctypes.data, len(keys), out.ctypes.data, out.size if room is None else room)
    return out


def check_lookup(engine, folder, devices):
    """Rows by key and by number are those that went in; what is not there is said by name."""
    rng, path = np.random.default_rng(4), pathlib.Path(folder) / "rows.h5"
    keys = np.unique(np.append(rng.integers(-2**63, 2**63 - 1, 300), [0, -2**63]))
    values, default, plain = rng.normal(size=(len(keys), 5)).astype("f4"), np.arange(5, dtype="f4"), rng.normal(size=(7, 3)).astype("f4")
    b = Builder("rows")
    b.categorical("user", keys="user")
    b.categorical("item", vocab_size=7)
    b.keyed_table("user", keys, values, default=default)
    b.table("item", plain)
    b.table("idle", plain)
    b.head("z", b.linear(b.concat([b.embed(b.input("user"), "user"), b.embed(b.input("item"), "item")]), np.ones((1, 8))))
    b.write(path)
    rows = dict(zip(keys.tolist(), values))
    asked = [*rng.choice(keys, 200).tolist(), 1, 2**63 - 1, 0, -2**63]
    refusals = [("nowhere", [0], 5, None, 2, "there is no table 'nowhere'"), ("idle", [0], 3, None, 2, "'idle'"),
                ("item", [0, 6, 7], 3, None, 1, "key 2 is 7, table 'item' has rows 0 to 6"),
                ("item", [-1], 3, None, 1, "key 0 is -1"), ("user", asked, 5, 5 * len(asked) - 1, 1, f"expected {len(asked)} x 5")]
    for device in devices:
        with engine.load(path, device=device, **{"debug.fold": "off"}) as model:
            if device not in ("ref", "cpu"):
                refusals = [("user", [0], 5, None, 5, "not in host memory")]
            else:
                if not np.array_equal(lookup(model, "user", asked, 5), [rows.get(k, default) for k in asked]):
                    yield f"rows by key on {device} are others"
                if not np.array_equal(lookup(model, "item", [6, 0, 3, 3], 3), plain[[6, 0, 3, 3]]):
                    yield f"rows by number on {device} are others"
                if lookup(model, "user", [], 5).size:
                    yield "no keys have rows"
            for table, at, dim, room, code, text in refusals:
                try:
                    lookup(model, table, at, dim, room)
                    yield f"{table} {at[:3]} on {device}: not refused"
                except EngineError as refused:
                    if refused.code != code or text not in str(refused):
                        yield f"{table} {at[:3]} on {device}: {refused}"


def check_external(engine, folder):
    """A table whose rows are elsewhere is refused by its name."""
    b = Builder("far")
    b.categorical("user", keys="user")
    b.external_table("far away", 4, "f16", key_set="user", default=[1, 2, 3, 4], digest="0" * 64)
    b.head("z", b.linear(b.embed(b.input("user"), "far away"), np.ones((1, 4))))
    path = pathlib.Path(folder) / "far.h5"
    b.write(path)
    try:
        engine.load(path, device="cpu")
        yield "a model without its rows was loaded"
    except EngineError as refused:
        if refused.code != 5 or "table 'far away' is external" not in str(refused):
            yield f"an external table is refused with: {refused}"


def main():
    parser = seeds.parser_of(__doc__, first=1, count=CI_MODELS)
    args = parser.parse_args()
    engine, devices, wrong = Engine(seeds.library_of(args.build)), args.devices.split(","), []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(args.first, args.first + args.count):
            try:
                wrong += check_model(engine, seed, folder, devices)
            except EngineError as error:
                wrong.append(f"model {seed}: {error}")
        for check in (check_raw_values(engine, folder, devices), check_lookup(engine, folder, devices),
                      check_memory(engine, folder), check_external(engine, folder)):
            wrong += check
    print("\n".join(wrong[:12]))
    print(f"{args.count} models: {len(wrong)} faults")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
