"""x // n, x % n, fmod and rounded quotients of numbers: torch's own at every multiple, on both sides of it and beside 0, or a refusal. Their
formulas divide, which rounds; products that torch adds unrounded are reported ahead of a decision."""

import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from dpi_export import Bundle, Executor, Rows, UnsupportedModelError, from_torch  # noqa: E402
from torch import nn  # noqa: E402

FORMS = ("{x} % {n}", "{x} // {n}", "torch.fmod({x}, {n})", "torch.remainder({x}, {n})", "torch.div({x}, {n}, rounding_mode='trunc')",
         "torch.div({x}, {n}, rounding_mode='floor')", "(({x} % {n}) >= {n} / 3)", "(torch.fmod({x}, {n}) < {n} / 3)")
DIVISORS = (2, 3, 5, 7, 10, 24, 60, 100, 365, 3600, 9999, 86400, 65537, 1000003, 10000001, 16777213)


class Line(nn.Module):
    """One line of x as a score."""

    def __init__(self, line):
        super().__init__()
        self.code = compile(line, line, "eval")

    def forward(self, x, y=None):
        """[rows, 1]"""
        return eval(self.code, {"torch": torch, "x": x, "y": y}).float().reshape(len(x), 1)  # noqa: S307


def scores(path, **columns):
    """[rows] of the bundle."""
    with Bundle(path) as bundle:
        return np.ravel(next(iter(Executor(bundle).run(Rows.from_columns(bundle, columns))["value"].values())))


@pytest.mark.parametrize("seed", range(24))
def test_rests_and_quotients(seed, tmp_path):
    """Rows of the export lie anywhere; those compared lie on the multiples."""
    rng = np.random.default_rng(seed)
    n, form = int(rng.choice(DIVISORS)), FORMS[seed % len(FORMS)]
    high = float(rng.choice([n * int(rng.integers(2, 40)), 1e7, 2e9]))
    low = float(rng.choice([0, -high]))
    model = Line(form.format(x=f"x.clamp({low}, {high})", n=n)).eval()
    known = torch.from_numpy(rng.uniform(low, high, (20, 1)).astype(np.float32))
    refused = None
    try:
        from_torch(model, tmp_path / "m.h5", features={"x": {"kind": "numeric"}}, example={"x": known})
    except UnsupportedModelError as e:
        refused = str(e)
    if refused is not None:
        assert "clamp them" in refused or "cuts numbers" in refused or "apart" in refused, refused
        assert high * (1 if low == 0 else n) > 1 << 24 or high / n > 100, (form, n, low, high, refused)
        return
    multiples = np.arange(low // n, high // n + 1)
    at = (rng.choice(multiples, 400) if len(multiples) > 400 else multiples) * float(n)
    at = np.concatenate([at, at + n / 3]).astype(np.float32)
    x = np.concatenate([at, np.nextafter(at, np.float32(np.inf)), np.nextafter(at, np.float32(-np.inf)), known.numpy()[:, 0]])
    want = model(torch.from_numpy(np.tile(x, 2)[:, None])).numpy()[:len(x), 0]
    assert np.abs(scores(tmp_path / "m.h5", x=x) - want).max() <= 1e-4 * max(1, np.abs(want).max())


@pytest.mark.parametrize("n,high", [(7, 133.0), (100, 9999.0), (3600, 86400.0)])
@pytest.mark.parametrize("form", FORMS)
def test_common_divisors_are_no_refusal(form, n, high, tmp_path):
    """Weekdays, hours, hundreds, on both sides of 0."""
    from_torch(Line(form.format(x=f"x.clamp({-high}, {high})", n=n)).eval(), tmp_path / "m.h5", features={"x": {"kind": "numeric"}},
               example={"x": torch.linspace(-high, high, 20)[:, None]})


@pytest.mark.parametrize("line", ["torch.add(x, y, alpha=0.3)", "torch.sub(x, y, alpha=0.7)", "torch.rsub(x, y, alpha=0.3)", "torch.hypot(x, y)",
                                  "torch.addcmul(x, x, y, value=0.3)", "torch.lerp(x, y, 0.3)", "torch.stack([x, y, x + y], 1).quantile(0.3, dim=1)"])
def test_a_product_that_is_added_unrounded_is_reported(line, tmp_path):
    """Ahead of a decision, where a row comes near the edge; with a factor of 2^k nothing is rounded, and nothing said."""
    x, y = torch.tensor([[0.1], [3.0], [0.71], [9.0]]), torch.tensor([[0.9], [4.0], [1.2], [0.1]])
    edge = float(Line(line)(x, y)[2])
    with pytest.warns(UserWarning, match="decides by a sum.*row 2"):
        from_torch(Line(f"({line} >= {edge!r})").eval(), tmp_path / "m.h5", features={"x": {"kind": "numeric"}, "y": {"kind": "numeric"}},
                   example={"x": x, "y": y})
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*decides by")
        from_torch(Line(f"(torch.add(x, y, alpha=0.5) >= {edge!r})").eval(), tmp_path / "m.h5",
                   features={"x": {"kind": "numeric"}, "y": {"kind": "numeric"}}, example={"x": x, "y": y})
