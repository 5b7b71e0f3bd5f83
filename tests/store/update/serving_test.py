"""A model that serves from Redis while `dpi store update` changes its table: with table.NAME.update=refuse it answers with its own version or
names the other one, with `stale` it has the newest rows when sequence numbers have been looked at. Rows carry their version.

    python3 serving_test.py BUILD FOLDER

Planted, and seen: rows that stay in the host tier although the sequence number has risen."""

import pathlib
import shutil
import sys
import time

import numpy as np

from stores import ROOT, Program, make_delta

sys.path[:0] = [str(ROOT / "tests/parity"), str(ROOT / "tests/e2e/random"), str(ROOT / "tests/e2e/keyed")]

from dpi_export import Builder  # noqa: E402
from engine import Engine, EngineError  # noqa: E402
from keyed_tables_test import lookup  # noqa: E402
from redis_server import is_installed, redis_server  # noqa: E402

ROWS, DIM, BAD_MODEL, NOT_FOUND = 500, 4, 4, 2


def rows_of(version):
    """Every third row is changed by each version."""
    rows = np.zeros((ROWS, DIM), np.float32)
    rows[:, 0], rows[::3, 1:] = np.arange(ROWS), version
    return rows


def write(path, rows, digest=None):
    b = Builder("served")
    b.categorical("user", ROWS)
    b.external_table("users", DIM, rows=ROWS, digest=digest) if digest else b.table("users", rows)
    x = b.embed(b.input("user"), "users")
    b.head("y", b.linear(x, np.ones((1, DIM), np.float32)), activation="none")
    b.write(path)
    return path


def main():
    build, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    if not is_installed():
        print("skipped: redis-server is not installed")
        return 77
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    program, engine = Program(build / "bin/dpi"), Engine(build / "lib/libdpi.so.1")
    with redis_server(folder) as port:
        where = ["--redis", f"127.0.0.1:{port}"]
        whole = [write(folder / f"v{v}.h5", rows_of(v)) for v in range(3)]
        digest = [program.json("store", "load", whole[0], *where)["tables"][0]["content"]]
        options = {"store.redis_address": f"127.0.0.1:{port}", "backend_dir": str(build / "lib/dpi/backends-1"), "store.host_bytes": 200000}
        old, cold = write(folder / "old.h5", None, digest[0]), np.arange(ROWS)
        with engine.load(old, **options) as refusing, engine.load(old, **options, **{"table.users.update": "stale"}) as stale:
            for model in (refusing, stale):
                assert np.array_equal(lookup(model, "users", cold[:300], DIM), rows_of(0)[:300])
            for v in (1, 2):
                make_delta(whole[v - 1], whole[v], folder / f"v{v}.delta")
                done = program.json("store", "update", whole[v - 1], "--delta", folder / f"v{v}.delta", *where)
                digest.append(done["tables"][0]["content"])
                assert done["tables"][0]["sequence"] == v
                until = time.monotonic() + 60
                while not np.array_equal(lookup(stale, "users", cold, DIM), rows_of(v)):
                    assert time.monotonic() < until, "newer rows are never seen"
                    time.sleep(0.05)
                # Whatever it has is of its own version.
                got = lookup(refusing, "users", cold[:300], DIM)
                assert np.array_equal(got, rows_of(0)[:300])
        for v, expected in ((0, NOT_FOUND), (1, NOT_FOUND), (2, 0)):
            path = write(folder / "next.h5", None, digest[v])
            try:
                with engine.load(path, **options) as model:
                    assert expected == 0 and np.array_equal(lookup(model, "users", cold, DIM), rows_of(2))
            except EngineError as error:
                assert error.code == expected and "has become" in str(error), error
            with engine.load(path, **options, **{"table.users.update": "stale"}) as model:
                assert np.array_equal(lookup(model, "users", cold, DIM), rows_of(2))
        # A model that runs, and whose tier has not all of its rows.
        small = dict(options, **{"store.host_bytes": 30000})
        current = write(folder / "next.h5", None, digest[2])
        with engine.load(current, **small) as model:
            write(folder / "v3.h5", rows_of(3))
            make_delta(whole[2], folder / "v3.h5", folder / "v3.delta")
            program.run("store", "update", whole[2], "--delta", folder / "v3.delta", *where)
            told = 0
            for k in range(0, ROWS):
                try:
                    assert np.array_equal(lookup(model, "users", cold[k:k + 1], DIM), rows_of(2)[k:k + 1]), k
                except EngineError as error:
                    assert error.code == BAD_MODEL and "of update 3" in str(error) and k % 3 == 0, error
                    told += 1
            assert told > 0, "the tier had all rows"
    print("ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
