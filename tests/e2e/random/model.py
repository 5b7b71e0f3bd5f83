"""A model under construction whose values are known while it grows: a Builder, rows that touch every rule of its features, and
each op's value in float64, so that the generator can keep numbers in a range where float32 means something."""

import numpy as np

from dpi_export import Builder, Rows
from dpi_export.ops import numpy_ops
from dpi_export.ops.batch import ITEM, SHARED, Batch

ROUGH = 4.0  # values larger than this are scaled down before anything else reads them


class Model:
    """`b`: the Builder; `pool`: float values that later parts may read; `marks`: what the parts did, for the coverage."""

    def __init__(self, name, seed, rows=None, users=None):
        self.rows_wanted = rows  # None: a few
        self.users_wanted = users  # item rows of each user; None: some models have users, with some of the features
        self.b, self.rng, self.seed = Builder(name), np.random.default_rng(seed), seed
        self.pool, self.marks = [], set()
        self.columns, self.weights, self.shared_counts = {}, {}, None
        self._batch, self._values, self._done = None, {}, 0

    # -- chance -------------------------------------------------------------------------------------------------------
    def one(self, *choices):
        """One of the choices, each as likely."""
        return choices[self.rng.integers(len(choices))]

    def some(self, values, least=1):
        """A random sub-list of at least `least`, in random order."""
        n = int(self.rng.integers(min(least, len(values)), len(values) + 1))
        return [values[i] for i in self.rng.permutation(len(values))[:n]]

    def chance(self, p):
        return bool(self.rng.random() < p)

    def noise(self, *dims, scale=1.0):
        """Normal numbers that float32 holds."""
        return (scale * self.rng.standard_normal(dims)).astype(np.float32)

    def weight(self, out, n_in):
        return self.noise(out, n_in, scale=1.0 / np.sqrt(n_in))

    # -- rows ---------------------------------------------------------------------------------------------------------
    def n_rows(self, space):
        return len(self.shared_counts) if space == SHARED and self.shared_counts else self.n_items

    def close_features(self):
        """All features and columns are there: from here on values are computed."""
        self.rows = Rows.from_columns(self.b, self.columns, weights=self.weights, shared_counts=self.shared_counts)
        self._batch = Batch(self.b.features, self.rows)
        self.counts = self._batch.counts

    def flat_rows(self):
        """The same rows without a shared part: each shared value repeated for its items."""
        if self.shared_counts is None:
            return self.rows
        row_map = np.repeat(np.arange(len(self.shared_counts)), self.shared_counts)

        def spread(columns):
            return {k: [v[i] for i in row_map] if self.space_of(k) == SHARED else v for k, v in columns.items()}

        return Rows.from_columns(self.b, spread(self.columns), weights=spread(self.weights))

    def space_of(self, feature):
        return next(f for f in self.b.features if f["name"] == feature).get("space", ITEM)

    # -- values -------------------------------------------------------------------------------------------------------
    def value(self, name):
        """The op's value in float64, [rows of its space, ...]."""
        counts = {"item": self._batch.n, "shared": self._batch.shared_rows or self._batch.n, "constant": 1}
        with np.errstate(all="ignore"):
            for op in self.b.ops[self._done:]:
                space = self.b.space(op["name"])
                inputs = [self._for(i, space) for i in op["in"]]
                self._values[op["name"]] = numpy_ops.run(op, inputs, counts[space], _Context(self.b, self._batch))
        self._done = len(self.b.ops)
        return self._values[name]

    def _for(self, name, space):
        repeat = self.b.space(name) == SHARED and space == ITEM and self._batch.shared_rows
        return self._values[name][self._batch.row_map] if repeat else self._values[name]

    def most(self, name):
        """The largest magnitude of a value; raises where a row is not finite: the generator went wrong."""
        x = np.abs(self.value(name))
        if not np.isfinite(x).all():
            raise ValueError(f"model {self.seed}: '{name}' is not finite")
        return float(x.max(initial=0))

    def tame(self, name, limit=ROUGH):
        """The value, scaled by a power of two where it is larger than `limit`."""
        most = self.most(name)
        if most <= limit:
            return name
        return self.b.unary("affine", name, a=float(2.0 ** np.floor(np.log2(limit / most))), b=0.0)

    def keep(self, name):
        """Tames a value and lets later parts read it."""
        name = self.tame(name)
        self.pool.append(name)
        return name

    # -- picking ------------------------------------------------------------------------------------------------------
    def pick(self, fits=lambda dims: True):
        """A value whose dims fit; None when there is none."""
        found = [x for x in self.pool if fits(self.b.shape(x))]
        return self.one(*found) if found else None

    def size(self, name):
        return int(np.prod(self.b.shape(name)))

    def flat(self, name):
        """A value as one row of floats."""
        return name if len(self.b.shape(name)) == 1 else self.b.reshape(name, [self.size(name)])

    def matrix(self):
        """A value of at least two dims: one of the pool, or a row of floats seen as one."""
        found = self.pick(lambda dims: len(dims) >= 2)
        if found and self.chance(0.7):
            return found
        x = self.flat(self.one(*self.pool))
        n = self.size(x)
        rows = self.one(*[k for k in range(1, n + 1) if n % k == 0])
        return self.b.reshape(x, self.one([rows, n // rows], [rows, 1, n // rows]))


class _Context:
    """What numpy_ops asks for: parameters and table rows, in float64."""

    dtype = np.float64

    def __init__(self, builder, batch):
        self.builder, self.batch = builder, batch

    def param(self, op, role):
        name = op.get("params", {}).get(role)
        return None if name is None else self.builder.param(name).astype(np.float64)

    def in_rows(self, bags):
        return bags  # ids are row numbers

    def gather(self, table, ids):
        return self.builder.gather(table, ids)
