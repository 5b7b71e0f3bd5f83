"""ONNX files as torch.onnx.export makes them, of the models of trace_models and of some more; nothing here knows the importer."""

import copy
import io
import warnings

import torch
import trace_models
from torch import nn
from trace_inputs import N, ids


class DeepFM(nn.Module):
    """Embeddings per field, the FM of them, a linear part, an MLP with BatchNorm."""

    def __init__(self, sizes, dense, dim=4):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(s, dim) for s in sizes])
        self.linear = nn.ModuleList([nn.Embedding(s, 1) for s in sizes])
        self.dense = nn.Linear(dense, 1)
        self.mlp = nn.Sequential(nn.Linear(len(sizes) * dim + dense, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 8),
                                 nn.ReLU(), nn.Linear(8, 1))

    def forward(self, a, b, c, x):
        fields = [a, b, c]
        e = torch.stack([table(f) for table, f in zip(self.tables, fields)], dim=1)
        fm = 0.5 * (e.sum(1) ** 2 - (e ** 2).sum(1)).sum(1, keepdim=True)
        first = torch.cat([table(f) for table, f in zip(self.linear, fields)], 1).sum(1, keepdim=True) + self.dense(x)
        return torch.sigmoid(first + fm + self.mlp(torch.cat([e.flatten(1), x], 1)))


def deepfm():
    sizes = {"a": 7, "b": 12, "c": 5}
    example = {**{name: ids(size) for name, size in sizes.items()}, "x": torch.randn(N, 3)}
    return DeepFM(list(sizes.values()), 3), example, {**{name: {"vocab_size": size} for name, size in sizes.items()}, "x": {}}, {}


class MMoE(nn.Module):
    """Experts, a gate for each of two tasks, LayerNorm in the towers."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(20, 4)
        self.experts = nn.ModuleList([nn.Sequential(nn.Linear(8, 6), nn.ReLU()) for _ in range(3)])
        self.gates = nn.ModuleList([nn.Linear(8, 3) for _ in range(2)])
        self.towers = nn.ModuleList([nn.Sequential(nn.Linear(6, 5), nn.LayerNorm(5), nn.GELU(), nn.Linear(5, 1)) for _ in range(2)])

    def forward(self, pair):
        x = self.table(pair).flatten(1)
        experts = torch.stack([expert(x) for expert in self.experts], 1)
        out = []
        for gate, tower in zip(self.gates, self.towers):
            share = torch.softmax(gate(x), -1).unsqueeze(-1)
            out.append(torch.sigmoid(tower((share * experts).sum(1))))
        return tuple(out)


def mmoe():
    return MMoE(), {"pair": ids(20, 2)}, {"u": {"input": "pair", "columns": 0, "vocab_size": 20},
                                          "v": {"input": "pair", "columns": 1, "vocab_size": 20}}, {}


class Activations(nn.Module):
    """Every activation that torch.onnx knows, one after another on slices."""

    LAYERS = (nn.ReLU(), nn.LeakyReLU(0.2), nn.PReLU(3), nn.ELU(0.7), nn.SELU(), nn.CELU(1.3), nn.GELU(), nn.Sigmoid(), nn.Hardsigmoid(),
              nn.Tanh(), nn.Softplus(), nn.Softsign(), nn.SiLU(), nn.Hardswish(), nn.Hardtanh(-0.5, 0.8), nn.ReLU6(), nn.LogSigmoid(),
              nn.Softmax(1), nn.LogSoftmax(1), nn.Mish())

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(copy.deepcopy(self.LAYERS))
        self.first, self.last = nn.Linear(4, 3 * len(self.LAYERS)), nn.Linear(3 * len(self.LAYERS), 1)

    def forward(self, x):
        parts = self.first(x).split(3, dim=1)
        return torch.sigmoid(self.last(torch.cat([layer(part) for layer, part in zip(self.layers, parts)], 1)))


def activations():
    return Activations(), {"x": torch.randn(N, 4)}, {"x": {}}, {}


class Bag(nn.Module):
    """A pooled history by Gather and sums, as nn.EmbeddingBag would have it."""

    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Embedding(12, 3, padding_idx=0), nn.Linear(6, 1)

    def forward(self, visits):
        e = self.table(visits)
        count = (visits != 0).sum(1, keepdim=True).clamp(min=1)
        return torch.sigmoid(self.head(torch.cat([e.sum(1), e.sum(1) / count], 1)))


def bag():
    return Bag(), {"visits": ids(12, 5)}, {"visits": {"vocab_size": 12}}, {}


class Steps(nn.Module):
    """A bidirectional GRU and an LSTM over a history."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(12, 3)
        self.gru, self.lstm = nn.GRU(3, 4, bidirectional=True, batch_first=True), nn.LSTM(3, 4)
        self.head = nn.Linear(16, 1)

    def forward(self, visits):
        e = self.table(visits)
        all_steps, last = self.gru(e)
        y, (h, c) = self.lstm(e.transpose(0, 1))
        return torch.sigmoid(self.head(torch.cat([all_steps.mean(1), h[0] + y[0], c[0] * last[1]], 1)))


def steps():
    return Steps(), {"visits": ids(12, 5)}, {"visits": {"vocab_size": 12}}, {}


MODELS = {f.__name__: f for f in (deepfm, mmoe, activations, bag, steps)}
MODELS.update((name, make) for name, make in trace_models.MODELS.items())


def make(name, seed=0):
    """(model, {input: tensor}, features, what to call it with) with random weights, in evaluation mode."""
    before = trace_models.MODELS
    trace_models.MODELS = MODELS
    try:
        model, example, features, _ = trace_models.make(name, seed)
    finally:
        trace_models.MODELS = before
    modules, features = dict(model.named_modules()), {key: dict(held) for key, held in features.items()}
    for held in features.values():
        if "table" in held:
            held["vocab_size"] = modules[held.pop("table")].num_embeddings
    if isinstance(example, dict):
        by_name = "inputs" not in model.forward.__code__.co_varnames
        return model, example, features, (tuple(example.values()) if by_name else (example, {}))
    args = example if isinstance(example, tuple) else (example,)
    for place, held in enumerate(features.values()):
        held["input"] = f"x{held.get('input', 0 if len(args) == 1 else place)}"
    return model, {f"x{i}": t for i, t in enumerate(args)}, features, args


def export(model, example, args, opset, **keywords):
    """The bytes of an ONNX file."""
    file = io.BytesIO()
    keywords = {"dynamic_axes": {name: {0: "batch"} for name in example}, **keywords}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, args, file, opset_version=opset, input_names=list(example), **keywords)
    return file.getvalue()


def scores(model, example, args, rows, dtype=torch.float64):
    """[rows, heads] of the torch model itself on {input: array}."""
    model = copy.deepcopy(model).to(dtype)
    tensors = [torch.from_numpy(rows[name]) for name in example]
    tensors = [t.to(dtype) if t.is_floating_point() else t for t in tensors]
    with torch.no_grad():
        out = model(dict(zip(example, tensors))) if isinstance(args[0], dict) else model(*tensors)
    out = list(out.values()) if isinstance(out, dict) else list(out) if isinstance(out, tuple) else [out]
    return torch.cat([t.reshape(len(tensors[0]), -1) for t in out], 1).numpy()
