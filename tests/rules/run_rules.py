#!/usr/bin/env python3
"""Rules that the compiler does not know. `run_rules.py [RULE...]` checks the tree, `--self-test` checks the rules: each is
run on planted violations, which it must find, and on clean files, in which it must find nothing.

A rule is a module with check(root) -> list of texts, PLANTED = [(path, content, text expected)], CLEAN = [(path,
content)], and PLANTED_IN_CLEAN where a violation shows beside clean files only. To add one: write the module, add its name to
RULES."""

import argparse
import importlib
import os
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
RULES = ("include_direction", "import_circles", "banned_calls", "budgets", "layout", "exports", "binaries", "headers", "op_switch", "told_codes", "named_files",
         "named_tests", "mutants", "voice", "absences", "every_case", "option_lines", "decisions")


def run(rule, root):
    module = importlib.import_module(rule)
    found = module.check(root)
    for line in getattr(module, "report", lambda _: [])(root):
        print(line)
    for text in found:
        print(f"{rule}: {text}")
    print(f"{rule}: {len(found)} violations")
    return not found


def check_on(module, planted):
    with tempfile.TemporaryDirectory() as folder:
        for path, content in planted:
            target = pathlib.Path(folder, path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(content, encoding="utf-8")
        return module.check(folder)


def self_test(rule):
    module = importlib.import_module(rule)
    for name in ("DPI_LIB", "DPI_BINARIES", "DPI_COMMANDS", "DPI_BUILD"):
        os.environ.pop(name, None)
    passed = True
    for path, content, expected in module.PLANTED:
        if not any(expected in text for text in check_on(module, [(path, content)])):
            print(f"{rule}: did not find '{expected}' planted in {path}")
            passed = False
    within = getattr(module, "PLANTED_IN_CLEAN", [])
    for path, content, expected in within:
        if not any(expected in text for text in check_on(module, module.CLEAN + [(path, content)])):
            print(f"{rule}: did not find '{expected}' planted in {path} beside clean files")
            passed = False
    for text in check_on(module, module.CLEAN):
        print(f"{rule}: found in clean files: {text}")
        passed = False
    print(f"{rule}: self-test {'passed' if passed else 'FAILED'} ({len(module.PLANTED) + len(within)} planted)")
    return passed


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rules", nargs="*", help=f"of {', '.join(RULES)}; all if none is given")
    parser.add_argument("--root", default=str(HERE.parent.parent))
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args()
    rules = args.rules or RULES
    results = [self_test(rule) if args.self_test else run(rule, args.root) for rule in rules]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
