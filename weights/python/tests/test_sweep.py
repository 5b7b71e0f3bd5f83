"""from_torch on one operator at a time (sweep_operators.py) and on models that surprise (sweep_traps*.py): each bundle scores what the model itself
does, or the model is refused with words that name the cure.

The rows compared are fresh ones, with numbers at and beside 0, integers and halves, empty bags and the ends of the vocabularies. The oracle is the
model in float64; where numbers decide, in float32."""

import copy
import pathlib
import sys
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from dpi_export import Bundle, Executor, Rows, UnsupportedModelError, from_torch  # noqa: E402
from dpi_export.trace.features import Inputs  # noqa: E402
import sweep_traps_forms  # noqa: E402, F401  (they enter their traps)
import sweep_traps_rows  # noqa: E402, F401
from sweep_operators import OPERATORS, REFUSED  # noqa: E402
from sweep_traps import TRAPS, Body  # noqa: E402
from torch import nn  # noqa: E402

EDGES = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 1.5, 2.5, 10.0, -10.0, 19.999998, 20.0, 70.0, 99.0, 3.0, 1e-7, -1e-7, 30.0, -30.0)
FEATURES = {"x": {}, "h": {"vocab_size": 30, "kind": "sequence"}, "c": {"vocab_size": 20}, "a": {}}
RANDOM = 40  #: random rows in front of those of EDGES


class Model(nn.Module):
    """A line of sweep_operators.py between the inputs and one score."""

    def __init__(self, line):
        super().__init__()
        torch.manual_seed(3)
        self.table, self.out = nn.Embedding(30, 8), nn.Linear(1, 1)
        self.w, self.v, self.g = (nn.Parameter(torch.randn(*dims)) for dims in ((8, 8), (8,), (4, 8)))
        module, _, function = line.rpartition(" | ") if line.startswith("nn.") else ("", "", line)
        self.m = eval(module, {"nn": nn}) if module else None  # noqa: S307  (a line of this folder)
        self.code = compile(function, line, "eval")

    def forward(self, x, h, c, a):
        """[rows, 1]"""
        names = {"x": x, "e": self.table(h), "m": self.m, "w": self.w, "v": self.v, "g": self.g, "h": h, "c": c, "a": a}
        y = eval(self.code, {"torch": torch, "nn": nn, "F": nn.functional, **names})  # noqa: S307
        y = (y[0] if isinstance(y, tuple) else y).to(x.dtype)
        y = y.flatten(1) if y.dim() > 1 else y[:, None]
        return self.out((y * torch.linspace(0.5, 1.5, y.shape[1], dtype=x.dtype)).sum(1, keepdim=True))


def some(seed, n):
    """Random rows, with bags of every length."""
    g = torch.Generator().manual_seed(seed)
    h = torch.randint(1, 30, (n, 4), generator=g) * (torch.arange(4) < torch.arange(n).remainder(5)[:, None])
    return {"x": torch.randn(n, 8, generator=g) * 1.5, "h": h, "c": torch.randint(0, 20, (n,), generator=g),
            "a": torch.rand(n, 1, generator=g) * 100}


def fresh():
    """Other rows than those exported with: an edge in every number, then in some."""
    rows = some(5, RANDOM + 2 * len(EDGES))
    for i, edge in enumerate(EDGES):
        rows["x"][RANDOM + i], rows["a"][RANDOM + i] = edge, edge
        rows["x"][RANDOM + len(EDGES) + i][torch.rand(8) < 0.4] = edge
    rows["c"][:2], rows["h"][0] = torch.tensor([0, 19]), 29
    return rows


def scores(model, rows, dtype):
    """[rows] of the model itself."""
    model = copy.deepcopy(model).to(dtype)
    with torch.no_grad():
        return model(**{key: t.to(dtype) if t.is_floating_point() else t.clone() for key, t in rows.items()}).double().numpy()[:, 0]


def worst(model, path):
    """The largest error, 1 where it is as large as it may be: 1e-5 from float64, 1e-4 from float32, relative to max(1, |score|)."""
    example = some(1, 6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from_torch(model, path, features=FEATURES, example={key: t.clone() for key, t in example.items()})
    rows = fresh()
    single = scores(model, rows, torch.float32)
    try:
        double = scores(model, rows, torch.float64)
    except RuntimeError:  # the model holds on to float32
        double = single
    with Bundle(path) as bundle:
        inputs = Inputs(model, example, FEATURES)
        inputs.read_only({f["name"] for f in bundle.features})
        got = Executor(bundle).run(Rows.from_columns(bundle, inputs.columns(rows)))["value"]["ctr"]
    size = np.maximum(1, np.abs(double))
    error = np.minimum(np.abs(got - double) / size / 1e-5, np.abs(got - single) / size / 1e-4)
    error[(got == single) | (got == double) | np.isnan(single)] = 0  # for what the model calls NaN the bundle may say anything
    assert np.isfinite(single[:RANDOM]).all() and single[:RANDOM].std() > 0
    return np.where(np.isnan(error), np.inf, error).max()


@pytest.mark.parametrize("line", OPERATORS)
def test_an_operator_scores_as_the_model(line, tmp_path):
    assert worst(Model(line).eval(), tmp_path / "m.h5") <= 1


@pytest.mark.parametrize("line", REFUSED)
def test_a_refused_operator_has_its_cure(line, tmp_path):
    with pytest.raises(UnsupportedModelError) as e:
        worst(Model(line).eval(), tmp_path / "m.h5")
    assert REFUSED[line] in str(e.value)


@pytest.mark.parametrize("name", TRAPS)
def test_a_trap_scores_as_the_model_or_is_refused(name, tmp_path):
    body, words = TRAPS[name]
    if words is None:
        assert worst(Body(body).eval(), tmp_path / "m.h5") <= 1
        return
    with pytest.raises(UnsupportedModelError) as e:
        worst(Body(body).eval(), tmp_path / "m.h5")
    assert words in str(e.value)


def test_few_are_refused():
    assert len(OPERATORS) >= 203 and len(TRAPS) >= 85 and len(REFUSED) + sum(words is not None for _, words in TRAPS.values()) <= 60


def test_another_score_shows(tmp_path):
    """A bundle whose model was changed after the export is told from it."""
    class Spoilt(Model):
        """Another score from the second call of scores() on."""

        spoil = 0.0

        def forward(self, x, h, c, a):
            """[rows, 1]"""
            return super().forward(x, h, c, a) + self.spoil

    model = Spoilt("torch.tanh(x)").eval()
    assert worst(model, tmp_path / "m.h5") <= 1
    real = globals()["from_torch"]
    try:
        globals()["from_torch"] = lambda *args, **keys: (real(*args, **keys), setattr(model, "spoil", 1e-3))
        assert worst(model, tmp_path / "m.h5") > 1
    finally:
        globals()["from_torch"] = real
