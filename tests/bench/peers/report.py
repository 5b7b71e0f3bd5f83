"""What was measured, as lines, tables and a plot; the machine's ceilings and how near a cell comes to them."""

import csv
import json
import math
import subprocess

TICKS = (0.5, 0.7, 1, 1.5, 2, 3, 4, 6, 8)
LEVELS = {"L2": 1 << 20, "L3": 32 << 20}  # bytes; the sizes of the machine that is named beside the results replace them


def machine(a):
    """The processor, its caches, and what it can do at most on one core (ceilings_bench)."""
    found = {"cpu": "", "cores": 0, "ceilings": {}}
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    found["cpu"], found["cores"] = names[0] if names else "", len(names)
    program = a.build / "bin/bench/ceilings_bench"
    if a.smoke or not program.exists():
        return found
    told = json.loads(subprocess.run([program, "--benchmark_format=json"], capture_output=True, text=True, check=True).stdout)
    found["caches"] = {f"L{c['level']}": c["size"] for c in told["context"]["caches"] if c["type"] != "Instruction"}
    found["ceilings"] = {b["name"].split("/iter")[0]: b.get("GB/s", b.get("GFLOP/s")) for b in told["benchmarks"]}
    return found


def write(path, told, results):
    """As JSON, a cell a line; times to a hundredth of a microsecond."""
    lines = (json.dumps(json.loads(json.dumps(row), parse_float=lambda x: round(float(x), 2))) for row in results)
    path.write_text('{"machine": ' + json.dumps(told) + ',\n"results": [\n' + ",\n".join(lines) + "\n]}\n", encoding="utf-8")


def ceiling(row, told):
    """(us that the busiest part of the machine needs, its name): multiply-adds at the measured peak, weights once from where they fit, table
    rows as random lines. One core's figures over the threads that are used."""
    rates = told.get("ceilings", {})
    if "BM_fma" not in rates:
        return None
    work, caches, threads = row["work"], {**LEVELS, **told.get("caches", {})}, row["threads"]
    home = lambda size: "L2" if size < caches["L2"] else "L3" if size < caches["L3"] else "DRAM"  # noqa: E731
    read = {"L2": rates["BM_read/512KiB"], "L3": rates["BM_read/8192KiB"], "DRAM": rates["BM_read/262144KiB"]}
    parts = {"FMA": work["flops"] / (rates["BM_fma"] * 1e3)}
    where = home(work["weight_bytes"])
    parts[where] = work["weight_bytes"] / (read[where] * 1e3)
    where = home(work["table_bytes"])
    parts["rows, " + where] = work["lines"] * 64 / ((rates["BM_gather/64"] if where == "DRAM" else read[where]) * 1e3)
    name = max(parts, key=parts.get)
    return parts[name] / threads, name


def microseconds(row, name, clock):
    return row["us"][name]["p50" if clock == "wall" else "cpu"]


def pairs(results, clock):
    """(ratio, row, our engine, the best peer) of every cell: full floats with full floats, bf16 with bf16."""
    for row in results:
        for own in [name for name in row["us"] if name.startswith("dpi")]:
            peers = [n for n in row["us"] if not n.startswith("dpi") and n.endswith("bf16") == own.endswith("bf16")]
            if peers:
                best = min(peers, key=lambda n: microseconds(row, n, clock))
                yield microseconds(row, best, clock) / microseconds(row, own, clock), row, own, best


def line(row, clock):
    found = "  ".join(f"{name} {microseconds(row, name, clock):.1f} ({u['p99']:.0f})" for name, u in row["us"].items())
    ratios = " ".join(f"{ratio:.2f} x {best}" for ratio, _, _, best in pairs([row], clock))
    return f"  {row['batch']:5} rows: {ratios or 'no peer'};  {found}"


def mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def summary(results, clock, told):
    """Worst cells first, then geometric means by engine, model, shape and threads."""
    found = sorted(pairs(results, clock), key=lambda p: p[0])
    if not found:
        return "no cell has a peer"
    lines = ["", "worst cells first (ratio of the best peer's time to ours; share of the ceiling that binds):"]
    for ratio, row, own, best in found[:15]:
        bound = ceiling(row, told) if own == "dpi" else None
        share = f", {100 * bound[0] / microseconds(row, own, clock):.0f} % of {bound[1]}" if bound else ""
        lines.append(f"  {ratio:.2f} x of {best}: {own}, {row['model']}, {row['shape']}, {row['hidden']}, {row['batch']} rows, "
                     f"{row['threads']} threads{share}")
    for what in ("threads", "model", "shape", "hidden", "batch"):
        groups = {}
        for ratio, row, own, _ in found:
            groups.setdefault((own, row[what]), []).append(ratio)
        lines += [f"  {own}, {what} {value}: {mean(r):.2f} x in the geometric mean, {sum(x < 1 for x in r)} of {len(r)} cells behind"
                  for (own, value), r in sorted(groups.items(), key=str)]
    for own in sorted({p[2] for p in found}):
        mine = [p[0] for p in found if p[2] == own]
        lines.append(f"{own}: {mean(mine):.2f} x of the best peer in the geometric mean, behind in {sum(x < 1 for x in mine)} of {len(mine)} cells")
    return "\n".join(lines)


def cells(results, clock, told, path):
    """Every cell as a line of a CSV file: our time and p99, the best peer's, the ratio, and the ceiling that binds with its share (fp32)."""
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["engine", "threads", "shape", "model", "hidden", "rows", "us", "p99_us", "peer", "peer_us", "peer_p99_us", "ratio", "ceiling", "share"])
        for ratio, row, own, best in pairs(results, clock):
            mine, theirs = microseconds(row, own, clock), microseconds(row, best, clock)
            bound = ceiling(row, told) if own == "dpi" else None
            out.writerow([own, row["threads"], row["shape"], row["model"], row["hidden"], row["batch"], f"{mine:.1f}", f"{row['us'][own]['p99']:.1f}", best,
                          f"{theirs:.1f}", f"{row['us'][best]['p99']:.1f}", f"{ratio:.2f}", *((bound[1], f"{bound[0] / mine:.2f}") if bound else ("", ""))])


def plot(results, clock, path):
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot

    threads, owns = sorted({r["threads"] for r in results}), sorted({p[2] for p in pairs(results, clock)})
    figure, axes = pyplot.subplots(len(owns), len(threads), figsize=(6 * len(threads), 4 * len(owns)), squeeze=False, sharey=True)
    for (i, own), (j, count) in ((x, y) for x in enumerate(owns) for y in enumerate(threads)):
        curves = {}
        for ratio, row, name, _ in pairs(results, clock):
            if name == own and row["threads"] == count:
                curves.setdefault((row["model"], row["hidden"]), {}).setdefault(row["batch"], []).append(ratio)
        models, widths = (sorted({key[k] for key in curves}) for k in (0, 1))
        for (model, hidden), points in sorted(curves.items()):
            axes[i][j].plot(sorted(points), [mean(points[b]) for b in sorted(points)], marker="o", markersize=4, label=f"{model} {hidden}",
                            color=f"C{models.index(model)}", linestyle=("-", "--", ":", "-.")[widths.index(hidden) % 4])
        axes[i][j].axhline(1, color="black", linewidth=0.8)
        axes[i][j].set(xscale="log", yscale="log", title=f"{own}, {count} thread{'s' * (count > 1)}", xlabel="rows of a call",
                       ylabel="times the best peer's speed")
        axes[i][j].set_yticks(TICKS, [f"{t:g}" for t in TICKS], minor=False)
        axes[i][j].minorticks_off()
    axes[0][-1].legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    figure.tight_layout()
    figure.savefig(path, dpi=110)
