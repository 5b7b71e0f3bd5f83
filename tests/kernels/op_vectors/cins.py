"""Cin by its formula (Lian et al., KDD 2018, part 3): the outer product of two matrices of fields, then a sum over its entries per map."""
import numpy as np

from recorder import f32, f64

IDENTITY, RELU, SIGMOID = 0, 1, 2
ACT = {IDENTITY: lambda x: x, RELU: lambda x: np.where(x > 0, x, 0.0), SIGMOID: lambda x: 1 / (1 + np.exp(-x))}


def cin(x, y, weight, bias):
    """x: [rows, m, d]; y: [rows, n, d], or None: x, and weight has the columns of the pairs i <= j."""
    z = np.einsum("rid,rjd->rijd", x, x if y is None else y)
    at = np.triu_indices(x.shape[1]) if y is None else tuple(a.ravel() for a in np.indices(z.shape[1:3]))
    return np.einsum("op,rpd->rod", weight, z[:, at[0], at[1]]) + bias[None, :, None]


def record(rec, rng, rows, m, n, d, out, act=IDENTITY, bias=True, ranks=(2, 2)):
    """n None: x with itself. ranks: of x and y, 3 puts an axis of one in front of or behind the fields, as views leave it."""
    x, y = f32(rng, rows, m, d), None if n is None else f32(rng, rows, n, d)
    pairs = m * (m + 1) // 2 if n is None else m * n
    weight = f32(rng, out, pairs) / np.float32(np.sqrt(pairs))
    b = f32(rng, out) if bias else np.zeros(out, np.float32)
    expected = ACT[act](cin(f64(x), None if y is None else f64(y), f64(weight), f64(b)))
    given = [x if ranks[0] == 2 else x.reshape(rows, m, 1, d), y if y is None or ranks[1] == 2 else y.reshape(rows, 1, n, d)]
    rec.add("Cin", f"m{m}_n{n or 'self'}_d{d}_o{out}_a{act}_r{rows}", rows, given, [expected], dict(act=dict(kind=act, a=0, b=0)),
            params=[weight, b if bias else None])


def record_cin(rec, rng):
    for rows in (0, 1, 2, 3, 7, 33):
        record(rec, rng, rows, 9, None, 16, 5)
        record(rec, rng, rows, 9, 5, 16, 3, ranks=(3, 3))
    for m, n, d, out in ((1, None, 1, 1), (1, 1, 1, 1), (2, None, 31, 2), (8, None, 32, 8), (13, None, 33, 9), (17, None, 10, 1), (16, 7, 4, 17),
                         (7, 31, 5, 1), (31, 2, 15, 2), (39, None, 16, 16), (39, 16, 16, 1)):
        record(rec, rng, 4, m, n, d, out)
    for act in (RELU, SIGMOID):
        record(rec, rng, 5, 6, 4, 12, 4, act, bias=False)
        record(rec, rng, 5, 6, None, 12, 4, act, bias=False, ranks=(3, 2))
