"""Operators that are carried over by a formula, by steps or by index: the bundle beside the model in float64, and in float32 on numbers at
which a rounding turns over."""

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from dpi_export import Bundle, Executor, Rows, UnsupportedModelError, from_torch  # noqa: E402

nn, F = torch.nn, torch.nn.functional
#: integers, halves, their neighbours, and numbers of every size
EDGES = np.concatenate([np.arange(-9, 9.5, 0.5), np.nextafter(np.arange(-4, 5, dtype=np.float32), np.float32(9)),
                        np.nextafter(np.arange(-4, 5, dtype=np.float32) + 0.5, np.float32(-9)), [1e-8, -1e-8, 1e-4, 30, -30]]).astype(np.float32)


def matrix(x):
    return torch.einsum("bi,bj->bij", x, x * 0.5 + 1)


FUNCTIONS = {
    "logit": lambda x: torch.logit(torch.sigmoid(x / 4)), "logit, eps": lambda x: torch.logit(torch.sigmoid(x), eps=1e-3),
    "logit, method": lambda x: torch.sigmoid(x / 4).logit(), "erf": torch.erf, "erf, method": lambda x: x.erf(), "erfc": torch.erfc,
    "exp2": lambda x: torch.exp2(x / 4), "atan": torch.atan, "arctan": torch.arctan, "asin": lambda x: torch.asin(torch.tanh(x / 4)),
    "acos": lambda x: torch.acos(torch.tanh(x / 4)), "tan": lambda x: torch.tan(torch.tanh(x)), "sinh": lambda x: torch.sinh(x / 9),
    "cosh": lambda x: torch.cosh(x / 9), "asinh": torch.asinh, "acosh": lambda x: torch.acosh(x.abs() + 1.5),
    "atanh": lambda x: torch.atanh(torch.tanh(x / 9)), "deg2rad": torch.deg2rad, "rad2deg": lambda x: torch.rad2deg(x / 90),
    "addcdiv": lambda x: torch.addcdiv(x, x, x.abs() + 1, value=0.5), "addcdiv, method": lambda x: x.addcdiv(x.sin(), x.abs() + 1),
    "var_mean": lambda x: torch.stack(torch.var_mean(x / 9, 1), 1), "std_mean": lambda x: torch.cat(torch.std_mean(x / 9, dim=1, keepdim=True), 1),
    "var_mean, biased": lambda x: torch.stack(torch.var_mean(x / 9, dim=1, unbiased=False), 1),
    "prod": lambda x: torch.tanh(x).prod(1), "prod, a kept dim": lambda x: torch.prod(torch.cos(matrix(x)), dim=1, keepdim=True),
    "cumprod": lambda x: (1 - torch.sigmoid(x)).cumprod(1), "cumprod, dim 1 of 3": lambda x: torch.cumprod(torch.cos(matrix(x)), 1),
    "diagonal": lambda x: torch.diagonal(matrix(x), dim1=1, dim2=2), "diagonal, offset": lambda x: matrix(x).diagonal(1, -2, -1),
    "diagonal below": lambda x: matrix(x)[:, :4].diagonal(-2, 2, 1), "trace": lambda x: torch.einsum("bii->b", matrix(x)),
    "unfold": lambda x: x.unfold(1, 3, 2), "unfold, 3 dims": lambda x: matrix(x).unfold(1, 2, 1).sin(),
    "logaddexp": lambda x: torch.logaddexp(x, -x), "hypot": lambda x: torch.hypot(x, x + 1), "count_nonzero": lambda x: torch.count_nonzero(x > 1, 1),
    "hardshrink": lambda x: F.hardshrink(x, 0.4), "hardshrink, a layer": lambda x: nn.Hardshrink(2.5)(x), "threshold": lambda x: F.threshold(x, 0.1, -2.0),
    "threshold, a layer": lambda x: nn.Threshold(-1.5, 20)(x),
    "avg_pool1d": lambda x: F.avg_pool1d(matrix(x), 2), "avg_pool1d, padded": lambda x: F.avg_pool1d(matrix(x), 3, 2, 1),
    "avg_pool1d, padding not counted": lambda x: F.avg_pool1d(matrix(x), 3, 2, 1, count_include_pad=False),
    "avg_pool1d, ceil": lambda x: nn.AvgPool1d(4, 3, ceil_mode=True)(matrix(x)), "avg_pool2d": lambda x: F.avg_pool2d(matrix(x)[:, None], 2),
    "avg_pool2d, unequal": lambda x: nn.AvgPool2d((3, 2), stride=(2, 1), padding=(1, 0))(matrix(x)[:, None]),
    "adaptive_avg_pool1d": lambda x: nn.AdaptiveAvgPool1d(4)(matrix(x)), "adaptive_avg_pool2d": lambda x: nn.AdaptiveAvgPool2d((2, 3))(matrix(x)[:, None]),
    "adaptive_avg_pool2d, one dim": lambda x: nn.AdaptiveAvgPool2d((None, 3))(matrix(x)[:, None]),
}
WHOLE = {
    "round": lambda x: torch.round(x.clamp(-5, 7)), "round, method": lambda x: x.clamp(-5.25, 7.75).round(), "ceil": lambda x: torch.ceil(x.clamp(-5, 7)),
    "ceil of fractions": lambda x: x.clamp(-5.25, 7.75).ceil(), "floor": lambda x: torch.floor(x.clamp(-5, 7)),
    "floor of fractions": lambda x: x.clamp(-5.25, 7.75).floor(), "trunc": lambda x: torch.trunc(x.clamp(-5.25, 7.75)),
    "a cast, then a clamp": lambda x: x.long().clamp(-3, 3), "a clamp, then a cast": lambda x: x.clamp(-5.5, -2.5).int(),
    "a clamp of both signs, then a cast": lambda x: x.clamp(-4.5, 2.5).long(), "a floor, then a clamp": lambda x: x.floor().clamp(-3, 3),
    "a floor, negative": lambda x: x.floor().clamp(-6, -2), "a cast, negative": lambda x: x.long().clamp(-6, -2),
    "rows of a table": lambda x: torch.arange(40.0, device=x.device).to(x.dtype).sin()[x.clamp(-5, 7).round().long() + 8],
}


class Of(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        y = self.function(x)
        y = y.reshape(len(x), -1) if y.is_floating_point() else y.reshape(len(x), -1).to(x.dtype)
        return (y * torch.linspace(0.5, 1.5, y.size(1)).to(y.dtype)).sum(1)


def both(function, path, dtype):
    """(the model's scores, the bundle's) of rows with all edges."""
    model = Of(function).eval()
    from_torch(model, path, example={"x": torch.randn(4, 6)}, features={"x": {"kind": "dense"}})
    rng = np.random.default_rng(2)
    rows = np.concatenate([rng.choice(EDGES, (96, 6)), rng.normal(0, 3, (32, 6)).astype(np.float32)])
    with torch.no_grad():
        want = copy.deepcopy(model).to(dtype)(torch.from_numpy(rows).to(dtype)).double().numpy()
    with Bundle(path) as bundle:
        return want, Executor(bundle).run(Rows.from_columns(bundle, {"x": rows}))["value"]["ctr"]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_formulas(name, tmp_path):
    want, got = both(FUNCTIONS[name], tmp_path / "m.h5", torch.float64)
    assert np.isfinite(want).all() and np.all(np.abs(got - want) <= 2e-6 * np.maximum(1, np.abs(want)))


@pytest.mark.parametrize("name", WHOLE)
def test_whole_numbers(name, tmp_path):
    want, got = both(WHOLE[name], tmp_path / "m.h5", torch.float32)
    assert np.all(np.abs(got - want) <= 2e-6 * np.maximum(1, np.abs(want)))


class OfIds(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.table, self.out = nn.Embedding(10, 3), nn.Linear(3, 1)

    def forward(self, i):
        return self.out(self.table(i >> 2) * (i << 1).unsqueeze(1)).squeeze(1) + torch.bitwise_right_shift(i, 3)


def test_shifts_of_ids(tmp_path):
    model, ids = OfIds().eval(), torch.arange(40)
    from_torch(model, tmp_path / "m.h5", example={"i": ids}, features={"i": {"vocab_size": 40}})
    with torch.no_grad(), Bundle(tmp_path / "m.h5") as bundle:
        got = Executor(bundle).run(Rows.from_columns(bundle, {"i": ids.tolist()}))["value"]["ctr"]
        assert np.abs(got - model(ids).numpy()).max() <= 1e-5


REFUSED = {"round of any size": (torch.round, "aten.round.*clamp them between two numbers"), "ceil of any size": (torch.ceil, "aten.ceil.*clamp them"),
           "round to decimals": (lambda x: torch.round(x.clamp(0, 1), decimals=2), "multiply, round and divide"),
           "prod over rows": (lambda x: x.prod(0) + x, "number of rows"), "diagonal over rows": (lambda x: torch.diagonal(x, dim1=0, dim2=1)[:1] + x, "rows"),
           "pooling by a divisor": (lambda x: F.avg_pool2d(matrix(x)[:, None], 2, divisor_override=3), "aten.avg_pool2d"),
           "a maximum of nothing": (lambda x: matrix(x).masked_fill((x > 0)[:, :, None], float("-inf")).max(1).values.sum(1), "such as -1e9"),
           "a score of minus infinity": (lambda x: torch.log(F.relu(x - 1e9)), r"'s own (logit|output) of row \d+ is \[-inf\].*clamp")}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_a_cure(name, tmp_path):
    function, text = REFUSED[name]
    with pytest.raises(UnsupportedModelError, match=text):
        both(function, tmp_path / "m.h5", torch.float32)
