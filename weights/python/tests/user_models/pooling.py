"""Histories: bags, masks, lengths, decay, maxima."""

import torch
import torch.nn.functional as F
from torch import nn

from .case import N, Case, ids, padded


class WeightedBags(nn.Module):
    """nn.EmbeddingBag over flat ids with offsets and a weight per id."""

    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(40, 6, mode="sum", include_last_offset=True)
        self.out = nn.Linear(6, 1)

    def forward(self, tags, weights):
        rows, per_row = tags.shape
        offsets = torch.arange(0, rows * per_row + 1, per_row, device=tags.device)
        pooled = self.bag(tags.reshape(-1), offsets, per_sample_weights=weights.reshape(-1))
        return torch.sigmoid(self.out(pooled)).squeeze(-1)


def weighted_bags():
    return Case(WeightedBags(), (ids(40, 5), torch.rand(N, 5)), {"tags": {"vocab_size": 40}, "weights": {"kind": "dense"}},
                edges={"weights": [0.0, -1.0]})


class MeanBags(nn.Module):
    """nn.EmbeddingBag on a padded matrix; padding_idx does not count in its mean and max."""

    def __init__(self):
        super().__init__()
        self.genres = nn.EmbeddingBag(20, 4, mode="mean", padding_idx=0)
        self.actors = nn.EmbeddingBag(30, 4, mode="max", padding_idx=0)
        self.user = nn.Embedding(25, 8)

    def forward(self, user, genres, actors):
        movie = torch.cat([self.genres(genres), self.actors(actors)], dim=1)
        return (self.user(user) * movie).sum(1)


def mean_bags():
    return Case(MeanBags(), {"user": ids(25), "genres": padded(20, 4), "actors": padded(30, 6)},
                {"user": {"table": "user"}, "genres": {"table": "genres"}, "actors": {"table": "actors"}})


class DecayedHistory(nn.Module):
    """Clicks count less the longer ago they are."""

    def __init__(self):
        super().__init__()
        self.items = nn.Embedding(50, 8, padding_idx=0)
        self.rate = nn.Parameter(torch.tensor(0.3))
        self.mlp = nn.Sequential(nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, item, clicked, hours_ago):
        decay = torch.exp(-F.softplus(self.rate) * hours_ago.clamp(min=0))
        decay = decay * (clicked > 0)
        decay = decay / (decay.sum(dim=1, keepdim=True) + 1e-8)
        interest = torch.einsum("bt,btd->bd", decay, self.items(clicked))
        return self.mlp(torch.cat((self.items(item), interest), -1)).sigmoid()


def decayed_history():
    return Case(DecayedHistory(), {"item": ids(50), "clicked": padded(50, 6), "hours_ago": torch.rand(N, 6) * 9},
                {"item": {"table": "items"}, "clicked": {"table": "items"}, "hours_ago": {"kind": "dense"}},
                edges={"hours_ago": [0.0, -5.0, 1e4]})


class MaskedMaxPool(nn.Module):
    """Max over the past, minus infinity at padding, zero where there is no past."""

    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(30, 6)
        self.head = nn.Linear(6, 1)

    def forward(self, seq):
        mask = seq.ne(0)
        e = self.emb(seq).masked_fill(~mask.unsqueeze(-1), float("-inf"))
        pooled = e.max(dim=1).values
        pooled = torch.where(mask.any(dim=1, keepdim=True), pooled, torch.zeros_like(pooled))
        return self.head(pooled)[:, 0]


def masked_max_pool():
    return Case(MaskedMaxPool(), padded(30, 5), {"seq": {"table": "emb"}})


class LengthMean(nn.Module):
    """A mean over the first `n` entries, the last entry on its own."""

    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(30, 5)
        self.fc = nn.Linear(10, 1)

    def forward(self, seq, n):
        e = self.emb(seq)
        mask = (torch.arange(seq.size(1), device=seq.device)[None, :] < n[:, None]).float()
        mean = (e * mask[..., None]).sum(1) / n.clamp(min=1).unsqueeze(1).float()
        last = e[torch.arange(len(seq)), (n - 1).clamp(min=0)]
        return self.fc(torch.cat([mean, last], 1)).squeeze(1)


def length_mean():
    return Case(LengthMean(), {"seq": padded(30, 5), "n": torch.full((N,), 3)},
                {"seq": {"table": "emb"}, "n": {"kind": "length", "of": "seq"}})


class PercentBags(nn.Module):
    """Share of each genre: a histogram by one_hot, and how many there are."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(13, 1)

    def forward(self, genres):
        hot = F.one_hot(genres, 12).float()
        hot[:, :, 0] = 0
        counts = hot.sum(1)
        share = counts / counts.sum(1, keepdim=True).clamp_min(1.0)
        return self.fc(torch.cat([share, counts.sum(1, keepdim=True).log1p()], 1)).sigmoid().view(-1)


def percent_bags():
    return Case(PercentBags(), padded(12, 4), {"genres": {"vocab_size": 12}})


MODELS = {f.__name__: f for f in (weighted_bags, mean_bags, decayed_history, masked_max_pool, length_mean, percent_bags)}
