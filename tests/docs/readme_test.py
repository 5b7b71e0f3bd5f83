#!/usr/bin/env python3
"""The blocks of code outside the guide: carried_out.txt says of each who carries it out. A block that it does not name is an error, and so is a line
of it that no block needs. README.md's example must print the same score in each language: what `dpi predict` says of the row.

    readme_test.py PREFIX --jar JAR"""

import argparse
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "packaging/doc/generator"), str(ROOT / "tests/rules")]
import blocks  # noqa: E402
import blocks_test  # noqa: E402
import common  # noqa: E402

GUIDE = "packaging/doc/"
ROWS = 300
EXAMPLES = ("go", "java", "python")


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
            if line[2] == "run" or line[2].startswith("in "):
                to_run.append((block, line[2].partition(" ")[2]))
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


def carry_out(block, frame, args):
    """(what it printed, faults)"""
    samples = args.prefix / "share/doc/dpi/samples"
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(samples / "adult_widedeep.h5", pathlib.Path(folder, "ctr.h5"))
        rows = (samples / "adult_test.csv").read_text(encoding="utf-8").splitlines(keepends=True)[: ROWS + 1]
        pathlib.Path(folder, "rows.csv").write_text("".join(rows), encoding="utf-8")
        if frame:
            text = (HERE / "frames" / frame).read_text(encoding="utf-8")
            pathlib.Path(folder, frame).write_text(text.replace("@@\n", block.body), encoding="utf-8")
        env = {**blocks_test.environment(args), "LD_LIBRARY_PATH": f"{args.prefix}/lib", "XDG_CACHE_HOME": folder}
        done = subprocess.run(command_of(block, frame), cwd=folder, env=env, capture_output=True, text=True, timeout=300)
        return done.stdout, [] if done.returncode == 0 else [f"{block.place}: status {done.returncode}\n{done.stdout}{done.stderr}"]


def command_of(block, frame):
    if block.language == "python":
        return ["/usr/bin/python3", "-c", block.body]
    runs = {"java": f'java -cp "$DPI_JAR" {frame}',
            "go": f'go mod init score && go mod edit -require dpiframe.org/dpi@v1.2.0 -replace dpiframe.org/dpi="$DPI_GO" && go run {frame}'}
    return ["bash", "-euo", "pipefail", "-c", runs.get(block.language, block.body)]


def example_faults(printed, args):
    """README.md's example in Java, Go and Python: {language: what it printed} against the program."""
    score = "(sed 1q rows.csv; echo '37,,,Masters,,,,,,,,,,,') | dpi predict ctr.h5 - --raw | tail -n 1"  # the columns of the demo, most of them missing
    told, found = carry_out(blocks.Block("the program", 0, "sh", "", "", score), "", args)
    if found or sorted(printed) != list(EXAMPLES):
        return found + [f"README.md has the example in {sorted(printed)}, expected {list(EXAMPLES)}"]
    return [f"README.md in {language} printed '{text.strip()}', dpi predict '{told.strip()}'" for language, text in printed.items()
            if not abs(float(text) - float(told)) <= 1e-6]


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
    parser = argparse.ArgumentParser()
    parser.add_argument("prefix", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--jar", type=lambda text: pathlib.Path(text).resolve(), required=True)
    args = parser.parse_args()
    missed = [expected for found, expected in planted() if not any(expected in text for text in found)]
    documents = {path: (ROOT / path).read_text(encoding="utf-8") for path in common.files(str(ROOT), suffixes=(".md",)) if not path.startswith(GUIDE)}
    found, to_run = faults(documents, read_ledger((HERE / "carried_out.txt").read_text(encoding="utf-8")))
    printed = {}
    for block, frame in to_run:
        text, wrong = carry_out(block, frame, args)
        found += wrong
        if block.page == "README.md" and not wrong:
            printed[block.language] = text
    found += example_faults(printed, args)
    for text in found + [f"not found: {text}" for text in missed]:
        print(text)
    print(f"{len(documents)} documents, {len(to_run)} blocks run, {len(found)} faults")
    return 1 if found or missed or not to_run else 0


if __name__ == "__main__":
    sys.exit(main())
