#!/usr/bin/python3
"""Is libdpi_cuda.so fit to be installed? check_plugin.py PATH

Exactly three exported symbols, no CUDA library needed to load it, and a score that is either above 0 or 0 with a reason."""

import ctypes
import subprocess
import sys


def main(path):
    symbols = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True).stdout
    exported = sorted(line.split()[-1] for line in symbols.splitlines())
    assert exported == ["dpi_backend_init_v1", "dpi_backend_layout_v1", "dpi_backend_score_v1"], exported
    needed = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout
    assert not [line for line in needed.splitlines() if "NEEDED" in line and "cu" in line.split("[")[1]], needed
    library = ctypes.CDLL(path)
    why = ctypes.create_string_buffer(400)
    score = library.dpi_backend_score_v1(why, len(why))
    assert score > 0 or why.value, "score 0 without a reason"
    print(f"score {score} {why.value.decode()}")


if __name__ == "__main__":
    main(sys.argv[1])
