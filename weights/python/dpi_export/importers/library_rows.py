"""Rows and ids as FuxiCTR and DeepCTR-Torch take them, for the imports by hand and for those by tracing."""

import numpy as np

from ..library_run import to_numpy


def id_rules(spec):
    """What an id outside the vocabulary means. A fitted vocabulary ends with the row of unknown values; a missing value is one of them."""
    if "category_processor" in spec:
        return {}
    return {"out_of_range": "oov", "oov_id": int(spec.get("oov_idx", int(spec["vocab_size"]) - 1))}


def matrix_of(model, rows):
    """DeepCTR-Torch's float32 matrix from what its predict() takes."""
    index = model.feature_index
    width = max(end for _, end in index.values())
    if isinstance(rows, dict):
        missing = [name for name in index if name not in rows]
        if missing:
            raise ValueError(f"rows: feature '{missing[0]}' is missing")
        rows = [rows[name] for name in index]
    if isinstance(rows, (list, tuple)):
        parts = [to_numpy(v) for v in rows]
        rows = np.concatenate([p.reshape(len(p), -1) for p in parts], axis=-1)
    matrix = to_numpy(rows)
    if matrix.ndim != 2 or matrix.shape[1] != width:
        raise ValueError(f"rows: shape {matrix.shape}, expected [rows, {width}]")
    return np.ascontiguousarray(matrix, np.float32)
