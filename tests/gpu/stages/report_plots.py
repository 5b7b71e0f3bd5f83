"""The report's plots, with matplotlib where it is installed: latency over batch, speed-up over the paper's grid, share of the roofline, timelines of
a breadth-first and a depth-first run."""

import analysis
import paper
from spec import Shape

COLOURS = {"fp32": "#4477aa", "tf32": "#66ccee", "fp16": "#228833", "bf16": "#ccbb44", "peer": "#ee6677"}


def draw(records, out, dry):
    """Writes the plots that the records allow; [(section, file name, what it shows)]."""
    try:
        import matplotlib
        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        return []
    made = []
    for section, name, about, plot in (("Over batch sizes", "latency.png", "p50 over batch size", latency),
                                       ("The paper's grid", "grid.png", "speed-up over stock eager", speed_up),
                                       ("Ceilings", "roofline.png", "share of the roofline", roofline),
                                       ("Device time per op", "timeline.png", "breadth-first and depth-first", timeline)):
        figure = plot(plt, records)
        if figure is None:
            continue
        if dry:
            figure.text(0.5, 0.5, "DRY RUN", fontsize=60, color="red", alpha=0.3, ha="center", va="center", rotation=25)
        figure.savefig(out / name, dpi=110, bbox_inches="tight")
        plt.close(figure)
        made.append((section, name, about))
    return made


def latency(plt, records):
    found = [r for r in analysis.latencies(records, "sweep") if r["ids"] == "zipf"]
    models = sorted({r["model"] for r in found if r["engine"] == "dpi"})
    if not models:
        return None
    dim = min(r["dim"] for r in found)
    figure, axes = plt.subplots(1, len(models), figsize=(4.5 * len(models), 4), sharey=True, squeeze=False)
    for axis, model in zip(axes[0], models):
        for precision, colour in COLOURS.items():
            line = sorted((r["batch"], r["p50_us"]) for r in found
                          if (r["model"], r["dim"], r["engine"], r["precision"]) == (model, dim, "dpi", precision))
            if line:
                axis.plot(*zip(*line), "o-", color=colour, label=f"ours {precision}")
        for engine, style in ((analysis.STOCK, ":"), ("graph_merged", "--")):
            line = sorted((r["batch"], r["p50_us"]) for r in found
                          if (r["model"], r["dim"], r["engine"], r["precision"]) == (model, dim, engine, "fp32"))
            if line:
                axis.plot(*zip(*line), style, color=COLOURS["peer"], label=f"{engine} fp32")
        axis.set(xscale="log", yscale="log", xlabel="batch", title=model)
        axis.grid(alpha=0.3)
    axes[0][0].set_ylabel("p50, us, host to host")
    axes[0][0].legend(fontsize=7)
    return figure


def speed_up(plt, records):
    cells = analysis.grid(records)
    got = {p: analysis.ratios(cells, p) for p in ("fp32", "tf32", "fp16")}
    names = sorted({c for found in got.values() for c in found}, key=lambda c: (c[0], c[1], c[2], c[3]))
    if not names:
        return None
    figure, axis = plt.subplots(figsize=(max(6, 0.4 * len(names)), 4))
    for k, (precision, found) in enumerate(got.items()):
        axis.bar([i + 0.27 * (k - 1) for i in range(len(names))], [found.get(c, 0) for c in names], 0.25, color=COLOURS[precision], label=f"ours {precision}")
    known = [(i, paper.cell(*c)) for i, c in enumerate(names) if c[2:] in paper.SIZES]
    if known:
        axis.plot(*zip(*known), "_", color="black", markersize=10, label="the paper, fp32, its GPU")
    axis.set_xticks(range(len(names)), [f"{c[1]} {c[0]} {c[2]}_{c[3]}" for c in names], rotation=90, fontsize=7)
    axis.set_ylabel("speed-up over stock eager fp32")
    axis.legend(fontsize=8)
    axis.grid(axis="y", alpha=0.3)
    return figure


def floor_us(record, copy, gemm):
    """Bytes of the rows over the gather rate and products over the GEMM rate, both as measured; None without either."""
    rate = gemm.get(record["precision"])
    if not copy or not rate:
        return None
    shape = Shape(record["model"], record["dataset"], record["dim"], tuple(record["hidden"]))
    element = 2 if record["precision"] in ("fp16", "bf16") else 4
    return record["batch"] * (shape.row_bytes(element) / copy * 1e-3 + shape.flops_per_row() / rate * 1e-6)


def roofline(plt, records):
    gemm = {}
    for r in records:
        if r["what"] == "gemm":
            gemm[r["precision"]] = max(gemm.get(r["precision"], 0), r["tflops"])
    copy = analysis.gather_ceiling(records, 64) or analysis.copy_ceiling(records) or max([r["gb_s"] for r in records if r["what"] == "gather"], default=0)
    points = [(r, floor_us(r, copy, gemm)) for r in analysis.latencies(records, "sweep", "dpi") + analysis.latencies(records, "grid", "dpi")]
    points = [(r, floor) for r, floor in points if floor]
    if not points:
        return None
    figure, axis = plt.subplots(figsize=(6, 4))
    for precision, colour in COLOURS.items():
        mine = [(r["batch"], floor / r["p50_us"]) for r, floor in points if r["precision"] == precision]
        if mine:
            axis.plot(*zip(*mine), "o", color=colour, alpha=0.6, label=precision)
    axis.set(xscale="log", xlabel="batch", ylabel="floor / p50 host to host", title="share of the measured roofline")
    axis.legend(fontsize=8)
    axis.grid(alpha=0.3)
    return figure


def timeline(plt, records):
    """Ops of one run over time, a bar each, one lane per stream."""
    runs = {}
    for r in records:
        ops = ((r.get("timeline") or {}).get("ops") or []) if r["what"] == "timeline" else []
        if ops and r.get("group") == "schedule" and r.get("debug.graphs") == "off":
            runs[r["debug.schedule"]] = ops
    runs = {k: runs[k] for k in ("breadth", "depth") if k in runs}
    if not runs:
        return None
    figure, axes = plt.subplots(len(runs), 1, figsize=(9, 1.8 * len(runs)), sharex=True, squeeze=False)
    for (axis,), (name, ops) in zip(axes, runs.items()):
        for i, op in enumerate(ops):
            stream = op.get("stream", 0)
            axis.barh(stream, op["end_us"] - op["start_us"], left=op["start_us"], color=f"C{i % 10}", edgecolor="black", linewidth=0.3)
            axis.text(op["start_us"], stream, op["op"][:14], fontsize=6, va="center")
        axis.set(title=f"{name} first", ylabel="stream")
        axis.set_yticks(sorted({op.get("stream", 0) for op in ops}))
    axes[-1][0].set_xlabel("us")
    return figure
