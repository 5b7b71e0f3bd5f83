"""Models whose layers share weights, in every way that torch has for it, and recurrent layers of every kind, with own and with shared
weights. Nothing here knows of the tracer. MODELS: name -> a function that makes the model; make() gives it with random weights."""

import torch
from torch import nn
from trace_inputs import N, ids

FEATURES = {"user": {"vocab_size": 17}, "item": {"vocab_size": 17}, "seen": {"vocab_size": 17}, "bought": {"vocab_size": 17}}
DIM = 4


class Model(nn.Module):
    """A user, an item and two histories from one vocabulary. A subclass has its layers in build() and its formula in logit()."""

    def __init__(self, **options):
        super().__init__()
        self.items = nn.Embedding(17, DIM)
        self.out = nn.Linear(DIM, 1)
        self.build(**options)

    def forward(self, user, item, seen, bought):
        return torch.sigmoid(self.logit(user, item, seen, bought)).reshape(-1, 1)


# -- ways to share ----------------------------------------------------------------------------------------------------------
class OneTable(Model):
    """One nn.Embedding under the names of two features."""

    def build(self):
        self.tables = nn.ModuleDict({"user": self.items, "item": self.items})

    def logit(self, user, item, seen, bought):
        return self.out(self.tables["user"](user) * self.tables["item"](item))


class TableInEveryPart(Model):
    """A table that two submodules hold, and one parameter for two nn.Embedding."""

    def build(self):
        self.left, self.right = nn.Sequential(self.items, nn.Linear(DIM, DIM)), nn.Sequential(self.items, nn.Linear(DIM, DIM))
        self.other = nn.Embedding(17, DIM)
        self.other.weight = self.items.weight

    def logit(self, user, item, seen, bought):
        return self.out(self.left(user) * self.right(item) + self.other(seen).sum(1))


class OneTower(Model):
    """A layer of two towers, and one of them twice in a list."""

    def build(self):
        layer = nn.Linear(DIM, DIM)
        self.user, self.item = nn.Sequential(layer, nn.Tanh()), nn.Sequential(layer, nn.ReLU(), layer)
        self.both = nn.ModuleList([self.user, self.user])

    def logit(self, user, item, seen, bought):
        return (self.both[0](self.items(user)) * self.item(self.items(item)) + self.both[1](self.items(item))).sum(1)


class TiedOutput(Model):
    """The table is the weight of the last layer too."""

    def build(self):
        self.last = nn.Linear(DIM, 17, bias=False)
        self.last.weight = self.items.weight

    def logit(self, user, item, seen, bought):
        return self.last(torch.tanh(self.items(user))).gather(1, item[:, None])


class TwoNames(Model):
    """A parameter and a buffer under two names in one layer, and in another one."""

    def build(self):
        self.scale = nn.Parameter(torch.zeros(DIM))
        self.again = self.inner = self.scale
        self.register_buffer("shift", torch.linspace(-1, 1, DIM))
        self.register_buffer("moved", self.shift)
        self.norm = nn.LayerNorm(DIM)
        self.norm.weight = self.scale
        self.norm.register_buffer("shift", self.shift)

    def logit(self, user, item, seen, bought):
        e = self.items(user) * self.scale + self.items(item) * self.again + self.shift @ torch.diag(self.moved)
        return self.out(self.norm(e) + self.norm.shift * self.inner)


class ParameterAndBuffer(Model):
    """A parameter that is a buffer too, and a buffer that shows a part of a table."""

    def build(self):
        self.register_buffer("table", self.items.weight)
        self.register_buffer("first", self.items.weight.detach()[:DIM])

    def logit(self, user, item, seen, bought):
        return self.out(torch.nn.functional.embedding(user, self.table) @ self.first + self.items(item))


class PlainReferences(Model):
    """Weights in a list and in a dict of one's own, which no name leads to."""

    def build(self):
        self.layers = nn.ModuleList([nn.Linear(DIM, DIM) for _ in range(2)])
        self.weights = [layer.weight for layer in self.layers]
        self.named = {"bias": self.layers[0].bias}

    def logit(self, user, item, seen, bought):
        x = torch.nn.functional.linear(self.items(user), self.weights[0], self.named["bias"])
        return self.out(self.layers[1](x) + self.items(item) @ self.weights[1].t())


class TwoParametersOneMemory(Model):
    """Two parameters that lie in one memory, as `b.weight = nn.Parameter(a.weight.data)` makes them."""

    def build(self):
        self.last = nn.Linear(DIM, 17, bias=False)
        self.last.weight = nn.Parameter(self.items.weight.data)

    def logit(self, user, item, seen, bought):
        return self.last(torch.tanh(self.items(user))).gather(1, item[:, None])


class _Doubled(nn.Module):
    def forward(self, weight):
        return weight + weight.tanh()


class Parametrised(Model):
    """A parametrised layer in two towers."""

    def build(self):
        layer = nn.utils.parametrize.register_parametrization(nn.Linear(DIM, DIM), "weight", _Doubled())
        self.user, self.item = nn.Sequential(layer), nn.Sequential(layer, nn.Tanh())

    def logit(self, user, item, seen, bought):
        return self.out(self.user(self.items(user)) * self.item(self.items(item)))


class HalfTable(Model):
    """A half-precision table that two layers share."""

    def build(self):
        self.items.half()
        self.other = nn.Embedding(17, DIM, dtype=torch.float16)
        self.other.weight = self.items.weight

    def logit(self, user, item, seen, bought):
        return self.out(self.items(user).float() * self.other(item).float())


# -- recurrent layers -------------------------------------------------------------------------------------------------------
def _over(layer, e):
    """All states of a layer that is called with batch_first=True."""
    return layer(e)[0]


def _last(layer, e):
    """The last states, of LSTM those of its memory too."""
    state = layer(e)[1]
    return torch.cat(state, 2).transpose(0, 1) if isinstance(state, tuple) else state.transpose(0, 1)


def _from_a_state(layer, e):
    """From a first state that depends on the row."""
    first = e.mean(1)[None]
    return layer(e, (first, first.tanh()) if isinstance(layer, nn.LSTM) else first)[0]


def _time_first(layer, e):
    return layer(e.transpose(0, 1))[0].transpose(0, 1)


def _by_cell(layer, e):
    """Step by step."""
    state, out = None, []
    for t in range(e.shape[1]):
        state = layer(e[:, t]) if state is None else layer(e[:, t], state)
        out.append(state[0] if isinstance(state, tuple) else state)
    return torch.stack(out, 1)


def _layer(kind, **options):
    return lambda: kind(DIM, DIM, **{"batch_first": True, **options})


#: name -> (a function that makes the layer, how it is called, how wide its states are).
RECURRENT = {f"{kind.__name__.lower()}{name}": (_layer(kind, **options), call, width)
             for kind in (nn.RNN, nn.LSTM, nn.GRU) for name, options, call, width in (
                 ("", {}, _over, DIM), ("_last", {}, _last, 2 * DIM if kind is nn.LSTM else DIM),
                 ("_from_a_state", {}, _from_a_state, DIM), ("_time_first", {"batch_first": False}, _time_first, DIM),
                 ("_both_ways", {"bidirectional": True}, _over, 2 * DIM),
                 ("_deep", {"num_layers": 2, "bias": False, "dropout": 0.3}, _over, DIM),
                 ("_deep_both_ways", {"num_layers": 2, "bidirectional": True}, _over, 2 * DIM))}
RECURRENT.update({"rnn_relu": (_layer(nn.RNN, nonlinearity="relu"), _over, DIM), "lstm_projected": (_layer(nn.LSTM, proj_size=2), _over, 2)})
RECURRENT.update({kind.__name__.lower(): (lambda kind=kind: kind(DIM, DIM), _by_cell, DIM) for kind in (nn.RNNCell, nn.LSTMCell, nn.GRUCell)})


class Recurrent(Model):
    """A layer over each history; shared: one layer and one table for both, and the table is the last layer's weight too."""

    def build(self, kind, shared):
        make, self.call, width = RECURRENT[kind]
        self.first = make()
        self.second = self.first if shared else make()
        self.tables = nn.ModuleList([self.items, self.items if shared else nn.Embedding(17, DIM)])
        self.turn, self.last = nn.Linear(width, DIM), nn.Linear(DIM, 17, bias=False)
        if shared:
            self.last.weight = self.items.weight

    def logit(self, user, item, seen, bought):
        states = self.call(self.first, self.tables[0](seen)).sum(1) + self.call(self.second, self.tables[1](bought)).amax(1)
        return self.last(torch.tanh(self.turn(states))).gather(1, item[:, None])


def _named(cls):
    return "".join("_" + c.lower() if c.isupper() else c for c in cls.__name__).lstrip("_")


SHARED = {_named(cls): cls for cls in (OneTable, TableInEveryPart, OneTower, TiedOutput, TwoNames, ParameterAndBuffer, PlainReferences,
                                       TwoParametersOneMemory, Parametrised, HalfTable)}
MODELS = {**SHARED, **{f"{kind}{', shared' if shared else ''}": lambda kind=kind, shared=shared: Recurrent(kind=kind, shared=shared)
                       for kind in RECURRENT for shared in (True, False) if shared or "_" not in kind}}


def make(name, seed=0):
    """(model with random weights in evaluation mode, example, features)."""
    torch.manual_seed(seed)
    model = MODELS[name]()
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn(p.shape) * 0.6)
    example = {"user": ids(17), "item": ids(17), "seen": ids(17, 3), "bought": ids(17, 5)}
    assert len(example["user"]) == N
    return model.eval(), example, FEATURES
