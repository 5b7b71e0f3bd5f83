"""A3: compute-sanitizer's four tools over the small suite. What it finds is mended before any number counts."""

import json
import shutil

import common
from common import DEVICE, DRY, PACK, WORK, emit, program, run, test

TOOLS = ("initcheck", "synccheck", "racecheck", "memcheck")  # those that never ran on a device first
MOST_SECONDS = 20


def check_job():
    """Golden bundles of two models, 33 rows, the choices that start other kernels."""
    bundles = ["fx_deepfm_half", "fx_dcnv2_parallel"]
    variants = [{"name": str(o), "options": {"device": DEVICE, "max_contexts": "1", **o}, "tolerance": 4e-2, "required": False}
                for o in ({}, {"debug.graphs": "off"}, {"small_batch": "on"}, {"precision": "tf32"}, {"precision": "fp16"},
                          {"precision": "fp16", "small_batch": "on"})]
    path = WORK / "sanitizer.jobs"
    path.write_text("".join(json.dumps({"bundle": str(PACK / f"tests/e2e/golden/{b}.h5"), "rows": [33], "reference": {"device": "cpu"},
                                        "variants": variants}) + "\n" for b in bundles))
    return str(path)


def stage():
    tool = shutil.which("compute-sanitizer")
    jobs = check_job()
    for what, command in (("gpu_check", [program("gpu_check"), jobs]), ("e2e_op_bundles_test", [*test("e2e_op_bundles_test"), f"--device={DEVICE}"])):
        for name in TOOLS:
            prefix = [tool, "--tool", name, "--error-exitcode", "9"] if tool and not DRY else []
            if not prefix and not DRY:
                emit(name, "failed", error="compute-sanitizer is not on PATH")
                continue
            status, text = run(prefix + command, None if DRY else MOST_SECONDS)
            refused = "Device not supported" in text
            emit(f"{name} on {what}", "ok" if status == 0 else "skipped" if refused or status == 124 else "failed", exit=status,
                 report=next((line for line in text.splitlines() if "ERROR SUMMARY" in line), ""), log="" if status == 0 else text[-1200:])


if __name__ == "__main__":
    common.main(stage)
