"""A table set on disk behind a host tier of a twelfth of it: Zipf(1.05), policy exact, page cache warm and cold.

Beside each call stands a resident one of the same shape and draw, its row numbers folded into as many bytes as the tier has."""

import numpy as np

from . import bundles, machine, models, timing
from .draws import Draws, best_hit_rate, hot_keys

TURN = 8  # calls of one model before the other's


def _warm_up(a, model, draws):
    """Calls until the hit rate stands still or the time is up; the counters of the last stretch."""
    stretch, last, rows = [], 0.0, max(a.batches)
    call = models.caller(model, rows)
    end = a.clock() + a.warm_up
    while a.clock() < end:
        since = models.Since(model)
        for _ in range(24):
            call(*draws.next(rows))
        rate = since.count()["hit_rate"]
        stretch.append(rate)
        if len(stretch) % 8 == 0:
            a.progress(f"warming up: {len(stretch) * 24} calls, hit rate {rate:.4f}")
            if rate - last < 0.0005:
                break
            last = rate
    return stretch


def _turns(a, path, pair, draws, folded, rows, cold):
    """Times of both in turns, and the tiered one's counters. A cold turn begins without page cache."""
    times = {"resident": timing.Times(), "tiered": timing.Times()}
    calls = {n: models.caller(m, rows) for n, m in pair.items()}
    since, missed = models.Since(pair["tiered"]), []
    end = a.clock() + a.seconds * 4
    while a.clock() < end or len(missed) < 3:
        batches = [draws.next(rows) for _ in range(TURN)]
        if cold:
            machine.drop_page_cache(path)
        before = models.counters(pair["tiered"])
        for name in ("resident", "tiered"):
            first = len(times[name].wall)
            for ids, dense in batches:
                ids = np.ascontiguousarray(ids % folded) if name == "resident" else ids
                wall, cpu = timing.timed(calls[name], ids, dense)
                times[name].wall.append(wall)
                times[name].cpu.append(cpu)
            times[name].end_round(first)
        missed.append(models.counters(pair["tiered"])["fetched"] - before["fetched"])
    return times, since.count()


def _goals(one, reads, multiget_us):
    """What the call may cost by RocksDB's own time for its misses, and the rows a second that the disk allows."""
    misses, rows = one["misses_per_call"], one["batch"]
    resident, tiered = one["resident"]["wall_p50_us"], one["tiered"]["wall_p50_us"]
    if multiget_us is not None:
        one["allowed_us"] = resident + 1.2 * misses * multiget_us
        one["of_allowed"] = tiered / one["allowed_us"]
    one["rows_per_s"], one["resident_rows_per_s"] = rows / tiered * 1e6, rows / resident * 1e6
    if reads and misses > 0:
        bound = min(one["resident_rows_per_s"], max(reads.values()) / (misses / rows))
        one["disk_rows_per_s"], one["of_disk"] = bound, one["rows_per_s"] / bound
    return one


def _tell(a, one):
    a.tell("disk", one, f"{one['set']:9} {one['page_cache']:4} {one['threads']:2} fetch threads, MLP {one['mlp']} batch {one['batch']:5}  "
           f"{one['resident']['wall_p50_us']:9.0f} -> {one['tiered']['wall_p50_us']:9.0f} us (p99 {one['tiered']['wall_p99_us']:.0f})  "
           f"hits {one['hit_rate']:.4f} of {one['best_hit_rate']:.4f}  {one['misses_per_call']:.0f} misses a call  "
           f"of RocksDB's bound {one.get('of_allowed', float('nan')):.2f}, of the disk's {one.get('of_disk', float('nan')):.2f}  "
           f"load {one['load']:.1f}")


def _places(a, shape):
    return a.host_bytes / (models.stride(shape.row_bytes) + models.TIER_ROW)


def _measure(a, name, shape, path, pair, threads, draws, reads):
    places = _places(a, shape)
    folded = shape.folded(a.host_bytes // shape.row_bytes).field_rows
    for cold in (False, True):
        for rows in a.batches:
            times, count = _turns(a, path, pair, draws, folded, rows, cold)
            calls = len(times["tiered"].wall)
            one = {"set": name, "mlp": a.mlps[-1], "page_cache": "cold" if cold else "warm", "threads": threads, "batch": rows,
                   "rows": sum(shape.rows), "resident": times["resident"].summary(), "tiered": times["tiered"].summary(),
                   "hit_rate": count["hit_rate"], "best_hit_rate": best_hit_rate(shape, places),
                   "misses_per_call": count["fetched"] / calls, "reads": reads, "fetch_us": models.fetch_us(pair["tiered"]),
                   "cached": machine.cached_share(path), "load": machine.load()}
            _tell(a, _goals(one, reads, a.multiget_us))


def _check(a, path, shape, tiered, draws):
    """Against all rows resident, where memory has room for them."""
    if not a.check_disk:
        a.progress("scores of the table set on disk are not compared: --check-disk loads all of it")
        return
    with models.load(path, max(a.batches)) as whole:
        compared = models.same_scores({"resident": whole, "tiered": tiered}, [draws.next(max(a.batches)) for _ in range(8)])
    a.progress(f"{compared} scores of the table set on disk are those of resident tables, to the bit")


def _set(a, name, shape):
    mlp = bundles.MLPS[a.mlps[-1]]
    small = shape.folded(a.host_bytes // shape.row_bytes)
    with models.removed(a.folder / "set.h5") as path, models.removed(a.folder / "folded.h5") as folded:
        bundles.write(path, shape, mlp, a.progress, hot_keys(shape, _places(a, shape)) if a.hot_list else ())
        bundles.write(folded, small, mlp, a.progress)
        reads = machine.random_reads(a.bench_folder / "disk_bench", path, min(1, a.seconds))
        a.tell("reads", {"set": name, "reads": reads}, f"{name}: random 4 KB reads a second by threads: {reads}")
        for threads in a.fetch_threads:
            a.progress(f"loading {name} behind {a.host_bytes / 1e9:.2f} GB, {threads} fetch threads")
            options = models.tier_options(shape, range(shape.fields), a.host_bytes, **{"store.fetch_threads": threads, **a.fetch_options})
            with models.load(path, max(a.batches), **options) as tiered, models.load(folded, max(a.batches)) as resident:
                draws = Draws(shape.field_rows, True, bundles.DENSE, seed=11)
                _check(a, path, shape, tiered, draws)
                rates = _warm_up(a, tiered, draws)
                a.tell("warm_up", {"set": name, "hit_rates": rates}, f"{name}: hit rate {rates[0]:.4f} -> {rates[-1]:.4f} in "
                       f"{24 * len(rates)} calls of {max(a.batches)}")
                _measure(a, name, shape, path, {"resident": resident, "tiered": tiered}, threads, draws, reads)


def run(a):
    rows = a.disk_bytes // (a.dim * bundles.BYTES[a.dtype])
    for name, make in (("26 tables", bundles.criteo), ("one table", bundles.one_table)):
        if name in a.sets:
            _set(a, name, make(rows, a.dim, a.dtype))
