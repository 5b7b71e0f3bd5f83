"""Models of the shape of TaobaoAd: a user, an item with category, brand and tag, and 50 places of each of these three as history.

Each takes {"fields": [B, 9], "target": [B, 3], "history": [B, 150]} and gives [B]. The three sequences of a row have one length; id 0 is padding,
behind the real places. `packed` runs recurrent layers over packed sequences (PyTorch's best form, and what is exported as a bundle), else
step by step over padded ones (what ONNX can hold); both are the same numbers."""

import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from criteo import Fields, mlp

FIELD_ROWS = [100_000, 100, 16, 4, 8, 8, 100_000, 100_000, 4]  # user, segments ..., advertisement, campaign, position
PARTS = [12_973, 100_000, 6]                                   # category, brand, tag
PLACES, DIM = 50, 32
WIDTH = 3 * DIM
HIDDEN = (512, 256, 128)


class Base(nn.Module):
    """What all read: fields, the target's three embeddings as one vector, those of each place of the history, and which places count."""

    def __init__(self):
        super().__init__()
        self.fields = Fields(FIELD_ROWS, DIM)
        self.parts = nn.ModuleList(nn.Embedding(n, DIM, padding_idx=0) for n in PARTS)
        self.packed = True

    def read(self, batch):
        history = batch["history"]
        target = torch.cat([table(batch["target"][:, i]) for i, table in enumerate(self.parts)], 1)
        places = torch.cat([table(history[:, i * PLACES:(i + 1) * PLACES]) for i, table in enumerate(self.parts)], 2)
        return self.fields(batch["fields"]).flatten(1), target, places, history[:, :PLACES] != 0


class Din(Base):
    """Weights of the history's places by an MLP over [target, place, difference, product] (arXiv 1706.06978)."""

    def __init__(self):
        super().__init__()
        self.attention = nn.Sequential(nn.Linear(4 * WIDTH, 80), nn.Sigmoid(), nn.Linear(80, 40), nn.Sigmoid(), nn.Linear(40, 1))
        self.mlp = mlp(len(FIELD_ROWS) * DIM + 2 * WIDTH, HIDDEN)

    def forward(self, batch):
        fields, target, places, mask = self.read(batch)
        q = target.unsqueeze(1).expand(-1, PLACES, -1)
        a = self.attention(torch.cat([q, places, q - places, q * places], 2)).squeeze(2) * mask
        pooled = (a.unsqueeze(2) * places).sum(1)
        return torch.sigmoid(self.mlp(torch.cat([fields, target, pooled], 1)).squeeze(1))


class AttentionalGru(nn.Module):
    """GRU whose update gate is scaled by attention (AUGRU)."""

    def __init__(self, width, hidden):
        super().__init__()
        self.hidden = hidden
        self.w, self.u = nn.Parameter(torch.randn(3 * hidden, width) * width ** -0.5), nn.Parameter(torch.randn(3 * hidden, hidden) * hidden ** -0.5)
        self.b, self.c = nn.Parameter(torch.zeros(3 * hidden)), nn.Parameter(torch.zeros(3 * hidden))

    def step(self, x, h, a):
        r, z, n = (x @ self.w.T + self.b).chunk(3, 1)
        hr, hz, hn = (h @ self.u.T + self.c).chunk(3, 1)
        z = a * torch.sigmoid(z + hz)
        return (1 - z) * h + z * torch.tanh(n + torch.sigmoid(r + hr) * hn)

    def forward(self, x, attention):
        """Packed sequences [*, width] and [*]: (packed states, last states)."""
        h, begin, out, sizes = x.data.new_zeros(int(x.batch_sizes[0]), self.hidden), 0, [], x.batch_sizes.tolist()
        for n in sizes:
            h = torch.cat([self.step(x.data[begin:begin + n], h[:n], attention.data[begin:begin + n].unsqueeze(1)), h[n:]])
            out.append(h[:n])
            begin += n
        return PackedSequence(torch.cat(out), x.batch_sizes, x.sorted_indices, x.unsorted_indices), h[x.unsorted_indices]

    def padded(self, x, attention, mask):
        h = x.new_zeros(x.shape[0], self.hidden)
        for t in range(x.shape[1]):
            h = torch.where(mask[:, t:t + 1], self.step(x[:, t], h, attention[:, t:t + 1]), h)
        return h


class Dien(Base):
    """A GRU over the history, attention of the target to its states, a GRU by that attention (arXiv 1809.03672)."""

    def __init__(self):
        super().__init__()
        self.gru, self.over = nn.GRU(WIDTH, WIDTH, batch_first=True), AttentionalGru(WIDTH, WIDTH)
        self.form = nn.Linear(WIDTH, WIDTH, bias=False)
        self.mlp = mlp(len(FIELD_ROWS) * DIM + 2 * WIDTH, HIDDEN)

    def forward(self, batch):
        fields, target, places, mask = self.read(batch)
        lengths = mask.sum(1).clamp(min=1)  # packed sequences are never empty: an empty history is one place of padding
        mask = torch.arange(PLACES) < lengths.unsqueeze(1)
        if self.packed:
            packed = pack_padded_sequence(places, lengths.cpu(), batch_first=True, enforce_sorted=False)
            states = pad_packed_sequence(self.gru(packed)[0], batch_first=True, total_length=PLACES)[0]
        else:
            states = self.gru(places)[0]
        scores = (states @ self.form(target).unsqueeze(2)).squeeze(2).masked_fill(~mask, -1e9)
        scores = torch.softmax(scores, 1)
        if self.packed:
            rows = {"lengths": lengths.cpu(), "batch_first": True, "enforce_sorted": False}
            last = self.over(pack_padded_sequence(states, **rows), pack_padded_sequence(scores, **rows))[1]
        else:
            last = self.over.padded(states, scores, mask)
        return torch.sigmoid(self.mlp(torch.cat([fields, target, last], 1)).squeeze(1))


class Bst(Base):
    """One transformer block over the history and the target (arXiv 1905.06874)."""

    def __init__(self, heads=2):
        super().__init__()
        self.heads = heads
        self.place = nn.Parameter(torch.randn(PLACES + 1, WIDTH) * 0.02)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.forward_1, self.forward_2 = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.mlp = mlp(len(FIELD_ROWS) * DIM + 2 * WIDTH, HIDDEN)

    def forward(self, batch):
        fields, target, places, mask = self.read(batch)
        x = torch.cat([places, target.unsqueeze(1)], 1) + self.place
        counts = torch.cat([mask, torch.ones_like(mask[:, :1])], 1)
        q, k, v = (p.reshape(-1, PLACES + 1, self.heads, WIDTH // self.heads).transpose(1, 2) for p in self.qkv(x).chunk(3, 2))
        scores = (q @ k.transpose(2, 3)) * (WIDTH // self.heads) ** -0.5
        a = torch.softmax(scores.masked_fill(~counts[:, None, None, :], -1e9), 3)
        x = self.norms[0](x + self.out((a @ v).transpose(1, 2).flatten(2)))
        x = self.norms[1](x + self.forward_2(torch.relu(self.forward_1(x))))
        weight = counts.to(x.dtype).unsqueeze(2)
        pooled = (x * weight).sum(1) / weight.sum(1)
        return torch.sigmoid(self.mlp(torch.cat([fields, target, pooled], 1)).squeeze(1))


class Can(nn.Module):
    """The co-action network of dpi_export.models with its authors' sizes, on the same inputs: each part of the target with its history."""

    NAMES = ("category", "brand", "tag")

    def __init__(self):
        super().__init__()
        from dpi_export.models import CAN

        fields = {f"f{i}": n for i, n in enumerate(FIELD_ROWS)} | dict(zip(self.NAMES, PARTS))
        self.can = CAN(fields, {f"{name}_history": name for name in self.NAMES}, dim=DIM, hidden=HIDDEN)

    def forward(self, batch):
        named = {f"f{i}": batch["fields"][:, i] for i in range(len(FIELD_ROWS))}
        for i, name in enumerate(self.NAMES):
            named[name] = batch["target"][:, i]
            named[f"{name}_history"] = batch["history"][:, i * PLACES:(i + 1) * PLACES]
        return self.can(named)


MODELS = {"din": Din, "dien": Dien, "bst": Bst, "can": Can}
