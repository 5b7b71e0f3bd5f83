#!/usr/bin/env python3
"""The engine's op table (printed by print_op_table), the exporter's list (dpi_export/ops/shapes.py) and part 7 of weights/FORMAT.md
say the same: ops and their order, numbers of inputs, attribute keys, parameter roles and which of them are optional.
`--self-test` plants differences on each side, which must be found."""

import argparse
import copy
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "weights/python"))
from dpi_export.ops import shapes  # noqa: E402

MANY = 65536
# Words in backticks that are values of the key before them.
VALUES = {"single", "length", "last", "id", "nonzero", "none", "ninf", "add", "replace", "softmax", "silu", "keys", "pairs", "relative", "zeros", "mean"}


def of_engine(program):
    table = json.loads(subprocess.run([program], check=True, capture_output=True, text=True).stdout)
    return {name: (tuple(op["inputs"]), set(op["keys"]), set(op["roles"])) for name, op in table.items()}


def of_exporter():
    return {name: ((least, most), set(keys), {r + "?" * (r in shapes.OPTIONAL_PARAMS) for r in roles})
            for name, (least, most, keys, roles) in shapes.OPS.items()}


def inputs_of(cell):
    """"x, mask (, att) -> y" -> (2, 3)."""
    left = re.sub(r"\[[^]]*\]", "", cell.split("->")[0])
    if left.strip() == "list":
        return 1, MANY
    left = re.sub(r",? or \w+", "", left)
    optional = re.findall(r"\(,\s*(\w+)\s*\)", left)
    least = len(re.findall(r"\w+", re.sub(r"\([^)]*\)", "", left)))
    return least, least + len(optional)


def roles_of(text):
    """"`weight` [out,in], `bias` [out]?" -> {"weight", "bias?"}: an `?` or "optional" holds for its list up to the last shape."""
    found, waiting = set(), []
    for role, rest, mark in re.findall(r"`(\w+)`([^`?]*)(\??)", text):
        waiting.append(role)
        if mark or "optional" in rest:
            found |= {r + "?" for r in waiting}
            waiting = []
        elif "[" in rest:
            found |= set(waiting)
            waiting = []
    return found | set(waiting)


def of_format(text):
    part = text[text.index("## 7. Ops"):text.index("## 8.")]
    table = {}
    for line in part.splitlines():
        cells = [c.strip() for c in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) != 4 or not re.fullmatch(r"[A-Z]\w+", cells[0]):
            continue
        attrs, _, params = cells[2].partition("params")
        keys = set(re.findall(r"`(\w+)`", attrs)) - VALUES
        roles = roles_of(params)
        if cells[0] == "Unary":  # by kind, in the paragraph below
            below = part[part.index("**Unary kinds.**"):part.index("**Recurrent.**")]
            words = re.findall(r"params? ((?:`\w+`(?:, )?)+)", below)
            roles = {r + "?" for group in words for r in re.findall(r"`(\w+)`", group)}
            roles |= {r + "?" for r in re.findall(r"`(\w+)`", " ".join(re.findall(r"params ([^:)]*?) of the last", below)))}
        table[cells[0]] = (inputs_of(cells[1]), keys, roles)
    return table


def differences(engine, other, name):
    found = []
    if list(engine) != list(other):
        found.append(f"{name}: ops are {list(other)}, the engine's are {list(engine)}")
    for op in engine:
        for what, mine, theirs in zip(("inputs", "attribute keys", "roles"), engine[op], other.get(op, engine[op])):
            if mine != theirs:
                found.append(f"{name}: {op}: {what} are {show(theirs)}, the engine's are {show(mine)}")
    return found


def show(value):
    return sorted(value) if isinstance(value, set) else value


def check(engine, exporter, text):
    return differences(engine, exporter, "dpi_export/ops/shapes.py") + differences(engine, of_format(text), "FORMAT.md part 7")


def self_test(engine, exporter, text):
    missed = []

    def planted(what, *args):
        if not check(*args):
            missed.append(what)

    for op in engine:
        for side in (0, 1):
            tables = [copy.deepcopy(engine), copy.deepcopy(exporter)]
            del tables[side][op]
            planted(f"{op} left out", *tables, text)
            inputs, keys, roles = (engine, exporter)[side][op]
            for k in keys:
                tables[side] = {**(engine, exporter)[side], op: (inputs, keys - {k}, roles)}
                planted(f"{op}.{k} left out", *tables, text)
            for r in roles:
                other = r[:-1] if r.endswith("?") else r + "?"
                tables[side] = {**(engine, exporter)[side], op: (inputs, keys, roles - {r} | {other})}
                planted(f"{op}.{r} as {other}", *tables, text)
            tables[side] = {**(engine, exporter)[side], op: ((inputs[0], inputs[1] + 1), keys, roles)}
            planted(f"{op} with one input more", *tables, text)
    for line in [l for l in text.splitlines() if l.startswith(tuple(f"| {op} |" for op in engine))]:
        planted(f"line '{line[:20]}' left out", engine, exporter, text.replace(line + "\n", ""))
    for word in ("`keepdim` (false)", "`groups` (1)", "`bias` [out]?", "`eps` (1e-5)"):
        assert word in text, word
        planted(f"{word} left out", engine, exporter, text.replace(word, ""))
    planted("bias required", engine, exporter, text.replace("`bias` [out]?", "`bias` [out]"))
    return missed


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", help="print_op_table")
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args()
    text = (ROOT / "weights/FORMAT.md").read_text(encoding="utf-8")
    found = (self_test if args.self_test else check)(of_engine(args.program), of_exporter(), text)
    for line in found:
        print(("not found: " if args.self_test else "") + line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
