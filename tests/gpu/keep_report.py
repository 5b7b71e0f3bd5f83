#!/usr/bin/python3
"""A compiler launcher for nvcc (CMAKE_CUDA_COMPILER_LAUNCHER) that keeps what `-Xptxas -v` says beside the object.

    keep_report.py nvcc ... -c SOURCE -o OBJECT      # writes OBJECT.ptxas

compile_kernels.py --reports reads it there. What is no report of ptxas's is passed on."""

import pathlib
import subprocess
import sys


def is_ptxas(line):
    return line.startswith("ptxas info") or "bytes stack frame" in line


def main():
    command = sys.argv[1:]
    run = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    sys.stderr.write("".join(line for line in run.stderr.splitlines(keepends=True) if not is_ptxas(line)))
    if run.returncode == 0 and "-c" in command and "-o" in command:
        pathlib.Path(command[command.index("-o") + 1] + ".ptxas").write_text(run.stderr)
    return run.returncode


if __name__ == "__main__":
    sys.exit(main())
