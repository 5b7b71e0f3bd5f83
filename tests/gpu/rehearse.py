#!/usr/bin/python3
"""A visit, or calls of it, against a clock that runs at the estimated speed: what each stage gets done, and what a limit cuts off.

    tests/gpu/rehearse.py [--call A|B|C]... [--slow FACTOR] [--all]

Without --call: the two calls of visit.sh, with the start of the machine and the transfers, against the 900 s of a visit. With it: whole calls of
validate.sh, for a machine that may be used longer. Starts no program: the stages run as they do on a visit, but what they start is answered by
estimates.py, which says how long it would have taken. --slow: everything takes FACTOR times as long. --all: also prints every record. Exit status 1
when a number that a visit is for would be missing, or the visit takes too long."""

import argparse
import contextlib
import importlib
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import types

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "stages"), str(HERE)]
import estimates  # noqa: E402

VISIT, START, TRANSFERS = 900, 75, 40  # seconds; both calls together wait so long for files
OURS = ("common", "data", "peers", "a", "b", "c")  # modules that read the environment of a stage


class Killed(BaseException):
    """The stage's `timeout` ran out."""


class Clock:
    def __init__(self, slow):
        self.now, self.slow, self.end, self.cuts = 1e9, slow, 0.0, []

    def time(self):
        return self.now

    def charge(self, seconds):
        self.now += seconds * self.slow
        if self.now > self.end:
            self.now = self.end
            raise Killed

    def fits(self, seconds, limit):
        """Charges it, or the limit where it takes longer."""
        good = seconds * self.slow <= limit
        self.charge(seconds if good else max(0.0, limit) / self.slow)
        return good


def plan():
    """({call: [(stage, script, limit)]}, seconds of a call) as validate.sh has them."""
    script = HERE / "validate.sh"
    listed = subprocess.run(["bash", str(script), "--list"], capture_output=True, text=True, check=True).stdout
    calls = [[line.split() for line in part.splitlines()] for part in listed.strip().split("\n\n")]
    limit = int(re.search(r"^LIMIT=(\d+)$", script.read_text(), re.M)[1])
    return {call: [(n, s, int(seconds)) for n, s, seconds in stages] for call, stages in zip("ABC", calls)}, limit


def visit():
    """[(letters, seconds, [(stage, script, limit)])] as visit.sh has them."""
    listed = subprocess.run(["bash", str(HERE / "visit.sh"), "--list"], capture_output=True, text=True, check=True).stdout
    known, calls = plan()[0], []
    for line in listed.splitlines():
        letters, seconds, *limits = line.split()
        limits = dict(limit.split("=") for limit in limits)
        stages = [(stage, script, int(limits.pop(stage))) for letter in letters for stage, script, _ in known[letter] if stage in limits]
        if limits or not stages:
            raise SystemExit(f"visit.sh: no stage {', '.join(limits)} in {letters}")
        calls.append((letters, int(seconds), stages))
    return calls


def load(stage, script, clock):
    """The stage's module, its ways to the world replaced."""
    shutil.which, os.cpu_count = (lambda name, **_: f"/usr/bin/{name}"), (lambda: 16)
    for name in [m for m in sys.modules if m in OURS or re.fullmatch(r"[abc]\d_\w+", m)]:
        del sys.modules[name]
    os.environ.update(STAGE=stage, DPI_GPU_UVM="1")
    common, data = importlib.import_module("common"), importlib.import_module("data")
    common.time = types.SimpleNamespace(time=clock.time)

    def run(command, seconds=None, **_):
        cost, status, text = estimates.run(command)
        if clock.fits(cost, max(1.0, min(seconds or common.left(), common.left()))):
            return status, text
        clock.cuts.append((stage, " ".join(pathlib.Path(str(c)).name for c in command[:2]), 0, 1))
        return 124, ""

    def stream(name, command, end, text="", ours=True):
        jobs = estimates.jobs_of(name, command, text)
        end.update(exit=0, log="", late=False)
        done = 0
        for cost, answers in jobs:
            if not clock.fits(cost, common.left()):
                end.update(exit=-9, late=True)
                clock.cuts.append((stage, name, done, len(jobs)))
                return
            done += 1
            yield from answers

    def rows(shape, batch, distribution="zipf", sets=data.SETS, turn=0):
        paths = [data.WORK / f"{shape.dataset}.{batch}.{sets}.{distribution}.{turn}.{what}" for what in ("ids", "dense")]
        if not paths[0].exists():
            clock.charge(estimates.ROWS * batch * sets * shape.fields)
            for path in paths:
                path.touch()
        return paths[0], paths[1] if shape.numerics else None

    def hot_list(shape, distribution, lookups):
        clock.charge(estimates.LOG * lookups * shape.fields)
        return data.WORK / f"{shape.name}.{distribution}.hot"

    common.run, common.stream, data.rows, data.hot_list, common.torch_here = run, stream, rows, hot_list, lambda: True
    return importlib.import_module(script), common


def call(name, stages, limit, clock, folder):
    finish = clock.now + limit
    for stage, script, seconds in stages:
        begin, remaining = clock.now, finish - clock.now
        if remaining < 5:
            print(f"{stage:4} {script:16} not run: out of time")
            continue
        seconds = min(seconds, remaining)
        clock.end = begin + seconds
        os.environ.update(DEADLINE=str(begin + seconds - 3), OUT=str(folder), WORK=str(folder / name), PACK=str(HERE.parents[1]), DPI_GPU_DRY="0")
        module, common = load(stage, script, clock)
        seen, verdict = len(clock.cuts), "ends"
        with contextlib.redirect_stdout(io.StringIO()) as said:
            try:
                clock.charge(estimates.PYTHON)
                common.main(module.stage)
            except Killed:
                verdict = "is killed"
            except SystemExit as e:
                verdict = "ends" if not e.code else "FAILS"
        print(f"{stage:4} {script:16} {verdict:10} after {clock.now - begin:4.0f} of {seconds:4.0f} s" + ("" if verdict != "FAILS" else "\n" + said.getvalue()[-1500:]))
        for _, what, done, wanted in clock.cuts[seen:]:
            print(f"       cut off: {what}" + (f", {done} of {wanted} done" if wanted > 1 else ""))


def missing(records, calls):
    """What a visit is for and these records do not have."""
    import analysis
    from spec import KINDS
    lost = []
    if "A" in calls:
        checks = [r for r in records if r["what"] == "check"]
        lost += [f"no check of {kind} at 16_256 in {p}" for kind in KINDS for p in ("fp32", "tf32", "fp16", "bf16")
                 if not any(r["model"] == f"{kind}_criteo_numeric_d16_256" and p in r["precisions"] for r in checks)]
        wanted = {"a table above 4 GiB": any("_huge_" in r.get("model", "") for r in checks), "compute-sanitizer": sum(r["stage"] == "A3" for r in records) >= 8,
                  "the grid's layers tuned": any(r["what"] == "dpi_gpu_tune" and r["cell"].get("first") == "done" for r in records),
                  "lookups tuned": any(r["what"] == "dpi_gpu_lookup" for r in records),
                  "a first look": any(r["stage"] == "A7" and r["what"] == "latency" for r in records)}
        lost += [what for what, there in wanted.items() if not there]
    if "C" in calls:
        import predict_tiers
        lost += [what for what, _, measured, _ in analysis.tier_targets(records) if measured is None]
        seen = analysis.tiers(records)
        lost += [f"tier {' '.join(map(str, cell))}" for cell in predict_tiers.read() if cell not in seen]
    if "B" in calls:
        others = [what for what, *_ in analysis.tier_targets(records)]
        others += [what for what, *_ in analysis.targets(records) if what.startswith("on the device:")]  # B5's last part: as far as its time goes
        lost += [what for what, _, measured, _ in analysis.targets(records) if measured is None and what not in others and ("A" in calls or "only copies" not in what)]
        lost += [f"{48 - len(analysis.ratios(analysis.grid(records), p))} of 48 cells over stock eager, {p}" for p in ("fp32", "tf32", "fp16")
                 if len(analysis.ratios(analysis.grid(records), p)) < 48]
        at = {(r["model"], r["batch"], r["precision"]) for r, _ in analysis.strongest(records)}
        lost += [f"no peer beside {k} at {b} rows, {p}" for k in KINDS for b in (64, 2048) for p in ("fp16", "tf32", "fp32") if (k, b, p) not in at]
    return lost


def missing_of_visit(records):
    """The same of a visit of fifteen minutes, which has less time."""
    import analysis
    import b1_end_to_end
    import b4_ablation
    from spec import KINDS
    checks = [r for r in records if r["what"] == "check"]
    lost = [f"no check of {kind} at 16_256 in {p}" for kind in KINDS for p in ("fp32", "tf32", "fp16", "bf16")
            if not any(r["model"] == f"{kind}_criteo_numeric_d16_256" and p in r["precisions"] for r in checks)]
    lost += [f"{tool} over models" for tool in ("initcheck", "synccheck", "racecheck", "memcheck")
             if not any(r["what"] == f"{tool} on gpu_check" and r["status"] == "ok" for r in records)]
    cells = analysis.grid(records)
    for p, engine in (("fp32", analysis.STOCK), ("fp16", analysis.STOCK), ("fp32", "eager_field")):
        there = len(analysis.ratios(cells, p, engine=engine))
        lost += [f"{48 - there} of 48 cells over {engine}, {p}"] if there < 48 else []
    timed = analysis.latencies(records)
    seen = {(r.get("group"), r["model"], r["batch"], r.get("choice"), r["precision"]) for r in timed if r["engine"] == "dpi"}
    lost += [f"without '{c}' at {b} rows" for c, options in b4_ablation.CHOICES.items() for b in (2048, 64)
             if ("ablation", "dcnv2", b, c, "fp16") not in seen and (b <= b4_ablation.MOST_ROWS or options.get("debug.fetch") != "in_place")]
    lost += [f"{k} with {c}" for k in KINDS for c in b1_end_to_end.FEW_ROWS if ("few rows", k, 64, c, "fp16") not in seen]
    lost += [f"lookup: {c}" for c in b1_end_to_end.LOOKUPS if ("lookup forms", "dcnv2", 16384, c, "fp16") not in seen]
    at = {(r["model"], r["batch"], r["precision"]) for r, _ in analysis.strongest(records)}
    lost += [f"no peer beside {k} at {b} rows, {p}" for k in KINDS for b in (64, 2048) for p in ("fp16", "tf32", "fp32") if (k, b, p) not in at]
    compiled = {(r["model"], r["batch"]) for r in timed if r["engine"] == "graph_compiled" and r["precision"] == "fp16"}
    lost += [f"no compiled peer beside {k} at {b} rows" for k in ("deepfm", "dcnv2") for b in (64, 2048) if (k, b) not in compiled]
    wanted = ("embedding stage", "lookup at batch", "p50 host to host", "rows/s with tables")
    return lost + [what for what, _, measured, _ in analysis.targets(records) if measured is None and what.startswith(wanted)]


def rehearse_visit(clock, folder):
    """Seconds of the whole visit."""
    begin, calls = clock.now, visit()
    clock.now += START
    for number, (letters, seconds, stages) in enumerate(calls, 1):
        (folder / str(number)).mkdir()
        print(f"--- visit.sh {number}: {letters}, estimated")
        started = clock.now
        call(str(number), stages, seconds, clock, folder)
        print(f"     {clock.now - started:.0f} of {seconds} s")
        clock.now += TRANSFERS / len(calls)
    return clock.now - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--call", action="append", choices=("A", "B", "C"))
    parser.add_argument("--slow", type=float, default=1.0)
    parser.add_argument("--all", action="store_true")
    args = parser.parse_args()
    (stages, limit), clock, late = plan(), Clock(args.slow), []
    with tempfile.TemporaryDirectory() as folder:
        if not args.call:
            took = rehearse_visit(clock, pathlib.Path(folder))
            print(f"     {took:.0f} of {VISIT} s, with {START} s of start and {TRANSFERS} of transfers")
            late = [f"{took - VISIT:.0f} s: the visit takes longer than it may"] if took > VISIT else []
        for name in args.call or ():
            (pathlib.Path(folder) / name).mkdir()
            begin = clock.now
            print(f"--- call {name}, estimated" + (f", everything {args.slow:g} times as slow" if args.slow != 1 else ""))
            call(name, stages[name], limit, clock, pathlib.Path(folder))
            print(f"     {clock.now - begin:.0f} of {limit} s")
        records = [json.loads(line) for line in (pathlib.Path(folder) / "results.jsonl").read_text().splitlines()]
    for r in records if args.all else ():
        print(json.dumps(r)[:300])
    broken = [r for r in records if r.get("counts") == "failure"]
    lost = late + (missing(records, args.call) if args.call else missing_of_visit(records)) + [f"{r['stage']} {r['what']} {r['status']}: {str(r.get('error') or r.get('why') or r.get('log'))[-300:]}" for r in broken]
    print("\n".join(f"MISSING {what}" for what in lost) or "nothing that a visit is for is missing")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
