"""A bundle of many small graphs. Each case is one head: the op under test, then a fixed random weight for every element of
its output and a sum, so that each element matters. Oracles are given per row and computed apart from dpi_export."""

import pathlib
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "weights" / "python"))
import dpi_export  # noqa: E402

TOLERANCE = 2e-5


class VectorBundle:
    """Collects cases; `rows` item rows, optionally grouped in shared rows (`shared_counts`)."""

    def __init__(self, name, seed, rows=7, shared_counts=None):
        self.b, self.rng, self.rows, self.shared_counts = dpi_export.Builder(name), np.random.default_rng(seed), rows, shared_counts
        self.columns, self.weights, self.want = {}, {}, []
        self.row_map = np.repeat(np.arange(len(shared_counts)), shared_counts) if shared_counts else np.arange(rows)

    # -- inputs -------------------------------------------------------------------------------------------------------
    def values(self, *dims, scale=1.0):
        """float32-exact random numbers as float64."""
        return (scale * self.rng.standard_normal(dims)).astype(np.float32).astype(np.float64)

    def dense(self, name, dims, data=None, space="item"):
        """A dense feature seen as [rows, dims]; returns (value in the graph, data [item rows, dims])."""
        n = self.rows if space == "item" else len(self.shared_counts)
        data = self.values(n, *dims) if data is None else np.asarray(data, np.float32).astype(np.float64)
        self.b.dense(name, int(np.prod(dims)), space=space)
        self.columns[name] = data.reshape(n, -1)
        x = self.b.input(name)
        x = x if len(dims) == 1 else self.b.reshape(x, dims)
        return x, data if space == "item" else data[self.row_map]

    def bags(self, name, column, weights=None, **feature):
        """A sequence feature with these bags; returns its value in the graph."""
        self.b.sequence(name, **feature)
        self.columns[name] = column
        if weights is not None:
            self.weights[name] = weights
        return self.b.input(name)

    # -- cases --------------------------------------------------------------------------------------------------------
    def case(self, name, value, want):
        """Head `name` = weighted sum of `value`; want: [rows, dims of value], computed independently."""
        want = np.asarray(want, dtype=np.float64)
        dims = self.b.shape(value)
        assert want.shape == (self.rows,) + tuple(dims), (name, want.shape, dims)
        assert np.isfinite(want).all(), name
        n = int(np.prod(dims))
        w = (self.rng.uniform(0.5, 1.5, n) * self.rng.choice([-1, 1], n) / np.sqrt(n)).astype(np.float32)
        flat = self.b.reshape(value, [n])
        score = self.b.reduce("sum", self.b.mul(flat, self.b.const(w)), keepdim=True)
        self.b.head(name, score, activation="none")
        self.want.append((want.reshape(self.rows, n) * w.astype(np.float64)).sum(axis=1))

    def write(self, folder):
        """Writes <folder>/<name>.h5; the package's executor must agree with the oracles."""
        rows = dpi_export.Rows.from_columns(self.b, self.columns, weights=self.weights, shared_counts=self.shared_counts)
        self.b.provenance(oracle="plain numpy loops and torch, float64", source="tests/e2e/op_bundles")
        self.b.golden(rows, value=np.stack(self.want, axis=1), tolerance=TOLERANCE)
        path = pathlib.Path(folder) / f"{self.b.name}.h5"
        self.b.write(path)
        return path, len(self.want)
