#!/usr/bin/env python3
"""`dpi bench` of two builds in turns, cell by cell: A, B, B, A, A, B ... so that what else the machine does meets both. Of each cell the
ratio A / B of the turns' medians (above 1: B is faster) is told with the smallest and the largest ratio of a pair of neighbouring turns; a
cell is called different only where all pairs agree. Where the machine is loaded, take --of best.

  tests/bench/compare.sh build/before build/after --models weights/demo/bank_dcnv2.h5
  tests/bench/compare.sh A/bin/dpi B/bin/dpi --models a.h5,b.h5 --batches 1,16,256 --threads 1,2 --turns 9 --json
  tests/bench/compare.sh A B --models a.h5 --option-b spin_us=200 --option-b max_rows=512   # one build twice, other options
"""

import argparse
import itertools
import json
import pathlib
import statistics
import subprocess
import sys

TIMES = {"p50": "p50_us", "best": "best_us", "p99": "p99_us"}


def program(text):
    """A build folder, or the program itself."""
    path = pathlib.Path(text)
    path = path / "bin" / "dpi" if path.is_dir() else path
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"{path} is no program")
    return path.resolve()


def numbers(text):
    try:
        found = [int(t) for t in text.split(",")]
    except ValueError:
        found = []
    if not found or min(found) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is no list of numbers from 1 on")
    return found


def arguments(argv):
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("a", type=program, help="build folder or dpi program that is compared with")
    p.add_argument("b", type=program, help="the other")
    p.add_argument("--models", required=True, help="bundles, by commas")
    p.add_argument("--batches", type=numbers, default=numbers("1,16,128,1024"))
    p.add_argument("--threads", type=numbers, default=[1])
    p.add_argument("--callers", type=numbers, default=[1])
    p.add_argument("--turns", type=int, default=5, help="of each build (default 5)")
    p.add_argument("--seconds", type=float, default=0.1, help="of each cell of a turn (default 0.1)")
    p.add_argument("--of", choices=TIMES, default="p50", help="what of a turn's calls counts (default p50)")
    p.add_argument("--option-a", action="append", default=[], metavar="KEY=VALUE", help="of A's models, may be repeated")
    p.add_argument("--option-b", action="append", default=[], metavar="KEY=VALUE")
    p.add_argument("--json", action="store_true")
    args = p.parse_args(argv)
    if args.turns < 2:
        p.error("--turns must be 2 or more: one pair says nothing")
    return args


def bench(path, model, threads, args, options):
    """{(batch, callers): us} of one run of the program."""
    command = [str(path), "bench", model, "--device", "cpu", "--threads", str(threads), "--seconds", str(args.seconds), "--json",
               "--batch", ",".join(map(str, args.batches)), "--callers", ",".join(map(str, args.callers))]
    for o in options:
        command += ["--option", o]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        sys.exit(f"compare: {path}: exit status {run.returncode}: {run.stderr.strip()}")
    return {(r["batch"], r["callers"]): r[TIMES[args.of]] for r in json.loads(run.stdout)["runs"]}


def verdict(ratios):
    if min(ratios) > 1:
        return "faster"
    return "slower" if max(ratios) < 1 else "same"


def compare(args, model, threads):
    """Turns in the order A B, B A, A B: neighbours make a pair."""
    forms = {"a": (args.a, args.option_a), "b": (args.b, args.option_b)}
    turns = {"a": [], "b": []}
    for turn in range(args.turns):
        for name in ("ab" if turn % 2 == 0 else "ba"):
            path, options = forms[name]
            turns[name].append(bench(path, model, threads, args, options))
    for batch, callers in itertools.product(args.batches, args.callers):
        a, b = ([t[batch, callers] for t in turns[n]] for n in "ab")
        if None in a + b:
            sys.exit(f"compare: {model}, batch {batch}: a turn of {args.seconds} s is too short for one call")
        pairs = [x / y for x, y in zip(a, b)]
        yield {"model": model, "threads": threads, "callers": callers, "batch": batch, "a_us": statistics.median(a),
               "b_us": statistics.median(b), "ratio": statistics.median(a) / statistics.median(b), "least": min(pairs),
               "most": max(pairs), "b_is": verdict(pairs)}


def main(argv):
    args = arguments(argv)
    cells = []
    if not args.json:
        print(f"{'model':32} {'threads':>7} {'callers':>7} {'batch':>7} {'A us':>12} {'B us':>12} {'A/B':>6}  least .. most    B is")
    for model, threads in itertools.product(args.models.split(","), args.threads):
        for c in compare(args, model, threads):
            cells.append(c)
            if not args.json:
                print(f"{pathlib.Path(model).stem[:32]:32} {threads:7} {c['callers']:7} {c['batch']:7} {c['a_us']:12.1f} {c['b_us']:12.1f} "
                      f"{c['ratio']:6.2f}  {c['least']:5.2f} .. {c['most']:5.2f}   {c['b_is']}", flush=True)
    if args.json:
        print(json.dumps({"a": str(args.a), "b": str(args.b), "turns": args.turns, "of": args.of, "cells": cells}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
