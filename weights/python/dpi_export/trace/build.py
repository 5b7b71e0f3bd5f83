"""Writes lowered ops into a Builder, with names from the model's layers, and settles the heads."""

import re

import numpy as np

from ..errors import NAME, UnsupportedModelError
from ..bundle.tables import decode, encode
from .normalise import reachable


class Head:
    """One score: an Op of one entry, and the Op before its sigmoid, if there is one."""

    def __init__(self, name, value, logit):
        self.name, self.value, self.logit = name, value, logit


def heads_of(graph, outputs):
    """A Head for each entry of each output [(name, Floats)]; one output is called "ctr", entries of a longer one name[0], name[1], ..."""
    out = []
    for name, value in outputs:
        op = graph.reshape(value.op, [value.op.shape[0] if len(value.op.shape) == 1 else _size(value.op.shape)])
        entries = [entry for part in _parts(op) for entry in _entries(graph, part)]
        for i, (score, logit) in enumerate(entries):
            out.append(Head(name if len(entries) == 1 else f"{name}[{i}]", score, logit))
    return out


def features_read(heads):
    """Names of the features that the scores depend on."""
    ops = reachable([op for head in heads for op in (head.value, head.logit) if op is not None])
    return {op.attrs["feature"] for op in ops if op.kind == "Input"}


def _size(shape):
    total = 1
    for d in shape:
        total *= d
    return total


def _parts(op):
    """What a flat op is joined of: some parts may be sigmoids and others not."""
    bare = op.ins[0] if op.is_a("View", kind="reshape") else op
    return bare.ins if bare.kind == "Concat" and len(bare.shape) == 1 else [op]


def _entries(graph, part):
    """(score, what its sigmoid was taken of or None) of each entry."""
    bare = part.ins[0] if part.is_a("View", kind="reshape") else part
    inner = graph.reshape(bare.ins[0], list(part.shape)) if bare.is_a("Unary", kind="sigmoid") else None
    for i in range(part.shape[0]):
        logit = None if inner is None else graph.slice(inner, i, i + 1, 0)
        yield (graph.slice(part, i, i + 1, 0) if logit is None else graph.unary("sigmoid", logit)), logit


def short_types(model):
    """{shape: types} of a model's weights in 16 bits."""
    out = {}
    for p in model.parameters():
        kind = {"torch.float16": "f16", "torch.bfloat16": "bf16"}.get(str(p.dtype))
        if kind:
            out.setdefault(tuple(p.shape), {})[kind] = True
    return out


def _own_type(values, stored):
    """The type of 16 bits in which the model has such a table and that holds each of its values, else f32."""
    for kind in stored.get(tuple(values.shape), ()):
        if np.abs(values).max(initial=0) <= 65504 and np.array_equal(decode(encode(values, kind)[0], kind), values):
            return kind
    return "f32"


def emit(graph, heads, builder, table_dtype, stored):
    """Adds tables, ops and heads to a Builder; the features are declared already. `stored`: short_types() of the model. Returns
    {id(Op): name}."""
    names = {}
    order = reachable([op for head in heads for op in (head.value, head.logit) if op is not None])
    for name in dict.fromkeys(op.attrs["table"] for op in order if op.kind == "Embed"):
        _check_finite(name, graph.tables[name])
        builder.table(clean(name), graph.tables[name], dtype=table_dtype or _own_type(graph.tables[name], stored))
    for op in order:
        attrs = dict(op.attrs)
        if op.kind == "Embed":
            attrs["table"] = clean(attrs["table"])
        if op.kind == "Input":
            names[id(op)] = builder.input(attrs["feature"])
            continue
        names[id(op)] = builder.op(op.kind, [names[id(i)] for i in op.ins], attrs, op.params, module=clean(op.module) or None)
    for head in heads:
        logit = head.value if head.logit is None else head.logit
        builder.head(clean(head.name), names[id(head.value)], logit=names[id(logit)],
                     activation="identity" if head.logit is None else "sigmoid")
    builder.unsure = {names[id(op)] for op in graph.unsure if id(op) in names}
    return names


def _check_finite(name, table):
    step = max(1, (1 << 22) // table.shape[1])
    for at in range(0, len(table), step):  # in blocks: a table may be large
        if not np.isfinite(table[at:at + step]).all():
            raise UnsupportedModelError(f"table '{name}' holds NaN or infinity")


def clean(name):
    """A name that a bundle takes."""
    return "".join(c if NAME.fullmatch(c) else "_" for c in re.sub(r"\s", " ", name))[:150]
