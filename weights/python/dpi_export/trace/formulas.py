"""Functions of torch by formulas of functions that have primitives, while a model is traced. The model itself, as it is, stays the oracle.

Absolute errors stay within some float32 roundings, wherever a formula divides or cancels."""

import functools
import math
import operator

from ..errors import UnsupportedModelError

_FEW = 64  #: comparisons that a formula may be written out with


def table():
    """{function or method of torch: formula}"""
    import torch

    found = {}
    for name, formula in _FORMULAS.items():
        for home in (torch, torch.Tensor, torch.special, torch._C._nn, torch.nn.functional):
            function = getattr(home, name, None)
            if function is not None and not (name == "unfold" and home is not torch.Tensor):  # torch.nn.functional has another one
                found[function] = formula
        if (in_place := getattr(torch.Tensor, name + "_", None)) is not None:
            found[in_place] = _in_place(formula)
    return found


def _in_place(formula):
    def written(input, *args, **keys):  # noqa: A002
        made = formula(input, *args, **keys)
        return made if made is NotImplemented else input.copy_(made)
    return written


def _logit(input, eps=None):  # noqa: A002  (torch's own names, here and below)
    x = input if eps is None else input.clamp(eps, 1 - eps)
    return (x / (1 - x)).log()


def _erf(input):  # noqa: A002
    """Of Phi(z) = gelu(z) / z at z = sqrt(2) |x|, which is never 0 here; x / z stands for the sign."""
    import torch

    y = input * math.sqrt(2)
    z = y.abs().clamp(max=12.0) + 1e-30  # beyond 12 it is 1
    return y.clamp(-12.0, 12.0) / z * (2 * torch.nn.functional.gelu(z) / z - 1)


def _asinh(input):  # noqa: A002
    size = input.abs()
    return (size + (size * size + 1).sqrt()).log() * (input / (size + 1e-30))


def _arc(of_sine):
    def formula(input):  # noqa: A002
        import torch

        other = ((1 - input) * (1 + input)).sqrt()
        return torch.atan2(input, other) if of_sine else torch.atan2(other, input)
    return formula


def _atan(input):  # noqa: A002
    import torch

    return torch.atan2(input, torch.ones_like(input))


def _addcdiv(input, tensor1, tensor2, *, value=1):  # noqa: A002
    return input + value * (tensor1 / tensor2)


def _with_mean(spread):
    def formula(input, *args, **keys):  # noqa: A002
        import torch

        dim = args[0] if args and not isinstance(args[0], bool) else keys.get("dim")
        return getattr(torch, spread)(input, *args, **keys), input.mean(dim, keepdim=keys.get("keepdim", False))
    return formula


def _prod(input, dim=None, keepdim=False, *, dtype=None):  # noqa: A002
    """By halves."""
    import torch

    if dim is None:  # over the rows: refused by its name
        return torch.prod(input)
    x = input if dtype is None else input.to(dtype)
    while x.size(dim) > 1:
        half = x.size(dim) // 2
        done = x.narrow(dim, 0, half) * x.narrow(dim, half, half)
        x = torch.cat([done, x.narrow(dim, 2 * half, 1)], dim) if x.size(dim) % 2 else done
    return x if keepdim else x.squeeze(dim)


def _cumprod(input, dim, *, dtype=None):  # noqa: A002
    """Each entry times the product of those before it, over distances of 1, 2, 4 ..."""
    import torch

    x, distance = input if dtype is None else input.to(dtype), 1
    while distance < x.size(dim):
        rest = x.size(dim) - distance
        x = torch.cat([x.narrow(dim, 0, distance), x.narrow(dim, distance, rest) * x.narrow(dim, 0, rest)], dim)
        distance *= 2
    return x


def _windows(input, dimension, size, step):  # noqa: A002
    """Tensor.unfold: windows along a dim, their entries in a new last dim."""
    import torch

    dim, count = dimension % input.dim(), (input.size(dimension) - size) // step + 1
    return torch.stack([input.narrow(dim, i * step, size).movedim(dim, -1) for i in range(count)], dim)


def _softplus_of(x):
    """log(1 + exp(x))"""
    import torch

    return torch.nn.functional.softplus(x)


def _logaddexp(input, other):  # noqa: A002
    return other + _softplus_of(input - other)


def _chosen(test):
    """x where test(x, number) holds, else 0."""
    def formula(input, lambd=0.5):  # noqa: A002
        import torch

        return torch.where(test(input, lambd), input, torch.zeros_like(input))
    return formula


def _threshold(input, threshold, value, inplace=False):  # noqa: A002
    import torch

    return torch.where(input > threshold, input, torch.full_like(input, value))


def _count_nonzero(input, dim=None):  # noqa: A002
    return NotImplemented if dim is None else (input != 0).sum(dim)


def _shift(factor):
    def formula(input, other):  # noqa: A002
        if not isinstance(other, int) or isinstance(other, bool):
            return NotImplemented
        return input.div(2**other, rounding_mode="floor") if factor < 0 else input * 2**other
    return formula


def _by_matrix(name, dims):
    """A function of each of the last dims that is linear: a product with what it makes of the unit matrix."""
    def formula(input, size=None, *args, **keys):  # noqa: A002
        import torch

        if input.dim() < dims + 2 or keys.pop("divisor_override", None) is not None or any(a is not None for a in args[4:]):
            return NotImplemented
        args = args[:4]
        size = keys.pop("kernel_size", keys.pop("output_size", None)) if size is None else size
        one, x = getattr(torch.nn.functional, name), input
        for i in range(dims):
            def own(value, i=i):
                return value[i] if isinstance(value, (list, tuple)) and len(value) == dims else value[0] if isinstance(value, (list, tuple)) and value \
                    else None if isinstance(value, (list, tuple)) else value

            at = i - dims
            kept = own(size) if own(size) is not None else x.size(at)
            matrix = one(torch.eye(x.size(at), dtype=x.dtype)[None], kept, *map(own, args), **{key: own(value) for key, value in keys.items()})[0]
            x = (x.transpose(at, -1) @ matrix).transpose(at, -1)
        return x
    return formula


def _whole_number(other):
    return isinstance(other, (int, float)) and not isinstance(other, bool) and other == int(other) and 0 < other < 1 << 24


def _quotient(input, other):  # noqa: A002
    """Its clone tells it from a division that the model itself writes, which rounds as the bundle's does."""
    return (input / other).clone()


def _floored(input, other):  # noqa: A002
    """By a whole number, while its multiples are floats (lower_whole.py sees to it), the rounded quotient has the exact one's floor, but for numbers
    below 0 whose quotient is 0."""
    if not input.is_floating_point() or not _whole_number(other):
        return NotImplemented
    quotient = _quotient(input, other)
    return quotient.floor() - ((input < 0) & (quotient == 0)).to(input.dtype)


def _div(input, other, *, rounding_mode=None):  # noqa: A002
    if rounding_mode is None or not input.is_floating_point() or not _whole_number(other):
        return NotImplemented
    return _floored(input, other) if rounding_mode == "floor" else _truncated(input, other)


def _truncated(input, other):  # noqa: A002
    return _quotient(input, other).trunc()


def _rest(whole):
    """remainder and fmod of numbers: while multiples of the divisor are floats, the difference is exact."""
    def formula(input, other):  # noqa: A002
        if not hasattr(input, "is_floating_point") or not input.is_floating_point() or not _whole_number(other):
            return NotImplemented
        return input - whole(input, other) * other
    return formula


def _logcumsumexp(input, dim):  # noqa: A002
    """As _cumprod, by logaddexp."""
    import torch

    x, distance = input, 1
    while distance < x.size(dim):
        rest = x.size(dim) - distance
        x = torch.cat([x.narrow(dim, 0, distance), _logaddexp(x.narrow(dim, 0, rest), x.narrow(dim, distance, rest))], dim)
        distance *= 2
    return x


def _xlog(shift):
    def formula(input, other):  # noqa: A002
        import torch

        if not isinstance(input, torch.Tensor) or not isinstance(other, torch.Tensor) or not input.is_floating_point():
            return NotImplemented
        return torch.where(input == 0, torch.zeros_like(input), input * (other + shift if shift else other).log())
    return formula


def _heaviside(input, values):  # noqa: A002
    import torch

    return torch.where(input == 0, values.to(input.dtype).expand_as(input), (input > 0).to(input.dtype))


def _sinc(input):  # noqa: A002
    import torch

    x = torch.where(input == 0, torch.ones_like(input), input) * math.pi
    return torch.where(input == 0, torch.ones_like(input), x.sin() / x)


def _cross(input, other, dim=None):  # noqa: A002
    if dim is None or input.size(dim) != 3 or other.size(dim) != 3:
        return NotImplemented
    a, b = ([x.roll(-by, dim) for by in (1, 2)] for x in (input, other))
    return a[0] * b[1] - a[1] * b[0]


def _cdist(x1, x2, p=2.0, compute_mode=None):
    return (x1.unsqueeze(-2) - x2.unsqueeze(-3)).norm(p, -1)


def _ranked(name, rank):
    """An entry of the sorted ones, and its place."""
    def formula(input, *args, **keys):  # noqa: A002
        import torch

        keys = {**dict(zip(("k", "dim", "keepdim") if name == "kthvalue" else ("dim", "keepdim"), args)), **keys}
        if keys.get("dim") is None and name == "median":
            return NotImplemented
        dim = keys.get("dim", -1)
        found = input.sort(dim=dim, stable=True)
        at = rank(input.size(dim), keys)
        picked = (part.narrow(dim, at, 1) if keys.get("keepdim") else part.select(dim, at) for part in found)
        return getattr(torch.return_types, name)(tuple(picked))
    return formula


def _quantile(input, q, dim=None, keepdim=False, *, interpolation="linear"):  # noqa: A002
    import torch

    if not isinstance(q, float) or dim is None or interpolation != "linear":
        return NotImplemented
    ordered, place = input.sort(dim).values, q * (input.size(dim) - 1)
    low, high = (ordered.narrow(dim, end, 1) for end in (math.floor(place), math.ceil(place)))
    found = torch.lerp(low, high, place - math.floor(place))
    return found if keepdim else found.squeeze(dim)


def _aminmax(input, *, dim=None, keepdim=False):  # noqa: A002
    import torch

    return NotImplemented if dim is None else torch.return_types.aminmax((input.amin(dim, keepdim), input.amax(dim, keepdim)))


def _taken(input, index):  # noqa: A002
    return input.reshape(-1)[index]


def _among(index, size):
    import torch

    return index.unsqueeze(-1) == torch.arange(size)


def _index_add(input, dim, index, source, *, alpha=1):  # noqa: A002
    """A product with ones where an entry goes."""
    to = _among(index, input.size(dim)).to(input.dtype)
    return input + alpha * (source.transpose(dim, -1) @ to).transpose(dim, -1)


def _index_fill(input, dim, index, value):  # noqa: A002
    import torch

    held = _among(index, input.size(dim)).any(0).reshape([-1 if i == dim % input.dim() else 1 for i in range(input.dim())])
    return torch.where(held, torch.full_like(input, value), input) if isinstance(value, (int, float)) else NotImplemented


def _index_copy(input, dim, index, source):  # noqa: A002
    import torch

    parts = list(input.unbind(dim))
    for at, place in enumerate(index.tolist()):
        parts[place] = source.select(dim, at)
    return torch.stack(parts, dim)


def _isin(elements, test_elements, *, assume_unique=False, invert=False):
    """Of ids one comparison for each."""
    import torch

    if not isinstance(elements, torch.Tensor) or not isinstance(test_elements, torch.Tensor) or not 0 < test_elements.numel() <= _FEW:
        return NotImplemented
    found = functools.reduce(operator.or_, (elements == value for value in test_elements.reshape(-1).tolist()))
    return ~found if invert else found


def _isclose(input, other, rtol=1e-5, atol=1e-8, equal_nan=False):  # noqa: A002
    return (input - other).abs() <= atol + rtol * other.abs() if input.is_floating_point() and not equal_nan else NotImplemented


def _abs(input):  # noqa: A002
    import torch

    return torch.view_as_real(input).pow(2).sum(-1).sqrt() if input.is_complex() else NotImplemented


def _rot90(input, k=1, dims=(0, 1)):  # noqa: A002
    a, b = dims
    if k % 4 in (0, 2):
        return input.flip(list(dims)) if k % 4 else input.clone()
    return input.flip([b if k % 4 == 1 else a]).transpose(a, b)


def _diag_embed(input, offset=0, dim1=-2, dim2=-1):  # noqa: A002
    import torch

    if offset or (dim1, dim2) != (-2, -1):
        return NotImplemented
    x = input.unsqueeze(-1)
    return torch.where(torch.eye(input.size(-1), dtype=torch.bool), x, torch.zeros_like(x))


def _padded(input, pad, mode="constant", value=None):  # noqa: A002
    """Copies of entries, by index."""
    import numpy as np
    import torch

    kinds = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    if mode not in kinds or min(pad) < 0:
        return NotImplemented
    for i in range(len(pad) // 2):
        dim = input.dim() - 1 - i
        at = np.pad(np.arange(input.size(dim)), (pad[2 * i], pad[2 * i + 1]), mode=kinds[mode])
        input = input.index_select(dim, torch.from_numpy(at))  # noqa: A001
    return input


def _softplus(input, beta=1, threshold=20):  # noqa: A002
    import torch

    if threshold >= 20:
        return NotImplemented
    return torch.where(input * beta > threshold, input, torch.nn.functional.softplus(input, beta))


def _interpolated(input, size=None, scale_factor=None, mode="nearest", align_corners=None, *args, **keys):  # noqa: A002
    """Over one dim it is linear: a product with what it makes of the unit matrix."""
    import torch

    if input.dim() != 3:
        return NotImplemented
    unit = torch.eye(input.size(-1), dtype=input.dtype)[None]
    return input @ torch.nn.functional.interpolate(unit, size, scale_factor, mode, align_corners, *args, **keys)[0]


def _lp_pool(input, norm_type, kernel_size, stride=None, ceil_mode=False):  # noqa: A002
    mean = _by_matrix("avg_pool1d", 1)(input.pow(norm_type), kernel_size, stride, 0, ceil_mode)
    return NotImplemented if mean is NotImplemented else (mean * kernel_size).pow(1 / norm_type)


def _local_response(input, size, alpha=1e-4, beta=0.75, k=1.0):  # noqa: A002
    """Squares of the channels around, as a product."""
    import torch

    at = torch.arange(input.size(1))
    gap = at[:, None] - at[None]
    near = ((gap <= (size - 1) // 2) & (gap >= -(size // 2))).to(input.dtype) / size
    return input / ((input * input).transpose(1, -1) @ near).transpose(1, -1).mul(alpha).add(k).pow(beta)


def _pixels(input, upscale_factor):  # noqa: A002
    b, c, h, w = input.shape
    r = upscale_factor
    return input.reshape(b, c // (r * r), r, r, h, w).permute(0, 1, 4, 2, 5, 3).reshape(b, c // (r * r), h * r, w * r)


def _repeated(input, repeats, dim=None, *, output_size=None):  # noqa: A002
    if not isinstance(repeats, int) or dim is None:
        return NotImplemented
    dim %= input.dim()
    return input.unsqueeze(dim + 1).expand(*input.shape[:dim + 1], repeats, *input.shape[dim + 1:]).flatten(dim, dim + 1)


def _zeros(name):
    """Room that nothing was written into holds anything, another thing in each trace."""
    def formula(*args, memory_format=None, **keys):
        import torch

        if name == "new_empty":
            return args[0].new_zeros(*args[1:], **keys)
        return getattr(torch, name.replace("empty", "zeros"))(*args, **keys)
    return formula


def _embedding(input, weight, padding_idx=None, max_norm=None, *args, **keys):  # noqa: A002
    if max_norm is not None:
        raise UnsupportedModelError(f"embedding: max_norm={max_norm} scales rows of the table when they are looked up; scale them once and leave it out")
    return NotImplemented


def _addmv(input, mat, vec, *, beta=1, alpha=1):  # noqa: A002
    return beta * input + alpha * (mat @ vec)


def _unclear(function):
    """max and min of two numbers where no entry is NaN, which a bundle's never are."""
    def formula(input, other):  # noqa: A002
        import torch

        return getattr(torch, function)(input, other)
    return formula


_FORMULAS = {
    "logit": _logit, "erf": _erf, "erfc": lambda input: 1 - _erf(input), "exp2": lambda input: (input * math.log(2)).exp(),
    "atan": _atan, "arctan": _atan, "asin": _arc(True), "arcsin": _arc(True), "acos": _arc(False), "arccos": _arc(False),
    "tan": lambda input: input.sin() / input.cos(), "sinh": lambda input: 0.5 * (input.exp() - (-input).exp()),
    "cosh": lambda input: 0.5 * (input.exp() + (-input).exp()), "asinh": _asinh, "arcsinh": _asinh,
    "acosh": lambda input: (input + (input * input - 1).sqrt()).log(), "atanh": lambda input: 0.5 * ((1 + input) / (1 - input)).log(),
    "deg2rad": lambda input: input * (math.pi / 180), "rad2deg": lambda input: input * (180 / math.pi),
    "addcdiv": _addcdiv, "var_mean": _with_mean("var"), "std_mean": _with_mean("std"), "prod": _prod, "cumprod": _cumprod,
    "__rshift__": _shift(-1), "bitwise_right_shift": _shift(-1), "__lshift__": _shift(1), "bitwise_left_shift": _shift(1),
    "unfold": _windows, "logaddexp": _logaddexp, "hardshrink": _chosen(lambda x, by: x.abs() > by), "threshold": _threshold,
    "count_nonzero": _count_nonzero,
    "avg_pool1d": _by_matrix("avg_pool1d", 1), "avg_pool2d": _by_matrix("avg_pool1d", 2),
    "adaptive_avg_pool1d": _by_matrix("adaptive_avg_pool1d", 1), "adaptive_avg_pool2d": _by_matrix("adaptive_avg_pool1d", 2),
    "floor_divide": _floored, "__floordiv__": _floored, "div": _div, "divide": _div, "remainder": _rest(_floored), "__mod__": _rest(_floored),
    "fmod": _rest(_truncated), "frac": lambda input: input - input.trunc(), "logcumsumexp": _logcumsumexp, "xlogy": _xlog(0), "xlog1py": _xlog(1),
    "heaviside": _heaviside, "sgn": lambda input: NotImplemented if input.is_complex() else input.sign(),
    "ndtr": lambda input: 0.5 * (1 + _erf(input * math.sqrt(0.5))), "special_ndtr": lambda input: 0.5 * (1 + _erf(input * math.sqrt(0.5))),
    "sinc": _sinc, "cross": _cross, "linalg_cross": _cross, "cdist": _cdist, "median": _ranked("median", lambda n, keys: (n - 1) // 2),
    "kthvalue": _ranked("kthvalue", lambda n, keys: keys["k"] - 1), "quantile": _quantile, "aminmax": _aminmax, "take": _taken,
    "index_add": _index_add, "index_fill": _index_fill, "index_copy": _index_copy, "isin": _isin, "isclose": _isclose, "abs": _abs,
    "rot90": _rot90, "diag_embed": _diag_embed, "pad": _padded, "softplus": _softplus, "addmv": _addmv,
    "interpolate": _interpolated, "upsample": _interpolated, "lp_pool1d": _lp_pool, "local_response_norm": _local_response, "pixel_shuffle": _pixels,
    "repeat_interleave": _repeated, "empty": _zeros("empty"), "empty_like": _zeros("empty_like"), "new_empty": _zeros("new_empty"),
    "embedding": _embedding, "fmax": _unclear("maximum"), "fmin": _unclear("minimum"),
    "logaddexp2": lambda input, other: other + _softplus_of((input - other) * math.log(2)) / math.log(2),
}
