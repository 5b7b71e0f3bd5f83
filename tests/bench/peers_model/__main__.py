"""Models where embedding tables should lie when there are several GPUs: a simulation, nothing is run on a GPU.

Ways (--ways):
  copies     every table on every GPU
  host       the hottest rows on every GPU, the others in host memory
  peers      one range of addresses over all GPUs: the hottest rows on every GPU, the others on one each; a call is whole on one GPU, which
             reads what it lacks over the link. No collective
  exchange   rows over all GPUs and all-to-all, with the times of kernels that others measured; a step of all GPUs waits for the slowest
  exchange-best  the same with the hottest rows on every GPU, and exchanges that take no more than a barrier and their bytes

For each it gives the rows a second that it bears, and the median and p99 of a call at --load of what copies would bear.
Numbers of the platforms: rates.csv, with their sources; README.md says what is assumed. The same arguments give the same figures.

  python3 tests/bench/peers_model                                     # HGX of 8 H200, tables of four times a GPU's memory: a minute
  python3 tests/bench/peers_model --platform gb200 --gpus 8 36 72 --zipf 0.8 1.05 1.2 --tables 0.5 4 32 --json cells.json --plot cells.svg
  python3 tests/bench/peers_model --gpus 8 --rows-cv 0.5 --slow 1.1 --overlap   # calls of different sizes, one GPU 10 % slower
  python3 tests/bench/peers_model --gpus 8 --set link=200 --set barrier=10
  python3 tests/bench/peers_model --smoke                             # a second
"""

import argparse
import dataclasses
import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import compare  # noqa: E402
import rates  # noqa: E402
import traffic  # noqa: E402

SMOKE = {"gpus": [2, 4], "zipf": [1.05], "tables": [1.5], "calls": 300, "rows": 256}


def arguments(argv=None):
    p = argparse.ArgumentParser(prog="peers_model", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    d = traffic.Load()
    p.add_argument("--platform", nargs="+", choices=rates.PLATFORMS, default=["h100"])
    p.add_argument("--gpus", type=int, nargs="+", default=[1, 2, 4, 8], help="more than the platform links are left out")
    p.add_argument("--ways", nargs="+", choices=list(compare.WAYS), default=list(compare.WAYS))
    p.add_argument("--tables", type=float, nargs="+", default=[4.0], help="size of all tables, in memories of one GPU")
    p.add_argument("--zipf", type=float, nargs="+", default=[d.zipf])
    p.add_argument("--rows", type=int, default=d.rows, help="of a call")
    p.add_argument("--rows-cv", type=float, default=d.rows_cv, help="how much they differ (log-normal): standard deviation over mean")
    p.add_argument("--fields", type=int, default=d.fields)
    p.add_argument("--bag", type=int, default=d.bag, help="rows of each field")
    p.add_argument("--row-bytes", type=int, default=d.row_bytes)
    p.add_argument("--jitter", type=float, default=d.jitter, help="of the dense part: standard deviation over mean")
    p.add_argument("--stall-share", type=float, default=d.stall_share, help="of calls that something stops")
    p.add_argument("--stall-us", type=float, default=d.stall_us)
    p.add_argument("--slow", type=float, default=d.slow, help="GPU 0 takes that many times as long for its dense part")
    p.add_argument("--overlap", action="store_true", help="read or exchange the next call's rows behind the dense part of the one before, in all ways")
    p.add_argument("--load", type=float, default=0.6, help="at which calls are timed, of what copies would bear")
    p.add_argument("--calls", type=int, default=4000, help="simulated for each figure; at least 60 a GPU, and 300 steps of an exchange")
    p.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="another value for a row of rates.csv")
    p.add_argument("--json", type=pathlib.Path, help="all figures")
    p.add_argument("--plot", type=pathlib.Path, help="a picture of them (matplotlib)")
    p.add_argument("--smoke", action="store_true", help="a second: few short calls, no figure worth anything")
    a = p.parse_args(argv)
    if a.smoke:
        vars(a).update(SMOKE)
    try:
        a.changes = {name: float(value) for name, value in (pair.split("=", 1) for pair in a.set)}
        for name in a.platform:
            rates.platform(name, **a.changes)
    except (ValueError, KeyError) as wrong:
        p.error(f"--set: {wrong}")
    if min(a.gpus) < 1 or min(a.tables) <= 0 or a.calls < 100:
        p.error("at least one GPU, tables of some size and 100 calls are needed")
    return a


def plan(a):
    for name in a.platform:
        platform = rates.platform(name, **a.changes)
        for size in a.tables:
            for zipf in a.zipf:
                load = traffic.Load(a.rows, a.rows_cv, a.fields, a.bag, a.row_bytes, zipf, size * platform["memory"], a.jitter, a.stall_share,
                                    a.stall_us, a.slow, a.overlap)
                for gpus in a.gpus:
                    if gpus <= platform["largest"]:
                        yield platform, load, gpus


class Progress:
    """On a terminal's error output, once a second."""

    def __init__(self, total):
        self.total, self.done, self.begin, self.told = total, 0, time.monotonic(), 0.0

    def tell(self, text):
        now = time.monotonic()
        if now - self.told > 1:
            self.told = now
            print(f"[{now - self.begin:5.0f} s] {self.done} of {self.total} cells; {text}", file=sys.stderr, flush=True)


def line(c):
    head = f"{c['platform']:6} {c['gpus']:3} {c['tables_gb']:8.0f} {c['zipf']:5.2f}  {c['way']:13} "
    if not c["fits"]:
        return head + "does not fit"
    times = f"{c['p50_us']:9.0f} {c['p99_us']:9.0f}" if "p50_us" in c else "  bears less than is offered"
    return head + f"{c['capacity'] / 1e6:9.2f} {c['capacity'] / c['copies']:6.2f} {c['remote_share']:7.3f} {times}"


def main(argv=None):
    a = arguments(argv)
    begin, cells = time.monotonic(), []
    work = [(platform, load, gpus, way) for platform, load, gpus in plan(a) for way in a.ways]
    progress = Progress(len(work))
    print("platform GPUs tables_gb zipf  way             Mrows/s copies remote    p50_us    p99_us", flush=True)
    for platform, load, gpus, way in work:
        c = compare.cell(way, platform, load, gpus, a.calls, a.load, lambda done, total: progress.tell(f"{way}: {done} of {total} calls"))
        cells.append(c)
        progress.done += 1
        progress.tell(way)
        print(line(c), flush=True)
    if a.json:
        load = {k: v for k, v in dataclasses.asdict(work[0][1]).items() if k not in ("zipf", "tables_gb")}
        a.json.write_text(json.dumps({"load": load, "offered": a.load, "calls": a.calls, "changes": a.changes, "cells": cells}, indent=1) + "\n")
    if a.plot:
        import plot
        plot.draw(cells, a.plot)
    print(f"{len(cells)} cells in {time.monotonic() - begin:.1f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
