"""Writes a bundle with about 200 MB of tables: python3 tests/store/make_big.py FILE. Tables come as generators, so memory stays flat."""

import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "weights/python"))

from dpi_export import Builder  # noqa: E402


def blocks(rows, dim):
    for first in range(0, rows, 50000):
        n = min(50000, rows - first)
        yield np.arange(n * dim, dtype=np.float32).reshape(n, dim) % 1000 + first


b = Builder("big")
values = []
for i, (rows, dim) in enumerate([(2_000_000, 16), (500_000, 32), (400_000, 8), (1000, 4)]):
    b.categorical(f"f{i}", rows)
    b.table(f"t{i}", blocks(rows, dim), rows=rows, dim=dim)
    values.append(b.embed(b.input(f"f{i}"), f"t{i}"))
x = b.concat(values)
b.head("y", b.linear(x, np.ones((1, b.shape(x)[0]), np.float32)))
b.write(sys.argv[1])
