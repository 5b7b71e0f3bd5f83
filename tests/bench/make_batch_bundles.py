#!/usr/bin/env python3
"""Writes the bundles of batcher_bench and open_loop_bench, with random weights: make_batch_bundles.py FOLDER.

    deepfm.h5         26 fields of 10,000 rows of 16 floats, their factorisation machine beside layers of 3 x 256
    dcnv2.h5          the same fields, three matrix cross layers beside layers of 3 x 1024
    deepfm_users.h5, dcnv2_users.h5   the same; ten of the fields are the user's"""

import pathlib
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "weights/python"))

from dpi_export import Builder  # noqa: E402

FIELDS, USER_FIELDS, ROWS, DIM = 26, 10, 10000, 16


def layer(b, rng, x, width, activation=None):
    size = b.shape(x)[0]
    y = b.linear(x, rng.normal(0, size ** -0.5, (width, size)).astype(np.float32), np.zeros(width, np.float32))
    return b.unary(activation, y) if activation else y


def build(kind, hidden, user_fields):
    rng = np.random.default_rng(1)
    b = Builder(kind)
    fields = []
    for i in range(FIELDS):
        b.categorical(f"c{i}", ROWS, space="shared" if i < user_fields else "item")
        fields.append(b.embed(b.input(f"c{i}"), b.table(f"c{i}", rng.normal(0, 0.1, (ROWS, DIM)).astype(np.float32))))
    x = b.concat(fields)
    deep = x
    for _ in range(3):
        deep = layer(b, rng, deep, hidden, "relu")
    if kind == "deepfm":
        total = fields[0]
        for f in fields[1:]:
            total = b.binary("add", total, f)
        squares = b.binary("mul", x, x)
        logit = b.binary("add", layer(b, rng, deep, 1), layer(b, rng, b.concat([b.binary("mul", total, total), squares]), 1))
    else:
        cross = x
        for _ in range(3):
            cross = b.binary("add", b.binary("mul", x, layer(b, rng, cross, FIELDS * DIM)), cross)
        logit = layer(b, rng, b.concat([deep, cross]), 1)
    b.head("ctr", b.unary("sigmoid", logit), logit=logit)
    return b


def main(folder):
    for kind, hidden in (("deepfm", 256), ("dcnv2", 1024)):
        build(kind, hidden, 0).write(str(pathlib.Path(folder) / f"{kind}.h5"))
        build(kind, hidden, USER_FIELDS).write(str(pathlib.Path(folder) / f"{kind}_users.h5"))


if __name__ == "__main__":
    main(sys.argv[1])
