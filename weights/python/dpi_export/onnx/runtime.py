"""The file itself, run by ONNX Runtime where that is installed: another reading of every operator than the importer's own."""

import warnings

import numpy as np

from ..library_run import to_numpy
from .file import external_path


def check_with_runtime(imported, count, tolerance):
    """Refuses where ONNX Runtime gives other scores for random rows than the importer's own run of the graph does."""
    try:
        import onnxruntime
    except ImportError:
        return
    source = imported.source
    rows = imported.random_rows(np.random.default_rng(13), count)
    try:
        want = _scores(onnxruntime, source, {key: to_numpy(value) for key, value in rows.items()}, count)
    except Exception as e:  # the runtime's own classes: it may not know the opset, or an operator
        warnings.warn(f"{source.title}: ONNX Runtime {onnxruntime.__version__} does not run this file, so it was not compared with it: "
                      f"{type(e).__name__}: {str(e)[:200]}", stacklevel=5)
        return
    got, _ = imported.run(rows)
    known = ~np.isnan(want)
    error = np.abs(got - want) / np.maximum(1, np.abs(want))
    if got.shape != want.shape or not (error[known] <= tolerance).all():
        imported.ctx.refuse("check", f"ONNX Runtime {onnxruntime.__version__} gives other scores for this file than its nodes say here "
                                     f"(by up to {np.nanmax(np.where(known, error, 0)):.3g}): please report the model")


def _scores(onnxruntime, source, rows, count):
    """[rows, heads] of the file itself."""
    for name, tensor in source.graph.tensors.items():
        if tensor.data_location == 1:  # of weights that no score needs, too
            external_path(tensor, source.folder, f"weight '{name}'")
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = onnxruntime.InferenceSession(source.path or source.proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    fixed = next((dims[0] for _, _, dims in source.graph.inputs if dims[0] is not None), count)
    out = []
    for first in range(0, count, fixed):
        feed = {name: _block(rows, name, dtype, dims, first, fixed) for name, dtype, dims in source.graph.inputs}
        parts = session.run(source.outputs, feed)
        out.append(np.concatenate([np.asarray(p, np.float64).reshape(fixed, -1) for p in parts], 1))
    return np.concatenate(out)[:count]


def _block(rows, name, dtype, dims, first, fixed):
    """`fixed` rows of an input, the last row repeated behind the end; zeros for an input that no score needs."""
    if name not in rows:
        return np.zeros([fixed] + [d or 1 for d in dims[1:]], dtype)
    places = np.minimum(np.arange(first, first + fixed), len(rows[name]) - 1)
    return np.ascontiguousarray(rows[name][places], dtype)
