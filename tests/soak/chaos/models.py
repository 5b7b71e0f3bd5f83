"""The bundles of the chaos test, and what each of their scores must be: float64 over the rows that h5py reads from the bundle."""

import numpy as np

from stores import rows_of

TABLES, ROWS, DIM, HIDDEN = ("users", "items"), 24_000, 8, 6
DEFAULTS = {"users": 0.25, "items": 0.5}  # options table.NAME.default of the model that may answer with them
# float32 sums of some 30 products of values about 1. Rows that stand in move a score by more, or cannot be told from right ones.
TOLERANCE = 2e-5


def weights():
    rng = np.random.default_rng(11)
    return [rng.normal(size=s).astype(np.float32) * 0.3 for s in ((HIDDEN, 2 * DIM), (1, HIDDEN + 2 * DIM))]


def write(builder, path, version, digests=None):
    """digests: of tables whose rows are somewhere else."""
    b, (first, last) = builder("chaos"), weights()
    rng = np.random.default_rng(100 + version)
    for table in TABLES:
        b.categorical(table[:-1], ROWS)
    for table in TABLES:
        rows = rng.normal(size=(ROWS, DIM)).astype(np.float32)
        b.table(table, rows) if digests is None else b.external_table(table, DIM, rows=ROWS, digest=digests[table])
    x = b.concat([b.embed(b.input(t[:-1]), t) for t in TABLES])
    hidden = b.op("Unary", [b.linear(x, first)], {"kind": "relu"})
    b.head("y", b.linear(b.concat([hidden, x]), last), activation="none")
    b.write(path)
    return path


class Oracle:
    """Which rows scores were made of. The weights are those of `weights`, the rows those of the file."""

    def __init__(self, bundle):
        found = rows_of(bundle)
        self.rows = {t: np.array([np.frombuffer(found[t][k], "<f4") for k in range(ROWS)], np.float64) for t in TABLES}
        self.first, self.last = (w.astype(np.float64) for w in weights())

    def scores(self, users, items, default_users=False, default_items=False):
        parts = []
        for table, ids, default in (("users", users, default_users), ("items", items, default_items)):
            parts.append(np.full((len(ids), DIM), DEFAULTS[table]) if default else self.rows[table][ids])
        x = np.concatenate(parts, axis=1)
        hidden = np.maximum(x @ self.first.T, 0.0)
        return (np.concatenate([hidden, x], axis=1) @ self.last.T)[:, 0]

    def made_of(self, scores, users, items):
        """Of each score the set of (user's row stands in, item's row stands in) that give it; empty: a wrong score, NaN included."""
        scores, fits = np.asarray(scores, np.float64), [set() for _ in users]
        for mask in ((False, False), (True, False), (False, True), (True, True)):
            near = np.abs(scores - self.scores(users, items, *mask)) <= TOLERANCE  # false for NaN
            for i in np.flatnonzero(near):
                fits[i].add(mask)
        return fits
