"""Models that do something surprising, for test_sweep.py: each is exported with the model's own score, or refused with a text that holds the words
given. A trap is a function body(m, x, e, h, c, a) with the names of sweep_operators.py; m is a module with m.w, m.v, m.g, m.table, m.out, a table
m.short of float16, a buffer m.count, a list m.kept, a dict m.cache and the layers m.norm, m.drop, m.gru. The bodies are in sweep_traps_rows.py and
sweep_traps_forms.py."""

import torch
from torch import nn

TRAPS = {}  #: name -> (body, words of the refusal or None)


def trap(words=None):
    """Enters a body."""
    def enter(body):
        TRAPS[body.__name__.strip("_").replace("_", " ")] = body, words
        return body
    return enter


class Body(nn.Module):
    """A body as a model of one score."""

    def __init__(self, body):
        super().__init__()
        torch.manual_seed(3)
        self.body, self.table, self.out, self.short = body, nn.Embedding(30, 8), nn.Linear(1, 1), nn.Embedding(30, 8).half()
        self.w, self.v, self.g = (nn.Parameter(torch.randn(*dims)) for dims in ((8, 8), (8,), (4, 8)))
        self.norm, self.drop, self.gru = nn.LayerNorm(8), nn.Dropout(0.5), nn.GRU(8, 5, batch_first=True)
        self.register_buffer("count", torch.zeros(()))
        self.kept, self.cache = [], {}

    def forward(self, x, h, c, a):
        """[rows, 1]"""
        y = self.body(self, x, self.table(h), h, c, a)
        y = y.flatten(1) if y.dim() > 1 else y[:, None]
        return self.out((y * torch.linspace(0.5, 1.5, y.shape[1])).sum(1, keepdim=True))
