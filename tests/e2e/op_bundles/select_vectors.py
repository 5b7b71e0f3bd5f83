"""Cases of the primitives that choose: comparisons, Where, and the mask that lengths give; of sin, cos, sign, atan2; of order."""

import numpy as np
import torch

from vector_bundle import VectorBundle

COMPARE = {"lt": torch.lt, "le": torch.le, "gt": torch.gt, "ge": torch.ge, "eq": torch.eq, "ne": torch.ne}


def rows_of(f, *arrays):
    """f on the torch float64 tensors of each row, stacked, as float64."""
    return np.stack([f(*(torch.from_numpy(np.ascontiguousarray(a[r])) for a in arrays)).double().numpy() for r in range(len(arrays[0]))])


def conditions():
    v = VectorBundle("conditions", 11)
    for i, (a, b) in enumerate((([33], [33]), ([31], [1]), ([3, 1], [5]), ([2, 1, 3], [7, 1]))):
        x, xd = v.dense(f"x{i}", a, data=v.rng.integers(-2, 3, (v.rows, *a)) / 4)
        y, yd = v.dense(f"y{i}", b, data=v.rng.integers(-2, 3, (v.rows, *b)) / 4)
        for kind, f in COMPARE.items():
            v.case(f"{kind} {i}", v.b.binary(kind, x, y), rows_of(f, xd, yd))
    p, pd = v.dense("p", [2, 5], data=v.rng.integers(0, 2, (v.rows, 2, 5)))
    q, qd = v.dense("q", [5], data=v.rng.integers(0, 2, (v.rows, 5)))
    logic = {"and": (v.b.mul(p, q), torch.logical_and), "or": (v.b.binary("max", p, q), torch.logical_or)}
    for name, (value, f) in logic.items():
        v.case(name, value, rows_of(f, pd, qd))
    v.case("not", v.b.unary("affine", p, a=-1.0, b=1.0), rows_of(torch.logical_not, pd))
    choose = rows_of(lambda c, s, t: torch.where(c != 0, s, t), pd, pd + 2, np.broadcast_to(qd[:, None] - 3, pd.shape))
    v.case("where", v.b.where(p, v.b.unary("affine", p, a=1.0, b=2.0), v.b.unary("affine", q, a=1.0, b=-3.0)), choose)
    _not_chosen(v)
    _lengths(v)
    return v


def _not_chosen(v):
    """0/0 and 1/0 on the side that is not chosen, as masked_fill and a safe division have them."""
    over, od = v.dense("over", [4, 7], data=v.rng.integers(-1, 2, (v.rows, 4, 7)))
    under, ud = v.dense("under", [4, 7], data=v.rng.integers(-1, 2, (v.rows, 4, 7)))
    with np.errstate(all="ignore"):
        ratio = od / ud
    zero, value = v.b.const(0.0), v.b.div(over, under)
    is_zero = v.b.binary("eq", under, zero)
    want = rows_of(lambda u, r: r.masked_fill(u == 0, -3.0), ud, ratio)
    v.case("safe division", v.b.where(is_zero, v.b.const(-3.0), value), want)
    v.case("safe division the other way", v.b.where(v.b.binary("ne", under, zero), value, v.b.const(-3.0)), want)
    v.case("of NaN", v.b.binary("eq", value, value), rows_of(lambda r: r == r, ratio))
    v.case("nan_to_num", v.b.where(v.b.binary("ne", value, value), v.b.const(0.5), v.b.binary("max", v.b.binary("min", value, v.b.const(9.0)), v.b.const(-9.0))),
           rows_of(lambda r: torch.nan_to_num(r, nan=0.5, posinf=9, neginf=-9), ratio))
    scores = v.b.where(is_zero, v.b.const(-np.float32(1e30)), over)
    v.case("masked scores", v.b.softmax(scores), rows_of(lambda o, u: torch.softmax(o.masked_fill(u == 0, -1e30), -1), od, ud))


def _lengths(v):
    """Positions below a length: [T], and [F, T] of several lengths; none, some, all, more than all."""
    t = 5
    n, nd = v.dense("length", [1], data=np.arange(v.rows)[:, None] % 8)
    many, md = v.dense("lengths", [3, 1], data=v.rng.integers(0, t + 1, (v.rows, 3, 1)))
    position = torch.arange(t)
    v.case("length mask", v.b.length_mask(n, t), rows_of(lambda k: position < k, nd))
    v.case("length mask of three", v.b.length_mask(many, t), rows_of(lambda k: position < k, md))
    v.case("length mask padding first", v.b.length_mask(n, t, pad_side="pre"), rows_of(lambda k: torch.flip(position < k, [-1]), nd))
    x, xd = v.dense("sequence", [t, 3])
    mask = v.b.length_mask(n, t)
    v.case("mean by length", v.b.reduce("mean", x, mask, axis=0),
           np.stack([xd[r, :int(min(k, t))].mean(axis=0) if k else np.zeros(3) for r, (k,) in enumerate(nd)]))


def circles():
    v = VectorBundle("circles", 12)
    x, xd = v.dense("x", [33], data=4 * v.values(v.rows, 33))
    y, yd = v.dense("y", [3, 5])
    far, fd = v.dense("far", [31], data=v.rng.choice([-1, 1], (v.rows, 31)) * np.exp2(v.rng.uniform(10, 127, (v.rows, 31))))
    for kind, f in (("sin", torch.sin), ("cos", torch.cos)):
        for name, (value, data) in {"near": (x, xd), "[3 5]": (y, yd), "far": (far, fd)}.items():
            v.case(f"{kind} {name}", v.b.unary(kind, value), rows_of(f, data))
    whole, wd = v.dense("whole", [2, 7], data=v.rng.integers(-2, 3, (v.rows, 2, 7)))
    v.case("sign", v.b.unary("sign", whole), rows_of(torch.sign, wd))
    v.case("atan2", v.b.binary("atan2", y, v.b.slice(x, 0, 5)), rows_of(torch.atan2, yd, np.broadcast_to(xd[:, None, :5], yd.shape)))
    under, ud = v.dense("under", [2, 7], data=v.rng.integers(-1, 2, (v.rows, 2, 7)))
    angle = v.b.binary("atan2", whole, under)
    v.case("atan2 on the axes", angle, rows_of(torch.atan2, wd, ud))
    # EulerNet: a complex number as length and angle, and back
    length = v.b.unary("sqrt", v.b.add(v.b.mul(whole, whole), v.b.mul(under, under)))
    v.case("there and back", v.b.mul(length, v.b.unary("sin", angle)), wd)
    return v


def order():
    v = VectorBundle("order", 13)
    for i, (dims, axis) in enumerate((([33], -1), ([1], 0), ([3, 31], -1), ([7, 5], 0), ([2, 4, 3], 1))):
        distinct = np.stack([v.rng.permutation(int(np.prod(dims))).reshape(dims) for _ in range(v.rows)]) / 8 - 2
        x, xd = v.dense(f"x{i}", dims, data=distinct)
        n = dims[axis]
        for k in sorted({1, (n + 1) // 2, n}):
            for largest in (True, False):
                name = f"{i} {k} {'largest' if largest else 'smallest'}"
                at = v.b.top_k(x, k, axis=axis, largest=largest)
                v.case(f"top {name}", at, rows_of(lambda t: torch.topk(t, k, dim=axis, largest=largest).indices, xd))
                v.case(f"values {name}", v.b.take(x, at, axis=axis), rows_of(lambda t: torch.topk(t, k, dim=axis, largest=largest).values, xd))
        index, pd = v.dense(f"at{i}", dims, data=v.rng.integers(0, n, (v.rows, *dims)))
        v.case(f"gather {i}", v.b.take(x, index, axis=axis), rows_of(lambda t, p: torch.gather(t, axis, p.long()), xd, pd))
    # Ties: of equal entries the first comes first, as a stable sort has it.
    x, xd = v.dense("few", [3, 16], data=v.rng.integers(-1, 2, (v.rows, 3, 16)))
    for largest in (True, False):
        v.case(f"ties {largest}".lower(), v.b.top_k(x, 9, largest=largest),
               rows_of(lambda t: torch.sort(t, dim=-1, descending=largest, stable=True).indices[:, :9], xd))
    _by_scores(v)
    return v


def _by_scores(v):
    """SIM and ETA: the rows of a sequence with the best scores; positions from outside, rows that broadcast, ends that are moved."""
    sequence, sd = v.dense("sequence", [9, 4])
    scores, cd = v.dense("scores", [9], data=np.stack([v.rng.permutation(9) for _ in range(v.rows)]))
    best = v.b.reshape(v.b.top_k(scores, 3), [3, 1])
    want = rows_of(lambda s, c: s[torch.topk(c, 3).indices], sd, cd)
    v.case("rows by scores", v.b.take(sequence, best, axis=0), want)
    v.case("rows by scores of three", v.b.take(v.b.reshape(sequence, [1, 9, 4]), v.b.const(np.arange(6).reshape(3, 2, 1)), axis=1),
           np.stack([s[np.arange(6).reshape(3, 2)] for s in sd]))
    wild = np.array([-3, -0.5, 0.99, 1, 7.5, 8, 9, 1e9, -1e9])
    v.case("ends", v.b.take(scores, v.b.const(wild)), cd[:, [0, 0, 0, 1, 7, 8, 8, 8, 0]])


BUNDLES = (conditions, circles, order)
