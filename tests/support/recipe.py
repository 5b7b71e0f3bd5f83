"""A recipe of a document: its code blocks, applied word by word to a copy of the tree.

A block's first line is a comment with a path, and for a place in that file: `PATH, after: START OF A LINE` (before, instead of).
A later line of that form begins the next edit. Blocks of sh are commands and no edits."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
MARK = re.compile(r"^(?://|#|<!--) ([\w./]+\.\w+)(?:, (after|before|instead of): (.*?))?(?: -->)?$")


def edits(document, heading):
    """(path, how, anchor, lines) of every block below a heading of the second level, in the order of the text."""
    text = (ROOT / document).read_text(encoding="utf-8")
    section = re.search(rf"(?ms)^## {re.escape(heading)}.*?(?=^## |\Z)", text).group(0)
    found = []
    for language, block in re.findall(r"```(\w+)[^\n]*\n(.*?)```", section, re.DOTALL):
        lines = block.splitlines()
        if language == "sh":
            continue
        assert MARK.match(lines[0]), f"a block does not say where it goes: {lines[0]}"
        for line in lines:
            mark = MARK.match(line)
            if mark and "/" in mark.group(1):
                found.append((mark.group(1), mark.group(2), mark.group(3), []))
            else:
                found[-1][3].append(line)
    return found


def apply(root, edit):
    path, how, anchor, lines = edit
    target = pathlib.Path(root, path)
    if how is None:
        if target.exists():
            raise ValueError(f"{path}: the recipe writes it, but it is there")
        target.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return
    old = target.read_text(encoding="utf-8").split("\n")
    at = [i for i, line in enumerate(old) if line.startswith(anchor)]
    if len(at) != 1:
        raise ValueError(f"{path}: {len(at)} lines begin with '{anchor}', expected 1")
    first, last = at[0] + (how == "after"), at[0] + (how != "before")
    target.write_text("\n".join(old[:first] + lines + old[last:]), encoding="utf-8")


def copy_tree(folder, recipe, under=""):
    """What git knows of the tree; an earlier copy is brought up to date, so that its build is of use."""
    for path, how, _, _ in recipe:
        if how is None:
            (folder / path).unlink(missing_ok=True)
    listed = subprocess.run(["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
    for name in listed:
        source = ROOT / name
        if name.startswith(under) and source.is_file() and not name.startswith(("weights/demo/", ".ci/")):
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists() or target.read_bytes() != source.read_bytes():
                target.write_bytes(source.read_bytes())
                target.chmod(source.stat().st_mode)


def check_places(recipe, most, formatted=False):
    """Every place that a block names is there, once; at most so many files outside tests. In a copy of only the files that are named."""
    with tempfile.TemporaryDirectory() as scratch:
        for path, _, _, _ in recipe:
            target = pathlib.Path(scratch, path)
            target.parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / path).is_file() and not target.exists():
                target.write_bytes((ROOT / path).read_bytes())
        for edit in recipe:
            apply(scratch, edit)
        if formatted:
            check_format(pathlib.Path(scratch), recipe)
    touched = sorted({e[0] for e in recipe})
    counted = [p for p in touched if not p.startswith(("tests/", "weights/python/tests/"))]
    print(f"{len(counted)} files, at most {most}; and {len(touched) - len(counted)} of tests:", *touched, sep="\n  ")
    if len(counted) > most:
        raise ValueError(f"the recipe touches {len(counted)} files, at most {most}")


def check_format(folder, recipe):
    """What the recipe writes in C++ is formatted, where clang-format is there."""
    sources = sorted({path for path, _, _, _ in recipe if path.endswith((".cpp", ".hpp"))})
    if shutil.which("clang-format-19") and sources:
        shutil.copy(ROOT / ".clang-format", folder)
        run(["clang-format-19", "--dry-run", "--Werror", *sources], folder)


def run(command, folder, expect=0, **more):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, **more)
    text = done.stdout + done.stderr
    if (done.returncode == 0) != (expect == 0):
        raise ValueError(f"{' '.join(map(str, command))}: status {done.returncode}\n{text[-4000:]}")
    return text


def build(folder, targets, *settings, where="build"):
    if not (folder / where / "build.ninja").exists():
        run(["cmake", "-G", "Ninja", "-S", ".", "-B", where, *settings, "-DDPI_CUDA=OFF"], folder)
    run(["ninja", "-C", where, "-j", os.environ.get("JOBS", "2"), *targets], folder)
