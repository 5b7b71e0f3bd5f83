"""Calls of several models in turn, and what their times say.

Others work on the machine too. So models take turns of some milliseconds, in another order each round; a model's time is the median of its
calls, and a ratio is the median over the rounds of the ratio of both medians of one round. `cpu` is the calling thread's own time: that of
a call that waits for nobody, without other programs' turns."""

import time

import numpy as np


class Times:
    def __init__(self):
        self.wall, self.cpu, self.rounds = [], [], []

    def end_round(self, first):
        self.rounds.append(float(np.median(self.cpu[first:])))

    def summary(self):
        """us"""
        wall, cpu = np.array(self.wall) * 1e-3, np.array(self.cpu) * 1e-3
        return {"calls": len(wall), "wall_p50_us": float(np.median(wall)), "wall_p99_us": float(np.quantile(wall, 0.99)),
                "cpu_p50_us": float(np.median(cpu)), "cpu_best_us": min(self.rounds) * 1e-3}


def timed(call, *arguments):
    """(wall ns, ns of this thread) of a call."""
    cpu, wall = time.thread_time_ns(), time.perf_counter_ns()
    call(*arguments)
    return time.perf_counter_ns() - wall, time.thread_time_ns() - cpu


def _turn(call, batches, at, times, ns):
    first, end = len(times.wall), time.perf_counter_ns() + ns
    call(*batches[at % len(batches)])  # what other models pushed out of the caches comes back
    while time.perf_counter_ns() < end or len(times.wall) < first + 3:
        at += 1
        wall, cpu = timed(call, *batches[at % len(batches)])
        times.wall.append(wall)
        times.cpu.append(cpu)
    times.end_round(first)
    return at + 1


def in_turns(calls, batches, seconds, turn_ms=15):
    """calls: {name: f(ids, dense)}. {name: Times}"""
    names = list(calls)
    times, at = {n: Times() for n in names}, dict.fromkeys(names, 0)
    rounds = max(5, int(seconds * 1000 / turn_ms / len(names)))
    for r in range(rounds):
        for i in range(len(names)):
            name = names[(r + i) % len(names)]
            at[name] = _turn(calls[name], batches, at[name], times[name], turn_ms * 1_000_000)
    return times


def ratio(times, base):
    """(median, lowest, highest quarter) of the rounds' ratios."""
    r = np.array(times.rounds) / np.array(base.rounds)
    return [float(np.quantile(r, q)) for q in (0.5, 0.25, 0.75)]
