"""`dpi delta apply`, `dpi store load` and `dpi store update` die between any two of their steps, and half way through a write (crash_at.c);
given again they leave what an undisturbed run leaves, bit for bit. Of a store's command with more steps than MOST so many are tried, evenly.

    python3 crash_test.py PROGRAM CRASH_AT_LIBRARY FOLDER MOST"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys

from kill_test import Delta, Store
from stores import Program, Redis, chain

from redis_server import is_installed, redis_server


class Crasher:
    """Kills the `command`-th command of a round at one of its steps; step 0: counts them."""

    def __init__(self, program, library, folder):
        self.program, self.library, self.count = program, library, folder / "count"
        self.command, self.step, self.seen, self.steps, self.died = 0, 0, 0, {}, 0
        self.look = lambda: None  # at what a death has left

    def begin(self, command, step):
        self.command, self.step, self.seen = command, step, 0

    def until_done(self, _took, *words):
        mine, self.seen = self.seen == self.command, self.seen + 1
        if mine:
            env = {**os.environ, "LD_PRELOAD": str(self.library), "DPI_TEST_CRASH_AT": str(self.step), "DPI_TEST_CRASH_COUNT": str(self.count)}
            done = subprocess.run([self.program.path, *map(str, words)], env=env, capture_output=True, text=True)
            assert done.returncode in (0, -signal.SIGKILL), (words, self.step, done.returncode, done.stdout, done.stderr)
            if self.step == 0:
                self.steps[self.command] = int(self.count.read_text())
                return
            self.died += done.returncode != 0
            self.look()
        self.program.run(*words)


def check(well):
    assert well, "neither the old file nor the new one"


def spread(steps, most):
    """The first, the last, and what lies between, `most` of them."""
    return sorted({1 + i * (steps - 1) // max(1, min(most, steps) - 1) for i in range(min(most, steps))})


def main():
    program, library, folder, most = Program(sys.argv[1]), pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]), int(sys.argv[4])
    if not is_installed():
        print("skipped: redis-server is not installed")
        return 77
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    bundles, deltas = chain(folder, 6, 2, grow=5)
    with redis_server(folder) as port:
        where = ["--redis", f"127.0.0.1:{port}", "--setting", "lease_ms=60"]
        targets = {"delta apply": (Delta(program, folder, bundles, deltas), 1), "redis": (Store(program, where, bundles, deltas, Redis(port)), 2),
                   "rocksdb": (Store(program, ["--rocksdb", folder / "rows"], bundles, deltas, None), 2)}
        for name, (target, commands) in targets.items():
            crasher = Crasher(program, library, folder)
            if name == "delta apply":
                whole = (bundles[0].read_bytes(), bundles[-1].read_bytes())
                crasher.look = lambda target=target, whole=whole: check(target.out.read_bytes() in whole)
            for command in range(commands):
                crasher.begin(command, 0)
                target.round(crasher)
                steps = crasher.steps[command]
                assert steps > 5, (name, command, steps)
                tried = spread(steps, most if commands > 1 else steps)
                crasher.died = 0
                for step in tried:
                    crasher.begin(command, step)
                    target.round(crasher)
                # RocksDB's own threads take a step more or less from run to run: the last one counted may not come again.
                assert crasher.died >= len(tried) - (name == "rocksdb"), (name, command, steps, tried, crasher.died)
                print(f"{name}, command {command}: died at {crasher.died} of {steps} steps; equal bits after each", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
