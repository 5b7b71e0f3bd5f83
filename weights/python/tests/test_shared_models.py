"""from_torch on models that share weights, and on recurrent layers of every kind (shared_models.py): each is exact.

The oracle is a float64 copy of the model, made by copy.deepcopy and called here. tests/parity/torch2.py runs the same models with a newer
torch, through both front ends.
"""

import copy
import pathlib
import sys
from unittest import mock

import numpy as np
import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import shared_models  # noqa: E402
from dpi_export import Bundle, Executor, Rows, from_torch  # noqa: E402
from dpi_export.library_run import run_library  # noqa: E402


def rows_of(n, seed):
    """{feature: ids} of n rows."""
    rng = np.random.default_rng(seed)
    return {"user": rng.integers(0, 17, n), "item": rng.integers(0, 17, n), "seen": rng.integers(0, 17, (n, 3)), "bought": rng.integers(0, 17, (n, 5))}


def said(model, rows, dtype=torch.float64):
    """[rows] of a copy of the model in a type; .float() means that type."""
    with torch.no_grad(), mock.patch.object(torch.Tensor, "float", lambda t: t.to(dtype)):
        return copy.deepcopy(model).to(dtype)(*(torch.from_numpy(v) for v in rows.values())).double().numpy()[:, 0]


def worst(path, model, n, seed):
    """The largest error of a logit relative to max(1, |logit|)."""
    rows = rows_of(n, seed)
    want = said(model, rows)
    with Bundle(path) as bundle:
        columns = {f["name"]: rows[f["name"]].tolist() for f in bundle.features}
        got = Executor(bundle).run(Rows.from_columns(bundle, columns))["value"]["ctr"]
    z, exact = (np.log(p) - np.log1p(-p) for p in (got, want))
    return float((np.abs(z - exact) / np.maximum(1, np.abs(exact))).max())


@pytest.mark.parametrize("name", shared_models.MODELS)
def test_exact(name, tmp_path):
    model, example, features = shared_models.make(name)
    from_torch(model, tmp_path / "m.h5", features=features, example=example)
    assert max(worst(tmp_path / "m.h5", model, n, seed) for n, seed in ((1, 5), (64, 6))) <= 1e-6


def state(model):
    """Every tensor of the model with the places that hold it, and its bits."""
    held = [(m, key, t) for m in model.modules() for part in (m._parameters, m._buffers) for key, t in part.items() if t is not None]
    held += [(m, "_flat_weights", t) for m in model.modules() for t in vars(m).get("_flat_weights", ())]
    return [(id(m), key, id(t), t.dtype, t.detach().numpy().tobytes()) for m, key, t in held]


@pytest.mark.parametrize("name", [*shared_models.SHARED, "lstm", "gru_both_ways, shared", "rnncell, shared"])
def test_runs_in_float64_and_is_left_as_it_was(name):
    """What an import is compared with: the model in float64, whatever shares its weights. Also when the model's own code fails."""
    model, _, _ = shared_models.make(name)
    rows, before = rows_of(9, 3), state(model)
    tensors = [torch.from_numpy(v) for v in rows.values()]
    if name != "half_table":  # which computes in float32
        got = run_library(model, lambda call: call(*tensors), torch.float64)
        assert got.dtype == torch.float64
        np.testing.assert_allclose(got.numpy()[:, 0], said(model, rows), rtol=0, atol=1e-14)
    single = run_library(model, lambda call: call(*tensors), torch.float32)
    np.testing.assert_allclose(single.numpy()[:, 0], said(model, rows, torch.float32), rtol=0, atol=1e-7)
    with pytest.raises(RuntimeError, match="own code"):
        run_library(model, _fails, torch.float64)
    assert state(model) == before


def _fails(_call):
    raise RuntimeError("own code")


def test_a_weight_that_is_not_shared_shows(tmp_path):
    """test_exact can fail: a tie that is cut after the export is seen."""
    model, example, features = shared_models.make("tied_output")
    from_torch(model, tmp_path / "m.h5", features=features, example=example)
    model.last.weight = torch.nn.Parameter(model.last.weight.detach() + 1e-3)
    assert worst(tmp_path / "m.h5", model, 64, 6) > 1e-5


def test_shared_tables_are_one_in_the_bundle(tmp_path):
    for name, count in (("one_table", 1), ("table_in_every_part", 1), ("lstm", 2), ("lstm, shared", 1)):
        model, example, features = shared_models.make(name)
        from_torch(model, tmp_path / "m.h5", features=features, example=example)
        with Bundle(tmp_path / "m.h5") as bundle:
            assert sum(table["dim"] == shared_models.DIM for table in bundle.tables) == count, name
        (tmp_path / "m.h5").unlink()
