"""Handlers of operators that work element by element, masks among them."""

import math

import numpy as np

from .batch_axis import argument
from .emit import is_mask
from .lower_ints import is_bool, truth
from .values import Filled, Floats, Refs, expand, take


def unary(kind):
    """An operator that is one kind of Unary."""
    return lambda lower, node: Floats(lower.g.unary(kind, (v := lower.floats(node.args[0])).op), v.dims)


def affine(scale, shift):
    """scale x + shift with two fixed numbers."""
    return lambda lower, node: scaled(lower, lower.floats(node.args[0]), scale, shift)


def scaled(lower, v, scale, shift):
    """scale v + shift; ahead of a jump two operations, as torch has them. Truth values and small integers come out the same either way."""
    if not lower.exact or is_mask(v.op) and all(n == int(n) and abs(n) < 1 << 20 for n in (scale, shift) if math.isfinite(n)):
        return Floats(lower.g.affine(v.op, scale, shift), v.dims)
    op = v.op
    for number, none, kind in ((scale, 1, "mul"), (shift, 0, "add")):
        op = op if number == none else lower.g.binary(kind, op, constant_number(lower, number).op)
    return Floats(op, v.dims)


def divided(lower, v, by):
    """v / by, of a number `by`"""
    if lower.exact:
        return Floats(lower.g.binary("div", v.op, constant_number(lower, by).op), v.dims)
    return scaled(lower, v, 1.0 / by if by else math.inf, 0.0)


def _inverse(lower, v):
    return Floats(lower.g.binary("div", constant_number(lower, 1.0).op, v.op), v.dims)


def _unary(lower, v, kind, **keys):
    return Floats(lower.g.unary(kind, v.op, **keys), v.dims)


def same(lower, node):
    """A copy."""
    return lower.value(node.args[0])


def to_copy(lower, node):
    """A copy in another type; a float that becomes an integer loses its fraction, which no primitive does."""
    value = lower.value(node.args[0])
    if isinstance(value, Refs):
        kinds = {lower.features[c[0]].kind for c in value.flat() if c[0] is not None}
        if kinds & {"numeric", "dense"} and is_bool(node):
            return value if is_bool(node.args[0]) else truth(lower, value)
        if kinds & {"numeric", "dense"} and not node.value.dtype.is_floating_point:
            lower.refuse("turns numbers into integers; describe the feature as categorical or sequence if it holds ids")
        return value
    if is_bool(node) and not is_bool(node.args[0]):
        return truth(lower, value)
    if not node.value.dtype.is_floating_point and node.args[0].value.dtype.is_floating_point and not is_mask(lower.as_floats(value).op):
        lower.refuse("turns computed numbers into integers")
    return value


def getitem(lower, node):
    """One result of several."""
    results = lower.value(node.args[0])
    result = results[node.args[1]] if node.args[1] < len(results) else None
    if result is None:
        lower.refuse(f"result {node.args[1]} of {node.args[0].op} has no primitive")
    return result


def constant_like(lower, node):
    """zeros_like and its kin: every entry is the same."""
    value = node.value.detach().reshape(-1)
    if not (value == value[0]).all():
        lower.refuse("gives different numbers for different entries")
    dims = lower.dims(node)
    return Floats(lower.g.const(np.full(dims or (1,), float(value[0]), np.float32)), dims)


# -- arithmetic -------------------------------------------------------------------------------------------------------
def _pair(lower, node, kind, a, b):
    return lower.elementwise(lower.g.binary(kind, a.op, b.op))


def binary(kind):
    """An operator that is one kind of Binary."""
    return lambda lower, node: _pair(lower, node, kind, lower.floats(node.args[0]), lower.floats(node.args[1]))


def _spread(lower, node, value):
    """A value under the dims of the node, for constants that have more dims than it."""
    return expand(lower.g, value, lower.dims(node))


def fused(lower, value):
    """A value whose product torch adds without rounding it, but not everywhere in a tensor: ahead of a jump it is as unsure as a sum."""
    op = value.op
    while op.kind == "View":
        op = op.ins[0]
    if lower.exact:
        lower.g.unsure.add(op)
    return value


def add(lower, node):
    """x + alpha y. A fill of minus infinity that is added stays a mask."""
    x, y, alpha = node.args[0], node.args[1], float(argument(node, 2, "alpha", 1))
    return _sum(lower, node, x, y, alpha)


def sub(lower, node):
    """x - alpha y"""
    x, y, alpha = node.args[0], node.args[1], float(argument(node, 2, "alpha", 1))
    if alpha != 1:
        return _sum(lower, node, x, y, -alpha)
    return _difference(lower, node, x, y)


def rsub(lower, node):
    """alpha y - x with the operands the other way round: y - alpha x"""
    x, y, alpha = node.args[0], node.args[1], float(argument(node, 2, "alpha", 1))
    number = lower.number(y)
    if number is not None:
        return _spread(lower, node, scaled(lower, lower.floats(x), -alpha, number))
    if alpha != 1:
        return _sum(lower, node, y, x, -alpha)
    return _difference(lower, node, y, x)


def _difference(lower, node, x, y):
    for a, b, scale, flip in ((x, y, 1.0, -1.0), (y, x, -1.0, 1.0)):
        number = lower.number(b)
        if number is not None and hasattr(a, "varies"):
            return _spread(lower, node, scaled(lower, lower.floats(a), scale, flip * number))
    return _pair(lower, node, "sub", lower.floats(x), lower.floats(y))


def _sum(lower, node, x, y, alpha):
    value = _plain_sum(lower, node, x, y, alpha)
    return value if math.frexp(abs(alpha))[0] == 0.5 or isinstance(value, Filled) else fused(lower, value)  # times 2^k rounds nothing


def _plain_sum(lower, node, x, y, alpha):
    for a, b, scale_a, scale_b in ((x, y, 1.0, alpha), (y, x, alpha, 1.0)):
        number = lower.number(b)
        if number is not None and hasattr(a, "varies"):
            return _spread(lower, node, scaled(lower, lower.floats(a), scale_a, scale_b * number))
    for a, b in ((x, y), (y, x)):
        if alpha == 1 and hasattr(a, "varies") and not a.varies and (filled := infinite(lower, a)) is not None:
            if b.varies and isinstance(lower.value(b), Filled) and lower.value(b).fill == -math.inf:
                return both_kept(lower, node, lower.value(b), filled)
            return masked_sum(lower, node, filled, lower.floats(b))
    for a, b in ((x, y), (y, x)):
        if a.varies and isinstance(lower.value(a), Filled) and not math.isfinite(lower.value(a).fill):
            return masked_sum(lower, node, lower.value(a), scaled(lower, lower.floats(b), alpha if b is y else 1.0, 0.0))
    return _pair(lower, node, "add", lower.floats(x), scaled(lower, lower.floats(y), alpha, 0.0))


def infinite(lower, held):
    """A constant that holds minus infinity, as causal masks do, as a Filled: zeros and its finite numbers where it is finite. Else None."""
    array = lower.constant(held).astype(np.float32)
    if not np.isneginf(array).any():
        return None
    keep = ~np.isneginf(array)
    x, mask = (lower.g.const(a) for a in (np.where(keep, array, 0), keep.astype(np.float32)))
    return Filled(Floats(x, array.shape), Floats(mask, array.shape), -math.inf, array.shape)


def both_kept(lower, node, a, b):
    """The sum of two values that are filled with minus infinity: kept where both are."""
    keep = lower.g.binary("mul", lower.as_floats(a.keep).op, lower.as_floats(b.keep).op)
    x, const = lower.as_floats(a.x).op, lower.as_floats(b.x).op
    x = x if const.kind == "Const" and not const.params["value"].any() else lower.g.binary("add", x, const)
    return Filled(Floats(x, x.shape), Floats(keep, keep.shape), -math.inf, lower.dims(node))


def masked_sum(lower, node, filled, other):
    """What is filled with minus infinity stays so, whatever is added."""
    x = lower.as_floats(filled.x).op
    op = other.op if x.kind == "Const" and not x.params["value"].any() else lower.g.binary("add", x, other.op)
    return Filled(Floats(op, op.shape), filled.keep, filled.fill, lower.dims(node))


def mul(lower, node):
    """x y"""
    x, y = node.args[:2]
    for a, b in ((x, y), (y, x)):
        number = lower.number(b)
        if number is not None and hasattr(a, "varies"):
            return _spread(lower, node, scaled(lower, lower.floats(a), number, 0.0))
    return _pair(lower, node, "mul", lower.floats(x), lower.floats(y))


def div(lower, node):
    """x / y"""
    x, y = node.args[:2]
    if argument(node, 2, "rounding_mode") is not None:
        lower.refuse("rounds a quotient")
    number = lower.number(y)
    if number == 0:
        lower.refuse("divides by 0; a bundle's numbers are finite, so choose where it would, torch.where(y == 0, ...), without the quotient")
    if number is not None:
        return _spread(lower, node, divided(lower, lower.floats(x), number))
    return _pair(lower, node, "div", lower.floats(x) if hasattr(x, "varies") else constant_number(lower, x), lower.floats(y))


def constant_number(lower, number):
    """A number as a Const."""
    return Floats(lower.g.const(np.array([number], np.float32)), (1,))


def square(lower, node):
    """x x"""
    x = lower.floats(node.args[0])
    return Floats(lower.g.binary("mul", x.op, x.op), x.dims)


def power(lower, node):
    """x to a number, or a positive number to x."""
    base, exponent = lower.number(node.args[0]), lower.number(node.args[1])
    if base is not None and base > 0 and exponent is None:
        return _unary(lower, scaled(lower, lower.floats(node.args[1]), math.log(base), 0.0), "exp")
    if exponent is None or not hasattr(node.args[0], "varies"):
        lower.refuse("raises to a power that is no number; where x is above 0, write (y * x.log()).exp()")
    return power_of(exponent)(lower, node)


def power_of(exponent):
    """x to this number."""
    def handler(lower, node):
        if exponent == 2:
            return square(lower, node)
        x = lower.floats(node.args[0])
        if exponent in (1.0, 0.5):
            return x if exponent == 1 else _unary(lower, x, "sqrt")
        if lower.exact and exponent in (-1.0, -0.5, -2.0):
            return _inverse(lower, x if exponent == -1 else _unary(lower, x, "sqrt") if exponent == -0.5 else square(lower, node))
        if exponent == 3:
            return Floats(lower.g.binary("mul", lower.g.binary("mul", x.op, x.op), x.op), x.dims)
        return _unary(lower, x, "pow", a=exponent)
    return handler


def rsqrt(lower, node):
    """1 / sqrt(x)"""
    return power_of(-0.5)(lower, node) if lower.exact else unary("rsqrt")(lower, node)


def log1p(lower, node):
    """log(1 + x)"""
    return _unary(lower, scaled(lower, lower.floats(node.args[0]), 1.0, 1.0), "log")


def expm1(lower, node):
    """exp(x) - 1"""
    return scaled(lower, _unary(lower, lower.floats(node.args[0]), "exp"), 1.0, -1.0)


def log_of(base):
    """The logarithm to another base."""
    return lambda lower, node: scaled(lower, _unary(lower, lower.floats(node.args[0]), "log"), 1 / math.log(base), 0.0)


def nan_to_num(lower, node):
    """The value itself where it is a masked softmax, which a bundle has as zeros where nothing is left; NaN elsewhere is not seen."""
    value = lower.floats(node.args[0])
    op = value.op
    while op.kind == "View":
        op = op.ins[0]
    if not op.is_a("Softmax", mask_mode="ninf") or argument(node, 1, "nan", 0.0) not in (None, 0.0):
        lower.refuse("replaces NaN of other values than a softmax behind masked_fill(-inf); what is missing in a row is replaced by the feature's own rule "
                     "(missing=) before the model sees it, so leave it out")
    return value


def addcmul(lower, node):
    """x + value y z"""
    x, y, z = (lower.floats(a) for a in node.args[:3])
    product = lower.g.affine(lower.g.binary("mul", y.op, z.op), float(argument(node, 3, "value", 1)), 0.0)
    return fused(lower, lower.elementwise(lower.g.binary("add", x.op, product)))


def lerp(lower, node):
    """x + w (y - x)"""
    x, y = (lower.floats(a) for a in node.args[:2])
    gap, number = lower.g.binary("sub", y.op, x.op), lower.number(node.args[2])
    moved = lower.g.affine(gap, number, 0.0) if number is not None else lower.g.binary("mul", lower.floats(node.args[2]).op, gap)
    return fused(lower, lower.elementwise(lower.g.binary("add", x.op, moved)))


def hypot(lower, node):
    """sqrt(x x + y y)"""
    squares = (lower.g.binary("mul", v.op, v.op) for v in map(lower.floats, node.args[:2]))
    return fused(lower, lower.elementwise(lower.g.unary("sqrt", lower.g.binary("add", *squares))))


# -- activations ------------------------------------------------------------------------------------------------------
def clamp(lower, node):
    """Between two numbers, of which one may be missing."""
    low, high = argument(node, 1, "min", None), argument(node, 2, "max", None)
    if "hardtanh" in node.base:
        low, high = argument(node, 1, "min_val", -1.0), argument(node, 2, "max_val", 1.0)
    return _clamp(lower, node, low, high)


def _clamp(lower, node, low, high):
    x = lower.floats(node.args[0])
    low, high = (None if bound in (-math.inf, math.inf) else bound for bound in (low, high))
    numbers = [None if bound is None else lower.number(bound) for bound in (low, high)]
    for bound, number, kind in ((low, numbers[0], "max"), (high, numbers[1], "min")):
        if bound is not None and number is None:
            x = lower.elementwise(lower.g.binary(kind, x.op, lower.floats(bound).op))
    low, high = numbers
    if low == 0 and high is None:
        return _unary(lower, x, "relu")
    if low is not None and high is not None:
        return _unary(lower, x, "clamp", a=min(low, high), b=high)  # torch's upper bound is the stronger one
    for number, kind in ((low, "max"), (high, "min")):
        if number is not None:
            x = Floats(lower.g.binary(kind, x.op, constant_number(lower, number).op), x.dims)
    return x


def clamp_min(lower, node):
    """At least a number."""
    return _clamp(lower, node, node.args[1], None)


def clamp_max(lower, node):
    """At most a number."""
    return _clamp(lower, node, None, node.args[1])


def relu6(lower, node):
    """Between 0 and 6."""
    return _clamp(lower, node, 0.0, 6.0)


def gelu(lower, node):
    """Both forms of GELU."""
    kind = "gelu_tanh" if argument(node, 1, "approximate", "none") == "tanh" else "gelu_erf"
    return _unary(lower, lower.floats(node.args[0]), kind)


def leaky(lower, node):
    """x, and slope x below 0."""
    return _unary(lower, lower.floats(node.args[0]), "leaky", a=float(argument(node, 1, "negative_slope", 0.01)))


def elu(lower, node):
    """scale (x, or alpha (exp(input_scale x) - 1) below 0): ELU, SELU and CELU."""
    alpha, scale, inner = (float(argument(node, i, k, 1)) for i, k in ((1, "alpha"), (2, "scale"), (3, "input_scale")))
    x, g = lower.floats(node.args[0]), lower.g
    if abs(alpha - 1.6732632423543772) < 1e-6 and abs(scale - 1.0507009873554805) < 1e-6 and inner == 1:
        return _unary(lower, x, "selu")
    if inner == 1:
        return scaled(lower, _unary(lower, x, "elu", a=alpha), scale, 0.0)
    below = g.unary("elu", g.affine(g.binary("min", x.op, g.const([0.0])), inner, 0.0), a=1.0)
    return scaled(lower, Floats(g.binary("add", g.unary("relu", x.op), g.affine(below, alpha, 0.0)), x.dims), scale, 0.0)


def celu(lower, node):
    """max(x, 0) + alpha expm1(min(x, 0) / alpha)"""
    alpha, x, g = float(argument(node, 1, "alpha", 1.0)), lower.floats(node.args[0]), lower.g
    below = g.unary("elu", g.affine(g.binary("min", x.op, g.const([0.0])), 1 / alpha, 0.0), a=1.0)
    return Floats(g.binary("add", g.unary("relu", x.op), g.affine(below, alpha, 0.0)), x.dims)


def softplus(lower, node):
    """log(1 + exp(beta x)) / beta"""
    beta, threshold = (float(argument(node, i, k, d)) for i, k, d in ((1, "beta", 1), (2, "threshold", 20)))
    if threshold < 20:
        lower.refuse(f"threshold={threshold}: expected 20 or more; leave it out")
    x = scaled(lower, lower.floats(node.args[0]), beta, 0.0)
    return scaled(lower, _unary(lower, x, "softplus"), 1 / beta, 0.0)


def prelu(lower, node):
    """A slope per channel, which is dim 1, or one slope for all."""
    x, weight = lower.floats(node.args[0]), lower.weight(node.args[1]).reshape(-1)
    if len(weight) == 1:
        return _unary(lower, x, "prelu", slope=weight)
    return on_channels(lower, node, x, 1, lambda op: lower.g.unary("prelu", op, slope=weight))


def on_channels(lower, node, x, dim, apply):
    """apply(op) with a dim of the tensor as the last one."""
    axis, last = lower.axis(node.args[0], dim), len(x.dims) - 1
    if axis == last:
        return Floats(apply(x.op), x.dims)
    perm = [i for i in range(last + 1) if i != axis] + [axis]
    back = [perm.index(i) for i in range(last + 1)]
    return Floats(lower.g.transpose(apply(lower.g.transpose(x.op, perm)), back), x.dims)


def hardsigmoid(lower, node):
    """clamp(x + 3, 0, 6) / 6"""
    return divided(lower, _gate(lower, lower.floats(node.args[0])), 6.0)


def _gate(lower, x):
    return _unary(lower, scaled(lower, x, 1.0, 3.0), "clamp", a=0.0, b=6.0)


def hardswish(lower, node):
    """x clamp(x + 3, 0, 6) / 6"""
    x = lower.floats(node.args[0])
    return divided(lower, Floats(lower.g.binary("mul", x.op, _gate(lower, x).op), x.dims), 6.0)


def mish(lower, node):
    """x tanh(softplus(x))"""
    x = lower.floats(node.args[0])
    return Floats(lower.g.binary("mul", x.op, lower.g.unary("tanh", lower.g.unary("softplus", x.op))), x.dims)


def log_sigmoid(lower, node):
    """-softplus(-x), the first of two results"""
    return [scaled(lower, _unary(lower, scaled(lower, lower.floats(node.args[0]), -1.0, 0.0), "softplus"), -1.0, 0.0), None]


def softshrink(lower, node):
    """x - clamp(x, -lambda, lambda)"""
    bound, x = float(argument(node, 1, "lambd", 0.5)), lower.floats(node.args[0])
    return Floats(lower.g.binary("sub", x.op, lower.g.unary("clamp", x.op, a=-bound, b=bound)), x.dims)


def glu(lower, node):
    """The first half times sigmoid of the second."""
    x, axis = lower.floats(node.args[0]), lower.axis(node.args[0], argument(node, 1, "dim", -1))
    half = x.dims[axis] // 2
    first, second = (take(lower.g, x, axis, list(range(i * half, (i + 1) * half))) for i in (0, 1))
    return Floats(lower.g.binary("mul", first.op, lower.g.unary("sigmoid", second.op)), first.dims)


def rrelu(lower, node):
    """In evaluation mode a leaky ReLU with the middle of its two slopes."""
    if argument(node, 4, "training", False):
        lower.refuse("is random: the layer is not in evaluation mode")
    low, high = float(argument(node, 2, "lower", 1 / 8)), float(argument(node, 3, "upper", 1 / 3))
    return _unary(lower, lower.floats(node.args[0]), "leaky", a=(low + high) / 2)


def nothing(lower, node):
    """Room that nothing has been written into."""
    dims = lower.dims(node)
    return Floats(lower.g.const(np.zeros(dims or (1,), np.float32)), dims)
