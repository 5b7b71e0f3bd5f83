"""Chaos: a Redis cluster of 3 + 3 servers and a RocksDB store, models over them under callers in an open loop, and faults one after another.
tests/soak/README.md says what is checked.

    python3 chaos.py BUILD FOLDER --short                 every kind of fault once, about a minute
    python3 chaos.py BUILD FOLDER --minutes 10 --seed 3
    python3 chaos.py BUILD FOLDER --faults kill,slow      these, in this order
    python3 chaos.py BUILD FOLDER --planted               mistakes and silence on purpose: passes if each is found, and nothing else
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve()
sys.path[:0] = [str(HERE.parent), str(HERE.parents[2] / "store/update"), str(HERE.parents[2] / "parity")]

import faults  # noqa: E402
import judge  # noqa: E402
import models  # noqa: E402
from cluster import PASSWORD, USER, Cluster, is_installed, wait_for  # noqa: E402
from stores import Program  # noqa: E402

from dpi_export import Builder  # noqa: E402

RATE = 40.0  # calls a second of each model
CALM_S, PATIENCE_S = 1.5, 12.0
PLANTS = {"score": "is of no rows at all", "nan": "nan is of no rows", "default": "is of rows that stand in", "late": "late: ",
          "uncounted": "not counted: ", "silent": "not named: evict (nothing", "misnamed": "called by a wrong name: password (Reshard",
          "unrepaired": " calls after empty was over"}


class World:
    """The stores, what is in them, and what is loaded from them."""

    def __init__(self, build, folder):
        self.build, self.folder, self.program = build, folder, Program(build / "bin/dpi")
        self.disk = faults.SmallDisk(folder / "disk", next(iter(build.rglob("libtest_full_disk.so")), None))
        self.rows = self.disk.folder / "rows"
        self.whole = [models.write(Builder, folder / f"whole{v}.h5", v) for v in range(2)]
        self.cluster = Cluster(folder)
        self.at_redis = ["--redis", self.cluster.addresses(), "--setting", f"user={USER}", "--setting", f"password={PASSWORD}"]
        done = self.load_redis()
        assert done.returncode == 0, done.stderr
        tables = self.program.json("store", "stat", self.whole[0], *self.at_redis)["tables"]
        self.program.run("store", "load", self.whole[0], "--rocksdb", self.rows)
        self.external = models.write(Builder, folder / "external.h5", 0, {t["name"]: t["content"] for t in tables})

    def _logged(self, words, environment):
        done = subprocess.run([self.program.path, *map(str, words)], capture_output=True, text=True, env={**os.environ, **environment}, timeout=120)
        with open(self.folder / "loader.log", "a") as log:
            log.write(f"{time.monotonic():.3f} dpi {words[0]} {words[1]}: exit {done.returncode}: {' '.join((done.stdout + done.stderr).split())}\n")
        return done

    def load_redis(self):
        return self._logged(["store", "load", self.whole[0], *self.at_redis], {})

    def load_rocksdb(self, environment):
        return self._logged(["store", "load", self.whole[1], "--rocksdb", self.rows], environment)

    def drop_rocksdb(self):
        self.program.run("store", "drop", self.whole[1], "--rocksdb", self.rows)

    def spec(self, seed, plants):
        common = {"backend_dir": str(self.build / "lib/dpi/backends-1"), "device": "cpu", "store.host_bytes": 400_000, "store.resident_bytes": 0,
                  "max_contexts": 24}
        redis = {**common, "store.redis_address": self.cluster.addresses(), "store.redis_user": USER, "store.redis_password": PASSWORD,
                 "store.fetch_threads": 8, "store.fetch_queue": 256}
        stand_in = {"store.down": "default", "table.items.miss": "default", **{f"table.{t}.default": v for t, v in models.DEFAULTS.items()}}
        rocksdb = {**common, "store.rocksdb_path": str(self.rows)}
        options = {"exact": redis, "default": {**redis, **stand_in}, "rocksdb": rocksdb}
        return {"library": str(self.build / "lib/libdpi.so.1"), "bundle": str(self.whole[0]), "seed": seed, "plants": plants,
                "models": {n: {"path": str(self.external), "options": o, "rate": RATE} for n, o in options.items()}}


class Run:
    def __init__(self, world, arguments):
        self.world, self.folder, self.arguments, self.done = world, world.folder, arguments, []
        plants = list(PLANTS) if arguments.planted else []
        self.write("spec.json", world.spec(arguments.seed, plants))
        self.write("watch.json", {"stat": [world.program.path, "store", "stat", str(world.whole[0]), *world.at_redis, "--json"]})
        self.children = []

    def write(self, name, what):
        (self.folder / name).write_text(json.dumps(what))

    def start(self, name):
        with open(self.folder / f"{name}.err", "w") as err:
            self.children.append(subprocess.Popen([sys.executable, str(HERE.parent / f"{name}.py"), str(self.folder)], stderr=err))

    def pace(self):
        for child in self.children:
            if child.poll() is not None:
                raise AssertionError(f"{child.args[1]} has ended: {(self.folder / (pathlib.Path(child.args[1]).stem + '.err')).read_text()}")
        path = self.folder / "pace.json"
        return json.loads(path.read_text()) if path.exists() else None

    def calm_since(self, moment):
        """Calls planned since then were made, and none of the last ones was bad."""
        pace = self.pace()
        return pace is not None and pace["at"] > moment + CALM_S and max(pace["last_bad"].values()) < pace["at"] - CALM_S

    def wait_until_calm(self, back):
        until = back + PATIENCE_S
        while not self.calm_since(back) and time.monotonic() < until:
            time.sleep(0.1)

    def one(self, kind, hold, rng, announced=None):
        """announced: what the judge believes; kind None: nothing happens."""
        fault = faults.KINDS[kind](self.world, rng) if kind else None
        begin = time.monotonic()
        if fault:
            fault.begin()
        time.sleep(max(0.0, begin + hold - time.monotonic()))
        if fault and kind == "empty" and self.arguments.planted:
            back = time.monotonic()
        else:
            back = fault.end() if fault else time.monotonic()
        what = "nothing" if not fault else fault.what if not announced else f"{type(fault).__name__}, {fault.what}"
        self.done.append({"kind": announced or kind, "what": what, "begin": begin, "back": back})
        self.wait_until_calm(back)
        if hasattr(fault, "after"):
            fault.after()
        print(f"  {begin:.1f} {announced or kind}: {what}, {back - begin:.1f} s", flush=True)

    def faults(self):
        a = self.arguments
        if a.planted:
            for announced, kind in (("evict", None), ("password", "reshard"), ("empty", "empty")):
                self.one(kind, 3.0, random.Random(a.seed), announced)
            return
        plan = faults.drawn(a.seed, (2.5, 8.0) if a.minutes else (2.5, 3.5))
        if a.faults:
            for kind in a.faults.split(","):
                self.one(kind, 3.0, random.Random(a.seed))
            return
        until, n = time.monotonic() + 60 * a.minutes, 0
        while n < len(faults.KINDS) or time.monotonic() < until:
            self.one(*next(plan))
            n += 1

    def run(self):
        try:
            self.start("service")
            wait_for("the service serves", lambda: self.calm_since(0.0) and self.pace()["calls"] > 150, 60)
            self.start("on_call")
            time.sleep(2.0)
            self.faults()
            time.sleep(judge.AFTER_S)
            (self.folder / "stop").touch()
            for child in self.children:
                if child.wait(60) != 0:
                    raise AssertionError(f"{child.args[1]}: exit {child.returncode}; {self.folder}/*.err")
        finally:
            for child in self.children:
                child.kill()
        self.write("faults.json", self.done)


def report(j):
    for f in j.faults:
        print(f"{f['kind']:9} {f['back'] - f['begin']:5.1f} s, right again {f.get('recovered_s', '-')} s after; named after {f.get('named_after_s', '-')} s "
              f"({', '.join(f'{k} {n}' for k, n in f['said'].items()) or 'nothing'}): {f.get('why', '')[:160]}")
    failed = sum(c["code"] != 0 for c in j.calls)
    print(f"{len(j.calls)} calls, {failed} failed; rows that stood in: {j.summary['stood_in']}; the latest was {j.summary['latest_ms']} ms over its "
          f"deadline; control threads woke up to {max(j.control.samples, key=lambda s: s[1])[1] * 1000:.0f} ms late")


def verdict(j, planted):
    complaints = j.run()
    report(j)
    if not planted:
        for c in complaints[:40]:
            print("WRONG:", c)
        return not complaints
    missed = [name for name, text in PLANTS.items() if not any(text in c for c in complaints)]
    # What was not repaired is still told after the fault is said to be over, and rows that were planted as standing in do so without a fault.
    follow = ("named without a fault", "not named: password", "no recovery: ")
    others = [c for c in complaints if not any(t in c for t in PLANTS.values()) and not c.startswith(follow)]
    for c in complaints:
        print("found:", c[:200])
    for text in [f"not found: {name}" for name in missed] + others:
        print("WRONG:", text)
    return not missed and not others


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--minutes", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", default="")
    parser.add_argument("--planted", action="store_true")
    arguments = parser.parse_args()
    build, folder = arguments.build.resolve(), arguments.folder.resolve()
    if not is_installed():
        print("skipped: redis-server is not installed")
        return 77
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    world = World(build, folder)
    try:
        Run(world, arguments).run()
        right = verdict(judge.Judge(folder, world.whole[0]), arguments.planted)
    finally:
        world.cluster.close()
    print("ok" if right else "failed")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
