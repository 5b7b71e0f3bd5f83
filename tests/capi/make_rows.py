#!/usr/bin/env python3
"""Writes versions of a model whose rows carry their key and their version: make_rows.py FOLDER.

    0.h5 ... 15.h5   `wide` (f32, 2048 rows), `half` (f16, 64 rows), `keyed` (128 keys), and a bias. A delta sets every fourth row only, so that most rows
                     of a version are older than it: tag(n, r) says of which one. The elements of a row are all the same number, that of key and tag.
                     A key is away in every eighth version, and comes back in the next one
    0.delta ...      from 0.h5 to 1.h5 and so on, the last one to 0.h5

tests/capi/rows_support.hpp computes the same, and what a request scores."""

import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "weights/python"))

from dpi_export import Builder, delta  # noqa: E402

VERSIONS, WIDE, HALF, KEYS, DIM = 16, 2048, 64, 128, 8
BIAS = 2**19  # of a version: more than all that rows add


def tag(n, r):
    """The version that set row r last, as of version n."""
    return (n - (n - r) % 4) % VERSIONS


def rows(n, numbers, step):
    return np.repeat((tag(n, numbers) * step + numbers).astype(np.float32)[:, None], DIM, axis=1)


def build(n):
    b = Builder("rows")
    b.categorical("a", WIDE)
    b.categorical("h", HALF)
    b.categorical("k", keys="keyed")
    j = np.arange(KEYS)
    here = j[(j + n) % 8 != 0]
    tables = (b.table("wide", rows(n, np.arange(WIDE), 4096)), b.table("half", rows(n, np.arange(HALF), 64), dtype="f16"),
              b.keyed_table("keyed", here * 4096 - 2**40, rows(n, here, 4096), default=np.full(DIM, -1.0)))
    x = b.concat([b.embed(b.input(name), t) for name, t in zip("ahk", tables)])
    weight = np.zeros((1, 3 * DIM), np.float32)
    weight[0, ::DIM], weight[0, DIM - 1::DIM] = 1, 1  # the first and the last element of each row
    b.head("score", b.linear(x, weight, np.float32([BIAS * n])), activation="none")
    return b


def main():
    folder = pathlib.Path(sys.argv[1])
    for n in range(VERSIONS):
        build(n).write(folder / f"{n}.h5")
    for n in range(VERSIONS):
        delta(folder / f"{n}.h5", folder / f"{(n + 1) % VERSIONS}.h5", folder / f"{n}.delta")


if __name__ == "__main__":
    main()
