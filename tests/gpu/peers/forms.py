"""The ways in which torch is asked to score: what each form copies, looks up, compiles and captures.

The timed region is the same as ours: rows in pageable host memory in, scores in host memory out. Beside it, with inputs already on the device: the
time from events around many runs."""

import dataclasses
import time

import numpy as np
import torch
from model import DTYPES, Peer, set_precision, shape_of

try:
    from triton_lookup import lookup as triton_lookup
except ImportError:  # no Triton: the same function in plain torch, for the dry run
    triton_lookup = None


@dataclasses.dataclass(frozen=True)
class Form:
    """name, how rows are looked up ("field", "merged", "triton"), and what is done to the module."""
    name: str
    lookup: str
    copies: str = "one"  # "field": one copy and one cast per field, as the stock code does
    capture: bool = False
    compile_mode: str = ""
    about: str = ""


FORMS = {f.name: f for f in (
    Form("eager_field_copies", "field", "field", about="stock eager: one table, one copy and one cast per field (the paper's PyTorch, PyTorch-A)"),
    Form("eager_field", "field", about="one copy, one table per field (PyTorch-B)"),
    Form("eager_merged", "merged", about="one copy, one merged table"),
    Form("graph_merged", "merged", capture=True, about="merged table, captured by hand in a CUDA graph"),
    Form("graph_triton", "triton", capture=True, about="own Triton multi-table lookup, cuBLAS, captured by hand"),
    Form("compiled_field", "field", compile_mode="default", about="torch.compile of one table per field"),
    Form("compiled_merged", "merged", compile_mode="default", about="torch.compile of the merged table"),
    Form("compiled_merged_overhead", "merged", compile_mode="reduce-overhead", about="torch.compile with its own graphs"),
    Form("graph_compiled", "merged", capture=True, compile_mode="default", about="compiled merged table, captured by hand"),
    Form("graph_autotuned", "merged", capture=True, compile_mode="max-autotune-no-cudagraphs",
         about="compiled with autotuning, captured by hand: the strongest framework peer"),
)}


class Device:
    """A GPU, or for the dry run a CPU on which every path is taken as well as it can be."""

    def __init__(self):
        self.cuda = torch.cuda.is_available()
        self.name = "cuda" if self.cuda else "cpu"

    def synchronize(self):
        if self.cuda:
            torch.cuda.synchronize()

    def pinned(self, tensor):
        return tensor.pin_memory() if self.cuda else tensor.clone()

    def capture(self, work):
        """(replay, outputs) of a CUDA graph of work()."""
        if not self.cuda:
            out = [t.clone() for t in work()]

            def replay():
                for kept, fresh in zip(out, work()):
                    kept.copy_(fresh)
            return replay, out
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                work()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = list(work())
        return graph.replay, out

    def device_us(self, works, n):
        """Microseconds of one run from events around n runs that go through `works` in turn; the best of three rounds."""
        for work in works:
            work()
        self.synchronize()
        best = float("inf")
        for _ in range(3):
            if not self.cuda:
                start = time.perf_counter()
            else:
                begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                begin.record()
            for i in range(n):
                works[i % len(works)]()
            if not self.cuda:
                best = min(best, (time.perf_counter() - start) / n * 1e6)
                continue
            end.record()
            end.synchronize()
            best = min(best, begin.elapsed_time(end) / n * 1e3)
        return best


def compiled(module, mode):
    if not hasattr(torch, "compile"):
        return module
    torch._dynamo.reset()
    return torch.compile(module, dynamic=False, **({} if mode == "default" else {"mode": mode}))


class Runner:
    """One form of one model on one set of rows. ids: numpy [sets, batch, slots], dense: [sets, batch, columns] or None."""

    def __init__(self, form, job, arrays, rows, device):
        self.form, self.device = form, device
        ids, dense = rows
        set_precision(job["precision"])
        self.dtype = DTYPES[job["precision"]]
        if not device.cuda and self.dtype is torch.float16:
            self.dtype = torch.float32  # torch has no half products on a CPU
        lookup = form.lookup
        if lookup == "triton":
            lookup = triton_lookup if device.cuda and triton_lookup else plain_lookup
        self.peer = Peer(shape_of(job["shape"]), arrays.as_type(self.dtype), lookup)
        self.module = compiled(self.peer, form.compile_mode) if form.compile_mode else self.peer
        self.host_ids = [torch.from_numpy(s) for s in ids]  # int64, as a caller has them
        self.id_type = torch.int64 if form.copies == "field" else torch.int32  # on the device; the stock code casts to int64
        self.host_dense = [None] * len(ids) if dense is None else [torch.from_numpy(s) for s in dense]
        if form.copies == "field":  # the stock loader's matrix: every column of a row in one float type
            parts = ids.astype(np.float64) if dense is None else np.concatenate([dense.astype(np.float64), ids], axis=2)
            self.matrix = [torch.from_numpy(np.ascontiguousarray(s)) for s in parts]
            self.numerics = 0 if dense is None else dense.shape[2]
        self.resident = [(i.to(self.id_type).to(device.name), None if d is None else d.to(device.name).to(self.dtype)) for i, d in zip(self.host_ids, self.host_dense)]
        self.graphs = [device.capture(lambda s=s: self.module(*self.resident[s])) for s in range(len(ids))] if form.capture else []
        if form.capture:
            self.pinned_ids = device.pinned(self.host_ids[0].to(self.id_type))
            self.pinned_dense = None if dense is None else device.pinned(self.host_dense[0])
            self.pinned_out = device.pinned(torch.empty(ids.shape[1], dtype=self.dtype))

    def call(self, s):
        """Rows of set s in pageable host memory -> float32 scores in host memory."""
        s %= len(self.host_ids)
        if self.form.capture:
            return self._replay(s)
        if self.form.copies == "field":
            columns = [self.matrix[s][:, k].to(self.device.name) for k in range(self.matrix[s].shape[1])]
            ids = [c.long() for c in columns[self.numerics:]]
            dense = torch.stack(columns[:self.numerics], dim=1).to(self.dtype) if self.numerics else None
            return self.module(ids, dense)[0].float().cpu()
        ids = self.host_ids[s].to(self.id_type).to(self.device.name)
        dense = None if self.host_dense[s] is None else self.host_dense[s].to(self.device.name).to(self.dtype)
        return self.module(ids, dense)[0].float().cpu()

    def _replay(self, s):
        replay, out = self.graphs[s]
        ids, dense = self.resident[s]
        self.pinned_ids.copy_(self.host_ids[s])  # narrows
        ids.copy_(self.pinned_ids, non_blocking=True)
        if dense is not None:
            self.pinned_dense.copy_(self.host_dense[s])
            dense.copy_(self.pinned_dense, non_blocking=True)
        replay()
        self.pinned_out.copy_(out[0], non_blocking=True)
        self.device.synchronize()
        return self.pinned_out.float()

    def logits(self, s):
        if self.form.capture:
            self.graphs[s][0]()
            self.device.synchronize()
            return self.graphs[s][1][1].float().cpu().numpy()
        return self.module(*self.resident[s])[1].float().cpu().numpy()

    def device_works(self):
        if self.form.capture:
            return [replay for replay, _ in self.graphs]
        return [lambda s=s: self.module(*self.resident[s]) for s in range(len(self.resident))]

    def lookup_works(self):
        """The embedding stage alone, captured where the form captures."""
        works = [lambda s=s: (self.peer.embedded(*self.resident[s]),) for s in range(len(self.resident))]
        return [self.device.capture(w)[0] for w in works] if self.form.capture else works


def plain_lookup(ids, table, offsets):
    return torch.nn.functional.embedding(ids + offsets, table).flatten(1)
