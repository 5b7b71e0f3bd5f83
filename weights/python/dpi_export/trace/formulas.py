"""Functions of torch by formulas of functions that have primitives, while a model is traced. The model itself, as it is, stays the oracle.

Absolute errors stay within some float32 roundings, wherever a formula divides or cancels."""

import math


def table():
    """{function or method of torch: formula}"""
    import torch

    found = {}
    for name, formula in _FORMULAS.items():
        for home in (torch, torch.Tensor, torch.special, torch._C._nn, torch.nn.functional):
            function = getattr(home, name, None)
            if function is not None and not (name == "unfold" and home is not torch.Tensor):  # torch.nn.functional has another one
                found[function] = formula
    return found


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


def _logaddexp(input, other):  # noqa: A002
    import torch

    return other + torch.nn.functional.softplus(input - other)


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
    "count_nonzero": _count_nonzero, "hypot": lambda input, other: (input * input + other * other).sqrt(),
    "avg_pool1d": _by_matrix("avg_pool1d", 1), "avg_pool2d": _by_matrix("avg_pool1d", 2),
    "adaptive_avg_pool1d": _by_matrix("adaptive_avg_pool1d", 1), "adaptive_avg_pool2d": _by_matrix("adaptive_avg_pool1d", 2),
}
