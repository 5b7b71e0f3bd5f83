"""The mutants of tests/mutants fit the tree: each patch applies and changes code, its suite exists, and there are enough of
them in each part. Whether a test fails with each is found by tests/mutants/run.py."""

import os
import pathlib
import sys

from common import read

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "mutants"))

import patches  # noqa: E402

FOLDERS = ("sdk/src/", "kernels/", "capi/src/")


def check(root):
    names = patches.names(root)
    if not names and not os.path.isdir(os.path.join(root, "tests/mutants")):
        return []
    suites = patches.known_suites(root)
    found, caught = [], {}
    for name in names:
        try:
            mutant = patches.read(root, name)
            check_one(root, mutant, suites)
            caught[mutant.part] = caught.get(mutant.part, 0) + (not mutant.survives)
        except patches.PatchError as why:
            found.append(f"tests/mutants/{name}.patch: {why}")
    for part, least in patches.PARTS.items():
        if caught.get(part, 0) < least:
            found.append(f"tests/mutants/{part}: {caught.get(part, 0)} mutants that a suite catches, expected {least}")
    if sum(caught.values()) < patches.LEAST:
        found.append(f"tests/mutants: {sum(caught.values())} mutants that a suite catches, expected {patches.LEAST}")
    return found


def check_one(root, mutant, suites):
    if mutant.part not in patches.PARTS:
        raise patches.PatchError(f"'{mutant.part}' is no part: {', '.join(patches.PARTS)}")
    if mutant.suite not in suites:
        raise patches.PatchError(f"there is no test and no area '{mutant.suite}'")
    for path, hunks in mutant.hunks.items():
        if not path.startswith(FOLDERS):
            raise patches.PatchError(f"it changes {path}, which is not in {', '.join(FOLDERS)}")
        if not os.path.isfile(os.path.join(root, path)):
            raise patches.PatchError(f"there is no {path}")
        text = read(root, path)
        if patches.apply(hunks, text) == text:
            raise patches.PatchError(f"it leaves {path} as it is")


_CODE = "int f(int x) {\n  return x + 1;\n}\n"
_PATCH = "plants: a\ncaught by: plan\n--- a/sdk/src/a.cpp\n+++ b/sdk/src/a.cpp\n@@ -1,3 +1,3 @@\n int f(int x) {\n-  return x + 1;\n+  return x;\n }\n"
_AT = "tests/mutants/plan/a.patch"
PLANTED = [
    (_AT, _PATCH, "there is no test and no area 'plan'"),
    (_AT, _PATCH.replace("plants: a\n", ""), "the header has no 'plants:'"),
    (_AT, _PATCH.replace("plants", "plant"), "'plant: a' is no header line"),
    (_AT, "plants: a\ncaught by: plan\n", "it changes nothing"),
    (_AT.replace("plan/", "other/"), _PATCH, "'other' is no part"),
    (_AT, _PATCH, "tests/mutants/cuda: 0 mutants"),
    (_AT, _PATCH, "tests/mutants: 0 mutants that a suite catches, expected 60"),
]
_TREE = [("tests/plan/CMakeLists.txt", "dpi_test(plan_test SOURCES a.cpp LIBS plan DEVICES ref cpu)\n"), ("sdk/src/a.cpp", _CODE)]
_ALL = [(f"tests/mutants/{part}/m{i}.patch", _PATCH) for part in patches.PARTS for i in range(14)]
CLEAN = _TREE + _ALL
# Together with a sound tree: (path, content, text expected).
PLANTED_IN_CLEAN = [
    (_AT, _PATCH.replace(": plan", ": plan_test"), "there is no test and no area 'plan_test'"),
    (_AT, _PATCH.replace(": plan", ": plan_test.cuda"), "there is no test and no area 'plan_test.cuda'"),
    (_AT, _PATCH.replace("x + 1", "x + 2"), "fits 0 places"),
    (_AT, _PATCH.replace("a.cpp", "b.cpp"), "there is no sdk/src/b.cpp"),
    (_AT, _PATCH.replace("sdk/src/a.cpp", "tests/a.cpp"), "it changes tests/a.cpp"),
    (_AT, _PATCH.replace("return x;", "return x + 1;"), "it leaves sdk/src/a.cpp as it is"),
    ("sdk/src/a.cpp", _CODE + _CODE, "fits 2 places"),
]
