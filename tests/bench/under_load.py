#!/usr/bin/env python3
"""Measures batchers and records it: at most three minutes.

  tests/bench/under_load.py --build build/release [--seconds 2]     measures, then writes the three below
  tests/bench/under_load.py --report                                writes them again from results/batcher.json
  tests/bench/under_load.py --check                                 ends with 1 unless they are what the record gives

Writes results/batcher.json and from it results/batcher.md and the plots of the guide's page Under load. Targets: batcher_bench, open_loop_bench."""

import argparse
import datetime
import json
import math
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile
from html import escape
from time import sleep

HERE = pathlib.Path(__file__).resolve().parent
RECORD = HERE / "results/batcher.json"
PAGE = HERE / "results/batcher.md"
PLOT = HERE.parents[1] / "packaging/doc/guide/under_load.svg"
NAMES = {"deepfm": "DeepFM 3 x 256", "dcnv2": "DCNv2 3 x 1024"}
GOAL = 10  # chunk times, of p99.9 at 95 %
QUIET = 0.3  # busy processors of a machine that does nothing else


def busy_processors(seconds=2):
    """Of this machine, on average over the next seconds. A load average still has what ended minutes ago."""
    def times():
        fields = [int(word) for word in pathlib.Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]]
        return sum(fields), sum(fields) - fields[3] - fields[4]  # all; without idle and waiting for disks
    total, busy = times()
    sleep(seconds)
    total, busy = times()[0] - total, times()[1] - busy
    return round(os.cpu_count() * busy / max(total, 1), 2)


def machine():
    cpu = re.search(r"(?m)^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    return {"cpu": cpu[1] if cpu else platform.machine(), "processors": len(os.sched_getaffinity(0)), "load_before": busy_processors(),
            "date": datetime.date.today().isoformat()}


def measure(build, seconds):
    def ask(program, *arguments):
        command = [build / "bin/bench" / program, *map(str, arguments)]
        return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=300).stdout)

    found = {"machine": machine(), "seconds": seconds, "closed": {}, "open": []}
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, HERE / "make_batch_bundles.py", folder], check=True)
        for kind in NAMES:
            found["closed"][kind] = ask("batcher_bench", f"{folder}/{kind}.h5", 16, seconds)
            for rows, suffix in ((1, ""), (50, "_users")):
                found["open"].append({**ask("open_loop_bench", f"{folder}/{kind}{suffix}.h5", rows, seconds), "model": kind})
                print(f"{NAMES[kind]}, {rows} rows: done", file=sys.stderr)
    found["machine"]["load_after"] = busy_processors()
    return found


# ---- the page

def time(us):
    return f"{us:.2f} us" if us < 100 else f"{us:.0f} us" if us < 10_000 else f"{us / 1000:.1f} ms" if us < 1_000_000 else f"{us / 1e6:.2f} s"


def form(rows):
    return "one row" if rows == 1 else f"1 user x {rows} candidates"


def disturbed(m):
    if m["load_before"] <= QUIET:
        return "The machine did nothing else."
    return (f"**Other work ran on the same processors** ({m['load_before']:.1f} of them busy before the run): compare within a row only, and take no tail for what a quiet "
            "machine gives.")


def page(found):
    m = found["machine"]
    out = ["# Batchers, measured", "",
           "Made by `tests/bench/under_load.py --build build/release` (targets `batcher_bench`, `open_loop_bench`; at most three minutes) from `batcher.json`.",
           f"{m['cpu']}, {m['processors']} processors, {m['date']}. {disturbed(m)} Bundles of `make_batch_bundles.py`, option `device=cpu`, keys of the batcher by default.", "",
           "## Closed loop, one row", "",
           "Direct calls and the batcher in turns, twice; the better turn of each. Idle: one caller, p50. CPU: the processors' time of a row, which other work on the machine hardly changes. "
           "*At most*: direct calls of one row over direct calls of 16, the gain if every chunk had all 16 callers and waiting cost nothing. *Merged*: rows that shared a chunk; the others "
           "found a place free, as a caller does whose neighbours have no processor.", "",
           "| model | idle direct | idle batcher | 16 callers direct | batcher | | at most | CPU direct | CPU batcher | merged |", "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"]
    for kind, c in found["closed"].items():
        best = {key: (max if key.endswith("_s") else min)(turn[key] for turn in c["turns"]) for key in c["turns"][0]}
        out.append(f"| {NAMES[kind]} | {time(c['idle_direct_us'])} | {time(c['idle_batcher_us'])} ({1000 * (c['idle_batcher_us'] - c['idle_direct_us']):+.0f} ns) "
                   f"| {best['direct_rows_s']:,.0f} rows/s | {best['batcher_rows_s']:,.0f} rows/s | {best['batcher_rows_s'] / best['direct_rows_s']:.2f} times "
                   f"| {c['idle_direct_us'] * c['callers'] / c['crowd_us']:.2f} times | {time(best['direct_cpu_us'])} | {time(best['batcher_cpu_us'])} "
                   f"| {100 * c['status']['chunk_rows'] / c['status']['calls']:.0f} % |")
    out += ["", "## Open loop", "",
            "Poisson arrivals from one thread with a processor of its own, latency from the planned arrival, requests made beforehand. The others score: the batcher's threads, or as many that "
            "call directly. Capacity: what the saturated batcher scores. A chunk: a direct call of `batch.max_rows` rows on one thread. *Refused*: `DPI_E_QUEUE_FULL`; latencies are those of "
            "the others. *Unanswered*: direct calls that had not ended half a second after the last arrival; they count as ended then."]
    for o in found["open"]:
        out += ["", f"### {NAMES[o['model']]}, {form(o['rows'])}", "",
                f"Capacity {o['capacity_rows_s']:,.0f} rows/s with {o['workers']} scoring thread{'s' if o['workers'] > 1 else ''}; direct calls one after another "
                f"{1e6 * o['rows'] / o['direct_us']:,.0f} rows/s. A chunk of {o['max_rows']} rows takes {time(o['chunk_us'])}.", "",
                "| load | | requests | refused | unanswered | p50 | p99 | p99.9 | p99.9 in chunks |", "|---:|---|---:|---:|---:|---:|---:|---:|---:|"]
        for p in o["points"]:
            out.append(f"| {p['load']} % | {p['how']} | {p['requests']:,} | {100 * p['refused'] / max(p['requests'], 1):.1f} % | {100 * p['unanswered'] / max(p['requests'], 1):.1f} % "
                       f"| {time(p['p50_us'])} | {time(p['p99_us'])} | {time(p['p999_us'])} | {p['p999_us'] / o['chunk_us']:.1f} |")
    return "\n".join(out) + "\n"


# ---- the plots

COLOURS = {"batcher": "#2b7de0", "direct": "#d9782d"}
DASHES = {"p50_us": "", "p99_us": "5 3", "p999_us": "1.5 3"}
LABELS = {"p50_us": "p50", "p99_us": "p99", "p999_us": "p99.9"}
WIDTH, HEIGHT, LEFT, TOP, GAP = 300, 190, 58, 46, 70


def panel(o, x0, y0):
    """Latency over load of one model and form; both axes are those of the points, the vertical one logarithmic."""
    loads = sorted({p["load"] for p in o["points"]})
    values = [p[k] for p in o["points"] for k in DASHES if p[k] > 0] + [GOAL * o["chunk_us"]]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    x = lambda load: x0 + (load - 45) / (115 - 45) * WIDTH
    y = lambda us: y0 + HEIGHT - (math.log10(max(us, 10 ** low)) - low) / (high - low) * HEIGHT
    out = [f'<text x="{x0}" y="{y0 - 10}" font-weight="600">{escape(NAMES[o["model"]])}, {escape(form(o["rows"]))}</text>',
           f'<rect x="{x0}" y="{y0}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="currentColor" stroke-opacity="0.35"/>']
    for power in range(low, high + 1):
        text = {0: "1 us", 1: "10 us", 2: "100 us", 3: "1 ms", 4: "10 ms", 5: "100 ms", 6: "1 s", 7: "10 s"}.get(power, f"1e{power} us")
        out.append(f'<path d="M{x0} {y(10 ** power):.1f}h{WIDTH}" stroke="currentColor" stroke-opacity="0.15"/>')
        out.append(f'<text x="{x0 - 6}" y="{y(10 ** power) + 4:.1f}" text-anchor="end">{text}</text>')
    for load in loads:
        out.append(f'<text x="{x(load):.1f}" y="{y0 + HEIGHT + 16}" text-anchor="middle">{load} %</text>')
    goal = y(GOAL * o["chunk_us"])
    out.append(f'<path d="M{x0} {goal:.1f}h{WIDTH}" stroke="currentColor" stroke-opacity="0.6"/>')
    out.append(f'<text x="{x0 + 4}" y="{goal - 4:.1f}" fill-opacity="0.75">{GOAL} chunks</text>')
    for how, colour in COLOURS.items():
        for key, dash in DASHES.items():
            at = [(x(p["load"]), y(p[key])) for p in sorted(o["points"], key=lambda p: p["load"]) if p["how"] == how and p[key] > 0]
            line = "L".join(f"{a:.1f} {b:.1f}" for a, b in at)
            out.append(f'<path d="M{line}" fill="none" stroke="{colour}" stroke-width="1.8"{f" stroke-dasharray={chr(34)}{dash}{chr(34)}" if dash else ""}/>')
            out += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="2.4" fill="{colour}"/>' for a, b in at]
    return out


def plot(found):
    width, height = 2 * (LEFT + WIDTH) + 26, TOP + 2 * (HEIGHT + GAP) - 34
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="system-ui, sans-serif" font-size="11.5" fill="currentColor" role="img" '
           f'aria-label="Latency over load, by batcher and by direct calls">']
    at = 16
    for how, colour in COLOURS.items():
        for key, dash in DASHES.items():
            out.append(f'<path d="M{at} 14h24" stroke="{colour}" stroke-width="1.8"{f" stroke-dasharray={chr(34)}{dash}{chr(34)}" if dash else ""}/>')
            out.append(f'<text x="{at + 29}" y="18">{how} {LABELS[key]}</text>')
            at += 120
    for i, o in enumerate(found["open"]):
        out += panel(o, LEFT + i % 2 * (WIDTH + LEFT + 10), TOP + 8 + i // 2 * (HEIGHT + GAP - 20))
    m = found["machine"]
    below = f"{m['cpu']}, {m['processors']} processors, {m['date']}" + ("" if m["load_before"] <= QUIET else "; other work ran on the same processors")
    out.append(f'<text x="{LEFT}" y="{height - 8}" fill-opacity="0.75">{escape(below)}</text>')
    return "\n".join(out) + "\n</svg>\n"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", type=pathlib.Path)
    p.add_argument("--seconds", type=float, default=2)
    p.add_argument("--report", action="store_true")
    p.add_argument("--check", action="store_true")
    args = p.parse_args()
    if not (args.report or args.check):
        if args.build is None:
            p.error("--build names the build folder")
        RECORD.write_text(json.dumps(measure(args.build.resolve(), args.seconds), indent=1) + "\n", encoding="utf-8")
    found = json.loads(RECORD.read_text(encoding="utf-8"))
    made = {PAGE: page(found), PLOT: plot(found)}
    if args.check:
        stale = [path.name for path, text in made.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
        sys.exit(f"not what results/batcher.json gives: {', '.join(stale)}; tests/bench/under_load.py --report writes them" if stale else 0)
    for path, text in made.items():
        path.write_text(text, encoding="utf-8")
    if not args.report:
        print(PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
