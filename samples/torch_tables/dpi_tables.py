"""The embedding tables of a PyTorch model through the engine: in a bundle, which the engine keeps in memory, in the bundle's file behind a
cache, or in a store; the dense part stays in PyTorch.

    export_tables(model, "tables.h5")                       # where the model was trained
    with dpi.Model("tables.h5", options={"store.host_bytes": 2 << 30}) as engine:
        take_tables(model, engine)                          # every nn.Embedding asks the engine from now on
        scores = model(batch)
"""
import torch
from dpi_export import Builder
from torch import nn


class TableRows(nn.Module):
    """What nn.Embedding computes, from a table of the engine: ids of any shape -> [*ids.shape, dim] float32 on the CPU. Has no parameters,
    and no gradient reaches the rows. An id outside the table raises dpi.InvalidArgument."""

    def __init__(self, engine, table):
        super().__init__()
        self.engine, self.table = engine, table

    def forward(self, ids):
        flat = ids.reshape(-1).numpy()  # no copy where they are contiguous int64
        rows = self.engine.table_lookup(self.table, flat)
        return torch.from_numpy(rows).view(*ids.shape, rows.shape[1])


def tables_of(model):
    """{name: nn.Embedding} of a model; names are those of the modules."""
    found = {name: m for name, m in model.named_modules() if isinstance(m, nn.Embedding)}
    for name, m in found.items():
        if m.max_norm is not None:
            raise ValueError(f"{name}: max_norm scales rows while they are looked up")
    return found


def export_tables(model, path):
    """A bundle with the weights of every nn.Embedding. A model has a head; this one only makes the engine keep the rows as they are."""
    b = Builder("tables")
    read = []
    for name, embedding in tables_of(model).items():
        b.categorical(name, vocab_size=embedding.num_embeddings)
        b.table(name, embedding.weight.detach().numpy())
        read.append(b.embed(b.input(name), name))
    together = b.relu(b.concat(read))  # behind a linear head the engine would keep sums of rows instead
    b.head("unused", b.linear(together, [[1.0] * sum(e.embedding_dim for e in tables_of(model).values())]), activation="none")
    b.write(path)


def take_tables(model, engine):
    """Puts a TableRows in the place of every nn.Embedding, whose weights may then go; returns the model."""
    for name in tables_of(model):
        parent, _, last = name.rpartition(".")
        setattr(model.get_submodule(parent), last, TableRows(engine, name))
    return model.eval()
