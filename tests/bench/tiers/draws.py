"""Row numbers of calls, and the best hit rate that a cache of a given number of rows can have on them.

Zipf: ranks by inversion of the continuous distribution, as in tiered_bench.cpp, spread over the table by a prime factor: the rows that
a load brings first are not the hot ones."""

import numpy as np

ALPHA = 1.05
SPREAD = 2654435761  # prime, and larger than any table


class Draws:
    """Ids [n, fields] of uniform or Zipf rows and floats [n, 13]; each call of `next` gives new ones."""

    def __init__(self, field_rows, zipf, dense, seed=7):
        self.rows = np.asarray(field_rows, np.int64)
        self.zipf, self.dense = zipf, dense
        self.rng = np.random.default_rng(seed)

    def next(self, n):
        u = self.rng.random((n, len(self.rows)))
        if self.zipf:
            top = self.rows.astype(np.float64) ** (1 - ALPHA)
            u = (1 + u * (top - 1)) ** (1 / (1 - ALPHA))
            rank = np.minimum(u, self.rows - 1).astype(np.uint64)
            ids = (rank * np.uint64(SPREAD) % self.rows.astype(np.uint64)).astype(np.int64)
        else:
            ids = (u * self.rows).astype(np.int64)
        return np.ascontiguousarray(ids), self.rng.random((n, self.dense), np.float32)


def most_frequent(shape, places):
    """Of each table, how many of its rows are among the `places` most frequent ones of all tables under Zipf draws."""
    rows, fields = np.array(shape.rows, np.float64), np.bincount(shape.table_of, minlength=len(shape.rows))
    if places >= rows.sum():
        return rows
    scale = fields / (1 - rows ** (1 - ALPHA))  # the density of rank k is scale * k ** -ALPHA
    low, high = 1e-30, 1e9
    for _ in range(300):
        level = (low * high) ** 0.5
        kept = np.clip((scale / level) ** (1 / ALPHA), 1, rows)
        low, high = (level, high) if kept.sum() > places else (low, level)
    return kept


def best_hit_rate(shape, places):
    """Of Zipf draws, when the most frequent rows of all tables together lie in `places` places."""
    rows, fields = np.array(shape.rows, np.float64), np.bincount(shape.table_of, minlength=len(shape.rows))
    share = (1 - most_frequent(shape, places) ** (1 - ALPHA)) / (1 - rows ** (1 - ALPHA))
    return float((share * fields).sum() / fields.sum())


def hot_keys(shape, places):
    """(table, row numbers, counts) of these rows, as a long log would count them."""
    for table, kept in enumerate(most_frequent(shape, places)):
        rank = np.arange(1, max(2, min(int(kept), shape.rows[table])), dtype=np.uint64)
        keys = (rank * np.uint64(SPREAD) % np.uint64(shape.rows[table])).astype(np.int64)
        yield table, keys, np.maximum(1, 1e9 * rank.astype(np.float64) ** -ALPHA).astype(np.int64)
