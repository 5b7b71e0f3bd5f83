"""Models over Criteo's 39 fields (as FuxiCTR's Criteo_x4 buckets them), each a torch module that takes {"ids": [B, 39]} and gives [B] or [B, 2]."""

import torch
import torch.nn.functional as F
from torch import nn

FIELD_ROWS = [44, 99, 122, 41, 220, 112, 80, 69, 92, 6, 27, 37, 72, 1446, 554, 157339, 117822, 306, 18, 11882, 630, 5, 39530,
              5131, 156656, 3176, 28, 11043, 148913, 12, 4560, 2003, 5, 154564, 18, 17, 53031, 82, 40955]
DIM = 16
HIDDEN = (400, 400, 400)


def mlp(width, hidden, last=1):
    layers = []
    for h in hidden:
        layers += [nn.Linear(width, h), nn.ReLU()]
        width = h
    return nn.Sequential(*layers, *([nn.Linear(width, last)] if last else []))


class Fields(nn.Module):
    """One table for all fields, each behind its own offset: the best form for the peers."""

    def __init__(self, rows, dim):
        super().__init__()
        self.table = nn.Embedding(sum(rows), dim)
        self.register_buffer("offsets", torch.tensor([sum(rows[:i]) for i in range(len(rows))]))

    def forward(self, ids):
        return self.table(ids + self.offsets)


class Base(nn.Module):
    """Embeddings [B, fields, dim]; `logit` of the subclass."""

    def __init__(self):
        super().__init__()
        self.fields, self.n, self.width = Fields(FIELD_ROWS, DIM), len(FIELD_ROWS), len(FIELD_ROWS) * DIM

    def forward(self, batch):
        return torch.sigmoid(self.logit(batch["ids"], self.fields(batch["ids"])))


class XDeepFm(Base):
    """Linear part, compressed interactions of two layers, MLP (arXiv 1803.05170)."""

    def __init__(self, maps=(16, 16)):
        super().__init__()
        self.linear, self.mlp = Fields(FIELD_ROWS, 1), mlp(self.width, HIDDEN)
        self.cin = nn.ModuleList(nn.Conv1d(self.n * before, after, 1) for before, after in zip((self.n, *maps), maps))
        self.out = nn.Linear(sum(maps), 1)

    def logit(self, ids, e):
        x, pooled = e, []
        for conv in self.cin:
            x = conv((e.unsqueeze(2) * x.unsqueeze(1)).flatten(1, 2))
            pooled.append(x.sum(dim=2))
        return (self.linear(ids).sum(dim=(1, 2)) + self.out(torch.cat(pooled, 1)).squeeze(1) + self.mlp(e.flatten(1)).squeeze(1))


class SelfAttention(nn.Module):
    """Over fields, with a residual projection (arXiv 1810.11921)."""

    def __init__(self, dim, heads, width):
        super().__init__()
        self.heads, self.width = heads, width
        self.q, self.k, self.v, self.res = (nn.Linear(dim, heads * width, bias=False) for _ in range(4))

    def forward(self, x):
        q, k, v = (p(x).reshape(x.shape[0], x.shape[1], self.heads, self.width).transpose(1, 2) for p in (self.q, self.k, self.v))
        a = torch.softmax(q @ k.transpose(2, 3), dim=3)
        return torch.relu((a @ v).transpose(1, 2).flatten(2) + self.res(x))


class AutoInt(Base):
    """AutoInt+: three layers of attention beside an MLP."""

    def __init__(self):
        super().__init__()
        self.attention = nn.Sequential(SelfAttention(DIM, 2, 16), SelfAttention(32, 2, 16), SelfAttention(32, 2, 16))
        self.out, self.mlp = nn.Linear(self.n * 32, 1), mlp(self.width, HIDDEN)

    def logit(self, ids, e):
        return (self.out(self.attention(e).flatten(1)) + self.mlp(e.flatten(1))).squeeze(1)


class MaskNet(Base):
    """Three parallel mask blocks over normed embeddings (arXiv 2102.07619)."""

    def __init__(self, blocks=3, width=64):
        super().__init__()
        self.gain, self.shift = nn.Parameter(torch.ones(self.n, DIM)), nn.Parameter(torch.zeros(self.n, DIM))
        self.masks = nn.ModuleList(nn.Sequential(nn.Linear(self.width, 128), nn.ReLU(), nn.Linear(128, self.width)) for _ in range(blocks))
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(self.width, width, bias=False), nn.LayerNorm(width), nn.ReLU()) for _ in range(blocks))
        self.mlp = mlp(blocks * width, HIDDEN)

    def logit(self, ids, e):
        normed = (F.layer_norm(e, (DIM,)) * self.gain + self.shift).flatten(1)
        blocks = [layer(mask(e.flatten(1)) * normed) for mask, layer in zip(self.masks, self.layers)]
        return self.mlp(torch.cat(blocks, 1)).squeeze(1)


class MMoE(Base):
    """Four experts, two tasks with a gate and a tower each."""

    def __init__(self, experts=4, tasks=2):
        super().__init__()
        self.experts = nn.ModuleList(mlp(self.width, (256, 128), None) for _ in range(experts))
        self.gates = nn.ModuleList(nn.Linear(self.width, experts) for _ in range(tasks))
        self.towers = nn.ModuleList(mlp(128, (64,)) for _ in range(tasks))

    def logit(self, ids, e):
        x = e.flatten(1)
        found = torch.stack([expert(x) for expert in self.experts], 1)
        mixed = [(torch.softmax(gate(x), 1).unsqueeze(2) * found).sum(1) for gate in self.gates]
        return torch.cat([tower(m) for tower, m in zip(self.towers, mixed)], 1)


class Ple(Base):
    """One layer of progressive extraction: experts of each task beside shared ones."""

    def __init__(self, tasks=2, own=2, shared=2):
        super().__init__()
        self.own = nn.ModuleList(nn.ModuleList(mlp(self.width, (256, 128), None) for _ in range(own)) for _ in range(tasks))
        self.shared = nn.ModuleList(mlp(self.width, (256, 128), None) for _ in range(shared))
        self.gates = nn.ModuleList(nn.Linear(self.width, own + shared) for _ in range(tasks))
        self.towers = nn.ModuleList(mlp(128, (64,)) for _ in range(tasks))

    def logit(self, ids, e):
        x = e.flatten(1)
        shared, logits = [expert(x) for expert in self.shared], []
        for own, gate, tower in zip(self.own, self.gates, self.towers):
            found = torch.stack([expert(x) for expert in own] + shared, 1)
            logits.append(tower((torch.softmax(gate(x), 1).unsqueeze(2) * found).sum(1)))
        return torch.cat(logits, 1)


class FinalMlp(Base):
    """Two MLPs behind gates over the fields, joined by a bilinear form in groups (arXiv 2304.00902)."""

    def __init__(self, width=400, groups=4):
        super().__init__()
        self.groups = groups
        self.gates = nn.ParameterList(nn.Parameter(torch.zeros(1, DIM)) for _ in range(2))
        self.select = nn.ModuleList(mlp(DIM, (64,), self.width) for _ in range(2))
        self.streams = nn.ModuleList(mlp(self.width, (400, width), None) for _ in range(2))
        self.linear = nn.ModuleList(nn.Linear(width, 1) for _ in range(2))
        self.form = nn.Parameter(torch.randn(groups, width // groups, width // groups) * 0.05)

    def logit(self, ids, e):
        x, streams = e.flatten(1), []
        for gate, select, stream in zip(self.gates, self.select, self.streams):
            streams.append(stream(x * 2 * torch.sigmoid(select(gate))))
        a, b = (s.reshape(s.shape[0], self.groups, 1, -1) for s in streams)
        joined = ((a @ self.form) @ b.transpose(2, 3)).reshape(-1, self.groups).sum(1)
        return self.linear[0](streams[0]).squeeze(1) + self.linear[1](streams[1]).squeeze(1) + joined


class Dlrm(nn.Module):
    """{"ids": [B, 26], "dense": [B, 13]}: dots of all pairs of the 26 embeddings and the bottom MLP (arXiv 1906.00091)."""

    def __init__(self):
        super().__init__()
        self.fields, self.bottom = Fields(FIELD_ROWS[13:], DIM), mlp(13, (512, 256, DIM), None)
        self.register_buffer("pairs", torch.tril_indices(27, 27, -1))
        self.top = mlp(DIM + 27 * 26 // 2, (512, 256))

    def forward(self, batch):
        dense = self.bottom(batch["dense"])
        x = torch.cat([dense.unsqueeze(1), self.fields(batch["ids"])], 1)
        dots = (x @ x.transpose(1, 2)).flatten(1)[:, self.pairs[0] * 27 + self.pairs[1]]
        return torch.sigmoid(self.top(torch.cat([dense, dots], 1)).squeeze(1))


MODELS = {"xdeepfm": XDeepFm, "autoint": AutoInt, "masknet": MaskNet, "mmoe": MMoE, "ple": Ple, "finalmlp": FinalMlp, "dlrm": Dlrm}
