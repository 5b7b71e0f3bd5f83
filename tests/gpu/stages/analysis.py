"""results.jsonl read back: the cells of the grid, the strongest peer, the targets with pass or fail. Used by table.py and report.py."""

import json
import math
import pathlib

import paper
import predict
import predict_tiers
import tiers as tier_cells

STOCK = "eager_field_copies"


def read(path):
    """Records in order; a line that a killed call left half-written is dropped."""
    records = []
    for line in pathlib.Path(path).read_text().splitlines():
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return records


def latencies(records, group=None, engine=None):
    """Timed results (ours and peers') of a group; the last of equal ones counts."""
    kept = {}
    for r in records:
        if r["what"] not in ("latency", "peer") or r["status"] != "ok" or r.get("peer_status", "ok") != "ok" or "p50_us" not in r:
            continue
        if (group and r.get("group") != group) or (engine and r.get("engine") != engine):
            continue
        kept[key_of(r) + (r["engine"], r.get("choice"), r.get("callers"), r.get("ids"))] = r
    return list(kept.values())


def key_of(r):
    return (r.get("dataset"), r.get("model"), r.get("dim"), tuple(r.get("hidden", ())), r.get("batch"), r.get("precision"))


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else float("nan")


def grid(records):
    """{(dataset, model, dim, hidden): {(engine, precision): record}}"""
    cells = {}
    for r in latencies(records, "grid"):
        cells.setdefault((r["dataset"], r["model"], r["dim"], r["hidden"][0]), {})[(r["engine"], r["precision"])] = r
    return cells


def ratios(cells, precision, field="p50_us", engine=STOCK):
    """{cell: an eager form in fp32 (the stock one) / ours at `precision`}"""
    out = {}
    for cell, found in cells.items():
        ours, eager = found.get(("dpi", precision)), found.get((engine, "fp32"))
        if ours and eager:
            out[cell] = eager[field] / ours[field]
    return out


def timelines(records):
    """{(dataset, model, dim, hidden, precision): our device us} of the grid's cells."""
    found = {}
    for r in records:
        total = (r.get("timeline") or {}).get("total_us")
        if r["what"] == "timeline" and r.get("group") == "device time" and total:
            found[r["dataset"], r["model"], r["dim"], r["hidden"][0], r["precision"]] = total
    return found


def device_ratios(records, precision):
    """{cell: stock fp32 eager's device time / ours at `precision`}: both with the rows on the GPU already."""
    cells, out = grid(records), {}
    for (*cell, p), us in timelines(records).items():
        stock = cells.get(tuple(cell), {}).get((STOCK, "fp32"), {}).get("device_us")
        if p == precision and stock:
            out[tuple(cell)] = stock / us
    return out


def strongest(records):
    """[(record of ours, its strongest peer)] at equal precision over batches."""
    ours, best = {}, {}
    for r in latencies(records, "sweep"):
        if r["engine"] == "dpi":
            ours[key_of(r)] = r
        elif key_of(r) not in best or r["p50_us"] < best[key_of(r)]["p50_us"]:
            best[key_of(r)] = r
    return [(ours[k], best[k]) for k in ours if k in best]


def op_us(record, kind):
    """Device microseconds of the ops of one kind in a timeline record; None if the device gave no timestamps."""
    ops = [op for op in record.get("profile") or [] if op.get("kind") == kind and record.get("timeline")]
    return sum(op["us_per_call"] for op in ops) if ops else None


def embedding(records):
    """{batch: {"dpi": us, "eager_field": us, ...}}: device time of the lookup alone, d = 32, 39 fields."""
    table = {}
    for r in records:
        if r["what"] == "peer" and r.get("group") == "embedding" and "device_us" in r:
            table.setdefault(r["batch"], {})[r["engine"]] = r["device_us"]
        elif r["what"] == "timeline" and r.get("group") == "embedding" and r["status"] == "ok":
            us = op_us(r, "MultiLookup")
            if us is not None:
                table.setdefault(r["batch"], {})["dpi"] = us
    return table


def gather_ceiling(records, row_bytes):
    """GB/s of random rows from the table nearest in size to the paper's (1 GiB), or None."""
    rates = [r["gb_s"] for r in records if r["what"] == "gather" and r.get("row_bytes") == row_bytes and r.get("table_bytes") == 1 << 30]
    return max(rates) if rates else None


def lookup_ceiling_us(records, batch):
    """What the rows of the embedding stage take a kernel that reads the same ids' rows and writes them, and does nothing else."""
    times = [r["us"] for r in records if r["what"] == "field_rows" and r.get("batch") == batch]
    return min(times) if times else None


def copy_ceiling(records):
    rates = [r["gb_s"] for r in records if r["what"] == "copy" and r.get("bytes", 0) >= 1 << 30]
    return max(rates) if rates else None


def predictions(records):
    """[(cell, precision, {"device" or "host": (predicted us, measured us, measured / predicted)})] of the cells that were measured. Stock eager's is its
    host time at fp32, under the precision "stock eager"."""
    expected, measured = predict.read(), {}
    for r in latencies(records, "grid"):
        cell = (r["dataset"], r["model"], r["dim"], r["hidden"][0])
        if r["engine"] == "dpi":
            measured.setdefault((*cell, r["precision"]), {})["host"] = r["p50_us"]
        elif (r["engine"], r["precision"]) == (STOCK, "fp32"):
            measured.setdefault((*cell, "stock eager"), {})["host"] = r["p50_us"]
    for key, us in timelines(records).items():
        measured.setdefault(key, {})["device"] = us
    rows = []
    for (*cell, precision), found in sorted(measured.items()):
        known = expected.get((*cell, "fp32" if precision == "stock eager" else precision))
        if known:
            of = {"device": known["device_us"], "host": known["stock_eager_fp32_us" if precision == "stock eager" else "host_us"]}
            rows.append((tuple(cell), precision, {k: (of[k], us, us / of[k]) for k, us in found.items()}))
    return rows


def prediction_summary(records):
    """[(what, cells, median of measured / predicted, least, largest)]"""
    groups = {}
    for _, precision, found in predictions(records):
        for what, (_, _, ratio) in found.items():
            groups.setdefault(f"{precision}, {what}", []).append(ratio)
    return [(what, len(r), sorted(r)[len(r) // 2], min(r), max(r)) for what, r in groups.items()]


def _grid_targets(records):
    cells = grid(records)
    for precision, target in paper.HOST_TARGET.items():
        got = ratios(cells, precision)
        mean = geometric_mean(list(got.values()))
        yield (f"host to host: geometric mean over stock eager, {precision}, {len(got)} of 48 cells", f"{target:g}x", f"{mean:.2f}x" if got else None,
               bool(got) and mean >= target and len(got) == 48)
        on_device, least = device_ratios(records, precision), paper.DEVICE_TARGET[precision]
        mean = geometric_mean(list(on_device.values()))
        yield (f"on the device: geometric mean over stock eager, {precision}, {len(on_device)} cells", f"{least:g}x", f"{mean:.2f}x" if on_device else None,
               bool(on_device) and mean >= least)
        if precision != "fp32":
            continue
        below = [c for c, ratio in got.items() if c[2:] in paper.SIZES and ratio < paper.cell(*c)]
        names = "; ".join(f"{c[1]} {c[0]} {c[2]}_{c[3]}" for c in below[:3])
        yield "no cell below the paper's own ratio, fp32", "0 cells", f"{len(below)} below {names}" if got else None, bool(got) and not below


def _field_target(records):
    """Eager PyTorch without the stock code's copy and cast of each field."""
    got = list(ratios(grid(records), "fp32", engine="eager_field").values())
    mean = geometric_mean(got)
    yield (f"host to host: geometric mean over eager with one copy, fp32, {len(got)} of 48 cells", f"{paper.FIELD_TARGET:g}x", f"{mean:.2f}x" if got else None,
           bool(got) and mean >= paper.FIELD_TARGET and len(got) == 48)


def _strongest_target(records):
    pairs = [(o, p) for o, p in strongest(records) if 64 <= o["batch"] <= 16384]
    got = [p["p50_us"] / o["p50_us"] for o, p in pairs]
    mean = geometric_mean(got)
    yield (f"strongest peer at equal precision, batch 64 to 16384, {len(got)} pairs", f"{paper.STRONGEST_TARGET:g}x",
           f"{mean:.2f}x mean, {min(got):.2f}x least" if got else None, bool(got) and mean >= paper.STRONGEST_TARGET)


def _embedding_targets(records):
    stage = embedding(records)
    row = stage.get(2048, {})
    both = "dpi" in row and "eager_field" in row and row["dpi"] > 0
    ratio = row["eager_field"] / row["dpi"] if both else None
    yield ("embedding stage over one table per field, batch 2048", f"{paper.EMBEDDING_TARGET:g}x", f"{ratio:.1f}x" if both else None,
           both and ratio >= paper.EMBEDDING_TARGET)
    ceiling, us = lookup_ceiling_us(records, 65536), stage.get(65536, {}).get("dpi")
    share = ceiling / us if ceiling and us else None
    yield ("lookup at batch 65536, share of a kernel that only copies its rows", f"{paper.GATHER_TARGET:.0%}", f"{share:.0%}" if share else None,
           bool(share) and share >= paper.GATHER_TARGET)


def _small_targets(records):
    for precision in ("fp16", "tf32"):
        found = [r["p50_us"] for r in latencies(records, "sweep", "dpi")
                 if r["batch"] == 64 and r["precision"] == precision and r["dim"] == 16]
        yield (f"p50 host to host at batch 64, {precision}, {len(found)} models", f"{paper.SMALL_TARGET_US:g} us", f"{max(found):.1f} us worst" if found else None,
               bool(found) and max(found) < paper.SMALL_TARGET_US)


def tiers(records):
    """{cell of predict_tiers.cells(): record}; the last of equal ones counts."""
    return {tier_cells.key(r): r for r in records if r["what"] == "tier" and r["status"] == "ok"}


def tier_share(found, level):
    """Rows a second with the goal's tables and ids over those of resident tables, each at its best number of callers; None where one is missing."""
    zipf, part = tier_cells.GOAL

    def best(way, of):
        return max((r["rows_per_s"] for (l, w, p, z, batch, _), r in found.items() if (l, w, p, z, batch) == (level, way, of, zipf, tier_cells.ROWS)), default=None)
    ours, resident = best("cached", part), best("resident", 0)
    return ours / resident if ours and resident else None


def tier_targets(records):
    zipf, part = tier_cells.GOAL
    share = tier_share(tiers(records), "model")
    yield (f"rows/s with tables {part} times the device cache, Zipf({zipf}), of all resident", f"{tier_cells.GOAL_SHARE:.0%}", f"{share:.0%}" if share else None,
           bool(share) and share >= tier_cells.GOAL_SHARE)


def tier_predictions(records):
    """[(cell, record, (hit rate, us, rows a second) as predicted)] of the cells that were measured."""
    expected = predict_tiers.read()
    return [(cell, r, expected[cell]) for cell, r in tiers(records).items() if cell in expected]


def targets(records):
    """[(what, target, measured text or None, passed)]"""
    return [t for part in (_grid_targets, _field_target, _strongest_target, _embedding_targets, _small_targets, tier_targets) for t in part(records)]


def failures(records):
    return [r for r in records if r.get("counts") == "failure"]


def tally(records, what):
    """{status: count} of one kind of record."""
    counts = {}
    for r in records:
        if r["what"] == what:
            status = r.get("peer_status", r["status"])
            counts[status] = counts.get(status, 0) + 1
    return counts
