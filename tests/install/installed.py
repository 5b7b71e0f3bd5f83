"""Shared by the tests of an installation: where it lies, and how a user's command is run."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv[1]).resolve()
WORK = pathlib.Path(sys.argv[2]).resolve()
PREFIX = WORK / "moved"  # installed as WORK/first
FIRST = WORK / "first"
LIB = PREFIX / "lib"
DOC = PREFIX / "share/doc/dpi"
PLUGINS = LIB / "dpi/backends-1"
DEMO = ROOT / "weights/demo/adult_widedeep.h5"


def environment(**more):
    """A user's: nothing of the build tree, nothing that says where the SDK lies."""
    names = ("DPI_BACKEND_DIR", "LD_LIBRARY_PATH", "PKG_CONFIG_PATH", "CMAKE_PREFIX_PATH")
    return {**{k: v for k, v in os.environ.items() if k not in names}, **more}


def run(command, cwd=WORK, status=0, **more):
    """Standard output of a command (a list, or a line for the shell) that must end with `status`."""
    done = subprocess.run(command, shell=isinstance(command, str), executable="/bin/bash" if isinstance(command, str) else None,
                          cwd=cwd, env=environment(**more), capture_output=True, text=True, timeout=120)
    assert done.returncode == status, f"{command}: status {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def files():
    return sorted(path for path in PREFIX.rglob("*") if path.is_file() and not path.is_symlink())


def binaries():
    """The ELF files that are installed."""
    return [path for path in files() if path.read_bytes()[:4] == b"\x7fELF"]
