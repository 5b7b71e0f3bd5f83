#!/usr/bin/env python3
"""Options of a model: sdk/src/runtime/options/options.def has each one's key, values, default and clause. dpi.h lists them in its lines, the page Options
explains them (reference/options.md).

    options.py --update     writes the lines of dpi.h"""

import dataclasses
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
TABLE = "sdk/src/runtime/options/options.def"
HEADER = "capi/include/dpi/dpi.h"
_TEXT = r'"((?:[^"\\]|\\.)*)",\s*'
_DEFINITION = re.compile(r"(?m)^DPI_(?:TABLE_)?OPTION\(" + _TEXT * 4)
_LINE = re.compile(r"(?m)^ \*   ([a-z][\w.]*) .*\n")


@dataclasses.dataclass(frozen=True)
class Option:
    key: str
    values: str
    default: str
    clause: str

    @property
    def group(self):
        """How the page divides them: by what they are for."""
        return "For measuring and for finding faults" if self.key.startswith("debug.") else \
            "Tables" if self.key.startswith(("store.", "table.")) else "For every model"

    def line(self):
        """The option's line in dpi.h, and behind its ` *   ` the program's (sdk/tools/dpi/commands/option_list.cpp)."""
        return f" *   {self.key:<21}  {self.values:<24}  {self.default:<8}  {self.clause}"


def read(root=ROOT):
    return [Option(*fields) for fields in _DEFINITION.findall(pathlib.Path(root, TABLE).read_text(encoding="utf-8"))]


def block(header):
    """(begin, end) of the comment that lists them."""
    begin = header.index("/* ---- options ")
    return begin, header.index("typedef struct dpi_options", begin)


def faults(options, header):
    """Lines of dpi.h that differ from the table's."""
    begin, end = block(header)
    found = {match[1]: match[0].rstrip("\n") for match in _LINE.finditer(header[begin:end])}
    told = [f"{HEADER}: has no line of {o.key}" for o in options if o.key not in found]
    told += [f"{HEADER}: '{found[o.key]}', {TABLE} makes '{o.line()}'" for o in options if found.get(o.key, o.line()) != o.line()]
    told += [f"{HEADER}: lists {key}, which {TABLE} has not" for key in found if key not in {o.key for o in options}]
    order = [key for key in found if key in {o.key for o in options}]
    return told or ([] if order == [o.key for o in options] else [f"{HEADER}: options in another order than in {TABLE}"])


def updated(options, header):
    """The header with its lines as the table makes them, in the same places."""
    begin, end = block(header)
    by_key = {o.key: o.line() + "\n" for o in options}
    return header[:begin] + _LINE.sub(lambda m: by_key.get(m[1], m[0]), header[begin:end]) + header[end:]


def main():
    path = ROOT / HEADER
    header = path.read_text(encoding="utf-8")
    if "--update" in sys.argv:
        header = updated(read(), header)
        path.write_text(header, encoding="utf-8")
    found = faults(read(), header)
    print("\n".join([*found, f"{len(read())} options, {len(found)} faults"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
