"""A decision is one file of packaging/doc/design: NNN-name.md, numbers without gaps, four parts in their order. The last names the test, rule or README that holds
it, by a name of a file that is there (named_files checks it). README.md lists each."""

import re

from common import files, read

FOLDER = "packaging/doc/design/"
PARTS = ["Context", "Decision", "Price", "What holds it"]
HELD = re.compile(r"`(?:[\w-]+/)*[\w-]+(?:\.(?:cpp|py|hpp|sh)|)`")


def check(root):
    found, number, listed = [], 0, ""
    for path in files(root, (FOLDER,), (".md",)):
        text = read(root, path)
        name = path[len(FOLDER):]
        if name == "README.md":
            listed = text
            continue
        number += 1
        if not re.match(rf"{number:03}-[a-z0-9-]+\.md$", name):
            found.append(f"{path}: expected number {number:03}, a dash and a name in lower case")
        parts = re.split(r"(?m)^## (.*)\n", text)
        if not re.match(r"# \S", parts[0]) or parts[1::2] != PARTS or not all(part.strip() for part in parts[2::2]):
            found.append(f"{path}: expected a title and the parts {', '.join(PARTS)}")
        elif not HELD.search(parts[-1]):
            found.append(f"{path}: names no test or rule that holds it")
    there = [path[len(FOLDER):] for path in files(root, (FOLDER,), (".md",)) if not path.endswith("README.md")]
    return found + [f"{FOLDER}README.md: does not list {name}" for name in there if f"({name})" not in listed]


def _page(last="`a_test.cpp`."):
    return "# A\n\n## Context\n\nx\n\n## Decision\n\nx\n\n## Price\n\nx\n\n## What holds it\n\n" + last + "\n"


PLANTED = [
    (FOLDER + "002-a.md", _page(), "expected number 001"),
    (FOLDER + "001-a.md", _page().replace("## Price", "## Cost"), "expected a title and the parts"),
    (FOLDER + "001-a.md", _page().replace("# A\n", ""), "expected a title and the parts"),
    (FOLDER + "001-a.md", _page("Nobody."), "names no test"),
    (FOLDER + "001-a.md", _page(), "does not list 001-a.md"),
]
CLEAN = [(FOLDER + "001-a.md", _page()), (FOLDER + "002-b.md", _page("The rule `op_switch.py`.")), (FOLDER + "README.md", "[001](001-a.md) [002](002-b.md)\n")]
