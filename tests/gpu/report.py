#!/usr/bin/env python3
"""Turns the results of a visit into a report: README.md with tables, and plots beside it.

    tests/gpu/report.py RESULTS.jsonl... [--out FOLDER]

--out: default tests/gpu/results. Records of a dry run are reported with a mark on every page, and never into results/."""

import argparse
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "stages"))
import analysis  # noqa: E402
import paper  # noqa: E402
import report_plots  # noqa: E402
from common import PRECISIONS  # noqa: E402

RESULTS = HERE / "results"
TORCH_KEYS = ("torch", "cuda", "name", "sms", "memory", "l2", "triton", "numpy", "why")
DRY_MARK = "**DRY RUN: emulated device and CPU torch at tiny sizes. No number here says anything about a GPU.**"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(str(c) for c in row) + " |" for row in rows]) + "\n"


def us(value):
    return "-" if value is None else f"{value:,.1f}" if value < 1000 else f"{value:,.0f}"


def times(value):
    return "-" if value is None else f"{value:.2f}x"


def by_name(cell):
    return (cell[0], cell[2], cell[3], cell[1])


def machine(records):
    found = [r for r in records if r["what"] == "machine"]
    if not found:
        return "No probe in these results.\n"
    m, pack, torch = found[-1], *(next((r for r in reversed(records) if r["what"] == what), {}) for what in ("pack", "torch"))
    rows = [("GPU", ", ".join(f"{k} {v}" for k, v in m["gpu"].items())), ("torch", ", ".join(f"{k} {torch[k]}" for k in TORCH_KEYS if k in torch)),
            ("host", f"{m['cpus']} processors, kernel {m['kernel']}, Python {m['python']}"), ("nvcc", " ".join(m["nvcc"]) or "none"),
            ("pack", f"commit {pack.get('commit')}, changed since: {pack.get('changed')}, nvcc {pack.get('nvcc') or 'none'}")]
    clocks = [r for r in records if r["what"] == "clocks"]
    rows += [(f"clocks {r['when']}", f"SM {r.get('clocks.sm')}, memory {r.get('clocks.mem')}, {r.get('temperature.gpu')} C") for r in clocks]
    return table(("what", "is"), rows)


def targets(records):
    rows = [(what, target, measured or "not measured", "pass" if passed else "-" if measured is None else "**missed**")
            for what, target, measured, passed in analysis.targets(records)]
    return table(("what", "target", "measured", ""), rows)


def correctness(records):
    checks = [r for r in records if r["what"] == "check"]
    rows = []
    for precision in PRECISIONS:
        mine = [r for r in checks if r.get("variant", "").startswith(precision + ",") or precision == "fp32" and "," not in r.get("variant", ",")]
        counts = {s: sum(r["status"] == s for r in mine) for s in ("ok", "wrong", "unstable", "unsupported", "failed")}
        worst = [r["worst"] for r in mine if isinstance(r.get("worst"), float)]
        rows.append((precision, len(mine), *counts.values(), f"{max(worst):.1e}" if worst else "-"))
    text = table(("precision", "checks", "ok", "wrong", "unstable bits", "unsupported", "failed", "largest error of a logit / (1 + abs)"), rows)
    rows = [(r["model"], r.get("precision", "all"), r["status"], r.get("cpu", "-"), "-" if r.get("auc") is None else f"{r['auc'] - r['cpu']:+.1e}")
            for r in records if r["what"] == "auc gate"]  # a skipped one has no numbers
    text += "\n" + table(("AUC of the demo", "precision", "gate", "cpu backend", "difference"), rows)
    rows = [(r["what"], r.get("attempt", ""), r["status"], r.get("report", "")) for r in records if r["stage"] in ("A2", "A3") and r["what"] not in ("check", "auc gate")]
    return text + "\n" + table(("program or tool", "pass", "status", "report"), rows)


def ceilings(records):
    rows = []
    for r in records:
        if r["what"] == "gemm":
            rows.append((f"GEMM {r['m']} x {r['k']} x {r['n']}, {r['precision']}", us(r["us"]), f"{r['tflops']:.1f} TFLOP/s"))
        elif r["stage"] == "A4" and "us" in r:
            label = ", ".join(f"{k} {r[k]}" for k in ("table_bytes", "row_bytes", "bytes", "nodes", "forked") if k in r)
            rows.append((f"{r['what']}: {label}", us(r["us"]), f"{r['gb_s']:.1f} GB/s" if "gb_s" in r else ""))
    expected = ", ".join(f"{k} {v}" for k, v in paper.CEILINGS.items())
    return f"Expected before measuring: {expected}.\n\n" + table(("ceiling", "us", "rate"), rows)


def grid(records):
    cells = analysis.grid(records)
    rows = []
    for cell in sorted(cells, key=by_name):
        found = cells[cell]
        stock = found.get((analysis.STOCK, "fp32"))
        known = cell[2:] in paper.SIZES
        row = [f"{cell[0]} {cell[2]}_{cell[3]}", cell[1], us(stock and stock["p50_us"])]
        for precision in ("fp32", "tf32", "fp16"):
            ours = found.get(("dpi", precision))
            row.append(us(ours and ours["p50_us"]) + (f" ({times(stock['p50_us'] / ours['p50_us'])})" if ours and stock else ""))
        for precision in ("fp32", "fp16"):
            graph = found.get(("graph_merged", precision))
            row.append(us(graph and graph["p50_us"]))
        row += [f"{ratio:.2f}x" for ratio in paper.published(*cell).values()] if known else ["-"] * len(paper.BASELINES)
        rows.append(row)
    summary = []
    for precision in ("fp32", "tf32", "fp16", "bf16"):
        got = list(analysis.ratios(cells, precision).values())
        if got:
            summary.append((precision, len(got), times(analysis.geometric_mean(got)), times(sum(got) / len(got)), times(max(got)), times(min(got)),
                            f"{paper.PREDICTED_RATIO.get(precision, '-')}x"))
    over = []
    for engine, precision in ((e, p) for p in ("fp32", "tf32", "fp16") for e in ("eager_field", "eager_merged", "graph_merged", "graph_triton")):
        got = [f[(engine, precision)]["p50_us"] / f[("dpi", precision)]["p50_us"] for f in cells.values() if {(engine, precision), ("dpi", precision)} <= set(f)]
        if got:
            over.append((engine, precision, len(got), times(analysis.geometric_mean(got)), times(max(got)), times(min(got))))
    return ("p50 in us, batch 2048, from int64 ids in pageable host memory to float32 scores in host memory, the same for every engine; in brackets "
            "the speed-up over stock eager in fp32 (one table, one copy and one cast per field). `paper over`: DPIFrame's own ratios over PyTorch "
            f"and three engines that are not run here, {paper.PUBLISHED_ON}.\n\n" +
            table(("over stock eager fp32", "cells", "geometric mean", "mean", "largest", "least", "predicted"), summary) + "\n" +
            table(("ours over, at equal precision", "precision", "cells", "geometric mean", "largest", "least"), over) + "\n" +
            table(("cell", "model", "stock eager", "ours fp32", "ours tf32", "ours fp16", "captured merged fp32", "captured merged fp16",
                   *(f"paper over {name}" for name in paper.BASELINES)), rows))


def predictions(records):
    found = analysis.predictions(records)
    if not found:
        return "No cell of the grid in these results.\n"
    rows = [(f"{cell[0]} {cell[2]}_{cell[3]}", cell[1], precision,
             *(text for k in ("device", "host") for text in ((us(made[k][0]), us(made[k][1]), f"{made[k][2]:.2f}") if k in made else ("-", "-", "-"))))
            for cell, precision, made in found]
    summary = [(what, n, *(f"{v:.2f}" for v in values)) for what, n, *values in analysis.prediction_summary(records)]
    return ("us. predictions.csv was computed before any measurement, by the formula that stages/predict.py states; device time is from the first op's "
            "start to the last one's end, without graphs.\n\n" + table(("measured / predicted", "cells", "median", "least", "largest"), summary) + "\n" +
            table(("cell", "model", "precision", "device predicted", "measured", "ratio", "host predicted", "measured", "ratio"), rows))


def batches(records):
    rows = []
    for ours, peer in sorted(analysis.strongest(records), key=lambda p: (p[0]["model"], p[0]["precision"], p[0]["batch"])):
        rows.append((ours["model"], ours["precision"], ours["batch"], us(ours["p50_us"]), us(ours["p95_us"]), us(ours["p99_us"]), us(peer["p50_us"]),
                     peer["engine"], times(peer["p50_us"] / ours["p50_us"]), us(peer.get("device_us"))))
    alone = [r for r in analysis.latencies(records, "sweep", "dpi") if r["dim"] != 16]
    more = [(r["model"], f"d{r['dim']} {r['hidden']}", r["precision"], r["batch"], us(r["p50_us"]), us(r["p95_us"]), us(r["p99_us"])) for r in alone]
    large = [(r["precision"], r["batch"], us(r["p50_us"]), us(r["p95_us"]), us(r["p99_us"])) for r in analysis.latencies(records, "large")]
    callers = [(r["precision"], r["callers"], us(r["p50_us"]), us(r["p99_us"]), f"{r['rows_per_s']:,.0f}") for r in analysis.latencies(records, "callers")]
    return (table(("model", "precision", "batch", "ours p50", "p95", "p99", "strongest peer p50", "which", "ratio", "its device time"), rows) +
            ("\nLarger models, ours alone:\n\n" + table(("model", "size", "precision", "batch", "p50", "p95", "p99"), more) if more else "") +
            "\nDeepFM, 33.8 million rows, uniform ids:\n\n" + table(("precision", "batch", "p50", "p95", "p99"), large) +
            "\nSeveral callers at once:\n\n" + table(("precision", "callers", "p50", "p99", "rows/s"), callers))


def running(records):
    """What was chosen where: graphs, the small-batch kernel, implementations."""
    rows = []
    for r in analysis.latencies(records, "grid", "dpi") + analysis.latencies(records, "sweep", "dpi"):
        found = r.get("chosen") or {}
        if found and r["hidden"][0] in (8, 400, 512):
            graphs, small = found.get("graphs") or {}, found.get("small_batch") or {}
            rows.append((f"{r['model']} {r['dataset']} {r['dim']}_{r['hidden'][0]}", r["precision"], graphs.get("why_off") or graphs.get("on"),
                         str(small.get("report", "-"))[:120], "; ".join(o.split(";")[0] for o in found.get("ops", []))[:400]))
    return table(("model", "precision", "graphs", "small batch", "implementations"), rows)


def embedding(records):
    stage = analysis.embedding(records)
    engines = sorted({e for row in stage.values() for e in row})
    return ("Device time of the lookup alone, us, Criteo, d = 32, uniform ids.\n\n" +
            table(("batch", *engines), [(b, *(us(stage[b].get(e)) for e in engines)) for b in sorted(stage)]))


def sweeps(records):
    """For each case of the lookup sweep the fastest implementation and the runner-up; for Dense the fastest."""
    cases, rows = {}, []
    for r in records:
        cell = r.get("cell") or {}
        if r["what"] == "dpi_gpu_lookup" and r["status"] == "ok" and "variant" in cell:
            cases.setdefault(tuple(cell[k] for k in ("dim", "table", "out", "table_rows", "rows", "sums", "ids")), []).append(cell)
        elif r["what"] == "dpi_gpu_tune" and "best" in cell:
            rows.append([cell[k] for k in ("precision", "end", "in", "out", "rows", "best")] + [us(cell["us"]), us(cell["own_us"]), cell["tflops"]])
    lookups = []
    for case, found in cases.items():
        found.sort(key=lambda c: c["us"])
        second = found[1] if len(found) > 1 else {"variant": "-", "us": None}
        lookups.append((*case, found[0]["variant"], us(found[0]["us"]), found[0]["gb_per_s"], second["variant"], us(second["us"])))
    return (table(("dim", "tables", "out", "table rows", "rows", "sums", "ids", "fastest", "us", "GB/s", "next", "us"), lookups) + "\n" +
            table(("precision", "end", "in", "out", "rows", "fastest", "us", "best own", "TFLOP/s"), rows))


def choices(records, group):
    """Ablation, schedules or the ways of few rows: each choice over the first one of its model, batch and precision."""
    found = analysis.latencies(records, group, "dpi")
    models = sorted({(r["precision"], r["model"], r["batch"]) for r in found})
    names = list(dict.fromkeys(r["choice"] for r in found))
    rows = []
    for name in names:
        row = [name]
        for key in models:
            mine = {r["choice"]: r for r in found if (r["precision"], r["model"], r["batch"]) == key}
            base = mine.get(names[0])
            row.append(f"{us(mine[name]['p50_us'])} ({mine[name]['p50_us'] / base['p50_us']:.2f})" if name in mine and base else "-")
        rows.append(row)
    return "p50 in us, in brackets over the first line.\n\n" + table(("choice", *(f"{p} {m} {b}" for p, m, b in models)), rows)


def tiers(records):
    found = analysis.tier_predictions(records)
    if not found:
        return "No cell of call C in these results.\n"
    measured = analysis.tiers(records)
    rows = []
    for cell, r, (hits, expected, rate) in found:
        level, way, part, zipf, batch, callers = cell
        base = measured.get((level, "resident", 0, zipf, batch, callers))
        rows.append((level, f"{way} 1/{part}" if part else way, zipf, batch, callers, share(r.get("hit_rate")), f"{hits:.1%}", us(r["p50_us"]), us(r["p99_us"]),
                     us(r.get("device_us")), f"{r['rows_per_s']:,.0f}", f"{rate:,.0f}", f"{r['rows_per_s'] / rate:.2f}", share(base and r["rows_per_s"] / base["rows_per_s"])))
    shares = ", ".join(f"{level}: {share(analysis.tier_share(measured, level))}" for level in ("lookup", "model"))
    zipf, part = analysis.tier_cells.GOAL
    return (f"Tables {part} times the device cache, Zipf({zipf}), rows a second over those of resident tables: {shares}; goal {analysis.tier_cells.GOAL_SHARE:.0%} of the model's. "
            "`lookup`: from row numbers in pinned memory to rows in device memory; `model`: host to host. 1/n: of the tables' bytes on the device. tiers.csv was computed "
            "before any measurement, by the formula that stages/predict_tiers.py states.\n\n" +
            table(("level", "rows lie", "Zipf", "batch", "callers", "hits", "predicted", "p50 us", "p99 us", "device us", "rows/s", "predicted", "measured / predicted",
                   "of resident"), rows))


def share(value):
    return "-" if value is None else f"{value:.1%}"


def timelines(records):
    found = [r for r in records if r["what"] == "timeline" and r["status"] == "ok"]
    runs, ops = [], []
    for r in found:
        label = ", ".join(f"{k} {r[k]}" for k in ("debug.schedule", "debug.graphs", "precision", "debug.fold") if k in r)
        where = (r["group"], f"{r['model']} {r['dim']}_{r['hidden'][0]} batch {r['batch']}", label)
        whole = r.get("timeline") or {}
        runs.append((*where, us(whole.get("total_us")), us(whole.get("all_streams_started_us")), us(whole.get("overlap_us")), whole.get("start_order", "-")))
        ops += [(*where, op.get("op"), us(op.get("us_per_call")), op.get("implementation", "")[:60]) for op in (r.get("profile") or [])[:8]]
    return ("With a timestamp around each op and without graphs: what ops take, not what a call takes.\n\n" +
            table(("group", "model", "options", "first start to last end, us", "all streams started after", "two or more running", "start order"), runs) + "\n" +
            table(("group", "model", "options", "op", "us", "implementation"), ops))


def counters(records):
    kernels = [(name, m) for r in records if r["what"] == "ncu" for name, m in (r.get("kernels") or {}).items()]
    if not kernels:
        return "No counters in these results.\n"
    keys = list(kernels[0][1])
    return table(("kernel", *keys), [(name, *(m.get(k, "-") for k in keys)) for name, m in kernels])


def failed(records):
    rows = [(r["stage"], r["what"], r.get("peer_status", r["status"]),
             ", ".join(f"{k} {r[k]}" for k in ("model", "dim", "hidden", "batch", "precision", "variant", "engine", "choice") if k in r),
             str(r.get("error") or r.get("log") or r.get("why") or r.get("worst") or "").replace("\n", " ").replace("|", "/")[-200:])
            for r in records if r.get("counts") == "failure" or r.get("peer_status", "ok") != "ok" or r["status"] == "unsupported"]
    rows = list(dict.fromkeys(rows))
    return table(("stage", "what", "status", "where", "why"), rows[:80]) + (f"\n{len(rows) - 80} more in results.jsonl\n" if len(rows) > 80 else "")


SECTIONS = (("Machine", machine), ("Targets", targets), ("Correctness", correctness), ("The paper's grid", grid), ("Predictions", predictions), ("Over batch sizes", batches),
            ("What ran", running), ("Embedding stage", embedding), ("Sweeps", sweeps), ("Tables larger than the device", tiers), ("A few rows in one kernel", lambda r: choices(r, "few rows")), ("Ablation", lambda r: choices(r, "ablation")), ("Schedules", lambda r: choices(r, "schedule")),
            ("Device time per op", timelines), ("Counters", counters), ("Ceilings", ceilings), ("Failed, refused, unsupported", failed))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=RESULTS)
    args = parser.parse_args()
    records = [r for path in args.results for r in analysis.read(path)]
    dry = any(r.get("dry") for r in records)
    out = args.out.resolve()
    if dry and (out == RESULTS or RESULTS in out.parents):
        raise SystemExit("these are records of a dry run: name a folder outside results/ with --out")
    out.mkdir(parents=True, exist_ok=True)
    plots = report_plots.draw(records, out, dry)
    text = ["# Results on a GPU" if not dry else "# Results of a dry run", DRY_MARK if dry else "Made by tests/gpu/report.py; tests/gpu/README.md says what "
            "each part means and what was predicted."]
    for title, section in SECTIONS:
        text.append(f"## {title}\n\n{section(records)}")
        text += [f"![{about}]({name})" for where, name, about in plots if where == title]
    (out / "README.md").write_text("\n\n".join(part.rstrip() for part in text) + "\n")
    print(f"{out / 'README.md'}: {len(records)} records, {len(plots)} plots")


if __name__ == "__main__":
    main()
