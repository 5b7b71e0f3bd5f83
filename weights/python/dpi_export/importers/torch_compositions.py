"""Activations of torch.nn that the format has no kind for, written with the kinds that it has.

Each follows torch's own formula, so infinities and NaN come out as in torch. The one difference is Softshrink of NaN, which is
NaN here as in newer releases of torch; older ones return 0. Attributes that would not come out exactly are refused.
"""

import math

import numpy as np

_SMALLEST = float(np.finfo(np.float32).tiny)  # the least normal float32


def affine(ctx, x, scale, shift, label, name):
    """scale x + shift"""
    return ctx.b.unary("affine", x, a=float(scale), b=float(shift), **ctx.tag(label, name))


def mish(ctx, _module, x, label):
    """x tanh(softplus(x))"""
    inner = ctx.b.unary("tanh", ctx.b.unary("softplus", x, **ctx.tag(label, "softplus")), **ctx.tag(label, "tanh"))
    return ctx.b.mul(x, inner, **ctx.tag(label, "mish"))


def log_sigmoid(ctx, _module, x, label):
    """-softplus(-x)"""
    soft = ctx.b.unary("softplus", affine(ctx, x, -1, 0, label, "neg"), **ctx.tag(label, "softplus"))
    return affine(ctx, soft, -1, 0, label, "logsigmoid")


def celu(ctx, module, x, label):
    """max(x, 0) + alpha expm1(min(x, 0) / alpha). Two branches, so that x > 0 is not divided by alpha and multiplied again."""
    alpha = float(module.alpha)
    if not _SMALLEST <= alpha <= 1 / _SMALLEST:
        ctx.refuse(module, f"alpha={alpha}: expected a number above 0 whose reciprocal fits float32")
    zero = ctx.b.const(0.0, **ctx.tag(label, "zero"))
    below = affine(ctx, ctx.b.binary("min", x, zero, **ctx.tag(label, "min")), 1 / alpha, 0, label, "over_alpha")
    below = affine(ctx, ctx.b.unary("elu", below, a=1.0, **ctx.tag(label, "elu")), alpha, 0, label, "times_alpha")
    return ctx.b.add(ctx.b.relu(x, **ctx.tag(label, "relu")), below, **ctx.tag(label, "celu"))


def _gate(ctx, x, label):
    """clamp(x + 3, 0, 6)"""
    return ctx.b.unary("clamp", affine(ctx, x, 1, 3, label, "plus_3"), a=0.0, b=6.0, **ctx.tag(label, "relu6"))


def hardsigmoid(ctx, _module, x, label):
    """clamp(x + 3, 0, 6) / 6"""
    return affine(ctx, _gate(ctx, x, label), 1 / 6, 0, label, "hardsigmoid")


def hardswish(ctx, _module, x, label):
    """x clamp(x + 3, 0, 6) / 6"""
    return affine(ctx, ctx.b.mul(x, _gate(ctx, x, label), **ctx.tag(label, "mul")), 1 / 6, 0, label, "hardswish")


def softsign(ctx, _module, x, label):
    """x / (1 + |x|)"""
    size = ctx.b.unary("abs", x, **ctx.tag(label, "abs"))
    return ctx.b.div(x, affine(ctx, size, 1, 1, label, "plus_1"), **ctx.tag(label, "softsign"))


def tanhshrink(ctx, _module, x, label):
    """x - tanh(x)"""
    return ctx.b.sub(x, ctx.b.unary("tanh", x, **ctx.tag(label, "tanh")), **ctx.tag(label, "tanhshrink"))


def softshrink(ctx, module, x, label):
    """x - clamp(x, -lambda, lambda)"""
    bound = float(module.lambd)
    if not 0 <= bound < math.inf:
        ctx.refuse(module, f"lambd={bound}: expected a finite number of at least 0")
    inner = ctx.b.unary("clamp", x, a=-bound, b=bound, **ctx.tag(label, "clamp"))
    return ctx.b.sub(x, inner, **ctx.tag(label, "softshrink"))


def rrelu(ctx, module, x, label):
    """Random only in training; in evaluation a leaky ReLU with the middle of the two slopes."""
    lower, upper = float(module.lower), float(module.upper)
    if not -math.inf < lower <= upper < math.inf:
        ctx.refuse(module, f"lower={lower}, upper={upper}: expected finite slopes by rising size")
    return ctx.b.unary("leaky", x, a=(lower + upper) / 2, **ctx.tag(label, "rrelu"))


def glu(ctx, module, x, label):
    """First half times sigmoid of the second; halves the width."""
    width = ctx.b.shape(x)[-1]
    if module.dim not in (1, -1):
        ctx.refuse(module, f"dim={module.dim}: the halves would be taken from the rows of the batch")
    if width % 2:
        ctx.refuse(module, f"cannot halve {width} units")
    first = ctx.b.slice(x, 0, width // 2, **ctx.tag(label, "first_half"))
    second = ctx.b.slice(x, width // 2, width, **ctx.tag(label, "second_half"))
    return ctx.b.mul(first, ctx.b.sigmoid(second, **ctx.tag(label, "sigmoid")), **ctx.tag(label, "glu"))


#: torch.nn class -> (ctx, module, x, label) -> value
COMPOSED = {"CELU": celu, "GLU": glu, "Hardsigmoid": hardsigmoid, "Hardswish": hardswish, "LogSigmoid": log_sigmoid, "Mish": mish,
            "RReLU": rrelu, "Softshrink": softshrink, "Softsign": softsign, "Tanhshrink": tanhshrink}
