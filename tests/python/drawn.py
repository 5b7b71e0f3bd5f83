"""Batches that tests/bindings/reference_scores.c draws too, and what that C program makes of them."""

import os
import subprocess
from pathlib import Path

import numpy as np

import dpi

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("DPI_BIN", ROOT / "build/release/bin"))
ADULT, BANK, MSWEB, CAN = (ROOT / "weights/demo" / f"{name}.h5" for name in ("adult_widedeep", "bank_dcnv2", "msweb_deepfm", "msweb_can"))
GOLDEN = sorted((ROOT / "tests/e2e/golden").glob("*.h5"))
OPERATORS = sorted((ROOT / "tests/e2e/op_bundles").glob("*.h5"))


def anywhere(values):
    """The same values at an address that is no multiple of their size, as in the middle of a buffer of bytes."""
    room = np.zeros(values.nbytes + 1, np.uint8)[1:]
    room[:] = np.frombuffer(values.tobytes(), np.uint8)
    moved = room.view(values.dtype).reshape(values.shape)
    assert not moved.flags.aligned
    return moved


class Lcg:
    """The C program's generator."""

    def __init__(self, seed):
        self.state = seed

    def draw(self):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return self.state >> 33


class Part:
    """Bags and floats of one part, row by row."""

    def __init__(self, lcg, features, rows, shared, bags):
        mine = [f for f in features if shared is None or f.shared == shared]
        ids, self.offsets, dense, weights, weighted = [], [0], [], [], False
        for _ in range(rows):
            for f in (f for f in mine if f.slot >= 0):
                for _ in range(lcg.draw() % 5 if bags and f.kind == "sequence" else 1):
                    ids.append(lcg.draw() % f.vocab_size)
                    weights.append((lcg.draw() % 100 + 1) / 64 if bags and f.weighted else 1)
                    weighted |= bags and f.weighted
                self.offsets.append(len(ids))
            for f in (f for f in mine if f.slot < 0):
                dense += [np.float32(lcg.draw() % 2001) / np.float32(1000) - np.float32(1) for _ in range(f.dim)]
        self.ids, self.offsets = np.array(ids, np.int64), np.array(self.offsets, np.int64)
        self.dense = np.array(dense, np.float32).reshape(rows, -1)
        self.weights = np.array(weights, np.float32) if weighted else None


def arguments(model, rows, seed, mode):
    """Keywords of Model.predict for the batch that reference_scores draws for the same arguments."""
    lcg = Lcg(seed)
    if mode == "shared":
        user = Part(lcg, model.features, 3, True, True)
        item = Part(lcg, model.features, rows, False, True)
        starts = np.array([0, rows // 3, rows // 3, rows], np.int64)
        shared = dpi.Shared(starts, user.ids, user.dense, user.offsets, user.weights)
        return dict(ids=item.ids, dense=item.dense, offsets=item.offsets, weights=item.weights, shared=shared, rows=rows)
    part = Part(lcg, model.features, rows, None, mode == "bags")
    if mode == "bags":
        return dict(ids=part.ids, dense=part.dense, offsets=part.offsets, weights=part.weights, rows=rows)
    return dict(ids=part.ids.reshape(rows, -1), dense=part.dense, rows=rows)


def reference(bundle, rows, seed, mode):
    """The C program's scores, as bits [rows, heads]."""
    env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}  # a sanitizer's runtime, which the program has in itself
    command = [BIN / "tests/reference_scores", bundle, str(rows), str(seed), mode]
    out = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    return np.array([[int(x, 16) for x in line.split()] for line in out.stdout.splitlines()], np.uint32)


def bits(scores):
    """Scores as their bits."""
    return scores.view(np.uint32)
