"""Arithmetic ahead of a comparison, a bucket, a floor, an integer cast: the bundle decides as torch's float32 does, on each edge and one place
beside it, on every device. The expressions are random; the thresholds are torch's own results, so rows lie on them."""

import pathlib
import subprocess
import sys
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from dpi_export import Bundle, UnsupportedModelError, from_onnx, from_torch  # noqa: E402
from dpi_export.importers import run as import_run  # noqa: E402
from program import DEVICES, environment, program  # noqa: E402
from torch import nn  # noqa: E402

NAMES = ("x", "y", "n")
OURS = ".*(golden rows|decides by)"
FEATURES = {"x": {"kind": "numeric"}, "y": {"kind": "numeric"}, "n": {"kind": "numeric"}}


#: True where torch's roots are the nearest float32, as the engine's are; with MKL they are not.
EXACT_ROOTS = np.array_equal(torch.arange(1.0, 4097.0).sqrt().numpy(), np.sqrt(np.arange(1, 4097, dtype=np.float32)))


class Expressions(nn.Module):
    """A score for each text, over the inputs x, y (float32), n (int64) and the buffers t (float32), d (float64), b (boundaries)."""

    def __init__(self, texts, t=0.0, b=(0.0,)):
        super().__init__()
        self.code = [compile(text, text, "eval") for text in texts]
        self.register_buffer("t", torch.tensor([float(t)]))
        self.register_buffer("d", torch.tensor([float(t)], dtype=torch.float64))
        self.register_buffer("b", torch.tensor([float(v) for v in b]))

    def forward(self, x, y, n):
        """[rows, texts]"""
        held = {"x": x, "y": y, "n": n, "t": self.t, "d": self.d, "b": self.b, "torch": torch}
        return torch.stack([eval(c, held).float() for c in self.code], 1)  # noqa: S307


def expression(rng, depth):
    """A random text of float32 arithmetic."""
    if depth == 0:
        return str(rng.choice(["x", "x", "y", "n.float()", "(x > 50)", "(n / 7.3)"]))
    e, c = expression(rng, depth - 1), float(np.round(rng.uniform(0.05, 40), rng.integers(0, 4))) or 3.0
    c = str(rng.choice([repr(c), str(int(c) + 1), f"torch.tensor({c!r})"]))
    two = expression(rng, int(rng.integers(0, depth)))
    return str(rng.choice([f"({e} + {c})", f"({e} - {c})", f"({c} - {e})", f"({e} * {c})", f"({e} / {c})", f"({e} / {c})", f"(-({e} / {c}))",
                           f"({e} * 1.0).abs(){'.sqrt()' * EXACT_ROOTS}", f"({e} / {c}) ** 2", f"({e} / {c} + {two})", f"({e} / {c} - {two} * 0.1)",
                           f"({e} * 0.1 * {two})", f"({e} / (y + {two} * 0.0 + 1.5))", f"({c} / (({e}) * 0.01 + 77.7))",
                           f"({e} * 1.0).clamp(-70.5, 900.25)", f"torch.maximum({e} / {c}, y * 0.3)"]))


def edge_jumps(e, onnx):
    """Texts that decide by e, with thresholds t and boundaries b."""
    texts = [f"({e} {sign} {t})" for sign in (">=", ">", "<", "<=", "==", "!=") for t in ("t", "float(t)") if not (onnx and t == "float(t)")]
    texts += [f"torch.sign({e} - t)", f"({e} - t).bool()", f"torch.where({e} > t, 1.0, 2.0)", f"torch.stack([{e}, t + x * 0], 1).argmax(1)",
              f"torch.stack([t + x * 0, {e}], 1).max(1)[1]", f"torch.floor(({e} / t).clamp(0, 200))", f"({e} / t).clamp(0, 200).long()",
              f"((({e} / t).clamp(0, 200).long() * 7 + 3) % 11)", f"torch.sign({e} / 3 - t / 3)"]
    return texts if onnx else texts + [f"torch.bucketize({e}, b)", f"torch.bucketize({e}, b, right=True)", f"({e} >= d)", f"({e} < d)",
                                       f"torch.trunc(({e} / t).clamp(0, 200))", f"torch.searchsorted(b, {e})"]


def numbers(rng, n=24):
    """{input: tensor}: whole numbers, decimals, and places beside them."""
    x = np.concatenate([rng.integers(0, 101, n), rng.integers(0, 1000, n) / 10, 10.0 ** rng.integers(-3, 7, n)]).astype(np.float32)
    x = np.concatenate([x, np.nextafter(x, np.float32(np.inf)), np.nextafter(x, np.float32(-1))])
    y = (rng.integers(1, 40, len(x) // 3) / 8).astype(np.float32)
    whole = rng.integers(1, 90, len(x) // 3)
    return {"x": torch.from_numpy(x), "y": torch.from_numpy(np.tile(y, 3)), "n": torch.from_numpy(np.tile(whole, 3))}


def at(text, rows):
    """What torch makes of a text."""
    return Expressions([text])(**rows)[:, 0].numpy()


def scores(path, rows, device, tmp_path):
    """[rows, heads] of the engine, from text."""
    csv = "\n".join(["x,y,n", *(f"{float(x):.9g},{float(y):.9g},{int(n)}" for x, y, n in zip(*(rows[k] for k in NAMES)))])
    (tmp_path / "rows.csv").write_text(csv)
    with Bundle(path) as bundle:
        read = [f["name"] for f in bundle.features]
    lines = [",".join(c for c, name in zip(line.split(","), NAMES) if name in read) for line in csv.splitlines()]
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    done = subprocess.run([program(), "predict", path, tmp_path / "rows.csv", "--device", device], capture_output=True, text=True, check=False,
                          env=environment(device))
    assert done.returncode == 0, done.stdout + done.stderr
    return np.array([[float(c) for c in line.split(",")] for line in done.stdout.splitlines()[1:]])


def decided_alike(make, rows, model, texts, tmp_path, judged=True):
    """Every device gives torch's bits for every row that is judged."""
    want = model(**rows).numpy()
    for device in DEVICES:
        got = scores(make, rows, device, tmp_path)
        bad = ~(got == want) & judged
        assert not bad.any(), [(device, texts[k], {n: float(v[r]) for n, v in rows.items()}, got[r, k], want[r, k])
                               for r, k in np.argwhere(bad)[:3]]


def drawn(seed, onnx=False):
    """(model, rows, texts): a random expression before every kind of decision."""
    rng = np.random.default_rng(seed)
    rows = numbers(rng)
    e = expression(rng, int(rng.integers(1, 5)))
    value = at(e, rows)
    usable = np.unique(value[np.isfinite(value) & (np.abs(value) > 1e-3) & (np.abs(value) < 1e6)])
    t = float(rng.choice(usable))
    texts = edge_jumps(e, onnx)
    return Expressions(texts, t, np.unique(rng.choice(usable, 9))).eval(), rows, texts


@pytest.mark.parametrize("seed", range(24))
def test_random_arithmetic_ahead_of_a_jump(seed, tmp_path):
    """from_torch, then the engine."""
    model, rows, texts = drawn(seed)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.filterwarnings("error", message=OURS)  # nothing is loosened, nothing is close
        from_torch(model, tmp_path / "m.h5", features=FEATURES, example=rows)
        decided_alike(tmp_path / "m.h5", rows, model, texts, tmp_path)


@pytest.mark.parametrize("seed", range(100, 108))
def test_random_arithmetic_through_onnx(seed, tmp_path):
    """from_onnx, then the engine."""
    onnx = pytest.importorskip("onnx")
    model, rows, texts = drawn(seed, onnx=True)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, tuple(rows[k] for k in NAMES), str(tmp_path / "m.onnx"), input_names=list(NAMES), output_names=["s"],
                          dynamic_axes={k: {0: "rows"} for k in (*NAMES, "s")}, opset_version=14)
        read = [i.name for i in onnx.load(str(tmp_path / "m.onnx")).graph.input]
        from_onnx(str(tmp_path / "m.onnx"), tmp_path / "m.h5", features={k: FEATURES[k] for k in read}, rows={k: rows[k].numpy() for k in read})
        decided_alike(tmp_path / "m.h5", rows, model, texts, tmp_path)


FUNCTIONS = ("torch.log10({})", "torch.log2({})", "torch.log({})", "torch.log1p({})", "(torch.log10({} / 10) * 2 + 1)", "torch.sqrt({})",
             "torch.exp(-{} / 1000)", "torch.sigmoid({} / 100 - 3)", "torch.tanh({} / 50)", "(1 / ({} + 0.1))", "(2 ** ({} / 1e5))")


def function_jumps(e):
    """Texts that decide by e behind a function, with thresholds t and boundaries b."""
    return [f"({e} {sign} t)" for sign in (">=", ">", "<", "<=", "==", "!=")] + [
        f"torch.floor({e}).clamp(0, 40)", f"{e}.clamp(0, 40).long()", f"torch.bucketize({e}, b)", f"torch.bucketize({e}, b, right=True)",
        f"({e} >= 1)", f"({e} < 3)", f"(1 - {e} / 7 <= 0)"]


def settled(x, value, model):
    """[rows, 1] False for rows on an edge where torch's function is not monotone: then no threshold of x decides as torch does. With AVX-512,
    PyTorch 2's sigmoid has other last bits in whole vectors than behind them; elsewhere every row is settled."""
    order = np.argsort(x, kind="stable")
    steps = np.diff(value[order].astype(np.float64))
    if (steps >= 0).all() or (steps <= 0).all():
        return np.ones((len(x), 1), bool)
    answers = []
    for to in (np.inf, -np.inf):
        moved = value.copy()
        for _ in range(3):
            moved = np.nextafter(moved, np.float32(to))
            answers.append(model(torch.from_numpy(moved), torch.ones(len(x)), torch.ones(len(x))).numpy())
    here = model(torch.from_numpy(value), torch.ones(len(x)), torch.ones(len(x))).numpy()
    return np.all([(a == here).all(axis=1) for a in answers], axis=0)[:, None]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_jump_behind_a_function(function, tmp_path):
    """Decades, powers and integers fall where torch has them."""
    decades = np.array([10.0**k for k in range(-3, 7)] + [2.0**k for k in range(17)] + [3, 50, 777.7], np.float32)
    x = np.concatenate([decades, np.nextafter(decades, np.float32(np.inf)), np.nextafter(decades, np.float32(0))])
    rows = {"x": torch.from_numpy(x), "y": torch.ones(len(x)), "n": torch.ones(len(x), dtype=torch.int64)}
    e, value = function.format("x.clamp(min=0.0005)"), at(function.format("x.clamp(min=0.0005)"), rows)
    t = float(value[5])
    texts, edges = function_jumps(e), (t, np.unique(value[::4]))
    model = Expressions(texts, *edges).eval()
    judged = settled(x, value, Expressions(function_jumps("x"), *edges))
    assert judged.any()
    with torch.no_grad():
        from_torch(model, tmp_path / "m.h5", features=FEATURES, example=rows)
        decided_alike(tmp_path / "m.h5", rows, model, texts, tmp_path, judged)


def test_float64_ahead_of_a_jump_is_refused(tmp_path):
    """A bundle has no float64."""
    rows = numbers(np.random.default_rng(0))
    with pytest.raises(UnsupportedModelError, match=r"float64.*\.float\(\)"):
        from_torch(Expressions(["(x.double() / 100 >= 0.2)"]), tmp_path / "m.h5", features=FEATURES, example=rows)


def test_the_margin_behind_a_sum_is_reported(tmp_path):
    """A mean of floats that lies on its threshold: the row and the op are named, in the warning and in the bundle."""
    class Mean(nn.Module):
        def forward(self, v):
            """Whether the mean reaches 0.3."""
            return (v.mean(1) >= 0.3).float()

    near, far = torch.full((4, 7), 0.3) + torch.tensor([[1e-7], [1.0], [2.0], [3.0]]), torch.rand(4, 7) + 1
    with pytest.warns(UserWarning, match="decides by a sum.*row 0"):
        from_torch(Mean(), tmp_path / "near.h5", features={"v": {}}, example=near)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=OURS)
        from_torch(Mean(), tmp_path / "far.h5", features={"v": {}}, example=far)
    with Bundle(tmp_path / "far.h5") as bundle:
        assert 0.5 < bundle.manifest["provenance"]["smallest_margin"]["margin"] < 0.9


def test_rows_on_an_edge_keep_a_tight_tolerance(tmp_path):
    """float64 decides otherwise there, which is no reason to believe any score."""
    rows = {"x": torch.arange(101.0), "y": torch.ones(101), "n": torch.ones(101, dtype=torch.int64)}
    from_torch(Expressions(["torch.bucketize((x - 38.6) / 14.0, b)"], b=(np.arange(10, 100, 10, np.float32) - np.float32(38.6)) / np.float32(14)),
               tmp_path / "m.h5", features=FEATURES, example=rows)
    with Bundle(tmp_path / "m.h5") as bundle:
        held = bundle.golden["tolerances"]
        assert held is None or max(float(np.nanmax(t)) for t in held.values()) < 1e-3


def _reciprocal(lower_math, lower, v, by):
    return lower_math.scaled(lower, v, 1.0 / by, 0.0)


def _affine(lower_math, lower, v, scale, shift):
    return lower_math.Floats(lower.g.affine(v.op, scale, shift), v.dims)


@pytest.mark.parametrize("name, planted, texts", [
    ("divided", _reciprocal, [f"(x / 100 >= {t})" for t in (0.07, 0.14, 0.28, 0.29, 0.55, 0.56, 0.57)]),
    ("scaled", _affine, ["((x * 0.1 + 0.7) >= 1.0)", "((x * 0.1 + 0.7) > 2.2)", "((x * 0.3 - 0.9) >= 0.0)"])])
def test_a_planted_fold_is_found(name, planted, texts, monkeypatch, tmp_path):
    """x / c as x * (1 / c), and a scale and a shift as one affine map: the export's own check meets the edges and writes nothing."""
    from dpi_export.trace import lower_math

    rows = {"x": torch.rand(16) * 3, "y": torch.ones(16), "n": torch.ones(16, dtype=torch.int64)}  # none of them on an edge
    model = Expressions(texts).eval()
    from_torch(model, tmp_path / "well.h5", features=FEATURES, example=rows)
    monkeypatch.setattr(lower_math, name, lambda *args: planted(lower_math, *args))
    with pytest.raises(UnsupportedModelError, match="edge|decide"):
        from_torch(model, tmp_path / "m.h5", features=FEATURES, example=rows)
    assert not (tmp_path / "m.h5").exists()


@pytest.mark.parametrize("text, rows", [
    ("(x / y * 10).long().clamp(0, 9)", {"x": [1, 0, 5, 3], "y": [0, 0, 7, 2]}), ("(x ** 10).long().clamp(0, 9)", {"x": [1.2, 80, 90, 1e30]}),
    ("torch.exp(x).long().clamp(0, 9)", {"x": [1, 43.6, 43.7, 89]}), ("(x * y).int().clamp(0, 9).long()", {"x": [1e4, 1, 3e9], "y": [1e6, 2, 1]}),
    ("(x / y * 10).long().clamp(-5, 9)", {"x": [1, 0, -5, 3], "y": [0, 0, 7, 2]}),
    ("(x / 7).long().clamp(2, 9)", {"x": [9.3e18 * 7, -9.3e18 * 7, 1e30, 20]}), ("torch.floor(torch.exp(x)).clamp(0, 9)", {"x": [1, 89, 2, 0]})])
def test_what_no_integer_holds(text, rows, tmp_path):
    """Infinities, NaN and numbers beyond the type become the smallest integer in torch; floor leaves them what they are."""
    n = max(map(len, rows.values()))
    held = {"x": torch.ones(n), "y": torch.ones(n), "n": torch.ones(n, dtype=torch.int64)}
    ordinary = {**held, "x": torch.arange(1.0, n + 1)}
    held.update({key: torch.tensor(values, dtype=torch.float32) for key, values in rows.items()})
    model = Expressions([text]).eval()
    with torch.no_grad():
        from_torch(model, tmp_path / "m.h5", features=FEATURES, example=ordinary)
        decided_alike(tmp_path / "m.h5", held, model, [text], tmp_path)


@pytest.mark.parametrize("mean, std, spread", [(2012.0, 7.0, 12), (1.7e9, 86400.0, 200000), (1e6, 10.0, 30)])
@pytest.mark.parametrize("text", ["(x - {mean}) / {std}", "(x - {mean}) * (1 / {std})", "(x - {mean}) * 0.5 * (2 / {std})", "({mean} - x) / {std}"])
def test_a_shift_ahead_of_a_scale_keeps_its_digits(text, mean, std, spread, tmp_path):
    """Standardisation inside a model: the difference is small and exact, and x / std - mean / std has none of its digits."""
    text = text.format(mean=mean, std=std)
    x = torch.from_numpy((mean + np.random.default_rng(3).integers(-spread, spread, 60)).astype(np.float32))
    rows = {"x": x, "y": torch.ones(60), "n": torch.ones(60, dtype=torch.int64)}
    model = Expressions([text]).eval()
    with torch.no_grad():
        from_torch(model, tmp_path / "m.h5", features=FEATURES, example={**rows, "x": torch.rand(60)})
        for device in DEVICES:
            got, want = scores(tmp_path / "m.h5", rows, device, tmp_path), model(**rows).numpy()
            assert np.allclose(got, want, rtol=1e-6, atol=1e-6), (device, np.abs(got - want).max())


class LanesApart:
    """A library that rounds x up in whole vectors of 16 and down behind them, ahead of a comparison with 1."""

    def select(self, rows, keep):
        """Some of the rows."""
        return rows[keep]

    def run(self, rows):
        """(value, logit) [rows, 1]"""
        whole = np.arange(len(rows)) < len(rows) // 16 * 16
        over = (rows >= np.where(whole, 1, 1 + 1e-7)).astype(np.float64)[:, None]
        return over, over


def test_rows_on_which_the_library_differs_from_itself_are_not_held_against_the_import():
    """Only where the import gives one of its answers, and only where it has two."""
    rows = np.array([1.0, 1.0, 2.0, 0.5])
    want = LanesApart().run(rows)[1]
    assert want.ravel().tolist() == [0, 0, 1, 0]
    assert import_run._torn(LanesApart(), rows, np.array([[1.0], [0], [1], [0]]), want).tolist() == [True, False, False, False]
    assert not import_run._torn(LanesApart(), rows, np.array([[3.0], [0], [0], [1]]), want).any()
