"""Complex numbers as two values, for models that go through a Fourier transform: of a fixed length it is a matrix."""

import numpy as np

from .values import Complex, Floats, permute


def _along(lower, v, axis, matrix):
    """matrix times the entries of an axis."""
    rank = len(v.dims)
    perm = [i for i in range(rank) if i != axis] + [axis]
    moved = permute(lower.g, v, perm) if axis != rank - 1 else v
    op = lower.g.linear(moved.op, np.asarray(matrix, np.float32))
    out = Floats(op, op.shape)
    return permute(lower.g, out, [perm.index(i) for i in range(rank)]) if axis != rank - 1 else out


def _plus(lower, a, b, kind="add"):
    return Floats(lower.g.binary(kind, a.op, b.op), a.dims)


def _scale(norm, count):
    return (1.0, count ** -0.5, 1.0 / count)[norm]


def _last_dim(lower, node):
    dims = node.args[1]
    if len(dims) != 1:
        lower.refuse("is a Fourier transform over several dims; take one after another")
    return node.args[0], lower.axis(node.args[0], dims[0]), int(node.args[2])


def from_real(lower, node):
    """The transform of real numbers."""
    x, axis, norm = _last_dim(lower, node)
    v = lower.floats(x)
    count = v.dims[axis]
    matrix = (np.fft.rfft if node.args[3] else np.fft.fft)(np.eye(count), axis=0) * _scale(norm, count)
    return Complex(_along(lower, v, axis, matrix.real), _along(lower, v, axis, matrix.imag))


def to_complex(lower, node):
    """The transform of complex numbers, forwards or backwards."""
    x, axis, norm = _last_dim(lower, node)
    v = lower.value(x)
    count = v.dims[axis]
    matrix = np.fft.fft(np.eye(count), axis=0)
    matrix = (matrix if node.args[3] else matrix.conj()) * _scale(norm, count)
    parts = [[_along(lower, part, axis, m) for m in (matrix.real, matrix.imag)] for part in (v.re, v.im)]
    return Complex(_plus(lower, parts[0][0], parts[1][1], "sub"), _plus(lower, parts[0][1], parts[1][0]))


def to_real(lower, node):
    """The real numbers that a half of a spectrum belongs to."""
    x, axis, norm = _last_dim(lower, node)
    v, count = lower.value(x), int(node.args[3])
    half = np.eye(v.dims[axis])
    real, imaginary = (np.fft.irfft(part, n=count, axis=0) * count * _scale(norm, count) for part in (half, 1j * half))
    return _plus(lower, _along(lower, v.re, axis, real), _along(lower, v.im, axis, imaginary))


def copied(handler):
    """A handler of copies: of real numbers as complex ones the imaginary part is 0."""
    def widened(lower, node):
        if not node.value.is_complex() or node.args[0].value.is_complex():
            return handler(lower, node)
        v = lower.floats(node.args[0])
        return Complex(v, Floats(lower.g.const(np.zeros(v.dims or (1,), np.float32)), v.dims))
    return widened


def view_as_real(lower, node):
    """The two parts along a last dim of their own."""
    v, g = lower.value(node.args[0]), lower.g
    op = g.concat([g.reshape(part.op, v.dims + (1,)) for part in (v.re, v.im)])
    return Floats(op, op.shape)


def view_as_complex(lower, node):
    """A last dim of two as the two parts."""
    v, g = lower.floats(node.args[0]), lower.g
    dims = v.dims[:-1]
    return Complex(*(Floats(g.reshape(g.slice(v.op, i, i + 1, -1), dims), dims) for i in (0, 1)))


def conj(lower, node):
    """The imaginary part with the other sign."""
    v = lower.value(node.args[0])
    return Complex(v.re, Floats(lower.g.affine(v.im.op, -1.0, 0.0), v.dims))


def part(name):
    """real and imag"""
    return lambda lower, node: getattr(lower.value(node.args[0]), name)


def absolute(lower, node):
    """The length of each number."""
    v, g = lower.value(node.args[0]), lower.g
    return Floats(g.unary("sqrt", g.binary("add", g.binary("mul", v.re.op, v.re.op), g.binary("mul", v.im.op, v.im.op))), v.dims)


def _scaled(lower, held, number):
    """A value times a number."""
    parts = {}
    for name in ("re", "im"):
        with lower.parts({id(held): name}):
            parts[name] = lower.floats(held)
    (ar, ai), (br, bi) = ([Floats(lower.g.affine(v.op, by, 0.0), v.dims) for by in (number.real, number.imag)] for v in parts.values())
    return Complex(_plus(lower, ar, bi, "sub"), _plus(lower, ai, br))


def product(handler):
    """A handler of a product (mul, bmm, mm) for complex operands: four real products."""
    def by_parts(lower, node):
        if not node.value.is_complex():
            return handler(lower, node)
        a, b = node.args[:2]
        if isinstance(b, (int, float, complex)):
            return _scaled(lower, a, complex(b))
        out = {}
        for i in ("re", "im"):
            for j in ("re", "im"):
                with lower.parts({id(a): i, id(b): j}):
                    out[i, j] = handler(lower, node)
        return Complex(_plus(lower, out["re", "re"], out["im", "im"], "sub"), _plus(lower, out["re", "im"], out["im", "re"]))
    return by_parts


def each(handler):
    """A handler of a linear operator of both parts alike (add, sub, sum ...)."""
    def by_parts(lower, node):
        if not (hasattr(node.value, "is_complex") and node.value.is_complex()):
            return handler(lower, node)
        out = []
        for i in ("re", "im"):
            with lower.parts({id(a): i for a in node.inputs()}):
                out.append(handler(lower, node))
        return Complex(*out)
    return by_parts
