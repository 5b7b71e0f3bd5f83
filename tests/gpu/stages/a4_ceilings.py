"""A4: what the machine can do at best: the denominators of every share in the report."""

import json
import os
import subprocess

import common
from common import DRY, emit, program


def stage():
    import a0_probe
    a0_probe.clocks("before ceilings")
    arguments = ["--dry"] if DRY else []
    status, text = common.run([program("gpu_ceilings_emu" if DRY else "gpu_ceilings"), *arguments], 60)
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    for line in lines:
        emit(line.pop("what"), "ok", **line)
    if status != 0 or not lines:
        emit("gpu_ceilings", "failed", exit=status, log=text[-500:])
    done = subprocess.run([os.environ.get("PYTHON", "python3"), str(common.PACK / "tests/gpu/peers/gemm_ceiling.py"), *arguments], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, timeout=max(1, common.left()))
    for line in done.stdout.splitlines():
        emit("gemm", "ok", **json.loads(line))
    if done.returncode != 0:
        emit("gemm ceilings", "failed", log=done.stderr[-800:])
    a0_probe.clocks("after ceilings")


if __name__ == "__main__":
    common.main(stage)
