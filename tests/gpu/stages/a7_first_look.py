"""A7: what is left of call A goes into the cells that matter most, so that a visit of one call has an answer: DeepFM and DCNv2 of the paper's grid
on Criteo, ours in three precisions beside stock eager and a captured merged table."""

import common
import data
import peers
from b1_end_to_end import GRID_BATCH, tuned
from common import DRY, answers, emit
from spec import paper_grid


def stage():
    cells = paper_grid(DRY) if DRY else [s for s in paper_grid() if s.kind in ("deepfm", "dcnv2") and s.dataset == "criteo"]
    data.prepare(cells, [GRID_BATCH])
    jobs = [data.bench_job(s, GRID_BATCH, {"precision": p, **tuned()}, {"group": "grid", "engine": "dpi"}) for p in ("fp32", "tf32", "fp16") for s in cells]
    for result in answers("gpu_bench", jobs):
        emit("latency", result.pop("status"), **result)
    peers.run([peers.job(s, GRID_BATCH, "fp32", ("eager_field_copies", "graph_merged"), "grid") for s in cells])


if __name__ == "__main__":
    common.main(stage)
