#!/usr/bin/env python3
"""The recipe "Add an op" of kernels/README.md is true: its code blocks, applied word by word to a copy of the tree, give an op
that runs on ref, cpu and cuda_emu with right results, from a recorded case and from a bundle; before its CUDA step cuda_emu
refuses it by name.

    recipe_test.py --places             every place that a block names is there, once; the files that the recipe counts
    recipe_test.py --build FOLDER       applies, builds (a few minutes) and runs in FOLDER"""

import argparse
import os
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from recipe import apply, build, check_places, copy_tree, edits, run  # noqa: E402

RECIPE = edits("kernels/README.md", "Add an op")
CUDA = ("kernels/cuda/", "sdk/src/backend/cuda/")
MOST = 12  # files outside tests
SETTINGS = ("-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=-O0")


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


def apply_and_run(folder):
    copy_tree(folder, RECIPE)
    in_cuda = [e for e in RECIPE if e[0].startswith(CUDA)]
    for edit in RECIPE:
        if edit not in in_cuda:
            apply(folder, edit)
    run([sys.executable, "tests/kernels/op_vectors/record_ops.py"], folder)
    write_bundle(folder)
    build(folder, ["kernels_test", "dpi_program", "dpi_cuda_emu", "print_op_table"], *SETTINGS)
    run([sys.executable, "tests/ops/check_documents.py", "build/bin/tests/print_op_table"], folder)
    check_devices(folder, ["ref", "cpu"])
    check_refused(folder)
    for edit in in_cuda:
        apply(folder, edit)
    build(folder, ["dpi_cuda_emu"], *SETTINGS)
    check_devices(folder, ["cuda_emu"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--places", action="store_true")
    parser.add_argument("--build", metavar="FOLDER", type=pathlib.Path)
    args = parser.parse_args()
    try:
        check_places(RECIPE, MOST)
        if args.build:
            apply_and_run(args.build.resolve())
    except (ValueError, AssertionError) as e:
        print(e)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
