#!/usr/bin/env python3
"""Scores models of the zoo with this SDK, PyTorch and ONNX Runtime in one process, on the same weights and rows, each on one thread.

Criteo's shape (39 fields, 910,747 rows, D 16): xDeepFM, AutoInt+, MaskNet, MMoE, PLE, FinalMLP; DLRM with 26 fields and 13 numbers.
On the same fields RankMixer (dense, and experts behind two gates) and Wukong. TaobaoAd's shape (9 fields, a target of 3, three histories of 50
places, D 32): DIN, DIEN, BST, CAN, OneTrans, LONGER, MTGR. Every engine gets int64 ids and float32
numbers in host memory and returns scores in host memory; histories are padded for the peers and ragged for this SDK. PyTorch runs eagerly and
as a frozen TorchScript; ONNX Runtime where the package is installed. Scores are compared before anything is timed: a difference ends the run.
Engines then take turns; a call's time is the median of its thread's own processor time, p99 that of the clock.

  tests/bench/zoo.sh                                # makes an environment with a current torch and ONNX Runtime, then all of it
  zoo_bench.py --build build/release --models din can --batches 1 64 1024 --json zoo.json --plot zoo.png
  zoo_bench.py --build build/release --smoke        # seconds: scores compared, no figure worth anything
  zoo_bench.py --build build/release --plans plans  # text and pictures (Graphviz) of the plans instead
"""

import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "weights" / "python"), str(HERE / "zoo")]
import torch  # noqa: E402

import engines  # noqa: E402
import inputs  # noqa: E402
from inputs import MODELS  # noqa: E402

TURN_SECONDS = 0.02  # of one engine before the next one's


def measure(calls, seconds):
    """{engine: (median of its processor time, p99 of the clock)} in us; the engines take turns."""
    times = {name: ([], []) for name in calls}
    for call in calls.values():
        for i in range(3):
            call(i)
    end = time.perf_counter() + seconds * len(calls)
    while time.perf_counter() < end or len(next(iter(times.values()))[0]) < 8:
        for name, call in calls.items():
            until = time.perf_counter() + TURN_SECONDS
            while time.perf_counter() < until:
                wall, cpu = time.perf_counter_ns(), time.thread_time_ns()
                call(len(times[name][0]))
                times[name][1].append(time.thread_time_ns() - cpu)
                times[name][0].append(time.perf_counter_ns() - wall)
    return {name: (float(np.median(cpu)) / 1e3, float(np.percentile(wall, 99)) / 1e3) for name, (wall, cpu) in times.items()}


def compare(name, batch, found):
    """Against PyTorch in float64, by contracts' rule: |p - p64| <= max(1e-6, 2 |p32 - p64|), and 1e-5 for the other engines."""
    p64, p32 = found.pop("float64"), found["torch"]
    for engine, p in found.items():
        error = np.abs(p - p64)
        allowed = np.maximum(1e-6, 2 * np.abs(p32 - p64).max()) if engine.startswith("dpi") else 1e-5
        if not (error <= allowed).all():
            raise SystemExit(f"{name}, batch {batch}: {engine} differs from PyTorch in float64 by {np.nanmax(error):.2e} "
                             f"(allowed {np.max(allowed):.1e}, NaN {np.isnan(p).sum()}); nothing is timed")


def run_model(a, name, folder):
    model = inputs.made(name)
    path = folder / f"{name}.h5"
    inputs.export(name, model, path)
    rng = np.random.default_rng(1)
    found = {"torch": engines.Torch(model), "torchscript": engines.Script(model, name)}
    if engines.Onnx.usable() and not a.no_onnx:
        found["onnxruntime"] = engines.Onnx(model, name, folder)
    for options in [{}] + [dict(part.split("=", 1) for part in text.split(",")) for text in a.options]:
        label = "dpi" + "".join(f", {k}={v}" for k, v in options.items())
        found[label] = engines.Dpi(path, max(a.batches), options)
    for batch in a.batches:
        sets = [inputs.rows(name, batch, rng, a.lengths) for _ in range(4)]
        calls = {engine: e.calls(sets) for engine, e in found.items()}
        for i, rows in enumerate(sets):
            compare(name, batch, {"float64": engines.float64(model, rows), **{engine: call(i) for engine, call in calls.items()}})
        yield {"model": name, "batch": batch, "us": measure(calls, a.seconds)}


def tell(row):
    peers = {k: v for k, v in row["us"].items() if not k.startswith("dpi")}
    best = min(peers, key=lambda k: peers[k][0])
    row["best_peer"], row["ratio"] = best, peers[best][0] / row["us"]["dpi"][0]
    cells = "  ".join(f"{k} {v[0]:.1f} ({v[1]:.0f})" for k, v in row["us"].items())
    print(f"{row['model']:9} {row['batch']:5}  {row['ratio']:6.2f} x {best:12} {cells}", flush=True)
    return row


def summary(results):
    print("\nworst cells first:")
    for row in sorted(results, key=lambda r: r["ratio"])[:8]:
        print(f"  {row['ratio']:.2f} x of {row['best_peer']}: {row['model']}, {row['batch']} rows")
    for name in dict.fromkeys(r["model"] for r in results):
        print(f"  geometric mean {name:9} {math.exp(np.mean([math.log(r['ratio']) for r in results if r['model'] == name])):.2f} x")
    behind = sum(r["ratio"] < 1 for r in results)
    print(f"geometric mean of all {math.exp(np.mean([math.log(r['ratio']) for r in results])):.2f} x of the best peer, behind in {behind} of "
          f"{len(results)} cells")


def plot(results, path):
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 5))
    for name in dict.fromkeys(r["model"] for r in results):
        mine = [r for r in results if r["model"] == name]
        axes.plot([r["batch"] for r in mine], [r["ratio"] for r in mine], marker="o", label=name)
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set(xscale="log", yscale="log", xlabel="rows of a call", ylabel="times the best peer's speed, one thread")
    axes.legend(ncol=3, fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def plans(a, folder):
    """Text and, with Graphviz, a picture of each plan. Those of --small are held by tests/bench/zoo/plans_test.py."""
    a.plans.mkdir(parents=True, exist_ok=True)
    program = str(a.build / "bin" / "dpi")
    for name in a.models:
        path = folder / f"{name}.h5"
        inputs.export(name, inputs.made(name), path)
        text = subprocess.run([program, "plan", path, "--device", "cpu"], check=True, capture_output=True, text=True).stdout
        (a.plans / f"{name}.txt").write_text(text)
        dot = subprocess.run([program, "plan", path, "--device", "cpu", "--dot"], check=True, capture_output=True).stdout
        try:
            subprocess.run(["dot", "-Tsvg", "-o", a.plans / f"{name}.svg"], input=dot, check=True)
        except FileNotFoundError:
            print("no pictures: Graphviz (dot) is not installed", file=sys.stderr)
        print(f"{name}: {text.splitlines()[0]}", flush=True)


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release", help="where the library and its Python package are")
    p.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    p.add_argument("--batches", nargs="+", type=int, default=[1, 4, 16, 64, 256, 1024])
    p.add_argument("--lengths", choices=("uniform", "full"), default="uniform", help="of histories: 1 to 50, or all 50")
    p.add_argument("--seconds", type=float, default=1.0, help="for each engine, model and batch size")
    p.add_argument("--options", nargs="*", default=[], metavar="KEY=VALUE,...", help="this SDK once more with other options")
    p.add_argument("--no-onnx", action="store_true")
    p.add_argument("--plans", type=pathlib.Path, metavar="FOLDER")
    p.add_argument("--json", type=pathlib.Path)
    p.add_argument("--plot", type=pathlib.Path)
    p.add_argument("--small", action="store_true", help="tables of at most 50 rows, narrow models of 2025")
    p.add_argument("--smoke", action="store_true")
    a = p.parse_args()
    if a.smoke:
        a.small, a.batches, a.seconds = True, [1, 7], 0.01
    if a.small:
        inputs.small_tables()
    sys.path.insert(0, str(a.build / "python"))
    return a


def main():
    a = arguments()
    torch.set_num_threads(1)
    results = []
    with tempfile.TemporaryDirectory(prefix="dpi_zoo_") as folder:
        if a.plans:
            return plans(a, pathlib.Path(folder))
        print(f"torch {torch.__version__}, onnxruntime {engines.Onnx.usable() or 'not installed'}; us of a call: median of processor time "
              "(p99 of the clock)")
        for name in a.models:
            for row in run_model(a, name, pathlib.Path(folder)):
                results.append(tell(row))
                if a.json:
                    a.json.write_text(json.dumps(results, indent=1))
    summary(results)
    if a.plot:
        plot(results, a.plot)


if __name__ == "__main__":
    main()
