"""Layers of torch.nn, and the activations of FuxiCTR and DeepCTR-Torch, as bundle ops.

A value is the name of an op of dims [n]. Each layer is matched by its exact class, so a subclass with another forward is
refused, not guessed.
"""

import numpy as np

from .common import is_library_class
from .torch_compositions import COMPOSED

_FX = "fuxictr.pytorch.layers"
_DT = "deepctr_torch.layers"


def linear(ctx, module, x, label):
    """nn.Linear on the last axis."""
    if not is_library_class(module, "torch.nn.modules", "Linear"):
        ctx.refuse(module, f"{type(module).__module__}.{type(module).__name__} is not nn.Linear")
    ctx.take(module)
    bias = None if module.bias is None else ctx.array(module.bias, module, "bias")
    return ctx.b.linear(x, ctx.array(module.weight, module, "weight"), bias, **ctx.tag(label, "linear"))


def bn_affine(ctx, module, channels):
    """Scale and shift of a BatchNorm1d in evaluation mode, computed in float64."""
    ctx.take(module)
    if module.running_mean is None or module.running_var is None:
        ctx.refuse(module, "has no running statistics: its output depends on the other rows of the batch")
    if module.num_features != channels:
        ctx.refuse(module, f"normalises {module.num_features} channels, its input has {channels}")
    mean = ctx.array(module.running_mean, module, "running_mean").astype(np.float64)
    var = ctx.array(module.running_var, module, "running_var").astype(np.float64)
    if (var + module.eps <= 0).any():
        ctx.refuse(module, "has a negative running variance")
    scale, shift = 1.0 / np.sqrt(var + module.eps), np.zeros_like(mean)
    if module.weight is not None:
        scale = scale * ctx.array(module.weight, module, "weight")
    if module.bias is not None:
        shift = ctx.array(module.bias, module, "bias").astype(np.float64)
    return scale.astype(np.float32), (shift - mean * scale).astype(np.float32)


def batch_norm(ctx, module, x, label):
    """BatchNorm1d as an affine op; the engine folds it into the Linear beside it."""
    scale, shift = bn_affine(ctx, module, ctx.b.shape(x)[-1])
    return ctx.b.unary("affine", x, scale=scale, shift=shift, **ctx.tag(label, "bn"))


def dice(ctx, module, x, label):
    """Dice of either library: FuxiCTR's without affine and eps 1e-9, DeepCTR-Torch's with affine and eps 1e-8."""
    ctx.take(module)
    if getattr(module, "dim", 2) != 2:
        ctx.refuse(module, f"is built for {module.dim}-dimensional input and cannot run here")
    scale, shift = bn_affine(ctx, module.bn, ctx.b.shape(x)[-1])
    if hasattr(module, "sigmoid"):
        ctx.take(module.sigmoid)
    alpha = ctx.array(module.alpha, module, "alpha").reshape(-1)
    return ctx.b.unary("dice", x, alpha=alpha, scale=scale, shift=shift, **ctx.tag(label, "dice"))


def _softmax(ctx, module, x, label):
    if module.dim not in (None, 1, -1):
        ctx.refuse(module, f"dim={module.dim}: the softmax would run over the rows of the batch")
    return ctx.b.softmax(x, **ctx.tag(label, "softmax"))


def _prelu(ctx, module, x, label):
    slope = ctx.array(module.weight, module, "weight")
    if len(slope) not in (1, ctx.b.shape(x)[-1]):
        ctx.refuse(module, f"has {len(slope)} slopes for {ctx.b.shape(x)[-1]} units")
    return ctx.b.unary("prelu", x, slope=slope, **ctx.tag(label, "prelu"))


def _softplus(ctx, module, x, label):
    if module.beta != 1 or module.threshold < 20:
        ctx.refuse(module, f"beta={module.beta}, threshold={module.threshold}: expected beta 1 and threshold 20 or more")
    return ctx.b.unary("softplus", x, **ctx.tag(label, "softplus"))


#: torch.nn class -> (unary kind, its scalars as a function of the layer)
_UNARY = {
    "ReLU": ("relu", lambda m: {}),
    "ReLU6": ("clamp", lambda m: {"a": 0.0, "b": 6.0}),
    "Hardtanh": ("clamp", lambda m: {"a": float(m.min_val), "b": float(m.max_val)}),
    "Sigmoid": ("sigmoid", lambda m: {}),
    "Tanh": ("tanh", lambda m: {}),
    "LeakyReLU": ("leaky", lambda m: {"a": float(m.negative_slope)}),
    "ELU": ("elu", lambda m: {"a": float(m.alpha)}),
    "SELU": ("selu", lambda m: {}),
    "SiLU": ("silu", lambda m: {}),
}
_SPECIAL = {"Softmax": _softmax, "PReLU": _prelu, "Softplus": _softplus, **COMPOSED}


def activation(ctx, module, x, label):
    """An activation layer, or None when the layer is no activation that this importer knows."""
    name = type(module).__name__
    if is_library_class(module, _FX, "Dice") or is_library_class(module, _DT, "Dice"):
        return dice(ctx, module, x, label)
    if is_library_class(module, _FX, "GELU"):
        ctx.take(module)
        return ctx.b.unary("gelu_tanh", x, **ctx.tag(label, "gelu"))
    if is_library_class(module, _DT, "Identity"):
        ctx.take(module)
        return x
    if not is_library_class(module, "torch.nn.modules", name):
        return None
    if name == "GELU":
        ctx.take(module)
        kind = "gelu_tanh" if getattr(module, "approximate", "none") == "tanh" else "gelu_erf"
        return ctx.b.unary(kind, x, **ctx.tag(label, "gelu"))
    if name in _UNARY:
        ctx.take(module)
        kind, scalars = _UNARY[name]
        return ctx.b.unary(kind, x, **scalars(module), **ctx.tag(label, kind))
    if name in _SPECIAL:
        ctx.take(module)
        return _SPECIAL[name](ctx, module, x, label)
    return None


def layer(ctx, module, x, label):
    """One layer of several in turn. Refuses what has no rule."""
    name = type(module).__name__
    if is_library_class(module, "torch.nn.modules", "Linear"):
        return linear(ctx, module, x, label)
    if is_library_class(module, "torch.nn.modules", "BatchNorm1d"):
        return batch_norm(ctx, module, x, label)
    if is_library_class(module, "torch.nn.modules", "Dropout", "Identity", "AlphaDropout"):
        ctx.take(module)
        return x
    if is_library_class(module, "torch.nn.modules", "LayerNorm"):
        return _layer_norm(ctx, module, x, label)
    out = activation(ctx, module, x, label)
    if out is None:
        ctx.refuse(module, f"{type(module).__module__}.{name} is not supported")
    return out


def _layer_norm(ctx, module, x, label):
    ctx.take(module)
    if tuple(module.normalized_shape) != tuple(ctx.b.shape(x)[-1:]):
        ctx.refuse(module, f"normalises {tuple(module.normalized_shape)}, its input has {tuple(ctx.b.shape(x))}")
    given = {role: ctx.array(t, module, n) for role, n, t in
             (("gamma", "weight", module.weight), ("beta", "bias", getattr(module, "bias", None))) if t is not None}
    return ctx.b.layer_norm(x, eps=float(module.eps), **given, **ctx.tag(label, "layer_norm"))


def in_turn(ctx, modules, x, label):
    """Layers in a row. Each Linear after the first opens a new block: `label/0`, `label/1`, ..."""
    block, seen_linear = 0, False
    for module in modules:
        if is_library_class(module, "torch.nn.modules", "Linear"):
            block += seen_linear
            seen_linear = True
        x = layer(ctx, module, x, f"{label}/{block}")
    return x


def _flat(ctx, module):
    """The layers of a Sequential in order, those of Sequentials inside it in their place."""
    ctx.take(module)
    for inner in module:
        if is_library_class(inner, "torch.nn.modules", "Sequential"):
            yield from _flat(ctx, inner)
        else:
            yield inner


def sequential(ctx, module, x, label):
    """An nn.Sequential, read by structure: its indices move with batch norm, activation and dropout."""
    if not is_library_class(module, "torch.nn.modules", "Sequential"):
        ctx.refuse(module, "expected an nn.Sequential")
    return in_turn(ctx, list(_flat(ctx, module)), x, label)
