#!/usr/bin/env python3
"""Random models through the library as a user loads it: bundle file, loader, plan, backend. Every score of every backend, with the
plan's rewrites on and off, against numpy in float64; and from a host tier that is hardly larger than a chunk's rows, bit by bit against
resident tables.

  python3 tests/e2e/random/random_models_test.py build/release                       the models of CI, and the coverage
  python3 tests/e2e/random/random_models_test.py build/release --first 1 --count 2000    more
  python3 tests/e2e/random/random_models_test.py build/release --first 17 --count 1 --keep build    one, its bundle kept
"""

import itertools
import pathlib
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "weights" / "python"), str(ROOT / "tests" / "parity")]

from dpi_export.ops.executor import Executor  # noqa: E402
from engine import Engine, EngineError  # noqa: E402

import coverage  # noqa: E402
import seeds  # noqa: E402
from models import random_model  # noqa: E402

CI_MODELS = 64
OUT_OF_MEMORY = 6
LOGIT, VALUE = 1e-5, 1e-6  # contracts: of max(1, |logit|), and of a probability
MORE = ({}, {}, {"small_batch": "on"}, {"max_rows": "3"}, {"debug.schedule": "single"}, {"debug.schedule": "depth"},
        {"determinism": "strict"}, {"debug.lookup": "input_first"}, {"debug.lookup": "output_first"}, {"small_batch": "on", "debug.graphs": "off"},
        {"small_batch": "on", "debug.fetch": "in_place"}, {"debug.fetch": "copy"}, {"debug.order": "ops"}, {"debug.order": "light"}, {"debug.skip": "tail"}, {"debug.skip": "elementwise,merge"}, {"debug.skip": "lookup"})


class Case:
    """One model: its bundle, its rows in two forms, and what the scores must be."""

    def __init__(self, seed, folder, users=None):
        self.seed, self.model = seed, random_model(seed, users=users)
        self.heads = [h["name"] for h in self.model.b.heads]
        self.logits = np.array([h.get("logit") is not None for h in self.model.b.heads])
        self.path = pathlib.Path(folder) / f"random{seed}.h5"
        self.model.b.write(self.path)
        self.forms = {"as given": self.model.rows}
        if self.model.shared_counts:
            self.forms["without its shared part"] = self.model.flat_rows()
        self.want = {name: self._scores(np.float64, rows) for name, rows in self.forms.items()}
        near = self._scores(np.float32, self.model.rows)
        self.slack = [2 * np.abs(a - b).max(axis=0, initial=0) for a, b in zip(near, self.want["as given"])]

    def check_tier(self, engine, device):
        """Texts of what the smallest host tier, up to a half, that holds a chunk scores other than resident tables do."""
        options = {"device": device, "debug.fold": "off", "max_rows": "4"}
        with engine.load(self.path, **options) as model:
            want = [model.predict(rows, self.model.n_items, len(self.heads)) for rows in self.forms.values()]
        budget, done = 200, False
        while not done:
            budget += budget // 2
            try:
                with engine.load(self.path, **options, **{"store.host_bytes": budget, "store.resident_bytes": 0}) as model:
                    got = [model.predict(rows, self.model.n_items, len(self.heads)) for rows in self.forms.values()]
                done = True
            except EngineError as error:
                if error.code != OUT_OF_MEMORY:
                    raise
        if any(a.tobytes() != b.tobytes() for x, y in zip(got, want) for a, b in zip(x, y)):
            yield f"other bits from a host tier of {budget} bytes on {device}"

    def _scores(self, dtype, rows):
        """(values, logits) [rows, heads] of the oracle; no logit: NaN."""
        got = Executor(self.model.b, dtype).run(rows)
        empty = np.full(self.model.n_items, np.nan)
        return tuple(np.stack([got[key].get(h, empty) for h in self.heads], axis=1).astype(np.float64) for key in ("value", "logit"))

    def check(self, engine, options):
        """Texts of what is wrong under these options."""
        wrong = []
        with engine.load(self.path, **options) as model:
            for form, rows in self.forms.items():
                values, logits = model.predict(rows, self.model.n_items, len(self.heads))
                wrong += [f"{form}: {text}" for text in self._compare(values, logits, *self.want[form])]
        return wrong

    def _compare(self, values, logits, want_values, want_logits):
        slack_v, slack_l = self.slack
        plain = np.array([h["activation"] == "none" for h in self.model.b.heads])  # its value is a logit
        bound = np.where(plain, np.maximum(LOGIT * np.maximum(1, np.abs(want_values)), slack_v), np.maximum(VALUE, slack_v))
        yield from self._worst("value", values, want_values, bound, np.full(len(plain), True))
        bound = np.maximum(LOGIT * np.maximum(1, np.abs(want_logits)), slack_l)
        yield from self._worst("logit", logits, want_logits, bound, self.logits)

    def _worst(self, what, got, want, bound, heads):
        for h in np.flatnonzero(heads):
            error = np.abs(got[:, h] - want[:, h])
            bad = ~(error <= bound[:, h])
            if bad.any():
                r = int(np.flatnonzero(bad)[np.argmax(np.nan_to_num(error[bad], nan=np.inf))])
                yield (f"{what} of head '{self.heads[h]}' is {got[r, h]:.9g} in row {r}, expected {want[r, h]:.9g} within "
                       f"{bound[r, h]:.2g}; {bad.sum()} of {len(bad)} rows differ")


def runs_of(seed, devices):
    """The options under which a model is loaded: all rewrites on all devices, each with one more option drawn by the seed."""
    rng = np.random.default_rng(seed)
    for device, fold, fuse in itertools.product(devices, ("on", "off"), ("on", "off")):
        options = {"device": device, "debug.fold": fold, "debug.fuse": fuse}
        more = MORE[rng.integers(len(MORE))]
        if device in seeds.EMULATED and not seeds.full() and (fold != fuse or fold == "off" and seed % 4):
            continue
        yield {**options, **more}
        if device == "cpu" and fold == fuse == "on":
            yield {**options, "isa": ("scalar", "avx2", "avx512")[rng.integers(3)]}


def checked(case, engine, options):
    """What is wrong, or None where the processor lacks the instruction set that was drawn."""
    try:
        return list(case.check(engine, options))
    except EngineError as error:
        return None if "isa" in options and "this processor lacks it" in str(error) else [str(error)]


def check_coverage(cases_facts):
    """Facts that were required and did not appear."""
    return sorted(coverage.required() - cases_facts)


def arguments():
    parser = seeds.parser_of(__doc__, first=1, count=CI_MODELS)
    parser.add_argument("--keep", type=pathlib.Path, help="a folder in which the bundles stay")
    return parser.parse_args()


def main():
    args = arguments()
    engine, facts, failed, runs = Engine(seeds.library_of(args.build)), set(), [], 0
    lacking = 0
    with tempfile.TemporaryDirectory() as temporary:
        for seed in range(args.first, args.first + args.count):
            case = Case(seed, args.keep or temporary)
            facts |= coverage.facts_of(case.model)
            wrong = []
            for options in runs_of(seed, args.devices.split(",")):
                texts = checked(case, engine, options)
                lacking += texts is None
                runs += 1
                wrong += [f"model {seed}, {' '.join(f'{k}={v}' for k, v in options.items())}: {t}" for t in texts or ()]
            for device in args.devices.split(","):
                if device in seeds.EMULATED and not seeds.full() and seed % 4 != 1:
                    continue
                wrong += [f"model {seed}: {text}" for text in case.check_tier(engine, device)]
                runs += 1
            failed += [seed] if wrong else []
            if wrong:
                print("\n".join(wrong[:8]), flush=True)
            if not args.keep:
                case.path.unlink()
    missed = check_coverage(facts) if args.count >= CI_MODELS else []
    for fact in missed:
        print(f"no model has: {fact}")
    if lacking:
        print(f"{lacking} loads asked for an instruction set that this processor lacks, and were refused")
    print(f"{args.count} models, {runs} loads: {len(failed)} models with wrong scores {failed[:40]}, {len(missed)} facts never met")
    sys.exit(1 if failed or missed else 0)


if __name__ == "__main__":
    main()
