"""`dpi store update`: rows, tombstones, new keys and new rows of a chain of deltas into tables that lie in Redis (a server, a cluster) and
RocksDB. What lies there then is what a load of the new bundle puts there, key by key and bit by bit, by h5py and a reader of Redis of our own.

    python3 update_test.py PROGRAM REDIS|ROCKSDB FOLDER"""

import contextlib
import pathlib
import shutil
import sys

from stores import Program, Redis, chain, contents_of, dump, rows_of

from redis_server import is_installed, redis_server


def check_redis(redis, bundle, program, where):
    """All tables are the bundle's, and nothing is there that is none of them."""
    said = program.json("store", "stat", bundle, *where)["tables"]
    expected, contents = rows_of(bundle), contents_of(bundle)
    found = dump(redis)
    for t in said:
        assert t["content"] == contents[t["name"]], t
        assert t["now"] == t["content"] and not t["updating"] and t["writer"] is None, t
        assert found[t["name"], t["content"]] == expected[t["name"]], t["name"]
    return {t["name"]: t["sequence"] for t in said}


def check(program, where, bundle, redis):
    program.run("store", "verify", bundle, *where)
    return check_redis(redis, bundle, program, where) if redis else None


def updates_step_by_step(program, where, folder, redis, seed, how=()):
    bundles, deltas = chain(folder, seed, 3)
    program.run("store", "load", bundles[0], *where)
    for i, d in enumerate(deltas):
        done = program.json("store", "update", bundles[i], "--delta", d, *where, *how)["tables"]
        assert all(t["already"] == 0 for t in done) and done, done
        check(program, where, bundles[i + 1], redis)
        again = program.json("store", "update", bundles[i], "--delta", d, *where)["tables"]
        assert [t["name"] for t in again] == [t["name"] for t in done]
        assert all(t["already"] == t["changes"] and t["sequence"] == s["sequence"] for t, s in zip(again, done))
        check(program, where, bundles[i + 1], redis)
    # A bundle whose tables have gone on is told of by name; all of the chain at once changes nothing more.
    refused = program.run("store", "verify", bundles[1], *where, expect=None)
    assert refused.returncode == 5 and "has become" in refused.stderr and "update=stale" in refused.stderr, refused
    program.run("store", "update", bundles[0], *[w for d in deltas for w in ("--delta", d)], *where)
    check(program, where, bundles[3], redis)
    # Loading what updates have made writes nothing; dropping by an older bundle is refused.
    program.run("store", "load", bundles[3], *where)
    assert "has become" in program.run("store", "drop", bundles[0], *where, expect=1).stderr
    program.run("store", "drop", bundles[3], *where)
    if redis:
        assert redis.ask("KEYS", "*") == []


def refuses(program, where, folder, seed):
    bundles, deltas = chain(folder, seed, 2)
    program.run("store", "load", bundles[0], *where)
    gap = program.run("store", "update", bundles[0], "--delta", deltas[1], *where, expect=None)
    assert gap.returncode != 0, gap
    gap = program.run("store", "update", bundles[1], "--delta", deltas[1], *where, expect=None)
    assert gap.returncode == 5 and "is not there" in gap.stderr, gap
    cut = folder / "cut.delta"
    cut.write_bytes(deltas[0].read_bytes()[:-100])
    assert program.run("store", "update", bundles[0], "--delta", cut, *where, expect=None).returncode == 3
    bad = bytearray(deltas[0].read_bytes())
    bad[len(bad) // 2] ^= 1
    cut.write_bytes(bad)
    assert program.run("store", "update", bundles[0], "--delta", cut, *where, expect=None).returncode == 3
    program.run("store", "verify", bundles[0], *where)
    program.run("store", "update", bundles[0], "--delta", deltas[0], "--delta", deltas[1], *where)
    program.run("store", "verify", bundles[2], *where)
    for rate in ("-1", "1.5", str(2**40 + 1)):
        program.run("store", "update", bundles[0], "--delta", deltas[0], "--bytes-per-second", rate, *where, expect=1)
    # What its own bundle has loaded is not written over by another's update.
    program.run("store", "drop", bundles[2], *where)
    program.run("store", "load", bundles[0], *where)
    program.run("store", "load", bundles[1], *where)
    both = program.run("store", "update", bundles[0], "--delta", deltas[0], *where, expect=1)
    assert "was loaded beside it" in both.stderr, both
    for b in bundles[:2]:
        program.run("store", "verify", b, *where)
        program.run("store", "drop", b, *where)


def main():
    program, kind, folder = Program(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if kind == "redis" and not is_installed():
        print("skipped: redis-server is not installed")
        return 77
    with contextlib.ExitStack() as stack:
        redis = None
        where = ["--rocksdb", folder / "rows"]
        if kind == "redis":
            port = stack.enter_context(redis_server(folder))
            where, redis = ["--redis", f"127.0.0.1:{port}", "--setting", "lease_ms=500"], Redis(port)
        for seed in range(4):
            step = folder / f"chain{seed}"
            step.mkdir()
            updates_step_by_step(program, where, step, redis, seed, ("--bytes-per-second", "100000") if seed == 3 else ())
        (folder / "refused").mkdir()
        refuses(program, where, folder / "refused", 77)
    print("ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
