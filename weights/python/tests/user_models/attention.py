"""Attention and normalisation: transformers over fields and histories, minus infinity in masks, RMSNorm, SwiGLU, half weights."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from .case import N, Case, ids, padded
from .interactions import SIZES, fields


class FieldTransformer(nn.Module):
    """nn.TransformerEncoder over the fields, with a token of its own in front."""

    def __init__(self, dim=8):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(size, dim) for size in SIZES.values())
        self.cls = nn.Parameter(torch.randn(1, 1, dim))
        layer = nn.TransformerEncoderLayer(dim, 2, 16, dropout=0.1, batch_first=True, activation="gelu", norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.out = nn.Linear(dim, 1)

    def forward(self, batch):
        tokens = torch.stack([table(batch[k]) for table, k in zip(self.tables, SIZES)], 1)
        tokens = torch.cat([self.cls.expand(tokens.size(0), -1, -1), tokens], 1)
        return self.out(self.encoder(tokens)[:, 0]).squeeze(-1)


def field_transformer():
    return Case(FieldTransformer(), *fields())


class TargetAttention(nn.Module):
    """The candidate asks the history; padding gets minus infinity, an empty history gives zeros."""

    def __init__(self, dim=8, heads=2):
        super().__init__()
        self.items, self.heads = nn.Embedding(40, dim, padding_idx=0), heads
        self.q, self.k, self.v = (nn.Linear(dim, dim, bias=False) for _ in range(3))
        self.out = nn.Linear(2 * dim, 1)

    def forward(self, item, history):
        b, t = history.shape
        target, past = self.items(item), self.items(history)
        q = self.q(target).view(b, 1, self.heads, -1).transpose(1, 2)
        k, v = (f(past).view(b, t, self.heads, -1).transpose(1, 2) for f in (self.k, self.v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        scores = scores.masked_fill((history == 0)[:, None, None, :], float("-inf"))
        attention = torch.nan_to_num(scores.softmax(-1))
        interest = (attention @ v).transpose(1, 2).reshape(b, -1)
        return torch.sigmoid(self.out(torch.cat([target, interest], -1)))


def target_attention():
    return Case(TargetAttention(), {"item": ids(40), "history": padded(40, 5)}, {"item": {"table": "items"}, "history": {"table": "items"}})


class KeyPadding(nn.Module):
    """nn.MultiheadAttention with key_padding_mask; a mean over what is valid."""

    def __init__(self, dim=8):
        super().__init__()
        self.items, self.positions = nn.Embedding(40, dim, padding_idx=0), nn.Embedding(6, dim)
        self.attention = nn.MultiheadAttention(dim, 2, batch_first=True)
        self.norm = nn.LayerNorm(dim)
        self.out = nn.Linear(dim, 1)

    def forward(self, history):
        x = self.items(history) + self.positions(torch.arange(history.size(1)))
        padding = history.eq(0)
        padding[:, 0] = False
        y, _ = self.attention(x, x, x, key_padding_mask=padding, need_weights=False)
        y = self.norm(x + y) * (~padding).unsqueeze(-1)
        return self.out(y.sum(1) / (~padding).sum(1, keepdim=True))


def key_padding():
    return Case(KeyPadding(), padded(40, 6), {"history": {"table": "items"}})


class RmsNorm(nn.Module):
    """Root mean square, a learned scale."""

    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.scale, self.eps = nn.Parameter(torch.rand(dim) + 0.5), eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.scale


class CausalDecoder(nn.Module):
    """A small decoder over the history: RMSNorm, causal mask, SwiGLU; the last position meets the candidate."""

    def __init__(self, dim=8, length=5):
        super().__init__()
        self.items = nn.Embedding(40, dim)
        self.position = nn.Parameter(torch.randn(length, dim) * 0.1)
        self.norm1, self.norm2 = RmsNorm(dim), RmsNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.gate, self.up, self.down = nn.Linear(dim, 12, bias=False), nn.Linear(dim, 12, bias=False), nn.Linear(12, dim, bias=False)
        self.register_buffer("mask", torch.full((length, length), float("-inf")).triu(1))

    def forward(self, item, history):
        x = self.items(history) + self.position
        q, k, v = self.qkv(self.norm1(x)).chunk(3, dim=-1)
        weights = torch.softmax(torch.matmul(q, k.mT if hasattr(k, "mT") else k.transpose(1, 2)) * q.shape[-1] ** -0.5 + self.mask, -1)
        x = x + self.proj(weights @ v)
        y = self.norm2(x)
        x = x + self.down(F.silu(self.gate(y)) * self.up(y))
        return (x[:, -1] * self.items(item)).sum(-1)


def causal_decoder():
    return Case(CausalDecoder(), {"item": ids(40), "history": padded(40, 5)}, {"item": {"table": "items"}, "history": {"table": "items"}})


class HalfTables(nn.Module):
    """Embeddings stored in half precision, computed with in float32."""

    def __init__(self, dim=4):
        super().__init__()
        self.user, self.item = nn.Embedding(20, dim).half(), nn.Embedding(30, dim).to(torch.bfloat16)
        self.register_buffer("scale", torch.full((dim,), 0.5).half())
        self.mlp = nn.Sequential(nn.Linear(2 * dim, 8), nn.Mish(), nn.LayerNorm(8), nn.Linear(8, 1))

    def forward(self, user, item):
        x = torch.cat([self.user(user).float() * self.scale.float(), self.item(item).float()], 1)
        return self.mlp(x).sigmoid().squeeze()


def half_tables():
    return Case(HalfTables(), {"user": ids(20), "item": ids(30)}, {"user": {"table": "user"}, "item": {"table": "item"}})


class GatedHeads(nn.Module):
    """GLU layers, hard activations, several outputs as a tuple."""

    def __init__(self, dim=4):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(size, dim) for size in SIZES.values())
        self.glu = nn.Linear(4 * dim, 16)
        self.first, self.second = nn.Linear(8, 1), nn.Linear(8, 1)

    def forward(self, batch):
        x = torch.cat([t(batch[k]) for t, k in zip(self.tables, SIZES)], -1)
        h = F.hardswish(F.glu(self.glu(x), dim=-1))
        return torch.sigmoid(self.first(h)), F.softplus(self.second(h))


def gated_heads():
    return Case(GatedHeads(), *fields(), {"outputs": ["ctr", "value"]})


class RelativeTime(nn.Module):
    """Attention with a bias by the age of each click, in logarithmic buckets, and a temperature per row."""

    def __init__(self, dim=4):
        super().__init__()
        self.items, self.age_bias = nn.Embedding(30, dim), nn.Parameter(torch.randn(6))
        self.temperature = nn.Linear(dim, 1)

    def forward(self, item, history, age):
        query = self.items(item)
        bucket = torch.log2(age.clamp(min=1)).long().clamp(max=5)
        scores = torch.einsum("bd,btd->bt", query, self.items(history)) + self.age_bias[bucket]
        scores = scores / F.softplus(self.temperature(query))
        scores = torch.where(history > 0, scores, torch.full_like(scores, -1e9))
        return torch.einsum("bt,btd,bd->b", scores.softmax(1), self.items(history), query)


def relative_time():
    return Case(RelativeTime(), {"item": ids(30), "history": padded(30, 5), "age": torch.rand(N, 5) * 60},
                {"item": {"table": "items"}, "history": {"table": "items"}, "age": {"kind": "dense"}},
                edges={"age": [1.0, 2.0, 4.0, 8.0, 31.9, 32.0, 0.0, 1e6]})


MODELS = {f.__name__: f for f in (field_transformer, target_attention, key_padding, causal_decoder, half_tables, gated_heads, relative_time)}
