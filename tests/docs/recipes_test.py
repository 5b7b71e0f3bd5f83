#!/usr/bin/env python3
"""The recipes of packaging/doc/guide/recipes.md are true: their code blocks, applied word by word to a copy of the tree, give an option that the program
takes and an importer that agrees with its library, by the tests of the recipes themselves.

    recipes_test.py --places             every place that a block names is there, once; the files that each recipe counts
    recipes_test.py --importer           applies that recipe in a scratch folder and runs its test: seconds
    recipes_test.py --option FOLDER      applies that recipe in FOLDER, builds the program there (minutes) and runs its test"""

import argparse
import pathlib
import re
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from recipe import apply, build, check_places, copy_tree, edits, run  # noqa: E402

PAGE = "packaging/doc/guide/recipes.md"
OPTION, IMPORTER = edits(PAGE, "Add an option"), edits(PAGE, "Add an importer")
PYTEST = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]


def passed(text):
    """The recipe's test ran, and all of it passed."""
    last = text.strip().splitlines()[-1]
    assert re.match(r"\d+ passed in", last), text
    print(last)


def importer():
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        copy_tree(folder, IMPORTER, "weights/python/")
        for edit in IMPORTER:
            apply(folder, edit)
        passed(run([*PYTEST, "weights/python/tests/test_logistic_import.py"], folder))


def option(folder):
    copy_tree(folder, OPTION)
    for edit in OPTION:
        apply(folder, edit)
    # As the release preset and in a folder as deep as its, so that the compiler cache has what the recipe does not change.
    build(folder, ["dpi_program"], "--preset", "release", where="build/release")
    env = {"DPI_PROGRAM": str(folder / "build/release/bin/dpi"), "PATH": "/usr/bin:/bin"}
    passed(run([*PYTEST, "tests/e2e/cli/test_expect_heads.py"], folder, env=env))
    code = "import sys; sys.path.insert(0, 'packaging/doc/generator'); import options; " \
           "print([(o.values, o.default) for o in options.read() if o.key == 'expect_heads'], options.main())"
    told = run([sys.executable, "-c", code], folder).strip().splitlines()[-1]
    assert told == "[('0 ... 256', '0')] 0", f"the page Options would say {told}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--places", action="store_true")
    parser.add_argument("--importer", action="store_true")
    parser.add_argument("--option", metavar="FOLDER", type=pathlib.Path)
    args = parser.parse_args()
    try:
        check_places(OPTION, 5, formatted=True)
        check_places(IMPORTER, 2)
        if args.importer:
            importer()
        if args.option:
            option(args.option.resolve())
    except (ValueError, AssertionError) as e:
        print(e)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
