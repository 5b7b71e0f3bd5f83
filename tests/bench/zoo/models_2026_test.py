"""The models of mixers.py and streams.py, narrow: PyTorch in float64, the formulas in numpy, and the engine on every device say the same score.

Wants a release build of the Python package and of cuda_emu: DPI_PYTHON (default: build/release/python)."""

import os
import pathlib
import sys

import numpy as np
import pytest

pytest.importorskip("torch")
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
PACKAGE = pathlib.Path(os.environ.get("DPI_PYTHON", ROOT / "build/release/python")).resolve()
sys.path[:0] = [str(PACKAGE), str(ROOT / "weights/python"), str(HERE)]

import dpi  # noqa: E402
import engines  # noqa: E402
import float64_2026  # noqa: E402
import inputs  # noqa: E402
import streams  # noqa: E402

DEVICES = ("ref", "cpu", "cuda_emu")
COUNTS = (2, 12, 3)  #: rows of each user
BACKENDS = str(PACKAGE.parent / "lib/dpi/backends-1")
inputs.small_tables()


def of_device(path, device, name, rows):
    """{who: scores} of the rows as they are and, of a model with a shared part, of users with several rows each."""
    with dpi.Model(path, device=device, max_contexts=1, max_rows=64, options={"backend_dir": BACKENDS}) as model:
        ids, dense, offsets = inputs.flat(name, rows)
        found = {device: model.predict(ids, dense, offsets=offsets)}
        if name in streams.MODELS:
            ids, users, bags, first = inputs.of_users(rows, COUNTS)
            found[f"{device}, users"] = model.predict(ids, shared=dpi.Shared(first, users, bag_offsets=bags), rows=len(ids))
    return {who: scores[:, 0].astype(np.float64) for who, scores in found.items()}


def drawn(name):
    """17 rows of 3 users; the first has no history."""
    rows = inputs.rows(name, sum(COUNTS), np.random.default_rng(4), "uniform")
    if "history" in rows:
        user = np.repeat(np.concatenate([[0], np.cumsum(COUNTS)[:-1]]), COUNTS)
        rows["fields"][:, :streams.USER], rows["history"] = rows["fields"][user, :streams.USER], rows["history"][user]
        rows["history"][:COUNTS[0]] = 0
    return rows


def exact(model, rows, spoiled=0.0):
    """PyTorch's scores in float64, and how far numpy's are from them."""
    want, held = engines.float64(model, rows), {name: value.numpy() for name, value in model.state_dict().items()}
    last = list(held)[-1]
    held[last] = held[last] + np.float32(spoiled)
    return want, np.abs(float64_2026.score(model.name, held, rows) - want).max()


def made(name):
    model = inputs.made(name)
    model.name = name
    return model


@pytest.mark.parametrize("name", float64_2026.MODELS)
def test_every_device_says_the_papers_score(name, tmp_path):
    model, rows, path = made(name), drawn(name), tmp_path / f"{name}.h5"
    want, error = exact(model, rows)
    assert error <= 1e-12 and want.std() > 0.02
    inputs.export(name, model, path)
    found = {who: np.abs(scores - want).max() for device in DEVICES for who, scores in of_device(path, device, name, rows).items()}
    assert all(error <= 1e-6 for error in found.values()), found


@pytest.mark.parametrize("name", ["rankmixer_top", "mtgr"])
def test_another_weight_shows(name):
    assert exact(made(name), drawn(name), spoiled=1e-3)[1] > 1e-6


def test_the_gate_matters():
    """A third expert, or one only, is another score: the rows decide between experts."""
    model, rows = made("rankmixer_top"), drawn("rankmixer_top")
    want = engines.float64(model, rows)
    for top in (1, 3):
        for layer in model.layers:
            layer["ffn"].top = top
        assert np.abs(engines.float64(model, rows) - want).max() > 1e-3
