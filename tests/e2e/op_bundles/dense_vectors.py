"""Cases of the dense primitives: Linear, MatMul, Binary, Unary, LayerNorm, Softmax, Reduce, Concat, View, Const."""

import itertools

import numpy as np
import torch
import torch.nn.functional as F

from vector_bundle import VectorBundle


def per_row(f, *arrays):
    """f on the torch float64 tensors of each row, stacked."""
    return np.stack([f(*(torch.from_numpy(np.ascontiguousarray(a[r])) for a in arrays)).numpy() for r in range(len(arrays[0]))])


def linear():
    v = VectorBundle("linear", 1)
    for n_in, n_out, bias in ((1, 1, True), (31, 33, True), (33, 1, False), (7, 13, True), (64, 32, True), (127, 3, False)):
        x, data = v.dense(f"x{n_in}_{n_out}", [n_in])
        w, b = v.values(n_out, n_in, scale=n_in**-0.5), v.values(n_out) if bias else None
        tb = torch.from_numpy(b) if bias else None
        v.case(f"last {n_in}-{n_out}", v.b.linear(x, w, b), per_row(lambda a: F.linear(a, torch.from_numpy(w), tb), data))
    for dims, n_out in (([5, 7], 3), ([2, 3, 11], 5), ([2, 1, 3, 5], 1)):
        x, data = v.dense(f"x{dims}".replace(",", ""), dims)
        w, b = v.values(n_out, dims[-1]), v.values(n_out)
        v.case(f"last {dims}-{n_out}".replace(",", ""), v.b.linear(x, w, b),
               per_row(lambda a: F.linear(a, torch.from_numpy(w), torch.from_numpy(b)), data))
    for dims, g, n_out, bias in (([3, 5], 3, 4, True), ([1, 5], 3, 4, False), ([2, 3, 7], 3, 1, True), ([31, 2], 31, 3, True)):
        x, data = v.dense(f"g{dims}".replace(",", ""), dims)
        w, b = v.values(g, n_out, dims[-1]), v.values(g, n_out) if bias else None
        want = np.zeros((v.rows, *dims[:-2], g, n_out))
        for index in np.ndindex(*want.shape):
            lead, k, o = index[:-2], index[-2], index[-1]
            want[index] = w[k, o] @ data[lead + (k if dims[-2] > 1 else 0,)] + (b[k, o] if bias else 0)
        v.case(f"groups {dims}-{g}x{n_out}".replace(",", ""), v.b.linear(x, w, b, groups=g), want)
    for dims, n_out, bias in (([7, 5], 3, True), ([2, 13, 1], 4, False), ([1, 33], 31, True)):
        x, data = v.dense(f"f{dims}".replace(",", ""), dims)
        w, b = v.values(n_out, dims[-2]), v.values(n_out) if bias else None
        want = np.einsum("on,r...nd->r...od", w, data) + (b[:, None] if bias else 0)
        v.case(f"field {dims}-{n_out}".replace(",", ""), v.b.linear(x, w, b, axis="field"), want)
    return v


def matmul():
    v = VectorBundle("matmul", 2)
    shapes = (([3, 5], [5, 2]), ([1, 1], [1, 1]), ([31, 7], [7, 33]), ([2, 3, 5], [2, 5, 4]), ([2, 3, 5], [5, 4]),
              ([2, 1, 3, 5], [7, 5, 2]))
    for i, (a, b) in enumerate(shapes):
        for ta, tb in itertools.product((False, True), repeat=2) if i in (0, 3) else ((False, False),):
            name = f"{i} {'t' if ta else 'n'}{'t' if tb else 'n'}"
            da, db = a[:-2] + a[:-3:-1] if ta else a, b[:-2] + b[:-3:-1] if tb else b
            x, xd = v.dense(f"a {name}", da)
            y, yd = v.dense(f"b {name}", db)
            alpha = 1.0 if i < 2 else 0.25
            want = per_row(lambda p, q: alpha * torch.matmul(p.transpose(-1, -2) if ta else p, q.transpose(-1, -2) if tb else q),
                           xd, yd)
            v.case(f"matmul {name}", v.b.matmul(x, y, ta, tb, alpha), want)
    return v


def binary():
    v = VectorBundle("binary", 3)
    f = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "max": np.maximum, "min": np.minimum}
    for i, (a, b) in enumerate((([33], [33]), ([31], [1]), ([3, 1], [5]), ([2, 1, 3], [7, 1]), ([1, 2, 3, 5], [1]))):
        x, xd = v.dense(f"x{i}", a)
        y, yd = v.dense(f"y{i}", b, data=np.sign(v.values(v.rows, *b)) * v.rng.uniform(0.5, 2, (v.rows, *b)))
        for kind, g in f.items():
            v.case(f"{kind} {i}", v.b.binary(kind, x, y), np.stack([g(p, q) for p, q in zip(xd, yd)]))
    x, xd = v.dense("x const", [5])
    c = v.values(3, 5)
    v.case("const", v.b.sub(v.b.const(c), x), np.stack([c - p for p in xd]))
    v.case("const only", v.b.mul(v.b.const(c), v.b.const(c[:, :1])), np.stack([c * c[:, :1]] * v.rows))
    return v


def unary():
    v = VectorBundle("unary", 4)
    big = np.array([0, -0.0, 1e-30, 20, 30, -20, -30, 88, -88, 100, -100, 0.5, -0.5])
    x, xd = v.dense("x", [33], data=3 * v.values(v.rows, 33))
    y, yd = v.dense("y", [3, 5])
    e, ed = v.dense("extreme", [13], data=np.stack([v.rng.permutation(big) for _ in range(v.rows)]))
    p, pd = v.dense("positive", [31], data=v.rng.uniform(0.01, 9, (v.rows, 31)))
    f = {"relu": F.relu, "sigmoid": torch.sigmoid, "tanh": torch.tanh, "abs": torch.abs, "silu": F.silu, "selu": F.selu,
         "gelu_erf": F.gelu, "gelu_tanh": lambda t: F.gelu(t, approximate="tanh"),
         "softplus": lambda t: torch.logaddexp(t, torch.zeros_like(t)), "identity": lambda t: t}
    for kind, g in f.items():
        v.case(kind, v.b.unary(kind, x), per_row(g, xd))
        v.case(f"{kind} [3 5]", v.b.unary(kind, y), per_row(g, yd))
        if kind in ("sigmoid", "tanh"):  # bounded: the sum keeps its digits
            v.case(f"{kind} extreme", v.b.unary(kind, e), per_row(g, ed))
    for kind in ("silu", "gelu_erf", "gelu_tanh", "softplus"):
        scaled = v.b.mul(v.b.unary(kind, e), v.b.const(0.01))
        v.case(f"{kind} extreme", scaled, 0.01 * per_row(f[kind], ed))
    v.case("exp", v.b.unary("exp", y), np.exp(yd))
    for kind, g in (("log", np.log), ("sqrt", np.sqrt), ("rsqrt", lambda t: 1 / np.sqrt(t))):
        v.case(kind, v.b.unary(kind, p), g(pd))
    v.case("leaky", v.b.unary("leaky", x, a=0.125), per_row(lambda t: F.leaky_relu(t, 0.125), xd))
    v.case("elu", v.b.unary("elu", x, a=1.5), per_row(lambda t: F.elu(t, 1.5), xd))
    v.case("pow", v.b.unary("pow", p, a=1.5), pd**1.5)
    v.case("pow 2", v.b.unary("pow", x, a=2.0), xd**2)
    v.case("clamp", v.b.unary("clamp", x, a=-1.0, b=0.5), np.clip(xd, -1, 0.5))
    v.case("affine scalar", v.b.unary("affine", x, a=-0.5, b=0.25), -0.5 * xd + 0.25)
    scale, shift, alpha = v.values(5), v.values(5), v.values(5)
    v.case("affine", v.b.unary("affine", y, scale=scale, shift=shift), yd * scale + shift)
    v.case("prelu", v.b.unary("prelu", y, slope=alpha), np.where(yd > 0, yd, alpha * yd))
    v.case("prelu one", v.b.unary("prelu", y, slope=alpha[:1]), np.where(yd > 0, yd, alpha[0] * yd))
    gate = 1 / (1 + np.exp(-(scale * yd + shift)))
    v.case("dice", v.b.unary("dice", y, alpha=alpha, scale=scale, shift=shift), gate * yd + alpha * (1 - gate) * yd)
    return v


def layer_norm():
    v = VectorBundle("layer_norm", 5)
    for i, (dims, g, b) in enumerate((([33], True, True), ([3, 31], True, False), ([2, 3, 5], False, False), ([1], True, True))):
        x, xd = v.dense(f"x{i}", dims, data=2 + v.values(v.rows, *dims))
        gamma, beta = (v.values(dims[-1]) if k else None for k in (g, b))
        tg, tb = (None if t is None else torch.from_numpy(t) for t in (gamma, beta))
        v.case(f"norm {i}", v.b.layer_norm(x, gamma, beta), per_row(lambda t: F.layer_norm(t, dims[-1:], tg, tb, 1e-5), xd))
    x, xd = v.dense("per field", [7, 5])
    gamma, beta = v.values(7, 5), v.values(7, 5)
    want = per_row(lambda t: F.layer_norm(t, [5], None, None, 1e-3), xd) * gamma + beta
    v.case("norm per field", v.b.layer_norm(x, gamma, beta, eps=1e-3), want)
    flat, _ = v.dense("no variance", [3], data=np.full((v.rows, 3), 1.5))
    v.case("no variance", v.b.layer_norm(flat, beta=gamma[0, :3]), np.tile(gamma[0, :3], (v.rows, 1)))
    return v


def softmax():
    v = VectorBundle("softmax", 6)
    for i, (dims, axis) in enumerate((([33], -1), ([1], 0), ([3, 31], -1), ([5, 7], 0), ([2, 3, 5], 1))):
        x, xd = v.dense(f"x{i}", dims, data=4 * v.values(v.rows, *dims))
        v.case(f"axis {i}", v.b.softmax(x, axis=axis), per_row(lambda t: torch.softmax(t, axis), xd))
    x, _ = v.dense("large", [5], data=np.tile([1000.0, 999, -1000, 0, 998], (v.rows, 1)))
    v.case("large", v.b.softmax(x), np.tile(torch.softmax(torch.tensor([1000.0, 999, -1000, 0, 998]).double(), 0), (v.rows, 1)))
    for i, (dims, mask_dims, axis) in enumerate((([13], [13], -1), ([2, 5, 7], [7], -1), ([5, 3], [5], 0), ([3, 4], [3, 4], 1))):
        m = (v.rng.random((v.rows, *mask_dims)) < 0.6).astype(float)
        m[0], m[1] = 0, 1
        x, xd = v.dense(f"m{i}", dims)
        mask, md = v.dense(f"mask{i}", mask_dims, data=m)
        full = np.broadcast_to(md.reshape(v.rows, *mask_dims, 1) if axis == 0 else
                               md.reshape(v.rows, *[1] * (len(dims) - len(mask_dims)), *mask_dims), xd.shape)
        for mode in ("ninf", "add", "replace"):
            want = np.zeros_like(xd)
            for r in range(v.rows):
                t, k = torch.from_numpy(xd[r]), torch.from_numpy(full[r].copy())
                if mode == "ninf":
                    want[r] = torch.nan_to_num(torch.softmax(t.masked_fill(k == 0, -torch.inf), axis), nan=0.0)
                elif mode == "add":
                    want[r] = torch.softmax((t + -1e9 * (1 - k)).float().double(), axis)
                else:
                    want[r] = torch.softmax(torch.where(k != 0, t, torch.tensor(-2.0).double()), axis)
            value = -2.0 if mode == "replace" else -1e9
            v.case(f"{mode} {i}", v.b.softmax(x, mask, axis=axis, mask_mode=mode, value=value), want)
    return v


def reduce():
    v = VectorBundle("reduce", 7)
    f = {"sum": lambda a: a.sum(), "mean": lambda a: a.sum() / len(a) if len(a) else None,
         "max": lambda a: a.max() if len(a) else None, "sumsq": lambda a: (a * a).sum()}
    shapes = (([33], -1, True), ([1], 0, True), ([3, 31], -1, False), ([5, 7], 0, False), ([2, 3, 5], 1, True), ([2, 3, 5], 0, False))
    for i, (dims, axis, keep) in enumerate(shapes):
        x, xd = v.dense(f"x{i}", dims)
        ax = axis % len(dims)
        m = (v.rng.random((v.rows, *dims[:ax + 1])) < 0.5).astype(float)
        m[0], m[1] = 0, 1
        mask, md = v.dense(f"mask{i}", dims[:ax + 1], data=m)
        for kind, g in f.items():
            eps, empty = (0.5, 0.0) if kind == "mean" and i == 3 else (0.0, -1.5 if kind in ("mean", "max") else 0.0)
            moved = np.moveaxis(xd, ax + 1, -1)
            plain, masked = np.zeros(moved.shape[:-1]), np.zeros(moved.shape[:-1])
            for index in np.ndindex(*plain.shape):
                a, k = moved[index], md[index[:1 + ax]]
                plain[index] = g(a) if not eps else a.sum() / (len(a) + eps)
                chosen = a[k != 0]
                got = g(chosen) if not eps or not len(chosen) else chosen.sum() / (len(chosen) + eps)
                masked[index] = empty if got is None else got
            if keep:
                plain, masked = np.expand_dims(plain, ax + 1), np.expand_dims(masked, ax + 1)
            v.case(f"{kind} {i}", v.b.reduce(kind, x, axis=axis, keepdim=keep, eps=eps, empty=empty), plain)
            v.case(f"{kind} masked {i}", v.b.reduce(kind, x, mask, axis=axis, keepdim=keep, eps=eps, empty=empty), masked)
    return v


def layout():
    """Concat and View."""
    v = VectorBundle("layout", 8)
    a, ad = v.dense("a", [3, 5])
    b, bd = v.dense("b", [3, 1])
    c, cd = v.dense("c", [2, 5])
    x, xd = v.dense("x", [2, 3, 5])
    k = v.values(3, 2)
    v.case("concat last", v.b.concat([a, b, a]), np.concatenate([ad, bd, ad], axis=2))
    v.case("concat 0", v.b.concat([a, c], axis=0), np.concatenate([ad, cd], axis=1))
    v.case("concat one", v.b.concat([b]), bd)
    v.case("concat const", v.b.concat([a, v.b.const(k)]), np.concatenate([ad, np.broadcast_to(k, (v.rows, 3, 2))], axis=2))
    v.case("reshape", v.b.reshape(x, [5, 1, 6]), xd.reshape(v.rows, 5, 1, 6))
    for perm in ([2, 1, 0], [1, 0, 2], [0, 2, 1]):
        v.case(f"transpose {perm}".replace(",", ""), v.b.transpose(x, perm), np.stack([r.transpose(perm) for r in xd]))
    v.case("slice", v.b.slice(x, 1, 4), xd[..., 1:4])
    v.case("slice 0", v.b.slice(x, 1, 2, axis=0), xd[:, 1:2])
    v.case("select", v.b.index_select(x, [2, 0, 0, 1], axis=1), np.stack([r[:, [2, 0, 0, 1]] for r in xd]))
    v.case("select last", v.b.index_select(a, [4, 4, 1]), np.stack([r[:, [4, 4, 1]] for r in ad]))
    v.case("expand", v.b.expand(b, [4, 3, 7]), np.stack([np.broadcast_to(r, (4, 3, 7)) for r in bd]))
    v.case("views of views", v.b.slice(v.b.transpose(v.b.reshape(v.b.transpose(x, [1, 2, 0]), [5, 6]), [1, 0]), 1, 3, axis=0),
           np.stack([r.transpose(1, 2, 0).reshape(5, 6).T[1:3] for r in xd]))
    return v


BUNDLES = (linear, matmul, binary, unary, layer_norm, softmax, reduce, layout)
