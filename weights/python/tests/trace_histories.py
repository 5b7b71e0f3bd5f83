"""Models for trace_models.py that pick from a history, go through it step by step, or see it as an image or a wave."""

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from trace_inputs import N, ids

HISTORY, ITEM = {"history": {"vocab_size": 19}}, {"item": {"table": "items"}}


class Retrieved(nn.Module):
    """The three items that are most like the candidate, in the order of the history, with embeddings of their places; the best and the
    worst of all."""

    def __init__(self):
        super().__init__()
        self.items, self.places = nn.Embedding(19, 4), nn.Embedding(9, 4)
        self.head = nn.Linear(13, 1)

    def forward(self, history, item):
        e, q = self.items(history), self.items(item)
        like = (e @ q.unsqueeze(2)).squeeze(2)
        like = like + torch.arange(6) * 1e-2 - 20 * (history == 0)  # no two are equal: torch leaves open which of those it takes
        at = like.topk(3, dim=1)[1].sort(dim=1)[0]
        found = torch.gather(e, 1, at.unsqueeze(2).expand(-1, -1, 4)) + self.places(6 - at)
        best, where = like.max(dim=1)
        worst = e.gather(1, like.argmin(1, keepdim=True).unsqueeze(2).repeat(1, 1, 4)).squeeze(1)
        scores, near = (like.masked_fill(history == 0, float("-inf"))).topk(2, dim=1)
        share = torch.nan_to_num(scores.softmax(1)).unsqueeze(1) @ e.gather(1, near.unsqueeze(2).expand(-1, -1, 4))
        lowest = torch.topk(e[:, :, 0], 2, dim=1, largest=False)[0].sum(1)
        joined = torch.cat([found.sum(1) + share.squeeze(1), worst, self.places(where), (best.clamp(min=-5) + lowest).unsqueeze(1)], 1)
        return torch.sigmoid(self.head(joined))


def retrieved():
    return Retrieved(), {"history": ids(19, 6), "item": ids(19)}, {**HISTORY, **ITEM}, {}


class Convolved(nn.Module):
    """Convolutions with strides, padding, dilation and groups over one and two dims, and their largest entries."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(23, 4)
        self.line = nn.Conv1d(4, 6, 3, stride=2, padding=1, groups=2)
        self.plane = nn.Sequential(nn.Conv2d(1, 3, (2, 3), padding=(1, 0), dilation=(2, 1)), nn.BatchNorm2d(3), nn.Tanh(),
                                   nn.MaxPool2d((3, 1), stride=2, padding=(1, 0)))
        self.head = nn.Linear(24 + 12, 1)

    def forward(self, x):
        e = self.table(x)
        line, plane = self.line(e.transpose(1, 2)), self.plane(e.unsqueeze(1))
        return torch.sigmoid(self.head(torch.cat([line.flatten(1), plane.flatten(1)], 1)))


def convolved():
    model = Convolved()
    with torch.no_grad():
        size = model.plane(torch.zeros(2, 1, 7, 4)).flatten(1).shape[1]
    model.head = nn.Linear(24 + size, 1)
    return model, {"x": ids(23, 7)}, {"x": {"vocab_size": 23, "kind": "sequence"}}, {}


class Spectral(nn.Module):
    """A filter in the frequencies of a history, and a circular convolution of two items."""

    def __init__(self):
        super().__init__()
        self.items = nn.Embedding(19, 4)
        self.weight = nn.Parameter(torch.zeros(4, 4, 2))
        self.head = nn.Linear(8, 1)

    def forward(self, history, item):
        e, q = self.items(history), self.items(item)
        waves = torch.fft.rfft(e, dim=1, norm="ortho") * torch.view_as_complex(self.weight)
        e = e + torch.fft.irfft(waves, n=6, dim=1, norm="ortho")
        turned = torch.view_as_real(torch.fft.ifft((torch.fft.fft(q) * torch.tanh(q) * (1 - 2j) + q) * torch.fft.fft(e[:, 0]).conj()))[..., 0]
        return torch.sigmoid(self.head(torch.cat([e.mean(1), turned], 1)))


def spectral():
    return Spectral(), {"history": ids(19, 6), "item": ids(19)}, {**HISTORY, **ITEM}, {}


class Angles(nn.Module):
    """Numbers as angles, and a bilinear layer between them."""

    def __init__(self):
        super().__init__()
        self.inner, self.both, self.head = nn.Linear(3, 4), nn.Bilinear(4, 4, 3), nn.Linear(7, 1)

    def forward(self, x):
        h = self.inner(x)
        sin, cos = torch.sin(h), torch.cos(h)
        h = torch.atan2(sin + 0.5, cos) + torch.sign(h)
        return torch.sigmoid(self.head(torch.cat([self.both(sin, cos), h], 1)))


def angles():
    return Angles(), {"x": torch.randn(N, 3)}, {"x": {}}, {}


class Evolving(nn.Module):
    """Two layers of nn.GRU over packed histories, of the rows that have one; the others get zeros."""

    def __init__(self):
        super().__init__()
        self.items, self.head = nn.Embedding(19, 4, padding_idx=0), nn.Linear(12, 1)
        self.gru, self.over = nn.GRU(4, 4, num_layers=2, batch_first=True), nn.GRU(4, 4)

    def forward(self, history, item):
        e, pad = self.items(history), history > 0
        rows = pad.sum(dim=1) > 0
        packed = pack_padded_sequence(e[rows], pad[rows].sum(dim=1).cpu(), batch_first=True, enforce_sorted=False)
        states, last = self.gru(packed)
        padded = pad_packed_sequence(states, batch_first=True, padding_value=-1.0, total_length=6)[0]
        found = torch.zeros(len(history), 8, dtype=e.dtype)
        found[rows] = torch.cat([last[1], padded.max(dim=1)[0]], 1)
        whole = self.over(e.transpose(0, 1))[0][-1]
        return torch.sigmoid(self.head(torch.cat([found, whole * self.items(item)], 1)))


def evolving():
    return Evolving(), {"history": ids(19, 6), "item": ids(19)}, {**HISTORY, **ITEM}, {}


class FromBothSides(nn.Module):
    """Two layers of a GRU from both sides over packed histories."""

    def __init__(self):
        super().__init__()
        self.items, self.head = nn.Embedding(19, 4, padding_idx=0), nn.Linear(12, 1)
        self.gru = nn.GRU(4, 3, num_layers=2, batch_first=True, bidirectional=True)

    def forward(self, history):
        e, pad = self.items(history), history > 0
        packed = pack_padded_sequence(e, pad.sum(dim=1).clamp(min=1).cpu(), batch_first=True, enforce_sorted=False)
        states, last = self.gru(packed)
        states = pad_packed_sequence(states, batch_first=True, total_length=6)[0]
        return torch.sigmoid(self.head(torch.cat([last[2], last[3], states.sum(1)], 1)))


def from_both_sides():
    return FromBothSides(), {"history": ids(19, 6)}, {**HISTORY}, {}


class Marked(nn.Module):
    """A mask that is written into: the last place counts where no other does."""

    def __init__(self):
        super().__init__()
        self.items, self.head = nn.Embedding(19, 4), nn.Linear(4, 1)

    def forward(self, history):
        mask, e = history == 0, self.items(history)
        mask[mask.all(dim=1), -1] = False
        scores = e.sum(2).masked_fill(mask, float("-inf"))
        return torch.sigmoid(self.head((scores.softmax(1).unsqueeze(2) * e).sum(1)))


def marked():
    return Marked(), {"history": ids(19, 6)}, HISTORY, {}
