"""B2: PyTorch on the same weights and rows: stock eager with one table per field (the paper's baseline), better eager forms, graphs captured by
hand, an own Triton lookup. Settles the speed-ups over eager, cell by cell."""

import common
import data
import peers
from b1_end_to_end import GRID_BATCH, sweep_batches, sweep_shapes
from common import DRY
from spec import Shape, paper_grid


def embedding_shape():
    return Shape("dcnv2", "criteo", 4 if DRY else 32, (8,) * 3 if DRY else (256,) * 3, DRY)


def embedding_batches():
    return (4,) if DRY else (64, 2048, 16384, 65536)


def stage():
    data.prepare(paper_grid(DRY), [GRID_BATCH])
    grid = paper_grid(DRY)
    jobs = [peers.job(s, GRID_BATCH, "fp32", ("eager_field_copies", "graph_merged"), "grid") for s in grid]
    peers.run(jobs)
    data.prepare([embedding_shape()], embedding_batches(), "uniform")
    jobs = [peers.job(embedding_shape(), b, "fp32", ("eager_field", "eager_merged", "graph_merged", "graph_triton"), "embedding", "uniform",
                      part="embedding")
            for b in embedding_batches()]
    for s in grid:  # one model's precisions together: its numbers are read once
        jobs += [peers.job(s, GRID_BATCH, p, ("graph_merged", "graph_triton"), "grid") for p in ("tf32", "fp16")]
        jobs.append(peers.job(s, GRID_BATCH, "fp32", ("eager_field", "eager_merged", "graph_triton"), "grid"))
    peers.run(jobs)
    shapes = sweep_shapes()[:1] if DRY else [s for s in sweep_shapes() if s.dim == 16]
    data.prepare(shapes, sweep_batches())
    peers.run([peers.job(s, b, p, ("eager_field_copies", "eager_merged", "graph_merged", "graph_triton"), "sweep")
               for s in shapes for p in ("fp32", "tf32", "fp16") for b in sweep_batches()])


if __name__ == "__main__":
    common.main(stage)
