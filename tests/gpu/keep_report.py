#!/usr/bin/python3
"""A compiler launcher for nvcc (CMAKE_CUDA_COMPILER_LAUNCHER) that keeps what `-Xptxas -v` says, and the PTX, beside the object.

    keep_report.py nvcc ... -c SOURCE -o OBJECT      # writes OBJECT.ptxas and OBJECT.ptx

compile_kernels.py --reports reads them there. What is no report of ptxas's is passed on."""

import pathlib
import subprocess
import sys
import tempfile


def is_ptxas(line):
    return line.startswith("ptxas info") or "bytes stack frame" in line


def main():
    command = sys.argv[1:]
    compiles = "-c" in command and "-o" in command
    with tempfile.TemporaryDirectory() as folder:
        keep = ["--keep", "--keep-dir", folder] if compiles else []
        run = subprocess.run(command + keep, stderr=subprocess.PIPE, text=True, check=False)
        ptx = "".join(p.read_text() for p in sorted(pathlib.Path(folder).glob("*.ptx")))
    sys.stderr.write("".join(line for line in run.stderr.splitlines(keepends=True) if not is_ptxas(line)))
    if run.returncode == 0 and compiles:
        to = command[command.index("-o") + 1]
        pathlib.Path(to + ".ptxas").write_text(run.stderr)
        pathlib.Path(to + ".ptx").write_text(ptx)
    return run.returncode


if __name__ == "__main__":
    sys.exit(main())
