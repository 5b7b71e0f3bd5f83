#!/usr/bin/env python3
"""Measures tables in the host tier beside resident ones, in one run of one process (with RocksDB's and Redis's own programs).

Parts (--only, by default all, in this order):
  rocksdb  rocksdb_bench: bare MultiGet and a fetch through the plugin, in the page cache
  redis    redis_bench: bare pipelined HMGETs and a fetch through the plugin
  hits     26 tables with --keys rows in all; the five largest, then all in the host tier, which has a place for every row. Scores are
           compared to the bit, then calls take turns with resident ones
  disk     --disk-gb of tables behind a tier of --host-gb, Zipf(1.05), policy exact, page cache warm and cold; the disk's random reads
           per second; the same shape resident with its row numbers folded
  stages   the time of each op by `dpi bench --profile`, resident and tiered
  threshold  option store.resident_bytes from 0 to 64 MiB: the call and the memory
  torch    nn.functional.embedding over the mapped file, beside both

Times are medians of the calling thread's own time, in us (`disk`: of the clock on the wall). Bundles are written to --folder and removed.
Memory: about (2.3 x row bytes + 30) x --keys for `hits`, 2 x --host-gb for `disk`; disk: --disk-gb and --host-gb.

  build=build/release
  PYTHONPATH=$build/python:weights/python python3 tests/bench/tiers_bench.py --build $build --smoke
  ... tiers_bench.py --keys 1e8 --dtype f16 --only hits --json hits.json --plot hits.png
  ... tiers_bench.py --only rocksdb,disk --disk-gb 24 --host-gb 2 --fetch-threads 2 32 --folder /srv/scratch
"""

import argparse
import contextlib
import json
import pathlib
import shutil
import signal
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from tiers import alone, bundles, disk_set, goals, hits, machine, threshold  # noqa: E402

PARTS = {"rocksdb": alone.rocksdb, "redis": alone.redis, "hits": hits.run, "disk": disk_set.run, "stages": alone.stages,
         "threshold": threshold.run, "torch": alone.torch_mapped}
SMOKE = {"keys": 60_000, "dim": 8, "batches": [1, 64], "mlps": ["64-32"], "seconds": 0.02, "warm_up": 0.2, "disk_gb": 0.004,
         "host_gb": 0.001, "fetch_threads": [2], "check_disk": True}


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"), help="where the programs are")
    p.add_argument("--only", default=",".join(PARTS), help="parts, by commas")
    p.add_argument("--keys", type=float, default=1e8, help="rows of all tables for hits")
    p.add_argument("--dim", type=int, default=16)
    p.add_argument("--dtype", choices=list(bundles.BYTES), default="f32")
    p.add_argument("--batches", type=int, nargs="+", default=[1, 64, 256, 1024, 4096])
    p.add_argument("--mlps", nargs="+", choices=list(bundles.MLPS), default=["64-32", "3x256"])
    p.add_argument("--draws", nargs="+", choices=["uniform", "zipf"], default=["uniform", "zipf"])
    p.add_argument("--seconds", type=float, default=2, help="for each pair of models and batch size")
    p.add_argument("--disk-gb", type=float, default=24)
    p.add_argument("--host-gb", type=float, default=2)
    p.add_argument("--sets", nargs="+", choices=["26 tables", "one table"], default=["26 tables", "one table"])
    p.add_argument("--warm-up", type=float, default=300, help="seconds at most until the hit rate stands still")
    p.add_argument("--fetch-threads", type=int, nargs="+", default=[2, 32])
    p.add_argument("--hot-list", action="store_true", help="the set on disk has a hot-key list, of the draws' most frequent rows, and the tier begins with them")
    p.add_argument("--check-disk", action="store_true", help="compare the set on disk with all of it resident, which needs the memory")
    p.add_argument("--folder", type=pathlib.Path, help="for bundles (default: a new one under TMPDIR)")
    p.add_argument("--json", type=pathlib.Path, help="all figures")
    p.add_argument("--plot", type=pathlib.Path, help="a picture of them")
    p.add_argument("--smoke", action="store_true", help="seconds: tiny tables, every score compared, no figure worth anything")
    a = p.parse_args()
    if a.smoke:
        vars(a).update(SMOKE)
    unknown = set(a.only.split(",")) - set(PARTS)
    if unknown:
        p.error(f"no part {', '.join(sorted(unknown))}")
    return a


class Run:
    """What the parts share: the arguments, the results so far, and how to tell of them."""

    def __init__(self, a, folder):
        vars(self).update(vars(a), folder=folder, keys=int(a.keys), bench_folder=a.build.resolve() / "bin" / "bench")
        self.disk_bytes, self.host_bytes = int(a.disk_gb * 1e9), int(a.host_gb * 1e9)
        self.multiget_us, self.results = None, {}
        # Every row that a call misses may be under way at once.
        self.fetch_options = {"store.fetch_queue": 4096, "store.fetch_bytes": 1 << 30}
        self.begin, self.clock = time.monotonic(), time.monotonic

    def progress(self, text):
        print(f"[{self.clock() - self.begin:6.0f} s] {text}", file=sys.stderr, flush=True)

    def tell(self, part, figures, text):
        self.results.setdefault(part, []).append(figures)
        print(text, flush=True)
        if self.json:
            self.json.write_text(json.dumps(self.results, indent=1))


def room(run, parts):
    """Before anything is written."""
    row = run.dim * bundles.BYTES[run.dtype]
    needed = max(run.keys * row if "hits" in parts else 0, run.disk_bytes + run.host_bytes if "disk" in parts else 0)
    free = shutil.disk_usage(run.folder).free
    if needed > 0.9 * free:
        raise SystemExit(f"{run.folder} has {free / 1e9:.1f} GB free, the bundles take {needed / 1e9:.1f}: see --folder")


def main():
    a = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that no bundle stays behind
    with contextlib.ExitStack() as held:
        folder = pathlib.Path(held.enter_context(tempfile.TemporaryDirectory(prefix="dpi_tiers_", dir=a.folder)))
        run, parts = Run(a, folder), [name for name in PARTS if name in a.only.split(",")]
        room(run, parts)
        run.tell("machine", {"load": machine.load(), "keys": run.keys, "dim": a.dim, "dtype": a.dtype}, f"load {machine.load():.1f}")
        for name in parts:
            PARTS[name](run)
        for goal in goals.table(run.results):
            value = "not measured" if goal["measured"] is None else f"{goal['measured']:.3f}, {'met' if goal['met'] else 'MISSED'}"
            run.tell("goals", goal, f"{goal['goal']}: {value}")
        if a.plot:
            from tiers import plot
            plot.draw(run.results, a.plot)


if __name__ == "__main__":
    main()
