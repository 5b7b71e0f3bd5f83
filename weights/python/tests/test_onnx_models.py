"""from_onnx on models as people write them, exported by torch.onnx at several opsets: exact on other rows, in numpy and in the engine.

The oracle is the torch model that the file was made of, in float64: it knows nothing of ONNX.
"""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnx")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import onnx_models  # noqa: E402
from dpi_export import Bundle, Executor, Rows, UnsupportedModelError, from_onnx  # noqa: E402
from dpi_export.onnx_import import OnnxImport, Source  # noqa: E402

#: Models that no bundle holds, by what the refusal says; those that torch.onnx itself does not export, or only for one number of rows.
REFUSED = {"top_k": r"layer 'TopK'.*topk", "recurrent": r"node 'gru/GRU' \(GRU\)", "dot_interaction": "Loop|Slice"}
NOT_EXPORTED = {"bags"}
ROWS_FIXED = {"experts", "autoint"}
NEEDS_12 = {"cross_vector", "compressed", "padded", "experts", "autoint"}
UNDEFINED = {"target_attention", "sequential"}
EXACT = [name for name in onnx_models.MODELS if name not in {*REFUSED, *NOT_EXPORTED, *ROWS_FIXED}]
CASES = [(name, opset) for name in EXACT for opset in (11, 13, 16) if opset > 11 or name not in NEEDS_12]
pytestmark = pytest.mark.filterwarnings("ignore:.*output is NaN")


def exported(name, opset, path, n=0):
    """(torch model, example, args, the import's own view of the rows) of a bundle written to `path`, with n golden rows."""
    model, example, features, args = onnx_models.make(name)
    data = onnx_models.export(model, example, args, opset)
    view = OnnxImport(Source(data), {"features": features})
    rows = view.random_rows(np.random.default_rng(5), n) if n else None
    from_onnx(data, path, features=features, rows=rows)
    return model, example, args, view


def worst(path, model, example, args, view, rows):
    """The largest error of a logit relative to max(1, |logit|); rows that the model has no score for are not counted."""
    want = onnx_models.scores(model, example, args, rows)
    with Bundle(path) as bundle:
        view.inputs.read_only({f["name"] for f in bundle.features})
        run = Executor(bundle).run(Rows.from_columns(bundle, view.columns(rows)))["value"]
        got = np.stack([run[head["name"]] for head in bundle.heads], 1)
    known = ~np.isnan(want)
    assert got.shape == want.shape and known.mean() > 0.5 and np.isfinite(got).all()
    logit, exact = (np.log(p[known]) - np.log1p(-p[known]) for p in (got, want))
    error = np.abs(logit - exact) / np.maximum(1, np.abs(exact))
    assert np.isfinite(error).all()
    return error.max(), known.all()


@pytest.mark.parametrize("name, opset", CASES)
def test_exact(name, opset, tmp_path):
    model, example, args, view = exported(name, opset, tmp_path / "m.h5")
    for seed, n in ((1, 5), (2, 64)):
        error, all_known = worst(tmp_path / "m.h5", model, example, args, view, view.random_rows(np.random.default_rng(seed), n))
        assert error <= 1e-6 and (all_known or name in UNDEFINED)


def engine():
    """The program dpi: DPI_PROGRAM, or that of the release build."""
    build = os.environ.get("BUILD") or pathlib.Path(__file__).resolve().parents[3] / "build"
    program = pathlib.Path(os.environ.get("DPI_PROGRAM") or pathlib.Path(build) / "release" / "bin" / "dpi")
    if not program.exists():
        pytest.skip(f"there is no {program}: build the program dpi, or set DPI_PROGRAM")
    return program


@pytest.mark.parametrize("name", EXACT)
def test_the_engine_agrees(name, tmp_path):
    """`dpi verify` recomputes the golden rows, which hold the scores of the graph in float32, on both CPU backends."""
    program = engine()
    exported(name, 13, tmp_path / "m.h5", 40)
    for device in ("ref", "cpu"):
        done = subprocess.run([program, "verify", tmp_path / "m.h5", "--device", device], capture_output=True, text=True, check=False)
        assert done.returncode == 0 and "agree" in done.stdout, done.stdout + done.stderr
