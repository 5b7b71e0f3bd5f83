"""Cases that start from ids or sequences: Embed, Mask, Recurrent, the feature rules and the row spaces."""

import numpy as np
import torch

from vector_bundle import VectorBundle

V, D, T = 23, 5, 6
# Lengths 0, 1, full, over-long; padding ids and zero rows inside.
BAGS = [[], [3], [1, 2, 3, 4, 5, 6], [0, 7, 0, 9], [22, 0], [5, 5, 5, 11, 2, 1, 19, 17, 4], [10]]


def table_values(v, dtype):
    """Random rows that `dtype` stores exactly; rows 10 and 11 are zero, row 12 has components that cancel."""
    x = v.values(V, D)
    if dtype == "f16":
        x = torch.from_numpy(x).half().double().numpy()
    if dtype == "bf16":
        x = torch.from_numpy(x).bfloat16().double().numpy()
    if dtype == "i8":
        x = np.rint(x * 30)
        x[:, 0] = 127  # fixes each row's scale to a power of two
        x *= 2.0 ** v.rng.integers(-8, -5, (V, 1))
    x[10:12] = 0
    x[12] = 0
    x[12, :2] = x[1, 0], -x[1, 0]
    return x


def pooled(bag, weights, e, pooling, mask, pad, eps, empty):
    """One pooled vector, position by position. `bag` is cut already."""
    positions = [(i, w) for i, w in zip(bag, weights)]
    if mask == "none":
        positions += [(pad, 1.0)] * (T - len(bag))
    total, divisor, counted, best = np.zeros(D), 0.0, 0, None
    for i, w in positions:
        counts = {"id": i != pad, "nonzero": float(np.float32(e[i]).sum()) != 0}.get(mask, True)
        if counts or mask == "nonzero":
            total += w * e[i]
        if counts:
            divisor, counted = divisor + w, counted + 1
            best = e[i] if best is None else np.maximum(best, e[i])
    if pooling == "sum":
        return total
    if pooling == "mean":
        return total / (divisor + eps) if counted else np.zeros(D)
    return np.full(D, empty) if best is None else best


def embed():
    v = VectorBundle("embed", 11)
    bags = [list(b) for b in BAGS]
    bags[4] = [12, 11, 0]
    one = [7, 0, 22, 1, 10, 12, 3]
    v.b.categorical("one", V)
    v.columns["one"] = one
    cut = [b[:T] for b in bags]
    weights = [[float(np.float32(w)) for w in v.rng.uniform(0.5, 2, len(b))] for b in bags]
    post = v.bags("post", bags, vocab_size=V, max_len=T, missing="pad", pad_id=0)
    pre = v.bags("pre", bags, vocab_size=V, max_len=T, missing="pad", pad_id=0, pad_side="pre", keep="last")
    pad2 = v.bags("pad 2", bags, vocab_size=V, max_len=T, missing="pad", pad_id=2)
    free = v.bags("free", bags, vocab_size=V, missing="pad")
    heavy = v.bags("heavy", bags, weights=weights, vocab_size=V, max_len=T, missing="pad", weighted=True)
    for dtype in ("f32", "f16", "bf16", "i8"):
        e = table_values(v, dtype)
        v.b.table(dtype, e, dtype=dtype)
        v.case(f"single {dtype}", v.b.embed(v.b.input("one"), dtype), e[one])
        ones = [[1.0] * len(b) for b in cut]
        laid = np.stack([e[b + [0] * (T - len(b))] for b in cut])
        v.case(f"none post {dtype}", v.b.embed(post, dtype, pooling="none"), laid)
        laid = np.stack([e[[0] * (T - len(b[-T:])) + b[-T:]] for b in bags])
        v.case(f"none pre {dtype}", v.b.embed(pre, dtype, pooling="none"), laid)
        for pooling in ("sum", "mean", "max"):
            for mask in ("length", "id", "none", "nonzero"):
                if pooling == "max" and mask == "nonzero":
                    continue
                eps, empty = (1e-3 if pooling == "mean" and mask == "id" else 0.0), (-2.5 if pooling == "max" else 0.0)
                for tag, x, pad, w in (("", post, 0, ones), (" pad2", pad2, 2, ones)):
                    if dtype != "f32" and tag:
                        continue
                    want = np.stack([pooled(b, k, e, pooling, mask, pad, eps, empty) for b, k in zip(cut, w)])
                    v.case(f"{pooling} {mask} {dtype}{tag}", v.b.embed(x, dtype, pooling, mask, eps, empty), want)
        want = np.stack([pooled(b, [1.0] * len(b), e, "sum", "length", 0, 0, 0) for b in bags])
        v.case(f"sum unlimited {dtype}", v.b.embed(free, dtype, "sum"), want)
    for pooling, mask in (("sum", "length"), ("mean", "id"), ("mean", "nonzero"), ("sum", "nonzero"), ("mean", "length")):
        want = np.stack([pooled(b, w, e, pooling, mask, 0, 0, 0) for b, w in zip(cut, weights)])
        v.case(f"weighted {pooling} {mask}", v.b.embed(heavy, "i8", pooling, mask), want)
    for name, x, pad in (("post", post, 0), ("pad2", pad2, 2)):
        length = [[1.0] * len(b) + [0.0] * (T - len(b)) for b in cut]
        by_id = [[float(i != pad) for i in b] + [0.0] * (T - len(b)) for b in cut]
        v.case(f"mask length {name}", v.b.mask(x, "length"), length)
        v.case(f"mask id {name}", v.b.mask(x, "id"), by_id)
    v.case("mask length pre", v.b.mask(pre, "length"), [[0.0] * (T - len(b[-T:])) + [1.0] * len(b[-T:]) for b in bags])
    rows = np.stack([e[b + [0] * (T - len(b))] for b in cut])
    want = np.array([[float(np.float32(r).sum() != 0) for r in row] for row in rows])
    v.case("mask nonzero", v.b.mask(v.b.embed(post, "i8", pooling="none"), "nonzero"), want)
    return v


def gru_oracle(x, mask, att, w, kind, reset, output):
    """Position by position, row by row."""
    wi, wh, bi, bh = w
    m = wh.shape[1]
    s = lambda t: 1 / (1 + np.exp(-t))  # noqa: E731
    out = np.zeros((len(x), x.shape[1], m))
    last = np.zeros((len(x), m))
    for r in range(len(x)):
        h = np.zeros(m)
        for t in range(x.shape[1]):
            if mask[r, t] == 0:
                continue
            g, u = wi @ x[r, t] + bi, wh @ h + bh
            gate, z = s(g[:m] + u[:m]), s(g[m:2 * m] + u[m:2 * m])
            inner = gate * u[2 * m:] if reset == "after" else wh[2 * m:] @ (gate * h) + bh[2 * m:]
            n = np.tanh(g[2 * m:] + inner)
            a = 0 if att is None else att[r, t]
            h = {"gru": (1 - z) * n + z * h, "agru": (1 - a) * h + a * n, "augru": (1 - a * z) * h + a * z * n,
                 "vecatt": (1 - a) * z * h + (1 - (1 - a) * z) * n}[kind]
            out[r, t] = h
        last[r] = h
    return out if output == "all" else last


def torch_gru(x, length, w, output):
    """nn.GRU in float64 over each row's prefix."""
    wi, wh, bi, bh = (torch.from_numpy(p) for p in w)
    net = torch.nn.GRU(x.shape[2], wh.shape[1], batch_first=True).double()
    with torch.no_grad():
        for p, value in zip((net.weight_ih_l0, net.weight_hh_l0, net.bias_ih_l0, net.bias_hh_l0), (wi, wh, bi, bh)):
            p.copy_(value)
        out = np.zeros((len(x), x.shape[1], wh.shape[1]))
        last = np.zeros((len(x), wh.shape[1]))
        for r, n in enumerate(length):
            if n:
                y, h = net(torch.from_numpy(x[r:r + 1, :n].copy()))
                out[r, :n], last[r] = y[0].numpy(), h[0, 0].numpy()
    return out if output == "all" else last


def recurrent():
    v = VectorBundle("recurrent", 12)
    for n_t, n_i, m in ((7, 5, 3), (1, 1, 1), (13, 4, 11)):
        size = f"{n_t} {n_i} {m}"
        x, xd = v.dense(f"x {size}", [n_t, n_i])
        length = [0, 1, n_t] + [int(k) for k in v.rng.integers(0, n_t + 1, v.rows - 3)]
        prefix, pd = v.dense(f"prefix {size}", [n_t], data=np.arange(n_t)[None, :] < np.array(length)[:, None])
        gaps, gd = v.dense(f"gaps {size}", [n_t], data=v.rng.random((v.rows, n_t)) < 0.5)
        att, ad = v.dense(f"att {size}", [n_t], data=v.rng.random((v.rows, n_t)))
        w = (v.values(3 * m, n_i), v.values(3 * m, m), v.values(3 * m), v.values(3 * m))
        no_bias = (w[0], w[1], np.zeros(3 * m), np.zeros(3 * m))
        for output in ("last", "all"):
            v.case(f"torch gru {output} {size}", v.b.recurrent(x, prefix, *w, output=output), torch_gru(xd, length, w, output))
            for kind in ("gru", "agru", "augru", "vecatt"):
                for reset in ("after", "before"):
                    a, a_data = (None, None) if kind == "gru" else (att, ad)
                    want = gru_oracle(xd, gd, a_data, w, kind, reset, output)
                    got = v.b.recurrent(x, gaps, *w, att=a, kind=kind, reset=reset, output=output)
                    v.case(f"{kind} {reset} {output} {size}", got, want)
        v.case(f"no bias {size}", v.b.recurrent(x, prefix, w[0], w[1]), gru_oracle(xd, pd, None, no_bias, "gru", "after", "last"))
    return v


def rules():
    """Missing, out-of-range, truncation and NaN rules of FORMAT.md part 4."""
    v = VectorBundle("rules", 13)
    e = v.values(V, D)
    v.b.table("t", e)
    raw = [3, -1, 500, None, 22, -7, 0]
    plain = [3, "out", "out", None, 22, None, 0]  # -7 is the missing id
    for oor, miss in (("oov", "pad"), ("oov", "default"), ("default", "default"), ("default", "pad")):
        name = f"cat {oor} {miss}"
        v.b.categorical(name, V, out_of_range=oor, oov_id=21, missing=miss, pad_id=1, default_id=9, missing_id=-7)
        v.columns[name] = raw
        ids = [{None: 1 if miss == "pad" else 9, "out": 21 if oor == "oov" else 9}.get(i, i) for i in plain]
        v.case(name, v.b.embed(v.b.input(name), "t"), e[ids])
    bags = [[], [3, -1], [23, 4, -7], [1] * 9, [2, 3, 4, 5], [-7], [22, 99, 0]]
    for miss, keep, side in (("pad", "first", "post"), ("default", "last", "pre"), ("pad", "last", "post")):
        name = f"bag {miss} {keep} {side}"
        x = v.bags(name, bags, vocab_size=V, max_len=3, keep=keep, pad_side=side, out_of_range="oov", oov_id=21, missing=miss, pad_id=1,
                   default_id=9, missing_id=-7)
        want = []
        for bag in bags:
            bag = bag[:3] if keep == "first" else bag[-3:]
            bag = [i for i in bag if i != -7]  # a missing element leaves the bag
            bag = bag or ([9] if miss == "default" else [])
            ids = [i if 0 <= i < V else 21 for i in bag]
            pad = [1] * (3 - len(ids))
            want.append(e[ids + pad if side == "post" else pad + ids])
        v.case(name, v.b.embed(x, "t", pooling="none"), want)
    for miss, fill in (("pad", 0.0), ("default", -1.25)):
        number = [0.5, float("nan"), -2.0, 1e-20, float("nan"), 0.0, 7.0]
        v.b.numeric(f"num {miss}", missing=miss, default=fill)
        v.columns[f"num {miss}"] = number
        v.case(f"num {miss}", v.b.input(f"num {miss}"), [[fill if k != k else float(np.float32(k))] for k in number])
        vector = v.values(v.rows, 3)
        vector[1, 2] = vector[4] = float("nan")
        v.b.dense(f"vec {miss}", 3, missing=miss, default=fill)
        v.columns[f"vec {miss}"] = vector
        v.case(f"vec {miss}", v.b.input(f"vec {miss}"), np.where(np.isnan(vector), fill, vector))
    return v


def row_spaces():
    """Shared rows: three users with 3, 0 and 4 candidates."""
    v = VectorBundle("row_spaces", 14, shared_counts=[3, 0, 4])
    e, w = v.values(V, D), v.values(2, D)
    v.b.table("t", e)
    user, ud = v.dense("user", [D], space="shared")
    item, idata = v.dense("item", [D])
    history = [[1, 2, 3], [4], []]
    h = v.bags("history", history, vocab_size=V, max_len=4, missing="pad", space="shared")
    v.b.categorical("id", V)
    v.columns["id"] = [5, 6, 7, 8, 9, 10, 11]
    pooled_history = np.stack([e[b].sum(axis=0) if b else np.zeros(D) for b in history])[v.row_map]
    v.case("shared only", v.b.linear(user, w), ud @ w.T)
    v.case("meet", v.b.mul(v.b.linear(user, w), v.b.linear(item, w)), (ud @ w.T) * (idata @ w.T))
    v.case("history", v.b.add(v.b.embed(h, "t", "sum"), v.b.embed(v.b.input("id"), "t")), pooled_history + e[v.columns["id"]])
    v.case("concat", v.b.concat([user, item, v.b.const(w[0])]), np.concatenate([ud, idata, np.tile(w[0], (7, 1))], axis=1))
    laid = np.stack([e[b + [0] * (4 - len(b))] for b in history])[v.row_map]
    want = np.einsum("rtd,rd->rt", laid, idata)
    v.case("attention", v.b.reshape(v.b.matmul(v.b.embed(h, "t", "none"), v.b.reshape(item, [D, 1])), [4]), want)
    v.case("shared constant", v.b.add(user, v.b.const(w[1])), ud + w[1])
    v.case("constant only", v.b.const(w), np.stack([w] * 7))
    return v


BUNDLES = (embed, recurrent, rules, row_spaces)
