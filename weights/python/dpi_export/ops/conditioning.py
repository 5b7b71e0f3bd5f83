"""How far float32 can take each golden row from its exact score: the tolerance of a row follows from the row."""

import numpy as np

from . import numpy_ops
from .executor import Executor, _Context
from .jumps import decides

_RUNS = 6
_MARGIN = 4.0  #: over the largest of _RUNS random errors
_ROUNDING = 2.0**-24
#: Ops that add many products up: each of them is rounded. The others round their result only, or nothing.
_SUMS = {"Embed", "Linear", "MatMul", "LayerNorm", "Softmax", "Reduce", "Recurrent", "Attention"}
_EXACT = {"Input", "Const", "Mask", "Concat", "View", "Where", "Gather"}


class _Rounded(Executor):
    """float64, and every float32 rounding put in by chance: up or down, as large as it can be."""

    def __init__(self, model, rng, exact):
        super().__init__(model)
        self.rng, self.exact = rng, exact

    def _value(self, op, inputs, n_rows, batch):
        if decides(op):  # a rounding by chance must not change that: it is taken from the exact run
            return self.exact[op["name"]]
        if op["op"] == "Gather":  # nor may it change what is picked
            inputs = [inputs[0], np.broadcast_to(self._exactly(op["in"][1], inputs[1]), inputs[1].shape)]
        counts = all(_is_whole(self.exact.get(name)) for name in (op["name"], *op.get("in", [])))
        if op["op"] in _SUMS and not counts:
            inputs = [self._round(x) for x in inputs]
        value = numpy_ops.run(op, inputs, n_rows, _Context(self, batch))
        return value if counts or op["op"] in _EXACT else self._round(value)

    def _exactly(self, name, rounded):
        """The value of an op in the exact run, where its rows are those of the rounded one (a shared value is repeated for its rows)."""
        value = self.exact[name]
        return value if len(value) == len(rounded) else rounded

    def _round(self, x):
        if not isinstance(x, np.ndarray):
            return x
        return x * (1 + _ROUNDING * (2.0 * self.rng.integers(0, 2, x.shape) - 1))


def _is_whole(x):
    """Whole numbers of whole numbers, as masks and counts are, come out of float32 as they are."""
    return isinstance(x, np.ndarray) and bool((np.abs(x) <= 2.0**24).all()) and bool((x == np.rint(x)).all())


def row_tolerances(errors, golden, least):
    """Tolerances of golden.relative_error as Builder.golden takes them: `least`, or {"value", "logit"} where a row needs more. errors:
    {"value", "logit"} [rows, heads], golden the scores they are of."""
    own = {key: np.fmax(least, errors[key] / np.maximum(1, np.abs(want))) for key, want in golden.items() if want is not None}
    return own if any((t > least).any() for t in own.values()) else least


def rounding_errors(model, rows):
    """{"value", "logit"}: [rows, heads], the error |x - exact| to be expected of float32, with a margin; NaN where a head has no
    logit."""
    exact = Executor(model).run(rows, keep=True)
    rng, worst = np.random.default_rng(0), {"value": 0.0, "logit": 0.0}
    for _ in range(_RUNS):
        run = _Rounded(model, rng, exact["ops"]).run(rows, keep=True)
        for key in worst:
            with np.errstate(invalid="ignore"):
                worst[key] = np.maximum(worst[key], np.abs(_stacked(model, run[key]) - _stacked(model, exact[key])))
    return {key: _MARGIN * e for key, e in worst.items()}


def _stacked(model, by_head):
    """[rows, heads]; NaN where a head has none."""
    n = len(next(iter(by_head.values()))) if by_head else 0
    return np.stack([by_head.get(h["name"], np.full(n, np.nan)) for h in model.heads], axis=1)
