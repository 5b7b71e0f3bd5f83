#!/usr/bin/env python3
"""The recipe "Add an op" of kernels/README.md is true: its code blocks, applied word by word to a copy of the tree, give an op
that runs on ref, cpu and cuda_emu with right results, from a recorded case and from a bundle; before its CUDA step cuda_emu
refuses it by name.

    recipe_test.py --places             every place that a block names is there, once; the files that the recipe counts
    recipe_test.py --build FOLDER       applies, builds (a few minutes) and runs in FOLDER

A block's first line is a comment with a path, and for a place in that file: `PATH, after: START OF A LINE` (before, instead of).
A later line of that form begins the next edit."""

import argparse
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
MARK = re.compile(r"^(?://|#|<!--) ([\w./]+\.\w+)(?:, (after|before|instead of): (.*?))?(?: -->)?$")
CUDA = ("kernels/cuda/", "sdk/src/backend/cuda/")
TESTS = "tests/"
MOST = 12  # files outside tests


def edits():
    """(path, how, anchor, lines) of every block, in the order of the text."""
    text = (ROOT / "kernels/README.md").read_text(encoding="utf-8")
    found = []
    for language, block in re.findall(r"```(\w+)\n(.*?)```", text[text.index("## Add an op"):], re.DOTALL):
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


def copy_tree(folder):
    """What git knows of the tree; an earlier copy is brought up to date, so that its build is of use."""
    for path, how, _, _ in edits():
        if how is None:
            (folder / path).unlink(missing_ok=True)
    listed = subprocess.run(["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
    for name in listed:
        source = ROOT / name
        if name and source.is_file() and not name.startswith(("weights/demo/", ".ci/")):
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists() or target.read_bytes() != source.read_bytes():
                target.write_bytes(source.read_bytes())
                target.chmod(source.stat().st_mode)


def places():
    """In a copy of only the files that are named."""
    import tempfile
    with tempfile.TemporaryDirectory() as scratch:
        for path, how, _, _ in edits():
            target = pathlib.Path(scratch, path)
            target.parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / path).is_file() and not target.exists():
                target.write_bytes((ROOT / path).read_bytes())
        for edit in edits():
            apply(scratch, edit)
    touched = sorted({e[0] for e in edits()})
    counted = [p for p in touched if not p.startswith(TESTS)]
    print(f"{len(counted)} files, at most {MOST}; and {len(touched) - len(counted)} of tests:", *touched, sep="\n  ")
    if len(counted) > MOST:
        raise ValueError(f"the recipe touches {len(counted)} files, at most {MOST}")


def run(command, folder, expect=0, **more):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, **more)
    text = done.stdout + done.stderr
    if (done.returncode == 0) != (expect == 0):
        raise ValueError(f"{' '.join(map(str, command))}: status {done.returncode}\n{text[-4000:]}")
    return text


def write_bundle(folder):
    """A model with the op before its last sum, through the exporter of the copy, with golden rows by numpy."""
    code = """
import sys, numpy as np
sys.path.insert(0, 'weights/python')
from dpi_export import Builder, Rows
b = Builder('scaled')
b.dense('x', 31)
y = b.op('Scale', [b.input('x')], {'factor': -1.75})
logit = b.linear(y, np.linspace(-1, 1, 31, dtype=np.float32)[None, :], np.float32([0.125]))
b.head('ctr', b.sigmoid(logit), logit=logit)
rows = np.random.default_rng(1).standard_normal((9, 31), dtype=np.float32)
b.golden(Rows(dense=rows)); b.write('scaled.h5')
"""
    run([sys.executable, "-c", code], folder)


def check_devices(folder, devices):
    """kernels_test and verify on each device."""
    env = {**os.environ, "DPI_BACKEND_DIR": str(folder / "build/lib/dpi/backends-1")}
    for device in devices:
        tests = run(["build/bin/tests/kernels_tests", f"--device={device}", "-tc=ops:*", "-sc=Scale,n*_r*"], folder, env=env)
        assert "SUCCESS" in tests and not re.search(r"assertions: *0 ", tests), tests
        print(run(["build/bin/dpi", "verify", "scaled.h5", "--device", device], folder, env=env).strip().splitlines()[-1])


def check_refused(folder):
    env = {**os.environ, "DPI_BACKEND_DIR": str(folder / "build/lib/dpi/backends-1")}
    wanted = "cuda_emu has no kernel for Scale"
    for command in (["build/bin/dpi", "verify", "scaled.h5", "--device", "cuda_emu"],
                    ["build/bin/tests/kernels_tests", "--device=cuda_emu", "-tc=ops:*", "-sc=Scale,n*_r*"]):
        text = run(command, folder, expect=1, env=env)
        assert wanted in text, text
    print(wanted)


def build(folder, targets):
    if not (folder / "build/build.ninja").exists():
        run(["cmake", "-G", "Ninja", "-S", ".", "-B", "build", "-DDPI_CUDA=OFF", "-DCMAKE_BUILD_TYPE=Debug",
             "-DCMAKE_CXX_FLAGS_DEBUG=-O0"], folder)
    run(["ninja", "-C", "build", "-j", os.environ.get("JOBS", "2"), *targets], folder)


def apply_and_run(folder):
    copy_tree(folder)
    in_cuda = [e for e in edits() if e[0].startswith(CUDA)]
    for edit in edits():
        if edit not in in_cuda:
            apply(folder, edit)
    run([sys.executable, "tests/kernels/op_vectors/record_ops.py"], folder)
    write_bundle(folder)
    build(folder, ["kernels_test", "dpi_program", "dpi_cuda_emu", "print_op_table"])
    run([sys.executable, "tests/ops/check_documents.py", "build/bin/tests/print_op_table"], folder)
    check_devices(folder, ["ref", "cpu"])
    check_refused(folder)
    for edit in in_cuda:
        apply(folder, edit)
    build(folder, ["dpi_cuda_emu"])
    check_devices(folder, ["cuda_emu"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--places", action="store_true")
    parser.add_argument("--build", metavar="FOLDER", type=pathlib.Path)
    args = parser.parse_args()
    try:
        places()
        if args.build:
            apply_and_run(args.build.resolve())
    except (ValueError, AssertionError) as e:
        print(e)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
