"""The one table from ATen operators to primitives. A missing operator is refused by name; a new primitive of the engine is a new line."""

from . import lower_masks as k
from . import lower_math as m
from . import lower_matrix as x
from . import lower_whole as n
from . import lower_reduce as r
from . import lower_views as v

TABLE = {
    # element by element
    **{name: m.unary(name) for name in ("relu", "sigmoid", "tanh", "exp", "log", "abs", "sqrt", "rsqrt", "silu", "selu")},
    "neg": m.affine(-1.0, 0.0), "square": m.square, "reciprocal": m.power_of(-1.0), "pow": m.power, "log1p": m.log1p, "expm1": m.expm1,
    "log2": m.log_of(2), "log10": m.log_of(10),
    "nan_to_num": m.nan_to_num,
    "add": k.add, "sub": m.sub, "rsub": m.rsub, "mul": k.mul, "div": m.div, "maximum": m.binary("max"), "minimum": m.binary("min"),
    "clamp": m.clamp, "clamp_min": m.clamp_min, "clamp_max": m.clamp_max, "hardtanh": m.clamp, "relu6": m.relu6,
    "gelu": m.gelu, "leaky_relu": m.leaky, "elu": m.elu, "celu": m.celu, "softplus": m.softplus, "prelu": m.prelu, "_prelu_kernel": m.prelu,
    "hardsigmoid": m.hardsigmoid, "hardswish": m.hardswish, "mish": m.mish, "log_sigmoid_forward": m.log_sigmoid,
    "softshrink": m.softshrink, "glu": m.glu, "rrelu_with_noise": m.rrelu, "empty_like": m.nothing, "addcmul": m.addcmul, "lerp": m.lerp,
    # masks
    "where": k.where, "masked_fill": k.masked_fill, "logical_not": k.logical_not, "bitwise_not": k.logical_not,
    "logical_and": k.logical_and, "bitwise_and": k.logical_and, "logical_or": k.logical_or, "bitwise_or": k.logical_or,
    "ne": k.not_equal, "eq": k.equal, "gt": k.greater, "ge": k.compare("ge"), "lt": k.less, "le": k.compare("le"),
    "index_put": k.index_put, "triu": k.triangle(True), "tril": k.triangle(False),
    "isinf": k.is_infinite, "isneginf": k.is_infinite,
    # copies
    **{name: m.same for name in ("clone", "detach", "alias", "lift_fresh", "contiguous")}, "getitem": m.getitem,
    "fill": m.constant_like,
    # views
    **{name: v.view for name in ("view", "_unsafe_view", "reshape", "_reshape_alias", "unsqueeze", "squeeze")},
    "permute": v.permute, "transpose": v.transpose, "t": v.transpose, "expand": v.expanded, "repeat": v.repeat, "slice": v.sliced,
    "select": v.select, "split": v.split, "unsafe_split": v.split, "split_with_sizes": v.split, "unbind": v.unbind, "cat": v.cat,
    "stack": v.stack,
    "index": v.index, "index_select": v.index_select, "flip": v.flip, "roll": v.roll, "slice_scatter": v.slice_scatter,
    "select_scatter": v.select_scatter, "constant_pad_nd": v.pad,
    "copy": v.copied,
    # over an axis
    "sum": r.reduction("sum"), "mean": r.reduction("mean"), "amax": r.maximum, "max": r.maximum, "amin": r.minimum, "min": r.minimum,
    "var": r.variance, "std": r.deviation, "_softmax": r.softmax, "_log_softmax": r.log_softmax, "linalg_vector_norm": r.norm,
    "norm": r.norm,
    "cumsum": r.cumsum, "native_layer_norm": r.layer_norm, "any": r.any_of, "logsumexp": r.logsumexp,
    # products and lookups
    "mm": x.mm, "addmm": x.mm, "bmm": x.bmm, "baddbmm": x.bmm, "mv": x.mv, "native_batch_norm": x.batch_norm,
    "cudnn_batch_norm": x.batch_norm,
    "embedding": x.embedding, "_embedding_bag": x.embedding_bag, "_embedding_bag_forward_only": x.embedding_bag,
    "convolution": x.convolution,
    "all": r.all_of, "logical_xor": k.exclusive_or, "bitwise_xor": k.exclusive_or,
    "_safe_softmax": r.softmax,
    # computed whole numbers
    **{name: m.unary(name) for name in ("sin", "cos", "sign")},
    "_to_copy": n.to_copy, "floor": n.floor, "trunc": n.floor, "clamp": n.clamp(m.clamp, 1, 2), "clamp_min": n.clamp(m.clamp_min, 1),
    "clamp_max": n.clamp(m.clamp_max, None, 1), "bucketize": n.bucketize, "searchsorted": n.searchsorted, "index": n.index(v.index),
    "remainder": n.function(), "fmod": n.function(), "floor_divide": n.function(), "div": n.function(m.div), "_trilinear": n.bilinear,
}

#: Operators that, on one id and constants, are a function of that id.
ON_IDS = set("""add sub rsub mul floor_divide remainder fmod eq ne lt le gt ge logical_not logical_and logical_or logical_xor bitwise_and
 bitwise_or bitwise_not bitwise_xor clamp clamp_min clamp_max maximum minimum where _to_copy abs neg div pow sign masked_fill
 floor ceil round trunc""".split())
