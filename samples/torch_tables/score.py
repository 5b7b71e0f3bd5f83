#!/usr/bin/env python3
"""Scores a PyTorch model whose tables are in the engine's host tier, and compares rows and scores with the model that has them itself.

    score.py BUNDLE [--host-bytes 400000] [--batches 50]

The bundle is written first. Exit status 1: a row or a score is another.
"""
import argparse
import copy

import dpi
import torch
from dpi_tables import export_tables, tables_of, take_tables
from torch import nn

ROWS = 64  # of a batch


class Net(nn.Module):
    """A user, a history that the item attends to, a city: an attention that runs in PyTorch, as it was trained."""

    def __init__(self):
        super().__init__()
        self.user, self.item, self.city = nn.Embedding(20000, 16), nn.Embedding(5000, 16, padding_idx=0), nn.Embedding(200, 8)
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(56, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, batch):
        item, history = self.item(batch["item"]), self.item(batch["history"])
        seen, _ = self.attention(item[:, None], history, history)
        x = torch.cat([self.user(batch["user"]), item, seen[:, 0], self.city(batch["city"])], dim=1)
        return torch.sigmoid(self.mlp(x))


def batch_of(rows):
    """Ids as a service sees them: a few often, most seldom."""
    def often(n, *shape):
        return (n * torch.rand(*shape) ** 4).long()
    return {"user": often(20000, rows), "item": often(5000, rows), "history": often(5000, rows, 10), "city": often(200, rows)}


def same_rows(full, engine):
    """Whether every row of every table has the bits that PyTorch has."""
    for name, embedding in tables_of(full).items():
        for at in torch.arange(embedding.num_embeddings).split(500):
            rows = torch.from_numpy(engine.table_lookup(name, at.numpy()))
            if not torch.equal(rows.view(torch.int32), embedding.weight.detach()[at].view(torch.int32)):
                return False
    return True


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bundle")
    parser.add_argument("--host-bytes", type=int, default=400_000)
    parser.add_argument("--batches", type=int, default=50)
    args = parser.parse_args()

    # %% Training would be here. Its tables go into the bundle; the dense part would be saved as ever.
    torch.manual_seed(7)
    full = Net().eval()
    export_tables(full, args.bundle)
    size = sum(4 * e.weight.numel() for e in tables_of(full).values())

    # %% Serving: a cache of host_bytes in front of the bundle's file, and the model without its tables.
    options = {"store.host_bytes": args.host_bytes, "store.resident_bytes": 0}
    with dpi.Model(args.bundle, device="cpu", options=options) as engine:
        net = take_tables(copy.deepcopy(full), engine)
        print(f"{size} bytes of tables in {args.bundle}, {sum(4 * p.numel() for p in net.parameters())} bytes in PyTorch")
        furthest = 0.0
        for _ in range(args.batches):
            batch = batch_of(ROWS)
            furthest = max(furthest, (net(batch) - full(batch)).abs().max().item())
        tiers = engine.counters()["tiers"]
        hits, late = (sum(t[what] for t in tiers) for what in ("hits", "late"))
        print(f"{args.batches} batches of {ROWS} rows: {hits} ids were in the host tier, {late} waited for the file")
        same = same_rows(full, engine)
        print(f"rows: {'the same bits' if same else 'OTHERS'}; scores: largest difference {furthest:.3g}")
        return 0 if same and furthest <= 1e-6 else 1


if __name__ == "__main__":
    raise SystemExit(main())
