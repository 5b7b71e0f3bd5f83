"""A text that says that something is not there names what would make it false. A line of README.md or of the guide that says "not yet", "your service",
"none", "No." and the like carries a comment `<!-- until: NAME, NAME -->`, and none of the names may stand in a public header, an option, an op, the
lines of CMake or the name of a file. Whoever adds it finds the texts that became stale. A name matches whole parts between underscores: `batcher` is
in `dpi_batcher`."""

import re

from common import files, grep, read, strip_cxx

DOCUMENTS = ("README.md", "packaging/doc/guide/", "packaging/doc/reference/")
CLAIM = re.compile(r"(?i:\bnot yet\b|\bmade yet\b|\bfused yet\b|\| your service \||\| none \||\bis not offered\b|\bemulated (?:only|devices? only)\b|\bno other GPU\b)"
                   r"|\bThere is no\b|\bon no proxy\b|\bin no repository\b|^No\.|\bYour service decides\b|\bone H200\b|\bdoes not (?:train|learn)\b"
                   r"|\bThe (?:library|SDK|format) (?:has no|lacks)\b|\bThe SDK does not\b")
UNTIL = re.compile(r"<!-- until: ([^>]+?) -->")
FENCE = re.compile(r"(?ms)^ *```.*?^ *```")
ROOMS = ("capi/include/", "sdk/", "kernels/", "bindings/", "packaging/", "tests/gpu/results/")  # whose files have telling names
OPTIONS = "sdk/src/runtime/options/options.def"
OPS = "kernels/include/dpi/kernels/op.hpp"


def check(root):
    there = None
    found = []
    for path in files(root, DOCUMENTS, (".md",)):
        text = FENCE.sub(lambda m: "\n" * m.group(0).count("\n"), read(root, path))
        for number, line in enumerate(text.split("\n"), 1):
            names = [name.strip() for part in UNTIL.findall(line) for name in part.split(",")]
            claim = CLAIM.search(UNTIL.sub("", line))
            if claim and not names:
                found.append(f"{path}:{number}: '{claim.group(0).strip()}' without <!-- until: NAME -->: what would make it false?")
            there = what_is_there(root) if names and there is None else there
            found += [f"{path}:{number}: is said to be absent, but '{name}' is in {place}" for name in names for place in [first_place(there, name)] if place]
    return found


def what_is_there(root):
    """[(place, text)] of what the library offers."""
    out = []
    for path in files(root, ("capi/include/", OPTIONS, OPS), (".h", ".hpp", ".def")):
        out.append((path, strip_cxx(read(root, path), keep_strings=True)))
    for path in files(root, suffixes=("CMakeLists.txt", ".cmake")):
        out.append((path, re.sub(r"#[^\n]*", "", read(root, path))))
    return out + [(f"the name of {path}", path) for path in files(root, ROOMS) if not path.startswith(DOCUMENTS)]


def first_place(there, name):
    pattern = re.compile(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])")
    for place, text in there:
        for line, _ in grep(text, pattern):
            return place if place.startswith("the name") else f"{place}:{line}"
    return None


PLANTED = [
    ("README.md", "| batching | not yet |\n", "README.md:1: 'not yet' without"),
    ("packaging/doc/guide/a.md", "# A\n\nNo. Swap.\n", "a.md:3: 'No.' without"),
    ("packaging/doc/guide/a.md", "| polling | your service | x |\n", "'| your service |' without"),
    ("packaging/doc/guide/a.md", "The library has no histogram.\n", "'The library has no' without"),
    ("packaging/doc/guide/a.md", "A loaded model does not learn.\n", "'does not learn' without"),
]
PLANTED_IN_CLEAN = [
    ("README.md", "There is no batcher. <!-- until: dpi_batcher -->\n", "'dpi_batcher' is in capi/include/dpi/dpi.h:2"),
    ("packaging/doc/guide/b.md", "| x | none <!-- until: batch_wait_us, y --> |\n", "'batch_wait_us' is in " + OPTIONS),
    ("packaging/doc/guide/b.md", "Not yet. <!-- until: kBlock -->\n", "'kBlock' is in " + OPS),
    ("packaging/doc/guide/b.md", "Not yet. <!-- until: dpi_batcher_plugin -->\n", "'dpi_batcher_plugin' is in sdk/CMakeLists.txt:2"),
    ("packaging/doc/guide/b.md", "Not yet. <!-- until: wrapper.hpp -->\n", "'wrapper.hpp' is in the name of capi/include/dpi/wrapper.hpp"),
]
CLEAN = [
    ("capi/include/dpi/dpi.h", "/* dpi_server, dpi_batch */\nint dpi_batcher(void);\n"), ("capi/include/dpi/wrapper.hpp", ""),
    (OPTIONS, 'DPI_OPTION("batch_wait_us", "0 ... 8", "1", "x", y)\n'), (OPS, "enum { kBlock };\n"), ("sdk/CMakeLists.txt", "# dpi_server\nadd_library(dpi_batcher_plugin a.cpp)\n"),
    ("packaging/doc/guide/a.md", "Not yet. <!-- until: dpi_server, batch_wai -->\n```text\nnot yet\n```\nNo output. Now.\n"),
]
