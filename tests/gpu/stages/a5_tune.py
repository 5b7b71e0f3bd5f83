"""A5: two sweeps. Of the lookup's implementations (kernels/cuda/lookup_choice.cu chooses by rules that this settles), and of the implementations of a
Dense layer and cuBLASLt's algorithms per shape, batch and precision. The second writes the table that later calls read (OUT/tuning.txt); it belongs
into kernels/cuda/tuning, where the next build takes it in."""

import json

import common
from common import DRY, OUT, PACK, WORK, emit, run


def sweep(name, arguments, seconds):
    """Runs a sweep program for so long; one record a line. True when it ended well."""
    program = PACK / "bin" / (name + ("_emu" if DRY else ""))
    status, text = run([str(program), *arguments, "--seconds", str(seconds), *(["--dry"] if DRY else [])])
    for line in text.splitlines():
        if line.startswith("{"):
            cell = json.loads(line)
            emit(name, "ok" if cell.get("right", True) else "wrong", cell=cell)
    if status != 0:
        emit(f"{name} ends", "failed", exit=status, log=text[-800:])
    return status == 0


def stage():
    sweep("dpi_gpu_lookup", [], max(3, int(common.left() * 0.4)))
    table = (WORK if DRY else OUT) / "tuning.txt"
    good = sweep("dpi_gpu_tune", ["--gemm", "--out", str(table)], max(3, int(common.left()) - 10)) and table.exists()
    emit("tuning table", "ok" if good else "failed")


if __name__ == "__main__":
    common.main(stage)
