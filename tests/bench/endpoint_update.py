#!/usr/bin/env python3
"""p99 of an endpoint's callers while it loads updates: endpoint_update_bench on a demo's model and on one with 100 MB of tables.

    python3 tests/bench/endpoint_update.py --build build/release [--json updates.json]        under four minutes; wants a machine of its own

Three cases: the demo's bundle again and again, a large bundle and its next version in turn, deltas between these two. `--rate` is
update.bytes_per_second, `--set store.host_bytes=...` an option of the endpoint. The large bundles are made in a folder that goes, or in --folder."""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "weights/python"))

from dpi_export import Builder, delta  # noqa: E402

FIELDS, DIM, WIDTH = 8, 32, 256


def arguments():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--build", type=pathlib.Path, required=True)
    a.add_argument("--folder", type=pathlib.Path, help="where the large bundles lie, or are made")
    a.add_argument("--megabytes", type=float, default=100)
    a.add_argument("--rate", type=int, default=50_000_000)
    a.add_argument("--seconds", type=float, default=4)
    a.add_argument("--rounds", type=int, default=5)
    a.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    a.add_argument("--cases", nargs="+", choices=["demo", "bundles", "deltas"], default=["demo", "bundles", "deltas"])
    a.add_argument("--json", type=pathlib.Path)
    a.add_argument("--smoke", action="store_true", help="small and short: it runs, and says something")
    args = a.parse_args()
    if args.smoke:
        args.megabytes, args.seconds, args.rounds = 1, 0.2, 1
    return args


def write_large(path, version, megabytes):
    """DCN v2 over eight tables. In version 1 every hundredth row and the dense weights are others."""
    rows = int(megabytes * 1e6 / (FIELDS * DIM * 4))
    b, parts = Builder("large"), []
    for f in range(FIELDS):
        table = np.random.default_rng(f).normal(scale=0.05, size=(rows, DIM)).astype(np.float32)
        table[::100] += np.float32(0.01 * version)
        b.categorical(f"f{f}", rows)
        parts.append(b.embed(b.input(f"f{f}"), b.table(f"f{f}", table)))
    rng = np.random.default_rng(100 + version)

    def layer(x, n_out):
        n_in = b.shape(x)[0]
        return b.linear(x, rng.normal(scale=n_in ** -0.5, size=(n_out, n_in)).astype(np.float32), np.zeros(n_out, np.float32))

    x0 = x = h = b.concat(parts)
    for _ in range(2):
        x = b.add(b.mul(x0, layer(x, FIELDS * DIM)), x)
        h = b.relu(layer(h, WIDTH))
    b.head("ctr", b.sigmoid(layer(b.concat([x, h]), 1)))
    b.write(path)


def make_large(folder, megabytes):
    bundles, deltas = [folder / f"large{v}.h5" for v in (0, 1)], [folder / f"to{v}.delta" for v in (0, 1)]
    if not all(p.exists() for p in bundles + deltas):
        folder.mkdir(parents=True, exist_ok=True)
        for version, path in enumerate(bundles):
            write_large(path, version, megabytes)
        for to, path in enumerate(deltas):
            delta(bundles[1 - to], bundles[to], path)
    return {"bundles": [bundles[0], bundles[1], bundles[0]], "deltas": [bundles[0], deltas[1], deltas[0]]}


def measure(args, case, paths):
    command = [args.build / "bin/bench/endpoint_update_bench", "--json", "--rate", args.rate, "--seconds", args.seconds, "--rounds", args.rounds,
               *[w for pair in args.set for w in ("--set", pair)], *paths]
    found = json.loads(subprocess.run([str(w) for w in command], check=True, capture_output=True, text=True).stdout)
    for pace in ("paced", "saturated"):
        p = found[pace]
        print(f"{case:8} {pace:9} quiet p50 {p['quiet']['p50']:6.0f} p99 {p['quiet']['p99']:6.0f}   busy p50 {p['busy']['p50']:6.0f} "
              f"p99 {p['busy']['p99']:6.0f} us   p99 x {p['p99_times']:.2f} (rounds {min(p['rounds']):.2f} to {max(p['rounds']):.2f})   "
              f"{p['loads']} loads of {p['seconds_a_load']:.3f} s", flush=True)
    return found


def main():
    args = arguments()
    with tempfile.TemporaryDirectory() as scratch:
        demo = ROOT / "weights/demo/bank_dcnv2.h5"
        cases = {"demo": [demo, demo], **make_large(args.folder or pathlib.Path(scratch), args.megabytes)}
        print(f"update.bytes_per_second {args.rate}, calls paced at 30 % of capacity, then without a pause; microseconds from when a call was due")
        found = {case: measure(args, case, cases[case]) for case in args.cases}
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
