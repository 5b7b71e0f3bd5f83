"""Tables in rows over all GPUs, and all-to-all: in one step each GPU has at most one call. Ids go to the owners, owners read the rows, rows
(or, of bags, each owner's sum) come back, then the dense part. All GPUs take each exchange together, so the slowest sets the step."""

import numpy as np


class Step:
    """Times of the parts of one step, us. `fixed` is what an exchange takes besides its bytes."""

    def __init__(self, platform, load, gpus, fixed):
        self.load, self.gpus, self.fixed = load, gpus, fixed
        self.gather, self.stream = platform.gather(load.row_bytes), platform.stream
        self.rate = platform.exchange_rate(gpus)

    def answers(self, counts, rows):
        """counts[i, j]: rows that GPU i wants of GPU j, for calls of rows[i] rows. What j sends: of a bag one sum, if it has a row of it."""
        bag = self.load.bag
        if bag == 1:
            return counts
        bags = (rows * self.load.fields)[:, None]
        share = counts / np.maximum(1, bags * bag)
        return bags * (1 - (1 - share) ** bag)

    def busiest(self, per_pair):
        """The most bytes into or out of a GPU."""
        between = per_pair - np.diag(np.diag(per_pair))
        return max(between.sum(axis=0).max(), between.sum(axis=1).max())

    def exchange(self, counts, rows):
        """counts[i]: rows that every GPU has, then rows of each GPU, that GPU i wants."""
        local, wanted = counts[:, 0], counts[:, 1:]
        answers, row = self.answers(wanted, rows), self.load.row_bytes
        ids = self.busiest(4.0 * wanted) / self.rate
        read = (local + wanted.sum(axis=0)).max() * row / self.gather
        sent = self.busiest(answers * float(row)) / self.rate
        staged = 3 * self.busiest(answers * float(row)) / self.stream    # written by the owner, read and put in order by who asked
        if self.gpus == 1:
            return read
        return 2 * self.fixed + ids + read + staged + sent


def run(step, calls, rows, slow=1.0, overlap=False):
    """When each call ended. They are taken in the order in which they came, a step taking up to one for each GPU. `calls` is a serve.Calls;
    `overlap`: a step's exchanges go on behind the dense part of the step before, one step ahead at most."""
    gpus, total = step.gpus, len(rows)
    ended = np.zeros(total)
    computed = np.zeros(gpus)    # until when each GPU is at its dense part
    free = 0.0                   # when all GPUs can take the next exchange
    first = 0
    while first < total:
        begin = max(calls.arrivals[first], free)
        last = min(first + gpus, int(np.searchsorted(calls.arrivals, begin, side="right")))
        these = slice(first, max(last, first + 1))
        counts, sizes, dense = _padded(calls, rows, these, gpus)
        exchanged = begin + step.exchange(counts, sizes)
        dense[0] *= slow
        starts = np.maximum(exchanged, computed)
        computed = starts + dense
        free = starts.max() if overlap else computed.max()
        ended[these] = computed[:these.stop - these.start]
        first = these.stop
    return ended


def _padded(calls, rows, these, gpus):
    """GPUs without a call take part with nothing."""
    counts = np.zeros((gpus, gpus + 1))
    sizes, dense = np.zeros(gpus), np.zeros(gpus)
    n = these.stop - these.start
    counts[:n], sizes[:n], dense[:n] = calls.counts[these], rows[these], calls.after[these]
    return counts, sizes, dense
