"""kill -9 at random moments of what writes deltas and stores: `dpi delta apply`, `dpi store load`, `dpi store update`, to RocksDB and to a
real redis-server. After each kill the command is given again (and may be killed again); what it leaves in the end equals, bit for bit, what
an undisturbed run gives: the file's bytes, all that Redis holds by a reader of our own, RocksDB's rows by `dpi store verify`.

    python3 kill_test.py PROGRAM FOLDER KILLS [SEED]"""

import contextlib
import os
import pathlib
import random
import shutil
import subprocess
import sys
import time

from stores import Program, Redis, chain, dump, rows_of

from redis_server import is_installed, redis_server


class Killer:
    """Runs a command, and kills it at a random moment of the time that it took undisturbed."""

    def __init__(self, program, seed, wanted):
        self.program, self.random, self.wanted, self.killed, self.survived = program, random.Random(seed), wanted, 0, 0

    def until_done(self, took, *words):
        """Again and again: killed at most three times, then left alone."""
        for attempt in range(4):
            process = subprocess.Popen([self.program.path, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            if attempt < 3 and self.killed < self.wanted:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(took * self.random.uniform(0.02, 1.05))
                if process.poll() is None:
                    os.kill(process.pid, 9)
                    process.communicate()
                    self.killed += 1
                    continue
                self.survived += 1
            out, err = process.communicate()
            assert process.returncode == 0, (words, process.returncode, out, err)
            return


def timed(program, *words):
    start = time.monotonic()
    program.run(*words)
    return time.monotonic() - start


class Delta:
    """`dpi delta apply`: OUTPUT is the old file or the new one, whole."""

    def __init__(self, program, folder, bundles, deltas):
        self.bundles, self.deltas, self.out, self.program = bundles, deltas, folder / "applied.h5", program
        self.took = timed(program, "delta", "apply", bundles[0], *deltas, "--output", self.out)
        assert self.out.read_bytes() == bundles[-1].read_bytes()

    def round(self, killer):
        shutil.copy(self.bundles[0], self.out)
        killer.until_done(self.took, "delta", "apply", self.out, *self.deltas, "--output", self.out)
        assert self.out.read_bytes() == self.bundles[-1].read_bytes()


class Store:
    """`dpi store load`, then `dpi store update` by the chain."""

    def __init__(self, program, where, bundles, deltas, redis):
        self.program, self.where, self.bundles, self.deltas, self.redis = program, where, bundles, deltas, redis
        self.load = ["store", "load", bundles[0], *where]
        self.update = ["store", "update", bundles[0], *[w for d in deltas for w in ("--delta", d)], *where]
        self.load_took, self.update_took = timed(program, *self.load), timed(program, *self.update)
        self.undisturbed = self.content() if redis else None
        self.check()
        self.drop()

    def content(self):
        """All bytes that Redis holds, but for how often writers were followed."""
        everything = {}
        for key in sorted(self.redis.ask("KEYS", "*")):
            fields = self.redis.hash(key)
            fields.pop(b"fence", None)
            if b"update" in fields and not key.endswith(b":table}"):
                fields[b"update"] = fields[b"update"].split(b" ", 1)[1]
            everything[key] = fields
        return everything

    def check(self):
        self.program.run("store", "verify", self.bundles[-1], *self.where)
        stat = self.program.json("store", "stat", self.bundles[-1], *self.where)["tables"]
        assert all(t["complete"] and t["now"] == t["content"] and t["sequence"] <= len(self.deltas) for t in stat), stat
        if self.redis:
            assert self.content() == self.undisturbed
            expected = rows_of(self.bundles[-1])
            assert {name: rows for (name, _), rows in dump(self.redis).items()} == expected

    def drop(self):
        self.program.run("store", "drop", self.bundles[-1], *self.where)

    def round(self, killer):
        killer.until_done(self.load_took, *self.load)
        killer.until_done(self.update_took, *self.update)
        self.check()
        self.drop()


def main():
    program, folder, kills = Program(sys.argv[1]), pathlib.Path(sys.argv[2]), int(sys.argv[3])
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    if not is_installed():
        print("skipped: redis-server is not installed")
        return 77
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    bundles, deltas = chain(folder, 5, 3, grow=200)
    with redis_server(folder) as port:
        where = ["--redis", f"127.0.0.1:{port}", "--setting", "lease_ms=60"]
        targets = {"delta apply": Delta(program, folder, bundles, deltas), "redis": Store(program, where, bundles, deltas, Redis(port)),
                   "rocksdb": Store(program, ["--rocksdb", folder / "rows"], bundles, deltas, None)}
        for i, (name, target) in enumerate(targets.items()):
            share = kills * (i + 1) // 3 - kills * i // 3
            killer = Killer(program, seed + i, share)
            rounds = 0
            while killer.killed < share:
                target.round(killer)
                rounds += 1
            print(f"{name}: {killer.killed} kills in {rounds} rounds, {killer.survived} runs ended before theirs; equal bits after each")
    return 0


if __name__ == "__main__":
    sys.exit(main())
