"""Cases of Attention: softmax and SiLU, heads, causal, candidates, masks of histories, biases; by loops over torch's matrices in float64."""

import numpy as np
import torch

from vector_bundle import VectorBundle

T = 7


def attend(q, k, v, heads, scale, left, bias=0.0, divisor=None, of_none="zeros"):
    """One row: left [Tq, Tk] says which keys count."""
    q, k, v = (torch.from_numpy(np.ascontiguousarray(x)) for x in (q, k, v))
    left, out = torch.from_numpy(np.array(left, bool)), []
    for h, (a, b, c) in enumerate(zip(q.chunk(heads, 1), k.chunk(heads, 1), v.chunk(heads, 1))):
        s = scale * a @ b.T + torch.as_tensor(bias[h] if np.ndim(bias) == 3 else bias)
        if divisor is None:
            w = torch.softmax(s.masked_fill(~left, -np.inf), -1)
            w = torch.where(left.any(-1, keepdim=True), w, torch.full_like(w, 1 / len(b) if of_none == "mean" else 0.0))
        else:
            w = (torch.nn.functional.silu(s) / divisor).masked_fill(~left, 0.0)
        out.append(w @ c)
    return torch.cat(out, 1).numpy()


def rows_of(vector, left, *operands, **more):
    """attend of each row; left: [rows, Tq, Tk]."""
    return np.stack([attend(*(x[r] for x in operands), left=left[r], **more) for r in range(vector.rows)])


def attention():
    v = VectorBundle("attention", 31)
    q, qd = v.dense("q", [T, 8])
    k, kd = v.dense("k", [T, 8])
    x, xd = v.dense("x", [T, 12])
    lengths = np.arange(v.rows) % (T + 1)
    bags = v.bags("history", [list(range(1, n + 1)) for n in lengths], vocab_size=9, max_len=T, missing="pad")
    mask, valid = v.b.mask(bags, "length"), np.arange(T)[None] < lengths[:, None]
    everything, causal = np.ones((v.rows, T, T), bool), np.broadcast_to(np.tril(np.ones((T, T), bool)), (v.rows, T, T))
    of_history = np.broadcast_to(valid[:, None], causal.shape)
    for heads in (1, 2, 4):
        v.case(f"softmax {heads}", v.b.attention(q, k, x, heads=heads, scale=0.5), rows_of(v, everything, qd, kd, xd, heads=heads, scale=0.5))
        v.case(f"silu {heads}", v.b.attention(q, k, x, heads=heads, form="silu", divisor=T, causal=True),
               rows_of(v, causal, qd, kd, xd, heads=heads, scale=1.0, divisor=T))
    two = dict(heads=2, scale=0.5)
    v.case("history", v.b.attention(q, k, x, mask, **two), rows_of(v, of_history, qd, kd, xd, **two))
    v.case("causal history", v.b.attention(q, k, x, mask, causal=True, **two), rows_of(v, of_history & causal, qd, kd, xd, **two))
    v.case("mean of none", v.b.attention(q, k, x, mask, empty="mean", **two), rows_of(v, of_history, qd, kd, xd, of_none="mean", **two))
    v.case("silu of a history", v.b.attention(q, k, x, mask, form="silu", divisor=3, **two), rows_of(v, of_history, qd, kd, xd, divisor=3, **two))
    seen = causal.copy()
    seen[:, :, T - 3:] = np.eye(T, dtype=bool)[:, T - 3:]
    v.case("candidates", v.b.attention(q, k, x, causal=True, candidates=3, **two), rows_of(v, seen, qd, kd, xd, **two))
    pairs, pd = v.dense("pairs", [T, T], data=v.rng.integers(0, 2, (v.rows, T, T)))
    v.case("pairs", v.b.attention(q, k, x, pairs, **two), rows_of(v, pd != 0, qd, kd, xd, **two))
    _biases(v, (q, k, x), (qd, kd, xd), everything, causal)
    _other_sizes(v)
    return v


def _biases(v, values, data, everything, causal):
    two, line, of_heads = dict(heads=2, scale=0.5), v.values(2 * T - 1), v.values(2, 2 * T - 1)
    at = np.arange(T) - np.arange(T)[:, None] + T - 1
    v.case("relative", v.b.attention(*values, bias=v.b.const(line), relative=True, causal=True, **two),
           rows_of(v, causal, *data, bias=line[at], **two))
    v.case("relative of heads", v.b.attention(*values, bias=v.b.const(of_heads), relative=True, form="silu", divisor=T, **two),
           rows_of(v, everything, *data, bias=of_heads[:, at], divisor=T, **two))
    own, od = v.dense("bias", [T, T])
    for name, form in (("softmax", {}), ("silu", {"divisor": T})):
        want = np.stack([attend(*(x[r] for x in data), left=everything[r], bias=od[r], **form, **two) for r in range(v.rows)])
        v.case(f"bias of a row {name}", v.b.attention(*values, bias=own, form=name, **form, **two), want)


def _other_sizes(v):
    """Fewer queries than keys, and more; shared rows of queries are for row_spaces."""
    few, fd = v.dense("few", [2, 3])
    many, md = v.dense("many", [11, 3])
    for name, causal in (("", False), (" causal", True)):
        for label, (a, ad), (b, bd) in (("fewer queries", (few, fd), (many, md)), ("more queries", (many, md), (few, fd))):
            left = np.tril(np.ones((ad.shape[1], bd.shape[1]), bool)) if causal else np.ones((ad.shape[1], bd.shape[1]), bool)
            v.case(label + name, v.b.attention(a, b, b, causal=causal), rows_of(v, np.broadcast_to(left, (v.rows, *left.shape)), ad, bd, bd, heads=1, scale=1.0))


BUNDLES = (attention,)
