#!/usr/bin/env python3
"""Compressed interactions (xDeepFM) of random shapes through the library: every score of every backend, with folds and fuses on and off and
without the op, against the layers' formula in float64 numpy; under determinism=strict rows alone and backwards must have the bits that they
have in the batch (on ref and cpu also without it).

  python3 tests/e2e/random/cin_test.py build/release                              the models of CI
  python3 tests/e2e/random/cin_test.py build/release --first 1000 --count 300    more
"""

import itertools
import pathlib
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "weights" / "python"), str(ROOT / "tests" / "parity")]

from dpi_export import Builder, Rows  # noqa: E402
from engine import Engine, EngineError  # noqa: E402

import seeds  # noqa: E402

CI_MODELS = 12 if seeds.full() else 6
LOGIT = 1e-5  # contracts: of max(1, |logit|)
LAYER = {"relu": lambda x: np.maximum(x, 0), "identity": lambda x: x, "tanh": np.tanh}


class Case:
    """One model: its bundle, ids, and the logits by the formula."""

    def __init__(self, seed, folder):
        rng = np.random.default_rng(seed)
        self.fields, self.dim = int(rng.integers(1, 22)), int(rng.choice([1, 4, 8, 10, 16, 17, 33]))
        self.maps = [int(n) for n in rng.integers(1, 19, rng.integers(1, 4))]
        self.act, self.maps_first, self.bias = str(rng.choice(list(LAYER))), rng.integers(2) == 1, rng.integers(3) > 0
        self.ids = rng.integers(0, 9, (int(rng.choice([1, 2, 3, 7, 29])), self.fields))
        self.b, self.path, x, ops = Builder("cin"), pathlib.Path(folder) / f"cin{seed}.h5", [], []
        for i in range(self.fields):
            values = rng.normal(size=(9, self.dim)).astype(np.float32)
            self.b.categorical(f"c{i}", vocab_size=9)
            ops.append(self.b.embed(self.b.input(f"c{i}"), self.b.table(f"t{i}", values)))
            x.append(values.astype(np.float64)[self.ids[:, i]])
        x0 = np.stack(x, 1)
        self.want = self._model(rng, self.b.concat(ops), x0)
        self.b.write(self.path, check=None)

    def _layer(self, rng, e0, e, x0, x, maps):
        """The layer as an op and its values [rows, maps, dim]."""
        n, b = x.shape[1], self.b
        sides = ((e, n), (e0, self.fields)) if self.maps_first else ((e0, self.fields), (e, n))
        z = b.mul(b.reshape(sides[0][0], [sides[0][1], 1, self.dim]), b.reshape(sides[1][0], [1, sides[1][1], self.dim]))
        w = (rng.normal(size=(maps, self.fields * n)) / np.sqrt(self.fields * n)).astype(np.float32)
        bias = (rng.normal(size=maps) * 0.3).astype(np.float32) if self.bias else None
        y = b.linear(b.reshape(z, [self.fields * n, self.dim]), w, bias, axis="field")
        cube = w.astype(np.float64).reshape(maps, sides[0][1], sides[1][1])
        left, right = (x, x0) if self.maps_first else (x0, x)
        value = np.zeros((len(x0), maps, self.dim))
        for o, i, j in itertools.product(range(maps), range(sides[0][1]), range(sides[1][1])):
            value[:, o] += cube[o, i, j] * left[:, i] * right[:, j]
        value += 0 if bias is None else bias.astype(np.float64)[:, None]
        return (y if self.act == "identity" else b.unary(self.act, y)), LAYER[self.act](value)

    def _model(self, rng, e0, x0):
        e, x, pooled, sums = e0, x0, [], []
        for maps in self.maps:
            e, x = self._layer(rng, e0, e, x0, x, maps)
            pooled.append(self.b.reduce("sum", e, axis=-1))
            sums.append(x.sum(2))
        v = rng.normal(size=(1, sum(self.maps))).astype(np.float32) * np.float32(0.3)
        logit = self.b.linear(self.b.concat(pooled), v)
        self.b.head("ctr", self.b.unary("sigmoid", logit), logit)
        return np.concatenate(sums, 1) @ v[0].astype(np.float64)

    def rows(self, which):
        return Rows.from_columns(self.b, {f"c{i}": [int(v) for v in self.ids[which, i]] for i in range(self.fields)})

    def check(self, engine, options):
        """Texts of what is wrong under these options."""
        n = len(self.ids)
        with engine.load(self.path, **options) as model:
            values, logits = model.predict(self.rows(np.arange(n)), n)
            error = np.abs(logits[:, 0] - self.want) / np.maximum(1, np.abs(self.want))
            if not (error <= LOGIT).all():
                yield f"logits are off by {error}"
            if not np.allclose(values[:, 0], 1 / (1 + np.exp(-self.want)), rtol=0, atol=1e-6):
                yield "scores are not the sigmoids of the logits"
            if options["device"] == "cuda_emu" and "determinism" not in options:
                return
            again = model.predict(self.rows(np.arange(n)[::-1]), n)[1][::-1]
            alone = np.concatenate([model.predict(self.rows(np.array([r])), 1)[1] for r in range(n)])
            for what, other in (("backwards", again), ("alone", alone)):
                if other.tobytes() != logits.tobytes():
                    yield f"{np.sum(other != logits)} rows have other bits {what}"


def runs(devices):
    for device, fold, fuse in itertools.product(devices, ("on", "off"), ("on", "off")):
        if device in seeds.EMULATED and fold != fuse and not seeds.full():
            continue
        yield {"device": device, "debug.fold": fold, "debug.fuse": fuse, "determinism": "strict"}
    for device in devices:
        yield {"device": device, "debug.skip": "cin"}
        yield {"device": device, "max_rows": "4"}
    if "cpu" in devices:
        yield from ({"device": "cpu", "isa": isa} for isa in ("scalar", "avx2"))


def main():
    args = seeds.parser_of(__doc__, first=1, count=CI_MODELS).parse_args()
    engine, wrong, loads = Engine(seeds.library_of(args.build)), [], 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(args.first, args.first + args.count):
            case = Case(seed, folder)
            for options in runs(args.devices.split(",")):
                loads += 1
                try:
                    texts = list(case.check(engine, options))
                except EngineError as error:
                    texts = [str(error)]
                wrong += [f"model {seed}, {' '.join(f'{k}={v}' for k, v in options.items())}: {t}" for t in texts]
    print("\n".join(wrong[:12] + [f"{args.count} models, {loads} loads: {len(wrong)} things wrong"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
