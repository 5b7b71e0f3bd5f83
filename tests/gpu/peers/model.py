"""The benchmark's models in torch, on the numbers of a bundle. Our own code, written after the papers and the modules they name; one class, three
ways to look rows up: one table per field (the DPIFrame paper's baseline), one merged table with offsets, and a given lookup function.

Runs with torch 1.13 on a CPU and with torch 2.11 on a GPU."""

import json
import pathlib
import sys

import numpy as np
import torch
from torch.nn import functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "stages"))
from spec import CROSS_LAYERS, Shape  # noqa: E402

DTYPES = {"fp64": torch.float64, "fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


def shape_of(entry):
    kind, dataset, dim, hidden, dry = entry
    return Shape(kind, dataset, dim, tuple(hidden), dry)


class Arrays:
    """The arrays of a bundle as torch tensors on a device; as_type gives them in another type without reading them again. tables: a type that
    tables are rounded to first, or None."""

    def __init__(self, bundle, device, dtype=torch.float32, tables=None):
        self.bundle, self.device, self.dtype, self.tables = str(bundle), device, dtype, tables
        self.index = json.loads(pathlib.Path(f"{bundle}.json").read_text())
        self.read = {}

    def as_type(self, dtype, tables=None):
        other = Arrays(self.bundle, self.device, dtype, tables)
        other.read = self.read
        return other

    def __call__(self, path):
        if path not in self.read:
            entry = self.index[path]
            values = np.memmap(self.bundle, np.float32, "r", entry["offset"], tuple(entry["shape"]))
            self.read[path] = torch.from_numpy(np.array(values)).to(self.device)
        values = self.read[path]
        return (values.to(self.tables) if self.tables and path.startswith("/tables/") else values).to(self.dtype)


def set_precision(precision):
    """Every peer gets the matrix units its precision allows, and no more."""
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")


class Peer(torch.nn.Module):
    """lookup: "field", "merged", or a function (ids, tables, offsets) -> [rows, fields * dim]."""

    def __init__(self, shape, arrays, lookup):
        super().__init__()
        self.shape, self.lookup, self.dtype = shape, lookup, arrays.dtype
        self.layers, self.cross_layers = len(shape.hidden), CROSS_LAYERS if shape.kind.startswith("dcn") else 0
        n_tables, numerics, wide = len(shape.vocabs), range(shape.numerics), not shape.kind.startswith("dcn")
        self.take("numeric", torch.stack([arrays(f"/params/n{i}.w")[:, 0] for i in numerics]) if numerics else None)
        self.take("numeric_wide", torch.stack([arrays(f"/params/n{i}.w.w")[0, 0] for i in numerics]) if numerics and wide else None)
        for name in [*(f"mlp.{i}" for i in range(self.layers)), "out", *(f"cross.{i}" for i in range(self.cross_layers))]:
            self.take(name + ".w", arrays(f"/params/{name}.w"))
            self.take(name + ".b", arrays(f"/params/{name}.b"))
        tables, wides = ([arrays(f"/tables/c{i}{suffix}") for i in range(n_tables)] if kept else [] for suffix, kept in (("", True), (".w", wide)))
        if lookup == "field":
            for name, values in [("tables", tables), ("wide", wides)]:
                for i, table in enumerate(values):
                    self.take(f"{name}.{i}", table)
            return
        offsets = np.concatenate([[0], np.cumsum(shape.vocabs[:-1])]).astype(np.int64)
        self.take("offsets", torch.from_numpy(offsets).to(arrays.device))
        self.take("narrow_offsets", self.offsets.int())
        self.take("merged", torch.cat(tables))
        self.take("merged_wide", torch.cat(wides) if wides else None)

    def take(self, name, values):
        """A weight as a buffer: torch.compile may then rely on it to stay where it is, while a tensor in a plain list is an input of the graph, which
        its own captured graphs copy at every call, table by table."""
        self.register_buffer(name.replace(".", "_"), values, persistent=False)

    def weights(self, name):
        return getattr(self, f"{name.replace('.', '_')}_w"), getattr(self, f"{name.replace('.', '_')}_b")

    def rows(self, ids):
        """Rows of the merged table, in the ids' own type."""
        return ids + (self.narrow_offsets if ids.dtype == torch.int32 else self.offsets)

    def by_field(self, ids, which):
        fields = range(len(self.shape.vocabs))
        return [F.embedding(ids[f] if isinstance(ids, list) else ids[:, f], getattr(self, f"{which}_{f}")) for f in fields]

    def embedded(self, ids, dense):
        """x0 [rows, fields * dim]. ids: [rows, slots], or one tensor per field."""
        if self.lookup == "field":
            parts = self.by_field(ids, "tables")
            if self.numeric is not None:
                parts = [dense[:, i:i + 1] * self.numeric[i] for i in range(len(self.numeric))] + parts
            return torch.cat(parts, dim=1)
        if self.lookup == "merged":
            x = F.embedding(self.rows(ids), self.merged).flatten(1)
        else:
            x = self.lookup(ids, self.merged, self.narrow_offsets if ids.dtype == torch.int32 else self.offsets)
        return x if self.numeric is None else torch.cat([(dense[:, :, None] * self.numeric).flatten(1), x], dim=1)

    def wide_sum(self, ids, dense):
        if self.lookup == "field":
            parts = self.by_field(ids, "wide")
            if self.numeric_wide is not None:
                parts = [dense[:, i:i + 1] * self.numeric_wide[i] for i in range(len(self.numeric_wide))] + parts
            return torch.cat(parts, dim=1).sum(dim=1, keepdim=True)
        total = F.embedding(self.rows(ids), self.merged_wide).sum(dim=1)
        return total if self.numeric_wide is None else total + (dense * self.numeric_wide).sum(dim=1, keepdim=True)

    def crossed(self, x0):
        x = x0
        for i in range(self.cross_layers):
            w, b = self.weights(f"cross.{i}")
            x = F.linear(x, w) * x0 + b + x if self.shape.kind == "dcn" else x0 * F.linear(x, w, b) + x
        return x

    def logit(self, ids, dense):
        x0 = h = self.embedded(ids, dense)
        for i in range(self.layers):
            h = torch.relu(F.linear(h, *self.weights(f"mlp.{i}")))
        if self.cross_layers:
            h = torch.cat([self.crossed(x0), h], dim=1)
        logit = F.linear(h, *self.weights("out"))
        if not self.cross_layers:
            logit = logit + self.wide_sum(ids, dense)
        if self.shape.kind == "deepfm":
            e = x0.view(-1, self.shape.fields, self.shape.dim).float()  # squares of sums: 16 bits would be wrong, not fast
            logit = logit + (0.5 * (e.sum(dim=1) ** 2 - (e ** 2).sum(dim=1)).sum(dim=1, keepdim=True)).to(logit.dtype)
        return logit

    def forward(self, ids, dense):
        """(scores, logits), each [rows]."""
        logit = self.logit(ids, dense)
        return torch.sigmoid(logit)[:, 0], logit[:, 0]


def load_rows(job):
    """(ids [sets, batch, slots] int64, dense [sets, batch, columns] float32 or None) as numpy."""
    shape = shape_of(job["shape"])
    ids = np.fromfile(job["ids"], np.int64).reshape(job["sets"], job["batch"], len(shape.vocabs))
    dense = np.fromfile(job["dense"], np.float32).reshape(job["sets"], job["batch"], -1) if job["dense"] else None
    return ids, dense
