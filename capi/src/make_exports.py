#!/usr/bin/env python3
"""Writes exports.map, the linker's version script of libdpi.so.1, from the headers <dpi/*.h>.

    capi/src/make_exports.py [--node DPI_1.1]

A function stays in the node in which it first appeared; new ones go to --node (default: the newest node in the file). Once a
node is released, only a later node may gain functions. tests/rules/exports.py checks the result."""

import argparse
import pathlib
import re

HERE = pathlib.Path(__file__).resolve().parent
HEADERS = sorted((HERE.parent / "include" / "dpi").glob("*.h"))
MAP = HERE / "exports.map"


def declared(header):
    clean = re.sub(r"/\*.*?\*/|//[^\n]*", " ", header, flags=re.DOTALL)
    found = set()
    for declaration in re.findall(r"\bDPI_API\b[^;{]*;", clean):
        found |= set(re.findall(r"\b(dpi_[a-z0-9_]+)\s*\(", declaration)[:1])
    return found


def read_nodes(text):
    nodes = re.findall(r"^(DPI_\d+\.\d+)\s*\{(.*?)\}", text, re.DOTALL | re.MULTILINE)
    return {name: set(re.findall(r"\b(dpi_[a-z0-9_]+);", body)) for name, body in nodes}


def render(nodes):
    lines = ["# Written by make_exports.py from the headers; do not edit.\n"]
    previous = ""
    for name, functions in nodes.items():
        lines.append(f"{name} {{\n  global:\n")
        lines += [f"    {function};\n" for function in sorted(functions)]
        lines.append("  local:\n    *;\n" if not previous else "")
        lines.append(f"}}{' ' + previous if previous else ''};\n")
        previous = name
    return "".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--node", help="version node for functions that no node has yet")
    args = parser.parse_args()
    nodes = read_nodes(MAP.read_text(encoding="utf-8")) if MAP.exists() else {}
    nodes = nodes or {"DPI_1.0": set()}
    functions = set().union(*(declared(header.read_text(encoding="utf-8")) for header in HEADERS))
    nodes = {name: known & functions for name, known in nodes.items()}
    new = functions - set().union(*nodes.values())
    if new:
        nodes.setdefault(args.node or list(nodes)[-1], set()).update(new)
    MAP.write_text(render(nodes), encoding="utf-8")


if __name__ == "__main__":
    main()
