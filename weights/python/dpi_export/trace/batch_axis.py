"""Follows the axis of rows through every operator of a trace, and refuses what mixes rows.

A layout says where the rows stand in a value: dim `axis` has pre * rows * post entries, rows in the middle. What has a layout depends
on an input; constants have None. Every operator has one rule in RULES; the lowering reads the layouts and needs no check of its own.
"""

import math
from collections import namedtuple

from ..errors import UnsupportedModelError
from .pair import plain

Layout = namedtuple("Layout", "axis pre post")
ROWS = Layout(0, 1, 1)


def refuse(node, text):
    """Raises with the operator, the layer and the source line."""
    raise UnsupportedModelError(f"{node.place()}: {text}: a row's score would depend on the other rows. Work within a row, or let training "
                                "keep such a number as a buffer")


# -- arguments --------------------------------------------------------------------------------------------------------
def argument(node, at, key, default=None):
    """An argument by place or name."""
    if at < len(node.args):
        return node.args[at]
    return node.kwargs.get(key, default)


def dim_of(node, dim, extra=0):
    """A dim counted from 0, of the first argument (with `extra` dims)."""
    return dim % (len(node.args[0].shape) + extra)


def dims_of(node, dims):
    """Dims of a reduction as a sorted list; None or empty means all."""
    rank = len(node.args[0].shape)
    if dims is None or dims == () or dims == []:
        return list(range(rank))
    return sorted(d % rank for d in (dims if isinstance(dims, (list, tuple)) else [dims]))


# -- rules ------------------------------------------------------------------------------------------------------------
def _elementwise(pair, node):
    """Dims align at the right; rows must meet rows."""
    value = node.value if hasattr(node.value, "shape") else node.value[0]
    rank, found = len(value.shape), None
    for other in node.inputs():
        if not other.varies:
            continue
        layout = other.layout._replace(axis=other.layout.axis + rank - len(other.shape))
        if found is not None and layout != found:
            refuse(node, f"joins dims {' and '.join(str(list(n.shape)) for n in node.inputs())} so that rows meet other rows")
        found = layout
    return found


def _same(pair, node):
    return node.args[0].layout


def _reduction(at=1, key="dim", keep=2):
    def rule(pair, node):
        layout, dims = node.args[0].layout, dims_of(node, argument(node, at, key))
        if layout.axis in dims:
            refuse(node, f"goes over dim {layout.axis}, where the rows are")
        if argument(node, keep, "keepdim", False):
            return layout
        return layout._replace(axis=layout.axis - sum(d < layout.axis for d in dims))
    return rule


def _along(at=1, key="dim", default=-1):
    """Softmax, cumsum, sort, flip ...: entries of one or several dims see each other."""
    def rule(pair, node):
        dims = dims_of(node, argument(node, at, key, default))
        if node.args[0].layout.axis in dims:
            refuse(node, f"goes along dim {node.args[0].layout.axis}, where the rows are")
        return node.args[0].layout
    return rule


def _gather(pair, node):
    dim = dim_of(node, node.args[1])
    if any(n.varies and n.layout.axis == dim for n in node.inputs()):
        refuse(node, f"picks entries along dim {dim}, where the rows are")
    return _elementwise_of(node, [node.args[0], node.args[2]])


def _elementwise_of(node, parts):
    found = {n.layout for n in parts if n.varies}
    if len(found) != 1:
        refuse(node, "joins values whose rows stand in different dims")
    return found.pop()


def _scatter_at(pair, node):
    """scatter and scatter_add: entries are written at computed places of one dim."""
    dim = dim_of(node, node.args[1])
    if any(n.varies and n.layout.axis == dim for n in node.inputs()):
        refuse(node, f"writes along dim {dim}, where the rows are")
    return _elementwise_of(node, list(node.inputs()))


def _index(pair, node):
    """x[:, indices] with constant indices."""
    x, indices = node.args[0], node.args[1]
    given = [i for i, index in enumerate(indices) if index is not None]
    if not x.varies and len(indices) == 1:
        return indices[0].layout  # entries of a constant
    if any(indices[i].varies for i in given):
        raise UnsupportedModelError(f"{node.place()}: picks entries by indices that it computes from the row; write x[torch.arange(len(x)), i] or "
                                    "torch.gather, or multiply by a mask")
    if not x.varies:
        return refuse(node, "picks entries of a constant by row")
    if x.layout.axis in given:
        refuse(node, f"picks entries of dim {x.layout.axis}, where the rows are")
    if len(given) == 1:
        extra = len(indices[given[0]].shape) - 1
        return x.layout._replace(axis=x.layout.axis + (extra if given[0] < x.layout.axis else 0))
    if given != list(range(given[0], given[-1] + 1)) or indices[given[0]].value.dtype.is_floating_point:
        raise UnsupportedModelError(f"{node.place()}: indexes several dims that do not lie together")
    rank = max(len(indices[i].shape) for i in given)
    return x.layout._replace(axis=x.layout.axis + (rank - len(given) if given[0] < x.layout.axis else 0))


def _index_select(pair, node):
    dim = dim_of(node, node.args[1])
    if node.args[2].varies or node.args[0].layout.axis == dim:
        refuse(node, f"picks entries along dim {dim} by row")
    return node.args[0].layout


def reshaped(pair, node, x):
    """Layout of a reshape of x: the entries stay in order, so what stands before and after the rows stays as much."""
    layout, shape, target = x.layout, x.shape, node.shape
    before = math.prod(shape[:layout.axis]) * layout.pre
    for axis, (size, twin) in enumerate(zip(target, pair.other(node).shape)):
        k = pair.factor(size, twin) if size != twin else None
        if k:
            left = math.prod(target[:axis])
            if before % left == 0 and k % (before // left) == 0:
                return Layout(axis, before // left, k // (before // left))
            break
    return refuse(node, f"turns dims {list(shape)} into {list(target)}, which tears rows apart")


def _view(pair, node):
    return reshaped(pair, node, node.args[0])


def _permute(pair, node):
    dims = [d % len(node.args[0].shape) for d in node.args[1]]
    return node.args[0].layout._replace(axis=dims.index(node.args[0].layout.axis))


def _transpose(pair, node):
    layout, rank = node.args[0].layout, len(node.args[0].shape)
    a, b = (0, 1) if plain(node.base) == "t" else (d % rank for d in node.args[1:3])
    if rank < 2:
        return layout
    return layout._replace(axis={a: b, b: a}.get(layout.axis, layout.axis))


def _unsqueeze(pair, node):
    layout, dim = node.args[0].layout, dim_of(node, node.args[1], 1)
    return layout._replace(axis=layout.axis + (dim <= layout.axis))


def _squeeze(pair, node):
    x = node.args[0]
    dims = dims_of(node, argument(node, 1, "dim"))
    return x.layout._replace(axis=x.layout.axis - sum(x.shape[d] == 1 for d in dims if d < x.layout.axis))


def _expand(pair, node):
    return node.args[0].layout._replace(axis=node.args[0].layout.axis + len(node.shape) - len(node.args[0].shape))


def _repeat(pair, node):
    x = node.args[0]
    axis = x.layout.axis + len(node.shape) - len(x.shape)
    return Layout(axis, x.layout.pre * node.args[1][axis], x.layout.post)


def _slice(pair, node):
    x, dim = node.args[0], dim_of(node, argument(node, 1, "dim", 0))
    if dim == x.layout.axis and node.shape[dim] != x.shape[dim]:
        refuse(node, "takes some of the rows")
    return x.layout


def _select(pair, node):
    layout, dim = node.args[0].layout, dim_of(node, node.args[1])
    if dim == layout.axis:
        refuse(node, f"takes one row, number {node.args[2]}")
    return layout._replace(axis=layout.axis - (dim < layout.axis))


def _split(pair, node):
    """Pieces along a dim; along the rows' own dim only whole blocks of `pre`."""
    layout, dim = node.args[0].layout, dim_of(node, argument(node, 2, "dim", 0))
    if dim != layout.axis:
        return layout
    sizes, twins = ([v.shape[dim] for v in n.value] for n in (node, pair.other(node)))
    blocks = [pair.factor(a, b) for a, b in zip(sizes, twins)]
    if len(sizes) != len(twins) or any(k is None or k % layout.post for k in blocks) or len(set(blocks)) != 1:
        refuse(node, "splits the rows into several values")
    return layout._replace(pre=blocks[0] // layout.post)


def _unbind(pair, node):
    dim = dim_of(node, argument(node, 1, "dim", 0))
    if dim == node.args[0].layout.axis:
        refuse(node, "takes the rows apart")
    return node.args[0].layout._replace(axis=node.args[0].layout.axis - (dim < node.args[0].layout.axis))


def _cat(pair, node):
    parts = node.args[0]
    varying = [p for p in parts if p.varies]
    dim = argument(node, 1, "dim", 0) % len(varying[0].shape)
    layouts = {p.layout for p in varying}
    if len({x._replace(pre=1) for x in layouts}) != 1:
        refuse(node, "joins values whose rows stand in different dims")
    layout = varying[0].layout
    if dim != layout.axis:
        if len(layouts) != 1:
            refuse(node, "joins values whose rows stand in different dims")
        return layout
    if len(varying) != len(parts):
        refuse(node, "puts constant rows among the rows")
    return layout._replace(pre=sum(p.layout.pre for p in parts))


def _stack(pair, node):
    layout = _elementwise_of(node, node.args[0])
    dim = argument(node, 1, "dim", 0) % len(node.shape)
    return layout._replace(axis=layout.axis + (dim <= layout.axis))


def _embedding(pair, node):
    if node.args[0].varies:
        raise UnsupportedModelError(f"{node.place()}: looks up rows of a table that it computes from the row")
    return node.args[1].layout


def _embedding_bag(pair, node):
    weight, ids, offsets = node.args[:3]
    per_sample = argument(node, 6, "per_sample_weights")
    if weight.varies or offsets.varies:
        raise UnsupportedModelError(f"{node.place()}: bags with offsets that it computes from the rows; give it ids [rows, length]")
    closed = bool(argument(node, 7, "include_last_offset", False))
    length, rest = divmod(ids.shape[0], offsets.shape[0] - closed)
    want = [i * length for i in range(offsets.shape[0])]
    if rest or offsets.value.tolist() != want or ids.layout != Layout(0, 1, length):
        raise UnsupportedModelError(f"{node.place()}: the bags do not hold one length for all rows")
    if per_sample is not None and per_sample.varies and per_sample.layout != ids.layout:
        refuse(node, "weighs ids of one row by another's")
    return ROWS


def _contract(node, a, b, a_free, b_free, shared=()):
    """Layout of a product: free dims of a, then of b, behind shared dims. Rows may stand in one free dim, or in the shared ones of both."""
    layouts = [x.layout for x in (a, b) if x.varies]
    if len(layouts) == 2:
        if a.layout != b.layout or a.layout.axis not in shared:
            refuse(node, f"multiplies rows with other rows (dims {list(a.shape)} and {list(b.shape)})")
        return a.layout
    layout = layouts[0]
    if layout.axis in shared:
        return layout
    free = a_free if a.varies else b_free
    if layout.axis != free:
        refuse(node, f"adds up over dim {layout.axis}, where the rows are")
    return layout._replace(axis=len(shared) + (0 if a.varies else 1))


def _mm(pair, node):
    a, b = node.args[-2:] if plain(node.base) == "addmm" else node.args[:2]
    return _with_added(node, _contract(node, a, b, 0, 1))


def _bmm(pair, node):
    a, b = node.args[1:3] if plain(node.base) == "baddbmm" else node.args[:2]
    return _with_added(node, _contract(node, a, b, 1, 2, shared=(0,)))


def _searched(pair, node):
    """Buckets of x: dims of x."""
    x, edges = node.args[:2] if plain(node.base) == "bucketize" else node.args[1::-1]
    if edges.varies:
        raise UnsupportedModelError(f"{node.place()}: takes boundaries that it computes from the row")
    return x.layout


def _mv(pair, node):
    a, b = node.args[-2:] if plain(node.base) == "addmv" else node.args[:2]
    if b.varies or a.layout.axis != 0:
        refuse(node, "multiplies rows with other rows")
    return a.layout


def _dot(pair, node):
    return refuse(node, "adds up over the rows")


def _with_added(node, layout):
    """addmm and baddbmm: the first argument is added."""
    if plain(node.base) in ("addmm", "baddbmm") and node.args[0].varies:
        added = node.args[0]
        if added.layout._replace(axis=added.layout.axis + len(node.shape) - len(added.shape)) != layout:
            refuse(node, "adds rows to other rows")
    return layout


def _batch_norm(pair, node):
    if argument(node, 5, "training"):
        refuse(node, "normalises with the statistics of the batch (track_running_stats=False, or not in evaluation mode)")
    if node.args[0].layout.axis == 1:
        refuse(node, "has the rows in the place of channels")
    return node.args[0].layout


def _layer_norm(pair, node):
    if node.args[0].layout.axis >= len(node.args[0].shape) - len(node.args[1]):
        refuse(node, "normalises over the rows")
    return node.args[0].layout


def _pad(pair, node):
    layout, pads = node.args[0].layout, node.args[1]
    behind = len(node.shape) - 1 - layout.axis
    if any(pads[2 * behind:2 * behind + 2]):
        refuse(node, "adds rows")
    return layout


def _in_front(text):
    """Rows stand alone in dim 0, and everything else varies with nothing."""
    def rule(pair, node):
        if node.args[0].layout != ROWS or any(n.varies for n in node.inputs()[1:]):
            refuse(node, text)
        return ROWS
    return rule


def _masked_select(pair, node):
    x, mask = node.args[:2]
    if mask.varies or x.layout.axis != 0 or x.layout.pre != 1 or len(mask.shape) == len(x.shape) and mask.shape[0] != 1:
        refuse(node, "picks entries by a mask that reaches over the rows")
    return Layout(0, 1, node.shape[0] // pair.rows[0])


def _trilinear(pair, node):
    a, weight, b = node.args[:3]
    if weight.varies or not (a.varies and b.varies) or a.layout != b.layout or a.layout.axis == len(a.shape) - 1:
        refuse(node, "multiplies rows with other rows")
    return a.layout


def _recurrent(pair, node):
    """x, mask and attention [rows, T ...]"""
    if any(n.layout != ROWS for n in node.args[:3] if n is not None and n.varies) or not node.args[0].varies or any(
            n is not None and n.varies for n in node.args[3:7]):
        refuse(node, "has the rows in the place of positions")
    return ROWS


def _fft(pair, node):
    if node.args[0].layout.axis in dims_of(node, node.args[1]):
        refuse(node, "is a Fourier transform over the rows")
    return node.args[0].layout


def _to_last_dim(pair, node):
    if node.args[0].layout.axis >= min(len(node.shape), len(node.args[0].shape)):
        refuse(node, "has the rows in the place of the parts of complex numbers")
    return node.args[0].layout


def _getitem(pair, node):
    return node.args[0].layout


def _scatter(pair, node):
    """slice_scatter and select_scatter: x with a part of it replaced."""
    x, part = node.args[:2]
    dim = dim_of(node, argument(node, 2, "dim", 0))
    varying = x if x.varies else None
    if varying is None:
        layout = part.layout
        axis = layout.axis + (1 if plain(node.base) == "select_scatter" and dim <= layout.axis else 0)
        layout = layout._replace(axis=axis)
    else:
        layout = x.layout
    if dim == layout.axis and (plain(node.base) == "select_scatter" or part.shape[dim] != x.shape[dim]):
        refuse(node, "writes into some of the rows")
    return layout


def _copied(pair, node):
    """x.copy_(y): y under the dims of x."""
    x, y = node.args[:2]
    return y.layout._replace(axis=y.layout.axis + len(node.shape) - len(y.shape)) if y.varies else x.layout


def _triangle(pair, node):
    layout = node.args[0].layout
    if layout.axis >= len(node.shape) - 2:
        refuse(node, "takes the triangle of a matrix that has the rows in it")
    return layout


def _diagonal(pair, node):
    layout, dims = node.args[0].layout, [dim_of(node, argument(node, i, key, i - 2)) for i, key in ((2, "dim1"), (3, "dim2"))]
    if layout.axis in dims:
        refuse(node, "takes the diagonal of a matrix that has the rows in it")
    return layout._replace(axis=layout.axis - sum(d < layout.axis for d in dims))


_ELEMENTWISE = """add sub rsub mul div pow neg abs exp expm1 log log1p log2 log10 sqrt rsqrt sin cos sign atan2 floor ceil round trunc
 reciprocal square sigmoid tanh relu relu6 gelu silu elu selu celu leaky_relu softplus hardtanh hardswish hardsigmoid mish clamp clamp_min
 clamp_max maximum minimum where masked_fill eq ne lt le gt ge logical_not logical_and logical_or logical_xor bitwise_and bitwise_or
 bitwise_not bitwise_xor remainder fmod floor_divide log_sigmoid_forward _prelu_kernel erf hardshrink softshrink threshold addcmul addcdiv
 lerp hypot _conj _conj_physical real imag isnan isinf isneginf isfinite nan_to_num _to_copy clone detach alias lift_fresh contiguous xlogy fill zero
 rrelu_with_noise empty_like""".split()

RULES = {
    **{name: _elementwise for name in _ELEMENTWISE}, "prelu": _same,
    **{name: _reduction() for name in ("sum", "mean", "amax", "amin", "logsumexp", "any", "all", "prod")},
    "max": _reduction(), "min": _reduction(), "argmax": _reduction(), "argmin": _reduction(), "median": _reduction(),
    "var": _reduction(keep=3), "std": _reduction(keep=3), "norm": _reduction(2, "dim", 3), "linalg_vector_norm": _reduction(2, "dim", 3),
    "count_nonzero": _reduction(), "var_mean": _reduction(keep=3),
    "_softmax": _along(), "_log_softmax": _along(), "softmax": _along(), "diagonal": _diagonal, "cumsum": _along(), "cumprod": _along(),
    "logcumsumexp": _along(),
    "sort": _along(), "argsort": _along(), "topk": _along(2), "flip": _along(1, "dims"), "roll": _along(2, "dims", None),
    "glu": _along(), "gather": _gather, "scatter": _scatter_at, "scatter_add": _scatter_at, "index": _index, "index_select": _index_select,
    "view": _view, "_unsafe_view": _view, "reshape": _view, "_reshape_alias": _view, "permute": _permute, "transpose": _transpose,
    "t": _transpose, "unsqueeze": _unsqueeze, "squeeze": _squeeze, "expand": _expand, "repeat": _repeat, "slice": _slice, "select": _select,
    "split": _split, "unsafe_split": _split, "split_with_sizes": _split, "chunk": _split, "unbind": _unbind, "cat": _cat, "stack": _stack,
    "embedding": _embedding, "_embedding_bag": _embedding_bag, "_embedding_bag_forward_only": _embedding_bag,
    "mm": _mm, "addmm": _mm, "bmm": _bmm, "baddbmm": _bmm, "mv": _mv, "addmv": _mv, "dot": _dot, "native_batch_norm": _batch_norm,
    "cudnn_batch_norm": _batch_norm, "convolution": _in_front("has the rows in the place of channels or positions"),
    "max_pool2d_with_indices": _in_front("has the rows in the place of channels or positions"), "masked_select": _masked_select,
    "triu": _triangle, "tril": _triangle, "_trilinear": _trilinear, "recurrent": _recurrent, "_fft_r2c": _fft, "_fft_c2c": _fft, "_fft_c2r": _fft,
    "view_as_real": _to_last_dim, "view_as_complex": _to_last_dim, "constant_pad_nd": _pad, "native_layer_norm": _layer_norm,
    "getitem": _getitem, "slice_scatter": _scatter, "select_scatter": _scatter, "copy": _copied, "_safe_softmax": _along(),
    "bucketize": _searched, "searchsorted": _searched,
}
