"""A5 and A6: sweeps of lookup variants and of cuBLASLt's algorithms per shape. Writes the tuning table that later calls read (OUT/tuning.txt);
the table belongs into the tree where the backend's default is kept."""

import json

import common
from common import DRY, OUT, emit, run


def stage():
    tuner = common.PACK / "bin" / ("dpi_gpu_tune_emu" if DRY else "dpi_gpu_tune")
    if not tuner.exists():
        emit("tuner", "unsupported", required=not DRY, why="the pack has no dpi_gpu_tune")
        return
    for what in ("lookup", "gemm"):
        status, text = run([str(tuner), f"--{what}", "--out", str(OUT / "tuning.txt"), *(["--dry"] if DRY else [])], 100)
        for line in text.splitlines():
            if line.startswith("{"):
                emit(f"{what} sweep", "ok", **json.loads(line))
        emit(what, "ok" if status == 0 else "failed", exit=status, log="" if status == 0 else text[-800:])


if __name__ == "__main__":
    common.main(stage)
