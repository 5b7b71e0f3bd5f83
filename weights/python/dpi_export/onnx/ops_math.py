"""ONNX operators that work element by element, as calls of torch. A handler gets the node's layer and the values of its inputs."""

import math

import torch
import torch.nn.functional as F

_INT64 = (-(1 << 63), (1 << 63) - 1)


def unary(call):
    """An operator that torch has under the same definition."""
    return lambda op, x: call(x)


def _fit(op, *values):
    """Refuses a broadcast to more entries than there is room for."""
    op.room(torch.broadcast_shapes(*(v.shape for v in values)))


def binary(call):
    """An operator of two inputs that broadcast."""
    def handler(op, x, y):
        _fit(op, x, y)
        return call(x, y)
    return handler


def several(call):
    """Sum, Max, Min: any number of inputs."""
    def handler(op, *values):
        out = values[0]
        for value in values[1:]:
            _fit(op, out, value)
            out = call(out, value)
        return out
    return handler


def mean(op, *values):
    """The mean of its inputs."""
    return several(torch.add)(op, *values) / len(values)


def mul(op, x, y):
    """x y; a factor of 1 is none, as in front of a mask of minus infinity."""
    _fit(op, x, y)
    for at, other in ((0, y), (1, x)):
        if op.number(at, (x, y)) == 1 and (x, y)[at].dim() <= other.dim():
            return other
    return x * y


def compare(call, mirrored):
    """A comparison; a known value goes to the right, where the tracer looks for it."""
    def handler(op, x, y):
        _fit(op, x, y)
        return mirrored(y, x) if op.known[0] and not op.known[1] else call(x, y)
    return handler


def div(op, x, y):
    """x / y; whole numbers are cut towards 0."""
    _fit(op, x, y)
    return x / y if x.is_floating_point() else torch.div(x, y, rounding_mode="trunc")


def mod(op, x, y):
    """The remainder with the divisor's sign, or with fmod=1 the dividend's."""
    _fit(op, x, y)
    if op.attr("fmod", 0) == 0 and x.is_floating_point():
        op.refuse("fmod=0 of floats, which ONNX does not define")
    return torch.fmod(x, y) if op.attr("fmod", 0) else torch.remainder(x, y)


def power(op, x, y):
    """x to the y, in the type of x."""
    _fit(op, x, y)
    exponent = op.number(1, (x, y))
    if exponent is not None and x.is_floating_point():
        shape = torch.broadcast_shapes(x.shape, y.shape)
        return torch.pow(x if tuple(shape) == tuple(x.shape) else x.expand(shape), float(exponent))
    return torch.pow(x, y).to(x.dtype)


def clip(op, x, low=None, high=None):
    """Between two numbers, of which one may be missing; a bound at the end of the type's range is none."""
    held, bounds = (x, low, high), []
    for at, name in ((1, "min"), (2, "max")):
        if held[at] is None:
            bounds.append(None)
        elif op.number(at, held) is None:
            op.refuse(f"its {name} depends on the rows; write Max or Min")
        else:
            bounds.append(op.number(at, held))
    low, high = bounds
    if not x.is_floating_point():
        low, high = (None if bound in _INT64 else bound for bound in (low, high))
        low, high = (None if bound is None else int(bound) for bound in (low, high))
    low, high = (None if bound is not None and bound in (-math.inf, math.inf) and bound == end else bound
                 for bound, end in ((low, -math.inf), (high, math.inf)))
    return x if low is None and high is None else torch.clamp(x, low, high)


# -- activations ------------------------------------------------------------------------------------------------------
def leaky(op, x):
    """x, and alpha x below 0."""
    return F.leaky_relu(x, op.attr("alpha", 0.01))


def elu(op, x):
    """x, and alpha (exp(x) - 1) below 0."""
    return F.elu(x, op.attr("alpha", 1.0))


def celu(op, x):
    """max(x, 0) + min(0, alpha (exp(x / alpha) - 1))"""
    return F.celu(x, op.attr("alpha", 1.0))


def selu(op, x):
    """gamma x, and gamma alpha (exp(x) - 1) below 0."""
    alpha, gamma = op.attr("alpha", 1.67326319217681884765625), op.attr("gamma", 1.05070102214813232421875)
    if abs(alpha - 1.6732632423543772) < 1e-6 and abs(gamma - 1.0507009873554805) < 1e-6:
        return F.selu(x)
    return F.elu(x, alpha) * gamma


def gelu(op, x):
    """GELU of opset 20."""
    return F.gelu(x, approximate=op.attr("approximate", "none"))


def hard_sigmoid(op, x):
    """max(0, min(1, alpha x + beta))"""
    alpha, beta = op.attr("alpha", 0.2), op.attr("beta", 0.5)
    return torch.clamp(x * alpha + beta, 0.0, 1.0)


def hard_swish(op, x):
    """x max(0, min(1, x / 6 + 1/2))"""
    return F.hardswish(x)


def softsign(op, x):
    """x / (1 + |x|)"""
    return x / (1 + torch.abs(x))


def thresholded(op, x):
    """x above alpha, else 0."""
    alpha = op.attr("alpha", 1.0)
    return torch.where(x > alpha, x, torch.zeros((), dtype=x.dtype))


def shrink(op, x):
    """x + bias below -lambd, x - bias above lambd, else 0."""
    lambd, bias = op.attr("lambd", 0.5), op.attr("bias", 0.0)
    zero = torch.zeros((), dtype=x.dtype)
    return torch.where(x < -lambd, x + bias, torch.where(x > lambd, x - bias, zero))


def prelu(op, x, slope):
    """x, and slope x below 0; the slope broadcasts to x."""
    if not op.known[1]:
        op.refuse("its slope depends on the rows; write Where")
    wide = (1,) * (x.dim() - slope.dim()) + tuple(slope.shape)
    if len(wide) != x.dim():
        op.refuse(f"its slope has dims {list(slope.shape)}, more than {list(x.shape)}")
    channels = [i for i, d in enumerate(wide) if d != 1]
    if not channels:
        return F.prelu(x, slope.reshape(1))
    if len(channels) == 1 and channels[0] > 0 and wide[channels[0]] == x.shape[channels[0]]:
        at = channels[0]
        return F.prelu(x.transpose(1, at), slope.reshape(-1)).transpose(1, at) if at != 1 else F.prelu(x, slope.reshape(-1))
    return torch.relu(x) - slope * torch.relu(-x)


def nan_to_num(op, x):
    """A number in place of NaN."""
    return torch.nan_to_num(x, op.attr("nan"), math.inf, -math.inf)


# -- truth values and types -------------------------------------------------------------------------------------------
def where(op, condition, x, y):
    """x where the condition holds, else y."""
    _fit(op, condition, x, y)
    return torch.where(condition, x, y)


def cast(op, x):
    """Another type."""
    return _cast(op, x, op.dtype(op.attr("to")))


def cast_like(op, x, like):
    """The type of another value."""
    return _cast(op, x, like.dtype)


def _cast(op, x, dtype):
    return x if x.dtype == dtype else x.to(dtype)


def is_inf(op, x):
    """Infinite entries, of either sign or of one."""
    positive, negative = op.attr("detect_positive", 1), op.attr("detect_negative", 1)
    if positive and negative:
        return torch.isinf(x)
    return x == (math.inf if positive else -math.inf) if positive or negative else torch.zeros_like(x, dtype=torch.bool)


def dropout(op, x, *rest):
    """The value itself, outside training."""
    if op.wants(1):
        op.refuse("its mask is read")
    if len(rest) > 1 and (not op.known[2] or op.number(2, (x, *rest))):
        op.refuse("is in training mode: export the model with training off")
    return x
