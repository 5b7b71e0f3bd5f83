"""Attention, and Linear, LayerNorm, Unary and Binary over the places that count, by their formulas in float64."""
import numpy as np

from recorder import Const, f32, f64

NONE, NINF, ADD, REPLACE = 0, 1, 2, 3
PRELU, SUB = 19, 1


def flat(x):
    """float64, a row's numbers side by side."""
    x = f64(x)
    return x.reshape(len(x), int(np.prod(x.shape[1:])))


def numbers(rows, layout, heads, places, columns):
    """[rows, heads, places, columns] out of rows of numbers."""
    first, head, place = layout
    at = first + head * np.arange(heads)[:, None, None] + place * np.arange(places)[:, None] + np.arange(columns)
    return rows[:, at]


def attention(a, q, k, v, mask, size):
    """q, k, v, mask: [rows, numbers]; mask None or [rows, ..]."""
    q, k = numbers(q, a["q"], a["heads"], a["queries"], a["dim"]), numbers(k, a["k"], a["heads"], a["keys"], a["dim"])
    v = numbers(v, a["v"], a["heads"], a["keys"], a["value_dim"])
    scores = a["scale"] * np.einsum("rhid,rhjd->rhij", q, k)
    m = np.ones_like(scores)
    if mask is not None:
        m[:] = numbers(mask, (0, a["mask_head"], a["mask_query"]), a["heads"], a["queries"], a["keys"])
    if a["mask_mode"] == ADD:
        scores = (scores + a["value"] * (1 - m)).astype(np.float32).astype(np.float64)
    if a["mask_mode"] == REPLACE:
        scores = np.where(m == 0, a["value"], scores)
    left = (m != 0) | (a["mask_mode"] != NINF)
    top = np.where(left, scores, -np.inf).max(-1, keepdims=True)
    e = np.where(left, np.exp(np.where(left, scores - np.where(np.isinf(top), 0, top), 0)), 0)
    e = e / np.maximum(e.sum(-1, keepdims=True), 1e-300)
    y = np.einsum("rhij,rhjd->rhid", e, np.where(e.max((1, 2))[:, None, :, None] > 0, v, 0))
    if a["counted"]:
        y = y * (mask != 0)[:, None, :, None]
    out = np.full((len(q), size), np.nan)
    first, head, place = a["y"]
    at = first + head * np.arange(a["heads"])[:, None, None] + place * np.arange(a["queries"])[:, None] + np.arange(a["value_dim"])
    out[:, at] = y
    return out


def attributes(heads, queries, keys, dim, value_dim=None, scale=1.0, **more):
    """Heads side by side in every place, as a layer of Q, K and V leaves them."""
    value_dim = value_dim or dim
    a = dict(heads=heads, queries=queries, keys=keys, dim=dim, value_dim=value_dim, q=[0, dim, heads * dim], k=[0, dim, heads * dim],
             v=[0, value_dim, heads * value_dim], y=[0, value_dim, heads * value_dim], scale=float(np.float32(scale)), mask_mode=NONE,
             value=-1e9, mask_head=0, mask_query=0, counted=0)
    return {**a, **more}


def ragged(rng, rows, keys, last=True):
    """Prefixes that count, the first row's the shortest, and with `last` the last place."""
    n = rng.integers(0, keys + 1, rows)
    n[:1] = 0
    m = (np.arange(keys) < n[:, None]).astype(np.float32)
    if last:
        m[:, -1] = 1
    return m


def record_layout(rec, rng, name, rows, a, mask=None):
    """q, k and v of their own."""
    q, k = f32(rng, rows, a["queries"], a["heads"] * a["dim"]), f32(rng, rows, a["keys"], a["heads"] * a["dim"])
    v = f32(rng, rows, a["keys"], a["heads"] * a["value_dim"])
    y = attention(a, flat(q), flat(k), flat(v), None if mask is None else flat(mask), a["queries"] * a["heads"] * a["value_dim"])
    rec.add("Attention", f"{name}_r{rows}", rows, [q, k, v] + ([] if mask is None else [mask]),
            [y.reshape(rows, a["queries"], a["heads"] * a["value_dim"])], a)


def record_block(rec, rng, name, rows, places, heads, dim, mask, **more):
    """q, k and v side by side in one value, as a transformer block has them; what is left out holds no number."""
    width = heads * dim
    a = attributes(heads, places, places, dim, scale=dim ** -0.5, q=[0, dim, 3 * width], k=[width, dim, 3 * width], v=[2 * width, dim, 3 * width],
                   y=[0, dim, width], **more)
    x = f32(rng, rows, places, 3 * width)
    y = attention(a, flat(x), flat(x), flat(x), f64(mask), places * width)
    if a["counted"] and a["mask_mode"] == NINF:
        x[mask == 0] = np.nan
    rec.add("Attention", f"{name}_r{rows}", rows, [x, x, x, mask], [y.reshape(rows, places, width)], a)


def record_attention(rec, rng):
    for rows in (0, 1, 3):
        record_layout(rec, rng, "fields", rows, attributes(2, 39, 39, 16))
    for heads, queries, keys, dim, value_dim in ((1, 1, 1, 1, 1), (3, 9, 31, 7, 5), (2, 2, 33, 17, 33), (1, 17, 64, 32, 48), (2, 3, 65, 5, 1),
                                                 (1, 5, 131, 3, 31), (4, 8, 16, 8, 100), (1, 11, 512, 2, 3)):
        record_layout(rec, rng, f"h{heads}_{queries}x{keys}_{dim}_{value_dim}", 3, attributes(heads, queries, keys, dim, value_dim, 0.3))
    heads_first = dict(q=[0, 6 * 5, 5], k=[0, 7 * 5, 5], v=[0, 7 * 4, 4], y=[0, 6 * 4, 4])
    record_layout(rec, rng, "heads_first", 4, attributes(3, 6, 7, 5, 4, **heads_first))
    for mode in (NINF, ADD, REPLACE):
        few = attributes(2, 7, 19, 4, mask_mode=mode)
        record_layout(rec, rng, f"ragged{mode}", 6, few, ragged(rng, 6, 19))
        record_layout(rec, rng, f"none_left{mode}", 6, few, ragged(rng, 6, 19, last=False))
        record_layout(rec, rng, f"near{mode}", 6, {**few, "value": -1.5}, ragged(rng, 6, 19))
        by_query = {**few, "mask_query": 19}
        record_layout(rec, rng, f"of_queries{mode}", 5, by_query, (rng.random((5, 7, 19)) < 0.4).astype(np.float32))
        by_head = {**few, "mask_query": 19, "mask_head": 7 * 19}
        record_layout(rec, rng, f"of_heads{mode}", 5, by_head, (rng.random((5, 2, 7, 19)) < 0.4).astype(np.float32))
    parts = ragged(rng, 5, 19)
    parts[:, 3] = 0.5
    record_layout(rec, rng, "part_of_a_place", 5, attributes(2, 7, 19, 4, mask_mode=ADD, value=-3.0), parts)
    record_layout(rec, rng, "part_of_a_place_far", 5, attributes(2, 7, 19, 4, mask_mode=ADD), parts)
    for rows, dim, mode in ((0, 48, REPLACE), (2, 48, REPLACE), (9, 8, REPLACE), (5, 8, NINF), (5, 8, ADD)):
        record_block(rec, rng, f"block{mode}_{dim}", rows, 51, 2, dim, ragged(rng, rows, 51), mask_mode=mode, counted=1)
    record_block(rec, rng, "block_empty", 5, 21, 2, 8, ragged(rng, 5, 21, last=False), mask_mode=NINF, counted=1)
    record_block(rec, rng, "block_near", 5, 21, 2, 8, ragged(rng, 5, 21), mask_mode=REPLACE, value=-0.5, counted=1)
    a, k = attributes(2, 4, 9, 3), f32(rng, 5, 9, 6)
    learned, v = Const(f32(rng, 4, 6)), f32(rng, 5, 9, 6)
    y = attention(a, np.broadcast_to(f64(learned).reshape(1, -1), (5, 24)), flat(k), flat(v), None, 24)
    rec.add("Attention", "learned_queries_r5", 5, [learned, k, v], [y.reshape(5, 4, 6)], a)


def record_places(rec, rng):
    for rows, places, n_in, out, bias in ((0, 3, 4, 5, 1), (1, 1, 1, 1, 0), (5, 51, 33, 17, 1), (2, 131, 16, 64, 0)):
        x, counts = f32(rng, rows, places, n_in), ragged(rng, rows, places)
        w, b = f32(rng, out, n_in), f32(rng, out) if bias else None
        y = np.where(counts[..., None] != 0, f64(x) @ f64(w).T + (f64(b) if bias else 0), 0)
        x[counts == 0] = np.nan
        rec.add("Linear", f"places{places}_{n_in}x{out}_r{rows}", rows, [x, None, None, counts], [y], dict(groups=1, axis=0), [w, b])
    for rows, places, n in ((0, 2, 3), (1, 1, 1), (3, 51, 33), (3, 7, 16)):
        x, counts, gamma, beta = f32(rng, rows, places, n), ragged(rng, rows, places), f32(rng, n), f32(rng, n)
        v, eps = f64(x), float(np.float32(1e-5))
        y = (v - v.mean(-1, keepdims=True)) / np.sqrt(v.var(-1, keepdims=True) + eps) * f64(gamma) + f64(beta)
        x[counts == 0] = np.nan
        rec.add("LayerNorm", f"places{places}_{n}_r{rows}", rows, [x, counts], [np.where(counts[..., None] != 0, y, 0)], dict(eps=eps),
                [gamma, beta])
        alpha, y = f32(rng, n), f32(rng, rows, 1, n)
        rec.add("Unary", f"places{places}_{n}_r{rows}", rows, [x, counts],
                [np.where(counts[..., None] != 0, np.where(v > 0, v, alpha * v), 0)], dict(kind=PRELU, a=0, b=0), [alpha])
        rec.add("Binary", f"places{places}_{n}_r{rows}", rows, [y, x, counts], [np.where(counts[..., None] != 0, f64(y) - v, 0)], dict(kind=SUB))
