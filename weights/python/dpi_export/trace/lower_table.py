"""The one table from ATen operators to primitives. A missing operator is refused by name; a new primitive of the engine is a new line."""

from . import lower_complex as c
from . import lower_masks as k
from . import lower_math as m
from . import lower_matrix as x
from . import lower_pick as p
from . import lower_reduce as r
from . import lower_views as v
from . import lower_whole as i
from . import lower_windows as w
from . import row_picks as picks
from .kept_rows import lower_kept
from .recurrent import lower_recurrent

TABLE = {
    # element by element
    **{name: m.unary(name) for name in ("relu", "sigmoid", "tanh", "exp", "log", "abs", "sqrt", "silu", "selu", "sin", "cos",
                                           "sign")},
    "neg": m.affine(-1.0, 0.0), "square": m.square, "reciprocal": m.power_of(-1.0), "rsqrt": m.rsqrt, "pow": m.power, "log1p": m.log1p, "expm1": m.expm1,
    "log2": m.log_of(2), "log10": m.log_of(10),
    "nan_to_num": m.nan_to_num,
    "add": c.each(k.add), "sub": c.each(m.sub), "rsub": m.rsub, "mul": c.product(k.mul), "atan2": m.binary("atan2"),
    "maximum": m.binary("max"), "minimum": m.binary("min"), "hardtanh": m.clamp, "relu6": m.relu6,
    "gelu": m.gelu, "leaky_relu": m.leaky, "elu": m.elu, "celu": m.celu, "softplus": m.softplus, "prelu": m.prelu, "_prelu_kernel": m.prelu,
    "hardsigmoid": m.hardsigmoid, "hardswish": m.hardswish, "mish": m.mish, "log_sigmoid_forward": m.log_sigmoid,
    "softshrink": m.softshrink, "glu": m.glu, "rrelu_with_noise": m.rrelu, "empty_like": m.nothing, "addcmul": m.addcmul, "lerp": m.lerp, "hypot": m.hypot,
    # masks
    "where": k.where, "masked_fill": k.masked_fill, "logical_not": k.logical_not, "bitwise_not": k.logical_not,
    "logical_and": k.logical_and, "bitwise_and": k.logical_and, "logical_or": k.logical_or, "bitwise_or": k.logical_or,
    "logical_xor": k.exclusive_or, "bitwise_xor": k.exclusive_or,
    "ne": k.not_equal, "eq": k.equal, "gt": k.greater, "ge": k.compare("ge"), "lt": k.less, "le": k.compare("le"),
    "triu": k.triangle(True), "tril": k.triangle(False),
    "isinf": k.is_infinite, "isneginf": k.is_infinite,
    # copies
    **{name: m.same for name in ("clone", "detach", "alias", "lift_fresh", "contiguous")}, "getitem": m.getitem,
    "fill": m.constant_like, "zero": m.constant_like,
    # views
    **{name: v.view for name in ("view", "_unsafe_view", "reshape", "_reshape_alias", "unsqueeze", "squeeze")},
    "permute": v.permute, "transpose": v.transpose, "t": v.transpose, "expand": v.expanded, "repeat": v.repeat, "slice": v.sliced,
    "select": v.select, "split": v.split, "unsafe_split": v.split, "split_with_sizes": v.split, "unbind": v.unbind, "cat": v.cat,
    "stack": v.stack,
    "index_select": v.index_select, "flip": v.flip, "roll": v.roll, "slice_scatter": v.slice_scatter,
    "select_scatter": v.select_scatter, "constant_pad_nd": v.pad, "copy": v.copied,
    "diagonal": v.diagonal,
    # over an axis
    "sum": r.reduction("sum"), "mean": r.reduction("mean"), "amax": r.maximum, "max": r.maximum, "amin": r.minimum, "min": r.minimum,
    "var": r.variance, "std": r.deviation, "_softmax": r.softmax, "_log_softmax": r.log_softmax, "linalg_vector_norm": r.norm,
    "norm": r.norm,
    "cumsum": r.cumsum, "native_layer_norm": r.layer_norm, "any": r.any_of, "all": r.all_of, "logsumexp": r.logsumexp,
    "_safe_softmax": r.softmax,
    # products and lookups
    "mm": c.product(x.mm), "addmm": x.mm, "bmm": c.product(x.bmm), "baddbmm": x.bmm, "mv": x.mv, "_trilinear": x.trilinear,
    "native_batch_norm": x.batch_norm, "cudnn_batch_norm": x.batch_norm,
    "embedding": x.embedding, "_embedding_bag": x.embedding_bag, "_embedding_bag_forward_only": x.embedding_bag,
    "convolution": w.convolution, "max_pool2d_with_indices": w.max_pool, "recurrent": lower_recurrent,
    # entries by size or by computed positions
    "topk": p.topk, "sort": p.sort, "argsort": p.argsort, "argmax": p.extreme(True), "argmin": p.extreme(False), "gather": p.gather,
    "scatter": p.scatter, "scatter_add": p.scatter,
    "masked_select": p.masked_select, "index_put": p.index_put(k.index_put), "rows_kept": lower_kept, "rows_kept_flat": lower_kept,
    # computed whole numbers
    "_to_copy": c.copied(i.to_copy), "floor": i.floor, "trunc": i.truncated, "ceil": i.ceil, "round": i.rounded, "clamp": i.clamp(m.clamp, 1, 2), "clamp_min": i.clamp(m.clamp_min, 1),
    "clamp_max": i.clamp(m.clamp_max, None, 1), "bucketize": i.bucketize, "searchsorted": i.searchsorted, "index": picks.index(i.index(v.index)),
    "remainder": i.function(), "fmod": i.function(), "floor_divide": i.function(), "div": i.function(m.div),
    # complex numbers
    "_fft_r2c": c.from_real, "_fft_c2c": c.to_complex, "_fft_c2r": c.to_real, "view_as_real": c.view_as_real,
    "view_as_complex": c.view_as_complex, "_conj": c.conj, "_conj_physical": c.conj, "real": c.part("re"), "imag": c.part("im"),
}

#: Operators that, on one id and constants, are a function of that id.
ON_IDS = set("""add sub rsub mul floor_divide remainder fmod eq ne lt le gt ge logical_not logical_and logical_or logical_xor bitwise_and
 bitwise_or bitwise_not bitwise_xor clamp clamp_min clamp_max maximum minimum where _to_copy abs neg div pow sign masked_fill
 floor ceil round trunc""".split())
