"""How texts read (packaging/doc/guide/contribute.md, "How texts read"), as far as a program can tell: a doc comment does not begin with a word that
hides its subject (a comment at the head of a file is one too), README.md stays short, what it and the papers of .github link to is there, and the change
log begins with the library's version.

BUDGET is how many doc comments still begin so. It only falls: whoever rewrites some lowers it."""

import os
import re

from common import CXX, files, read

BUDGET = 20
SLACK = 10  # so many fewer may go by before the budget must follow
FOLDERS = ("sdk/", "kernels/", "capi/")
DOC = re.compile(r"(?m)\A//(?!/) ?(\S.*)$|^[ \t]*///(?!/)<?[ \t]*(\S.*)?\n(?:[ \t]*///.*\n)*|(?<=[;,{)])[ \t]*///<[ \t]*(\S.*)$")
HIDDEN = re.compile(r"(?:Of|As|What|Whether|Those)\b")
README_LINES = 125
CELL_WORDS = 15
LINKING = ("README.md", ".github/", "packaging/CHANGELOG.md")
LINK = re.compile(r"\]\(([^)\s]+)\)|\bsrc=\"([^\"]+)\"")
VERSION = "capi/include/dpi/dpi.h"
CHANGES = "packaging/CHANGELOG.md"


def doc_comments(root):
    """(path, line, first line of the text) of each doc comment."""
    for path in files(root, FOLDERS, CXX):
        text = read(root, path)
        for match in DOC.finditer(text):
            yield path, text.count("\n", 0, match.start()) + 1, next(filter(None, match.groups()), "")


def hidden(root):
    return [f"{path}:{line}: {first}" for path, line, first in doc_comments(root) if HIDDEN.match(first)]


def check(root):
    count = len(hidden(root))
    found = []
    if count > BUDGET:
        found.append(f"{count} doc comments begin with Of, As, What, Whether or Those, at most {BUDGET}: say the subject first. "
                     "`python3 tests/rules/voice.py` lists them")
    elif count < BUDGET - SLACK:
        found.append(f"{count} doc comments begin with Of, As, What, Whether or Those: lower BUDGET of tests/rules/voice.py to {count}")
    return found + check_readme(root) + check_links(root) + check_changes(root)


def check_readme(root):
    found = []
    for path in files(root, ("README.md",)):
        lines = read(root, path).split("\n")
        if len(lines) - 1 > README_LINES:
            found.append(f"{path}: {len(lines) - 1} lines, at most {README_LINES}: the guide is the place for more")
        for number, line in enumerate(lines, 1):
            line = re.sub(r"<!--.*?-->", "", line)
            cells = line.strip("|").split("|") if line.startswith("|") else []
            found += [f"{path}:{number}: a cell of {len(cell.split())} words, at most {CELL_WORDS}" for cell in cells if len(cell.split()) > CELL_WORDS]
    return found


def check_links(root):
    """The site's build checks the links of its pages; these documents are read where they lie."""
    found = []
    for path in files(root, LINKING, (".md",)):
        for match in LINK.finditer(read(root, path)):
            target = (match.group(1) or match.group(2)).split("#")[0]
            if target and not re.match(r"[a-z]+:", target) and not os.path.exists(os.path.join(root, os.path.dirname(path), target)):
                found.append(f"{path}: a link to {target}, which is not there")
    return found


def check_changes(root):
    """The newest section of the change log is of the version that the header states."""
    for path in files(root, (CHANGES,)):
        first = re.search(r"(?m)^## (\d+\.\d+\.\d+)", read(root, path))
        parts = [re.search(rf"define DPI_VERSION_{part} (\d+)", read(root, VERSION)) for part in ("MAJOR", "MINOR", "PATCH")]
        version = ".".join(part.group(1) for part in parts)
        if not first or first.group(1) != version:
            return [f"{path}: begins with version {first and first.group(1)}, {VERSION} states {version}"]
    return []


PLANTED = [
    ("sdk/src/base/a.hpp", "/// What it is.\nint a;\n" * (BUDGET + 1), f"{BUDGET + 1} doc comments begin"),
    ("kernels/a.hpp", "struct A {\n  int a;  ///< Of a row.\n};\n" * (BUDGET + 1), f"{BUDGET + 1} doc comments begin"),
    ("capi/src/a.cpp", "// Of a file.\n" + "int x;  ///< Whether.\n" * BUDGET, f"{BUDGET + 1} doc comments begin"),
    ("capi/src/a.cpp", "  ///   Whether it is.\n  /// More.\nint a;\n" * (BUDGET + 1), f"{BUDGET + 1} doc comments begin"),
    ("README.md", "x\n" * (README_LINES + 1), f"{README_LINES + 1} lines"),
    ("README.md", "| a | " + "word " * (CELL_WORDS + 1) + "|\n", "README.md:1: a cell of 16 words"),
    ("README.md", "[a](gone.md#x) [b](https://example.org/gone.md)\n", "a link to gone.md, which"),
    ("README.md", '<img src="gone.svg">\n', "a link to gone.svg"),
    (".github/A.md", "[a](../gone.md)\n", "a link to ../gone.md"),
]
_VERSION = "#define DPI_VERSION_MAJOR 1\n#define DPI_VERSION_MINOR 2\n#define DPI_VERSION_PATCH 3\n"
PLANTED_IN_CLEAN = [
    (CHANGES, "# Changes\n\n## 1.2.4\n\n## 1.2.3\n", "begins with version 1.2.4"),
    ("sdk/src/base/b.hpp", "/// Those.\nint b;\n", f"{BUDGET + 1} doc comments begin"),
]
CLEAN = [
    ("sdk/src/base/a.hpp", "/// Assigns.\n/// What follows is no beginning.\n/// Of two lines.\n\n// What a plain comment says is not counted.\nint a;  // As here\n"
     "/// What it is.\nint b;\n" + "\n/// What it is.\nint c;\n" * (BUDGET - 1)),
    (".github/A.md", "[a](../README.md#x) [b](#c)\n"), (VERSION, _VERSION), (CHANGES, "# Changes\n\n## 1.2.3 (not released yet)\n\n## 1.2.2\n"), ("README.md", "| a | " + "word " * CELL_WORDS + "|\n"),
]

if __name__ == "__main__":
    import pathlib
    print(*hidden(pathlib.Path(__file__).resolve().parents[2]), sep="\n")
