"""Which rows a call looks up and where they lie: Zipf's law, hot rows on every GPU, the others on one each."""

import dataclasses

import numpy as np

HEAD = 1 << 17      # ranks that are summed one by one; the integral does the rest
OWNED = 1 << 15     # cold ranks of a field whose owner is drawn; of those behind each GPU has its share


@dataclasses.dataclass
class Load:
    """What is asked: calls of `rows` rows, `fields` lookups of `bag` rows each, in tables of equal size."""
    rows: int = 2048
    rows_cv: float = 0.0         # how calls differ in size: coefficient of variation of a log-normal
    fields: int = 26
    bag: int = 1
    row_bytes: int = 64
    zipf: float = 1.05
    tables_gb: float = 480.0
    jitter: float = 0.05         # of the dense part, from call to call
    stall_share: float = 0.001   # of calls that something stops for stall_us
    stall_us: float = 200.0
    slow: float = 1.0            # GPU 0 takes that many times as long for its dense part
    overlap: bool = False        # the next call's rows are read, or exchanged, behind the dense part of the one before

    @property
    def field_rows(self):
        return max(1, int(self.tables_gb * 1e9 / self.row_bytes / self.fields))

    @property
    def keys(self):
        """Rows looked up for one row of a call."""
        return self.fields * self.bag


def harmonic(n, s):
    """The sum of k^-s, k = 1 to n: exact up to HEAD, then by the formula of Euler and Maclaurin."""
    head = min(n, HEAD)
    total = float(np.sum(np.arange(1, head + 1, dtype=np.float64) ** -s))
    if n > head:
        area = np.log(n / head) if s == 1 else (n ** (1 - s) - head ** (1 - s)) / (1 - s)
        slope = s / 12 * (head ** (-s - 1.0) - n ** (-s - 1.0))
        total += area + (n ** -s - head ** -s) / 2 + slope
    return total


def hot_rows(field_rows, room, gpus):
    """How many of a field's hottest rows lie on every GPU, if each has room for `room` of its rows and one of `gpus` holds each of
    the others. None: the tables do not fit all GPUs together."""
    if room * gpus < field_rows:
        return None
    if room >= field_rows:
        return field_rows
    return int((room * gpus - field_rows) // (gpus - 1))


class Shares:
    """Of all lookups: `hot` on every GPU, `owners[j]` on GPU j only."""

    def __init__(self, load, gpus, hot, rng):
        n, s = load.field_rows, load.zipf
        whole = harmonic(n, s)
        self.hot = harmonic(hot, s) / whole if hot else 0.0
        ranks = np.arange(hot + 1, min(n, hot + OWNED) + 1, dtype=np.float64)
        weights = ranks ** -s / whole
        drawn = np.zeros(gpus)
        for _ in range(load.fields):
            drawn += np.bincount(rng.integers(gpus, size=len(ranks)), weights, gpus)
        drawn /= load.fields
        rest = max(0.0, 1 - self.hot - weights.sum())
        self.owners = drawn + rest / gpus
        self.all = np.append(self.hot, self.owners) / (self.hot + self.owners.sum())


def sizes(load, count, rng):
    """Rows of each of `count` calls."""
    if not load.rows_cv:
        return np.full(count, load.rows)
    sigma = np.sqrt(np.log1p(load.rows_cv ** 2))
    return np.maximum(1, np.rint(load.rows * np.exp(sigma * rng.standard_normal(count) - sigma ** 2 / 2))).astype(int)


def slowdowns(load, count, rng):
    """What happens to the dense part of each call: a factor of mean 1, and microseconds on top."""
    sigma = np.sqrt(np.log1p(load.jitter ** 2))
    return np.exp(sigma * rng.standard_normal(count) - sigma ** 2 / 2), load.stall_us * (rng.random(count) < load.stall_share)
