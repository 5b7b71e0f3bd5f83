#!/usr/bin/env python3
"""keep_report.py over a planted nvcc: a result is taken from the cache only if nothing that it depends on has changed."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
NVCC = """#!/bin/sh
[ "$1" != --version ] || { cat "$VERSION"; exit 0; }
echo run >>"$CALLS"
while [ $# -gt 0 ]; do case "$1" in -o) out="$2" ;; -MF) deps="$2" ;; --keep-dir) keep="$2" ;; -c) source="$2" ;; esac; shift; done
cat "$source" "$HEADER" >"$out"
echo "$source: $HEADER" >"$deps"
echo ".entry of $(cat "$source")" >"$keep/x.ptx"
echo "ptxas info    : 32 registers" >&2
[ ! -f "$WARNS" ] || echo "a warning" >&2
"""


class Planted:
    def __init__(self, folder, name="tree"):
        self.folder, self.tree = folder, folder / name
        (self.tree / "tests/gpu").mkdir(parents=True)
        (self.tree / "kernels").mkdir()
        shutil.copy(HERE / "keep_report.py", self.tree / "tests/gpu")
        self.header, self.source = self.tree / "kernels/a.hpp", self.tree / "kernels/a.cu"
        self.header.write_text("header\n")
        self.source.write_text("source\n")
        self.nvcc = folder / "nvcc"
        self.nvcc.write_text(NVCC)
        self.nvcc.chmod(0o755)
        (folder / "version").write_text("13.0\n")

    def compile(self, *options, **env):
        """(was nvcc run, what was written, what was said)."""
        calls, out = self.folder / "calls", self.folder / "a.o"
        calls.write_text("")
        for old in self.folder.glob("a.o*"):
            old.unlink()
        named = {"CALLS": calls, "VERSION": self.folder / "version", "HEADER": self.header, "WARNS": self.folder / "warns",
                 "XDG_CACHE_HOME": self.folder / "cache", **env}
        run = subprocess.run([sys.executable, self.tree / "tests/gpu/keep_report.py", self.nvcc, *options, "-c", self.source, "-MD", "-MF",
                              f"{out}.d", "-o", out], env={**os.environ, **{k: str(v) for k, v in named.items()}}, capture_output=True, text=True,
                             check=True)
        return bool(calls.read_text()), [(self.folder / f"a.o{end}").read_text() for end in ("", ".ptxas", ".ptx", ".d")], run.stderr


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        tree = Planted(folder)
        ran, first, said = tree.compile()
        assert ran and first[0] == "source\nheader\n" and "32 registers" in first[1] and ".entry of source" in first[2] and not said
        assert tree.compile() == (False, first, ""), "the second time nothing changed"
        assert tree.compile(DPI_NVCC_CACHE="off")[0], "the cache is off"
        assert tree.compile("-O1")[0], "another command"
        tree.header.write_text("another\n")
        ran, second, _ = tree.compile()
        assert ran and second[0] == "source\nanother\n", "a header changed"
        tree.source.write_text("other\n")
        assert tree.compile()[0], "the source changed"
        (folder / "version").write_text("13.1\n")
        assert tree.compile()[0], "another nvcc"
        (folder / "warns").touch()
        tree.source.write_text("warned\n")
        assert [tree.compile()[0], tree.compile()[2]] == [True, "a warning\n"], "a warning is said each time"
        (folder / "warns").unlink()
        elsewhere = Planted(folder, "copy")
        elsewhere.compile()
        ran, result, _ = tree.compile() if tree.source.write_text("source\n") and tree.header.write_text("header\n") else None
        assert not ran and str(tree.tree) in result[3], "another copy of the tree, with its own paths"
    print("keep_report_test: ok")


if __name__ == "__main__":
    main()
