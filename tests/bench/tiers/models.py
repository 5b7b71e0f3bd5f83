"""Loaded models, tiered and resident, and what their counters say of a stretch of calls."""

import contextlib

import numpy as np

import dpi

TIER_ROW = 27  # bytes that the host tier takes beside a row's stride: directory, pool, heat


def stride(row_bytes):
    return 1 << max(2, (row_bytes - 1).bit_length()) if row_bytes <= 64 else -(-row_bytes // 32) * 32


def tier_bytes(shape, fields, more=1.15):
    """A host tier in which all rows of the fields' tables find a place, with room for shards that are not equally full."""
    tables = {shape.table_of[f] for f in fields}
    return int(sum(shape.rows[t] for t in tables) * (stride(shape.row_bytes) + TIER_ROW) * more) + (8 << 20)


def tier_options(shape, fields, host_bytes, **more):
    tables = {shape.table_of[f] for f in fields}
    options = {f"table.t{t}.tier": "host" if t in tables else "resident" for t in range(len(shape.rows))}
    return {**options, "store.host_bytes": host_bytes, "store.resident_bytes": 0, **more}


def load(path, max_rows, **options):
    """One context, as one caller needs."""
    return dpi.Model(path, device="cpu", max_rows=max_rows, max_contexts=1, options=options)


def caller(model, most):
    out = np.zeros((most, 1), np.float32)
    return lambda ids, dense: model.predict(ids, dense, out=out[:len(ids)])


def counters(model):
    """Sums over the tiered tables."""
    tiers = model.counters()["tiers"]
    return {k: sum(t[k] for t in tiers) for k in ("hits", "late", "absent", "defaulted", "fetched", "fetched_bytes")}


class Since:
    """The counters from here on."""

    def __init__(self, model):
        self.model, self.start = model, counters(model)

    def count(self):
        now = counters(self.model)
        d = {k: now[k] - v for k, v in self.start.items()}
        looked = d["hits"] + d["late"] + d["absent"] + d["defaulted"]
        return {**d, "lookups": looked, "hit_rate": d["hits"] / looked if looked else 1.0}


def fetch_us(model):
    """(median, 99th percentile) of the fetches of the table that fetched most."""
    tiers = [t for t in model.counters()["tiers"] if t["fetched"] > 0]
    t = max(tiers, key=lambda t: t["fetched"], default=None)
    return None if t is None else (t["fetch_p50_us"], t["fetch_p99_us"])


def same_scores(models, batches):
    """Ends the run when a score of one differs in a bit from the first's: a time for a wrong answer is worth nothing."""
    (first, model), *others = models.items()
    compared = 0
    for ids, dense in batches:
        want = model.predict(ids, dense).view(np.uint32)
        for name, other in others:
            got = other.predict(ids, dense).view(np.uint32)
            if not np.array_equal(got, want):
                raise SystemExit(f"{name} and {first} give different scores, first at row {int(np.argwhere(got != want)[0][0])} of "
                                 f"{len(ids)}: nothing is timed")
            compared += got.size
    return compared


@contextlib.contextmanager
def removed(path):
    """A file that is gone afterwards, however the block ends."""
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)
