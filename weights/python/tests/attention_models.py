"""Models over one history `hist` [rows, T] with attention in the forms that people write it, for test_attention.py. Each gives a score [rows]."""

import math

import torch
import torch.nn.functional as F
from torch import nn

VOCAB, T, WIDTH = 30, 11, 16


class Block(nn.Module):
    """Embedding, one attention, what is valid added up. `attend(q, k, v, valid)` has heads apart: [rows, heads, T, dim]."""

    def __init__(self, heads, attend, mixed=True):
        super().__init__()
        torch.manual_seed(heads)
        self.items = nn.Embedding(VOCAB, WIDTH, padding_idx=0)
        self.heads, self.attend, self.qkv, self.out = heads, attend, nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, 1)
        self.mix = nn.Linear(WIDTH, WIDTH) if mixed else nn.Identity()

    def forward(self, hist):
        valid = hist != 0
        rows, n = hist.shape
        parts = self.qkv(self.items(hist)).view(rows, n, 3, self.heads, -1)
        q, k, v = (parts[:, :, i].transpose(1, 2) for i in range(3))
        y = self.attend(q, k, v, valid).transpose(1, 2).reshape(rows, n, WIDTH)
        return torch.sigmoid(self.out((self.mix(y) * valid.unsqueeze(-1)).sum(1)))


class Encoder(nn.Module):
    """nn.MultiheadAttention, a padding mask that leaves at least the first position."""

    def __init__(self, heads, causal, batch_first=True):
        super().__init__()
        torch.manual_seed(heads)
        self.items, self.out = nn.Embedding(VOCAB, WIDTH, padding_idx=0), nn.Linear(WIDTH, 1)
        self.attention = nn.MultiheadAttention(WIDTH, heads, batch_first=batch_first)
        self.causal, self.batch_first = causal, batch_first

    def forward(self, hist):
        h = self.items(hist)
        padded = hist == 0
        padded = torch.cat([torch.zeros_like(padded[:, :1]), padded[:, 1:]], 1)
        mask = torch.triu(torch.ones(hist.shape[1], hist.shape[1], dtype=torch.bool), 1) if self.causal else None
        x = h if self.batch_first else h.transpose(0, 1)
        y = self.attention(x, x, x, key_padding_mask=padded, attn_mask=mask, need_weights=False)[0]
        y = y if self.batch_first else y.transpose(0, 1)
        return torch.sigmoid(self.out(y.mean(1)))


class Hstu(nn.Module):
    """The pointwise layer as it was published, over padded histories: u, v, q, k = silu(linear(norm(x))), weights silu(q k + bias) / n under a
    causal mask, and the gated result."""

    def __init__(self, heads, dim=8, bias=True, mask="causal", layers=1, last=0):
        super().__init__()
        torch.manual_seed(heads)
        self.items, self.out, self.heads, self.dim, self.last = nn.Embedding(VOCAB, WIDTH, padding_idx=0), nn.Linear(WIDTH, 1), heads, dim, last
        self.layers = nn.ModuleList([nn.ModuleDict({"norm": nn.LayerNorm(WIDTH), "uvqk": nn.Linear(WIDTH, 4 * heads * dim),
                                                    "of": nn.LayerNorm(heads * dim), "o": nn.Linear(heads * dim, WIDTH)}) for _ in range(layers)])
        self.position = nn.Parameter(torch.randn(2 * T - 1)) if bias else None
        self.register_buffer("mask", masks(mask, last))

    def bias(self, n):
        t = F.pad(self.position[:2 * n - 1], [0, n]).repeat(n)[..., :-n].reshape(1, n, 3 * n - 2)
        r = (2 * n - 1) // 2
        return t[..., r:-r]

    def forward(self, hist):
        h, valid = self.items(hist), (hist != 0).float()
        rows, n = hist.shape
        for layer in self.layers:
            u, v, q, k = torch.split(F.silu(layer["uvqk"](layer["norm"](h))), self.heads * self.dim, dim=-1)
            scores = torch.einsum("bnhd,bmhd->bhnm", q.view(rows, n, self.heads, self.dim), k.view(rows, n, self.heads, self.dim))
            if self.position is not None:
                scores = scores + self.bias(n).unsqueeze(1)
            weights = F.silu(scores) / n * self.mask * valid[:, None, None]
            y = torch.einsum("bhnm,bmhd->bnhd", weights, v.reshape(rows, n, self.heads, self.dim)).reshape(rows, n, -1)
            h = h + layer["o"](u * layer["of"](y))
        return torch.sigmoid(self.out((h * valid.unsqueeze(-1)).sum(1)))


def masks(kind, last):
    """[T, T] ones where a query reads a key."""
    ones = torch.ones(T, T)
    causal = torch.tril(ones)
    if kind == "none":
        return ones
    if kind == "candidates":  # candidates do not see one another
        return causal * (1 - (torch.arange(T) >= T - last).float()[None] * (1 - torch.eye(T)))
    return causal


def softmax(fill=-math.inf, causal=False, bias=None, by="einsum", factor=None):
    """A hand-written attention of Block: `fill` where a key does not count."""
    def attend(q, k, v, valid):
        n = q.shape[2]
        scores = torch.einsum("bhnd,bhmd->bhnm", q, k) if by == "einsum" else q @ k.transpose(-1, -2)
        scores = scores / math.sqrt(q.shape[-1]) if factor is None else scores * factor
        if bias is not None:
            scores = scores + bias
        left = valid[:, None, None]
        if causal:
            left = left & torch.tril(torch.ones(n, n, dtype=torch.bool))
        if fill is not None:
            scores = scores.masked_fill(~left, fill)
        weights = torch.softmax(scores, -1)
        return torch.einsum("bhnm,bhmd->bhnd", weights, v) if by == "einsum" else weights @ v
    return attend


def sdpa(causal=False):
    """scaled_dot_product_attention of torch 2; a mask of valid keys."""
    def attend(q, k, v, valid):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=None if causal else valid[:, None, None], is_causal=causal)
    return attend
