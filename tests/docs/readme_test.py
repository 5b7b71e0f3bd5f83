#!/usr/bin/env python3
"""The blocks of code outside the guide: carried_out.txt says of each who carries it out. A block that it does not name is an error, and so is a line
of it that no block needs. readme_test.py PREFIX"""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import types

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "packaging/doc/generator"), str(ROOT / "tests/rules")]
import blocks  # noqa: E402
import blocks_test  # noqa: E402
import common  # noqa: E402

GUIDE = "packaging/doc/"
ROWS = 300


def read_ledger(text):
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [tuple(part.strip() for part in line.split(" | ", 2)) for line in lines]


def faults(documents, ledger):
    """(what is wrong, the blocks to run); documents: {path: text}."""
    found, used, to_run = [], set(), []
    for path, text in documents.items():
        for block in blocks.blocks_of(path, text, strict=False):
            if block.language not in blocks.RUNNABLE:
                continue
            line = next((entry for entry in ledger if entry[0] == path and (entry[1] == "*" or block.body.startswith(entry[1]))), None)
            if line is None:
                found.append(f"{block.place}: nobody carries this block out: {block.body.splitlines()[0]}")
                continue
            used.add(line)
            if line[2] == "run":
                to_run.append(block)
            else:
                found += who_is_wrong(line)
    return found + [f"carried_out.txt: no block for: {' | '.join(entry)}" for entry in ledger if entry not in used], to_run


def who_is_wrong(line):
    kind, _, rest = line[2].partition(" ")
    if kind == "by":
        test = ROOT / rest
        named = test.is_file() and pathlib.PurePath(line[0]).name in test.read_text(encoding="utf-8")
        return [] if named or line[0] == "packaging/install/samples.md" and test.is_file() else [f"carried_out.txt: {rest} does not name {line[0]}"]
    return [] if line[2].startswith("not run: ") else [f"carried_out.txt: '{line[2]}' is no answer"]


def carry_out(block, prefix):
    samples = prefix / "share/doc/dpi/samples"
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(samples / "adult_widedeep.h5", pathlib.Path(folder, "ctr.h5"))
        rows = (samples / "adult_test.csv").read_text(encoding="utf-8").splitlines(keepends=True)[: ROWS + 1]
        pathlib.Path(folder, "rows.csv").write_text("".join(rows), encoding="utf-8")
        env = blocks_test.environment(types.SimpleNamespace(prefix=prefix, jar=prefix))
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", block.body], cwd=folder, env=env, capture_output=True, text=True, timeout=300)
        return [] if done.returncode == 0 else [f"{block.place}: status {done.returncode}\n{done.stdout}{done.stderr}"]


def planted():
    """Faults that `faults` must find."""
    ledger = [("a.md", "run me", "not run: x")]
    return [
        (faults({"a.md": "```sh\nother\n```\n"}, ledger)[0], "nobody carries this block out"),
        (faults({"a.md": ""}, ledger)[0], "no block for"),
        (faults({"a.md": "```sh\nrun me\n```\n"}, [("a.md", "run me", "later")])[0], "is no answer"),
        (faults({"a.md": "```sh\nrun me\n```\n"}, [("a.md", "run me", "by tests/gone.py")])[0], "does not name"),
    ]


def main():
    prefix = pathlib.Path(sys.argv[1]).resolve()
    missed = [expected for found, expected in planted() if not any(expected in text for text in found)]
    documents = {path: (ROOT / path).read_text(encoding="utf-8") for path in common.files(str(ROOT), suffixes=(".md",)) if not path.startswith(GUIDE)}
    found, to_run = faults(documents, read_ledger((HERE / "carried_out.txt").read_text(encoding="utf-8")))
    for block in to_run:
        found += carry_out(block, prefix)
    for text in found + [f"not found: {text}" for text in missed]:
        print(text)
    print(f"{len(documents)} documents, {len(to_run)} blocks run, {len(found)} faults")
    return 1 if found or missed or not to_run else 0


if __name__ == "__main__":
    sys.exit(main())
