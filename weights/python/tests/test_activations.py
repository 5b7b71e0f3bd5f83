"""Activations made of several ops against torch's float64 layers: ends, zeros, infinities, NaN, every attribute."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
nn = torch.nn

from dpi_export import Builder, Executor, Rows, UnsupportedModelError  # noqa: E402
from dpi_export.importers.common import ImportContext  # noqa: E402
from dpi_export.importers.torch_modules import sequential  # noqa: E402

#: Quotients, because a feature takes neither infinities nor NaN: 0/0 is NaN, x/0 is infinite.
EDGES = [(0, 0), (1, 0), (-1, 0)] + [(sign * x, 1) for x in (0.0, 1e-30, 1e-5, 2.9999998, 3, 3.0000002, 6, 30, 700, 1e30)
                                     for sign in (1, -1)]


def inputs(module):
    """Numerators and denominators [rows, units]: the edges, the layer's own borders and numbers around them, random ones. One unit,
    two where the layer halves them."""
    borders = [getattr(module, key) for key in ("lambd", "alpha", "lower", "upper") if hasattr(module, key)]
    near = [sign * np.nextafter(np.float32(b), np.float32(to)) for b in borders for sign in (1, -1) for to in (b, -9e9, 9e9)]
    some = np.random.default_rng(5).standard_normal(100) * 4
    pairs = np.array(EDGES + [(x, 1) for x in (*near, *some)], np.float32)
    if isinstance(module, nn.GLU):
        pairs = np.concatenate([np.stack([pairs, np.roll(pairs, k, axis=0)], axis=1) for k in range(len(EDGES))])
        return pairs[:, :, 0], pairs[:, :, 1]
    return pairs[:, :1], pairs[:, 1:]


def build(module, width):
    """A Builder of over / under, then the layer, then one head."""
    b = Builder("m")
    b.dense("over", width), b.dense("under", width)
    model = nn.ModuleDict({"net": nn.Sequential(module)})
    ctx = ImportContext(model, b)
    ctx.take(model)
    out = sequential(ctx, model["net"], b.div(b.input("over"), b.input("under")), "mlp")
    ctx.check_leftovers()
    if b.shape(out) == (1,):
        b.head("h", out, activation="identity")
    return b


def torch_says(module, over, under):
    """The layer's own output [rows], in float64 and evaluation mode."""
    with np.errstate(all="ignore"), torch.no_grad():
        x = over.astype(np.float64) / under
        want = module.eval()(torch.from_numpy(x)).numpy()[:, 0].copy()
    if isinstance(module, nn.Softshrink):
        want[np.isnan(x[:, 0])] = np.nan  # releases of torch before 2.6 say 0
    return want


EXPORTED = [nn.Hardswish(), nn.Softsign(), nn.Tanhshrink(), nn.Hardsigmoid(), nn.Mish(), nn.LogSigmoid(), nn.GLU(), nn.GLU(dim=1),
            *(nn.CELU(a) for a in (1.0, 0.7, 2.5, 1e-3, 1e3, 1e-30)), *(nn.Softshrink(a) for a in (0.5, 0.0, 1.25, 1e-5, 30.0)),
            nn.RReLU(), nn.RReLU(0.1, 0.4), nn.RReLU(-0.5, 0.25), nn.RReLU(0, 0), nn.RReLU(0.3, 0.3), nn.RReLU(0.1, 0.4, inplace=True)]


@pytest.mark.parametrize("module", EXPORTED, ids=str)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_equals_torch(module):
    over, under = inputs(module)
    b, want = build(module, over.shape[1]), torch_says(module, over, under)
    got = Executor(b).run(Rows(dense=np.concatenate([over, under], axis=1)))["value"]["h"]
    assert got.shape == want.shape and np.isnan(want[0])
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    finite = np.isfinite(want)
    assert finite.sum() > 100
    np.testing.assert_array_equal(got[~finite], want[~finite])
    got, want = got[finite], want[finite]
    lost = 2e-16 * max(1.0, getattr(module, "alpha", 0.0))  # torch's CELU takes 1 from exp(x / alpha), and loses what is below
    assert (np.abs(got - want) <= lost + 4e-15 * np.abs(want)).all()


@pytest.mark.parametrize("training", [True, False])
def test_random_slopes_of_training_are_left_out(training):
    module = nn.RReLU(0.1, 0.7).train(training)
    b = build(module, 1)
    assert [op["attrs"] for op in b.ops if op["op"] == "Unary"] == [{"kind": "leaky", "a": pytest.approx(0.4, abs=1e-16)}]
    assert module.training == training


def _changed(module, **attributes):
    for key, value in attributes.items():
        setattr(module, key, value)
    return module


NOT_EXACT = [(nn.CELU(-1.0), "alpha=-1"), (nn.CELU(1e-39), "alpha=1e-39"), (nn.CELU(float("inf")), "alpha=inf"),
             (nn.CELU(float("nan")), "alpha=nan"), (_changed(nn.Softshrink(), lambd=-0.5), "lambd=-0.5"),
             (_changed(nn.Softshrink(), lambd=float("nan")), "lambd=nan"), (nn.RReLU(0, float("inf")), "upper=inf"),
             (_changed(nn.RReLU(), lower=0.9), "lower=0.9"), (nn.GLU(dim=0), "dim=0: the halves .* rows of the batch"),
             (nn.GLU(dim=-2), "dim=-2"), (nn.GLU(dim=2), "dim=2"), (nn.Sequential(nn.Linear(4, 5), nn.GLU()), "cannot halve 5"),
             (nn.Hardshrink(), "Hardshrink is not supported"), (nn.Threshold(0.1, 2), "Threshold is not supported"),
             (nn.LogSoftmax(dim=-1), "LogSoftmax is not supported"), (nn.Softmin(dim=-1), "Softmin is not supported")]


@pytest.mark.parametrize("module, text", NOT_EXACT, ids=[t for _, t in NOT_EXACT])
def test_what_is_not_exact_is_refused(module, text):
    with pytest.raises(UnsupportedModelError, match=f"layer 'net.0.*{text}"):
        build(module, 4)
