#!/usr/bin/env python3
"""The forms that the plan knows of sequences, fields and experts, on random shapes: attention over fields, transformer blocks over padded
histories, target attention, recurrent cells, gates over experts, products of pairs, co-actions, and a history's best places. Each is written
with primitives; every score of every backend, with folds and fuses on and off and without the form's pass, against these primitives in
float64 numpy. Each form must have been found in each of its plans. Compressed interactions have cin_test.py, one user's rows user_once_test.py.
Planted and found here: rows of a block of Recurrent in the batch's order (tests/mutants/cpu/recurrent_order), 13 of 480 loads.

  python3 tests/e2e/random/forms_test.py build/release                              the models of CI
  python3 tests/e2e/random/forms_test.py build/release --first 1000 --count 50     more, so many of each form
"""

import itertools
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "weights" / "python"), str(ROOT / "tests" / "parity")]

from dpi_export import Builder, Rows  # noqa: E402
from dpi_export.ops.executor import Executor  # noqa: E402
from engine import Engine, EngineError  # noqa: E402

import seeds  # noqa: E402

CI_MODELS = 3 if seeds.full() else 2  # of each form
LOGIT, VALUE = 1e-5, 1e-6  # contracts: of max(1, |logit|), and of a probability
VOCABULARY = 11
#: Form -> (what its plan says or has, the pass that debug.skip names). A difference whose weights are the larger ones is not spread.
FORMS = {"fields": ("note: attention: ", "attention"), "block": ("note: positions: ", "attention"), "target": (" pieces: | keeps its difference", "merge"),
         "cells": (" Recurrent ", "elementwise"), "experts": ("note: mixtures: ", "mixture"), "pairs": ("note: pairs: ", "tail"),
         "co_action": ("note: co-action: ", "lookup"), "best_places": (" TopK ", "elementwise")}


class Model:
    """A model of one form over drawn features and rows."""

    def __init__(self, form, seed):
        self.rng, self.b, self.columns = np.random.default_rng([seed, list(FORMS).index(form)]), Builder(form), {}
        self.n = self.one(1, 2, 7, 19)
        getattr(self, form)()
        self.rows = Rows.from_columns(self.b, self.columns)

    def one(self, *choices):
        return choices[self.rng.integers(len(choices))]

    def noise(self, *dims, scale=1.0):
        return (self.rng.normal(size=dims) * scale).astype(np.float32)

    def linear(self, x, n_in, out, bias=True):
        return self.b.linear(x, self.noise(out, n_in, scale=n_in ** -0.5), self.noise(out, scale=0.3) if bias else None)

    def field(self, dim):
        """The vector of a feature with one id a row."""
        name = f"f{len(self.columns)}"
        self.columns[name] = [int(i) for i in self.rng.integers(0, VOCABULARY, self.n)]
        self.b.categorical(name, vocab_size=VOCABULARY)
        return self.b.embed(self.b.input(name), self.b.table(f"t_{name}", self.noise(VOCABULARY, dim)))

    def history(self, dim, places):
        """(the places' vectors, which of them count); bags are empty, short, full and too long."""
        name = f"h{len(self.columns)}"
        self.columns[name] = [[int(i) for i in self.rng.integers(0, VOCABULARY, self.rng.integers(0, places + 3))] for _ in range(self.n)]
        self.b.sequence(name, vocab_size=VOCABULARY, max_len=places, pad_side=self.one("post", "pre"), missing="pad")
        ids = self.b.input(name)
        return self.b.embed(ids, self.b.table(f"t_{name}", self.noise(VOCABULARY, dim)), pooling="none"), self.b.mask(ids, "length")

    def matrix(self, fields, dim):
        return self.b.concat([self.b.reshape(self.field(dim), [1, dim]) for _ in range(fields)], axis=0)

    def end(self, x, name="ctr"):
        """A head over all numbers of x."""
        n = int(np.prod(self.b.shape(x)))
        logit = self.linear(self.b.reshape(x, [n]), n, 1)
        self.b.head(name, self.b.sigmoid(logit), logit)

    # ---- the forms

    def attend(self, x, places, dim, heads, width, mask=None, **how):
        """Self-attention [places, heads x width] of x [places, dim]."""
        b = self.b
        if self.one(True, False):
            all_three = self.linear(x, dim, 3 * heads * width)
            parts = [b.slice(all_three, i * heads * width, (i + 1) * heads * width) for i in range(3)]
        else:
            parts = [self.linear(x, dim, heads * width, bias=False) for _ in range(3)]
        q, k, v = (b.transpose(b.reshape(p, [places, heads, width]), [1, 0, 2]) for p in parts)
        weights = b.softmax(b.matmul(q, k, trans_b=True, alpha=width ** -0.5), mask, **how)
        return b.reshape(b.transpose(b.matmul(weights, v), [1, 0, 2]), [places, heads * width])

    def fields(self):
        fields, dim = self.one(4, 5, 9, 21), self.one(1, 4, 10, 17)  # of fewer than four queries the plan makes no op
        heads, width = self.one(1, 2, 3), self.one(1, 5, 8, 16)
        x = self.matrix(fields, dim)
        for _ in range(self.one(1, 2)):
            y = self.attend(x, fields, dim, heads, width)
            x, dim = self.b.relu(self.b.add(y, self.linear(x, dim, heads * width, bias=False))), heads * width
        self.end(x)

    def block(self):
        """Over a history and its target, which counts in every row; pooled over the places that count."""
        b, heads, width = self.b, self.one(1, 2, 4), self.one(16, 24, 33)
        dim, places = heads * width, self.one(5, 20, 50)
        seen, mask = self.history(dim, places)
        x = b.concat([seen, b.reshape(self.field(dim), [1, dim])], axis=0)
        counts, places = b.concat([mask, b.const(np.ones(1, np.float32))], axis=0), places + 1
        x = b.add(x, b.const(self.noise(places, dim, scale=0.1)))
        how = {"mask_mode": self.one("replace", "add", "ninf"), "value": -1e9}
        for _ in range(self.one(1, 2)):
            y = self.linear(self.attend(x, places, dim, heads, width, counts, **how), dim, dim)
            x = b.layer_norm(b.add(x, y), 1 + self.noise(dim, scale=0.1), self.noise(dim, scale=0.1))
            hidden = b.unary(self.one("relu", "gelu_erf", "silu"), self.linear(x, dim, 2 * dim))
            x = b.layer_norm(b.add(x, self.linear(hidden, 2 * dim, dim)), 1 + self.noise(dim, scale=0.1), self.noise(dim, scale=0.1))
        if self.one(True, False):
            return self.end(b.reduce("mean", x, counts, axis=0))
        self.end(b.reduce("sum", b.mul(x, b.reshape(counts, [places, 1])), axis=0))

    def target(self):
        b, dim, places = self.b, self.one(2, 8, 17), self.one(2, 6, 30)
        k, mask = self.history(dim, places)
        q = b.expand(b.reshape(self.field(dim), [1, dim]), [places, dim])
        x = b.concat([q, k, b.sub(q, k), b.mul(q, k)])
        out = self.one(5, 16)
        hidden = b.sigmoid(self.linear(x, 4 * dim, out))
        scores = b.mul(b.reshape(self.linear(hidden, out, 1), [places]), mask)
        self.end(b.matmul(b.reshape(scores, [1, places]), k))

    def cells(self):
        b, dim, places, width = self.b, self.one(2, 8, 17), self.one(1, 6, 30), self.one(1, 4, 16, 19)
        x, mask = self.history(dim, places)
        kind = self.one("gru", "aigru", "agru", "augru", "vecatt")
        att = None if kind == "gru" else b.sigmoid(b.reshape(self.linear(x, dim, 1), [places]))
        if kind == "aigru":  # attention scales what goes in
            x, kind, att = b.mul(x, b.reshape(att, [places, 1])), "gru", None
        weights = [self.noise(3 * width, n, scale=n ** -0.5) for n in (dim, width)]
        biases = [self.noise(3 * width, scale=0.2) if self.one(True, False) else None for _ in range(2)]
        self.end(b.recurrent(x, mask, *weights, *biases, att=att, kind=kind, reset=self.one("after", "before"), output=self.one("last", "all")))

    def experts(self):
        b, n_experts, width, dim = self.b, self.one(1, 2, 5), self.one(1, 8, 17), self.one(3, 8)
        x, n = b.concat([self.field(dim) for _ in range(3)]), 3 * dim

        def expert():
            return b.relu(self.linear(b.relu(self.linear(x, n, 12)), 12, width))
        experts = b.concat([b.reshape(expert(), [1, width]) for _ in range(n_experts)], axis=0)
        for task in range(self.one(1, 2, 3)):
            gate = b.reshape(b.softmax(self.linear(x, n, n_experts, bias=False)), [n_experts, 1])
            mixed = b.reduce("sum", b.mul(*((experts, gate) if self.one(True, False) else (gate, experts))), axis=0)
            self.end(b.relu(self.linear(mixed, width, 6)), f"task{task}")

    def pairs(self):
        b, fields, dim = self.b, self.one(2, 3, 9, 26), self.one(1, 4, 16, 17)
        x = self.matrix(fields, dim)
        left = self.linear(x, dim, dim, bias=False) if self.one(True, False) else x  # bilinear, or plain dots
        upper = self.one(True, False)
        picked = [i * fields + j for i in range(fields) for j in (range(i + 1, fields) if upper else range(i))]
        self.end(b.index_select(b.reshape(b.matmul(left, x, trans_b=True), [fields * fields]), picked))

    def co_action(self):
        """Weights of a small network out of a feature's row, over the powers of a history's vectors."""
        b, places, orders = self.b, self.one(1, 7, 20), self.one(1, 2, 3)
        widths = self.one([4, 3], [8, 5, 4], [16, 8, 4])
        induction = self.field(sum(a * c for a, c in zip(widths, widths[1:])) + 2)
        feed, mask = self.history(widths[0], places)
        collected, power = [], feed
        for order in range(orders):
            power = b.mul(power, feed) if order > 0 else feed
            x, at = power, 0
            for n_in, out in zip(widths, widths[1:]):
                weight = b.reshape(b.slice(induction, at, at + n_in * out), [n_in, out])
                x, at = b.unary("tanh", b.matmul(x, weight)), at + n_in * out
                collected.append(b.reshape(b.matmul(b.reshape(mask, [1, places]), x), [out]))
        self.end(b.concat([*collected, self.field(3)]))

    def best_places(self):
        """The places of a history that are most like the target, in order (search-based interest)."""
        b, dim, places = self.b, self.one(2, 8, 17), self.one(1, 6, 30)
        x, mask = self.history(dim, places)
        scores = b.reshape(b.matmul(x, b.reshape(self.field(dim), [dim, 1])), [places])
        scores = b.where(mask, scores, b.const(np.full(1, -1e9, np.float32)))
        k = int(self.rng.integers(1, places + 1))
        best = b.top_k(scores, k, largest=True)
        self.end(b.add(b.take(x, b.reshape(best, [k, 1]), axis=0), b.reshape(b.take(mask, best), [k, 1])))


class Case:
    """A model in its file, and what its scores must be."""

    def __init__(self, form, seed, folder):
        self.model, self.path = Model(form, seed), pathlib.Path(folder) / f"{form}{seed}.h5"
        self.heads = [h["name"] for h in self.model.b.heads]
        self.model.b.write(self.path, check=None)
        self.want = self._scores(np.float64)
        self.slack = [2 * np.abs(a - b).max() for a, b in zip(self._scores(np.float32), self.want)]

    def _scores(self, dtype):
        got = Executor(self.model.b, dtype).run(self.model.rows)
        return [np.stack([got[key][h] for h in self.heads], axis=1).astype(np.float64) for key in ("value", "logit")]

    def check(self, engine, options):
        """Texts of what is wrong under these options."""
        with engine.load(self.path, **options) as loaded:
            got = loaded.predict(self.model.rows, self.model.n, len(self.heads))
        for what, a, want, slack, bound in zip(("value", "logit"), got, self.want, self.slack, (VALUE, LOGIT)):
            error = np.abs(a - want)
            if not (error <= np.maximum(slack, bound * np.maximum(1, np.abs(want)))).all():
                yield f"{what}s are off by {np.nanmax(error):.2e}, NaN {np.isnan(a).sum()}"


def runs(form, devices):
    for device, fold, fuse in itertools.product(devices, ("on", "off"), ("on", "off")):
        if device in seeds.EMULATED and fold != fuse and not seeds.full():
            continue
        yield {"device": device, "debug.fold": fold, "debug.fuse": fuse}
    for device in devices:
        yield {"device": device, "debug.skip": FORMS[form][1]}
        yield {"device": device, "max_rows": "4", "determinism": "strict"}
    if "cpu" in devices:
        yield from ({"device": "cpu", "isa": isa} for isa in ("scalar", "avx2"))


def is_found(form, args, path):
    plan = subprocess.run([args.build / "bin" / "dpi", "plan", path, "--device", "cpu"], check=True, capture_output=True, text=True).stdout
    return any(text in plan for text in FORMS[form][0].split("|"))


def main():
    args = seeds.parser_of(__doc__, first=1, count=CI_MODELS).parse_args()
    engine, wrong, loads = Engine(seeds.library_of(args.build)), [], 0
    with tempfile.TemporaryDirectory() as folder:
        for form, seed in itertools.product(FORMS, range(args.first, args.first + args.count)):
            case = Case(form, seed, folder)
            if not is_found(form, args, case.path):
                wrong.append(f"{form} {seed}: the plan has no '{FORMS[form][0].strip()}'")
            for options in runs(form, args.devices.split(",")):
                loads += 1
                try:
                    texts = list(case.check(engine, options))
                except EngineError as error:
                    texts = [str(error)]
                wrong += [f"{form} {seed}, {' '.join(f'{k}={v}' for k, v in options.items())}: {t}" for t in texts]
            case.path.unlink()
    print("\n".join(wrong[:16] + [f"{args.count} models of each of {len(FORMS)} forms, {loads} loads: {len(wrong)} things wrong"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
