"""The top level, file sizes, and words that do not belong into a published tree."""

import os
import re

from common import files, read

TOP = {"CMakeLists.txt", "CMakePresets.json", "sdk", "capi", "kernels", "bindings", "samples", "weights", "tests",
       "packaging", "README.md", "LICENSE"}
LARGEST = 4 << 20
BINARY = (".h5", ".npz", ".npy", ".gz", ".zip", ".png", ".jar", ".bin", ".so", ".a", ".parquet", ".xz", ".delta")
SELF = "tests/rules/"

WORDS = {
    r"(?<![\w.$}])/(?:work|tmp|home|root)/[\w.-]": "a path of one machine",
    r"\b(?:deb\.debian\.org|pypi\.org|pythonhosted\.org|proxy\.golang\.org|repo1?\.maven\.)": "a registry's host",
    r"(?i)\b(?:TODO|FIXME|XXX)\b": "unfinished work: finish it, or state the limit in plain words",
}


def check(root):
    found = []
    for path in files(root):
        top = path.split("/")[0]
        if top not in TOP and not top.startswith("."):
            found.append(f"{path}: the top level holds only {', '.join(sorted(TOP))} and dotfiles")
        size = os.path.getsize(os.path.join(root, path))
        if size > LARGEST:
            found.append(f"{path}: {size} bytes, at most {LARGEST}")
        if path.endswith(BINARY) or path.startswith(SELF) or path == "LICENSE":
            continue
        text = read(root, path)
        for pattern, reason in WORDS.items():
            for match in re.finditer(pattern, text):
                line = text.count("\n", 0, match.start()) + 1
                found.append(f"{path}:{line}: `{match.group(0)}`: {reason}")
    return found


PLANTED = [
    ("extra/a.txt", "x\n", "the top level holds only"),
    ("notes.md", "x\n", "the top level holds only"),
    ("sdk/src/base/a.cpp", '// see /home/me/x\n', "path of one machine"),
    ("tests/a.py", 'open("/tmp/x")\n', "path of one machine"),
    ("packaging/a.sh", "curl https://deb.debian.org/x\n", "registry's host"),
    ("sdk/src/base/a.cpp", "// TODO later\n", "unfinished"),
    ("weights/demo/a.h5", "x" * (LARGEST + 1), "bytes, at most"),
]
CLEAN = [
    ("README.md", "build/release/bin/dpi, framework/x, $HOME/tmp/x\n"),
    (".clang-format", "BasedOnStyle: Google\n"),
]
