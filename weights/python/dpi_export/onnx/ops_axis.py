"""ONNX operators over an axis, products, norms and lookups, as calls of torch."""

import torch
import torch.nn.functional as F

from .ops_shape import axes_of

#: OneHot is a lookup in a table of this many rows at most.
_MAX_DEPTH = 4096


# -- reductions -------------------------------------------------------------------------------------------------------
def reduction(call, empty_is_same=True):
    """A reduction over axes, which are an attribute or, in later opsets, an input. call(x, axes, keepdim)"""
    def handler(op, x, *rest):
        axes, keep = axes_of(op, (x, *rest), x.dim()), bool(op.attr("keepdims", 1))
        if not axes and op.attr("noop_with_empty_axes", 0):
            return x if empty_is_same else op.refuse("noop_with_empty_axes=1")
        return call(x, axes or list(range(x.dim())), keep)
    return handler


def total(x, axes, keep):
    """The sum, in the type of x."""
    return torch.sum(x, axes, keep, dtype=None if x.is_floating_point() else x.dtype)


def mean(x, axes, keep):
    """The mean."""
    return torch.mean(x, axes, keep)


def largest(x, axes, keep):
    """The largest entry."""
    return torch.amax(x, axes, keep)


def smallest(x, axes, keep):
    """The smallest entry."""
    return torch.amin(x, axes, keep)


def product(x, axes, keep):
    """The product."""
    for axis in sorted(axes, reverse=True):
        x = torch.prod(x, axis, keep, dtype=x.dtype)
    return x


def norm(order):
    """The 1-norm or the 2-norm."""
    return lambda x, axes, keep: torch.linalg.vector_norm(x, order, axes, keep)


def sum_square(x, axes, keep):
    """The sum of squares."""
    return total(x * x, axes, keep)


def log_sum(x, axes, keep):
    """log of the sum."""
    return torch.log(total(x, axes, keep))


def log_sum_exp(x, axes, keep):
    """log of the sum of exp."""
    return torch.logsumexp(x, axes, keep)


# -- along an axis ----------------------------------------------------------------------------------------------------
def _flat_before_13(op, x, call):
    """Softmax and its kin: until opset 13 all dims from the axis on are one, then the axis alone counts."""
    axis = op.attr("axis", 1 if op.opset < 13 else -1)
    axis = axis + x.dim() if axis < 0 else axis
    if op.opset >= 13 or all(d == 1 for d in x.shape[axis + 1:]) and axis < x.dim():
        return call(x, axis)
    return call(x.reshape(list(x.shape[:axis]) + [-1]), axis).reshape(x.shape)


def softmax(op, x):
    """exp(x) / sum(exp(x))"""
    return _flat_before_13(op, x, torch.softmax)


def log_softmax(op, x):
    """log of softmax"""
    return _flat_before_13(op, x, torch.log_softmax)


def cumsum(op, x, axis):
    """Running sums, also from the end, also without the entry itself."""
    at = op.ints(1, (x, axis), "axis")[0]
    whole = torch.flip(x, (at % x.dim(),)) if op.attr("reverse", 0) else x
    out = torch.cumsum(whole, at)
    out = out - whole if op.attr("exclusive", 0) else out
    return torch.flip(out, (at % x.dim(),)) if op.attr("reverse", 0) else out


def top_k(op, x, k):
    """The k largest or smallest entries and their places."""
    return torch.topk(x, op.ints(1, (x, k), "number")[0], op.attr("axis", -1), bool(op.attr("largest", 1)), True)


def arg(call):
    """The place of the largest or smallest entry."""
    def handler(op, x):
        if op.attr("select_last_index", 0):
            op.refuse("select_last_index=1: of equal entries the first one is taken")
        return call(x, op.attr("axis", 0), bool(op.attr("keepdims", 1)))
    return handler


# -- products ---------------------------------------------------------------------------------------------------------
def matmul(op, a, b):
    """A product of matrices."""
    if a.dim() > 1 and b.dim() > 1:
        op.room([*torch.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1]])
    return torch.matmul(a, b)


def gemm(op, a, b, c=None):
    """alpha A B + beta C"""
    a, b = (a.t() if op.attr("transA", 0) else a), (b.t() if op.attr("transB", 0) else b)
    alpha, beta = op.attr("alpha", 1.0), op.attr("beta", 1.0)
    op.room([a.shape[0], b.shape[1]])
    if c is None or beta == 0:
        out = torch.mm(a, b)
        return out if alpha == 1 else out * alpha
    if op.known[2] and (c.dim() < 2 or c.shape[0] == 1) and c.numel() in (1, b.shape[1]):
        c = c.reshape(-1)
    return torch.addmm(c, a, b, beta=beta, alpha=alpha) if (alpha, beta) != (1, 1) else torch.addmm(c, a, b)


def einsum(op, *values):
    """Sums of products by an equation."""
    equation = op.attr("equation").replace(" ", "")
    op.room(_einsum_dims(equation, values))
    return torch.einsum(equation, *values)


def _einsum_dims(equation, values):
    """Sizes of what an equation gives, in any order; every letter's size where it does not say what it gives."""
    left, _, right = equation.partition("->")
    sizes, spread = {}, ()
    for letters, value in zip(left.split(","), values):
        named = letters.replace("...", "")
        at = letters.find("...") if "..." in letters else len(named)
        free = value.dim() - len(named)
        spread = torch.broadcast_shapes(spread, value.shape[at:at + free]) if free > 0 else spread
        sizes.update(zip(named, list(value.shape[:at]) + list(value.shape[at + max(0, free):])))
    return [size for name, size in sizes.items() if not right or name in right] + list(spread)


def conv(op, x, weight, bias=None):
    """A convolution."""
    if op.attr("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        op.refuse(f"auto_pad={op.attr('auto_pad')}: export with numbers for pads")
    count, pads = weight.dim() - 2, op.attr("pads") or [0] * (2 * (weight.dim() - 2))
    if count not in (1, 2) or pads[:count] != pads[count:]:
        op.refuse("is a convolution over more than two dims, or with other pads in front than behind")
    call = F.conv1d if count == 1 else F.conv2d
    return call(x, weight, bias, op.attr("strides") or 1, pads[:count], op.attr("dilations") or 1, op.attr("group", 1))


def max_pool(op, x):
    """The largest entry of each window; padding is none of them."""
    if op.attr("auto_pad", "NOTSET") not in ("NOTSET", "VALID") or op.attr("ceil_mode", 0) or len(op.node.outputs) > 1:
        op.refuse("has auto_pad, ceil_mode or the places of its entries: export it without")
    count, pads = x.dim() - 2, op.attr("pads") or [0] * (2 * (x.dim() - 2))
    if count not in (1, 2) or pads[:count] != pads[count:]:
        op.refuse("is a pooling over more than two dims, or with other pads in front than behind")
    call = F.max_pool1d if count == 1 else F.max_pool2d
    return call(x, op.attr("kernel_shape"), op.attr("strides") or 1, pads[:count], op.attr("dilations") or 1)


# -- norms ------------------------------------------------------------------------------------------------------------
def batch_norm(op, x, scale, bias, running_mean, running_var):
    """BatchNormalization with fixed statistics."""
    if op.attr("training_mode", 0) or op.opset < 14 and len(op.node.outputs) > 1:
        op.refuse("is in training mode: it normalises with the statistics of the batch. Export the model with training off")
    if all(op.known[1:]):
        return F.batch_norm(x, running_mean, running_var, scale, bias, False, 0.0, op.attr("epsilon", 1e-5))
    # Keras's LayerNormalization by tf2onnx: the rows are channels, and their own mean and variance the statistics
    scale, bias, mean_, var = (v.reshape([-1] + [1] * (x.dim() - 2)) for v in (scale, bias, running_mean, running_var))
    return (x - mean_) / torch.sqrt(var + op.attr("epsilon", 1e-5)) * scale + bias


def layer_norm(op, x, scale, bias=None):
    """LayerNormalization over the dims from the axis on."""
    if op.wants(1) or op.wants(2):
        op.refuse("its mean or deviation is read")
    axis = op.attr("axis", -1)
    dims = list(x.shape[axis + x.dim() if axis < 0 else axis:])
    if not all(op.known[1:]):
        op.refuse("its scale or bias depends on the rows")
    scale, bias = (None if v is None else v if list(v.shape) == dims else torch.broadcast_to(v, dims).clone() for v in (scale, bias))
    return F.layer_norm(x, dims, scale, bias, op.attr("epsilon", 1e-5))


def rms_norm(op, x, scale):
    """RMSNormalization of opset 23."""
    axis = op.attr("axis", -1)
    axes = list(range(axis + x.dim() if axis < 0 else axis, x.dim()))
    mean_square = torch.mean(x * x, axes, True)
    return x / torch.sqrt(mean_square + op.attr("epsilon", 1e-5)) * scale


# -- lookups and picks ------------------------------------------------------------------------------------------------
def gather(op, data, indices):
    """Entries of an axis by indices: rows of a table where the indices depend on the rows."""
    axis = op.attr("axis", 0)
    axis = axis + data.dim() if axis < 0 else axis
    if not op.known[1]:
        return _rows(op, data, indices, axis)
    if indices.dim() == 0:
        at = indices.tolist()
        return data.select(axis, at)
    places = torch.where(indices < 0, indices + data.shape[axis], indices).reshape(-1)
    op.room([*data.shape[:axis], places.numel(), *data.shape[axis + 1:]])
    out = torch.index_select(data, axis, places.long())
    return out if indices.dim() == 1 else out.reshape(list(data.shape[:axis]) + list(indices.shape) + list(data.shape[axis + 1:]))


def _rows(op, data, indices, axis):
    """Rows of a known table."""
    if not op.known[0]:
        op.refuse("picks entries of a computed value by indices that depend on the rows; GatherElements (torch.gather) does so by name")
    data = data.movedim(axis, 0) if axis else data  # a table itself keeps its name
    table = data.reshape(data.shape[0], -1) if data.dim() != 2 else data
    op.room([*indices.shape, table.shape[1]])
    if _below_zero(op):
        indices = torch.where(indices < 0, indices + data.shape[0], indices)
    found, lead = F.embedding(indices, table), indices.dim()
    found = found if data.dim() == 2 else found.reshape(list(indices.shape) + list(data.shape[1:]))
    if not axis:
        return found
    dims = list(range(found.dim()))  # the indices stand in front, and belong where the table had its axis
    return found.permute(dims[lead:lead + axis] + dims[:lead] + dims[lead + axis:])


def _below_zero(op):
    """True for indices that are a difference: one below 0 counts from the end, which a lookup of torch does not know."""
    makers, name = {out: node for node in op.owner.order for out in node.outputs}, op.node.inputs[1]
    while name in makers and makers[name].op in ("Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten"):
        name = makers[name].inputs[0]
    return name in makers and makers[name].op in ("Sub", "Neg")


def embedding_bag(op, table, ids, starts, ends, count):
    """Bags of ids: from starts to ends of one list of all ids."""
    begin, end = op.ints(2, (table, ids, starts), "offsets"), op.ints(3, (table, ids, starts, ends), "offsets")
    rows = op.ints(4, (table, ids, starts, ends, count), "rows")[0]
    begin, end = begin[:rows], end[:rows]
    if begin[1:] + [ids.shape[0]] != [min(e, ids.shape[0]) for e in end] or not op.known[0]:
        op.refuse("its bags do not follow one another")
    return F.embedding_bag(ids, table, torch.tensor(begin, dtype=ids.dtype), mode=op.attr("mode"))


def gather_elements(op, data, indices):
    """Entry by entry along an axis."""
    axis = op.attr("axis", 0)
    axis = axis + data.dim() if axis < 0 else axis
    if op.known[1]:
        indices = torch.where(indices < 0, indices + data.shape[axis], indices)
    return torch.gather(data, axis, indices)


def gather_nd(op, data, indices):
    """Entries by known indices of several dims that lie together."""
    if not op.known[1]:
        op.refuse("picks entries by indices that depend on the rows")
    batch = op.attr("batch_dims", 0)
    if batch:
        op.refuse("batch_dims of more than 0: write Gather along an axis")
    lists = tuple(indices[..., i] for i in range(indices.shape[-1]))
    return data[lists]


def one_hot(op, indices, depth, values):
    """1 at the place of the index, by a lookup in a small table."""
    size = op.ints(1, (indices, depth), "depth")[0]
    if not 0 < size <= _MAX_DEPTH:
        op.refuse(f"depth {size}: expected 1 to {_MAX_DEPTH}")
    if not op.known[2]:
        op.refuse("its values depend on the rows")
    off, on = values.reshape(-1)[:1], values.reshape(-1)[1:]
    table = torch.eye(size, dtype=values.dtype) * (on - off) + off
    if not table.is_floating_point():
        op.refuse("gives integers: cast its values to float")
    op.room([*indices.shape, size])
    found = F.embedding(indices.long(), table)
    axis = op.attr("axis", -1)
    axis = axis + found.dim() if axis < 0 else axis
    return found.movedim(-1, axis) if axis != found.dim() - 1 else found
