#!/usr/bin/env python3
"""Tables of 64-bit keys whose rows are in RocksDB or Redis: the scores of random models (keyed_models.py) against dicts and loops in
float64, the bits of the same model with its rows in the bundle, rows alone, absent keys; a table of which a fifth fits the host tier.

  python3 tests/e2e/keyed/external_tables_test.py build/release                       the models of CI
  python3 tests/e2e/keyed/external_tables_test.py build/release --first 1 --count 500 --devices cpu
"""

import contextlib
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "weights" / "python"), str(ROOT / "tests" / "parity"), str(ROOT / "tests" / "e2e" / "random"),
                str(ROOT / "tests" / "e2e")]

from dpi_export import Builder, Rows  # noqa: E402
from engine import Engine, EngineError  # noqa: E402

import seeds  # noqa: E402
from keyed_models import KeyedModel  # noqa: E402
from keyed_tables_test import LOGIT, OUT_OF_MEMORY, described, lookup  # noqa: E402
from redis_server import is_installed, redis_server  # noqa: E402

CI_MODELS = 24


class Place:
    """Where rows go with `dpi store load`, and the option that says so to the engine."""

    def __init__(self, build, folder, address, seed):
        self.program, self.plugins = build / "bin" / "dpi", build / "lib" / "dpi" / "backends-1"
        self.redis = address is not None and seed % 3 == 0
        self.where = f"127.0.0.1:{address}" if self.redis else str(pathlib.Path(folder) / f"rows{seed}")

    def load(self, bundle):
        """The tables' digests by name."""
        flag = "--redis" if self.redis else "--rocksdb"
        done = subprocess.run([self.program, "store", "load", bundle, flag, self.where, "--backend-dir", self.plugins, "--json"],
                              check=True, capture_output=True)
        return {t["name"]: t["content"] for t in json.loads(done.stdout)["tables"]}

    def options(self):
        return {("store.redis_address" if self.redis else "store.rocksdb_path"): self.where, "backend_dir": str(self.plugins)}


def smallest(engine, path, options, act):
    """What act(model) answers with the smallest tier, up to a half, that holds the rows of a chunk."""
    budget = 1000
    while True:
        budget += budget // 2
        try:
            with engine.load(path, **options, **{"store.host_bytes": budget}) as model:
                return act(model)
        except EngineError as error:
            if error.code != OUT_OF_MEMORY or budget > 1e8:
                raise


def check_rows(model, m, where):
    """dpi_table_lookup by key, absent ones and odd ones among them."""
    for t in m.used():
        keys = t.set.near[:50]
        want = np.array([t.row(int(k)) for k in keys])
        if not np.array_equal(lookup(model, t.name, keys, t.dim), want.astype(np.float32)):
            yield f"{where}rows of {t.name} ({t.dtype}) are others"


def check_absent(model, m, where):
    """Keys that no tier has are counted; how often depends on what is asked once for several features."""
    counted = sum(t["absent"] for t in described(model, "counters")["tiers"])
    if (counted > 0) != any(f.absent > 0 for f in m.features if any(x.feature is f for x in m.lookups)):
        yield f"{where}{counted} absent keys counted"


def check_model(engine, build, seed, folder, address, devices):
    m = KeyedModel(seed).without_nonzero()
    inline, path = m.builder(True), pathlib.Path(folder) / f"inline{seed}.h5"
    inline.write(path)
    place = Place(build, folder, address, seed)
    external = m.builder(True, external=place.load(path))
    far = pathlib.Path(folder) / f"external{seed}.h5"
    external.write(far)
    want = m.logits()
    for device in devices:
        fold = ["on", "off", "tiered", "off"][seed % 4]  # with "on", tables in memory are derived from: other roundings
        options = {"device": device, "debug.fold": fold, "debug.fuse": ["on", "off"][seed // 2 % 2], "max_rows": ["4096", "7"][seed % 2],
                   "determinism": ["default", "strict"][seed // 3 % 2], "threads": 1 + seed % 3, "in_flight": 1 + seed % 4}
        where = f"model {seed} on {device}, {'Redis' if place.redis else 'RocksDB'}, fold {fold}: "
        with engine.load(path, **options) as model:
            same = model.predict(m.rows(inline, True), m.items)[1]

        def act(model):
            got = model.predict(m.rows(external, True), m.items)[1]
            again = model.predict(m.rows(external, True), m.items)[1]
            return got, again, [*check_rows(model, m, where), *check_absent(model, m, where)]

        got, again, wrong = smallest(engine, far, {**options, **place.options()}, act)
        yield from wrong
        error = np.abs(got[:, 0] - want) / np.maximum(1, np.abs(want))
        if not (error <= LOGIT).all():
            yield f"{where}logits are off by {np.max(error)}"
        if again.tobytes() != got.tobytes() or (fold != "on" and got.tobytes() != same.tobytes()):
            yield where + "not the bits of the model with its rows in the bundle"


def check_refusals(engine, build, folder, address):
    """What cannot be served is refused by name when the model is loaded."""
    m = KeyedModel(5).without_nonzero()
    path, far = pathlib.Path(folder) / "one.h5", pathlib.Path(folder) / "far.h5"
    m.builder(True).write(path)
    place = Place(build, folder, address, 1)
    digests = place.load(path)
    name = m.used()[0].name
    m.builder(True, external=digests).write(far)
    cases = [({}, "store.rocksdb_path"), ({**place.options()}, "set 'store.host_bytes'"),
             ({**place.options(), "store.host_bytes": 1 << 20, f"table.{name}.default": 2}, f"table.{name}.default")]
    for options, text in cases:
        try:
            engine.load(far, device="cpu", **options)
            yield f"{options}: not refused"
        except EngineError as refused:
            if text not in str(refused):
                yield f"{options}: {refused}"
    m.builder(True, external={t: "0" * 64 for t in digests}).write(far)
    try:
        engine.load(far, device="cpu", **place.options(), **{"store.host_bytes": 1 << 20})
        yield "a table of another digest was taken"
    except EngineError as refused:
        if "is not there" not in str(refused):
            yield f"a table of another digest: {refused}"


def check_evictions(engine, build, folder, address, devices):
    """6,000 keys behind room for about a fifth: rows come, go and come again, and sums stay those of the rows."""
    rng = np.random.default_rng(9)
    keys = np.unique(rng.integers(-2**63, 2**63 - 1, 6000))
    values, default = rng.integers(-8, 9, (len(keys), 8)).astype(np.float32), np.full(8, 3, np.float32)
    weight = rng.integers(-3, 4, (1, 8)).astype(np.float32)  # whole numbers: sums are exact in any order
    row = dict(zip(keys.tolist(), values @ weight[0]))
    digests, bundles, place = None, [pathlib.Path(folder) / f"{name}.h5" for name in ("all", "most")], Place(build, folder, address, 4)
    for path in bundles:
        b = Builder("evictions")
        b.sequence("bag", keys="users", missing="pad", pad_id=int(keys[7]))
        if digests is None:
            b.keyed_table("users", keys, values, default=default)
        else:
            b.external_table("users", 8, rows=len(keys) + 1, digest=digests["users"], key_set="users", default=default)
        b.head("z", b.linear(b.embed(b.input("bag"), "users", "sum", "id"), weight), activation="none")
        b.write(path)
        digests = digests or place.load(path)
    for device in devices:
        fetched = 0
        options = {"device": device, "max_rows": 32, "store.host_bytes": 100000, **place.options()}
        with engine.load(bundles[1], **options) as model:
            for _ in range(40):
                bags = [rng.choice(keys, rng.integers(0, 6)).tolist() + [int(rng.integers(-9, 9))] * int(rng.integers(2)) for _ in range(100)]
                want = [sum(row.get(k, default @ weight[0]) for k in bag if k != keys[7]) for bag in bags]
                got = model.predict(Rows.from_columns(b, {"bag": bags}), 100)[0][:, 0]
                if not np.array_equal(got, np.array(want, np.float32)):
                    yield f"evictions on {device}: row {np.flatnonzero(got != np.array(want, np.float32))[0]} is another"
                    break
            fetched = described(model, "counters")["tiers"][0]["fetched"]
        if fetched < len(keys) + 1000:
            yield f"evictions on {device}: {fetched} rows fetched, which is no proof that any came again"


def check_hot_keys(engine, build, folder, address):
    """Rows that a list of raw keys names are there before the first call; without it that call fetches them."""
    keys, values = [-2**63, -9, 0, 5, 2**40], np.arange(10, dtype=np.float32).reshape(5, 2)
    digests, bundles = None, [pathlib.Path(folder) / f"{name}.h5" for name in ("hot_inline", "hot_far")]
    place = Place(build, folder, address, 2)
    for path in bundles:
        b = Builder("hot")
        b.categorical("user", keys="users", pad_id=5)
        b.sequence("bag", keys="users", missing="pad", pad_id=5)
        if digests is None:
            b.keyed_table("users", keys, values)
        else:
            b.external_table("users", 2, rows=6, digest=digests["users"], key_set="users")
        parts = [b.embed(b.input("user"), "users"), b.embed(b.input("bag"), "users", "sum")]
        b.head("z", b.linear(b.concat(parts), np.ones((1, 4), np.float32)), activation="none")
        b.write(path)
        digests = digests or place.load(path)
    csv, out = pathlib.Path(folder) / "log.csv", pathlib.Path(folder) / "list.hot"
    csv.write_text("user,bag\n-9,0|5\n1099511627776,0\n7,-9223372036854775808\n")
    options = {"device": "cpu", **place.options(), "store.host_bytes": 20000}
    words = [word for k, v in options.items() if k != "device" for word in ("--option", f"{k}={v}")]
    subprocess.run([place.program, "store", "hot-keys", bundles[1], "--data", csv, "--out", out, *words], check=True, capture_output=True)
    for hot, want in (("", 4), (str(out), 0)):  # 5 is padding, and has a place of its own
        listed = {"store.hot_keys": hot} if hot else {}
        with engine.load(bundles[1], **options, **listed) as model:
            before = described(model, "counters")["tiers"][0]["fetched"]
            rows = Rows.from_columns(b, {"user": [[-9], [2**40]], "bag": [[0, 5], [-2**63]]})
            model.predict(rows, 2)
            got = described(model, "counters")["tiers"][0]["fetched"] - before
        if got != want:
            yield f"{got} rows fetched {'with' if hot else 'without'} a list, expected {want}"


def two_tables(folder, name, sets, external=None, dtype="f32"):
    """A Builder that scores the sum of a row of `users` and one of `cities`; sets: (count or keys, width) of each. Row k of keys is k + 1."""
    b = Builder(name)
    for table, (keys, dim) in sets.items():
        b.categorical(table, keys=table)
        if external:
            b.external_table(table, dim, dtype, digest=external[table], key_set=table, count=keys)
        else:
            b.keyed_table(table, np.arange(keys), np.repeat(np.arange(1, keys + 1)[:, None], dim, 1), dtype=dtype)
    parts = [b.embed(b.input(table), table) for table in sets]
    z = b.linear(b.concat(parts), np.ones((1, sum(dim for _, dim in sets.values())), np.float32))
    b.head("z", z, logit=z, activation="none")
    b.write(pathlib.Path(folder) / f"{name}.h5")
    return b


def check_few_rows(engine, build, folder, address):
    """A table of a few rows beside a large one has a part of the tier, and absent keys of it are asked for once, not in every call."""
    sets = {"users": (200_000, 16), "cities": (5, 1)}
    two_tables(folder, "two_inline", sets)
    place = Place(build, folder, address, 4)
    b = two_tables(folder, "two_far", sets, place.load(pathlib.Path(folder) / "two_inline.h5"))
    rows = Rows.from_columns(b, {"users": [[k] for k in range(60)], "cities": [[k] for k in range(60)]})
    want = [16 * (k + 1) + (k + 1 if k < 5 else 0) for k in range(60)]
    options = {"device": "cpu", **place.options(), "store.host_bytes": 1 << 20}
    with engine.load(pathlib.Path(folder) / "two_far.h5", **options) as model:
        for _ in range(3):
            if model.predict(rows, 60)[1][:, 0].tolist() != want:
                yield "a few rows beside many: other scores"
        cities = {t["name"]: t for t in described(model, "counters")["tiers"]}["cities"]
        strange = Rows.from_columns(b, {"users": [[0]] * 3000, "cities": [[10**9 + k] for k in range(3000)]})
        if model.predict(strange, 3000)[1].tolist() != [[16.0]] * 3000:
            yield "3000 absent keys in one call: other scores"
    if cities["missing"] != 55 or cities["absent"] != 165:
        yield f"55 absent keys, asked for three times: {cities}"


def check_shared_tier(engine, build, folder, address):
    """Two models of the same external tables use one host tier, and find the rows that the other's calls brought, when it has gone too."""
    sets = {"users": (3000, 16), "cities": (700, 1)}
    two_tables(folder, "pair_inline", sets)
    for seed in (4, 6) if address else (4,):  # RocksDB, Redis
        place = Place(build, folder, address, seed)
        b = two_tables(folder, "pair_far", sets, place.load(pathlib.Path(folder) / "pair_inline.h5"))
        rows = Rows.from_columns(b, {"users": [[k] for k in range(90)], "cities": [[k] for k in range(90)]})
        want = [17.0 * (k + 1) for k in range(90)]
        options = {"device": "cpu", **place.options(), "store.host_bytes": 1 << 20}
        with engine.load(pathlib.Path(folder) / "pair_far.h5", **options) as second:
            with engine.load(pathlib.Path(folder) / "pair_far.h5", **options) as first:
                held = [{t["models"] for t in described(m, "info")["tables"]} for m in (first, second)]
                if held != [{2}, {2}] or described(first, "info")["memory"]["host_tier_bytes"] != 0:
                    yield f"two models of external tables have a tier each: {held}"
                if first.predict(rows, 90)[1][:, 0].tolist() != want:
                    yield "two models of external tables: other scores"
            if second.predict(rows, 90)[1][:, 0].tolist() != want:
                yield "two models of external tables, one gone: other scores"
            met = [(t["hits"], t["late"], t["fetched"]) for t in described(second, "counters")["tiers"]]
            if met != [(90, 0, 0)] * 2:
                yield f"rows that the other model's calls brought: {met}"


def check_forecast(build, folder):
    """Rows that are elsewhere are not in the forecast of a load, however many there are."""
    options = ["store.rocksdb_path=" + str(folder), "store.host_bytes=1000000"]
    for dtype in ("f32", "i8", "i4", "fp8"):
        two_tables(folder, "many", {"users": (10**9, 16), "cities": (10**9, 1)}, {"users": "0" * 64, "cities": "1" * 64}, dtype)
        words = [build / "bin" / "dpi", "inspect", pathlib.Path(folder) / "many.h5", "--json", *(w for o in options for w in ("--option", o))]
        host = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)["memory"]["host"]
        if host["loading_bytes"] > host["host_tier_bytes"] + 1_000_000:
            yield f"a load of 10^9 external rows of {dtype} is forecast to take {host}"


def main():
    args = seeds.parser_of(__doc__, first=20, count=CI_MODELS).parse_args()
    build = args.build.resolve()
    engine, devices, wrong = Engine(seeds.library_of(build)), args.devices.split(","), []
    if not (build / "lib" / "dpi" / "backends-1" / "libdpi_rocksdb.so").exists():
        print("skipped: libdpi_rocksdb.so is not built")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder, (redis_server(folder) if is_installed() else contextlib.nullcontext()) as address:
        if not (build / "lib" / "dpi" / "backends-1" / "libdpi_redis.so").exists():
            address = None
        for seed in range(args.first, args.first + args.count):
            try:
                wrong += check_model(engine, build, seed, folder, address, devices)
            except EngineError as error:
                wrong.append(f"model {seed}: {error}")
        wrong += check_refusals(engine, build, folder, address)
        wrong += check_hot_keys(engine, build, folder, address)
        wrong += check_evictions(engine, build, folder, address, devices)
        wrong += check_few_rows(engine, build, folder, address)
        wrong += check_shared_tier(engine, build, folder, address)
        wrong += check_forecast(build, folder)
    print("\n".join(wrong[:12]))
    print(f"{args.count} models, Redis {'too' if address else 'not there'}: {len(wrong)} faults")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
