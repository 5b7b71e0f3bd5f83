"""Writes lowered ops into a Builder, with names from the model's layers, and settles the heads."""

import re

import numpy as np

from ..errors import NAME
from ..import_common import UnsupportedModelError
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
        inner = _before_sigmoid(graph, op)
        for i in range(op.shape[0]):
            at = name if op.shape[0] == 1 else f"{name}[{i}]"
            if inner is None:
                out.append(Head(at, graph.slice(op, i, i + 1, 0), None))
            else:
                logit = graph.slice(inner, i, i + 1, 0)
                out.append(Head(at, graph.unary("sigmoid", logit), logit))
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


def _before_sigmoid(graph, op):
    """What a sigmoid was taken of, flat, or None. Joined sigmoids are the sigmoid of what is joined."""
    bare = op.ins[0] if op.is_a("View", kind="reshape") else op
    if bare.is_a("Unary", kind="sigmoid"):
        return graph.reshape(bare.ins[0], list(op.shape))
    if bare.kind == "Concat" and all(_sigmoid(part) is not None for part in bare.ins) and len(bare.shape) == 1:
        return graph.concat([graph.reshape(_sigmoid(part), part.shape) for part in bare.ins])
    return None


def _sigmoid(op):
    op = op.ins[0] if op.is_a("View", kind="reshape") else op
    return op.ins[0] if op.is_a("Unary", kind="sigmoid") else None


def emit(graph, heads, builder, table_dtype=None, stored=None):
    """Adds tables, ops and heads to a Builder; the features are declared already. `stored`: table -> its weights' own type. Returns
    {id(Op): name}."""
    names = {}
    order = reachable([op for head in heads for op in (head.value, head.logit) if op is not None])
    for name in dict.fromkeys(op.attrs["table"] for op in order if op.kind == "Embed"):
        _check_finite(name, graph.tables[name])
        builder.table(clean(name), graph.tables[name], dtype=table_dtype or (stored or {}).get(name, "f32"))
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
    return names


def _check_finite(name, table):
    step = max(1, (1 << 22) // table.shape[1])
    for at in range(0, len(table), step):  # in blocks: a table may be large
        if not np.isfinite(table[at:at + step]).all():
            raise UnsupportedModelError(f"table '{name}' holds NaN or infinity")


def clean(name):
    """A name that a bundle takes."""
    return "".join(c if NAME.fullmatch(c) else "_" for c in re.sub(r"\s", " ", name))[:150]
