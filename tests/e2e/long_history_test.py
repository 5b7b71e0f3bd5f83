#!/usr/bin/env python3
"""A model of four HSTU layers over histories of up to 16,384 events, 128 columns wide, through the library: scores beside numpy in float64, and the
peak memory of one row.

  python3 tests/e2e/long_history_test.py build/release             histories of a few hundred events in room for 16,384
  python3 tests/e2e/long_history_test.py build/release --full      one of 16,384 too: minutes

The oracle is the model with less room: what stands behind a history changes nothing. Memory is what the operating system counts (peak resident
set), of a process of its own, without what it had before the load.
"""

import json
import pathlib
import resource
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "weights" / "python"), str(ROOT / "tests" / "parity")]

from dpi_export import Builder, Executor, Rows  # noqa: E402
from engine import Engine  # noqa: E402

MOST, WIDTH, HEADS, LAYERS, VOCAB = 16384, 128, 4, 4, 500
LIMIT, LOGIT = 256 << 20, 2e-5
LENGTHS = (0, 1, 37, 300)


def model(most, divisor=MOST, seed=7):
    """The Builder of a model with room for `most` events; weights by the seed alone."""
    rng, b = np.random.default_rng(seed), Builder("long")

    def weight(*dims):
        return (rng.normal(size=dims) / np.sqrt(dims[-1])).astype(np.float32)

    hist = b.input(b.sequence("hist", VOCAB, max_len=most, missing="pad"))
    x, mask = b.embed(hist, b.table("items", weight(VOCAB, WIDTH)), pooling="none"), b.mask(hist, "length")
    for _ in range(LAYERS):
        n = b.layer_norm(x, np.ones(WIDTH), np.zeros(WIDTH))
        joined = b.unary("silu", b.linear(n, weight(4 * WIDTH, WIDTH), weight(4 * WIDTH)))
        u, v, q, k = (b.slice(joined, i * WIDTH, (i + 1) * WIDTH, axis=1) for i in range(4))
        y = b.attention(q, k, v, mask, heads=HEADS, form="silu", divisor=divisor, causal=True, scale=4.0)
        gated = b.mul(u, b.layer_norm(y, np.ones(WIDTH), np.zeros(WIDTH)))
        x = b.add(x, b.linear(gated, weight(WIDTH, WIDTH)))
    pooled = b.reduce("sum", x, mask, axis=0)
    logit = b.linear(pooled, weight(1, WIDTH) / 8, weight(1))
    b.head("ctr", b.sigmoid(logit), logit=logit)
    return b


def bags(lengths, seed=1):
    rng = np.random.default_rng(seed)
    return [rng.integers(1, VOCAB, n) for n in lengths]


def peak():
    """Bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure(library, path, lengths):
    """In a process of its own: scores of one row after the other, and how much the peak rose since before the load."""
    b = model(MOST)
    rows = [Rows.from_columns(b, {"hist": [bag]}) for bag in bags(lengths)]
    engine, before = Engine(library), peak()
    with engine.load(path, device="cpu", threads=1, max_contexts=1, max_rows=1) as loaded:
        logits = [float(loaded.predict(r, 1)[1][0, 0]) for r in rows]
    print(json.dumps({"logits": logits, "bytes": peak() - before}))


def main(build, full):
    library, wrong = build / "lib" / "libdpi.so.1", []
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "long.h5"
        model(MOST).write(path, check=None)
        lengths = LENGTHS + ((MOST,) if full else ())
        ran = subprocess.run([sys.executable, __file__, "--measure", str(library), str(path), *map(str, lengths)], check=True, capture_output=True, text=True)
        found = json.loads(ran.stdout)
        less = model(max(LENGTHS))
        want = Executor(less).run(Rows.from_columns(less, {"hist": bags(lengths)[:len(LENGTHS)]}))["logit"]["ctr"]
    for n, got, exact in zip(LENGTHS, found["logits"], want):
        if not abs(got - exact) <= LOGIT * max(1, abs(exact)):
            wrong.append(f"{n} events: {got}, expected {exact}")
    if not all(np.isfinite(found["logits"])):
        wrong.append(f"scores {found['logits']}")
    if not 0 < found["bytes"] <= LIMIT:
        wrong.append(f"the peak rose by {found['bytes']} bytes, at most {LIMIT}")
    print("\n".join(wrong) or f"{len(lengths)} histories, {found['bytes'] >> 20} MiB")
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1] == "--measure":
        measure(sys.argv[2], sys.argv[3], [int(n) for n in sys.argv[4:]])
    else:
        sys.exit(main(pathlib.Path(sys.argv[1]), "--full" in sys.argv))
