#!/usr/bin/env python3
"""Plans of the models of zoo_bench.py are those of plans/, and those with branches have streams for them.

    plans_test.py BUILD [--update]

Tables are small here; all else is the size that is measured. --update writes plans/ anew, pictures too (Graphviz): look at what changed."""

import difflib
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
BRANCHED = ("xdeepfm", "autoint", "masknet", "mmoe", "ple", "finalmlp")


def write(build, folder):
    subprocess.run([sys.executable, "-W", "ignore", HERE.parent / "zoo_bench.py", "--build", build, "--small", "--plans", folder], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def problems(folder):
    """Lines of what is wrong."""
    found, held = ({p.stem: p.read_text().splitlines() for p in f.glob("*.txt")} for f in (folder, HERE / "plans"))
    if found.keys() != held.keys():
        yield f"plans of {sorted(found)}, recorded are {sorted(held)}"
    for name in sorted(found.keys() & held.keys()):
        yield from difflib.unified_diff(held[name], found[name], f"plans/{name}.txt", name, lineterm="", n=1)
    for name in BRANCHED:
        streams = int(re.search(r"(\d+) streams", found[name][0]).group(1))
        if streams < 2:
            yield f"{name}: {streams} streams"


def main():
    build = pathlib.Path(sys.argv[1])
    if "--update" in sys.argv:
        return write(build, HERE / "plans")
    with tempfile.TemporaryDirectory(prefix="dpi_plans_") as folder:
        write(build, pathlib.Path(folder))
        wrong = list(problems(pathlib.Path(folder)))
    print("\n".join(wrong) or "every plan is the recorded one", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
