"""Handlers of convolutions and pooling: the windows are picked by index, then it is a Linear or a maximum."""

import math

import numpy as np

from .batch_axis import argument
from .values import Floats, permute, reshape, take


def _pair(value, default=None):
    """A number for each of two dims."""
    value = default if value is None or value == () or value == [] else value
    return tuple(value) * (2 if len(value) == 1 else 1) if isinstance(value, (list, tuple)) else (value, value)


def _spread(one_dim, values, neutral):
    """Values for height and width, of one dim those of the width."""
    return (neutral, values[0]) if one_dim else tuple(values)


def _flat_image(lower, x):
    """(value [channels, height, width], True where the height is made up)"""
    v = lower.floats(x)
    one_dim = len(v.dims) == 2
    return (reshape(lower.g, v, (v.dims[0], 1, v.dims[1])) if one_dim else v), one_dim


def convolution(lower, node):
    """A convolution over one or two dims: windows behind one another, each a Linear."""
    x, weight, bias, stride, padding, dilation, transposed, _, groups = node.args[:9]
    v, one_dim = _flat_image(lower, x)
    kernel = lower.weight(weight)
    if transposed or kernel.ndim != len(x.shape) or len(v.dims) != 3:
        lower.refuse("is a transposed convolution" if transposed else "is a convolution over three dims; over one or two there is a form")
    kernel = kernel[:, :, None] if one_dim else kernel
    stride, padding, dilation = (_spread(one_dim, a, neutral) for a, neutral in ((stride, 1), (padding, 0), (dilation, 1)))
    if groups == 1 and set(kernel.shape[2:]) == {1} and set(stride) == {1} and set(padding) == {0}:
        return _of_channels(lower, node, v, kernel[:, :, 0, 0], None if bias is None else lower.weight(bias))
    v = permute(lower.g, v, [1, 2, 0])
    for axis in (0, 1):
        v = _padded(lower, v, axis, padding[axis])
    sizes, out = kernel.shape[2:], []
    wide = _windows(lower, v, sizes, stride, dilation)  # [height, width, kernel, channels]
    inputs, outputs = kernel.shape[1], kernel.shape[0] // groups
    for i in range(groups):
        part = take(lower.g, wide, 3, list(range(i * inputs, (i + 1) * inputs)))
        flat = reshape(lower.g, part, part.dims[:2] + (math.prod(part.dims[2:]),))
        own = kernel[i * outputs:(i + 1) * outputs].transpose(0, 2, 3, 1).reshape(outputs, -1)
        out.append(lower.g.linear(flat.op, own, None if bias is None else lower.weight(bias)[i * outputs:(i + 1) * outputs]))
    op = lower.g.concat(out)
    return lower.reshaped(node, permute(lower.g, Floats(op, op.shape), [2, 0, 1]))


def _of_channels(lower, node, v, weight, bias):
    """A window of one entry only mixes channels, which lie where a Linear over fields has them: nothing is transposed."""
    flat = reshape(lower.g, v, (v.dims[0], v.dims[1] * v.dims[2]))
    op = lower.g.linear(flat.op, weight, bias, axis="field")
    return lower.reshaped(node, Floats(op, op.shape))


def _padded(lower, v, axis, count):
    if not count:
        return v
    zeros = lower.g.const(np.zeros(v.dims[:axis] + (count,) + v.dims[axis + 1:], np.float32))
    op = lower.g.concat([zeros, v.op, zeros], axis)
    return Floats(op, op.shape)


def _windows(lower, v, sizes, stride, dilation):
    """[height, width, channels] -> [places down, places across, entries of a window, channels]"""
    places = [[[at * stride[a] + i * dilation[a] for i in range(sizes[a])]
               for at in range((v.dims[a] - dilation[a] * (sizes[a] - 1) - 1) // stride[a] + 1)] for a in (0, 1)]
    for axis in (1, 0):
        v = take(lower.g, v, axis, [i for window in places[axis] for i in window])
    down, across = map(len, places)
    v = permute(lower.g, reshape(lower.g, v, (down, sizes[0], across, sizes[1], v.dims[2])), [0, 2, 1, 3, 4])
    return reshape(lower.g, v, (down, across, sizes[0] * sizes[1], v.dims[4]))


def max_pool(lower, node):
    """The largest entry of each window; padding is none of them, so a window at an edge has one of its own entries twice."""
    x, sizes = node.args[0], _pair(node.args[1])
    stride, padding, dilation = _pair(argument(node, 2, "stride"), sizes), _pair(argument(node, 3, "padding", 0)), _pair(
        argument(node, 4, "dilation", 1))
    v, _ = _flat_image(lower, x)
    first = node.value[0]
    for axis in (1, 2):
        a, count = axis - 1, first.shape[len(first.shape) - 3 + axis]
        windows = []
        for at in range(count):
            inside = [i for i in (at * stride[a] - padding[a] + j * dilation[a] for j in range(sizes[a])) if 0 <= i < v.dims[axis]]
            windows.extend((inside * sizes[a])[:sizes[a]])
        wide = reshape(lower.g, take(lower.g, v, axis, windows), v.dims[:axis] + (count, sizes[a]) + v.dims[axis + 1:])
        v = Floats(lower.g.reduce("max", wide.op, axis + 1), wide.dims[:axis + 1] + wide.dims[axis + 2:])
    return [v, None]
