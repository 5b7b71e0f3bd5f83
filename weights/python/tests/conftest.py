"""Imports the package in place and offers a small model."""

import pathlib
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import dpi_export  # noqa: E402


@pytest.fixture
def small():
    """A model with every kind of feature and table type, without golden rows."""
    rng = np.random.default_rng(3)
    b = dpi_export.Builder("small")
    b.categorical("item", 30, out_of_range="oov", oov_id=29, missing="pad", encoder=[dpi_export.encoders.vocab_string(["a", "b"])])
    b.sequence("hist", 30, max_len=5, missing="pad", space="shared")
    b.numeric("age", missing="default", default=0.5)
    b.dense("vec", 3, missing="pad")
    for dtype in ("f32", "f16", "bf16", "i8"):
        b.table(dtype, rng.normal(size=(30, 4)), dtype=dtype)
    parts = [b.embed(b.input("item"), d) for d in ("f32", "f16")] + [b.embed(b.input("hist"), d, "mean") for d in ("bf16", "i8")]
    x = b.concat(parts + [b.input("age"), b.input("vec")], name="x")
    logit = b.linear(b.relu(b.linear(x, rng.normal(size=(7, 20)), rng.normal(size=7))), rng.normal(size=(1, 7)), name="logit")
    b.head("ctr", b.sigmoid(logit), logit=logit)
    b.columns = {"item": [1, None, 99, 3], "hist": [[1, 2], [], [5] * 9, [0]], "age": [1.0, None, -2.0, 0.0],
                 "vec": rng.normal(size=(4, 3))}
    return b
