"""Interactions of fields: dots, einsum, residual and gated layers, experts, several heads, shared towers."""

import torch
import torch.nn.functional as F
from torch import nn

from .case import N, Case, ids

SIZES = {"user": 12, "item": 15, "city": 7, "device": 4}


def fields():
    """Example and features of four categorical columns."""
    return {name: ids(size) for name, size in SIZES.items()}, {name: {"vocab_size": size} for name, size in SIZES.items()}


class Dlrm(nn.Module):
    """Bottom network, dots of all pairs (lower triangle), top network."""

    def __init__(self, dim=4):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(size, dim) for size in SIZES.values())
        self.bottom = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, dim), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(dim + 10, 8), nn.ReLU(), nn.Linear(8, 1), nn.Sigmoid())

    def forward(self, dense, sparse):
        x = self.bottom(dense)
        t = torch.stack([x] + [table(sparse[:, i]) for i, table in enumerate(self.tables)], dim=1)
        z = torch.bmm(t, t.transpose(1, 2))
        li, lj = torch.tril_indices(5, 5, offset=-1)
        return self.top(torch.cat([x, z[:, li, lj]], dim=1)).flatten()


def dlrm():
    features = {"dense": {"input": 0}, **{name: {"input": 1, "columns": i, "vocab_size": s} for i, (name, s) in enumerate(SIZES.items())}}
    return Case(Dlrm(), (torch.randn(N, 3), torch.stack([ids(s) for s in SIZES.values()], 1)), features)


class FieldWeightedFm(nn.Module):
    """FM with a weight for each pair of fields, by einsum."""

    def __init__(self, dim=5):
        super().__init__()
        self.emb = nn.ModuleDict({name: nn.Embedding(size, dim) for name, size in SIZES.items()})
        self.lin = nn.ModuleDict({name: nn.Embedding(size, 1) for name, size in SIZES.items()})
        self.weight = nn.Parameter(torch.randn(4, 4))
        self.bias = nn.Parameter(torch.zeros(()))

    def forward(self, **batch):
        v = torch.stack([self.emb[k](batch[k]) for k in self.emb], 1)
        pairs = torch.einsum("bid,bjd,ij->b", v, v, torch.triu(self.weight, diagonal=1))
        return torch.sigmoid(self.bias + pairs + sum(self.lin[k](batch[k]).squeeze(-1) for k in self.lin))


def field_weighted_fm():
    return Case(FieldWeightedFm(), *fields())


class InPlace(nn.Module):
    """Sums and gates in place."""

    def __init__(self, dim=6):
        super().__init__()
        self.tables = nn.ModuleDict({name: nn.Embedding(size, dim) for name, size in SIZES.items()})
        self.gate = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, 1)

    def forward(self, batch):
        h = torch.zeros(batch["user"].shape[0], 6, device=self.out.weight.device, dtype=self.out.weight.dtype)
        for name, table in self.tables.items():
            h += table(batch[name])
        h.mul_(torch.sigmoid_(self.gate(h)))
        h[:, 0] = h[:, 0] * 2
        h[:, 2:4].clamp_(min=0)
        h[:, -1].add_(1.0)
        return self.out(h).sigmoid_().squeeze_(1)


def in_place():
    return Case(InPlace(), *fields())


class Residual(nn.Module):
    """A residual network over the concatenation, BatchNorm before each layer."""

    class Block(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.norm, self.a, self.b = nn.BatchNorm1d(dim), nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)
            self.drop = nn.Dropout(0.2)

        def forward(self, x):
            return x + self.drop(self.b(F.relu(self.a(self.norm(x)), inplace=True)))

    def __init__(self, dim=3):
        super().__init__()
        self.tables = nn.ModuleDict({name: nn.Embedding(size, dim) for name, size in SIZES.items()})
        self.first = nn.Linear(4 * dim + 1, 8)
        self.blocks = nn.ModuleList([self.Block(8) for _ in range(3)])
        self.last = nn.Sequential(nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))

    def forward(self, price, **ids_of):
        x = self.first(torch.hstack([self.tables[k](ids_of[k]) for k in sorted(ids_of)] + [price.view(-1, 1)]))
        for block in self.blocks:
            x = block(x)
        return self.last(x).reshape(-1)


def residual():
    example, features = fields()
    return Case(Residual(), {**example, "price": torch.randn(N)}, {**features, "price": {}})


class SqueezeExcite(nn.Module):
    """Field gates (SENet) and bilinear interactions."""

    def __init__(self, dim=4):
        super().__init__()
        self.tables = nn.ModuleDict({name: nn.Embedding(size, dim) for name, size in SIZES.items()})
        self.down, self.up = nn.Linear(4, 2, bias=False), nn.Linear(2, 4, bias=False)
        self.pair = nn.Bilinear(dim, dim, 3)
        self.fc = nn.Linear(18, 1)

    def forward(self, batch):
        e = torch.stack([self.tables[k](batch[k]) for k in SIZES], 1)
        gate = torch.sigmoid(self.up(F.leaky_relu(self.down(e.mean(-1)), 0.2)))
        e = e * gate[:, :, None]
        left, right = torch.triu_indices(4, 4, 1)
        return self.fc(self.pair(e[:, left], e[:, right]).flatten(1)).squeeze(-1).sigmoid()


def squeeze_excite():
    return Case(SqueezeExcite(), *fields())


class Experts(nn.Module):
    """MMoE: experts as one 3-d parameter, a gate per task, ESMM's product as third output."""

    def __init__(self, dim=4, experts=3):
        super().__init__()
        self.tables = nn.ModuleDict({name: nn.Embedding(size, dim) for name, size in SIZES.items()})
        self.experts = nn.Parameter(torch.randn(experts, 4 * dim, 6) * 0.3)
        self.bias = nn.Parameter(torch.randn(experts, 6) * 0.1)
        self.gates = nn.ModuleList(nn.Linear(4 * dim, experts, bias=False) for _ in range(2))
        self.towers = nn.ModuleList(nn.Sequential(nn.Linear(6, 4), nn.ELU(), nn.Linear(4, 1)) for _ in range(2))

    def forward(self, batch):
        x = torch.cat([self.tables[k](batch[k]) for k in SIZES], 1)
        out = F.relu(torch.einsum("bi,eio->beo", x, self.experts) + self.bias)
        ctr, cvr = (torch.sigmoid(tower((gate(x).softmax(-1).unsqueeze(1) @ out).squeeze(1))).squeeze(1)
                    for gate, tower in zip(self.gates, self.towers))
        return {"ctr": ctr, "cvr": cvr, "ctcvr": ctr * cvr}


def experts():
    return Case(Experts(), *fields())


class SparseExperts(nn.Module):
    """Only the two best experts of a row count."""

    def __init__(self, dim=4, count=4):
        super().__init__()
        self.user, self.item = nn.Embedding(12, dim), nn.Embedding(15, dim)
        self.gate = nn.Linear(2 * dim, count)
        self.experts = nn.ModuleList([nn.Linear(2 * dim, 1) for _ in range(count)])

    def forward(self, user, item):
        x = torch.cat([self.user(user), self.item(item)], -1)
        values, chosen = self.gate(x).topk(2, dim=-1)
        weights = torch.zeros(x.size(0), len(self.experts), dtype=x.dtype).scatter(1, chosen, values.softmax(-1))
        return (weights * torch.cat([e(x) for e in self.experts], -1)).sum(-1).sigmoid()


def sparse_experts():
    return Case(SparseExperts(), {"user": ids(12), "item": ids(15)}, {"user": {"table": "user"}, "item": {"table": "item"}})


class TwoTowers(nn.Module):
    """The same tower for user and item, cosine of both, a learned temperature."""

    def __init__(self, dim=6):
        super().__init__()
        self.ids = nn.Embedding(30, dim)
        self.tower = nn.Sequential(nn.Linear(dim, 8), nn.SiLU(), nn.Linear(8, dim))
        self.log_temperature = nn.Parameter(torch.tensor(0.7))

    def encode(self, x):
        return F.normalize(self.tower(self.ids(x)), dim=-1)

    def forward(self, user, item):
        return (self.encode(user) * self.encode(item)).sum(-1) * self.log_temperature.exp()


def two_towers():
    return Case(TwoTowers(), (ids(30), ids(30)), {"user": {"table": "ids"}, "item": {"table": "ids"}}, {"outputs": ["similarity"]})


class TiedOutput(nn.Module):
    """Scores of all items with the embedding's own weight, the candidate's picked out of them."""

    def __init__(self, dim=5):
        super().__init__()
        self.items = nn.Embedding(20, dim)
        self.user = nn.Embedding(9, dim)
        self.bias = nn.Parameter(torch.randn(20) * 0.1)

    def forward(self, user, item):
        scores = F.linear(self.user(user), self.items.weight, self.bias)
        return scores.log_softmax(-1).gather(1, item.unsqueeze(1)).squeeze(1).exp()


def tied_output():
    return Case(TiedOutput(), {"user": ids(9), "item": ids(20)}, {"user": {"table": "user"}, "item": {"table": "items"}})


MODELS = {f.__name__: f for f in (dlrm, field_weighted_fm, in_place, residual, squeeze_excite, experts, sparse_experts, two_towers, tied_output)}
