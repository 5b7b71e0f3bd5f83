#!/usr/bin/env python3
"""What a call takes with option user_cache_bytes, of a user that is new and of one that was seen: HSTU's layers over a history of the user and one
candidate, one user a call, one thread. The bits of both are compared with a model without the option first.

  python3 tests/bench/user_cache.py build/release [--layers 4] [--width 128] [--events 1024] [--candidates 256] [--calls 9]
"""

import argparse
import pathlib
import statistics
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "weights" / "python"), str(ROOT / "tests" / "parity"), str(ROOT / "tests" / "e2e")]

import shared_history_test as histories  # noqa: E402
from dpi_export import Rows  # noqa: E402
from engine import Engine  # noqa: E402


def rows_of(b, history, candidates, rng):
    items = rng.integers(1, histories.VOCAB, candidates)
    return Rows.from_columns(b, {"hist": [history], "item": items}, shared_counts=[candidates])


def ms(loaded, rows, candidates):
    began = time.perf_counter()
    scores = loaded.predict(rows, candidates)[0]
    return 1e3 * (time.perf_counter() - began), scores


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    for name, default in (("layers", 4), ("width", 128), ("events", 1024), ("candidates", 256), ("calls", 9)):
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    histories.WIDTH, histories.LAYERS, histories.HEADS = args.width, args.layers, 4
    rng, b, n = np.random.default_rng(1), histories.model(args.events), args.candidates
    users = [rng.integers(1, histories.VOCAB, args.events) for _ in range(args.calls)]
    engine = Engine(str(args.build / "lib" / "libdpi.so.1"))
    fresh, seen, without = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "hstu.h5"
        b.write(path, check=None)
        options = {"device": "cpu", "threads": 1, "determinism": "strict"}
        with engine.load(path, **options) as plain, engine.load(path, user_cache_bytes=256 << 20, **options) as cached:
            for history in users:
                first, again = rows_of(b, history, n, rng), rows_of(b, history, n, rng)
                for rows, loaded, to in ((first, plain, without), (first, cached, fresh), (again, cached, seen)):
                    took, scores = ms(loaded, rows, n)
                    to.append(took)
                    if not np.array_equal(scores, plain.predict(rows, n)[0]):
                        sys.exit("the bits differ")
    for name, times in (("without the option", without), ("a new user", fresh), ("a user of before", seen)):
        print(f"{name}: median {statistics.median(times):.2f} ms of {len(times)} calls, {min(times):.2f} to {max(times):.2f}")
    print(f"a user of before takes {statistics.median(seen) / statistics.median(fresh):.3f} of a new one")


if __name__ == "__main__":
    main()
