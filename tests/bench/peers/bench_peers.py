#!/usr/bin/env python3
"""Scores the paper's four models with this SDK and with PyTorch in one process, on the same weights and rows.

Shape: Criteo_x4 (39 categorical fields, 910,747 rows in all, D 16), MLP of three layers, 3 cross layers. Peers: stock PyTorch eager with
one nn.Embedding per field (the paper's baseline) and eager with one merged table. Every engine gets int64 ids in host memory and returns
float32 scores in host memory, on one thread. Outputs are compared before anything is timed; a difference ends the run.

  python3 tests/bench/peers/bench_peers.py --library build/release/lib/libdpi.so.1
  python3 tests/bench/peers/bench_peers.py --library ... --models deepfm --batches 1 2048 --hidden 1024 --json out.json
"""

import argparse
import ctypes
import json
import pathlib
import sys
import tempfile
import time

import numpy as np
import torch

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "weights" / "python"))
import dpi_export  # noqa: E402

FIELD_ROWS = [44, 99, 122, 41, 220, 112, 80, 69, 92, 6, 27, 37, 72, 1446, 554, 157339, 117822, 306, 18, 11882, 630, 5, 39530,
              5131, 156656, 3176, 28, 11043, 148913, 12, 4560, 2003, 5, 154564, 18, 17, 53031, 82, 40955]
DIM = 16
MODELS = ("widedeep", "deepfm", "dcn", "dcnv2")


class Peer(torch.nn.Module):
    """One of the paper's models. merged: one table for all fields instead of one per field; the same numbers."""

    def __init__(self, kind, hidden, generator):
        super().__init__()
        self.kind = kind
        n = len(FIELD_ROWS) * DIM

        def rand(*shape, scale):
            return torch.nn.Parameter(torch.randn(*shape, generator=generator) * scale, requires_grad=False)
        self.tables = torch.nn.ParameterList(rand(v, DIM, scale=0.1) for v in FIELD_ROWS)
        self.linear = torch.nn.ParameterList(rand(v, 1, scale=0.1) for v in FIELD_ROWS)
        self.merged = torch.cat(list(self.tables))
        self.merged_linear = torch.cat(list(self.linear))
        self.offsets = torch.tensor(np.concatenate([[0], np.cumsum(FIELD_ROWS[:-1])]))
        widths = [n, hidden, hidden, hidden]
        self.w = torch.nn.ParameterList(rand(b, a, scale=(2.0 / a) ** 0.5) for a, b in zip(widths, widths[1:]))
        self.b = torch.nn.ParameterList(rand(b, scale=0.1) for b in widths[1:])
        self.out_w = rand(1, hidden + (n if kind.startswith("dcn") else 0), scale=hidden ** -0.5 * 0.3)
        self.out_b = rand(1, scale=0.1)
        shape = (1, n) if kind == "dcn" else (n, n)
        self.cross_w = torch.nn.ParameterList(rand(*shape, scale=n ** -0.5) for _ in range(3))
        self.cross_b = torch.nn.ParameterList(rand(n, scale=0.01) for _ in range(3))

    def forward(self, ids, merged):
        linear = 0
        if merged:
            x0 = torch.nn.functional.embedding(ids + self.offsets, self.merged).flatten(1)
        else:
            x0 = torch.cat([torch.nn.functional.embedding(ids[:, f], t) for f, t in enumerate(self.tables)], dim=1)
        if not self.kind.startswith("dcn"):
            linear = (torch.nn.functional.embedding(ids + self.offsets, self.merged_linear).sum(dim=1) if merged else
                      sum(torch.nn.functional.embedding(ids[:, f], t) for f, t in enumerate(self.linear)))
        h = x0
        for w, b in zip(self.w, self.b):
            h = torch.relu(torch.nn.functional.linear(h, w, b))
        if self.kind.startswith("dcn"):
            x = x0
            for w, b in zip(self.cross_w, self.cross_b):
                x = x0 * torch.nn.functional.linear(x, w) + b + x if self.kind == "dcn" else x0 * torch.nn.functional.linear(x, w, b) + x
            h = torch.cat([x, h], dim=1)
        logit = torch.nn.functional.linear(h, self.out_w, self.out_b) + linear
        if self.kind == "deepfm":
            e = x0.view(-1, len(FIELD_ROWS), DIM)
            logit = logit + 0.5 * (e.sum(dim=1) ** 2 - (e ** 2).sum(dim=1)).sum(dim=1, keepdim=True)
        return torch.sigmoid(logit)[:, 0]


def export(peer, path):
    """The same model as a bundle of primitives."""
    b = dpi_export.Builder(f"criteo_{peer.kind}")
    inputs = [b.input(b.categorical(f"c{f}", v)) for f, v in enumerate(FIELD_ROWS)]
    x0 = b.concat([b.embed(x, b.table(f"c{f}", t.numpy())) for f, (x, t) in enumerate(zip(inputs, peer.tables))], name="x0")
    h = x0
    for i, (w, bias) in enumerate(zip(peer.w, peer.b)):
        h = b.relu(b.linear(h, w.numpy(), bias.numpy(), name=f"mlp/{i}", module="mlp"), module="mlp")
    if peer.kind.startswith("dcn"):
        x = x0
        for i, (w, bias) in enumerate(zip(peer.cross_w, peer.cross_b)):
            if peer.kind == "dcn":
                x = b.add(b.add(b.mul(x0, b.linear(x, w.numpy())), b.const(bias.numpy())), x, module=f"cross/{i}")
            else:
                x = b.add(b.mul(x0, b.linear(x, w.numpy(), bias.numpy())), x, module=f"cross/{i}")
        h = b.concat([x, h])
    logit = b.linear(h, peer.out_w.numpy(), peer.out_b.numpy(), name="out")
    if not peer.kind.startswith("dcn"):
        wide = [b.embed(x, b.table(f"c{f}.w", t.numpy())) for f, (x, t) in enumerate(zip(inputs, peer.linear))]
        logit = b.add(logit, b.reduce("sum", b.concat(wide), keepdim=True), name="wide")
    if peer.kind == "deepfm":
        s = b.reduce("sum", b.reshape(x0, [len(FIELD_ROWS), DIM]), axis=0)
        fm = b.sub(b.reduce("sumsq", s, keepdim=True), b.reduce("sumsq", x0, keepdim=True))
        logit = b.add(logit, b.unary("affine", fm, a=0.5, b=0.0), name="with_fm")
    b.head("ctr", b.sigmoid(logit), logit=logit)
    b.write(str(path), check=False)


class Sdk:
    """dpi_predict_flat through ctypes."""

    class Error(ctypes.Structure):
        _fields_ = [("struct_size", ctypes.c_uint32), ("code", ctypes.c_int32), ("row", ctypes.c_int64), ("feature", ctypes.c_int64),
                    ("native_code", ctypes.c_int32), ("in_shared", ctypes.c_uint32), ("message", ctypes.c_char * 480)]

    def __init__(self, library, path, options):
        self.lib = ctypes.CDLL(str(library))
        pointer, size, i64 = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64
        self.lib.dpi_options_create.restype = pointer
        self.lib.dpi_options_set.argtypes = [pointer, ctypes.c_char_p, ctypes.c_char_p, pointer]
        self.lib.dpi_model_load.argtypes = [ctypes.c_char_p, pointer, pointer, pointer]
        self.lib.dpi_model_free.argtypes = [pointer]
        self.lib.dpi_predict_flat.argtypes = [pointer, i64, pointer, size, i64, pointer, size, pointer, size, pointer, size,
                                              ctypes.c_int32, pointer, size, ctypes.c_uint64, pointer, pointer]
        self.error = Sdk.Error(struct_size=ctypes.sizeof(Sdk.Error))
        chosen = self.lib.dpi_options_create()
        for key, value in options.items():
            self.check(self.lib.dpi_options_set(chosen, key.encode(), value.encode(), ctypes.byref(self.error)))
        self.model = pointer()
        self.check(self.lib.dpi_model_load(str(path).encode(), chosen, ctypes.byref(self.model), ctypes.byref(self.error)))

    def check(self, status):
        if status != 0:
            raise SystemExit(f"dpi: {self.error.message.decode()}")

    def __call__(self, ids, out):
        self.check(self.lib.dpi_predict_flat(self.model, len(ids), None, 0, 0, ids.ctypes.data, ids.size, None, 0, None, 0, 0,
                                             out.ctypes.data, out.size, 0, None, ctypes.byref(self.error)))

    def close(self):
        self.lib.dpi_model_free(self.model)


def measure(call, seconds):
    """(median, p99) in microseconds of at least 20 calls and about `seconds`."""
    for _ in range(3):
        call(0)
    times, end = [], time.perf_counter() + seconds
    while len(times) < 20 or time.perf_counter() < end:
        start = time.perf_counter()
        call(len(times))
        times.append((time.perf_counter() - start) * 1e6)
    return float(np.median(times)), float(np.percentile(times, 99))


def make_rows(batch, rng):
    """Ids with the skew of real traffic: Zipf 1.1 over each field's rows, shuffled."""
    columns = [(rng.zipf(1.1, batch) * 2654435761 % v).astype(np.int64) for v in FIELD_ROWS]
    return np.ascontiguousarray(np.stack(columns, axis=1))


def run_model(kind, args, folder, results):
    peer = Peer(kind, args.hidden, torch.Generator().manual_seed(7)).eval()
    path = folder / f"{kind}.h5"
    export(peer, path)
    engines = {"dpi": {}, "dpi, unfolded": {"debug.fold": "off"}}
    sdk = {name: Sdk(args.library, path, {"device": "cpu", "max_contexts": "1", **o}) for name, o in engines.items()}
    rng = np.random.default_rng(1)
    for batch in args.batches:
        sets = [make_rows(batch, rng) for _ in range(8)]
        tensors = [torch.from_numpy(s) for s in sets]
        out = np.empty(batch, dtype=np.float32)
        calls = {"torch, per field": lambda i: peer(tensors[i % 8], False).numpy(), "torch, merged": lambda i: peer(tensors[i % 8], True).numpy()}
        for name, engine in sdk.items():
            calls[name] = lambda i, engine=engine: engine(sets[i % 8], out)
        want = [peer(t, False).numpy() for t in tensors]
        for name, engine in sdk.items():
            for s, w in zip(sets, want):
                engine(s, out)
                worst = float(np.max(np.abs(out - w)))
                if not worst <= 2e-6:
                    raise SystemExit(f"{kind}, batch {batch}: {name} differs from torch by {worst}")
        row = {"model": kind, "batch": batch, **{name: measure(call, args.seconds) for name, call in calls.items()}}
        results.append(row)
        best = min(row["torch, per field"][0], row["torch, merged"][0])
        print(f"{kind:9} {batch:6} " + " ".join(f"{row[n][0]:10.1f} {row[n][1]:10.1f}" for n in calls) +
              f"   {row['torch, per field'][0] / row['dpi'][0]:6.2f}x {best / row['dpi'][0]:6.2f}x", flush=True)
    for engine in sdk.values():
        engine.close()
    path.unlink()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--library", type=pathlib.Path, default=ROOT / "build/release/lib/libdpi.so.1")
    p.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS)
    p.add_argument("--batches", nargs="+", type=int, default=[1, 64, 512, 2048])
    p.add_argument("--hidden", type=int, default=512)
    p.add_argument("--seconds", type=float, default=2.0, help="per engine and batch")
    p.add_argument("--json", type=pathlib.Path)
    args = p.parse_args()
    torch.set_num_threads(1)
    results = []
    print("median and p99 in microseconds: torch per field, torch merged, dpi, dpi unfolded; ratios of medians over torch per field "
          "and over the better torch")
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        for kind in args.models:
            run_model(kind, args, pathlib.Path(folder), results)
    if args.json:
        args.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
