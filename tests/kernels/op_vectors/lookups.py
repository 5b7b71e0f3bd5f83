"""Embed, Mask and MultiLookup as weights/FORMAT.md part 7 and the kernel headers define them, row by row in float64."""
import numpy as np

from recorder import Bags, Table

SINGLE, NONE, SUM, MEAN, MAX = range(5)
LENGTH, ID, NONZERO, NO_MASK = range(4)
POST, PRE = range(2)


def embed_attrs(**k):
    attrs = dict(pooling=SINGLE, mask=LENGTH, pad_side=POST, pad_id=0, max_len=0, eps=0.0, empty=0.0)
    attrs.update(k)
    attrs["eps"], attrs["empty"] = float(np.float32(attrs["eps"])), float(np.float32(attrs["empty"]))
    return attrs


def laid_out(bag, a):
    pad = [a["pad_id"]] * (a["max_len"] - len(bag))
    return pad + list(bag) if a["pad_side"] == PRE else list(bag) + pad


def pooled(bag, weights, table, a):
    """One row of an Embed."""
    e = table.values
    if a["pooling"] == SINGLE:
        return e[bag[0]]
    if a["pooling"] == NONE:
        return e[laid_out(bag, a)]
    ids = list(bag)
    w = list(weights) if weights is not None else [1.0] * len(ids)
    if a["mask"] == NO_MASK:
        n_pad = a["max_len"] - len(ids)
        ids, w = ids + [a["pad_id"]] * n_pad, w + [1.0] * n_pad
    counted = [True] * len(ids)
    if a["mask"] == ID:
        counted = [i != a["pad_id"] for i in ids]
    if a["mask"] == NONZERO:
        counted = [bool(table.is_nonzero(i)) for i in ids]
    if a["pooling"] == MAX:
        rows = [e[i] for i, c in zip(ids, counted) if c]
        return np.max(rows, axis=0) if rows else np.full(table.dim, a["empty"])
    in_sum = [c or a["mask"] == NONZERO for c in counted]
    total = sum((w[t] * e[ids[t]] for t in range(len(ids)) if in_sum[t]), np.zeros(table.dim))
    if a["pooling"] == SUM:
        return total
    divisor = sum(w[t] for t in range(len(ids)) if counted[t])
    return total / (divisor + a["eps"]) if any(counted) else np.zeros(table.dim)


def embed(bags, table, a):
    shape = (a["max_len"], table.dim) if a["pooling"] == NONE else (table.dim,)
    rows = [pooled([b] if bags.single else b, None if bags.weights is None else bags.weights[r], table, a)
            for r, b in enumerate(bags.bags)]
    return np.array(rows, np.float64).reshape((len(bags),) + shape)


def random_bags(rng, rows, n_ids, longest, weighted=False):
    """Bags of 0 .. longest ids; the first is empty, the second as long as can be, duplicates and pad ids (0) occur."""
    sizes = rng.integers(0, longest + 1, rows)
    sizes[:2] = [0, longest][:rows]
    bags = [rng.integers(0, n_ids, n).tolist() for n in sizes]
    weights = [rng.uniform(0.25, 2, n).astype(np.float32).tolist() for n in sizes] if weighted else None
    return Bags(bags, weights)


def tricky_table(rng, rows, dim, dtype="f32"):
    """Row 1 is zero, row 2 cancels exactly, row 3 cancels in float32 only."""
    values = rng.normal(size=(rows, dim)).astype(np.float32)
    values[1] = 0
    if dim >= 3 and dtype == "f32":
        values[2] = 0
        values[2, :2] = [1, -1]
        values[3] = 0
        values[3, :3] = [1e8, 1, -1e8]
    if dtype == "f16":
        values[2] *= 1e-6  # subnormal in binary16
    return Table(values, dtype)


def record_embed(rec, rng):
    for rows in (0, 1, 31, 32, 33):
        for dtype, dim in (("f32", 1), ("f32", 16), ("f16", 7), ("bf16", 33), ("i8", 8)):
            table = tricky_table(rng, 19, dim, dtype)
            bags = Bags(rng.integers(0, 19, rows).tolist(), single=True)
            a = embed_attrs()
            rec.add("Embed", f"single_{dtype}_d{dim}_r{rows}", rows, [bags], [embed(bags, table, a)], a, tables=[table])
    forms = [("sum", dict(pooling=SUM)), ("sum_id", dict(pooling=SUM, mask=ID)),
             ("sum_padding", dict(pooling=SUM, mask=NO_MASK, max_len=5, pad_id=4)),
             ("mean", dict(pooling=MEAN)), ("mean_id", dict(pooling=MEAN, mask=ID, eps=1e-8)),
             ("mean_nonzero", dict(pooling=MEAN, mask=NONZERO, eps=1e-12, max_len=5)),
             ("sum_nonzero", dict(pooling=SUM, mask=NONZERO)),
             ("mean_padding", dict(pooling=MEAN, mask=NO_MASK, max_len=5, pad_side=PRE)),
             ("max", dict(pooling=MAX, empty=-2.5)), ("max_id", dict(pooling=MAX, mask=ID, empty=-1e9)),
             ("max_padding", dict(pooling=MAX, mask=NO_MASK, max_len=5)),
             ("laid_out", dict(pooling=NONE, max_len=5)), ("laid_out_pre", dict(pooling=NONE, max_len=5, pad_side=PRE, pad_id=3))]
    for name, form in forms:
        for rows, dim, dtype in ((0, 8, "f32"), (1, 3, "f32"), (33, 31, "f32"), (31, 16, "f16"), (7, 5, "i8")):
            table = tricky_table(rng, 11, dim, dtype)
            bags = random_bags(rng, rows, 11, 5)
            a = embed_attrs(**form)
            rec.add("Embed", f"{name}_{dtype}_d{dim}_r{rows}", rows, [bags], [embed(bags, table, a)], a, tables=[table])
    for name, form in forms[:2] + forms[3:7]:
        table = tricky_table(rng, 11, 17)
        bags = random_bags(rng, 13, 11, 6, weighted=True)
        a = embed_attrs(**form)
        rec.add("Embed", f"{name}_weighted", 13, [bags], [embed(bags, table, a)], a, tables=[table])


def record_row_types(rec, rng):
    """i4, i2 and fp8."""
    for dtype in ("i4", "i2", "fp8"):
        for rows, dim in ((0, 4), (1, 1), (7, 3), (31, 16), (32, 17), (33, 33)):
            table = tricky_table(rng, 19, dim, dtype)
            bags = Bags(rng.integers(0, 19, rows).tolist(), single=True)
            a = embed_attrs()
            rec.add("Embed", f"single_{dtype}_d{dim}_r{rows}", rows, [bags], [embed(bags, table, a)], a, tables=[table])
            for name, form in (("sum", dict(pooling=SUM)), ("mean_id", dict(pooling=MEAN, mask=ID, eps=1e-8)), ("max", dict(pooling=MAX, empty=-2.5)),
                               ("mean_nonzero", dict(pooling=MEAN, mask=NONZERO, eps=1e-12, max_len=5)), ("laid_out", dict(pooling=NONE, max_len=5))):
                bags, a = random_bags(rng, rows, 19, 5), embed_attrs(**form)
                rec.add("Embed", f"{name}_{dtype}_d{dim}_r{rows}", rows, [bags], [embed(bags, table, a)], a, tables=[table])
        bags, a = random_bags(rng, 9, 19, 6, weighted=True), embed_attrs(pooling=SUM)
        rec.add("Embed", f"sum_weighted_{dtype}", 9, [bags], [embed(bags, table, a)], a, tables=[table])


def record_mask(rec, rng):
    for rows in (0, 1, 33):
        for rule in (LENGTH, ID):
            for side in (POST, PRE):
                a = dict(rule=rule, pad_side=side, pad_id=0, max_len=7)
                bags = random_bags(rng, rows, 3, 7)
                out = np.zeros((rows, 7))
                for r, bag in enumerate(bags.bags):
                    valid = laid_out([1] * len(bag), dict(a, pad_id=0))
                    ids = laid_out(bag, a)
                    out[r] = [v == 1 and (rule == LENGTH or i != 0) for v, i in zip(valid, ids)]
                rec.add("Mask", f"rule{rule}_side{side}_r{rows}", rows, [bags], [out], a)
        x = rng.normal(size=(rows, 5, 3)).astype(np.float32)
        x[:, 1] = 0
        x[:, 2] = [1, -1, 0]
        x[:, 3] = [1e8, 1, -1e8]
        out = np.zeros((rows, 5))
        out[:, [0, 4]] = 1
        rec.add("Mask", f"nonzero_r{rows}", rows, [x], [out], dict(rule=NONZERO, pad_side=0, pad_id=0, max_len=5))


def lookup_case(rng, rows, dim):
    """A model with every role: single, pooled, FM, scalars, numerics; columns 0 and 1 stay free."""
    tables = [Table(rng.normal(size=(13, dim))), Table(rng.normal(size=(7, dim)), "f16"), Table(rng.normal(size=(5, 2))),
              Table(rng.normal(size=(13, 1)))]
    x = rng.normal(size=(rows, 1)).astype(np.float32)
    dense = rng.normal(size=(rows, 3)).astype(np.float32)
    inputs = [Bags(rng.integers(0, 13, rows).tolist(), single=True), random_bags(rng, rows, 7, 4),
              random_bags(rng, rows, 5, 3), x, dense]
    single, mean, summed = embed_attrs(), embed_attrs(pooling=MEAN, eps=1e-8), embed_attrs(pooling=SUM, mask=ID)
    fields = [dict(embed=single, input=0, table=0, out_col=2, fm=1), dict(embed=mean, input=1, table=1, out_col=2 + dim, fm=1),
              dict(embed=single, input=0, table=0, out_col=-1, fm=0)]
    scalars = [dict(embed=summed, input=2, table=2, first_channel=1, count=2), dict(embed=single, input=0, table=3, first_channel=0, count=1)]
    numerics = [dict(input=3, out_col=2 + 2 * dim, dim=dim, vec=0, coef=0, fm=1),
                dict(input=4, out_col=2 + 3 * dim, dim=3, vec=-1, coef=-1, fm=0)]
    vec, coef, bias = rng.normal(size=dim), rng.normal(size=3), rng.normal(size=3)
    vec, coef, bias = (v.astype(np.float32) for v in (vec, coef, bias))
    attrs = dict(fields=fields, scalars=scalars, numerics=numerics, n_channels=3, fm_channel=0, fm_dim=dim)
    e0, e1 = embed(inputs[0], tables[0], single), embed(inputs[1], tables[1], mean)
    xv = x.astype(np.float64) * vec.astype(np.float64)
    out = np.full((rows, 2 + 3 * dim + 3), np.nan)
    out[:, 2:] = np.concatenate([e0, e1, xv, dense.astype(np.float64)], axis=1)
    chan = np.tile(bias.astype(np.float64), (rows, 1))
    chan[:, 1:3] += embed(inputs[2], tables[2], summed)
    chan[:, 0:1] += embed(inputs[0], tables[3], single)
    chan += x.astype(np.float64) * coef.astype(np.float64)
    chan[:, 0] += (e0 * e1 + e0 * xv + e1 * xv).sum(axis=1)
    return inputs, tables, attrs, [vec, coef, bias], out, chan


def record_multi_lookup(rec, rng):
    for rows in (0, 1, 31, 33):
        for dim in (1, 7, 16):
            inputs, tables, attrs, params, out, chan = lookup_case(rng, rows, dim)
            rec.add("MultiLookup", f"all_roles_d{dim}_r{rows}", rows, inputs, [out, chan], attrs, params, tables)
    inputs, tables, attrs, params, out, _ = lookup_case(rng, 5, 8)
    plain = dict(attrs, scalars=[], n_channels=0, fm_channel=-1,
                 fields=[dict(f, fm=0) for f in attrs["fields"]],
                 numerics=[dict(n, fm=0, coef=-1) for n in attrs["numerics"]])
    rec.add("MultiLookup", "columns_only", 5, inputs, [out, None], plain, [params[0], None, None], tables)
    inputs, tables, attrs, params, _, chan = lookup_case(rng, 5, 8)
    sums = dict(attrs, fields=[dict(f, out_col=-1) for f in attrs["fields"]],
                numerics=[dict(n, out_col=-1) for n in attrs["numerics"]])
    rec.add("MultiLookup", "channels_only", 5, inputs, [None, chan], sums, params, tables)
