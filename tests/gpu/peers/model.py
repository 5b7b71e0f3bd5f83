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

    def as_type(self, dtype):
        other = Arrays(self.bundle, self.device, dtype)
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
        n_tables = len(shape.vocabs)
        self.tables = [arrays(f"/tables/c{i}") for i in range(n_tables)]
        self.wide = [] if shape.kind.startswith("dcn") else [arrays(f"/tables/c{i}.w") for i in range(n_tables)]
        numerics = range(shape.numerics)
        self.numeric = torch.stack([arrays(f"/params/n{i}.w")[:, 0] for i in numerics]) if numerics else None
        self.numeric_wide = torch.stack([arrays(f"/params/n{i}.w.w")[0, 0] for i in numerics]) if numerics and self.wide else None
        self.mlp = [(arrays(f"/params/mlp.{i}.w"), arrays(f"/params/mlp.{i}.b")) for i in range(len(shape.hidden))]
        self.out = (arrays("/params/out.w"), arrays("/params/out.b"))
        layers = range(CROSS_LAYERS if shape.kind.startswith("dcn") else 0)
        self.cross = [(arrays(f"/params/cross.{i}.w"), arrays(f"/params/cross.{i}.b")) for i in layers]
        if lookup != "field":
            offsets = np.concatenate([[0], np.cumsum(shape.vocabs[:-1])]).astype(np.int64)
            self.offsets = torch.from_numpy(offsets).to(arrays.device)
            self.merged = torch.cat(self.tables)
            self.merged_wide = torch.cat(self.wide) if self.wide else None
            self.tables = self.wide = []

    def embedded(self, ids, dense):
        """x0 [rows, fields * dim]. ids: [rows, slots], or one tensor per field."""
        if self.lookup == "field":
            parts = [F.embedding(ids[f] if isinstance(ids, list) else ids[:, f], t) for f, t in enumerate(self.tables)]
            if self.numeric is not None:
                parts = [dense[:, i:i + 1] * self.numeric[i] for i in range(len(self.numeric))] + parts
            return torch.cat(parts, dim=1)
        x = F.embedding(ids + self.offsets, self.merged).flatten(1) if self.lookup == "merged" else self.lookup(ids, self.merged, self.offsets)
        return x if self.numeric is None else torch.cat([(dense[:, :, None] * self.numeric).flatten(1), x], dim=1)

    def wide_sum(self, ids, dense):
        if self.lookup == "field":
            parts = [F.embedding(ids[f] if isinstance(ids, list) else ids[:, f], t) for f, t in enumerate(self.wide)]
            if self.numeric_wide is not None:
                parts = [dense[:, i:i + 1] * self.numeric_wide[i] for i in range(len(self.numeric_wide))] + parts
            return torch.cat(parts, dim=1).sum(dim=1, keepdim=True)
        total = F.embedding(ids + self.offsets, self.merged_wide).sum(dim=1)
        return total if self.numeric_wide is None else total + (dense * self.numeric_wide).sum(dim=1, keepdim=True)

    def crossed(self, x0):
        x = x0
        for w, b in self.cross:
            x = F.linear(x, w) * x0 + b + x if self.shape.kind == "dcn" else x0 * F.linear(x, w, b) + x
        return x

    def logit(self, ids, dense):
        x0 = h = self.embedded(ids, dense)
        for w, b in self.mlp:
            h = torch.relu(F.linear(h, w, b))
        if self.cross:
            h = torch.cat([self.crossed(x0), h], dim=1)
        logit = F.linear(h, *self.out)
        if not self.cross:
            logit = logit + self.wide_sum(ids, dense)
        if self.shape.kind == "deepfm":
            e = x0.view(-1, self.shape.fields, self.shape.dim)
            logit = logit + 0.5 * (e.sum(dim=1) ** 2 - (e ** 2).sum(dim=1)).sum(dim=1, keepdim=True)
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
