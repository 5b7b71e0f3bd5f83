#!/usr/bin/env python3
"""Compares what the headers <dpi/*.h> and exports.map give a compiler and a linker with the recorded binary interface, by abidiff.

  python3 tests/abi/compiled_abi.py                           exit 1 for anything that abidiff reports, an added function excepted
  python3 tests/abi/compiled_abi.py --library LIB --debug DIR    the same of a real library and its debug symbols (a /usr/lib/debug)
  python3 tests/abi/compiled_abi.py --update                  records the interface as it is

The interface is compiled in a second: a library of the header's functions without bodies, with the version script of the real one. A
definition in capi/ that differs from the header does not compile, and tests/rules compares the names that the real one exports.

abidiff's exit status says "changed" both for members that changed places and for one that was added at a struct's end, so neither passes:
who lets a struct grow (check_abi.py says whether old callers stand it) records the interface anew in the same commit. Constants of unnamed
enums are not in debug symbols: check_abi.py compares them."""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from check_abi import HEADERS, headers, parse

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
EXPORTS = ROOT / "capi" / "src" / "exports.map"
BASELINE = HERE / "dpi-1.0.abi"
SONAME = "libdpi.so.1"


def run(*command):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)


def compiled(folder, header, exports):
    """The interface as a library in `folder`, which has the headers' text as dpi/dpi.h of its own."""
    (folder / "dpi").mkdir(parents=True)
    (folder / "dpi" / "dpi.h").write_text(header)
    (folder / "exports.map").write_text(exports)
    bodies = [f"{signature} {{ __builtin_trap(); }}" for _, signature in sorted(parse(header)["functions"].items())]
    (folder / "interface.c").write_text("#include <dpi/dpi.h>\n" + "\n".join(bodies) + "\n")
    library = folder / SONAME
    made = run("cc", "-std=c99", "-g", "-O0", "-shared", "-fPIC", "-I", folder, f"-Wl,-soname,{SONAME}",
               f"-Wl,--version-script={folder}/exports.map", folder / "interface.c", "-o", library)
    if made.returncode:
        sys.exit(made.stderr)
    return library


def record(library, folder):
    """abidw's words, without where it was made and on which lines: abidiff needs to know of the header only that it is the public one."""
    made = run("abidw", "--no-corpus-path", "--no-comp-dir-path", library)
    if made.returncode:
        sys.exit(made.stderr)
    return re.sub(r" line='\d+' column='\d+'", " line='1' column='1'", made.stdout.replace(f"{folder}/", ""))


def changes(baseline, library, *options):
    """What abidiff says; empty when nothing changed that compiled callers could meet."""
    said = run("abidiff", "--no-added-syms", *options, baseline, library)
    return "" if said.returncode == 0 else said.stdout + said.stderr + f"(abidiff {said.returncode})"


def replaced(text, old, new):
    assert re.search(old, text), old
    return re.sub(old, new, text, count=1)


def same(text):
    return text


# name: (change of the header, change of the version script, does it pass)
PLANTED = {
    "a function went": (lambda h: replaced(h, r"DPI_API[^;{}]*\bdpi_rows_begin\([^;]*;", ""),
                        lambda m: replaced(m, r"dpi_rows_begin;", ""), False),
    "a function is not exported": (same, lambda m: replaced(m, r"dpi_rows_begin;", ""), False),
    "members changed places": (lambda h: replaced(h, r"(int32_t layout;[^\n]*\n)(?:\s*//[^\n]*\n)*(\s*int32_t memory;[^\n]*\n)", r"\2\1"), same, False),
    "a member changed its type": (lambda h: replaced(h, r"const int64_t\* offsets;", "const int32_t* offsets;"), same, False),
    "a parameter changed its type": (lambda h: replaced(h, r"dpi_rows_count\(const dpi_rows\* rows\)", "dpi_rows_count(int64_t rows)"), same, False),
    "a result changed its type": (lambda h: replaced(h, r"uint32_t dpi_version\(void\)", "uint64_t dpi_version(void)"), same, False),
    "a status became wider": (lambda h: replaced(h, r"typedef int32_t dpi_status;", "typedef int64_t dpi_status;"), same, False),
    "a text became shorter": (lambda h: replaced(h, r"char message\[480\]", "char message[472]"), same, False),
    "a struct grew unrecorded": (lambda h: replaced(h, r"(int64_t shared_nnz;)", r"\1 int64_t added;"), same, False),
    "another version node": (same, lambda m: re.sub(r"DPI_1\.0", "DPI_2.0", m), False),
    "a function was added": (lambda h: replaced(h, r"(DPI_API int64_t dpi_rows_count)", r"DPI_API int32_t dpi_added(const dpi_batch* batch) DPI_NOEXCEPT;\n\1"),
                             lambda m: replaced(m, r"(dpi_version;)", r"\1 dpi_added;"), True),
}


def self_test(scratch, baseline):
    """Each planted change is judged as it must be."""
    header, exports = headers(), EXPORTS.read_text()
    for number, (name, (of_header, of_exports, passes)) in enumerate(PLANTED.items()):
        folder = scratch / str(number)
        said = changes(baseline, compiled(folder, of_header(header), of_exports(exports)), "--headers-dir2", folder)
        if (said == "") != passes:
            yield f"planted: {name}: {'is refused: ' + said if passes else 'is not noticed'}"


def judge_interface(scratch):
    """What is wrong with the interface as the header and the version script have it."""
    now = compiled(scratch / "now", headers(), EXPORTS.read_text())
    return [changes(BASELINE, now, "--headers-dir2", scratch / "now"), *self_test(scratch, BASELINE)]


def judge_library(scratch, library, debug):
    """What is wrong with a real library; a record with two members in each other's place must not be its."""
    options = ("--debug-info-dir2", debug, "--headers-dir2", HEADERS[0].parents[1])
    planted = scratch / "planted.abi"
    names = {"layout": "memory", "memory": "layout"}
    planted.write_text(re.sub(r"name='(layout|memory)'", lambda found: f"name='{names[found.group(1)]}'", BASELINE.read_text()))
    noticed = "dpi_batch" in changes(planted, library, *options)
    return [changes(BASELINE, library, *options), "" if noticed else "planted: members changed places: is not noticed"]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--update", action="store_true")
    p.add_argument("--library")
    p.add_argument("--debug")
    args = p.parse_args()
    if not shutil.which("abidiff"):
        print("skipped: abidiff is not installed (packaging/setup.sh test)")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        if args.update:
            BASELINE.write_text(record(compiled(scratch / "now", headers(), EXPORTS.read_text()), scratch / "now"))
            return
        bad = [text for text in (judge_library(scratch, args.library, args.debug) if args.library else judge_interface(scratch)) if text]
    print("\n".join(bad) if bad else f"the interface is that of {BASELINE.name}, and planted changes are judged right")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
