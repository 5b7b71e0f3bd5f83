"""Dense parts that mix tokens made of Criteo's 39 fields: RankMixer and Wukong. Each takes {"ids": [B, 39]} and gives [B].

Written from the papers, without code of theirs. `float64_2026.py` has the same formulas in numpy."""

import torch
import torch.nn.functional as F
from torch import nn

from criteo import DIM, HIDDEN, Base, mlp

RANK = {"tokens": 16, "width": 256, "layers": 2, "hidden": 1024}    #: of RankMixer; a token's head is width / tokens wide
EXPERTS = {"experts": 8, "hidden": 128, "top": 2}                   #: of the sparse form, which has as many parameters as the dense one

WUKONG = {"layers": 3, "fm": 16, "linear": 16, "rank": 24, "hidden": (512, 512)}  #: embeddings that the two blocks make, columns of Y, the block's MLP


def weight(*dims):
    """A parameter [..., in, out]."""
    return nn.Parameter(torch.randn(*dims) * dims[-2] ** -0.5)


class PerToken(nn.Module):
    """A Linear of its own for each token: [B, T, in] to [B, T, out], one grouped product."""

    def __init__(self, tokens, n_in, out):
        super().__init__()
        self.weight, self.bias = weight(tokens, n_in, out), nn.Parameter(torch.randn(tokens, out) * 0.1)

    def forward(self, x):
        return torch.einsum("bti,tio->bto", x, self.weight) + self.bias


def mixed(x):
    """Token mixing (2507.15551, 3.3.1): each token is cut into as many heads as there are tokens; head h of all tokens, joined, is token h."""
    rows, tokens, width = x.shape
    return x.view(rows, tokens, tokens, width // tokens).transpose(1, 2).reshape(rows, tokens, width)


class DenseFfn(nn.Module):
    """Per-token FFN (2507.15551, 3.3.2): W2_t gelu(W1_t s_t + b1_t) + b2_t with weights of token t alone."""

    def __init__(self, tokens, width, hidden):
        super().__init__()
        self.first, self.second = PerToken(tokens, width, hidden), PerToken(tokens, hidden, width)

    def forward(self, s):
        return self.second(F.gelu(self.first(s)))


class SparseFfn(nn.Module):
    """Experts of each token (2507.15551, 3.4): the sum over j of G_tj e_tj(s_t). `top` 0 is the paper's gate G = relu(h(s)); else the softmax's
    largest `top` gates count (Shazeer et al., 1701.06538, without noise and not normed again). All experts are computed."""

    def __init__(self, tokens, width, experts, hidden, top):
        super().__init__()
        self.experts, self.top, self.gate = experts, top, PerToken(tokens, width, experts)
        self.first, self.second = PerToken(tokens, width, experts * hidden), nn.Parameter(torch.randn(tokens, experts, hidden, width) * hidden ** -0.5)
        self.bias = nn.Parameter(torch.randn(tokens, experts, width) * 0.1)

    def gates(self, s):
        if not self.top:
            return torch.relu(self.gate(s))
        g = torch.softmax(self.gate(s), 2)
        best, at = g.topk(self.top, 2)
        return torch.zeros_like(g).scatter(2, at, best)

    def forward(self, s):
        g, (rows, tokens, _) = self.gates(s), s.shape
        h = F.gelu(self.first(s)).view(rows, tokens, self.experts, -1) * g.unsqueeze(3)
        second = self.second.flatten(1, 2)
        return torch.einsum("bti,tio->bto", h.flatten(2), second) + torch.einsum("bte,teo->bto", g, self.bias)


class RankMixer(Base):
    """2507.15551, 3.2: tokens from equal cuts of the joined embeddings, layers S = LN(mixed(X) + X), X = LN(FFN(S) + S), their mean, a score.
    `gate`: None has one FFN a token, "relu" and "top" have experts."""

    def __init__(self, gate=None):
        super().__init__()
        tokens, width = RANK["tokens"], RANK["width"]
        self.tokens, self.project = tokens, PerToken(tokens, self.width // tokens, width)
        ffn = {None: lambda: DenseFfn(tokens, width, RANK["hidden"]),
               "relu": lambda: SparseFfn(tokens, width, EXPERTS["experts"], EXPERTS["hidden"], 0),
               "top": lambda: SparseFfn(tokens, width, EXPERTS["experts"], EXPERTS["hidden"], EXPERTS["top"])}[gate]
        self.layers = nn.ModuleList(nn.ModuleDict({"norm_1": nn.LayerNorm(width), "ffn": ffn(), "norm_2": nn.LayerNorm(width)})
                                    for _ in range(RANK["layers"]))
        self.out = nn.Linear(width, 1)

    def logit(self, ids, e):
        x = self.project(e.flatten(1).unflatten(1, (self.tokens, -1)))
        for layer in self.layers:
            s = layer["norm_1"](mixed(x) + x)
            x = layer["norm_2"](layer["ffn"](s) + s)
        return self.out(x.mean(1)).squeeze(1)


class FmBlock(nn.Module):
    """Wukong's FMB (2403.02545, 3.4 and 3.6): reshape(MLP(LN(flatten(X X^T Y)))) with the learned projection Y [n, k], as X (X^T Y)."""

    def __init__(self, n, out, rank, hidden):
        super().__init__()
        self.y, self.out = weight(n, rank), out
        self.norm, self.mlp = nn.LayerNorm(n * rank), mlp(n * rank, hidden, out * DIM)

    def forward(self, x):
        f = torch.bmm(x, torch.matmul(x.transpose(1, 2), self.y))
        return self.mlp(self.norm(f.flatten(1))).unflatten(1, (self.out, DIM))


class WukongLayer(nn.Module):
    """2403.02545, 3.3: LN(concat(FMB(X), LCB(X)) + X), LCB(X) = W X (3.5). Where the number of embeddings changes, the residual is a W X as well."""

    def __init__(self, n):
        super().__init__()
        out = WUKONG["fm"] + WUKONG["linear"]
        self.fm, self.linear = FmBlock(n, WUKONG["fm"], WUKONG["rank"], WUKONG["hidden"]), nn.Linear(n, WUKONG["linear"], bias=False)
        self.rest, self.norm = None if n == out else nn.Linear(n, out, bias=False), nn.LayerNorm(DIM)

    def forward(self, x):
        columns = x.transpose(1, 2)
        found = torch.cat([self.fm(x), self.linear(columns).transpose(1, 2)], 1)
        return self.norm(found + (x if self.rest is None else self.rest(columns).transpose(1, 2)))


class Wukong(Base):
    """2403.02545: stacked factorization machines over the embeddings, an MLP behind them."""

    def __init__(self):
        super().__init__()
        out = WUKONG["fm"] + WUKONG["linear"]
        self.layers = nn.Sequential(*(WukongLayer(self.n if i == 0 else out) for i in range(WUKONG["layers"])))
        self.mlp = mlp(out * DIM, HIDDEN)

    def logit(self, ids, e):
        return self.mlp(self.layers(e).flatten(1)).squeeze(1)


MODELS = {"rankmixer": RankMixer, "rankmixer_relu": lambda: RankMixer("relu"), "rankmixer_top": lambda: RankMixer("top"),
          "wukong": Wukong}
