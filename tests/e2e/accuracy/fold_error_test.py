#!/usr/bin/env python3
"""Folds may not cost accuracy. Every model's largest error against float64 with folds, on every backend, is at most FACTOR times the one
without, or FLOOR (USER_FLOOR) of its device times max(1, |logit|); over at least 1,000 rows.

  python3 tests/e2e/accuracy/fold_error_test.py build/release                          golden bundles, demos, constructed and random models
  python3 tests/e2e/accuracy/fold_error_test.py build/release --only 'norm_*' --table  one kind, each error printed
  python3 tests/e2e/accuracy/fold_error_test.py build/release --only 'random*' --first 1 --count 500 --devices ref,cpu
"""

import fnmatch
import itertools
import sys
import tempfile

import numpy as np

import cases  # noqa: E402
import seeds  # noqa: E402
from cases import ROWS, bundle_cases, constructed, random_case
from dpi_export.ops.executor import Executor  # noqa: E402
from engine import Engine, EngineError  # noqa: E402

FACTOR = 1.5
# What a load may differ from exact whatever the bar without folds. A GPU's fp32 products are three tf32 ones, summed by units that cut:
# an error of their own, up to 4.3e-6 on the grid of tests/gpu/README.md, which hides and moves what folds do.
FLOOR = {"ref": 2e-7, "cpu": 2e-7, "cuda_emu": 1e-6}
# With features of the user a sum is stored in float32 between its user's and its item's part. Beside `ref`'s sums, which are double, that
# rounding shows (target attention: 3.5e-7 for 2.1e-7); `cpu`'s shorter sums are nearer than the whole one.
USER_FLOOR = {**FLOOR, "ref": 4e-7}
CI_RANDOM = 24 if seeds.full() else 8
# Of all cases the emulated device takes every so-manieth: of the constructed ones that is each form, in other sizes.
EMULATED_STEP = 1 if seeds.full() else 5
# The largest of 1,024 roundings is itself a matter of chance: 1 comparison in 100 is above the bound on other rows than the next. So a
# model that is above it is judged by this many times the rows.
MORE_ROWS = 16


class Scores:
    """Of a case: what is exact, and how far a load's scores are from it."""

    def __init__(self, case):
        self.case = case
        run = Executor(case.model).run(case.rows)
        self.exact = [run["logit"].get(h, run["value"][h]) for h in case.heads]

    def errors(self, engine, options):
        """By head: the largest |x - exact| / max(1, |exact|). NaN is infinitely far."""
        with engine.load(self.case.path, **options) as model:
            values, logits = model.predict(self.case.rows, self.case.n, len(self.case.heads))
        return [self._error(np.where(np.isnan(logits[:, i]), values[:, i], logits[:, i]), want) for i, want in enumerate(self.exact)]

    @staticmethod
    def _error(got, want):
        error = np.abs(got - want) / np.maximum(1, np.abs(want))
        return float(np.nan_to_num(error, nan=np.inf).max())


def both_errors(engine, scores, options):
    """With folds and without."""
    return tuple(scores.errors(engine, {**options, "debug.fold": fold}) for fold in ("on", "off"))


def worse(case, device, error, bar):
    has_user = any(f.get("space") == "shared" for f in case.model.features)
    return not error <= max(FACTOR * bar, (USER_FLOOR if has_user else FLOOR)[device])


def check(engine, case, devices, table):
    """Texts of what got worse; the number of comparisons."""
    if case.n < 1000:
        raise ValueError(f"{case.name}: {case.n} rows")
    scores, more, wrong, compared = Scores(case), None, [], 0
    for device, fuse in itertools.product(devices, ("on", "off")):
        if device in seeds.EMULATED and fuse == "off" and not (case.built and seeds.full()):
            continue  # the emulated device has nearly all of the time, and folds come before fusion
        options = {"device": device, "debug.fuse": fuse}
        with_folds, without = both_errors(engine, scores, options)
        if any(worse(case, device, *pair) for pair in zip(with_folds, without)) and case.with_more_rows(1) is not None:
            more = more or Scores(case.with_more_rows(MORE_ROWS))
            with_folds, without = both_errors(engine, more, options)
        for head, error, bar in zip(case.heads, with_folds, without):
            compared += 1
            text = f"{case.name:32s} {device:8s} fuse={fuse:3s} {head}: {error:.2e} with folds, {bar:.2e} without"
            bad = worse(case, device, error, bar)
            wrong += [text] if bad else []
            if table:
                print(text + (f"  {error / bar:.1f} x" if bad else ""), flush=True)
    return wrong, compared


def all_cases(args, folder):
    """Every case whose name fits."""
    fits = [p for p in args.only.split(",")]
    named = lambda name: any(fnmatch.fnmatch(name, p) for p in fits)  # noqa: E731
    yield from (c for c in bundle_cases() if named(c.name))
    for make, arguments in constructed(folder):
        case = make(*arguments)
        if named(case.name):
            yield case
    for seed in range(args.first, args.first + args.count):
        if named(f"random{seed}"):
            yield random_case(seed, folder)


def arguments():
    parser = seeds.parser_of(__doc__, first=101, count=CI_RANDOM)
    parser.add_argument("--only", default="*", help="patterns of case names, separated by commas")
    parser.add_argument("--table", action="store_true", help="print each error")
    return parser.parse_args()


def main():
    args = arguments()
    engine, wrong, models, compared = Engine(seeds.library_of(args.build)), [], 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for number, case in enumerate(all_cases(args, folder)):
            devices = [d for d in args.devices.split(",") if d not in seeds.EMULATED or number % EMULATED_STEP == 0]
            try:
                texts, n = check(engine, case, devices, args.table)
            except EngineError as error:
                texts, n = [f"{case.name}: {error}"], 0
            models, compared, wrong = models + 1, compared + n, wrong + texts
    print("\n".join(wrong))
    print(f"{models} models of {ROWS} rows, {compared} comparisons: {len(wrong)} times folds cost accuracy")
    sys.exit(1 if wrong or not compared else 0)


if __name__ == "__main__":
    main()
