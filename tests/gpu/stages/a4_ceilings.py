"""A4: what the machine can do at best: the denominators of every share in the report."""

import os

import common
from b2_peers import embedding_batches, embedding_shape
from common import DRY, PACK, emit, program, short, stream


def gathers():
    """What the embedding stage of B2 and B5 looks up, for a kernel that does nothing else: the same fields, rows of the same bytes, the most rows."""
    shape = embedding_shape()
    return ["--fields", ",".join(map(str, shape.vocabs)), "--row-bytes", str(shape.dim * 4), "--batch", str(embedding_batches()[-1])]


def stage():
    import a0_probe
    a0_probe.clocks("before ceilings")
    arguments = ["--dry"] if DRY else []
    end, seen = {}, 0
    for line in stream("ceilings", [program("gpu_ceilings_emu" if DRY else "gpu_ceilings"), *arguments, *gathers()], end):
        seen += 1
        emit(line.pop("what"), "ok", **line)
    short("gpu_ceilings: {} numbers", seen, seen + (seen == 0), end)
    if not common.torch_here():
        emit("gemm ceilings", "skipped", why="no torch")
        return
    end = {}
    for line in stream("gemm", [os.environ.get("PYTHON", "python3"), str(PACK / "tests/gpu/peers/gemm_ceiling.py"), *arguments], end, ours=False):
        emit("gemm", "ok", **line)
    short("gemm ceilings", 1, 1, end)
    a0_probe.clocks("after ceilings")


if __name__ == "__main__":
    common.main(stage)
