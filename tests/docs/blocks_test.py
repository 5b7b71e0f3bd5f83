#!/usr/bin/env python3
"""Carries out what the guide says: every block of every page, in order, in a folder of the page's own, over an installation.

    blocks_test.py PREFIX [--jar JAR] [--page NAME]... [--jobs N]

Marks are explained in packaging/doc/generator/blocks.py. A page starts with the demo models of the installation and nothing else; the environment is what the page
"Install" tells a reader to set. Prints a line per page, and what failed with its place; ends with 1 when a block failed or none ran."""

import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOC = ROOT / "packaging/doc"
sys.path.insert(0, str(DOC / "generator"))
import blocks  # noqa: E402

DEMO = ("adult_widedeep.h5", "adult_test.csv", "msweb_deepfm.h5")
WARNINGS = ["-Wall", "-Wextra", "-Werror"]
LIMIT = 300  # seconds for one block
# Each row of the table of Install that names a value: | `VARIABLE` | `VALUE` ...
INSTALL = dict(re.findall(r"(?m)^\| `(\w+)` \| `(\$\S+)`", (DOC / "guide/install.md").read_text(encoding="utf-8")))


def environment(args):
    """A reader's: what Install says, and nothing that names the build tree."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("DPI_", "PYTHON", "GO")) and k not in ("LD_LIBRARY_PATH", "CMAKE_PREFIX_PATH")}
    prefix = str(args.prefix)
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    told = {name: value.replace("$PREFIX", prefix).replace("$PATH", f"/usr/bin:/bin:{kept['PATH']}") for name, value in INSTALL.items()}
    return {**kept, **told, "PREFIX": prefix, "DPI_JAR": str(args.jar),
            "PYTHONDONTWRITEBYTECODE": "1", "GOFLAGS": "-mod=mod", "GOPROXY": "off", "GOTOOLCHAIN": "local",
            "GOCACHE": os.environ.get("GOCACHE") or f"{caches}/go-build", "LC_ALL": "C.UTF-8"}


class Page:
    def __init__(self, path, args):
        self.name = path.relative_to(ROOT).as_posix()
        self.blocks = blocks.blocks_of(self.name, path.read_text(encoding="utf-8"))
        self.args = args
        self.ran = 0
        self.failed = []
        self.shown = [b for b in self.blocks if b.mark == "not-run"]

    def run(self):
        start = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="dpi_docs_") as folder:
            self.folder = pathlib.Path(folder)
            if any(b.mark in ("run", "in") for b in self.blocks):
                for name in DEMO:
                    shutil.copy(self.args.prefix / "share/doc/dpi/samples" / name, folder)
            printed = None
            for block in self.blocks:
                printed = self._block(block, printed)
                if self.failed:
                    break
        self.seconds = time.monotonic() - start
        return self

    def _block(self, block, printed):
        if block.mark == "file":
            target = self.folder / block.value
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.body, encoding="utf-8")
        elif block.mark == "run":
            command = ["bash", "-euo", "pipefail", "-c", block.body] if block.language == "sh" else ["/usr/bin/python3", "-c", block.body]
            return self._command(block, command)
        elif block.mark == "in":
            return self._framed(block)
        elif block.mark == "output":
            self.ran += 1
            if not blocks.matches(block.body, printed):
                self.failed.append(f"{block.place}: expected\n{block.body}\nprinted\n{printed}")
        return printed

    def _framed(self, block):
        frame = (DOC / "frames" / block.value).read_text(encoding="utf-8")
        suffix = pathlib.Path(block.value).suffix
        source, program = self.folder / f"framed{suffix}", self.folder / "framed"
        source.write_text(frame.replace("@@\n", f'#line {block.line + 1} "{block.page}"\n{block.body}'), encoding="utf-8")
        build = f"cc -std=gnu99 {' '.join(WARNINGS)} {source} $(pkg-config --cflags --libs dpi) -Wl,-rpath,$(pkg-config --variable=libdir dpi) -o {program}"
        if self._command(block, ["bash", "-c", build]) is None:
            return None
        return self._command(block, [str(program)])

    def _command(self, block, command):
        self.ran += 1
        env = {**environment(self.args), "XDG_CACHE_HOME": str(self.folder / ".cache")}  # where Java's archive puts its library
        try:
            done = subprocess.run(command, cwd=self.folder, env=env, capture_output=True, text=True, timeout=LIMIT, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            self.failed.append(f"{block.place}: not done in {LIMIT} s")
            return None
        if done.returncode != 0:
            self.failed.append(f"{block.place}: status {done.returncode}\n{block.body}\n{done.stdout}{done.stderr}")
            return None
        return done.stdout


def pages(args):
    found = [path for path in sorted((DOC / "guide").glob("*.md")) if not args.page or path.stem in args.page]
    return [Page(path, args) for path in found]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("prefix", type=pathlib.Path)
    parser.add_argument("--jar", type=pathlib.Path, default=pathlib.Path("/usr/share/java/dpi.jar"))
    parser.add_argument("--page", action="append")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    args.prefix, args.jar = args.prefix.resolve(), args.jar.resolve()
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        done = list(pool.map(Page.run, pages(args)))
    for page in done:
        print(f"{'FAILED' if page.failed else 'passed'}: {page.name}: {page.ran} steps, {page.seconds:.1f} s")
        for text in page.failed:
            print(text)
        for block in page.shown:
            print(f"  {block.place} is not run: {block.value}")
    ran = sum(page.ran for page in done)
    print(f"{ran} steps, {sum(len(page.failed) for page in done)} failed")
    return 1 if any(page.failed for page in done) or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
