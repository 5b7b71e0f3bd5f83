"""Cases of the ops that choose and order: comparisons, Where, TopK, Gather; and of sin, cos, sign, atan2."""

import numpy as np

from recorder import Const, f32, f64

# ---- conditions -----------------------------------------------------------------------------------------------------
COMPARE = {6: np.less, 7: np.less_equal, 8: np.greater, 9: np.greater_equal, 10: np.equal, 11: np.not_equal}
IEEE = np.array([0, -0.0, 1, np.nextafter(np.float32(1), np.float32(2)), -1, 1e-45, -1e-45, np.inf, -np.inf, np.nan, 3e38], np.float32)


def aligned(rows, *values):
    """The values with their dims aligned at the right, in float64."""
    arrays = [f64(v)[None] if isinstance(v, Const) else f64(v) for v in values]
    rank = max(a.ndim for a in arrays)
    return [a.reshape(a.shape[:1] + (1,) * (rank - a.ndim) + a.shape[1:]) for a in arrays]


def record_compare(rec, rng):
    """Binary lt .. ne, Where, and the three of them as steps of one Elementwise."""
    for kind, fn in COMPARE.items():
        for rows, dx, dy in ((0, (3,), (3,)), (1, (1,), (1,)), (17, (31,), (31,)), (5, (3, 16), (16,)), (3, (5, 1), (1, 7))):
            x, y = (rng.integers(-2, 3, (rows, *d)).astype(np.float32) for d in (dx, dy))  # many are equal
            rec.add("Binary", f"kind{kind}_{dx}_{dy}_r{rows}", rows, [x, y], [fn(*aligned(rows, x, y))], dict(kind=kind))
        pairs = np.stack(np.meshgrid(IEEE, IEEE)).reshape(2, 1, -1)
        rec.add("Binary", f"kind{kind}_ieee", 1, list(pairs), [fn(f64(pairs[0]), f64(pairs[1]))], dict(kind=kind))
    shapes = [((1,), (1,), (1,)), ((31,), (31,), (31,)), ((33,), (1,), (33,)), ((5, 1), (7,), (1, 1)), ((4, 3), (3,), (2, 4, 3))]
    for rows, dims in [(r, s) for r in (0, 1, 17) for s in shapes]:
        cond = (rng.integers(-1, 2, (rows, *dims[0])) / 2).astype(np.float32)
        x, y = (f32(rng, rows, *d) for d in dims[1:])
        c, p, q = aligned(rows, cond, x, y)
        rec.add("Where", f"{dims}_r{rows}", rows, [cond, x, y], [np.where(c != 0, p, q)])
    cond, x, y = Const(rng.integers(0, 2, (4, 3)).astype(np.float32)), f32(rng, 9, 3), Const(f32(rng, 4, 1))
    c, p, q = aligned(9, cond, x, y)
    rec.add("Where", "constants", 9, [cond, x, y], [np.where(c != 0, p, q)])
    # What is not chosen leaves no trace, and what is comes as it is.
    cond = np.repeat(IEEE, len(IEEE))[None]
    bad, good = np.tile(IEEE, len(IEEE))[None], f32(rng, 1, cond.size)
    for name, x, y in (("yes", bad, good), ("no", good, bad)):
        rec.add("Where", f"ieee_{name}", 1, [cond, x, y], [np.where(cond != 0, f64(x), f64(y))])
    for rows, n in ((1, 1), (33, 31), (7, 64)):
        x, y, one = rng.integers(-2, 3, (rows, 2, n)).astype(np.float32), f32(rng, rows, n), Const(np.ones((1,), np.float32))
        steps = [dict(step=1, kind=8, x=0, y=2), dict(step=0, kind=5, x=0, y=0), dict(step=2, kind=0, x=3, y=4, z=1)]
        want = np.where(f64(x) > 1, np.log(np.maximum(f64(x), 1)), f64(y)[:, None])  # the log of the others is NaN
        rec.add("Elementwise", f"where_n{n}_r{rows}", rows, [x, y, one], [want],
                dict(steps=[{"a": 0, "b": 0, "z": 0, "param": -1, "n_params": 0, **s} for s in steps]))


# ---- circles --------------------------------------------------------------------------------------------------------
def accurate(name):
    """The C library's function in double: its range reduction is exact for every double."""
    return np.vectorize(getattr(__import__("math"), name), otypes=[float])


def many_sizes(rng, n):
    """float32 of every magnitude from 2^-30 up to the largest, and multiples of pi/4, next to which results are near 0."""
    random = rng.choice([-1, 1], n) * np.exp2(rng.uniform(-30, 127.9, n))
    near = np.arange(1, n + 1) * np.pi / 4 * np.exp2(rng.integers(0, 60, n))
    return np.concatenate([random, near, [0, -0.0, 16367173 * 2.0**72, 3.4028235e38]]).astype(np.float32)[None]


def record_circles(rec, rng):
    """Unary sin, cos, sign; Binary atan2. That sin and cos keep two units in the last place is computed on the device: 1 where
    |f(x) - want| <= 2 units of want."""
    finite = IEEE[np.isfinite(IEEE) & (np.abs(IEEE) < 1e30)][None]
    for kind, name in ((21, "sin"), (22, "cos")):
        fn = accurate(name)
        for rows, dims in ((0, (3,)), (1, (1,)), (17, (31,)), (3, (2, 17))):
            x = (4 * f32(rng, rows, *dims)).astype(np.float32)
            rec.add("Unary", f"{name}_{dims}_r{rows}", rows, [x], [fn(f64(x)) if x.size else f64(x)], dict(kind=kind, a=0, b=0))
        ends = np.concatenate([finite, [[np.inf, -np.inf, np.nan]]], axis=1).astype(np.float32)
        want = np.concatenate([fn(f64(finite)), [[np.nan] * 3]], axis=1)
        rec.add("Unary", f"{name}_ieee", 1, [ends], [want], dict(kind=kind, a=0, b=0))
        x = many_sizes(rng, 700)
        want = fn(f64(x)).astype(np.float32)
        steps = [dict(step=0, kind=kind, x=0), dict(step=1, kind=1, x=3, y=1), dict(step=0, kind=6, x=4), dict(step=1, kind=7, x=5, y=2)]
        rec.add("Elementwise", f"{name}_units", 1, [x, want, 2 * np.spacing(np.abs(want))], [np.ones(x.shape)],
                dict(steps=[{"a": 0, "b": 0, "y": 0, "z": 0, "param": -1, "n_params": 0, **s} for s in steps]))
    for rows, dims in ((0, (3,)), (17, (31,))):
        x = rng.integers(-2, 3, (rows, *dims)).astype(np.float32)
        rec.add("Unary", f"sign_{dims}_r{rows}", rows, [x], [np.sign(f64(x))], dict(kind=23, a=0, b=0))
    rec.add("Unary", "sign_ieee", 1, [IEEE[None]], [np.sign(f64(IEEE[None]))], dict(kind=23, a=0, b=0))
    for rows, dx, dy in ((0, (3,), (3,)), (1, (1,), (1,)), (17, (31,), (31,)), (5, (3, 16), (16,)), (3, (5, 1), (1, 7))):
        x, y = f32(rng, rows, *dx), f32(rng, rows, *dy)
        rec.add("Binary", f"atan2_{dx}_{dy}_r{rows}", rows, [x, y], [np.arctan2(*aligned(rows, x, y))], dict(kind=12))
    pairs = np.stack(np.meshgrid(IEEE, IEEE)).reshape(2, 1, -1)
    rec.add("Binary", "atan2_ieee", 1, list(pairs), [np.arctan2(f64(pairs[0]), f64(pairs[1]))], dict(kind=12))


# ---- order ----------------------------------------------------------------------------------------------------------
def order_of(x, axis, largest):
    """Positions in order along an axis of [rows, ..], by sorting tuples: NaN as the largest, of equal ones the first."""
    def of_slice(v):
        rank = [(1, 0.0) if np.isnan(e) else (0, float(e)) for e in v]
        sign = -1 if largest else 1
        return sorted(range(len(v)), key=lambda i: (sign * rank[i][0], sign * rank[i][1], i))
    return np.apply_along_axis(of_slice, axis + 1, x).astype(np.float64) if x.size else f64(x)


def record_order(rec, rng):
    """TopK and Gather."""
    shapes = (((3,), 0), ((1,), 0), ((31,), 0), ((5, 33), 1), ((16, 3), 0), ((2, 7, 3), 1))
    for rows, (dims, axis) in [(r, s) for r in (0, 1, 9) for s in shapes]:
        for x in (f32(rng, rows, *dims), rng.integers(-1, 2, (rows, *dims)).astype(np.float32)):
            for largest in (1, 0):
                at = order_of(x, axis, largest)
                for k in sorted({1, (dims[axis] + 1) // 2, dims[axis]}):
                    rec.add("TopK", f"{dims}_axis{axis}_k{k}_{largest}_r{rows}", rows, [x], [at.take(range(k), axis + 1)],
                            dict(axis=axis, largest=largest, k=k))
        x = f32(rng, rows, *dims)
        for n in (1, 4):
            index = rng.integers(0, dims[axis], (rows, *dims[:axis], n, *dims[axis + 1:])).astype(np.float32)
            want = np.take_along_axis(f64(x), index.astype(np.int64), axis + 1)
            rec.add("Gather", f"{dims}_axis{axis}_n{n}_r{rows}", rows, [x, index], [want], dict(axis=axis))
    for largest in (1, 0):
        rec.add("TopK", f"ieee_{largest}", 1, [IEEE[None]], [order_of(IEEE[None], 0, largest)], dict(axis=0, largest=largest, k=len(IEEE)))
    x, index = f32(rng, 5, 4, 1, 3), rng.integers(0, 4, (5, 2, 6, 1)).astype(np.float32)
    want = np.take_along_axis(f64(np.repeat(x, 6, 2)), np.repeat(index, 3, 3).astype(np.int64), 1)
    rec.add("Gather", "both_broadcast", 5, [x, index], [want], dict(axis=0))
    x, index = Const(f32(rng, 7, 2)), rng.integers(0, 7, (9, 3, 1)).astype(np.float32)
    rec.add("Gather", "constant_x", 9, [x, index], [f64(x)[index[:, :, 0].astype(np.int64)]], dict(axis=0))
    x, index = f32(rng, 9, 7, 2), Const(np.array([[6], [0], [6]], np.float32))
    rec.add("Gather", "constant_index", 9, [x, index], [f64(x)[:, [6, 0, 6]]], dict(axis=0))
    wild = np.array([[-0.0, -1, -1e-45, -np.inf, -3e38, 0.99, 1, 1.99, 2, 2.5, 3, 2.0**24, 3e38, np.inf, np.nan]], np.float32)
    entries = [0, 0, 0, 0, 0, 0, 1, 1, 2, 2, 2, 2, 2, 2]
    x = f32(rng, 1, 3)
    rec.add("Gather", "positions_of_any_size", 1, [x, wild], [np.append(f64(x)[:, entries], [[np.nan]], axis=1)], dict(axis=0))
