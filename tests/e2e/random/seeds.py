"""What the commands over random models share: arguments, and the library of a build."""

import argparse
import os
import pathlib
import sys

#: Emulated devices have nearly all of the time: in an ordinary run they take a part of the loads.
EMULATED = ("cuda_emu",)


def full():
    """Is this `tests/run.sh --full`, with all sizes?"""
    return os.environ.get("FULL") == "1"


def parser_of(about, first, count):
    """A parser with the build folder, the seeds (by default `count` from `first`) and the devices."""
    parser = argparse.ArgumentParser(description=about.split("\n", 1)[0])
    parser.add_argument("build", type=pathlib.Path, help="build folder, e.g. build/release")
    parser.add_argument("--first", type=int, default=first, help="first seed of the random models")
    parser.add_argument("--count", type=int, default=count, help="number of random models, one a seed")
    parser.add_argument("--devices", default="ref,cpu,cuda_emu")
    return parser


def library_of(build):
    """The path of its libdpi; ends the program as skipped where that is not built."""
    library = build.resolve() / "lib" / "libdpi.so.1"
    if not library.exists():
        print(f"skipped: {library} is not built")
        sys.exit(77)
    return str(library)
