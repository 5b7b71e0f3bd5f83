"""A5: two sweeps. Of the lookup's implementations per width, types, sums and batch, and of the implementations of a Dense layer and cuBLASLt's
algorithms per shape, batch and precision. Together they make the table that later calls read (OUT/tuning.txt); it belongs into kernels/cuda/tuning,
where the next build takes it in."""

import collections
import json
import math
import re

import common
from common import DEVICE, DRY, OUT, PACK, WORK, emit, program, run


DEMO = "weights/demo/bank_dcnv2.h5"
HINTS = ("stream", "plain", "keep")


def sweep(name, arguments, seconds):
    """Runs a sweep program for so long; one record a line. Its lines, or None when it did not end well."""
    program = PACK / "bin" / (name + ("_emu" if DRY else ""))
    status, text = run([str(program), *arguments, "--seconds", str(seconds), *(["--dry"] if DRY else [])])
    cells = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    for cell in cells:
        emit(name, "ok" if cell.get("right", True) else "wrong", cell=cell)
    if status != 0:
        emit(f"{name} ends", "failed", exit=status, log=text[-800:])
    return cells if status == 0 else None


def lookup_lines(cells):
    """A line of the tuning table per shape: the variant with the least geometric mean of times over table sizes and kinds of ids. Small batches come
    first, because the first line that fits decides; the largest batch stands for all beyond it."""
    times = collections.defaultdict(lambda: collections.defaultdict(list))
    for c in cells:
        if c["right"] and c["us"] > 0 and not c["variant"].startswith("input_first"):
            times[c["rows"], c["dim"], c["sums"], c["table"], c["out"]][c["variant"]].append(c["us"])
    largest = max((rows for rows, *_ in times), default=0)
    lines = []
    for (rows, dim, sums, table, out), variants in sorted(times.items()):
        seen = max(len(t) for t in variants.values())
        mean = {v: math.exp(sum(map(math.log, t)) / len(t)) for v, t in variants.items() if len(t) == seen}
        best = min(mean, key=mean.get)
        v = dict(re.findall(r"(\w+)=(\d+)", best))
        lines.append(f"lookup {'*' if rows == largest else rows} {dim} {'yes' if sums else 'no'} no {table} {out} {best.split()[0]} {v['vector']} "
                     f"{v['ilp']} {v['block']} {HINTS[int(v['hint'])]} {'on' if v['sort_bags'] == '1' else 'off'} {mean[best]:.3f}")
    return lines


def stage():
    lookups = sweep("dpi_gpu_lookup", [], max(3, int(common.left() * 0.4)))
    table = (WORK if DRY else OUT) / "tuning.txt"
    good = sweep("dpi_gpu_tune", ["--gemm", "--out", str(table)], max(3, int(common.left()) - 10)) is not None and table.exists()
    if good and lookups:
        lines = lookup_lines(lookups)
        with table.open("a") as file:
            file.write("# rows dim sums bags table out kind vector ilp block hint sort microseconds\n" + "".join(f"{line}\n" for line in lines))
        status, text = run([program("dpi"), "bench", str(PACK / DEMO), "--device", DEVICE, "--batch", "33", "--seconds", "0.02", "--json",
                            "--option", f"tuning={table}"], 60)
        emit("lookup lines", "ok" if lines and status == 0 else "failed", lines=len(lines), log="" if status == 0 else text[-400:])
    emit("tuning table", "ok" if good else "failed")


if __name__ == "__main__":
    common.main(stage)
