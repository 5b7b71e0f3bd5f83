"""The co-action unit of CAN (Bian et al., "CAN: Feature Co-Action for Click-Through Rate Prediction", WSDM 2022, arXiv 2011.05625, part 4).

One feature's embedding (the induction side) holds the weights of a micro-MLP, which is applied to another feature's embedding (the feed
side), or to each item of a history, in several orders (elementwise powers of the feed):

  h_0 = feed^o                                                       o = 1 .. orders
  h_l = activation(h_{l-1} W_l + b_l)                                l = 1 .. levels; W_l, b_l: cut from the induction row
  out = pool over the history of [h_1 | .. | h_L] of every order

With the default MicroMlp these are the shapes of the authors' TensorFlow graph: 160 numbers an induction row (16 x 8 + 8 x 4), three orders
with the same weights, tanh on all levels but the last, every level collected: 3 (8 + 4) = 36 outputs a pair.
"""

import dataclasses
from typing import Tuple, Union

import torch
from torch import nn

ACTIVATIONS = {"tanh": torch.tanh, "relu": torch.relu, "selu": torch.selu, "sigmoid": torch.sigmoid, "none": lambda x: x}
_CHOICES = {"order_weights": ("shared", "independent"), "order_join": ("concat", "sum", "input"), "activation": tuple(ACTIVATIONS),
            "collect": ("all", "last"), "pool": ("sum", "mean", "none")}


@dataclasses.dataclass(frozen=True)
class MicroMlp:
    """What a co-action unit computes.

    widths         the feed's width, then each level's
    bias           whether levels have one: a bool, or one for each level
    orders         1 is the feed alone, 2 adds its squares ...
    order_weights  "shared": one micro-MLP for all orders; "independent": one for each
    order_join     "concat": each order's outputs, one after another; "sum": their sum; "input": the orders are concatenated in front of one
                   micro-MLP, whose first level then takes orders * widths[0] numbers
    activation     tanh, relu, selu, sigmoid or none
    act_on_last    whether the last level has the activation too
    collect        "all": the outputs of every level; "last": of the last
    pool           over a history: "sum" or "mean" of the positions that count, 0 where none does; "none": all positions, 0 at padding

    The authors' variants: MicroMlp() is their graph for a history; MicroMlp((16, 16), orders=5, order_join="sum", act_on_last=True)
    their graph for a single value.
    """

    widths: Tuple[int, ...] = (16, 8, 4)
    bias: Union[bool, Tuple[bool, ...]] = False
    orders: int = 3
    order_weights: str = "shared"
    order_join: str = "concat"
    activation: str = "tanh"
    act_on_last: bool = False
    collect: str = "all"
    pool: str = "sum"

    def __post_init__(self):
        if len(self.widths) < 2 or min(self.widths) < 1 or self.orders < 1:
            raise ValueError(f"MicroMlp: widths {self.widths} and orders {self.orders}, expected two positive widths or more, and an order")
        if not isinstance(self.bias, bool) and len(self.bias) != len(self.widths) - 1:
            raise ValueError(f"MicroMlp: bias says {len(self.bias)} levels, there are {len(self.widths) - 1}")
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise ValueError(f"MicroMlp: {name} is {getattr(self, name)!r}, expected one of {', '.join(choices)}")
        if self.order_join == "input" and self.order_weights == "independent":
            raise ValueError("MicroMlp: orders that are joined at the input have one micro-MLP, so order_weights is 'shared'")

    @property
    def levels(self):
        """(inputs, outputs, has a bias) of each level."""
        widths = list(self.widths)
        widths[0] *= self.orders if self.order_join == "input" else 1
        bias = [self.bias] * (len(widths) - 1) if isinstance(self.bias, bool) else self.bias
        return list(zip(widths, widths[1:], bias))

    @property
    def groups(self):
        """Micro-MLPs in one induction row: one, or one for each order."""
        return self.orders if self.order_weights == "independent" else 1

    @property
    def induction_dim(self):
        """Numbers in an induction row: for each group, level by level, W [inputs, outputs] row by row and the bias behind it."""
        return self.groups * sum(m * n + n * b for m, n, b in self.levels)

    @property
    def feed_dim(self):
        """Numbers in a feed row."""
        return self.widths[0]

    @property
    def output_dim(self):
        """Numbers that a pair gives, at a position or pooled: for each joined order the collected levels."""
        collected = self.widths[1:] if self.collect == "all" else self.widths[-1:]
        return sum(collected) * (self.orders if self.order_join == "concat" else 1)


class CoActionUnit(nn.Module):
    """One pair's co-action. It has no parameters of its own: the embeddings hold them."""

    def __init__(self, micro=MicroMlp()):
        super().__init__()
        self.micro = micro

    def forward(self, induction, feed, mask=None):
        """induction [B, induction_dim]; feed [B, T, feed_dim] with mask [B, T] (1: the position counts; None: all do), or [B, feed_dim] for a
        single value -> [B, output_dim], with pool "none" [B, T, output_dim]."""
        feed = feed.unsqueeze(1) if feed.dim() == 2 else feed
        orders = []
        for h, levels in zip(self._orders(feed), self._weights(induction)):
            kept = []
            for level, (weight, bias) in enumerate(levels, 1):
                h = torch.matmul(h, weight)
                h = h if bias is None else h + bias
                last = level == len(levels)
                h = ACTIVATIONS[self.micro.activation](h) if self.micro.act_on_last or not last else h
                if last or self.micro.collect == "all":
                    kept.append(self._pooled(h.reshape(h.shape[0], feed.shape[1], -1), mask, weight.shape[-1]))
            orders.append(torch.cat(kept, dim=-1) if len(kept) > 1 else kept[0])
        out = torch.cat(orders, dim=-2) if len(orders) > 1 else orders[0]  # [B, (T,) orders, collected]
        return out.sum(dim=-2) if self.micro.order_join == "sum" else out.flatten(-2)

    def _orders(self, feed):
        """What goes into each micro-MLP, [B, rows, m], of feed [B, T, m]: orders with the same weights are T * orders rows of one product,
        position by position; independent orders are T rows each; orders joined at the input are T rows of orders * m numbers."""
        powers = [feed]
        for _ in range(self.micro.orders - 1):
            powers.append(powers[-1] * feed)
        if self.micro.order_weights == "independent":
            return powers
        joined = torch.cat(powers, dim=-1) if len(powers) > 1 else feed
        return [joined if self.micro.order_join == "input" else joined.reshape(feed.shape[0], -1, self.micro.widths[0])]

    def _weights(self, induction):
        """For each micro-MLP of the induction rows the (W [B, m, n], bias [B, 1, n] or None) of its levels."""
        at, found = 0, []
        for _ in range(self.micro.groups):
            found.append([])
            for m, n, has_bias in self.micro.levels:
                weight = induction[:, at:at + m * n].reshape(-1, m, n)
                at += m * n
                bias = induction[:, at:at + n].unsqueeze(1) if has_bias else None
                at += n * has_bias
                found[-1].append((weight, bias))
        return found

    def _pooled(self, h, mask, n):
        """[B, orders, n] of a level's outputs h [B, T, orders * n]; with pool "none" [B, T, orders, n]."""
        if self.micro.pool == "none":
            h = h if mask is None else h * mask.unsqueeze(2)
        elif mask is None:
            h = h.sum(dim=1) if self.micro.pool == "sum" else h.mean(dim=1)
        else:
            total = torch.matmul(mask.unsqueeze(1), h).squeeze(1)
            h = total if self.micro.pool == "sum" else total / mask.sum(dim=1, keepdim=True).clamp(min=1)
        return h.reshape(*h.shape[:-1], -1, n)


class CoActionNetwork(nn.Module):
    """Co-actions of pairs of features, with the tables that they need.

    inductions   {feature: vocabulary size} of the features whose rows are micro-MLPs
    feeds        {feature: vocabulary size} of the features that go through them: single values or histories
    pairs        (induction, feed) names; default: every induction with every feed
    micro        the MicroMlp of all pairs, pool "sum" or "mean"
    independent  False: a feature has one row for all pairs that it is in; True (the paper's independence of combinations): a row holds as
                 many slices as pairs, in their order, so that no two pairs share a number

    Tables: `induction.<feature>` [vocabulary, slices * induction_dim], `feed.<feature>` [vocabulary, slices * feed_dim].
    """

    def __init__(self, inductions, feeds, pairs=None, micro=MicroMlp(), independent=True):
        super().__init__()
        if micro.pool == "none":
            raise ValueError("CoActionNetwork: gives one vector a row, so pool is 'sum' or 'mean'")
        self.pairs = [tuple(p) for p in pairs] if pairs is not None else [(i, f) for i in inductions for f in feeds]
        for induction, feed in self.pairs:
            if induction not in inductions or feed not in feeds:
                raise ValueError(f"CoActionNetwork: the pair ({induction!r}, {feed!r}) needs an induction and a feed of these names")
        self.micro, self.independent, self.unit = micro, independent, CoActionUnit(micro)
        slices = [{name: sum(p[side] == name for p in self.pairs) if independent else 1 for name in names}
                  for side, names in enumerate((inductions, feeds))]
        self.induction = nn.ModuleDict({n: nn.Embedding(v, slices[0][n] * micro.induction_dim) for n, v in inductions.items() if slices[0][n]})
        self.feed = nn.ModuleDict({n: nn.Embedding(v, slices[1][n] * micro.feed_dim) for n, v in feeds.items() if slices[1][n]})
        self.reset_parameters()

    @property
    def output_dim(self):
        """Numbers of all pairs."""
        return len(self.pairs) * self.micro.output_dim

    def reset_parameters(self):
        """Micro-MLPs as nn.Linear has them at the start, in spread: 1 / sqrt(inputs) of a level; feeds of spread 0.1."""
        with torch.no_grad():
            for table in self.feed.values():
                table.weight.normal_(std=0.1)
            level = torch.cat([torch.cat([torch.full((m * n,), m ** -0.5), torch.zeros(n * b)]) for m, n, b in self.micro.levels])
            for table in self.induction.values():
                table.weight.normal_().mul_(level.repeat(table.embedding_dim // len(level)))

    def forward(self, inductions, feeds, masks):
        """{feature: ids [B]}, {feature: ids [B, T] or [B]}, {feed: mask [B, T]} (a feed without one counts everywhere) -> [B, output_dim],
        pair after pair."""
        rows = {name: table(inductions[name]) for name, table in self.induction.items()}
        values = {name: table(feeds[name]) for name, table in self.feed.items()}
        taken, out = {}, []
        for induction, feed in self.pairs:
            row = self._slice(rows[induction], self.micro.induction_dim, taken, ("induction", induction))
            value = self._slice(values[feed], self.micro.feed_dim, taken, ("feed", feed))
            out.append(self.unit(row, value, masks.get(feed)))
        return torch.cat(out, dim=1) if len(out) > 1 else out[0]

    def _slice(self, rows, width, taken, key):
        """The next slice of a feature's row; the whole row where pairs share it."""
        if not self.independent:
            return rows
        at = taken.get(key, 0)
        taken[key] = at + 1
        return rows[..., at * width:(at + 1) * width]
