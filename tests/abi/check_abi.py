#!/usr/bin/env python3
"""Compares the headers <dpi/*.h> with the recorded interface: functions, struct members in order, constants.

  python3 tests/abi/check_abi.py             exit 1 if anything recorded was removed, renamed, reordered or changed
  python3 tests/abi/check_abi.py --update    records the headers as they are (with the release that adds to it)

Added functions, constants and trailing struct members are reported, and allowed: they belong to the next minor version. The baseline is
frozen with the first packages; until then an incompatible change updates it in the same commit, with the reason.
"""

import argparse
import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = HERE.parents[1] / "capi" / "include" / "dpi"
FIRST = ("dpi.h", "endpoint.h")  # what the others include
HEADERS = [FOLDER / name for name in FIRST] + sorted(h for h in FOLDER.glob("*.h") if h.name not in FIRST)
BASELINE = HERE / "dpi-1.0.json"


def headers():
    """The text of all headers, as one file could have it."""
    return "".join(re.sub(r"(?m)^#include <dpi/.*\n", "", header.read_text()) for header in HEADERS)


def parse(text):
    """{functions: {name: signature}, structs: {name: [member ...]}, constants: {name: value}} of a header."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)
    functions = {}
    for match in re.finditer(r"DPI_API\s+(?:DPI_NODISCARD\s+)?([^;{]*?\b(dpi_\w+)\s*\([^;]*?\))\s*DPI_NOEXCEPT\s*;", text, re.S):
        functions[match.group(2)] = " ".join(match.group(1).split()).replace("( ", "(")
    structs = {}
    for match in re.finditer(r"typedef struct (dpi_\w+)\s*\{(.*?)\}\s*\1\s*;", text, re.S):
        structs[match.group(1)] = [" ".join(m.split()) for m in match.group(2).split(";") if m.strip()]
    constants = {}
    for block in re.findall(r"enum\s*\{(.*?)\}", text, re.S):
        for name, value in re.findall(r"(DPI_\w+)\s*=\s*(-?\d+)", block):
            constants[name] = int(value)
    typedefs = sorted(" ".join(t.split()) for t in re.findall(r"typedef\s+(?!struct)[^;]*;", text))
    return {"functions": functions, "structs": structs, "constants": constants, "typedefs": typedefs}


def faults(old, new):
    """(breaking changes, additions) from old to new."""
    bad, added = [], []
    for kind in ("functions", "constants"):
        for name, value in old[kind].items():
            if name not in new[kind]:
                bad.append(f"{kind[:-1]} {name} is gone")
            elif new[kind][name] != value:
                bad.append(f"{kind[:-1]} {name} changed: {value} -> {new[kind][name]}")
        added += [f"{kind[:-1]} {name}" for name in new[kind] if name not in old[kind]]
    for name, members in old["structs"].items():
        now = new["structs"].get(name, [])
        if now[:len(members)] != members:
            bad.append(f"struct {name}: members changed, moved or went")
        added += [f"member {name}.{m}" for m in now[len(members):]]
    bad += [f"typedef changed or went: {t}" for t in old["typedefs"] if t not in new["typedefs"]]
    return bad, added


def self_test(current):
    """The comparison sees what it must see."""
    for change in (lambda c: c["functions"].pop("dpi_predict"), lambda c: c["structs"]["dpi_batch"].reverse(),
                   lambda c: c["constants"].update(DPI_E_IO=4), lambda c: c["structs"]["dpi_error"].pop(),
                   lambda c: c["functions"].update(dpi_version="uint64_t dpi_version(void)"), lambda c: c["typedefs"].pop()):
        broken = json.loads(json.dumps(current))
        change(broken)
        if not faults(current, broken)[0]:
            return "a planted incompatible change was not noticed"
    grown = json.loads(json.dumps(current))
    grown["structs"]["dpi_batch"].append("int32_t added")
    grown["functions"]["dpi_new"] = "void dpi_new(void)"
    bad, added = faults(current, grown)
    return None if not bad and len(added) == 2 else "an addition was taken for a break"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--update", action="store_true")
    args = p.parse_args()
    current = parse(headers())
    if len(current["functions"]) < 40 or len(current["structs"]) < 6 or len(current["constants"]) < 30:
        sys.exit("the header could not be read: too little was found in it")
    if args.update:
        BASELINE.write_text(json.dumps(current, indent=1) + "\n")
        return
    problem = self_test(current)
    if problem:
        sys.exit(problem)
    bad, added = faults(json.loads(BASELINE.read_text()), current)
    for line in bad:
        print(f"BREAKS COMPILED CALLERS: {line}")
    for line in added:
        print(f"added since the baseline: {line}")
    print(f"{len(current['functions'])} functions, {len(current['structs'])} structs, {len(current['constants'])} constants: "
          f"{len(bad)} breaks")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
