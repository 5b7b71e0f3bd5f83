"""The program dpi, for tests that have the engine recompute golden rows."""

import os
import pathlib
import subprocess

import pytest

DEVICES = ("ref", "cpu", "cuda_emu")  #: cuda_emu: the CUDA kernels emulated on the host


def program():
    """DPI_PROGRAM, or the program of the release build; skips where there is none."""
    build = pathlib.Path(os.environ.get("BUILD") or pathlib.Path(__file__).resolve().parents[3] / "build")
    found = pathlib.Path(os.environ.get("DPI_PROGRAM") or build / "release" / "bin" / "dpi")
    if not found.exists():
        pytest.skip(f"there is no {found}: build the program dpi, or set DPI_PROGRAM")
    return found


def environment(device):
    """The environment of the program for a device; skips where its plugin is missing."""
    plugins = pathlib.Path(os.environ.get("DPI_BACKEND_DIR") or program().parent.parent / "lib" / "dpi" / "backends-1")
    if device == "cuda_emu" and not (plugins / "libdpi_cuda_emu.so").exists():
        pytest.skip(f"{program()} has no {device}")
    return {**os.environ, "DPI_BACKEND_DIR": str(plugins)}


def verified(path, device="ref", precision="fp32"):
    """What `dpi verify` says; skips where the program or its plugin is missing."""
    return subprocess.run([program(), "verify", path, "--device", device, "--precision", precision], capture_output=True, text=True,
                          check=False, env=environment(device))


def agrees(path, device):
    """Fails where the engine's scores of the golden rows are beyond their tolerances."""
    done = verified(path, device)
    assert done.returncode == 0 and "agree" in done.stdout, done.stdout + done.stderr
