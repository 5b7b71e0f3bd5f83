#!/usr/bin/env python3
"""Bundles that were traced from FuxiCTR's models: every device scores their rows as the models did.

  python3 tests/e2e/recorded/recorded_test.py build/release [--devices ref,cpu,cuda_emu] [--only TEXT] [--table]

outputs.json holds what each model computed in float32 and float64, p32 and p64, for the golden rows of its bundle. A score passes when
|p - p64| <= max(1e-6, 2 |p32 - p64|), a logit z when |z - z64| <= 1e-5 max(1, |z64|) with z64 what p64 is the sigmoid of. So held: the
package's executor in float64, and the engine on each device with the plan's folds and fuses on and off. On CUDA also in short floats, where
a score passes when |p - p64| <= 5e-3; what a type cannot hold is refused at load (TOO_LARGE). Exit status 1: one did not pass.
"""

import argparse
import json
import pathlib
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(ROOT / "weights" / "python"), str(ROOT / "tests" / "parity"), str(ROOT / "tests" / "e2e" / "random")]

import seeds  # noqa: E402
from dpi_export import Bundle, Executor  # noqa: E402
from engine import Engine, EngineError  # noqa: E402

#: Fewer than these would be files that went missing.
LEAST = 60
SHORT = {"cuda": ("tf32", "bf16", "fp16"), "cuda_emu": ("tf32", "bf16", "fp16"), "cpu": ("bf16", "int8")}
#: What scores may differ by.
MAY = {"int8": 2e-2}
#: Cases with a table that fp16 does not hold, and what loading says of it.
TOO_LARGE = dict.fromkeys(("DIEN, AGRU", "DIEN, AUGRU", "DIEN, din"), "beyond what fp16 holds")


def misses(p, z, said):
    """Scores and logits that do not pass, and the worst error of each; NaN does not pass."""
    p64, p32 = np.asarray(said["p64"]), np.asarray(said["p32"])
    z64 = np.log(p64) - np.log1p(-p64)
    dp, dz = np.abs(p - p64), np.abs(z - z64) / np.maximum(1, np.abs(z64))
    bad = ~(dp <= np.maximum(1e-6, 2 * np.abs(p32 - p64))) | ~(dz <= 1e-5)
    return int(bad.sum()), float(dp.max()), float(dz.max())


def scores(path, engine, devices):
    """(who, scores [rows, heads], logits) of a bundle's golden rows."""
    with Bundle(path) as bundle:
        rows, n, heads = bundle.golden["rows"], bundle.golden["n"], [head["name"] for head in bundle.heads]
        run = Executor(bundle).run(rows)
        yield "numpy", *(np.stack([run[key][head] for head in heads], axis=1) for key in ("value", "logit"))
    for device in devices:
        for rewrites in ("on", "off"):
            if device in seeds.EMULATED and rewrites == "off" and not seeds.full():
                continue
            with engine.load(path, device=device, **{"debug.fold": rewrites, "debug.fuse": rewrites}) as model:
                yield f"{device}, folds and fuses {rewrites}", *model.predict(rows, n, len(heads))


def short_of(path, device):
    """The precisions of a device; of the emulated one, in an ordinary run, one that the bundle's name chooses."""
    short = SHORT.get(device, ())
    if device in seeds.EMULATED and not seeds.full():
        return short[len(path.name) % len(short)],
    return short


def short_scores(path, engine, device):
    """(precision, scores or what loading refuses it for) of a bundle's golden rows."""
    with Bundle(path) as bundle:
        rows, n, heads = bundle.golden["rows"], bundle.golden["n"], len(bundle.heads)
    for precision in short_of(path, device):
        try:
            with engine.load(path, device=device, precision=precision) as model:
                yield precision, model.predict(rows, n, heads)[0]
        except EngineError as e:
            yield precision, str(e)


def wrong_short(case, precision, p, said):
    """'' when scores in short floats pass, or are refused as they must be; else what is wrong. NaN does not pass."""
    refusal = TOO_LARGE.get(case) if precision == "fp16" else None
    if isinstance(p, str) or refusal:
        return "" if isinstance(p, str) and refusal and refusal in p else f"refused: {p}" if isinstance(p, str) else f"not refused for {refusal}"
    error = np.abs(p - np.asarray(said["p64"])).max()
    return "" if error <= MAY.get(precision, 5e-3) else f"p {error:.1e}"


def self_test(said):
    """The comparison sees a score that is off by 2e-6 and a NaN."""
    p = np.asarray(said["p64"])
    z, off, nothing = np.log(p) - np.log1p(-p), p.copy(), p.copy()
    off[0, 0] += 2e-6 + 2 * abs(np.asarray(said["p32"]) - p)[0, 0]
    nothing[0, 0] = np.nan
    short = [bool(wrong_short("", "bf16", scores, said)) for scores in (p, p + 6e-3, nothing, "refused")]
    return short == [False, True, True, True] and misses(p, z, said)[0] == 0 and misses(off, z, said)[0] == misses(nothing, z, said)[0] == 1


def checks(path, said, engine, devices):
    """(who, whether it is wrong, numbers) of every run of a bundle."""
    for who, p, z in scores(path, engine, devices):
        bad, dp, dz = misses(p, z, said)
        yield who, bad, f"{bad} wrong, p {dp:.1e}, logit {dz:.1e}"
    for device in devices:
        for precision, p in short_scores(path, engine, device):
            bad = wrong_short(said["case"], precision, p, said)
            yield f"{device}, {precision}", bad, bad or ("refused" if isinstance(p, str) else f"within {MAY.get(precision, 5e-3):.0e}")


def main():
    """Prints a line for each bundle that does not pass, or for each run with --table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--devices", default="ref,cpu,cuda_emu")
    parser.add_argument("--only", default="")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    outputs = json.loads((HERE / "outputs.json").read_text(encoding="utf-8"))
    if sorted(outputs) != sorted(path.name for path in HERE.glob("*.h5")) or len(outputs) < LEAST:
        sys.exit("the bundles here are not those of outputs.json, or too few")
    if not all(map(self_test, outputs.values())):
        sys.exit("the comparison lets wrong scores pass")
    engine, runs, failed = Engine(seeds.library_of(options.build)), 0, 0
    for name, said in outputs.items():
        if options.only not in said["case"]:
            continue
        for who, bad, text in checks(HERE / name, said, engine, options.devices.split(",")):
            runs, failed = runs + 1, failed + bool(bad)
            if bad or options.table:
                print(f"{'FAIL' if bad else 'ok  '} {said['case']:<34} {who:<32} {text}")
    print(f"{runs} runs of {len(outputs)} bundles, {failed} wrong")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
