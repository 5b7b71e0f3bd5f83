#!/usr/bin/python3
"""A compiler launcher for nvcc (CMAKE_CUDA_COMPILER_LAUNCHER) that keeps what `-Xptxas -v` says, and the PTX, beside the object.

    keep_report.py nvcc ... -c SOURCE -o OBJECT      # writes OBJECT.ptxas and OBJECT.ptx

compile_kernels.py --reports reads them there. What is no report of ptxas's is passed on.

Results are kept in ${XDG_CACHE_HOME:-~/.cache}/dpi/nvcc, since a compiler cache takes neither reports nor PTX. A kept one counts for the
same command, nvcc, source and headers: all of kernels/ and the folders of sdk/src/backend/cuda count as headers, so a change of one
compiles every kernel. DPI_NVCC_CACHE=off leaves it out. The newest 400 results stay."""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADERS = ("kernels", "sdk/src/backend/cuda", "sdk/src/backend/abi", "sdk/src/ops", "sdk/src/base", "tests/gpu/tools")
KEPT = 400


def is_ptxas(line):
    return line.startswith("ptxas info") or "bytes stack frame" in line


def key_of(command, source):
    """A digest of all that the result depends on; paths of the tree and of the object do not count."""
    digest = hashlib.sha256()
    version = subprocess.run([command[0], "--version"], capture_output=True, text=True, check=True).stdout
    for text in (version, pathlib.Path(__file__).read_text(encoding="utf-8"), *(c.replace(str(ROOT), "@") for c in command)):
        digest.update(text.encode() + b"\0")
    for folder in HEADERS:
        for path in sorted((ROOT / folder).rglob("*.h*")) + sorted((ROOT / folder).rglob("*.cuh")):
            digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes() + b"\0")
    digest.update(pathlib.Path(source).read_bytes())
    return digest.hexdigest()


class Cache:
    """Folders named by key, each with the files of one result."""

    def __init__(self):
        self.at = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache", "dpi/nvcc")
        self.on = os.environ.get("DPI_NVCC_CACHE") != "off"

    def take(self, key, files):
        """Puts the result's files where they belong; False if there is none. Paths below the root are this tree's."""
        folder = self.at / key
        if not self.on or not all((folder / name).is_file() for name in files):
            return False
        for name, target in files.items():
            data = (folder / name).read_bytes()
            target.write_bytes(data.replace(b"@ROOT@", str(ROOT).encode()) if name == "d" else data)
        folder.touch()
        return True

    def put(self, key, files):
        if not self.on:
            return
        self.at.mkdir(parents=True, exist_ok=True)
        made = pathlib.Path(tempfile.mkdtemp(dir=self.at))
        for name, source in files.items():
            data = source.read_bytes()
            (made / name).write_bytes(data.replace(str(ROOT).encode(), b"@ROOT@") if name == "d" else data)
        try:
            made.rename(self.at / key)
        except OSError:  # another build was faster
            shutil.rmtree(made)
        for old in sorted(self.at.iterdir(), key=lambda p: p.stat().st_mtime)[:-KEPT]:
            shutil.rmtree(old, ignore_errors=True)


def compile_one(command):
    """Runs nvcc; writes the report and the PTX beside the object, and passes on what else it says."""
    to = command[command.index("-o") + 1]
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run([*command, "--keep", "--keep-dir", folder], stderr=subprocess.PIPE, text=True, check=False)
        ptx = "".join(p.read_text() for p in sorted(pathlib.Path(folder).glob("*.ptx")))
    said = "".join(line for line in run.stderr.splitlines(keepends=True) if not is_ptxas(line))
    sys.stderr.write(said)
    if run.returncode == 0:
        pathlib.Path(to + ".ptxas").write_text(run.stderr)
        pathlib.Path(to + ".ptx").write_text(ptx)
    return run.returncode, said


def main():
    command = sys.argv[1:]
    if "-c" not in command or "-o" not in command:
        return subprocess.run(command, check=False).returncode
    to = command[command.index("-o") + 1]
    files = {"o": pathlib.Path(to), "ptxas": pathlib.Path(to + ".ptxas"), "ptx": pathlib.Path(to + ".ptx")}
    if "-MF" in command:
        files["d"] = pathlib.Path(command[command.index("-MF") + 1])
    cache = Cache()
    key = key_of(command, next(c for c in command if c.endswith(".cu")))
    if cache.take(key, files):
        return 0
    status, said = compile_one(command)
    if status == 0 and not said:  # a result with a warning is not kept: it is to be read each time
        cache.put(key, files)
    return status


if __name__ == "__main__":
    sys.exit(main())
