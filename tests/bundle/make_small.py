"""Writes data/small.h5: one bundle with every feature kind, table type, encoder array, a shared part and golden rows.

    python3 tests/bundle/make_small.py        # the values are the formulas that open_test.cpp checks
"""

import pathlib
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "weights/python"))

from dpi_export import Builder, Encoder, Rows  # noqa: E402
from dpi_export.encoders import standard, to_float, trim, vocab_int, vocab_string  # noqa: E402


def grid(rows, dim, scale):
    """value[r][c] = (10 r + c) scale: exact in every table type used here."""
    return ((10 * np.arange(rows)[:, None] + np.arange(dim)[None, :]) * scale).astype(np.float32)


def build():
    b = Builder("small")
    b.categorical("city", 5, out_of_range="oov", oov_id=0, missing="default", default_id=4,
                  encoder=Encoder([trim(), vocab_string(["ulm", "bonn", "köln", "kiel"])]))
    b.sequence("tags", 7, max_len=3, keep="last", pad_side="pre", weighted=True, missing="pad", space="shared",
               encoder=Encoder([vocab_int([30, -20, 10], ids=[1, 2, 3])]))
    b.numeric("age", missing="default", default=0.5, encoder=Encoder([to_float(), standard(10.0, 2.0)]))
    b.dense("vec", 3, missing="pad", space="shared")
    b.categorical("half", 3, missing="pad", missing_id=-1)
    b.categorical("brain", 3)
    b.categorical("byte", 4)
    b.table("t f32", grid(5, 4, 0.25))
    b.table("tags", grid(7, 2, 1.0))
    b.table("half", grid(3, 2, 0.5), dtype="f16")
    b.table("brain", grid(3, 2, 0.5), dtype="bf16")
    b.table("byte", grid(4, 3, 0.125), dtype="i8")
    parts = [b.embed(b.input("city"), "t f32"), b.embed(b.input("tags"), "tags", pooling="sum"), b.input("age"),
             b.input("vec"), b.embed(b.input("half"), "half"), b.embed(b.input("brain"), "brain"),
             b.embed(b.input("byte"), "byte")]
    x = b.concat(parts)
    width = b.shape(x)[0]
    logit = b.linear(x, (np.arange(width, dtype=np.float32)[None, :] - 8) / 64, np.float32([0.125]))
    b.head("ctr", b.sigmoid(logit), logit=logit)
    b.provenance(data="made up")
    b.golden(Rows(dense=[[0.5], [-1.0], [2.0]], ids=[1, 0, 2, 3, 4, 1, 1, 0, 0, 2, 0, 1], offsets=np.arange(13),
                  shared_offsets=[0, 2, 3], shared_dense=[[1, 2, 3], [0, -1, 0.5]], shared_ids=[6, 2],
                  shared_bag_offsets=[0, 2, 2], shared_weights=[0.5, 2.0]))
    return b


if __name__ == "__main__":
    (HERE / "data").mkdir(exist_ok=True)
    build().write(HERE / "data/small.h5")
