"""B2: PyTorch on the same weights and rows: stock eager with one table per field (the paper's baseline), better eager forms, graphs captured by
hand, an own Triton lookup. The strongest at 64 and 2048 rows first, then the grid. Settles the speed-ups over eager, cell by cell."""

import common
import data
import peers
from b1_end_to_end import GRID_BATCH, grid_parts, strongest_batches, sweep_batches, sweep_shapes
from common import DRY
from spec import Shape


def embedding_shape():
    return Shape("dcnv2", "criteo", 4 if DRY else 32, (8,) * 3 if DRY else (256,) * 3, DRY)


def embedding_batches():
    return (4,) if DRY else (64, 2048, 16384, 65536)


def embedding_jobs(batches):
    return [peers.job(embedding_shape(), b, "fp32", ("eager_field", "eager_merged", "graph_merged", "graph_triton"), "embedding", "uniform",
                      part="embedding") for b in batches]


def strongest_jobs():
    """The strongest forms that need no compiler, where the targets over batches are."""
    shapes = [s for s in sweep_shapes() if DRY or s.dim == 16]
    return [peers.job(s, b, p, ("graph_triton", "graph_merged"), "sweep") for s in shapes for p in ("fp16", "tf32", "fp32") for b in strongest_batches()]


def sweep_peers():
    shapes = [s for s in sweep_shapes() if DRY or s.dim == 16]
    jobs = [peers.job(s, b, p, ("graph_triton", "graph_merged"), "sweep") for s in shapes for p in ("fp32", "tf32", "fp16") for b in sweep_batches()
            if b not in strongest_batches()]
    return jobs + [peers.job(s, b, p, ("eager_field_copies", "eager_merged"), "sweep") for s in shapes for p in ("fp32", "tf32", "fp16")
                   for b in sweep_batches()]


def eager_job(shape, forms):
    """Eager calls take a millisecond each: few of them say enough, and 48 cells have to fit."""
    return peers.job(shape, GRID_BATCH, "fp32", forms, "grid", seconds=0.02 if DRY else 0.1, device_runs=20, busy=False)


def stage():
    data.prepare([s for s in sweep_shapes() if DRY or s.dim == 16], strongest_batches())
    data.prepare([embedding_shape()], embedding_batches(), "uniform", ("fp32",))
    grid = [s for part in grid_parts() for s in part]
    data.prepare(grid, [GRID_BATCH], precisions=("fp32", "fp16"))
    jobs = embedding_jobs(embedding_batches()[:2]) + strongest_jobs()
    jobs += [eager_job(s, ("eager_field_copies",)) for s in grid]
    jobs += [eager_job(s, (form,)) for form in ("eager_field", "eager_merged") for s in grid]
    jobs += [peers.job(s, GRID_BATCH, "fp32", ("graph_merged",), "grid") for s in grid]
    jobs += embedding_jobs(embedding_batches()[2:])
    for s in grid:  # one model's precisions together: its numbers are read once
        jobs += [peers.job(s, GRID_BATCH, p, ("graph_merged", "graph_triton"), "grid") for p in ("tf32", "fp16")]
        jobs.append(peers.job(s, GRID_BATCH, "fp32", ("graph_triton",), "grid"))
    peers.run(jobs)
    data.prepare([s for s in sweep_shapes() if DRY or s.dim == 16], sweep_batches())
    peers.run(sweep_peers())


if __name__ == "__main__":
    common.main(stage)
