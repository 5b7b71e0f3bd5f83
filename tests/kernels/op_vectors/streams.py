"""The format's Attention by its definition (weights/FORMAT.md part 7) in float64, some queries at a time."""
import numpy as np

from attentions import NINF, NONE, attributes, ragged
from recorder import Const, f32, f64

SOFTMAX, SILU = 0, 1
SOME = 512  # queries
PLAIN = dict(streamed=1, form=SOFTMAX, divisor=1.0, causal=0, candidates=0, mean_of_none=0, biased=0, bias=[0, 0, 0])


def read_by(queries, keys, causal, candidates):
    """[queries, keys]: which keys a query reads where no mask leaves any out."""
    i, j = np.arange(queries)[:, None], np.arange(keys)[None]
    of_history = (j < keys - candidates) & ((j <= i) | (not causal))
    return of_history | ((j >= keys - candidates) & (i == j))


def stream(a, q, k, v, mask, bias):
    """q, k, v [rows, T, heads * n]; mask [rows, keys] or [rows, queries, keys] or None; bias [rows or 1, heads or 1, queries, keys] or None."""
    def heads(x):
        return f64(x).reshape(*x.shape[:2], a["heads"], x.shape[2] // a["heads"]).transpose(0, 2, 1, 3)
    q, k, v = heads(q), heads(k), heads(v)
    read = read_by(a["queries"], a["keys"], a["causal"], a["candidates"])
    out = np.zeros((*q.shape[:3], v.shape[-1]))
    for first in range(0, a["queries"], SOME):
        some = slice(first, first + SOME)
        s = a["scale"] * q[:, :, some] @ k.transpose(0, 1, 3, 2)
        if bias is not None:
            s = s + f64(bias)[:, :, some]
        reads = np.broadcast_to(read[some], s.shape) & (s != -np.inf)
        if mask is not None:
            reads = reads & ((f64(mask)[:, None, None] if mask.ndim == 2 else f64(mask)[:, None, some]) != 0)
        if a["form"] == SILU:
            w = np.where(reads, s / (1 + np.exp(-s)) / a["divisor"], 0)
        else:
            e = np.exp(np.where(reads, s - np.max(np.where(reads, s, -1e300), -1, keepdims=True), -np.inf))
            total = e.sum(-1, keepdims=True)
            w = np.where(total == 0, a["mean_of_none"] / a["keys"], e / np.where(total == 0, 1, total))
        used = np.where((w != 0).any((1, 2))[:, None, :, None], v, 0)  # what no query reads may be NaN
        out[:, :, some] = w @ used
    out = out.transpose(0, 2, 1, 3).reshape(len(q), a["queries"], a["heads"] * v.shape[-1])
    return out * (f64(mask) != 0)[..., None] if a["counted"] else out


def along(line, queries, keys):
    """A relative bias [.., queries + keys - 1] as [.., queries, keys]."""
    return line[..., np.arange(keys) - np.arange(queries)[:, None] + queries - 1]


def case(rec, rng, name, rows, heads, queries, keys, dim, value_dim, mask=None, bias=None, left_out=np.nan, shift=0, **more):
    """`bias`: None, "pairs", "relative", each also "heads ..", constants. Keys that a mask leaves out for all queries hold `left_out`.
    shift: of the values; means of many that have none are all rounding."""
    a = attributes(heads, queries, keys, dim, value_dim, dim ** -0.5)
    a |= {**PLAIN, **more}
    q, k, v = f32(rng, rows, queries, heads * dim), f32(rng, rows, keys, heads * dim), f32(rng, rows, keys, heads * value_dim) + np.float32(shift)
    if shift:
        k = v  # half the file
    inputs, whole = [q, k, v], None
    if mask is not None:
        a |= dict(mask_mode=NINF, mask_query=keys if mask.ndim == 3 else 0)
        inputs.append(mask)
    else:
        a |= dict(mask_mode=NONE)
    if bias is not None:
        of_heads, relative = bias.startswith("heads"), bias.endswith("relative")
        one = (queries + keys - 1,) if relative else (queries, keys)
        line = f32(rng, *((heads,) if of_heads else ()), *one)
        a |= dict(biased=1, bias=[queries - 1 if relative else 0, int(np.prod(one)) if of_heads else 0, -1 if relative else keys])
        whole = along(line, queries, keys) if relative else line
        whole = (whole if of_heads else whole[None])[None]
        inputs.append(Const(line))
    y = stream(a, q, k, v, mask, whole)
    if mask is not None and mask.ndim == 2 and not a["mean_of_none"]:
        k[mask == 0] = v[mask == 0] = left_out
    rec.add("Attention", f"{name}_r{rows}", rows, inputs, [y], a)


def record_streams(rec, rng):
    for form in (SOFTMAX, SILU):
        def one(name, *sizes, form=form, **more):
            more = {**more, **(dict(form=form, divisor=float(sizes[3])) if form == SILU else {})}
            case(rec, rng, f"{'silu' if form else 'softmax'}_{name}", *sizes, **more)
        for rows in (0, 1, 4):
            one("plain", rows, 2, 9, 9, 5, 3)
            one("causal", rows, 2, 13, 13, 3, 3, causal=1)
        one("one", 3, 1, 1, 1, 1, 1, causal=1)
        one("wide", 1, 1, 2, 5, 33, 67)
        one("sixteen_heads", 2, 16, 5, 6, 2, 3)
        one("more_keys", 2, 2, 5, 19, 4, 4, causal=1)
        one("more_queries", 2, 2, 19, 5, 4, 4, causal=1)
        one("keys513", 1, 1, 2, 513, 1, 1)
        one("causal_blocks", 1, 1, 517, 517, 1, 1, causal=1)
        one("ragged", 4, 2, 13, 13, 2, 2, mask=ragged(rng, 4, 13, last=False))
        one("ragged_causal", 4, 2, 13, 13, 2, 2, mask=ragged(rng, 4, 13, last=False), causal=1)
        one("pre_causal", 4, 2, 13, 13, 2, 2, mask=np.ascontiguousarray(ragged(rng, 4, 13, last=False)[:, ::-1]), causal=1)
        one("holes", 3, 2, 17, 17, 2, 2, mask=(rng.random((3, 17)) < 0.5).astype(np.float32), causal=1, bias="relative")
        one("counted", 4, 2, 13, 13, 2, 2, mask=ragged(rng, 4, 13, last=False), causal=1, counted=1)
        one("pairs", 3, 2, 7, 19, 2, 2, mask=(rng.random((3, 7, 19)) < 0.4).astype(np.float32))
        one("candidates", 3, 2, 17, 17, 2, 2, candidates=5)
        one("candidates_causal", 3, 2, 17, 17, 2, 2, candidates=5, causal=1, mask=ragged(rng, 3, 17))
        one("all_candidates", 2, 2, 6, 6, 3, 3, candidates=6)
        for bias in ("pairs", "relative", "heads pairs", "heads relative"):
            one(f"bias_{bias.replace(' ', '_')}", 2, 3, 9, 14, 2, 2, bias=bias)
            one(f"bias_{bias.replace(' ', '_')}_causal", 2, 3, 9, 9, 2, 2, bias=bias, causal=1, candidates=2)
    for name, more in (("", {}), ("_causal", dict(causal=1)), ("_candidates", dict(candidates=3))):
        case(rec, rng, f"softmax_mean{name}", 4, 2, 13, 13, 2, 2, mask=ragged(rng, 4, 13, last=False), mean_of_none=1, **more)
    case(rec, rng, "softmax_mean_pre", 3, 1, 9, 9, 4, 37, mask=np.ascontiguousarray(ragged(rng, 3, 9, last=False)[:, ::-1]), mean_of_none=1, causal=1)
    case(rec, rng, "softmax_longest", 1, 1, 2, 16384, 1, 1, shift=3)
    infinite(rec, rng)


def infinite(rec, rng):
    """A bias of -infinity leaves out; a NaN that is read stays, one that is not does no harm."""
    for form in (SOFTMAX, SILU):
        a = attributes(2, 4, 6, 3, 3)
        a |= {**PLAIN, **dict(form=form, divisor=6.0 if form else 1.0, biased=1, bias=[0, 0, 6], mask_mode=NINF)}
        q, k, v = f32(rng, 2, 4, 6), f32(rng, 2, 6, 6), f32(rng, 2, 6, 6)
        line, mask = f32(rng, 4, 6), np.ones((2, 6), np.float32)
        line[0, :3], line[1, :], line[2, 5], mask[:, 4] = -np.inf, -np.inf, np.nan, 0
        line[3, 4] = np.nan  # of the key that is left out
        y = stream(a, q, k, v, mask, np.where(np.isnan(line), 0, line)[None, None])
        y[:, 2] = np.nan
        rec.add("Attention", f"infinite_{form}", 2, [q, k, v, mask, Const(line)], [y], a)
