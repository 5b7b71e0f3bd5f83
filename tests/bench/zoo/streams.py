"""Models of 2025 over the rows of histories.py: OneTrans, LONGER and MTGR. Each takes {"fields": [B, 9], "target": [B, 3], "history": [B, 150]} and
gives [B]. Place 0 of a history is the newest event, so padding stands behind the oldest one; "causal" means: a place reads itself and older ones.

Written from the papers, without code of theirs. `float64_2026.py` has the same formulas in numpy."""

import torch
import torch.nn.functional as F
from torch import nn

from criteo import mlp
from histories import DIM, FIELD_ROWS, HIDDEN, PLACES, WIDTH, Base
from mixers import PerToken, weight

SIZE = {"width": 128, "heads": 4, "layers": 2}
USER = 6                                     #: the first fields are the user's, the others say where and what is shown
OTHERS = (len(FIELD_ROWS) - USER) * DIM
NEW = 10                                     #: MTGR: places of the real-time sequence; the others are the long one
TOKENS, PYRAMID = 8, (20, 0)                 #: OneTrans: non-sequential tokens, and how many of the newest events a layer still asks for
MERGE, RECENT = 5, 4                         #: LONGER: places of a merged token, and merged tokens that ask


def older(queries, keys):
    """[queries, keys] True where an event reads itself and older ones."""
    return torch.ones(queries, keys, dtype=torch.bool).triu()


def attention(q, k, v, sees, heads):
    """Softmax attention of [B, n, D] over [B, m, D]; `sees` [B or 1, n, m]."""
    q, k, v = (x.unflatten(2, (heads, -1)).transpose(1, 2) for x in (q, k, v))
    scores = (q @ k.transpose(2, 3)) * q.shape[3] ** -0.5
    return (torch.softmax(scores.masked_fill(~sees.unsqueeze(1), -1e9), 3) @ v).transpose(1, 2).flatten(2)


class RmsNorm(nn.Module):
    """x / sqrt(mean(x^2) + eps), and a weight (1910.07467)."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(1 + 0.1 * torch.randn(width))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * self.weight


class Mixed(nn.Module):
    """OneTrans's mixed parameters (2510.26104, 3.3): one Linear for all events, one of its own for each of the tokens behind them."""

    def __init__(self, tokens, n_in, out):
        super().__init__()
        self.tokens, self.events, self.own = tokens, nn.Linear(n_in, out), PerToken(tokens, n_in, out)

    def forward(self, x):
        events = x.shape[1] - self.tokens
        if not events:
            return self.own(x)
        return torch.cat([self.events(x[:, :events]), self.own(x[:, events:])], 1)


class OneTransBlock(nn.Module):
    """2510.26104, 3.3 and 3.4: Z = MHA(norm(X)) + X, FFN(norm(Z)) + Z with mixed parameters under a causal mask; only the newest `asked` events and
    the tokens ask, and stay."""

    def __init__(self, events, asked):
        super().__init__()
        d, self.asked, self.n = SIZE["width"], asked, events
        self.norms = nn.ModuleList(RmsNorm(d) for _ in range(2))
        self.q, self.kv, self.out = Mixed(TOKENS, d, d), Mixed(TOKENS, d, 2 * d), Mixed(TOKENS, d, d)
        self.first, self.second = Mixed(TOKENS, d, 2 * d), Mixed(TOKENS, 2 * d, d)
        sees = torch.ones(asked + TOKENS, events + TOKENS, dtype=torch.bool)
        sees[:asked, :events], sees[:asked, events:] = older(asked, events), False
        sees[asked:, events:] = sees[asked:, events:].tril()
        self.register_buffer("sees", sees)

    def newest(self, x):
        return torch.cat([x[:, :self.asked], x[:, self.n:]], 1)

    def forward(self, x, valid):
        normed = self.norms[0](x)
        k, v = self.kv(normed).chunk(2, 2)
        sees = self.sees & F.pad(valid, (0, TOKENS), value=True).unsqueeze(1)
        z = self.newest(x) + self.out(attention(self.q(self.newest(normed)), k, v, sees, SIZE["heads"]))
        return z + self.second(F.gelu(self.first(self.norms[1](z)))), valid[:, :self.asked]


class OneTrans(Base):
    """2510.26104: events through one Linear, all else through one Linear that is split into tokens (its auto-split tokenizer), one causal stack over
    both that narrows towards the tokens, and an MLP over these."""

    def __init__(self):
        super().__init__()
        d, events = SIZE["width"], (PLACES, *PYRAMID)
        self.events, self.split = nn.Linear(WIDTH, d), nn.Linear(len(FIELD_ROWS) * DIM + WIDTH, TOKENS * d)
        self.blocks = nn.ModuleList(OneTransBlock(n, asked) for n, asked in zip(events, PYRAMID))
        self.mlp = mlp(TOKENS * d, HIDDEN)

    def forward(self, batch):
        fields, target, places, valid = self.read(batch)
        tokens = self.split(torch.cat([fields, target], 1)).unflatten(1, (TOKENS, -1))
        x = torch.cat([self.events(places), tokens], 1)
        for block in self.blocks:
            x, valid = block(x, valid)
        return torch.sigmoid(self.mlp(x.flatten(1)).squeeze(1))


class Block(nn.Module):
    """A transformer block that norms first; queries may be fewer than keys."""

    def __init__(self, d, heads):
        super().__init__()
        self.heads, self.norms = heads, nn.ModuleList(nn.LayerNorm(d) for _ in range(2))
        self.q, self.kv, self.out, self.first, self.second = nn.Linear(d, d), nn.Linear(d, 2 * d), nn.Linear(d, d), nn.Linear(d, 2 * d), nn.Linear(2 * d, d)

    def forward(self, asking, read, sees):
        k, v = self.kv(self.norms[0](read)).chunk(2, -1)
        x = asking + self.out(attention(self.q(self.norms[0](asking)), k, v, sees, self.heads))
        return x + self.second(F.gelu(self.first(self.norms[1](x))))


class Longer(Base):
    """2505.04421: a small transformer inside each group of MERGE places (3.3, InnerTrans), whose states joined are one token; global tokens that read
    everything (3.2); a first layer in which global tokens and the newest merged ones read all, and layers among these (3.4). Ours, where the paper
    leaves it open: norms stand first in a block and once behind the last; the user's global tokens stand before the sequence and the target's behind
    it, which changes no score, since places are in the embeddings."""

    GLOBALS, FIRST = 3, 2

    def __init__(self):
        super().__init__()
        d = SIZE["width"] // 4
        width, merged = MERGE * d, PLACES // MERGE
        self.events, self.place = nn.Linear(WIDTH, d), nn.Parameter(torch.randn(PLACES, d) * 0.1)
        self.inner = Block(d, 1)
        self.target, self.user, self.summary = nn.Linear(WIDTH + OTHERS, width), nn.Linear(USER * DIM, width), nn.Parameter(torch.randn(width) * 0.1)
        self.layers = nn.ModuleList(Block(width, SIZE["heads"]) for _ in range(SIZE["layers"]))
        self.norm, self.mlp = nn.LayerNorm(width), mlp(self.GLOBALS * width, HIDDEN)
        sees = torch.ones(self.GLOBALS + RECENT, self.GLOBALS + merged, dtype=torch.bool)
        sees[self.FIRST:-1, self.FIRST:-1] = older(RECENT, merged)
        self.register_buffer("sees", sees)

    def merged(self, places, valid):
        groups = (self.events(places) + self.place).reshape(-1, MERGE, SIZE["width"] // 4)
        within = valid.reshape(-1, 1, MERGE)
        return self.inner(groups, groups, within).reshape(-1, PLACES // MERGE, MERGE * groups.shape[2])

    def forward(self, batch):
        fields, target, places, valid = self.read(batch)
        user = torch.stack([self.user(fields[:, :USER * DIM]), self.summary.expand(fields.shape[0], -1)], 1)
        target = self.target(torch.cat([target, fields[:, USER * DIM:]], 1)).unsqueeze(1)
        read = torch.cat([user, self.merged(places, valid), target], 1)
        sees = self.sees & F.pad(valid[:, ::MERGE], (self.FIRST, 1), value=True).unsqueeze(1)
        x = self.asking(read, 1)
        for layer in self.layers:
            x, sees = layer(x, read, sees), self.asking(sees, 2)
            read = x
        found = torch.cat([x[:, -1:], x[:, :self.FIRST]], 1)
        return torch.sigmoid(self.mlp(self.norm(found).flatten(1)).squeeze(1))

    def asking(self, x, dim):
        """The global tokens and the newest merged ones."""
        return torch.cat([x.narrow(dim, 0, self.FIRST + RECENT), x.narrow(dim, x.shape[dim] - 1, 1)], dim)


class GroupNorm(nn.Module):
    """Group-LayerNorm (2505.18654, 3.3): LayerNorm of each token with the weights of its token's group."""

    def __init__(self, groups, width):
        super().__init__()
        self.gain, self.shift = nn.Parameter(1 + 0.1 * torch.randn(max(groups) + 1, width)), nn.Parameter(0.1 * torch.randn(max(groups) + 1, width))
        self.register_buffer("group", torch.tensor(groups))

    def forward(self, x):
        return F.layer_norm(x, x.shape[-1:]) * self.gain[self.group] + self.shift[self.group]


class MtgrLayer(nn.Module):
    """2505.18654, 3.3: K, Q, V, U = silu(W GLN(X)); X + W' GLN((silu(Q K^T) / n * M) V * U), heads apart as in HSTU (2402.17152)."""

    def __init__(self, groups):
        super().__init__()
        d = SIZE["width"]
        self.norms = nn.ModuleList(GroupNorm(groups, d) for _ in range(2))
        self.joined, self.out = nn.Linear(d, 4 * d), nn.Linear(d, d)

    def forward(self, x, sees):
        k, q, v, u = F.silu(self.joined(self.norms[0](x))).chunk(4, 2)
        qh, kh, vh = (part.unflatten(2, (SIZE["heads"], -1)).transpose(1, 2) for part in (q, k, v))
        weights = F.silu(qh @ kh.transpose(2, 3)) / x.shape[1] * sees.unsqueeze(1)
        return x + self.out(self.norms[1]((weights @ vh).transpose(1, 2).flatten(2) * u))


class Mtgr(Base):
    """2505.18654: a token for each of the user's fields, the long sequence, the real-time one and the candidate; the mask M lets all read the user's
    fields and the long sequence, real-time events older ones, and the candidate everything. A score from the candidate's state."""

    def __init__(self):
        super().__init__()
        d, old = SIZE["width"], PLACES - NEW
        groups = [0] * USER + [1] * old + [2] * NEW + [3]
        self.user, self.events, self.new = PerToken(USER, DIM, d), nn.Linear(WIDTH, d), nn.Linear(WIDTH, d)
        self.candidate = nn.Linear(WIDTH + OTHERS, d)
        self.layers = nn.ModuleList(MtgrLayer(groups) for _ in range(SIZE["layers"]))
        self.mlp = mlp(d, HIDDEN)
        sees, fixed = torch.zeros(len(groups), len(groups)), USER + old
        sees[:, :fixed], sees[-1] = 1, 1
        sees[fixed:-1, fixed:-1] = older(NEW, NEW)
        self.register_buffer("sees", sees)

    def forward(self, batch):
        fields, target, places, valid = self.read(batch)
        x = torch.cat([self.user(fields[:, :USER * DIM].unflatten(1, (USER, DIM))), self.events(places[:, NEW:]), self.new(places[:, :NEW]),
                       self.candidate(torch.cat([target, fields[:, USER * DIM:]], 1)).unsqueeze(1)], 1)
        counts = F.pad(torch.cat([valid[:, NEW:], valid[:, :NEW]], 1).to(x.dtype), (USER, 1), value=1.0)
        for layer in self.layers:
            x = layer(x, self.sees * counts.unsqueeze(1))
        return torch.sigmoid(self.mlp(x[:, -1]).squeeze(1))


MODELS = {"onetrans": OneTrans, "longer": Longer, "mtgr": Mtgr}
