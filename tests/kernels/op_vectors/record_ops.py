"""Writes vectors.json and vectors.bin: inputs and float64 results of every op over awkward shapes.

    python3 record_ops.py            (numpy only; the same files every time)

Enumerations are the numbers of kernels/include/dpi/kernels/*.hpp.
"""
import pathlib

import numpy as np

import attentions
import cins
import co_actions
import lookups
import selections
import streams
from recorder import Bags, Const, Recorder, f32, f64


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


# ---- element-wise ---------------------------------------------------------------------------------------------------
ERF = np.vectorize(__import__("math").erf, otypes=[float])
SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805
UNARY = {
    0: lambda x, a, b: x, 1: lambda x, a, b: np.maximum(x, 0), 2: lambda x, a, b: sigmoid(x), 3: lambda x, a, b: np.tanh(x),
    4: lambda x, a, b: np.exp(x), 5: lambda x, a, b: np.log(x), 6: lambda x, a, b: np.abs(x), 7: lambda x, a, b: np.sqrt(x),
    8: lambda x, a, b: 1 / np.sqrt(x), 9: lambda x, a, b: x * sigmoid(x),
    10: lambda x, a, b: SELU_SCALE * np.where(x > 0, x, SELU_ALPHA * np.expm1(x)),
    11: lambda x, a, b: x * 0.5 * (1 + ERF(x / np.sqrt(2))),
    12: lambda x, a, b: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3))),
    13: lambda x, a, b: np.logaddexp(0, x), 14: lambda x, a, b: np.where(x < 0, a * x, x),
    15: lambda x, a, b: np.where(x < 0, a * np.expm1(x), x), 16: lambda x, a, b: np.power(x, a),
    17: lambda x, a, b: np.clip(x, a, b), 18: lambda x, a, b: a * x + b,
}
AFFINE, PRELU, DICE = 18, 19, 20
BINARY = [np.add, np.subtract, np.multiply, np.divide, np.maximum, np.minimum]


def scalars_of(kind):
    a, b = {14: (0.01, 0), 15: (0.7, 0), 16: (3, 0), 17: (-0.5, 0.75), 18: (1.5, -0.25)}.get(kind, (0, 0))
    return float(np.float32(a)), float(np.float32(b))


def channel_unary(kind, x, params):
    p = [f64(q) for q in params]
    if kind == AFFINE:
        return p[0] * x + p[1]
    if kind == PRELU:
        return np.where(x < 0, p[0] * x, x)
    gate = sigmoid(p[1] * x + p[2])
    return gate * x + p[0] * (1 - gate) * x


def channel_params(rng, kind, n):
    return [f32(rng, n) for _ in range({AFFINE: 2, PRELU: 1, DICE: 3}[kind])]


def record_unary(rec, rng):
    for kind, fn in UNARY.items():
        a, b = scalars_of(kind)
        for rows, dims in ((0, (3,)), (1, (1,)), (17, (31,)), (3, (2, 17))):
            x = (2 * f32(rng, rows, *dims)).astype(np.float32)
            if kind in (5, 7, 8):
                x = np.abs(x) + np.float32(0.01)
            rec.add("Unary", f"kind{kind}_{dims}_r{rows}", rows, [x], [fn(f64(x), a, b)], dict(kind=kind, a=a, b=b))
    extremes = np.array([[-200, -88, -20, -1e-6, 0, 1e-6, 20, 88]], np.float32)
    for kind in (1, 2, 3, 9, 10, 11, 12, 13, 14, 15, 17):
        a, b = scalars_of(kind)
        rec.add("Unary", f"kind{kind}_extremes", 1, [extremes], [UNARY[kind](f64(extremes), a, b)], dict(kind=kind, a=a, b=b))
    special = np.array([[-1, 0, np.nan, 2]], np.float32)
    for kind in (1, 2, 5, 7, 17):
        a, b = scalars_of(kind)
        rec.add("Unary", f"kind{kind}_ieee", 1, [special], [UNARY[kind](f64(special), a, b)], dict(kind=kind, a=a, b=b))
    for kind in (AFFINE, PRELU, DICE):
        for rows, dims in ((0, (3,)), (1, (1,)), (17, (31,)), (3, (2, 17))):
            x, params = f32(rng, rows, *dims), channel_params(rng, kind, dims[-1])
            rec.add("Unary", f"kind{kind}_channels_{dims}_r{rows}", rows, [x], [channel_unary(kind, f64(x), params)],
                    dict(kind=kind, a=0, b=0), params)
    x, slope = f32(rng, 5, 9), [f32(rng, 1)]
    rec.add("Unary", "prelu_one_slope", 5, [x], [channel_unary(PRELU, f64(x), slope)], dict(kind=PRELU, a=0, b=0), slope)


def record_binary(rec, rng):
    shapes = [((1,), (1,)), ((31,), (31,)), ((33,), (1,)), ((5, 7), (7,)), ((5, 1), (1, 7)), ((3,), (4, 3)), ((2, 1, 3), (2, 5, 1))]
    for kind, fn in enumerate(BINARY):
        for rows, (dx, dy) in [(r, s) for r in (0, 1, 17) for s in shapes]:
            x, y = f32(rng, rows, *dx), f32(rng, rows, *dy)
            y = np.where(np.abs(y) < 0.1, np.float32(0.1), y)
            rank = max(len(dx), len(dy))
            wide = [f64(v).reshape((rows,) + (1,) * (rank - len(d)) + d) for v, d in ((x, dx), (y, dy))]
            rec.add("Binary", f"kind{kind}_{dx}_{dy}_r{rows}", rows, [x, y], [fn(*wide)], dict(kind=kind))
        x, c = f32(rng, 9, 4, 3), Const(f32(rng, 3))
        rec.add("Binary", f"kind{kind}_constant", 9, [x, c], [fn(f64(x), f64(c))], dict(kind=kind))
    x, y = np.array([[np.nan, 1]], np.float32), np.array([[1, np.nan]], np.float32)
    for kind in (4, 5):
        rec.add("Binary", f"kind{kind}_nan", 1, [x, y], [BINARY[kind](f64(x), f64(y))], dict(kind=kind))


def record_elementwise(rec, rng):
    def unary(kind, x, param=-1, n_params=0):
        a, b = scalars_of(kind)
        return dict(step=0, kind=kind, a=a, b=b, x=x, y=0, z=0, param=param, n_params=n_params)

    def binary(kind, x, y):
        return dict(step=1, kind=kind, a=0, b=0, x=x, y=y, z=0, param=-1, n_params=0)

    for rows, n in ((0, 3), (1, 1), (33, 31), (7, 64)):
        x, y, c = f32(rng, rows, 2, n), f32(rng, rows, n), Const(f32(rng, 2, 1))
        alpha = channel_params(rng, DICE, n)
        steps = [binary(2, 0, 1), binary(0, 3, 2), unary(DICE, 4, 1, 3), unary(2, 5), binary(1, 6, 0), unary(PRELU, 7, 0, 1)]
        slope = f32(rng, n)
        v = f64(x) * f64(y)[:, None] + f64(c)
        v = sigmoid(channel_unary(DICE, v, alpha)) - f64(x)
        v = channel_unary(PRELU, v, [slope])
        rec.add("Elementwise", f"steps_n{n}_r{rows}", rows, [x, y, c], [v], dict(steps=steps), [slope] + alpha)
        rec.add("Elementwise", f"relu_n{n}_r{rows}", rows, [x], [np.maximum(f64(x), 0)], dict(steps=[unary(1, 0)]))


# ---- products -------------------------------------------------------------------------------------------------------
def record_linear(rec, rng):
    for rows, n_in, n_out, bias in ((0, 3, 4, 1), (1, 1, 1, 0), (33, 31, 7, 1), (32, 32, 33, 0), (5, 127, 1, 1), (2, 7, 64, 1)):
        x, w, b = f32(rng, rows, n_in), f32(rng, n_out, n_in), f32(rng, n_out) if bias else None
        y = f64(x) @ f64(w).T + (f64(b) if bias else 0)
        rec.add("Linear", f"last_{n_in}x{n_out}_r{rows}", rows, [x], [y], dict(groups=1, axis=0), [w, b])
    x, w, b = f32(rng, 3, 5, 2, 7), f32(rng, 4, 7), f32(rng, 4)
    rec.add("Linear", "last_rank3", 3, [x], [f64(x) @ f64(w).T + f64(b)], dict(groups=1, axis=0), [w, b])
    for rows, groups, shared in ((0, 2, 0), (1, 3, 1), (33, 5, 0), (4, 3, 1)):
        x, w, b = f32(rng, rows, 1 if shared else groups, 7), f32(rng, groups, 5, 7), f32(rng, groups, 5)
        y = np.einsum("rgi,goi->rgo", np.broadcast_to(f64(x), (rows, groups, 7)), f64(w)) + f64(b)
        rec.add("Linear", f"groups{groups}_shared{shared}_r{rows}", rows, [x], [y], dict(groups=groups, axis=0), [w, b])
    for rows, n, out, dim, bias in ((0, 3, 2, 4, 1), (1, 1, 1, 1, 0), (31, 7, 5, 3, 1), (2, 33, 4, 16, 0)):
        x, w, b = f32(rng, rows, n, dim), f32(rng, out, n), f32(rng, out) if bias else None
        y = np.einsum("on,rnd->rod", f64(w), f64(x)) + (f64(b)[:, None] if bias else 0)
        rec.add("Linear", f"field_{n}x{out}x{dim}_r{rows}", rows, [x], [y], dict(groups=1, axis=1), [w, b])
    for rows, places, n_in, n_once, out, bias in ((0, 2, 3, 4, 5, 1), (1, 1, 1, 1, 1, 0), (35, 5, 7, 3, 17, 1), (2, 50, 16, 33, 8, 0)):
        x, once = f32(rng, rows, places, n_in), f32(rng, rows, 1, n_once)
        w, b = f32(rng, out, n_in + n_once), f32(rng, out) if bias else None
        y = f64(x) @ f64(w[:, :n_in]).T + f64(once) @ f64(w[:, n_in:]).T + (f64(b) if bias else 0)
        rec.add("Linear", f"once_{n_in}+{n_once}x{out}_r{rows}", rows, [x, once], [y], dict(groups=1, axis=0), [w, b])


def record_matmul(rec, rng):
    for rows in (0, 1, 31):
        for ta, tb in ((0, 0), (0, 1), (1, 0), (1, 1)):
            for m, k, n in ((1, 1, 1), (3, 17, 5), (7, 4, 1)):
                a = f32(rng, rows, *((k, m) if ta else (m, k)))
                b = f32(rng, rows, *((n, k) if tb else (k, n)))
                alpha = float(np.float32(0.3))
                y = alpha * (f64(a).swapaxes(1, 2) if ta else f64(a)) @ (f64(b).swapaxes(1, 2) if tb else f64(b))
                rec.add("MatMul", f"t{ta}{tb}_{m}x{k}x{n}_r{rows}", rows, [a, b], [y], dict(trans_a=ta, trans_b=tb, alpha=alpha))
    plain = dict(trans_a=0, trans_b=0, alpha=1.0)
    a, b = f32(rng, 5, 3, 1, 2, 4), f32(rng, 5, 2, 4, 3)
    rec.add("MatMul", "broadcast", 5, [a, b], [np.matmul(f64(a), f64(b)[:, None])], plain)
    a, c = f32(rng, 9, 3, 4), Const(f32(rng, 4, 2))
    rec.add("MatMul", "constant", 9, [a, c], [f64(a) @ f64(c)], plain)
    for rows, m, k in ((0, 3, 2), (1, 1, 4), (7, 2, 1), (5, 17, 5), (3, 39, 16), (2, 6, 131)):
        for part, tb in ((1, 1), (2, 1), (1, 0)):
            a, b = f32(rng, rows, m, k), f32(rng, rows, *((m, k) if tb else (k, m)))
            y = 0.5 * f64(a) @ (f64(b).swapaxes(1, 2) if tb else f64(b))
            i, j = np.triu_indices(m, 1) if part == 1 else np.tril_indices(m, -1)
            if m > 1:
                rec.add("MatMul", f"part{part}_t{tb}_{m}x{k}_r{rows}", rows, [a, b], [y[:, i, j]],
                        dict(trans_a=0, trans_b=tb, alpha=0.5, part=part))


def record_dense(rec, rng):
    for rows, n_in, n_out in ((0, 3, 5), (1, 1, 1), (33, 31, 32), (7, 64, 33)):
        x, w, b = f32(rng, rows, n_in), f32(rng, n_out, n_in) / np.float32(np.sqrt(n_in)), f32(rng, n_out)
        h = f64(x) @ f64(w).T
        for kind in (0, 1, 2):
            y = UNARY[kind](h + f64(b), 0, 0)
            seg = [dict(kind=kind, a=0, b=0, begin=0, end=n_out)]
            rec.add("Dense", f"act{kind}_{n_in}x{n_out}_r{rows}", rows, [x, None, None], [y], dict(segments=seg),
                    [w, b, None, None, None])
        mul, add = f32(rng, rows, n_out), f32(rng, rows, n_out)
        seg = [dict(kind=0, a=0, b=0, begin=0, end=n_out)]
        rec.add("Dense", f"cross_{n_in}x{n_out}_r{rows}", rows, [x, mul, add], [(h + f64(b)) * f64(mul) + f64(add)],
                dict(segments=seg), [w, b, None, None, None])
        rec.add("Dense", f"residual_{n_in}x{n_out}_r{rows}", rows, [x, None, add], [h + f64(add)], dict(segments=seg),
                [w, None, None, None, None])
        p, cut = channel_params(rng, DICE, n_out), n_out // 3
        y = np.concatenate([np.maximum(h + f64(b), 0)[:, :cut], channel_unary(DICE, h + f64(b), p)[:, cut:]], axis=1)
        seg = [dict(kind=1, a=0, b=0, begin=0, end=cut), dict(kind=DICE, a=0, b=0, begin=cut, end=n_out)]
        rec.add("Dense", f"segments_{n_in}x{n_out}_r{rows}", rows, [x, None, None], [y], dict(segments=seg), [w, b] + p)


def record_shared(rec, rng):
    """Dense and Linear whose rows share a part: row r adds row row_map[r] of it before the function."""
    for rows, n_in, n_out in ((1, 1, 1), (33, 31, 32), (7, 64, 33)):
        x, w, b, users = f32(rng, rows, n_in), f32(rng, n_out, n_in) / np.float32(np.sqrt(n_in)), f32(rng, n_out), f32(rng, 5, n_out)
        row_map = np.sort(rng.integers(0, 5, rows))
        h = f64(x) @ f64(w).T + f64(users)[row_map]
        for kind in (0, 1, 2):
            seg = [dict(kind=kind, a=0, b=0, begin=0, end=n_out)]
            rec.add("Dense", f"shared{kind}_{n_in}x{n_out}_r{rows}", rows, [x, None, None, users], [UNARY[kind](h + f64(b), 0, 0)],
                    dict(segments=seg), [w, b, None, None, None], row_map=row_map)
        mul, add = f32(rng, rows, n_out), f32(rng, rows, n_out)
        rec.add("Dense", f"shared_cross_{n_in}x{n_out}_r{rows}", rows, [x, mul, add, users], [h * f64(mul) + f64(add)],
                dict(segments=[dict(kind=0, a=0, b=0, begin=0, end=n_out)]), [w, None, None, None, None], row_map=row_map)
    for rows, places, n_in, n_once, out, bias in ((1, 1, 1, 1, 1, 0), (35, 5, 7, 3, 17, 1), (6, 50, 16, 0, 8, 1), (20, 3, 5, 33, 49, 0)):
        x, once = f32(rng, rows, places, n_in), f32(rng, rows, 1, n_once) if n_once else None
        w, b, users = f32(rng, out, n_in + n_once), f32(rng, out) if bias else None, f32(rng, 5, places, out)
        row_map = np.sort(rng.integers(0, 5, rows))
        y = f64(x) @ f64(w[:, :n_in]).T + f64(users)[row_map] + (f64(b) if bias else 0)
        y = y + f64(once) @ f64(w[:, n_in:]).T if n_once else y
        rec.add("Linear", f"shared_{n_in}+{n_once}x{out}_r{rows}", rows, [x, once, users], [y], dict(groups=1, axis=0), [w, b], row_map=row_map)


# ---- along an axis --------------------------------------------------------------------------------------------------
def record_layer_norm(rec, rng):
    for rows, dims, affine in ((0, (3,), 1), (1, (1,), 0), (33, (31,), 1), (5, (3, 16), 1), (5, (3, 7), 2)):
        x = f32(rng, rows, *dims)
        shape = dims[-1:] if affine == 1 else dims
        gamma, beta = (f32(rng, *shape), f32(rng, *shape)) if affine else (None, None)
        v, eps = f64(x), float(np.float32(1e-5))
        y = (v - v.mean(-1, keepdims=True)) / np.sqrt(v.var(-1, keepdims=True) + eps)
        if affine:
            y = y * f64(gamma) + f64(beta)
        rec.add("LayerNorm", f"{dims}_affine{affine}_r{rows}", rows, [x], [y], dict(eps=eps), [gamma, beta])
    near_rows(rec)


def near_rows(rec):
    """Rows whose values hardly differ: the rounding of their mean is as large as what they differ by."""
    rng = np.random.default_rng(7)
    for n in (2, 3, 8, 16, 31, 33, 64, 257):
        for centre, spread in ((3.0, 1e-3), (-1.7, 3e-5), (1000.0, 0.05)):
            x = (centre + spread * rng.standard_normal((5, n))).astype(np.float32)
            v, eps = f64(x), float(np.float32(1e-5))
            y = (v - v.mean(-1, keepdims=True)) / np.sqrt(v.var(-1, keepdims=True) + eps)
            rec.add("LayerNorm", f"near{centre:g}_n{n}_r5", 5, [x], [y], dict(eps=eps), [None, None])


def softmax(x, axis):
    with np.errstate(invalid="ignore"):
        e = np.exp(x - x.max(axis, keepdims=True))
        return e / e.sum(axis, keepdims=True)


def masked_softmax(x, mask, axis, mode, value):
    if mode == 1:
        with np.errstate(invalid="ignore"):
            return np.nan_to_num(softmax(np.where(mask == 0, -np.inf, x), axis), nan=0.0)
    if mode == 2:
        return softmax((x + value * (1 - mask)).astype(np.float32).astype(np.float64), axis)
    return softmax(np.where(mask == 0, value, x), axis)


def record_softmax(rec, rng):
    for rows, dims, axis in ((0, (3,), 0), (1, (1,), 0), (33, (31,), 0), (5, (3, 7), 0), (5, (3, 7), 1), (2, (4, 5, 3), 1)):
        x = (5 * f32(rng, rows, *dims)).astype(np.float32)
        rec.add("Softmax", f"{dims}_axis{axis}_r{rows}", rows, [x], [softmax(f64(x), axis + 1)], dict(axis=axis, mask_mode=0, value=0))
        for mode in (1, 2, 3):
            mask = (rng.random((rows,) + dims[:axis + 1]) < 0.6).astype(np.float32)
            mask[rows // 2:rows // 2 + 1] = 0
            wide = f64(mask).reshape(mask.shape + (1,) * (len(dims) - axis - 1))
            value = float(np.float32(-1e9 if mode != 3 else -4294967295.0))
            y = masked_softmax(f64(x), np.broadcast_to(wide, x.shape), axis + 1, mode, value)
            rec.add("Softmax", f"{dims}_axis{axis}_mode{mode}_r{rows}", rows, [x, mask], [y], dict(axis=axis, mask_mode=mode, value=value))
    x, mask = f32(rng, 6, 4, 5), (rng.random((6, 1, 5)) < 0.5).astype(np.float32)
    y = masked_softmax(f64(x), np.broadcast_to(f64(mask), x.shape), 2, 1, 0)
    rec.add("Softmax", "broadcast_mask", 6, [x, mask], [y], dict(axis=1, mask_mode=1, value=0))
    for dims in ((1, 1, 5), (2, 1, 5), (1, 3, 5), (3, 5), (5,), (2, 3, 1)):
        x, mask = f32(rng, 4, 2, 3, 5), (rng.random((4,) + dims) < 0.5).astype(np.float32)
        wide = f64(mask).reshape((4,) + (1,) * (3 - len(dims)) + dims)
        for mode in (1, 2, 3):
            y = masked_softmax(f64(x), np.broadcast_to(wide, x.shape), 3, mode, -1e9)
            rec.add("Softmax", f"mask{dims}_mode{mode}", 4, [x, mask], [y], dict(axis=2, mask_mode=mode, value=-1e9))
    big = np.array([[1e4, 1e4 - 1, -1e4]], np.float32)
    rec.add("Softmax", "large", 1, [big], [softmax(f64(big), 1)], dict(axis=0, mask_mode=0, value=0))


def reduce(kind, x, mask, axis, eps, empty):
    m = np.broadcast_to(mask, x.shape)
    count = m.sum(axis)
    if kind == 0:
        return (m * x).sum(axis)
    if kind == 1:
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(count == 0, empty, (m * x).sum(axis) / (count + eps))
    if kind == 2:
        return np.where((m != 0).any(axis), np.where(m != 0, x, -np.inf).max(axis), empty)
    return (m * x * x).sum(axis)


def record_reduce(rec, rng):
    for kind in range(4):
        for rows, dims, axis, keep in ((0, (3, 2), 0, 0), (1, (1,), 0, 1), (33, (31,), 0, 1), (5, (3, 7), 0, 0), (5, (3, 7), 1, 0),
                                       (2, (4, 5, 3), 1, 1), (3, (33, 5), 0, 0)):
            for masked in (0, 1):
                x = f32(rng, rows, *dims)
                mask = (rng.random((rows,) + dims[:axis + 1]) < 0.6).astype(np.float32)
                mask[rows // 2:rows // 2 + 1] = 0
                wide = f64(mask).reshape(mask.shape + (1,) * (len(dims) - axis - 1)) if masked else np.ones(1)
                eps, empty = float(np.float32(1e-8)), float(np.float32(-3.5))
                y = reduce(kind, f64(x), wide, axis + 1, eps, empty)
                y = np.expand_dims(y, axis + 1) if keep else y
                rec.add("Reduce", f"kind{kind}_{dims}_axis{axis}_masked{masked}_r{rows}", rows, [x, mask if masked else None], [y],
                        dict(kind=kind, axis=axis, keepdim=keep, eps=eps, empty=empty))


# ---- moves ----------------------------------------------------------------------------------------------------------
def record_moves(rec, rng):
    for rows in (0, 1, 17):
        parts = [f32(rng, rows, n) for n in (1, 31, 4)] + [Const(f32(rng, 3))]
        y = np.concatenate([f64(p) for p in parts[:3]] + [np.tile(f64(parts[3]), (rows, 1))], axis=1)
        rec.add("Concat", f"columns_r{rows}", rows, parts, [y], dict(axis=0))
        for axis in range(3):
            shapes = [[2, 3, 4] for _ in range(3)]
            for i, s in enumerate(shapes):
                s[axis] = (1, 5, 2)[i]
            parts = [f32(rng, rows, *s) for s in shapes]
            rec.add("Concat", f"rank3_axis{axis}_r{rows}", rows, parts, [f64(np.concatenate(parts, axis + 1))], dict(axis=axis))
        x = f32(rng, rows, 3, 5, 4)
        base = dict(kind=0, axis=0, begin=0, end=0, dims=[], indices=[])
        rec.add("View", f"reshape_r{rows}", rows, [x], [f64(x).reshape(rows, 15, 4)], dict(base, dims=[15, 4]))
        for perm in ((0, 2, 1), (2, 1, 0), (1, 2, 0)):
            y = f64(x).transpose((0,) + tuple(p + 1 for p in perm))
            rec.add("View", f"transpose{perm}_r{rows}", rows, [x], [y], dict(base, kind=1, dims=list(perm)))
        rec.add("View", f"slice_r{rows}", rows, [x], [f64(x)[:, :, 1:4]], dict(base, kind=2, axis=1, begin=1, end=4))
        rec.add("View", f"select_r{rows}", rows, [x], [f64(x)[:, :, :, [3, 0, 0]]], dict(base, kind=3, axis=2, indices=[3, 0, 0]))
        thin = f32(rng, rows, 1, 4)
        y = np.broadcast_to(f64(thin)[:, None], (rows, 2, 3, 4))
        rec.add("View", f"expand_r{rows}", rows, [thin], [y], dict(base, kind=4, dims=[2, 3, 4]))
        x = f32(rng, 5, 2, 3)
        row_map = np.sort(rng.integers(0, 5, rows))
        rec.add("BroadcastRows", f"map_r{rows}", rows, [x], [f64(x)[row_map]], row_map=row_map)
        x = f32(rng, rows, 7)
        rec.add("BroadcastRows", f"identity_r{rows}", rows, [x], [f64(x)])


# ---- recurrent ------------------------------------------------------------------------------------------------------
def recurrent(x, mask, att, wi, wh, bi, bh, kind, before, all_states):
    rows, steps, _ = x.shape
    m = wh.shape[1]
    h, out = np.zeros((rows, m)), np.zeros((rows, steps, m))
    for t in range(steps):
        g = x[:, t] @ wi.T + bi
        u = h @ wh.T + bh
        r, z = sigmoid(g[:, :m] + u[:, :m]), sigmoid(g[:, m:2 * m] + u[:, m:2 * m])
        inner = (r * h) @ wh[2 * m:].T + bh[2 * m:] if before else r * u[:, 2 * m:]
        n = np.tanh(g[:, 2 * m:] + inner)
        a = att[:, t:t + 1]
        new = [(1 - z) * n + z * h, (1 - a) * h + a * n, (1 - a * z) * h + a * z * n,
               (1 - a) * z * h + (1 - (1 - a) * z) * n][kind]
        valid = mask[:, t:t + 1] != 0
        h = np.where(valid, new, h)
        out[:, t] = np.where(valid, h, 0)
    return out if all_states else h


def record_recurrent(rec, rng):
    for kind in range(4):
        for before in (0, 1):
            for all_states in (0, 1):
                for rows, steps, n_in, m in ((0, 3, 2, 2), (1, 1, 1, 1), (17, 5, 7, 3), (3, 4, 5, 16)):
                    x, mask = f32(rng, rows, steps, n_in), (rng.random((rows, steps)) < 0.7).astype(np.float32)
                    mask[rows // 2:rows // 2 + 1] = 0
                    att = rng.random((rows, steps)).astype(np.float32)
                    bias = n_in != 7
                    w = [f32(rng, 3 * m, n_in), f32(rng, 3 * m, m)] + ([f32(rng, 3 * m), f32(rng, 3 * m)] if bias else [None, None])
                    args = [f64(v) if v is not None else np.zeros(3 * m) for v in w]
                    y = recurrent(f64(x), mask, f64(att), *args, kind, before, all_states)
                    rec.add("Recurrent", f"kind{kind}_before{before}_all{all_states}_m{m}_r{rows}", rows,
                            [x, mask, att if kind else None], [y], dict(kind=kind, reset=before, output=all_states), w)


# ---- fused interactions ---------------------------------------------------------------------------------------------
def record_interactions(rec, rng):
    for rows, n, layers in ((0, 3, 2), (1, 1, 1), (33, 31, 3), (5, 64, 2)):
        x0, w, b = f32(rng, rows, n), f32(rng, layers, n) / np.float32(n), f32(rng, layers, n)
        x = f64(x0)
        for l in range(layers):
            x = f64(x0) * (x @ f64(w[l]))[:, None] + f64(b[l]) + x
        rec.add("CrossV1", f"n{n}_l{layers}_r{rows}", rows, [x0], [x], dict(layers=layers), [w, b])
        p, k, y0 = f32(rng, rows, layers + 1), f32(rng, layers), f32(rng, 1)
        scale = np.ones(rows)
        for l in range(layers):
            scale = scale * (1 + f64(p)[:, l]) + f64(k)[l]
        rec.add("CrossV1Closed", f"l{layers}_r{rows}", rows, [p], [(scale * f64(p)[:, layers] + f64(y0))[:, None]], dict(layers=layers), [k, y0])
    for rows, fields, dim in ((0, 3, 2), (1, 1, 1), (33, 7, 5), (4, 39, 16)):
        x = f32(rng, rows, fields, dim)
        y = 0.5 * (f64(x).sum(1) ** 2 - (f64(x) ** 2).sum(1)).sum(1)
        rec.add("Fm", f"f{fields}_d{dim}_r{rows}", rows, [x.reshape(rows, fields * dim)], [y[:, None]], dict(fields=fields, dim=dim))
        rec.add("Fm", f"rank2_f{fields}_d{dim}_r{rows}", rows, [x], [y[:, None]], dict(fields=fields, dim=dim))
    for rows in (0, 1, 33):
        xs, ws = [f32(rng, rows, n) for n in (31, 1, 7)], [f32(rng, 31), None, f32(rng, 7)]
        bias = float(np.float32(0.25))
        logit = bias + f64(xs[0]) @ f64(ws[0]) + f64(xs[1])[:, 0] + f64(xs[2]) @ f64(ws[2])
        a = dict(kind=2, a=0, b=0, bias=bias)
        rec.add("Tail", f"both_r{rows}", rows, xs, [logit[:, None], sigmoid(logit)[:, None]], a, ws)
        rec.add("Tail", f"value_r{rows}", rows, xs, [None, sigmoid(logit)[:, None]], a, ws)
        rec.add("Tail", f"logit_r{rows}", rows, xs, [logit[:, None], None], a, ws)


def main():
    rec = Recorder()
    recorders = [lookups.record_embed, lookups.record_mask, lookups.record_multi_lookup, record_unary, record_binary,
                 record_elementwise, record_linear, record_matmul, record_dense, record_layer_norm, record_softmax,
                 record_reduce, record_moves, record_recurrent, record_interactions,
                 selections.record_compare, selections.record_circles, selections.record_order, co_actions.record_co_action,
                 record_shared, attentions.record_attention, attentions.record_places,
                 cins.record_cin, streams.record_streams, lookups.record_row_types, co_actions.record_row_types]
    with np.errstate(invalid="ignore", divide="ignore"):
        for seed, record in enumerate(recorders):
            record(rec, np.random.default_rng(seed))
    n_cases, n_bytes = rec.write(pathlib.Path(__file__).parent)
    print(f"{n_cases} cases, {n_bytes} bytes of numbers")


if __name__ == "__main__":
    main()
