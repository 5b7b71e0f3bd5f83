"""Each command that the guide's page Command line and the program's help show, run as it is written."""

import gzip
import os
import re
import shutil
import subprocess

import numpy as np
import pytest

from conftest import PROGRAM, ROOT
from record_files import Endpoint
from test_predict import HEADER

ROWS = HEADER.strip() + ",label,clicked,session\n1,1,1|2,0.5,0,1,1,0,a\n2,2|3,,-1,1,0,0,1,b\n0,,4|4|4,0,0.5,0.5,1,1,a\n"
COMMANDS = ["inspect", "plan", "predict", "diff", "replay", "verify", "bench", "devices"]


def block(path):
    """The commands of the page's first block."""
    code = re.search(r"```sh[^\n]*\n(.*?)```", path.read_text(), re.S)[1]
    return [line.split("  #")[0].strip() for line in code.splitlines() if line.strip()]


def examples(command):
    text = subprocess.run([PROGRAM, *command, "--help"], capture_output=True, text=True, timeout=60).stdout
    lines = re.split(r"Examples?:\n", text)[1].splitlines()
    return [line.strip() for line in lines if "dpi " in line and line.startswith("  ") and "<" not in line]


@pytest.fixture
def desk(bundle, tmp_path):
    """run(line): a shell in a folder with the files that the commands name. Tools of others that are not here pass text on."""
    tools = tmp_path / "tools"
    work = tmp_path / "work"
    tools.mkdir()
    work.mkdir()
    (tools / "dpi").symlink_to(PROGRAM)
    for tool in ("dot", "jq"):
        if shutil.which(tool) is None:
            (tools / tool).write_text("#!/bin/sh\nexec cat\n")
            (tools / tool).chmod(0o755)
    for name in ("ctr.h5", "model.h5", "monday.h5", "tuesday.h5", "smaller.h5"):
        shutil.copy(bundle, work / name)
    shutil.copy(ROOT / "tests/bundle/data/small.h5", work / "ranking.h5")  # has features of the user
    with Endpoint(share=1, path=work / "requests.rec") as e:
        e.load(bundle)
        e.predict({"flags": 0, "rows": 2, "item_ids": np.ones(6, "i8"), "item_dense": np.ones((2, 3), "f4")}, 2)
    (work / "rows.csv").write_text(ROWS)
    (work / "rows.csv.gz").write_bytes(gzip.compress(ROWS.encode()))

    def run(line):
        env = dict(os.environ, PATH=f"{tools}:{os.environ['PATH']}")
        short = line.replace("dpi bench", "dpi bench --seconds 0.01")
        if "team.key.pub" in line and not (work / "team.key").exists():
            short = "dpi keygen team.key && dpi sign model.h5 --key team.key && " + short
        done = subprocess.run(["bash", "-o", "pipefail", "-c", short], cwd=work, env=env, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        return done, work

    return run


def test_command_line(desk):
    lines = block(ROOT / "packaging/doc/guide/command_line.md")
    assert {line.split()[1] for line in lines} >= {"--version", *COMMANDS}
    for line in lines:
        done, work = desk(line)
        assert done.stdout or any(name in line for name in ("> plan.svg", "-o scores.csv")), line
    assert (work / "scores.csv").read_text().startswith("click,raw\n")
    assert "digraph" in (work / "plan.svg").read_text() or "<svg" in (work / "plan.svg").read_text()


@pytest.mark.parametrize("command", [[], *[[name] for name in COMMANDS]])
def test_examples_of_help(desk, command):
    lines = examples(command)
    assert lines
    for line in lines:
        desk(line)


def test_readme_of_the_demo_bundles():
    text = (ROOT / "weights" / "demo" / "README.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith("build/release/bin/dpi ")]
    assert lines
    for line in lines:
        done = subprocess.run([PROGRAM, *line.split()[1:]], cwd=ROOT, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0 and "AUC" in done.stdout, done.stderr
