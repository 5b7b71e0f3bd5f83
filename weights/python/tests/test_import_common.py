"""The importers' parts that need neither library: rows, records of what was used, formulas, golden bundles of the parity suite."""

from pathlib import Path

import numpy as np
import pytest

import dpi_export
from dpi_export import Builder, Bundle, Executor, Rows, UnsupportedModelError
from dpi_export.importers import ctr_blocks
from dpi_export.bundle.golden import compare_golden
from dpi_export.importers.common import ImportContext, check_ids
from dpi_export.padding import random_bags, strip_padding

GOLDEN = sorted((Path(__file__).resolve().parents[3] / "tests" / "e2e" / "golden").glob("*.h5"))


def test_package_needs_no_torch():
    import subprocess
    import sys

    code = "import sys; sys.modules['torch'] = None; import dpi_export; dpi_export.from_fuxictr; dpi_export.from_deepctr_torch"
    folder = str(Path(dpi_export.__file__).resolve().parents[1])
    subprocess.run([sys.executable, "-c", f"import sys; sys.path.insert(0, {folder!r}); {code}"], check=True)


def test_strip_padding_keeps_inner_zeros():
    ids = np.array([[0, 0, 0], [5, 0, 0], [5, 0, 6], [0, 7, 0]])
    assert strip_padding(ids) == [[], [5], [5, 0, 6], [0, 7]]
    assert strip_padding(ids, side="pre") == [[], [5, 0, 0], [5, 0, 6], [7, 0]]


@pytest.mark.parametrize("bad, text", [([1.5], "whole numbers"), ([float("nan")], "whole numbers"), ([-1], "outside 0..4"),
                                       ([5], "outside 0..4")])
def test_check_ids_refuses(bad, text):
    with np.errstate(invalid="ignore"), pytest.raises(ValueError, match=text):
        check_ids(np.array(bad), "f", 5)


def test_random_bags_hold_empty_full_and_padded():
    bags = random_bags(np.random.default_rng(0), 40, 5, 9)
    lengths = (bags != 0).sum(axis=1)
    assert lengths[0] == 0 and lengths[1] == 5 and len(set(lengths)) > 2
    pre = random_bags(np.random.default_rng(0), 40, 5, 9, "pre")
    assert strip_padding(pre, side="pre") == strip_padding(bags)


class _Model:
    """What ImportContext asks of a model."""

    def named_modules(self, remove_duplicate=True):
        return iter(())


def _context(dim):
    b = Builder("m")
    b.dense("x", dim)
    return ImportContext(_Model(), b), b, b.input("x")


def _run(b, value, x):
    b.head("h", b.reduce("sum", value, keepdim=True) if b.shape(value) != (1,) else value, activation="identity")
    return Executor(b).run(Rows(dense=x))["value"]["h"]


def test_fm_is_the_sum_over_pairs():
    x = np.random.default_rng(1).standard_normal((7, 15)).astype(np.float32)
    ctx, b, value = _context(15)
    e = x.reshape(7, 5, 3).astype(np.float64)
    want = sum((e[:, i] * e[:, j]).sum(axis=1) for i in range(5) for j in range(i))
    assert np.abs(_run(b, ctr_blocks.fm(ctx, value, 5), x) - want).max() <= 1e-12


def test_cross_nets_follow_their_formulas():
    rng = np.random.default_rng(2)
    x = rng.standard_normal((6, 4)).astype(np.float32)
    x0 = x.astype(np.float64)

    def weights(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    vector = [(weights(1, 4), weights(4)) for _ in range(3)]
    want = x0
    for w, bias in vector:
        want = want + x0 * (want @ w[0].astype(np.float64))[:, None] + bias
    ctx, b, value = _context(4)
    assert np.abs(_run(b, ctr_blocks.cross_vector(ctx, vector, value), x) - want.sum(axis=1)).max() <= 1e-10

    matrix = [(weights(4, 4), weights(4)) for _ in range(3)]
    want = x0
    for w, bias in matrix:
        want = want + x0 * (want @ w.T.astype(np.float64) + bias)
    ctx, b, value = _context(4)
    assert np.abs(_run(b, ctr_blocks.cross_matrix(ctx, matrix, value), x) - want.sum(axis=1)).max() <= 1e-10


@pytest.mark.parametrize("experts", [1, 3])
def test_cross_mixture_follows_its_formula(experts):
    rng = np.random.default_rng(3)
    x = rng.standard_normal((6, 4)).astype(np.float32)
    x0 = x.astype(np.float64)

    def weights(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    gate = weights(experts, 4)
    layers = [(weights(experts, 4, 2), weights(experts, 4, 2), weights(experts, 2, 2), weights(4)) for _ in range(2)]
    want = x0
    for u, v, c, bias in layers:
        score = np.exp(want @ gate.T.astype(np.float64))
        score /= score.sum(axis=1, keepdims=True)
        mixed = 0
        for e in range(experts):
            low = np.tanh(np.tanh(want @ v[e].astype(np.float64)) @ c[e].T.astype(np.float64))
            mixed = mixed + score[:, e:e + 1] * x0 * (low @ u[e].T.astype(np.float64) + bias)
        want = want + mixed
    ctx, b, value = _context(4)
    assert np.abs(_run(b, ctr_blocks.cross_mixture(ctx, layers, gate, value), x) - want.sum(axis=1)).max() <= 1e-10


def test_unknown_classes_are_named():
    torch = pytest.importorskip("torch")

    class Other(torch.nn.Module):
        pass

    from types import SimpleNamespace

    with pytest.raises(UnsupportedModelError, match="Other"):
        dpi_export.from_deepctr_torch(Other(), "unused.h5")
    with pytest.raises(UnsupportedModelError, match="Other"):
        dpi_export.from_fuxictr(Other(), SimpleNamespace(features={}), "unused.h5")


def test_golden_bundles_are_there():
    assert len(GOLDEN) >= 24 and sum(p.stat().st_size for p in GOLDEN) < 1_500_000


@pytest.mark.parametrize("path", GOLDEN, ids=lambda p: p.stem)
def test_golden_bundle_computes_what_the_library_did(path):
    with Bundle(str(path)) as bundle:
        bundle.verify_digests()
        report = compare_golden(bundle)
        assert report["failures"] == [] and report["rows"] >= 9
        assert report["tolerance"] == 1e-5 or bundle.tables[0]["dtype"] == "i8"
        for worst in report["heads"].values():
            assert set(worst) == {"value", "logit"}
            assert all(w <= report["tolerance"] for w in worst.values())
