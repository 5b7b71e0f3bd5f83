"""The program dpi, for tests that have the engine recompute golden rows."""

import os
import pathlib
import subprocess

import pytest

DEVICES = ("ref", "cpu", "cuda_emu")  #: cuda_emu: the CUDA kernels emulated on the host


def verified(path, device="ref", precision="fp32"):
    """What `dpi verify` says. The program is DPI_PROGRAM, or that of the release build; skips where it or its plugin is missing."""
    build = pathlib.Path(os.environ.get("BUILD") or pathlib.Path(__file__).resolve().parents[3] / "build")
    program = pathlib.Path(os.environ.get("DPI_PROGRAM") or build / "release" / "bin" / "dpi")
    plugins = pathlib.Path(os.environ.get("DPI_BACKEND_DIR") or program.parent.parent / "lib" / "dpi" / "backends-1")
    if not program.exists() or device == "cuda_emu" and not (plugins / "libdpi_cuda_emu.so").exists():
        pytest.skip(f"no {program}, or it has no {device}: build the program dpi, or set DPI_PROGRAM")
    return subprocess.run([program, "verify", path, "--device", device, "--precision", precision], capture_output=True, text=True,
                          check=False, env={**os.environ, "DPI_BACKEND_DIR": str(plugins)})


def agrees(path, device):
    """Fails where the engine's scores of the golden rows are beyond their tolerances."""
    done = verified(path, device)
    assert done.returncode == 0 and "agree" in done.stdout, done.stdout + done.stderr
