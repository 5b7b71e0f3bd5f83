"""The files of the chain through the engine: `dpi delta apply` gives the exporter's bundles bit for bit, and an endpoint that is fed with the
deltas while it serves scores what the trainer computed."""

import json
import subprocess
import threading
from collections import Counter

import numpy as np

from . import auc, files
from .stream import TENTHS

NEAREST = 1e-6  # of a probability in float32 to the trainer's in float64


def apply(program, base, deltas, out):
    """`dpi delta apply`; raises with what it said."""
    done = subprocess.run([program, "delta", "apply", base, *deltas, "--output", out], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"dpi delta apply: {done.stderr.strip()}")


def _expect(true, text):
    if not true:
        raise RuntimeError(text)


class Caller(threading.Thread):
    """Asks for the same rows again and again while versions change: each answer must be whole, and that of a version."""

    PAUSE = 0.002  # seconds between two calls

    def __init__(self, predict, cells):
        super().__init__(daemon=True)
        self.predict, self.cells = predict, cells
        self.answers, self.known, self.failure, self.done = Counter(), set(), None, threading.Event()

    def run(self):
        try:
            while not self.done.wait(self.PAUSE):
                self.answers[self.predict(self.cells).tobytes()] += 1
        except Exception as e:
            self.failure = e

    def knows(self):
        """The version that serves now is one of those whose answers are right."""
        self.known.add(self.predict(self.cells).tobytes())

    def end(self):
        """How many calls there were; raises where one failed, or got what no version computes."""
        self.done.set()
        self.join()
        _expect(self.failure is None, f"a call failed while versions changed: {self.failure}")
        strange = sum(n for answer, n in self.answers.items() if answer not in self.known)
        _expect(not strange, f"{strange} of {self.answers.total()} calls got scores that no version computes")
        return self.answers.total()


class Check:
    """Walks a chain, a delta at a time, and holds every version to its entry in versions.json."""

    def __init__(self, folder, stream, program, work, scores=None):
        self.folder, self.stream, self.program, self.work = folder, stream, program, work
        self.scores = scores or {}  # the trainer's own; without them the figures that versions.json has of them
        self.versions = {v["number"]: v for v in json.loads((folder / "versions.json").read_text())}
        self.served, self.farthest = {}, 0.0

    def numbers(self):
        """The versions whose files are there."""
        return [n for n in sorted(self.versions) if (self.folder / files.name(n, "h5")).exists() or (self.folder / files.name(n, "delta")).exists()]

    def run(self, feed, progress=lambda text: None):
        """`feed(path of a bundle or delta, number)` -> what scores {column: texts} by that version. Returns a summary."""
        now, begin, caller = self.work / "now.h5", None, None
        for number in self.numbers():
            delta, bundle = (self.folder / files.name(number, suffix) for suffix in ("delta", "h5"))
            goes_on = begin is not None and delta.exists()
            if goes_on:
                apply(self.program, now, [delta], now)
            else:
                now.write_bytes(bundle.read_bytes())
                begin = number if begin is None else begin
            self._same(now, number)
            predict = feed(delta if goes_on else bundle, number)
            if caller is None:
                caller = Caller(predict, self.stream.cells(self.stream.rows(number, number + 1)))
                caller.start()
            caller.knows()
            if bundle.exists():
                self._same(bundle, number)
            if "next_auc" in self.versions[number]:
                self._scores(number, predict)
            progress(f"version {number}")
        calls = caller.end()
        self._in_one_go(begin)
        return {"versions": len(self.numbers()), "calls_meanwhile": calls, "farthest_score": self.farthest, "served_auc_by_period": self.by_period()}

    def _same(self, path, number):
        _expect(files.sha256(path) == self.versions[number]["sha256"], f"version {number}: {path.name} is not the exporter's bundle")

    def _scores(self, number, predict):
        rows = self.stream.rows(number, number + 1)
        found = predict(self.stream.cells(rows))[:, 0].astype(np.float64)
        told = self.versions[number]
        if number in self.scores:
            far = float(np.max(np.abs(found - self.scores[number])))
            self.farthest = max(self.farthest, far)
            _expect(far <= NEAREST, f"version {number}: a score is {far:.2g} from the trainer's")
        far = abs(float(found.mean()) - told["next_mean"])
        _expect(far <= NEAREST, f"version {number}: the mean score is {found.mean()}, the trainer's {told['next_mean']}")
        labels = self.stream.labels[rows]
        value, pair = auc.mean_with_error(auc.placements(found, labels))[0], 1 / (labels.sum() * (~labels).sum())
        _expect(abs(value - told["next_auc"]) <= 2 * pair, f"version {number}: AUC of the next tenth is {value}, the trainer's {told['next_auc']}")
        self.served[number] = found

    def _in_one_go(self, begin):
        """All deltas of the first unbroken run at once."""
        deltas = []
        while (self.folder / files.name(begin + len(deltas) + 1, "delta")).exists():
            deltas.append(self.folder / files.name(begin + len(deltas) + 1, "delta"))
        apply(self.program, self.folder / files.name(begin, "h5"), deltas, self.work / "whole.h5")
        self._same(self.work / "whole.h5", begin + len(deltas))

    def by_period(self):
        """{period: AUC of what was served}, of the periods of which all tenths were."""
        out = {}
        for begin in range(TENTHS, max(self.served, default=0) + 1, TENTHS):
            if all(n in self.served for n in range(begin, begin + TENTHS)):
                scores = np.concatenate([self.served[n] for n in range(begin, begin + TENTHS)])
                labels = self.stream.labels[self.stream.rows(begin, begin + TENTHS)]
                out[begin // TENTHS + 1] = auc.mean_with_error(auc.placements(scores, labels))[0]
        return out
