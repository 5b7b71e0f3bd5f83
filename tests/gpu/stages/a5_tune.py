"""A5: two sweeps. Of the lookup's implementations per width, types, sums and batch, and of the implementations of a Dense layer and cuBLASLt's
algorithms per shape, batch and precision. Together they make the table that later calls read (OUT/tuning.txt); it belongs into kernels/cuda/tuning,
where the next build takes it in."""

import collections
import math
import re

import common
from common import DEVICE, DRY, OUT, PACK, WORK, emit, program, run, short, stream


DEMO = "weights/demo/bank_dcnv2.h5"
HINTS = ("stream", "plain", "keep")
STORES = ("plain", "stream")


def sweep(name, arguments, seconds):
    """Runs a sweep program for so long; one record a line. Its lines, or None when it did not end well."""
    end, cells = {}, []
    command = [program(name + ("_emu" if DRY else "")), *arguments, "--seconds", str(max(1, int(seconds))), *(["--dry"] if DRY else [])]
    for cell in stream(name, command, end):
        cells.append(cell)
        emit(name, "ok" if cell.get("right", True) else "wrong", cell=cell)
    short(f"{name} ends", 1, 1, end)
    return cells if end["exit"] == 0 else None


def merged(*texts):
    """Tuning tables of one program as one: of several lines about the same cell the last counts. Its first lines, and what is before, are the first's."""
    lines = {}
    for line in filter(None, "\n".join(texts).splitlines()):
        words = line.split()
        cell = tuple(words[:5]) if len(words) > 6 and words[1] in ("plain", "fused") else line
        lines[cell] = line
    return "".join(f"{line}\n" for line in lines.values())


def lookup_lines(cells):
    """A line of the tuning table per shape and batch: the variant with the least geometric mean of times over table sizes and kinds of ids."""
    times = collections.defaultdict(lambda: collections.defaultdict(list))
    for c in cells:
        if c["right"] and c["us"] > 0 and not c["variant"].startswith("input_first"):
            times[c["rows"], c["dim"], c["sums"], c["table"], c["out"]][c["variant"]].append(c["us"])
    lines = []
    for (rows, dim, sums, table, out), variants in sorted(times.items()):
        seen = max(len(t) for t in variants.values())
        mean = {v: math.exp(sum(map(math.log, t)) / len(t)) for v, t in variants.items() if len(t) == seen}
        best = min(mean, key=mean.get)
        v = dict(re.findall(r"(\w+)=(\d+)", best))
        lines.append(f"lookup {rows} {dim} {'yes' if sums else 'no'} no {table} {out} {best.split()[0]} {v['vector']} "
                     f"{v['ilp']} {v['block']} {HINTS[int(v['hint'])]} {'on' if v['sort_bags'] == '1' else 'off'} {STORES[int(v['stores'])]} {mean[best]:.3f}")
    return lines


def dense(table, arguments, seconds):
    """Adds to the table; whether the program ended well."""
    more = WORK / "dense.txt"
    more.unlink(missing_ok=True)
    good = sweep("dpi_gpu_tune", ["--gemm", "--out", str(more), *arguments], seconds) is not None and more.exists()
    if more.exists():  # also of a program that was ended
        table.write_text(merged(table.read_text() if table.exists() else "", more.read_text()))
    return good


def stage():
    """The layers of the paper's grid first, then lookups, then every other batch and shape."""
    table = (WORK if DRY else OUT) / "tuning.txt"
    table.unlink(missing_ok=True)
    good = dense(table, ["--first"], common.left() * 0.4)
    lookups = sweep("dpi_gpu_lookup", [], common.left() * 0.5)
    good = dense(table, [], common.left() - 8) and good
    if good and lookups:
        lines = lookup_lines(lookups)
        with table.open("a") as file:
            file.write("# rows dim sums bags table out kind vector ilp block hint sort microseconds\n" + "".join(f"{line}\n" for line in lines))
        status, text = run([program("dpi"), "bench", str(PACK / DEMO), "--device", DEVICE, "--batch", "33", "--seconds", "0.02", "--json",
                            "--option", f"tuning={table}"], 60)
        late = status == 124 and common.left() < 1
        emit("lookup lines", "skipped" if late else "ok" if lines and status == 0 else "failed", lines=len(lines), log="" if status == 0 else text[-400:])
    emit("tuning table", "ok" if good else "skipped" if common.left() < 1 else "failed")


if __name__ == "__main__":
    common.main(stage)
