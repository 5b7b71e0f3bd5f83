"""Shared by the rules: which files belong to the project, and C++ source without comments and strings."""

import os
import re
import subprocess

SOURCE = (".c", ".cpp", ".h", ".hpp", ".cu", ".cuh", ".py", ".sh", ".java", ".go", ".cmake")
CXX = (".c", ".cpp", ".h", ".hpp", ".cu", ".cuh")
STAGES = ("base", "bundle", "encode", "ops", "graph", "plan", "backend", "store", "runtime")


def files(root, under=("",), suffixes=None):
    """Paths relative to root: what git tracks or would add; without git, everything outside build/."""
    listed = _git_files(root)
    if listed is None:
        listed = _walk(root)
    for path in sorted(listed):
        if suffixes and not path.endswith(tuple(suffixes)):
            continue
        if any(path.startswith(prefix) for prefix in under) and os.path.isfile(os.path.join(root, path)):
            yield path


def _git_files(root):
    if not os.path.exists(os.path.join(root, ".git")):
        return None
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return [name for name in done.stdout.decode().split("\0") if name]


def _walk(root):
    found = []
    for folder, names, leaves in os.walk(root):
        if folder == root:
            names[:] = [name for name in names if name not in ("build", ".git")]
        names[:] = [name for name in names if name != "__pycache__"]
        found += [os.path.relpath(os.path.join(folder, leaf), root) for leaf in leaves]
    return found


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as handle:
        return handle.read()


_TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<d>[^\s()\\]{0,16})\(.*?\)(?P=d)"|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Za-z_])\'(?:\\.|[^\'\\\n])+\'',
    re.DOTALL)


def strip_cxx(text, keep_strings=False):
    """Comments (and string literals) become blanks, so that line numbers stay."""

    def blank(match):
        token = match.group(0)
        if token.startswith(("//", "/*")):
            return re.sub(r"[^\n]", " ", token)
        if keep_strings:
            return token
        return '""' + "\n" * token.count("\n")

    return _TOKEN.sub(blank, text)


def grep(text, pattern):
    """(line number, matched text) of each match in text."""
    for match in re.finditer(pattern, text):
        yield text.count("\n", 0, match.start()) + 1, match.group(0).strip()
