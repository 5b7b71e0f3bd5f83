"""dpi.h lists each option as options.def has it: key, values, default and clause, in its order. packaging/doc/generator/options.py --update writes the lines."""

import os
import pathlib
import sys

from common import read

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "packaging/doc/generator"))
import options  # noqa: E402


def check(root):
    if not all(os.path.isfile(os.path.join(root, path)) for path in (options.TABLE, options.HEADER)):
        return []
    return options.faults(options.read(root), read(root, options.HEADER))


_ONE = options.Option("a", "0 ... 8", "3", "chunks")
_TWO = options.Option("store.b", "on | off", "on", "copies")
_HEADER = "/* ---- options ---- */\n/* Text:\n{}\n */\ntypedef struct dpi_options dpi_options;\n"
PLANTED = []
PLANTED_IN_CLEAN = [
    (options.HEADER, _HEADER.format(_ONE.line()), "has no line of store.b"),
    (options.HEADER, _HEADER.format(_ONE.line() + "\n" + _TWO.line().replace("copies", "copied")), "options.def makes ' *   store.b "),
    (options.HEADER, _HEADER.format(_TWO.line() + "\n" + _ONE.line()), "in another order"),
    (options.HEADER, _HEADER.format("\n".join(o.line() for o in (_ONE, _TWO, options.Option("c", "x", "y", "z")))), "lists c, which"),
]
CLEAN = [
    (options.TABLE, 'DPI_OPTION("a", "0 ... 8", "3", "chunks", number(&M::a))\nDPI_TABLE_OPTION("store.b", "on | off", "on",\n                 "copies", set_b)\n'),
    (options.HEADER, _HEADER.format(_ONE.line() + "\n" + _TWO.line())),
]
