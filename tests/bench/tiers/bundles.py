"""The bundles of tiers_bench.py: 26 one-hot fields with the table sizes of Criteo Kaggle, scaled, 13 floats and an MLP.

Tables come as blocks, so memory stays flat at any size. Every row is another one: its first two columns count, the others are random."""

import dataclasses

import numpy as np

from dpi_export import Builder

# Rows of the 26 categorical columns of Criteo Kaggle (display advertising challenge), 33.8 million in all.
CRITEO = [1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194, 27, 14992, 5461306, 10, 5652, 2173, 4,
          7046547, 18, 15, 286181, 105, 142572]
DENSE = 13
LARGEST = 5
BLOCK = 65536
MLPS = {"64-32": (64, 32), "3x256": (256, 256, 256), "3x1000": (1000, 1000, 1000)}
BYTES = {"f32": 4, "f16": 2}


@dataclasses.dataclass(frozen=True)
class Shape:
    """rows: of each table, and field f looks into table table_of[f]."""
    rows: tuple
    table_of: tuple
    dim: int
    dtype: str

    @property
    def fields(self):
        return len(self.table_of)

    @property
    def row_bytes(self):
        return self.dim * BYTES[self.dtype]

    @property
    def field_rows(self):
        return np.array([self.rows[t] for t in self.table_of], np.int64)

    def largest(self):
        """The fields of the five largest tables."""
        return sorted(sorted(range(self.fields), key=lambda f: -self.field_rows[f])[:LARGEST])

    def folded(self, total):
        """The same fields over tables of `total` rows in all."""
        return dataclasses.replace(self, rows=scaled(total, self.rows))


def scaled(total, sizes):
    return tuple(max(4, round(n * total / sum(sizes))) for n in sizes)


def criteo(total, dim, dtype):
    return Shape(scaled(total, CRITEO), tuple(range(len(CRITEO))), dim, dtype)


def one_table(total, dim, dtype):
    """All 26 fields look into one table."""
    return Shape((total,), (0,) * len(CRITEO), dim, dtype)


def _blocks(shape, table):
    base = np.random.default_rng(table).standard_normal((BLOCK, shape.dim), np.float32) * np.float32(0.1)
    for first in range(0, shape.rows[table], BLOCK):
        n = min(BLOCK, shape.rows[table] - first)
        block = base[:n].copy()
        row = np.arange(first, first + n)
        block[:, 0], block[:, 1] = (row % 1024) / 1024.0, (row // 1024 % 1024) / 1024.0
        yield block


def weights(shape, hidden):
    """[(weight, bias)] of the MLP, the output last."""
    rng = np.random.default_rng(99)
    widths = [shape.fields * shape.dim + DENSE, *hidden, 1]
    return [(rng.standard_normal((b, a), np.float32) * np.float32((2 / a) ** 0.5), rng.standard_normal(b, np.float32) * np.float32(0.1))
            for a, b in zip(widths, widths[1:])]


def write(path, shape, hidden, progress, hot=()):
    """hot: (table, keys, counts) of the bundle's hot-key list."""
    b = Builder("tiers")
    for t, rows in enumerate(shape.rows):
        b.table(f"t{t}", lambda t=t: _blocks(shape, t), dtype=shape.dtype, rows=rows, dim=shape.dim)
    for f, t in enumerate(shape.table_of):
        b.categorical(f"f{f}", shape.rows[t])
    b.dense("d", DENSE)
    x = b.concat([*(b.embed(b.input(f"f{f}"), f"t{t}") for f, t in enumerate(shape.table_of)), b.input("d")])
    *inner, (last_w, last_b) = weights(shape, hidden)
    for w, bias in inner:
        x = b.relu(b.linear(x, w, bias))
    logit = b.linear(x, last_w, last_b)
    b.head("ctr", b.sigmoid(logit), logit=logit)
    for t, keys, counts in hot:
        b.hot_keys(f"t{t}", keys, counts)
    progress(f"writing {sum(shape.rows) * shape.row_bytes / 1e9:.2f} GB of tables")
    b.write(str(path), check=None)
