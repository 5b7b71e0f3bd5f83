"""T1 hits against resident tables: all rows have a place in the host tier, and calls of both take turns."""

from . import bundles, machine, models, timing
from .draws import Draws

SLICES = 131072  # rows of ids that a batch size goes round in: their buckets and rows are far more than a cache holds


def batches_of(shape, zipf, rows, most):
    ids, dense = Draws(shape.field_rows, zipf, bundles.DENSE).next(max(most, rows))
    return [(ids[i:i + rows], dense[i:i + rows]) for i in range(0, len(ids) - rows + 1, rows)]


def _cases(shape):
    return {"five largest": shape.largest(), "all": list(range(shape.fields))}


def _measure(a, shape, pair, n_tiered, batches):
    calls = {name: models.caller(m, max(a.batches)) for name, m in pair.items()}
    since = models.Since(pair["tiered"])
    times = timing.in_turns(calls, batches, a.seconds)
    count = since.count()
    r, t = times["resident"].summary(), times["tiered"].summary()
    rows = len(batches[0][0])
    return {"resident": r, "tiered": t, "ratio": timing.ratio(times["tiered"], times["resident"]), "hit_rate": count["hit_rate"],
            "ns_per_key": (t["cpu_p50_us"] - r["cpu_p50_us"]) * 1e3 / (rows * n_tiered), "load": machine.load()}


def _case(a, shape, path, mlp, name, resident):
    fields = _cases(shape)[name]
    before = machine.memory()
    a.progress(f"hits, MLP {mlp}: loading with {name} tiered")
    with models.load(path, max(a.batches), **models.tier_options(shape, fields, models.tier_bytes(shape, fields))) as tiered:
        after = machine.memory()
        pages = {"anonymous": after["anonymous"] - before["anonymous"], "huge": after["huge"] - before["huge"]}
        pair = {"resident": resident, "tiered": tiered}
        for draw in a.draws:
            for rows in a.batches:
                batches = batches_of(shape, draw == "zipf", rows, SLICES if a.keys > 1e6 else 4 * max(a.batches))
                compared = models.same_scores(pair, batches)
                one = {"mlp": mlp, "case": name, "draw": draw, "batch": rows, "keys": sum(shape.rows), "compared": compared,
                       "pages": pages, **_measure(a, shape, pair, len(fields), batches)}
                a.tell("hits", one, f"MLP {mlp:6} {name:12} {draw:7} batch {rows:5}  {one['resident']['cpu_p50_us']:9.1f} -> "
                       f"{one['tiered']['cpu_p50_us']:9.1f} us  x {one['ratio'][0]:.3f}  {one['ns_per_key']:6.1f} ns a key  "
                       f"hits {one['hit_rate']:.4f}  load {one['load']:.1f}")


def run(a):
    shape = bundles.criteo(a.keys, a.dim, a.dtype)
    for mlp in a.mlps:
        with models.removed(a.folder / f"hits_{mlp}.h5") as path:
            bundles.write(path, shape, bundles.MLPS[mlp], a.progress)
            before = machine.memory()
            with models.load(path, max(a.batches)) as resident:
                after = machine.memory()
                a.tell("pages", {"mlp": mlp, "of": "resident", "anonymous": after["anonymous"] - before["anonymous"],
                                 "huge": after["huge"] - before["huge"]},
                       f"MLP {mlp}: resident tables {(after['anonymous'] - before['anonymous']) / 1e9:.2f} GB, "
                       f"{(after['huge'] - before['huge']) / 1e9:.2f} GB in huge pages")
                for name in _cases(shape):
                    _case(a, shape, path, mlp, name, resident)
