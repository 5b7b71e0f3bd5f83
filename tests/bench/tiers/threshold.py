"""Option store.resident_bytes: what a call and the memory cost when tables above this size are tiered."""

from . import bundles, hits, machine, models, timing

VALUES = [0, 1 << 16, 1 << 20, 1 << 24, 1 << 26]


def _memory(model):
    return model.report()["memory"]["tables_host_bytes"]  # the tier among them


def run(a):
    shape, mlp = bundles.criteo(min(a.keys, 20_000_000), a.dim, a.dtype), a.mlps[-1]
    rows = max(a.batches) if a.keys < 1e6 else 1024
    batches = hits.batches_of(shape, True, rows, min(hits.SLICES, 32 * rows))
    with models.removed(a.folder / "threshold.h5") as path:
        bundles.write(path, shape, bundles.MLPS[mlp], a.progress)
        with models.load(path, rows) as resident:
            for value in VALUES:
                large = [f for f in range(shape.fields) if shape.field_rows[f] * shape.row_bytes > value]
                options = {"store.host_bytes": models.tier_bytes(shape, large), "store.resident_bytes": value}
                with models.load(path, rows, **options) as tiered:
                    pair = {"resident": resident, "tiered": tiered}
                    models.same_scores(pair, batches)
                    times = timing.in_turns({n: models.caller(m, rows) for n, m in pair.items()}, batches, a.seconds)
                    one = {"resident_bytes": value, "tables": len(large), "ratio": timing.ratio(times["tiered"], times["resident"]),
                           "memory": _memory(tiered), "resident_memory": _memory(resident), "batch": rows, "load": machine.load()}
                    a.tell("threshold", one, f"store.resident_bytes {value:9}: {len(large):2} of {shape.fields} tables tiered, x "
                           f"{one['ratio'][0]:.3f}, {one['memory'] / 1e9:.3f} GB for {one['resident_memory'] / 1e9:.3f} GB of rows")
