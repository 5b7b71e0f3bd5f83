"""from_onnx on random small graphs: what it carries over is what the operators mean in float64 numpy, and what mixes rows is refused.

tests/parity/keras_onnx.sh runs thousands of these graphs, and holds the oracle (onnx_numpy.py) to ONNX Runtime.
"""

import pathlib
import sys

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import onnx_numpy  # noqa: E402
import onnx_random  # noqa: E402
from dpi_export import Executor, Rows, UnsupportedModelError, from_onnx  # noqa: E402
from dpi_export.onnx import ops_axis, ops_table  # noqa: E402
from dpi_export.importers.onnx_import import OnnxImport, Source  # noqa: E402
from program import DEVICES, agrees  # noqa: E402

OPSETS = (11, 12, 13, 14, 16, 17, 18, 21)
CASES = [(seed, OPSETS[seed % len(OPSETS)]) for seed in range(120)]


def error_of(seed, opset):
    """The largest error of the import's float64 scores on other rows; None where the importer refuses."""
    model, mixes = onnx_random.make(seed, opset)
    rows = onnx_random.sample(np.random.default_rng(seed), 7)
    (want,) = onnx_numpy.run(model, rows).values()
    try:
        imported = OnnxImport(Source(model), {"features": onnx_random.FEATURES})
        imported.build()
    except UnsupportedModelError as e:
        assert mixes or "there is no primitive" in str(e), e
        return None
    assert not mixes, "a graph that mixes rows was carried over"
    got = Executor(imported.b).run(Rows.from_columns(imported.b, imported.columns(rows)))["value"]["ctr"][:, None]
    error = np.abs(got - want) / np.maximum(1, np.abs(want))
    assert error.shape == (7, 1) and np.isfinite(error).all()
    return error.max()


@pytest.mark.parametrize("seed, opset", CASES)
def test_a_random_graph_is_exact_or_refused(seed, opset):
    error = error_of(seed, opset)
    assert error is None or error <= 1e-5


def test_most_random_graphs_are_carried_over():
    assert sum(error_of(seed, opset) is not None for seed, opset in CASES[:60]) >= 48


@pytest.mark.parametrize("op, wrong", [
    ("Softmax", lambda op, x: x.softmax(-1)), ("Gemm", lambda op, a, b, c=None: ops_axis.gemm(op, a, b, c) * 1.01),
    ("Slice", lambda op, x, *rest: x), ("LeakyRelu", lambda op, x: x.relu())])
def test_a_misread_operator_shows(op, wrong, monkeypatch):
    """A planted fault: some of the graphs that hold the operator are off."""
    monkeypatch.setitem(ops_table.TABLE, op, wrong)
    found = False
    for seed, opset in CASES:
        if any(node.op_type == op for node in onnx_random.make(seed, opset)[0].graph.node):
            try:
                found = (error_of(seed, opset) or 0) > 1e-5
            except (AssertionError, RuntimeError, ValueError):
                found = True
            if found:
                break
    assert found


@pytest.mark.parametrize("seed, opset", [case for case in CASES[:24] if not onnx_random.make(*case)[1]])
def test_the_engine_agrees(seed, opset, tmp_path):
    """`dpi verify` on each device: the golden rows hold the float32 scores of the graph."""
    model, _ = onnx_random.make(seed, opset)
    try:
        from_onnx(model, tmp_path / "m.h5", features=onnx_random.FEATURES, rows=onnx_random.sample(np.random.default_rng(seed), 33))
    except UnsupportedModelError as e:
        assert "there is no primitive" in str(e)
        return
    for device in DEVICES:
        agrees(tmp_path / "m.h5", device)
