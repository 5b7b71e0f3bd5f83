#!/usr/bin/env python3
"""A program that was compiled long ago runs over today's library.

  python3 tests/abi/old_binary.py LIBRARY BUNDLE           runs 1.0/old_program over LIBRARY; exit 1 when it does not pass
  python3 tests/abi/old_binary.py --make COMMIT                writes 1.0/old_program: old_program.c with the header of that commit

The file in 1.0/ is of 265f994, the first commit whose header today's does not break (check_abi.py compares them): it knows neither memory
hooks nor dpi_rows_set_unsigned. It is linked with the header's functions without bodies, as compiled_abi.py makes them, so that nothing
of any build is in it. It is made once for each release, and never anew."""

import pathlib
import subprocess
import sys
import tempfile

from check_abi import headers, parse
from compiled_abi import EXPORTS, ROOT, SONAME, compiled, replaced, run

PROGRAM = pathlib.Path(__file__).resolve().parent / "1.0" / "old_program"
SINCE = {"dpi_env_set_memory", "dpi_rows_set_unsigned"}


def make(commit):
    def of_commit(path):
        return subprocess.run(["git", "-C", ROOT, "show", f"{commit}:{path}"], capture_output=True, text=True, check=True).stdout

    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch, "old")
        library = compiled(folder, of_commit("capi/include/dpi/dpi.h"), of_commit("capi/src/exports.map"))
        (folder / "old_program.c").write_text(of_commit("tests/abi/old_program.c"))
        PROGRAM.parent.mkdir(exist_ok=True)
        subprocess.run(["cc", "-std=c99", "-Os", "-s", "-I.", "old_program.c", library.name, "-Wl,-z,now,-z,noseparate-code,--build-id=none", "-o", PROGRAM],
                       cwd=folder, check=True)


def run_over(folder, bundle):
    return run("env", f"LD_LIBRARY_PATH={folder}", PROGRAM, bundle)


def faults(library, bundle):
    symbols = run("nm", "-D", PROGRAM).stdout
    known = {name for name in parse(headers())["functions"] if f" U {name}@DPI_1.0" in symbols}
    if len(known) < 30 or known & SINCE:
        yield f"1.0/old_program uses {len(known)} functions, of those that came later {sorted(known & SINCE)}"
    done = run_over(library.resolve().parent, bundle)
    if done.returncode or not done.stdout.startswith("a program of 1.0 over a library of 1"):
        yield f"it ends with {done.returncode}: {done.stdout}{done.stderr}"
    with tempfile.TemporaryDirectory() as scratch:  # a planted library, without one function
        gone = compiled(pathlib.Path(scratch, "gone"), replaced(headers(), r"DPI_API[^;{}]*\bdpi_rows_begin\([^;]*;", ""),
                        replaced(EXPORTS.read_text(), "dpi_rows_begin;", ""))
        refused = run_over(gone.parent, bundle)
        if refused.returncode == 0 or "dpi_rows_begin" not in refused.stderr:
            yield f"planted: a function that is gone is not noticed: {refused.stdout}{refused.stderr}"


def main():
    if sys.argv[1] == "--make":
        make(sys.argv[2])
        return
    bad = list(faults(pathlib.Path(sys.argv[1]), sys.argv[2]))
    print("\n".join(bad) if bad else f"{PROGRAM.relative_to(ROOT)} runs over {SONAME}")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
