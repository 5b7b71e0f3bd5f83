"""C1: the rows of 26 lookups from where they may lie: all in device memory, copies of the hottest in a quarter of what they take, all in host memory,
pages that the driver moves, an HPS-like chain of kernels per table with its cache in the same quarter, and one range over four allocations; then other
budgets, other distributions, few rows. Every way's rows are compared with what they are, bit for bit, before and after. Settles what a row in host memory
costs, and what the one launch is worth. Pages that the driver moves only where DPI_GPU_UVM=1 allows them: to make it move them more managed memory is taken
than the GPU has free, which can hang a GPU, and it may be other people's too."""

import os

import common
import data
import tiers
from common import DRY, answers, emit

WARM, TIMED = (2, 3) if DRY else (32, 256)


def job(way, part, zipf, batch):
    shape = tiers.shape(DRY)
    sets = WARM + TIMED
    ids, _ = data.rows(shape, batch, f"zipf{zipf}", sets)
    labels = {"level": "lookup", "way": way, "part": part, "zipf": zipf, "batch": batch if not DRY else tiers.ROWS, "callers": 1}
    return {"way": way, "tables": shape.vocabs, "dim": shape.dim, "ids": str(ids), "sets": sets, "batch": batch, "warm": WARM, "calls": TIMED,
            "budget": tiers.budget(max(part, 1), DRY), "shares": tiers.SHARES, "seconds": 0.1 if DRY else 1.0, "labels": labels}


def cells():
    """Dry: each way once, and the cache with too little room as well as with enough."""
    if DRY:
        return [(way, part, zipf, 16) for way, part, zipf, batch in tiers.lookup_cells() if batch != 64 and (zipf == "1.05" or way == "cached")]
    return tiers.lookup_cells()


def allowed(cell):
    return cell[0] != "uvm" or DRY or os.environ.get("DPI_GPU_UVM") == "1"


def stage():
    import a0_probe
    a0_probe.clocks("before tiers")
    wanted = [cell for cell in cells() if allowed(cell)]
    if wanted != cells():
        emit("tier", "skipped", way="uvm", why="managed memory beyond what is free may hang a GPU: DPI_GPU_UVM=1 allows it")
    for zipf, batch in dict.fromkeys((zipf, batch) for _, _, zipf, batch in wanted):
        if common.left() > 1:
            data.rows(tiers.shape(DRY), batch, f"zipf{zipf}", WARM + TIMED)
    for result in answers("gpu_tiers_emu" if DRY else "gpu_tiers", [job(*cell) for cell in wanted]):
        emit("tier", result.pop("status"), **result)
    a0_probe.clocks("after tiers")


if __name__ == "__main__":
    common.main(stage)
