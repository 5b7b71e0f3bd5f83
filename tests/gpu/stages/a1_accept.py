"""A1: do the prebuilt programs start and see the device? If only the plugin is refused it is built again from the pack's sources."""

import json
import os

import common
from common import DEVICE, DRY, emit, program, run, test


def device_report():
    """The backend's entry in `dpi devices`."""
    status, text = run([program("dpi"), "devices", "--json"], 60)
    if status != 0:
        return None, text
    return next((e for e in json.loads(text) if e["backend"] == DEVICE), None), text


def usable():
    entry, text = device_report()
    if DRY and entry is None:  # the test-only plugin is not listed
        return (common.BACKENDS / "libdpi_cuda_emu.so").exists(), "cuda_emu is not listed"
    return bool(entry and entry.get("usable")), json.dumps(entry) if entry else text[-400:]


def stage():
    for name in ("kernels_test", "e2e_op_bundles_test", "gpu_check", "gpu_bench"):
        arguments = ["--list-test-cases"] if name.endswith("_test") else [os.devnull]
        command = test(name) if name.endswith("_test") else [program(name)]
        status, text = run([*command, *arguments], 30)
        late = status == 124 and common.left() < 1
        emit(f"{name} starts", "ok" if status == 0 else "skipped" if late else "failed", exit=status, error="" if status == 0 else text[-300:])
    good, why = usable()
    emit("plugin accepted", "ok" if good else "skipped", device=why)
    if good and os.environ.get("DPI_GPU_REBUILD") != "1":
        return
    status, text = run(["bash", str(common.PACK / "tests/gpu/rebuild_plugin.sh")], 140)
    good, why = usable()
    late = common.left() < 1
    emit("plugin rebuilt", "ok" if status == 0 and good else "skipped" if late else "failed", exit=status, device=why, log=text[-800:])


if __name__ == "__main__":
    common.main(stage)
