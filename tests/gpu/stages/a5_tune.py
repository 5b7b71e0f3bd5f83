"""A5: a sweep of the implementations of a Dense layer and of cuBLASLt's algorithms per shape, batch and precision. Writes the table that later calls
read (OUT/tuning.txt); it belongs into kernels/cuda/tuning, where the next build takes it in."""

import json

import common
from common import DRY, OUT, WORK, emit, run


def stage():
    tuner = common.PACK / "bin" / ("dpi_gpu_tune_emu" if DRY else "dpi_gpu_tune")
    table = (WORK if DRY else OUT) / "tuning.txt"
    seconds = max(5, int(common.left()) - 10)
    status, text = run([str(tuner), "--gemm", "--out", str(table), "--seconds", str(seconds), *(["--dry"] if DRY else [])])
    for line in text.splitlines():
        if line.startswith("{"):
            emit("gemm sweep", "ok", cell=json.loads(line))
    good = status == 0 and table.exists()
    emit("tuning table", "ok" if good else "failed", exit=status, log="" if good else text[-800:])


if __name__ == "__main__":
    common.main(stage)
