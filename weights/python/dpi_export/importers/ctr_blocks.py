"""The parts that both libraries' models are made of, written once: linear part, FM, the cross networks, the head.

Values are op names; every function returns one. Orientation: weights arrive as float32 arrays [out, in].
"""

import numpy as np


def concat(ctx, values, label):
    """Joined on the last axis; one value stays as it is."""
    return values[0] if len(values) == 1 else ctx.b.concat(values, **ctx.tag(label, "concat"))


def sum_columns(ctx, x, label):
    """[n] -> [1]"""
    return x if ctx.b.shape(x) == (1,) else ctx.b.reduce("sum", x, keepdim=True, **ctx.tag(label, "sum"))


def add_all(ctx, values, label):
    """Sum of values of one shape."""
    total = values[0]
    for value in values[1:]:
        total = ctx.b.add(total, value, **ctx.tag(label, "add"))
    return total


def add_bias(ctx, x, bias, label):
    """x + the one number in `bias`."""
    return ctx.b.unary("affine", x, a=1.0, b=float(bias.reshape(-1)[0]), **ctx.tag(label, "bias"))


def fm(ctx, x, fields, label="fm"):
    """0.5 sum_d ((sum_f e_fd)^2 - sum_f e_fd^2) of the flat embeddings x [fields * d] -> [1]."""
    e = ctx.b.reshape(x, [fields, -1], **ctx.tag(label, "fields"))
    s = ctx.b.reduce("sum", e, axis=0, **ctx.tag(label, "sum"))
    square_of_sum = ctx.b.mul(s, s, **ctx.tag(label, "square_of_sum"))
    sum_of_square = ctx.b.reduce("sumsq", e, axis=0, **ctx.tag(label, "sum_of_square"))
    pairs = ctx.b.sub(square_of_sum, sum_of_square, **ctx.tag(label, "pairs"))
    total = sum_columns(ctx, pairs, label)
    return ctx.b.unary("affine", total, a=0.5, b=0.0, **ctx.tag(label, "half"))


def cross_vector(ctx, layers, x0, label="cross"):
    """DCN: x + x0 (w . x) + b for each (w [1, n], b [n])."""
    x = x0
    for i, (w, bias) in enumerate(layers):
        tag = f"{label}/{i}"
        gate = ctx.b.linear(x, w, **ctx.tag(tag, "linear"))
        crossed = ctx.b.mul(x0, gate, **ctx.tag(tag, "mul"))
        shifted = ctx.b.add(crossed, ctx.b.const(bias, **ctx.tag(tag, "const")), **ctx.tag(tag, "bias"))
        x = ctx.b.add(shifted, x, **ctx.tag(tag, "add"))
    return x


def cross_matrix(ctx, layers, x0, label="cross"):
    """DCNv2: x + x0 (.) (W x + b) for each (W [n, n], b [n])."""
    x = x0
    for i, (w, bias) in enumerate(layers):
        tag = f"{label}/{i}"
        crossed = ctx.b.mul(x0, ctx.b.linear(x, w, bias, **ctx.tag(tag, "linear")), **ctx.tag(tag, "mul"))
        x = ctx.b.add(crossed, x, **ctx.tag(tag, "add"))
    return x


def cross_mixture(ctx, layers, gate, x0, label="cross"):
    """DCN-Mix: x + x0 (.) (sum_e g_e U_e tanh(C_e tanh(V_e^T x)) + b), g = softmax(G x).

    Each layer is (U [E, n, r], V [E, n, r], C [E, r, r], b [n]); `gate` [E, n] is shared by all layers. The bias stands
    outside the sum because the gates add up to 1.
    """
    x, b = x0, ctx.b
    for i, (u, v, c, bias) in enumerate(layers):
        tag = f"{label}/{i}"
        experts, n, rank = u.shape
        g = b.softmax(b.linear(x, gate, **ctx.tag(tag, "gate")), **ctx.tag(tag, "softmax"))
        low = b.linear(x, v.transpose(0, 2, 1).reshape(experts * rank, n), **ctx.tag(tag, "v"))
        low = b.reshape(b.unary("tanh", low, **ctx.tag(tag, "tanh")), [experts, rank], **ctx.tag(tag, "experts"))
        low = _per_expert(ctx, low, c, tag)
        low = b.unary("tanh", low, **ctx.tag(tag, "tanh"))
        low = b.mul(low, b.reshape(g, [experts, 1], **ctx.tag(tag, "gates")), **ctx.tag(tag, "mix"))
        low = b.reshape(low, [experts * rank], **ctx.tag(tag, "flat"))
        back = b.linear(low, np.ascontiguousarray(u.transpose(1, 0, 2)).reshape(n, experts * rank), bias, **ctx.tag(tag, "u"))
        x = b.add(b.mul(x0, back, **ctx.tag(tag, "mul")), x, **ctx.tag(tag, "add"))
    return x


def _per_expert(ctx, low, c, tag):
    """C_e v_e for [E, r]; one expert needs no groups."""
    if len(c) == 1:
        return ctx.b.linear(low, c[0], **ctx.tag(tag, "c"))
    return ctx.b.linear(low, c, groups=len(c), **ctx.tag(tag, "c"))


def head(ctx, logit, sigmoid, name="ctr"):
    """The output: sigmoid(logit), or the logit itself."""
    if not sigmoid:
        ctx.b.head(name, logit, logit=logit, activation="identity")
        return
    ctx.b.head(name, ctx.b.sigmoid(logit, **ctx.tag("head", "sigmoid")), logit=logit, activation="sigmoid")
