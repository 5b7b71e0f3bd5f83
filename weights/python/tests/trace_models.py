"""Models as people write them, for the tests of from_torch: functional style, lists of embeddings, in-place ops, masks, towers,
attention. Nothing here knows how the tracer works. MODELS: name -> a function that gives (model, example, features, keywords)."""

import math

import torch
import torch.nn.functional as F
from torch import nn
from trace_histories import angles, convolved, evolving, from_both_sides, marked, retrieved, spectral
from trace_inputs import N, ids
from trace_towers import (compared, experts, gated, hashed, lengths, padded, recurrent, residual, standing, top_k, two_towers)


class FactorizationMachine(nn.Module):
    """One table for all fields, each field behind its own offset."""

    def __init__(self, sizes, dim):
        super().__init__()
        starts = [sum(sizes[:i]) for i in range(len(sizes))]
        self.register_buffer("offsets", torch.tensor(starts).long())
        self.embedding = nn.Embedding(sum(sizes), dim)
        self.linear = nn.Embedding(sum(sizes), 1)
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        x = x + x.new_tensor(self.offsets.tolist()).unsqueeze(0)
        e = self.embedding(x)
        pairs = 0.5 * (torch.sum(e, dim=1) ** 2 - torch.sum(e ** 2, dim=1)).sum(dim=1, keepdim=True)
        return torch.sigmoid((torch.sum(self.linear(x), dim=1) + self.bias + pairs).squeeze(1))


def fm():
    sizes = [5, 9, 4]
    return FactorizationMachine(sizes, 4), torch.stack([ids(s) for s in sizes], 1), {
        f"f{i}": {"vocab_size": s, "columns": i} for i, s in enumerate(sizes)}, {}


class WideAndDeep(nn.Module):
    """ModuleList of tables, dense features beside them, BatchNorm and Dropout."""

    def __init__(self, sizes, dense, dim=4):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(s, dim) for s in sizes])
        self.wide = nn.ModuleList([nn.Embedding(s, 1) for s in sizes])
        width = len(sizes) * dim + dense
        self.norm = nn.BatchNorm1d(dense)
        self.deep = nn.Sequential(nn.Linear(width, 16), nn.BatchNorm1d(16), nn.ReLU(inplace=True), nn.Dropout(0.3), nn.Linear(16, 1))
        self.dense_wide = nn.Linear(dense, 1)

    def forward(self, sparse, dense):
        dense = self.norm(dense)
        e = torch.cat([table(sparse[:, i]) for i, table in enumerate(self.tables)] + [dense], dim=-1)
        wide = sum(table(sparse[:, i]) for i, table in enumerate(self.wide)) + self.dense_wide(dense)
        return torch.sigmoid(self.deep(e) + wide)


def wide_deep():
    sizes = [6, 3, 8]
    features = {f"c{i}": {"input": 0, "columns": i, "vocab_size": s} for i, s in enumerate(sizes)}
    features["x"] = {"input": 1}
    return WideAndDeep(sizes, 3), (torch.stack([ids(s) for s in sizes], 1), torch.randn(N, 3)), features, {}


class CrossV2(nn.Module):
    """A residual cross network written with matmul and parameters of its own."""

    def __init__(self, size, dim, layers=3):
        super().__init__()
        self.user, self.item = nn.Embedding(size, dim), nn.Embedding(size, dim)
        self.w = nn.ParameterList([nn.Parameter(torch.empty(2 * dim, 2 * dim)) for _ in range(layers)])
        self.b = nn.ParameterList([nn.Parameter(torch.empty(2 * dim)) for _ in range(layers)])
        self.out = nn.Linear(2 * dim, 1, bias=False)

    def forward(self, inputs):
        x0 = torch.cat((self.user(inputs["user"]), self.item(inputs["item"])), 1)
        x = x0
        for w, b in zip(self.w, self.b):
            x = x0 * (x @ w + b) + x
        return {"y_pred": self.out(x).sigmoid()}


def cross():
    return CrossV2(11, 4), {"user": ids(11), "item": ids(11)}, {"user": {"table": "user"}, "item": {"table": "item"}}, {}


class CrossVector(nn.Module):
    """DCN's first form with einsum."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(20, 5)
        self.w, self.b = nn.Parameter(torch.empty(2, 10)), nn.Parameter(torch.empty(2, 10))
        self.head = nn.Linear(10, 1)

    def forward(self, x):
        x0 = self.table(x).flatten(1)
        x = x0
        for i in range(2):
            x = torch.einsum("bd,b->bd", x0, torch.einsum("bd,d->b", x, self.w[i])) + self.b[i] + x
        return torch.sigmoid(self.head(x)).view(-1)


def cross_vector():
    return CrossVector(), ids(20, 2), {"a": {"columns": 0, "table": "table"}, "b": {"columns": 1, "table": "table"}}, {}


class Bags(nn.Module):
    """nn.EmbeddingBag in its three modes, with and without padding."""

    def __init__(self):
        super().__init__()
        self.total = nn.EmbeddingBag(12, 3, mode="sum", padding_idx=0)
        self.mean = nn.EmbeddingBag(12, 3, mode="mean", padding_idx=0)
        self.top = nn.EmbeddingBag(12, 3, mode="max", padding_idx=0)
        self.all = nn.EmbeddingBag(12, 3, mode="mean")
        self.head = nn.Linear(12, 1)

    def forward(self, visits):
        x = torch.hstack([self.total(visits), self.mean(visits), self.top(visits), self.all(visits)])
        return self.head(x).sigmoid()


def bags():
    return Bags(), {"visits": ids(12, 5)}, {"visits": {"table": "mean"}}, {}


class MaskedMean(nn.Module):
    """Three ways to pool a padded history by hand."""

    def __init__(self):
        super().__init__()
        self.items = nn.Embedding(15, 4, padding_idx=0)
        self.head = nn.Linear(12, 1)

    def forward(self, history):
        e = self.items(history)
        mask = (history > 0).float().unsqueeze(-1)
        mean = (e * mask).sum(1) / (mask.sum(1) + 1e-8)
        clamped = (e * mask).sum(dim=1) / torch.clamp(mask.sum(dim=1), min=1.0)
        top = e.masked_fill(history.eq(0).unsqueeze(2), -1e9).max(dim=1)[0]
        top = torch.where(torch.any(history != 0, dim=1, keepdim=True), top, torch.zeros_like(top))
        return torch.sigmoid(self.head(torch.cat([mean, clamped, top], 1)))


def masked_mean():
    return MaskedMean(), {"history": ids(15, 6)}, {"history": {"vocab_size": 15}}, {}


class TargetAttention(nn.Module):
    """DIN: a network on [query, key, difference, product], softmax over the history with -inf at padding."""

    def __init__(self):
        super().__init__()
        self.items = nn.Embedding(30, 4, padding_idx=0)
        self.score = nn.Sequential(nn.Linear(16, 8), nn.PReLU(), nn.Linear(8, 1))
        self.head = nn.Sequential(nn.Linear(8, 6), nn.PReLU(6), nn.Linear(6, 1))

    def forward(self, item, history):
        q, k = self.items(item), self.items(history)
        spread = q.unsqueeze(1).expand(-1, k.shape[1], -1)
        score = self.score(torch.cat([spread, k, spread - k, spread * k], dim=-1)).squeeze(-1)
        score = score.masked_fill(history == 0, float("-inf"))
        share = torch.softmax(score, dim=-1)
        return torch.sigmoid(self.head(torch.cat([q, (share.unsqueeze(-1) * k).sum(dim=1)], -1))).squeeze(-1)


def target_attention():
    return TargetAttention(), {"item": ids(30), "history": ids(30, 5)}, {
        "item": {"table": "items"}, "history": {"table": "items"}}, {}


class SumAttention(nn.Module):
    """Scores times a mask without softmax, and a second one whose padding gets -2^32 + 1."""

    def __init__(self):
        super().__init__()
        self.items = nn.Embedding(30, 4)
        self.head = nn.Linear(8, 1)

    def forward(self, item, history):
        q, k = self.items(item), self.items(history)
        score = torch.matmul(k, q.unsqueeze(2)).squeeze(2) / math.sqrt(4)
        valid = history.ne(0)
        plain = torch.bmm((score * valid.float()).unsqueeze(1), k).squeeze(1)
        padded = torch.where(valid, score, torch.full_like(score, -2.0 ** 32 + 1))
        soft = torch.bmm(F.softmax(padded, dim=-1).unsqueeze(1), k).squeeze(1)
        return torch.sigmoid(self.head(torch.cat([plain, soft], 1)))


def sum_attention():
    return SumAttention(), (ids(30), ids(30, 5)), {"item": {"table": "items"}, "history": {"table": "items"}}, {}


class FieldTransformer(nn.Module):
    """nn.TransformerEncoder over the fields of a row, with a learned token in front."""

    def __init__(self, fields=4, dim=8):
        super().__init__()
        self.table = nn.Embedding(50, dim)
        self.token = nn.Parameter(torch.empty(1, 1, dim))
        self.position = nn.Parameter(torch.empty(1, fields + 1, dim))
        layer = nn.TransformerEncoderLayer(dim, 2, 16, dropout=0.1, activation="gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 1))

    def forward(self, x):
        e = torch.cat([self.token.expand(x.shape[0], -1, -1), self.table(x)], dim=1) + self.position
        return self.head(self.encoder(e)[:, 0]).sigmoid()


def field_transformer():
    return FieldTransformer(), ids(50, 4), {f"f{i}": {"columns": i, "table": "table"} for i in range(4)}, {}


class Sequential(nn.Module):
    """A self-attention encoder over a history with key_padding_mask and time first, read at its last position."""

    def __init__(self):
        super().__init__()
        self.items = nn.Embedding(25, 8, padding_idx=0)
        self.position = nn.Embedding(6, 8)
        self.attention = nn.MultiheadAttention(8, 2)
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(16, 1)

    def forward(self, history, target):
        history = torch.cat([history, target.unsqueeze(1)], dim=1)
        e = self.items(history) + self.position(torch.arange(history.size(1)))
        e = e.transpose(0, 1)
        out, _ = self.attention(e, e, e, key_padding_mask=history == 0)
        out = self.norm(out + e).transpose(0, 1)
        return torch.sigmoid(self.head(torch.cat([out[:, -1, :], out.mean(dim=1)], dim=1)))


def sequential():
    return Sequential(), {"history": ids(25, 5), "target": ids(25)}, {
        "history": {"vocab_size": 25}, "target": {"vocab_size": 25}}, {}


class AutoInt(nn.Module):
    """Interacting layers whose heads are split off by chunk and joined along the rows."""

    def __init__(self, dim=4, heads=2):
        super().__init__()
        self.table, self.heads = nn.Embedding(40, dim), heads
        self.q, self.k, self.v, self.r = (nn.Parameter(torch.empty(dim, dim)) for _ in range(4))
        self.head = nn.Linear(3 * dim, 1)

    def forward(self, x):
        e = self.table(x)
        q, k, v = (torch.cat(torch.split(torch.tensordot(e, w, dims=([-1], [0])), e.shape[-1] // self.heads, dim=2), dim=0)
                   for w in (self.q, self.k, self.v))
        share = F.softmax(torch.einsum("bik,bjk->bij", q, k) / (q.shape[-1] ** 0.5), dim=-1)
        out = torch.cat(torch.split(torch.matmul(share, v), e.shape[0], dim=0), dim=-1)
        out = F.relu(out + torch.tensordot(e, self.r, dims=([-1], [0])))
        return torch.sigmoid(self.head(torch.flatten(out, start_dim=1)))


def autoint():
    return AutoInt(), ids(40, 3), {f"f{i}": {"columns": i, "table": "table"} for i in range(3)}, {}


class DotInteraction(nn.Module):
    """DLRM: a bottom network, all dots of vectors, the lower triangle by constant indices."""

    def __init__(self, fields=3, dim=4):
        super().__init__()
        self.tables = nn.ModuleList([nn.EmbeddingBag(10, dim, mode="sum") for _ in range(fields)])
        self.bottom = nn.Sequential(nn.Linear(5, dim), nn.ReLU())
        count = fields + 1
        self.register_buffer("rows", torch.tensor([i for i in range(count) for j in range(i)]))
        self.register_buffer("cols", torch.tensor([j for i in range(count) for j in range(i)]))
        self.top = nn.Sequential(nn.Linear(dim + len(self.rows), 8), nn.ReLU(), nn.Linear(8, 1), nn.Sigmoid())

    def forward(self, dense, sparse):
        x = self.bottom(torch.log(torch.clamp(dense, min=0) + 1))
        t = torch.cat([x] + [table(sparse[:, i:i + 1]) for i, table in enumerate(self.tables)], dim=1).view(x.shape[0], -1, x.shape[1])
        z = torch.bmm(t, torch.transpose(t, 1, 2))
        return self.top(torch.cat([x, z[:, self.rows, self.cols]], dim=1))


def dot_interaction():
    features = {"dense": {"input": 0}, **{f"c{i}": {"input": 1, "columns": (i, i + 1), "vocab_size": 10} for i in range(3)}}
    return DotInteraction(), (torch.rand(N, 5), ids(10, 3)), features, {}


class Compressed(nn.Module):
    """xDeepFM's CIN: outer products, kernel-1 convolutions, sums."""

    def __init__(self, fields=3, dim=4):
        super().__init__()
        self.table = nn.Embedding(30, dim)
        self.convs = nn.ModuleList([nn.Conv1d(fields * fields, 4, 1), nn.Conv1d(fields * 4, 2, 1)])
        self.head = nn.Linear(6, 1)

    def forward(self, x):
        x0 = self.table(x)
        h, out = x0, []
        for conv in self.convs:
            z = torch.einsum("bhd,bmd->bhmd", h, x0)
            h = F.relu(conv(z.view(x0.size(0), h.size(1) * x0.size(1), -1)))
            out.append(h.sum(dim=2))
        return torch.sigmoid(self.head(torch.cat(out, dim=1)))


def compressed():
    return Compressed(), ids(30, 3), {f"f{i}": {"columns": i, "table": "table"} for i in range(3)}, {}


MODELS = {f.__name__: f for f in (
    fm, wide_deep, cross, cross_vector, bags, masked_mean, target_attention, sum_attention, field_transformer, sequential, autoint,
    dot_interaction, compressed, two_towers, experts, residual, gated, hashed, lengths, recurrent, standing, padded, compared, top_k,
    retrieved, convolved, spectral, angles, evolving, from_both_sides, marked)}
REFUSED = {}  #: name -> operator, of those that no bundle can hold: there is none


def make(name, seed=0):
    """(model with random weights in evaluation mode, example, features, keywords)."""
    torch.manual_seed(seed)
    model, example, features, keywords = MODELS[name]()
    with torch.no_grad():
        for p in model.parameters():
            p.normal_(0, 0.4)
        for m in model.modules():
            if isinstance(m, nn.BatchNorm1d):
                m.running_mean.normal_()
                m.running_var.uniform_(0.5, 2)
            if isinstance(m, (nn.Embedding, nn.EmbeddingBag)) and m.padding_idx is not None:
                m.weight[m.padding_idx] = 0
    return model.eval(), example, features, keywords
