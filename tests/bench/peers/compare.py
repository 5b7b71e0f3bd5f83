#!/usr/bin/env python3
"""This SDK beside every strong engine for the same models on a CPU: PyTorch (eager, a frozen script, oneDNN's packed layers, FBGEMM's lookup),
ONNX Runtime, OpenVINO, LiteRT. Same weights and rows; scores are compared with float64 numpy before anything is timed.

Each engine is a process of its own, made for one model and one number of rows, in its best form: tables merged, buffers bound beforehand,
shapes fixed. Engines take turns; between its turns a process is stopped (SIGSTOP), so that threads which spin while they wait cost the
others nothing. Times include each library's call from Python. Clock 'wall' is the time of a call; 'cpu' the processor time of the process
for a call, which says something on a busy machine too, for one thread.

  tests/bench/peers/run.sh                                       # makes the environments, then all of it: two to three hours
  run.sh --models dcnv2 --shapes criteo --hidden 64-32 --batches 1 16 64 --threads 1 2 --json peers.json --plot peers.png
  run.sh --shapes avazu --json peers.json --go-on                # more cells into the same file; those that it has are left out
  run.sh --smoke                                                 # a minute: scores compared, no figure worth anything
"""

import argparse
import concurrent.futures
import itertools
import json
import os
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(HERE))
import numpy as np  # noqa: E402
import report  # noqa: E402
import shapes  # noqa: E402
from processes import Process, Refused  # noqa: E402

ENGINES = ("dpi", "torch", "script", "onednn", "fbgemm", "onnxruntime", "openvino", "litert")
NARROW = ("dpi-bf16", "openvino-bf16")
POOL = 16384  # different rows a cell goes through, at least 4 calls: small calls find their table rows where a service's do
MOST_CALLS = 1024  # each has buffers of its own that are bound beforehand
TOLERANCE = {"fp32": 2e-5, "bf16": 3e-2}
FAR = 2.5


def check(found, want, name):
    """Refused with the place if a score is off or not a number."""
    error = np.abs(found.astype(np.float64) - want)
    allowed = TOLERANCE["bf16" if name.endswith("bf16") else "fp32"]
    if found.shape != want.shape or not (error <= allowed).all():
        raise Refused(f"its scores differ from float64 by {np.nanmax(error) if found.shape == want.shape else found.shape} (allowed {allowed})")


def ask_all(processes, what):
    """Answers by name, Refused ones as such. This SDK measures while it loads from where threads pay, so it has the machine to itself."""
    def ask(name):
        try:
            return processes[name].ask(what)
        except Refused as why:
            return why
    own = [name for name in processes if name.startswith("dpi")]
    others = [name for name in processes if name not in own]
    answers = {name: ask(name) for name in own}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return answers | dict(zip(others, pool.map(ask, others)))


def right_ones(processes, ids, want):
    """Engines that answer rightly; why the others do not."""
    refused = {}
    for name, answer in ask_all(processes, {"do": "batch", "ids": ids}).items():
        try:
            if isinstance(answer, Refused):
                raise answer
            check(np.load(answer["scores"]), want, name)
        except Refused as why:
            refused[name] = str(why)
            print(f"  {name}: {why}", file=sys.stderr, flush=True)
    return {name: process for name, process in processes.items() if name not in refused}, refused


def beaten(times):
    """Engines that take over FAR times what the fastest does, of equal precision."""
    def narrow(name):
        return name.endswith("bf16")
    medians = {name: np.median(wall) for name, (wall, _) in times.items()}
    return [name for name, m in medians.items() if m > FAR * min(other for n, other in medians.items() if narrow(n) == narrow(name))]


def cell(a, processes, ids, want, key):
    """One row of the results: engines that answer rightly, timed in turns. One that is far behind after two turns has no more."""
    alive, refused = right_ones(processes, ids, want)
    times = {name: ([], []) for name in alive}
    for turn in range(a.turns):
        for name, process in alive.items():
            answer = process.ask({"do": "time", "seconds": a.seconds / a.turns})
            if turn or a.turns == 1:  # the first warms up
                times[name][0].extend(answer["wall"])
                times[name][1].append(answer["cpu"])
        if turn == 1:
            far = beaten(times)
            alive = {name: process for name, process in alive.items() if name.startswith("dpi") or name not in far}
    us = {name: {"p50": float(np.median(w)), "p99": float(np.percentile(w, 99)), "cpu": float(np.median(c)), "calls": len(w)}
          for name, (w, c) in times.items()}
    return {**key, "us": us, "refused": refused}


def run_model(a, folder, threads, shape, model, hidden, batches):
    weights = shapes.make_weights(model, shape, hidden)
    np.savez(folder / "weights.npz", **weights)
    key = {"threads": threads, "shape": shape, "model": model, "hidden": hidden}
    processes = {}
    try:
        for name in a.engines:
            options = {"precision": "bf16"} if name == "dpi-bf16" else {}
            options |= dict(text.split("=", 1) for text in a.options) if name.startswith("dpi") else {}
            own = folder / name
            own.mkdir(exist_ok=True)
            processes[name] = Process({"engine": name, "options": options, "weights": str(folder / "weights.npz"), "folder": str(own),
                                       "model": model, "shape": shape, "threads": threads}, a)
        rows = {batch: max(4, min(POOL // batch, MOST_CALLS)) * batch for batch in batches}
        pool = shapes.make_rows(shape, max(rows.values()), np.random.default_rng(1))
        want = np.concatenate([shapes.float64(model, weights, pool[at:at + 1024]) for at in range(0, len(pool), 1024)])
        for batch in batches:
            np.save(folder / "ids.npy", pool[:rows[batch]].reshape(-1, batch, pool.shape[1]))
            row = cell(a, processes, str(folder / "ids.npy"), want[:rows[batch]], {**key, "batch": batch})
            yield {**row, "work": shapes.work(model, weights, batch)}
    finally:
        for process in processes.values():
            process.end()


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--models", nargs="+", default=list(shapes.MODELS), choices=shapes.MODELS)
    p.add_argument("--shapes", nargs="+", default=list(shapes.SHAPES), choices=list(shapes.SHAPES))
    p.add_argument("--hidden", nargs="+", default=["64-32", "3x256", "3x1024"], choices=list(shapes.HIDDEN))
    p.add_argument("--batches", nargs="+", type=int, default=[1, 4, 16, 64, 256, 1024, 4096])
    p.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    p.add_argument("--engines", nargs="+", default=[*ENGINES, *NARROW], choices=[*ENGINES, *NARROW])
    p.add_argument("--options", nargs="*", default=[], metavar="KEY=VALUE", help="of this SDK's models")
    p.add_argument("--seconds", type=float, default=1.0, help="for each engine and cell")
    p.add_argument("--turns", type=int, default=5, help="of each engine in a cell; the first warms up")
    p.add_argument("--clock", choices=("wall", "cpu"), default="wall", help="cpu: for one thread on a busy machine")
    p.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release", help="this SDK's library and Python package")
    p.add_argument("--litert-python", default=sys.executable, help="a Python with tensorflow and ai-edge-litert")
    p.add_argument("--json", type=pathlib.Path, help="results; with --report read instead of run")
    p.add_argument("--go-on", action="store_true", help="what --json holds is kept, and only cells that it lacks are run")
    p.add_argument("--report", action="store_true", help="tables and plot of an earlier --json")
    p.add_argument("--plot", type=pathlib.Path)
    p.add_argument("--csv", type=pathlib.Path, help="a line for every cell: times, p99, ratio, the ceiling that binds and its share")
    p.add_argument("--smoke", action="store_true")
    a = p.parse_args()
    if (a.report or a.go_on) and a.json is None:
        p.error("--report and --go-on need --json")
    if a.smoke:
        a.shapes, a.hidden, a.batches, a.threads, a.seconds, a.turns = ["cached"], ["64-32"], [1, 5], [1], 0.02, 1
    return a


def left_to_run(a, results):
    """(threads, shape, model, hidden, batches) of cells that are not among the results."""
    there = {(r["threads"], r["shape"], r["model"], r["hidden"], r["batch"]) for r in results}
    for key in itertools.product(a.threads, a.shapes, a.models, a.hidden):
        batches = [b for b in a.batches if (*key, b) not in there]
        if batches:
            yield (*key, batches)


def main():
    a = arguments()
    earlier = json.loads(a.json.read_text()) if a.report or (a.go_on and a.json.exists()) else {}
    results, machine = earlier.get("results", []), earlier.get("machine") or report.machine(a)
    cells = [] if a.report else list(left_to_run(a, results))
    with tempfile.TemporaryDirectory(prefix="dpi_peers_") as folder:
        for done, (threads, shape, model, hidden, batches) in enumerate(cells, 1):
            print(f"{done} of {len(cells)}: {model}, {shape}, {hidden}, {threads} thread{'s' * (threads > 1)}", flush=True)
            for row in run_model(a, pathlib.Path(folder), threads, shape, model, hidden, batches):
                results.append(row)
                print(report.line(row, a.clock), flush=True)
                if a.json:
                    report.write(a.json, machine, results)
    print(report.summary(results, a.clock, machine))
    if a.csv:
        report.cells(results, a.clock, machine, a.csv)
    if a.plot:
        report.plot(results, a.clock, a.plot)
    wrong = [r for r in results if any(name.startswith("dpi") for name in r["refused"])]
    return 1 if wrong or not results else 0


if __name__ == "__main__":
    sys.exit(main())
