"""Each call whole on one GPU: a simulation event by event. A GPU reads the rows of its call (its own, its peers' or the host's), then does the
dense part; calls wait in one queue per GPU. Nobody waits for another GPU, except for the links that they share (links.py)."""

import collections
import dataclasses
import heapq

import numpy as np

import links


@dataclasses.dataclass
class Calls:
    """What is to be served, call by call."""
    arrivals: np.ndarray     # us, ascending
    counts: np.ndarray       # [calls, 1 + gpus]: rows that every GPU has, rows of each GPU
    from_host: np.ndarray    # rows that no GPU has
    after: np.ndarray        # us from the last row to the answer, on a GPU that is not slow
    far: float = 0.0         # us longer that a call takes if it reads a row of another GPU


class Served:
    def __init__(self, calls, resources):
        self.started = np.zeros(len(calls.arrivals))
        self.ended = np.zeros(len(calls.arrivals))
        self.gpu = np.zeros(len(calls.arrivals), dtype=int)
        self.busy = np.zeros(len(links.KINDS) * resources.gpus)   # us of each resource, added up while it was in use


class _Gpu:
    """The call at each of its stages, if one is there."""

    def __init__(self):
        self.queue = collections.deque()
        self.reading = self.landing = self.ready = self.computing = None

    def calls(self):
        return len(self.queue) + sum(x is not None for x in (self.reading, self.landing, self.ready, self.computing))

    def can_read(self, overlap):
        return self.reading is None and self.landing is None and self.ready is None and (overlap or self.computing is None)


class Cluster:
    """`overlap`: a GPU reads the next call's rows behind the dense part of the one before. `slow`: GPU 0's dense part takes that many times
    as long. A call goes to the GPU with the fewest; with `central` whoever is free takes the next one."""

    def __init__(self, resources, calls, slow=1.0, overlap=False, central=False, rng=None):
        self.resources, self.calls, self.overlap, self.slow, self.central = resources, calls, overlap, slow, central
        self.rng = rng or np.random.default_rng(0)
        self.gpus = [_Gpu() for _ in range(resources.gpus)]
        for gpu in self.gpus if central else ():
            gpu.queue = self.gpus[0].queue
        self.out = Served(calls, resources)
        self.now, self.next_arrival, self.timers = 0.0, 0, []
        self.left = np.zeros(resources.gpus)                       # of what each GPU reads
        self.demands = np.zeros((resources.gpus, len(self.out.busy)))
        self.rates = np.zeros(resources.gpus)                      # of `left`, a us

    def _least_loaded(self):
        waiting = [g.calls() for g in self.gpus]
        fewest = np.flatnonzero(np.array(waiting) == min(waiting))
        return int(fewest[self.rng.integers(len(fewest))]) if len(fewest) > 1 else int(fewest[0])

    def run(self, progress=None):
        total, done = len(self.calls.arrivals), 0
        while done < total:
            at, kind, gpu = self._next()
            self._read_until(at)
            if kind == "arrival":
                self._arrive()
            elif kind == "read":
                self._read(gpu)
            elif kind == "landed":
                self._landed(gpu)
            else:
                self._end(gpu)
                done += 1
                if progress and done % 1000 == 0:
                    progress(done, total)
        return self.out

    def _next(self):
        reading = np.flatnonzero(self.rates > 0)
        best = (np.inf, "none", -1)
        if len(reading):
            ends = self.now + self.left[reading] / self.rates[reading]
            first = int(np.argmin(ends))
            best = (float(ends[first]), "read", int(reading[first]))
        if self.timers and self.timers[0][0] <= best[0]:
            best = self.timers[0]
        if self.next_arrival < len(self.calls.arrivals) and self.calls.arrivals[self.next_arrival] < best[0]:
            return float(self.calls.arrivals[self.next_arrival]), "arrival", -1
        return heapq.heappop(self.timers) if self.timers and best is self.timers[0] else best

    def _read_until(self, at):
        passed = at - self.now
        if passed > 0:
            self.out.busy += (self.rates * passed) @ self.demands
            self.left -= self.rates * passed
        self.now = at

    def _share(self):
        """After a lookup began or ended."""
        reading = [g for g, gpu in enumerate(self.gpus) if gpu.reading is not None]
        self.rates[:] = 0
        if reading:
            d = self.demands[reading]
            self.rates[reading] = links.paces(d) / links.alone(d)

    def _arrive(self):
        call = self.next_arrival
        self.next_arrival += 1
        g = 0 if self.central else self._least_loaded()
        queue = self.gpus[g].queue
        queue.append(call)
        for g in range(len(self.gpus)) if self.central else (g,):
            if queue:
                self._start(g)

    def _start(self, g):
        gpu = self.gpus[g]
        if not gpu.queue or not gpu.can_read(self.overlap):
            return
        call = gpu.reading = gpu.queue.popleft()
        self.out.started[call], self.out.gpu[call] = self.now, g
        self.demands[g] = self.resources.demand(g, self.calls.counts[call], self.calls.from_host[call])
        self.left[g] = 1.0
        self._share()

    def _read(self, g):
        gpu = self.gpus[g]
        call, gpu.reading = gpu.reading, None
        self._share()
        gpu.landing = call
        counts = self.calls.counts[call]
        far = self.calls.far if counts[1:].sum() > counts[1 + g] else 0.0
        if far:
            heapq.heappush(self.timers, (self.now + far, "landed", g))
        else:
            self._landed(g)

    def _landed(self, g):
        gpu = self.gpus[g]
        gpu.ready, gpu.landing = gpu.landing, None
        self._compute(g)

    def _compute(self, g):
        gpu = self.gpus[g]
        if gpu.computing is None and gpu.ready is not None:
            gpu.computing, gpu.ready = gpu.ready, None
            time = self.calls.after[gpu.computing] * (self.slow if g == 0 else 1.0)
            heapq.heappush(self.timers, (self.now + time, "end", g))
            self._start(g)

    def _end(self, g):
        gpu = self.gpus[g]
        self.out.ended[gpu.computing] = self.now
        gpu.computing = None
        self._compute(g)
        self._start(g)
