"""Numbers: buckets, clamps, missing values, scaling by buffers, calibration; ids that are computed."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from .case import N, Case, ids


class Buckets(nn.Module):
    """Prices fall into buckets that have embeddings."""

    def __init__(self):
        super().__init__()
        self.register_buffer("edges", torch.tensor([0.5, 1.0, 2.0, 5.0]))
        self.bucket = nn.Embedding(5, 4)
        self.shop = nn.Embedding(9, 4)
        self.fc = nn.Linear(8, 1)

    def forward(self, shop, price):
        b = torch.bucketize(price, self.edges)
        return self.fc(torch.cat([self.shop(shop), self.bucket(b)], -1)).squeeze(-1)


def buckets():
    return Case(Buckets(), {"shop": ids(9), "price": torch.rand(N) * 6}, {"shop": {"table": "shop"}, "price": {}},
                edges={"price": [0.5, 1.0, 2.0, 5.0, 0.49999997, -3.0, 1e9]})


class QuantileClamp(nn.Module):
    """Numbers clamped to training quantiles, scaled, logarithms of counts, sine of the hour."""

    def __init__(self):
        super().__init__()
        self.register_buffer("low", torch.tensor([-1.0, 0.0, -0.5]))
        self.register_buffer("high", torch.tensor([1.0, 2.0, 0.5]))
        self.register_buffer("mean", torch.tensor([0.1, 0.7, 0.0]))
        self.register_buffer("std", torch.tensor([0.9, 1.3, 0.2]))
        self.net = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 1))

    def forward(self, dense, count, hour):
        x = torch.max(torch.min(dense, self.high), self.low)
        x = (x - self.mean) / self.std
        angle = hour * (2 * math.pi / 24)
        x = torch.cat([x, torch.log1p(count.clamp(min=0))[:, None], angle.sin()[:, None], angle.cos()[:, None]], 1)
        return self.net(x)


def quantile_clamp():
    return Case(QuantileClamp(), {"dense": torch.randn(N, 3), "count": torch.rand(N) * 50, "hour": torch.rand(N) * 24},
                {"dense": {}, "count": {}, "hour": {}}, edges={"dense": [-1.0, 1.0, 0.5, -0.5, 2.0, 100.0], "count": [0.0, -1.0, 1e6]})


class MissingValues(nn.Module):
    """NaN stands for missing: replaced by a learned value, and told by an indicator."""

    def __init__(self):
        super().__init__()
        self.fill = nn.Parameter(torch.tensor([0.3, -0.2, 0.1]))
        self.fc = nn.Linear(6, 1)

    def forward(self, x):
        missing = torch.isnan(x)
        x = torch.where(missing, self.fill, x)
        return self.fc(torch.cat([x, missing.float()], dim=1)).sigmoid()


def missing_values():
    return Case(MissingValues(), torch.randn(N, 3), {"x": {}}, edges={"x": [float("nan"), 0.0]})


class NanToNum(nn.Module):
    """The same in one call."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 1)

    def forward(self, x):
        return self.fc(torch.nan_to_num(x, nan=0.5, posinf=10.0, neginf=-10.0))


def nan_to_num():
    return Case(NanToNum(), torch.randn(N, 4), {"x": {}}, edges={"x": [float("nan"), float("inf"), float("-inf")]})


class HashedIds(nn.Module):
    """Two tables by quotient and remainder, a third by a multiplicative hash."""

    def __init__(self, buckets=7):
        super().__init__()
        self.buckets = buckets
        self.q = nn.Embedding(100 // buckets + 1, 4)
        self.r = nn.Embedding(buckets, 4)
        self.h = nn.Embedding(16, 4)
        self.fc = nn.Linear(4, 1)

    def forward(self, user):
        e = self.q(torch.div(user, self.buckets, rounding_mode="floor")) * self.r(user % self.buckets)
        e = e + self.h((user * 2654435761 + 12345) % 16)
        return torch.sigmoid(self.fc(e))[:, 0]


def hashed_ids():
    return Case(HashedIds(), ids(100), {"user": {"vocab_size": 100}})


class CrossedIds(nn.Module):
    """A cross of city and hour as an id of its own."""

    def __init__(self):
        super().__init__()
        self.city, self.cross = nn.Embedding(6, 3), nn.Embedding(6 * 24, 3)

    def forward(self, city, hour):
        return (self.city(city) * self.cross(city * 24 + hour)).sum(-1)


def crossed_ids():
    return Case(CrossedIds(), {"city": ids(6), "hour": ids(24)}, {"city": {"table": "city"}, "hour": {"vocab_size": 24}})


class CrossedFlag(nn.Module):
    """A cross of the id with a condition on a number."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(20, 4)
        self.fc = nn.Linear(4, 1)

    def forward(self, item, price):
        return self.fc(self.table(item + 10 * (price > 1.0).long())).sigmoid()


def crossed_flag():
    return Case(CrossedFlag(), {"item": ids(10), "price": torch.rand(N) * 2}, {"item": {"vocab_size": 10}, "price": {}},
                edges={"price": [1.0, 1.0000001, 0.9999999]})


class Calibrated(nn.Module):
    """Negative sampling is undone behind the sigmoid, and the score kept away from 0 and 1."""

    def __init__(self, rate=0.1):
        super().__init__()
        self.rate = rate
        self.user, self.item = nn.Embedding(20, 8), nn.Embedding(20, 8)

    def forward(self, batch):
        p = torch.sigmoid((self.user(batch["user"]) * self.item(batch["item"])).sum(1))
        p = p / (p + (1 - p) / self.rate)
        return p.clamp(1e-6, 1 - 1e-6)


def calibrated():
    return Case(Calibrated(), {"user": ids(20), "item": ids(20)}, {"user": {"table": "user"}, "item": {"table": "item"}})


class Thresholds(nn.Module):
    """Rules with comparisons, rounding and integer parts."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(5, 1)

    def forward(self, price, age):
        cheap = (price < 10).float()
        adult = torch.logical_and(age >= 18, age < 65).to(price.dtype)
        parts = torch.stack([cheap, adult, torch.floor(age / 10), torch.sign(price - 3), F.relu(price - 10)], dim=1)
        return self.fc(parts).squeeze(1)


def thresholds():
    return Case(Thresholds(), {"price": torch.rand(N) * 20, "age": torch.rand(N) * 90}, {"price": {}, "age": {}},
                edges={"price": [10.0, 3.0, 2.9999998], "age": [18.0, 65.0, 17.999998, 20.0, -0.5]})


MODELS = {f.__name__: f for f in (buckets, quantile_clamp, missing_values, nan_to_num, hashed_ids, crossed_ids, crossed_flag, calibrated,
                                  thresholds)}
