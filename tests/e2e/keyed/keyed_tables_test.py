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

CI_MODELS = 40
LOGIT = 1e-5


def described(model, what):
    """A JSON text of the C API."""
    call = getattr(model.lib, f"dpi_model_{what}_json")
    call.restype, call.argtypes = ctypes.c_size_t, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
    text = ctypes.create_string_buffer(call(model.handle, None, 0))
    call(model.handle, text, len(text))
    return json.loads(text.value)


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
            options = {"device": device, "debug.fold": fold, "debug.fuse": fold, "max_rows": ["4096", "7"][seed % 2]}
            where = f"model {seed} on {device}, fold {fold}: "
            with engine.load(paths[0], **options) as a, engine.load(paths[1], **options) as b:
                _, got = a.predict(m.rows(keyed, True), m.items)
                _, same = b.predict(m.rows(numbered, False), m.items)
                counted = {f["name"]: f["absent"] for f in described(a, "counters")["features"]}
            error = np.abs(got[:, 0] - want) / np.maximum(1, np.abs(want))
            if not (error <= LOGIT).all():
                r = int(np.argmax(np.nan_to_num(error, nan=np.inf)))
                yield where + f"logit of row {r} is {got[r, 0]:.9g}, expected {want[r]:.9g}"
            if got.tobytes() != same.tobytes():
                yield where + "not the bits of the model with row numbers"
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
        for check in (check_raw_values(engine, folder, devices), check_memory(engine, folder), check_external(engine, folder)):
            wrong += check
    print("\n".join(wrong[:12]))
    print(f"{args.count} models: {len(wrong)} faults")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
