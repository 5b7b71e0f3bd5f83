"""Activations that are written as several ops, through the engine: infinities, NaN, zeros and the borders of each, against torch.

The rows are those of weights/python/tests/test_activations.py. `run_all(engine, devices)` yields (name, problem).
"""

import importlib.util
import tempfile
from pathlib import Path

import numpy as np
from dpi_export import Rows

_FILE = Path(__file__).resolve().parents[2] / "weights" / "python" / "tests" / "test_activations.py"


def _same_rows():
    spec = importlib.util.spec_from_file_location("activation_rows", _FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_all(engine, devices):
    """Every layer of the test on every device."""
    rows = _same_rows()
    for module in rows.EXPORTED if engine else []:
        over, under = rows.inputs(module)
        b, want = rows.build(module, over.shape[1]), rows.torch_says(module, over, under)
        given = Rows(dense=np.concatenate([over, under], axis=1))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "edges.h5"
            b.write(path)
            for device in devices:
                with engine.load(path, device=device, nonfinite="return") as model:
                    yield f"{module}, {device}", _difference(model.predict(given, len(over))[0][:, 0], want, module)


def _difference(got, want, module):
    want = want.astype(np.float32).astype(np.float64)  # what float32 cannot hold is infinite
    if not np.array_equal(np.isnan(got), np.isnan(want)):
        return f"NaN at {np.argwhere(np.isnan(got) != np.isnan(want)).tolist()}"
    finite = np.isfinite(want)
    if not np.array_equal(got[~finite & ~np.isnan(want)], want[~finite & ~np.isnan(want)]):
        return "infinities differ"
    got, want = got[finite], want[finite]
    error = np.abs(got - want) / np.maximum(max(1.0, getattr(module, "alpha", 1.0)), np.abs(want))
    return "" if (error <= 5e-7).all() else f"worst difference {error.max():.2e} at {want[error.argmax()]!r}"
