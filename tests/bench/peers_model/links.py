"""What lookups that run at the same time take of each other: every GPU's reading units, its memory, its link in and its link out.

A lookup is a row of microseconds, one for each resource: how long that resource alone would be busy with it. It goes through all of its
rows in one mixed order with a bounded number of loads under way, so all of its parts move at one pace, and the slowest resource sets it."""

import numpy as np

KINDS = ("reader", "memory", "in", "out", "host")


def alone(demands):
    """Microseconds of each lookup if nothing else ran."""
    return demands.max(axis=1)


def paces(demands):
    """Parts of their own full speed that lookups get side by side: max-min fair, no resource busy more than all of the time."""
    use = demands / alone(demands)[:, None]
    pace = np.ones(len(use))
    if use.sum(axis=0).max() <= 1:
        return pace
    pace[:] = 0
    growing = np.ones(len(use), dtype=bool)
    left = np.ones(use.shape[1])
    while growing.any():
        asked = use[growing].sum(axis=0)
        step = min(np.min(left[asked > 0] / asked[asked > 0]), np.min(1 - pace[growing]))
        pace[growing] += step
        left -= step * asked
        full = left <= 1e-9
        growing &= (pace < 1 - 1e-12) & ~(use[:, full] > 0).any(axis=1)
    return pace


class Resources:
    """Demands of lookups on a platform, and what their numbers mean."""

    def __init__(self, platform, gpus, row_bytes):
        self.gpus, self.row = gpus, row_bytes
        self.gather = platform.gather(row_bytes)
        self.link, self.wire = platform.link, platform.wire(row_bytes)
        self.host = platform.host(row_bytes)

    def index(self, kind, gpu):
        return KINDS.index(kind) * self.gpus + gpu

    def _of(self, demand, kind):
        return demand[KINDS.index(kind) * self.gpus:][:self.gpus]

    def demand(self, reader, counts, from_host=0):
        """counts[0] rows that every GPU has, counts[1 + j] rows of GPU j only, from_host rows that none has."""
        d = np.zeros(len(KINDS) * self.gpus)
        owned = counts[1:].astype(np.float64)
        self._of(d, "reader")[reader] = (counts.sum() + from_host) * self.row / self.gather
        self._of(d, "memory")[:] = owned * self.row / self.gather
        self._of(d, "memory")[reader] += counts[0] * self.row / self.gather
        remote = owned.copy()
        remote[reader] = 0
        towards, back = (remote * bytes_a_row / self.link for bytes_a_row in self.wire)
        self._of(d, "out")[:] += towards
        self._of(d, "in")[reader] += towards.sum()
        self._of(d, "in")[:] += back
        self._of(d, "out")[reader] += back.sum()
        self._of(d, "host")[reader] = from_host * self.row / self.host
        return d
