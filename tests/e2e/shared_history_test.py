#!/usr/bin/env python3
"""Sequences [history of the user, candidate]: scores of every device beside numpy in float64, with what is done once per user and without
(debug.skip=hoist), of requests with users given once and with each row's own user; what `dpi plan` draws as the user's; and a model whose mask lets
the history read the candidate.

  python3 tests/e2e/shared_history_test.py build/release
"""

import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "weights" / "python"), str(ROOT / "tests" / "parity")]

from dpi_export import Builder, Executor, Rows  # noqa: E402
from engine import Engine  # noqa: E402

VOCAB, WIDTH, HEADS, LAYERS, LOGIT = 50, 16, 2, 3, 2e-5


def model(most, form="silu", bias=True, open_mask=False, seed=7):
    """HSTU's layers, or a transformer's with form="softmax", over a history of the user and one candidate."""
    rng, b = np.random.default_rng(seed), Builder("shared")

    def weight(*dims):
        return (rng.normal(size=dims) / np.sqrt(dims[-1])).astype(np.float32)

    hist = b.input(b.sequence("hist", VOCAB, max_len=most, missing="pad", space="shared"))
    items = b.table("items", weight(VOCAB, WIDTH))
    candidate = b.reshape(b.embed(b.input(b.categorical("item", VOCAB)), items), [1, WIDTH])
    x = b.concat([b.embed(hist, items, pooling="none"), candidate], axis=0)
    x = b.add(x, b.const(weight(most + 1, WIDTH)))
    mask = b.concat([b.mask(hist, "length"), b.const(np.ones(1, np.float32))], axis=0)
    line = b.const(weight(HEADS, 2 * most + 1)) if bias else None
    for _ in range(LAYERS):
        n = b.layer_norm(x, np.ones(WIDTH), np.zeros(WIDTH))
        joined = b.unary("silu", b.linear(n, weight(4 * WIDTH, WIDTH), weight(4 * WIDTH)))
        u, v, q, k = (b.slice(joined, i * WIDTH, (i + 1) * WIDTH, axis=1) for i in range(4))
        more = {"divisor": float(most)} if form == "silu" else {}
        more |= {"relative": True} if bias else {}
        y = b.attention(q, k, v, mask, line, heads=HEADS, form=form, causal=not open_mask, scale=0.5, **more)
        x = b.add(x, b.linear(b.mul(u, b.layer_norm(y, np.ones(WIDTH), np.zeros(WIDTH))), weight(WIDTH, WIDTH)))
    logit = b.linear(b.reshape(b.slice(x, most, most + 1, axis=0), [WIDTH]), weight(1, WIDTH), weight(1))
    b.head("ctr", b.sigmoid(logit), logit=logit)
    return b


def request(b, counts, most, rng):
    """Users with as many candidates, and the same rows each with its own user."""
    bags = [rng.integers(1, VOCAB, rng.integers(0, most + 1)) for _ in counts]
    goods = rng.integers(1, VOCAB, sum(counts))
    flat = [bags[u] for u, n in enumerate(counts) for _ in range(n)]
    return (Rows.from_columns(b, {"hist": bags, "item": goods}, shared_counts=list(counts)), Rows.from_columns(b, {"hist": flat, "item": goods}))


def once_per_user(build, path, *options):
    """Attentions of shared rows in the plan's text."""
    text = subprocess.run([build / "bin" / "dpi", "plan", str(path), *options], check=True, capture_output=True, text=True).stdout
    shared = set(re.findall(r"^value (%\d+) '.*' shared ", text, re.M))
    return sum(v in shared for v in re.findall(r"  Attention '.*-> \((%\d+):", text)), text


def compare(engine, build, path, b, most, hoisted):
    rng, counts = np.random.default_rng(most), (0, 5, 1, 70)
    shared, flat = request(b, counts, most, rng)
    want = np.asarray(Executor(b).run(flat)["logit"]["ctr"]).reshape(-1)
    for device in ("ref", "cpu", "cuda_emu"):
        for more in ({}, {"scratch_bytes": 150000}, {"debug.skip": "hoist"}, {"max_rows": 16}, {"user_cache_bytes": 4 << 20}):
            if device == "cuda_emu" and more and "scratch_bytes" not in more:
                continue
            with engine.load(path, device=device, threads=1, **more) as loaded:
                for name, rows in (("shared", shared), ("shared again", shared), ("flat", flat)):
                    got = loaded.predict(rows, sum(counts))[1].reshape(-1)
                    off = np.abs(got - want) / np.maximum(1, np.abs(want))
                    if not np.all(off <= LOGIT):
                        yield f"{b.name} {device} {more} {name}: {off.max()}"
    found, text = once_per_user(build, path)
    if found != hoisted:
        yield f"{found} attentions of shared rows, expected {hoisted}:\n{text}"


def main(build):
    wrong, engine = [], Engine(str(build / "lib" / "libdpi.so.1"))
    with tempfile.TemporaryDirectory() as folder:
        for k, (most, more, hoisted) in enumerate(((9, {}, LAYERS - 1), (40, {"form": "softmax", "bias": False}, LAYERS - 1), (7, {"open_mask": True}, 0))):
            path, b = pathlib.Path(folder) / f"{k}.h5", model(most, **more)
            b.write(path, check=None)
            wrong += compare(engine, build, path, b, most, hoisted)
    print("\n".join(wrong) or "ok")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
