"""More models for trace_models.py: towers, experts, residual nets, hashes, lengths, recurrence, what stands still, padding, comparisons."""

import math

import torch
import torch.nn.functional as F
from torch import nn
from trace_inputs import N, ids


class TwoTowers(nn.Module):
    """User and item towers that share a network; cosine similarity over a temperature."""

    def __init__(self):
        super().__init__()
        self.users, self.items = nn.Embedding(9, 6), nn.Embedding(13, 6)
        self.tower = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 4))
        self.log_scale = nn.Parameter(torch.tensor(0.7))

    def forward(self, user, item):
        u = F.normalize(self.tower(self.users(user)), dim=-1)
        i = F.normalize(self.tower(self.items(item)), dim=-1)
        return torch.sigmoid((u * i).sum(-1) * self.log_scale.exp())


def two_towers():
    return TwoTowers(), {"user": ids(9), "item": ids(13)}, {
        "user": {"table": "users", "space": "shared"}, "item": {"table": "items"}}, {}


class Experts(nn.Module):
    """MMoE with two heads: stacked experts, softmax gates, einsum, a dict of outputs."""

    def __init__(self, dim=4, experts=3):
        super().__init__()
        self.table = nn.Embedding(20, dim)
        self.experts = nn.ModuleList([nn.Sequential(nn.Linear(2 * dim, 5), nn.ReLU()) for _ in range(experts)])
        self.gates = nn.ModuleList([nn.Linear(2 * dim, experts, bias=False) for _ in range(2)])
        self.towers = nn.ModuleDict({"click": nn.Linear(5, 1), "buy": nn.Linear(5, 1)})

    def forward(self, x):
        x = self.table(x).reshape(len(x), -1)
        out = torch.stack([e(x) for e in self.experts], dim=1)
        y = {}
        for gate, (name, tower) in zip(self.gates, self.towers.items()):
            y[name] = torch.sigmoid(tower(torch.einsum("be,bed->bd", gate(x).softmax(dim=-1), out)))
        y["both"] = y["click"] * y["buy"]
        return y


def experts():
    return Experts(), ids(20, 2), {"a": {"columns": 0, "table": "table"}, "b": {"columns": 1, "table": "table"}}, {}


class Residual(nn.Module):
    """A residual network that writes in place and into slices."""

    def __init__(self):
        super().__init__()
        self.inner = nn.ModuleList([nn.Linear(6, 6) for _ in range(3)])
        self.norms = nn.ModuleList([nn.LayerNorm(6) for _ in range(3)])
        self.head = nn.Linear(6, 1)

    def forward(self, x):
        h = x.clone()
        h[:, 0] = 1.0
        h[:, 2:4] *= 0.5
        for linear, norm in zip(self.inner, self.norms):
            y = F.leaky_relu(linear(norm(h)), 0.2)
            y.add_(h).div_(2)
            h = y
        h.clamp_(-3, 3)
        return self.head(h).squeeze(-1).sigmoid_()


def residual():
    return Residual(), torch.randn(N, 6), {"x": {}}, {}


class Gated(nn.Module):
    """SENET weights, bilinear products, torch.combinations of fields, torch.where on an id."""

    def __init__(self, fields=3, dim=4):
        super().__init__()
        self.table = nn.Embedding(30, dim)
        self.squeeze = nn.Sequential(nn.Linear(fields, 2), nn.ReLU(), nn.Linear(2, fields), nn.ReLU())
        self.w = nn.Parameter(torch.empty(dim, dim))
        self.pairs = [(i, j) for i in range(fields) for j in range(i + 1, fields)]
        self.head = nn.Linear(2 * len(self.pairs) * dim, 1)
        self.new, self.old = nn.Parameter(torch.empty(1)), nn.Parameter(torch.empty(1))

    def forward(self, x):
        e = self.table(x)
        v = e * self.squeeze(e.mean(dim=-1)).unsqueeze(-1)
        products = [torch.matmul(part[:, i], self.w) * part[:, j] for part in (e, v) for i, j in self.pairs]
        logit = self.head(torch.cat(products, 1))
        logit = logit + torch.where(x[:, :1] < 10, self.new, self.old)
        return torch.sigmoid(logit)


def gated():
    return Gated(), ids(30, 3), {f"f{i}": {"columns": i, "table": "table"} for i in range(3)}, {}


class Hashed(nn.Module):
    """Hash and quotient-remainder tricks on ids, scaled floats from a float matrix."""

    def __init__(self):
        super().__init__()
        self.buckets, self.q, self.r = nn.Embedding(16, 3), nn.Embedding(10, 3), nn.Embedding(7, 3)
        self.head = nn.Linear(8, 1)
        self.register_buffer("mean", torch.tensor([0.5, -1.0]))

    def forward(self, x):
        item = x[:, 0].long()
        hashed = self.buckets((item * 31 + 7) % 16)
        mixed = self.q(torch.div(item, 7, rounding_mode="floor")) * self.r(item % 7)
        numbers = (x[:, 1:3] - self.mean) / 2.5
        return torch.sigmoid(self.head(torch.cat([hashed, mixed, torch.tanh(numbers)], dim=1)))


def hashed():
    x = torch.cat([ids(70, 1).float(), torch.randn(N, 2)], 1)
    return Hashed(), x, {"item": {"columns": 0, "vocab_size": 70}, "x": {"columns": (1, 3)}}, {}


class Lengths(nn.Module):
    """A history whose length is an input: a mask by arange, a mean by the length."""

    def __init__(self):
        super().__init__()
        self.items = nn.Embedding(18, 4)
        self.head = nn.Linear(4, 1)

    def forward(self, history, length):
        e = self.items(history)
        mask = torch.arange(history.shape[1])[None, :] < length[:, None]
        mean = (e * mask.unsqueeze(-1)).sum(1) / length.clamp(min=1).unsqueeze(1)
        return torch.sigmoid(self.head(mean))


def lengths():
    length = torch.randint(0, 6, (N,))
    history = ids(18, 5) * (torch.arange(5)[None] < length[:, None])
    return Lengths(), {"history": history, "length": length}, {
        "history": {"vocab_size": 18}, "length": {"kind": "length", "of": "history"}}, {}


class Recurrent(nn.Module):
    """nn.GRU over a history of fixed length, its last state."""

    def __init__(self):
        super().__init__()
        self.items = nn.Embedding(18, 3)
        self.gru = nn.GRU(3, 4, batch_first=True)
        self.head = nn.Linear(4, 1)

    def forward(self, history):
        out, _ = self.gru(self.items(history))
        return torch.sigmoid(self.head(out[:, -1]))


def recurrent():
    return Recurrent(), {"history": ids(18, 4)}, {"history": {"vocab_size": 18}}, {}


class Standing(nn.Module):
    """Columns stand up: x.t(), products from the left, statistics per row."""

    def __init__(self):
        super().__init__()
        self.w, self.v = nn.Parameter(torch.empty(5, 4)), nn.Parameter(torch.empty(9))
        self.slope = nn.Parameter(torch.empty(1))

    def forward(self, x):
        h = torch.mm(self.w, x.t()).t()
        row = torch.stack([x.mean(1), x.var(1, unbiased=False), x.amax(1), x.min(dim=1)[0]], dim=1)
        z = torch.cat([F.elu(h), row], dim=1)
        return torch.sigmoid(F.prelu(torch.mv(z, self.v), self.slope))


def standing():
    return Standing(), torch.randn(N, 4), {"x": {}}, {}


class Padded(nn.Module):
    """F.pad, windows over positions, attention whose empty bags are zeros by nan_to_num, statistics of a row."""

    def __init__(self):
        super().__init__()
        self.items = nn.Embedding(16, 4, padding_idx=0)
        self.window = nn.Linear(12, 3)
        self.query = nn.Parameter(torch.empty(4))
        self.head = nn.Linear(10, 1)

    def forward(self, history):
        e = self.items(history)
        wide = F.pad(e, (0, 0, 1, 1))
        windows = torch.cat([wide[:, :-2], wide[:, 1:-1], wide[:, 2:]], dim=2)
        top = torch.tanh(self.window(windows)).amax(dim=1)
        score = (e @ self.query).masked_fill(history == 0, -math.inf)
        share = torch.nan_to_num(F.softmax(score, dim=1), nan=0.0)
        pooled = torch.einsum("bt,btd->bd", share, e)
        spread = pooled.std(dim=1, keepdim=True)
        return torch.sigmoid(self.head(torch.cat([top, pooled, spread, torch.log2(1 + spread), torch.zeros_like(spread)], 1)))


def padded():
    return Padded(), {"history": ids(16, 5)}, {"history": {"vocab_size": 16}}, {}


class Compared(nn.Module):
    """A choice by a computed number."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 1), nn.Linear(4, 1)

    def forward(self, x):
        return torch.sigmoid(torch.where(x.sum(1, keepdim=True) > 0.5, self.a(x), self.b(x)))


def compared():
    return Compared(), torch.randn(N, 4), {"x": {}}, {}


class TopK(nn.Module):
    """The two largest products of a history."""

    def __init__(self):
        super().__init__()
        self.items = nn.Embedding(18, 4)
        self.head = nn.Linear(2, 1)

    def forward(self, history):
        return torch.sigmoid(self.head(torch.topk(self.items(history).sum(-1), 2, dim=1)[0]))


def top_k():
    return TopK(), {"history": ids(18, 4)}, {"history": {"vocab_size": 18}}, {}
