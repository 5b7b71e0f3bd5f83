"""samples/python as its README says to run it: AUC and log loss are those that the training framework got (weights/demo/README.md)."""

import re
import subprocess
import sys

import pandas
import pytest
from drawn import ROOT

import dpi

TABLE = dict((m[1], m.group(2, 3, 4)) for m in re.finditer(r"\| `(\w+)\.h5` \|[^|]*\| `(\w+\.csv)`[^|]*\|[^|]*\| ([\d.]+), ([\d.]+) \|",
                                                           (ROOT / "weights/demo/README.md").read_text()))


@pytest.mark.parametrize("name, more", [("adult_widedeep", []), ("bank_dcnv2", []), ("msweb_deepfm", ["--split", "history=|"]),
                                        ("msweb_can", ["--split", "history=|"])])
def test_score_csv(name, more, tmp_path):
    table, auc, loss = TABLE[name]
    bundle, rows = ROOT / f"weights/demo/{name}.h5", ROOT / f"weights/demo/{table}"
    run = subprocess.run([sys.executable, ROOT / "samples/python/score_csv.py", bundle, rows, "--out", tmp_path / "out.csv", *more],
                         capture_output=True, text=True, env={"PYTHONPATH": f"{dpi.__path__[0]}/..", "PATH": "/usr/bin"})
    assert run.returncode == 0, run.stderr
    found = re.search(r"AUC ([\d.]+), log loss ([\d.]+)", run.stdout)
    assert abs(float(found[1]) - float(auc)) <= 2e-6 and abs(float(found[2]) - float(loss)) <= 2e-6, run.stdout
    written, given = pandas.read_csv(tmp_path / "out.csv"), pandas.read_csv(rows)
    assert len(written) == len(given) and (written["label"] == given["label"]).all() and f"{len(given)} rows" in run.stdout
    assert (pandas.to_numeric(written.iloc[:, -1]).between(0, 1)).all()


def test_score_candidates_of_users():
    """Several users in one call, as many lines as candidates; the first user's scores are those that it has alone."""
    program, env = ROOT / "samples/python/score_candidates.py", {"PYTHONPATH": f"{dpi.__path__[0]}/..", "PATH": "/usr/bin"}

    def lines(candidates):
        run = subprocess.run([sys.executable, program, ROOT / "tests/bundle/data/small.h5", "--candidates", candidates], capture_output=True,
                             text=True, env=env)
        assert run.returncode == 0, run.stderr
        return run.stdout.splitlines()

    together = lines("4,0,3")
    assert [line.split(":")[0] for line in together] == [f"user {u}, candidate {n}" for u, count in ((0, 4), (2, 3)) for n in range(count)]
    assert together[:4] == ["user 0, " + line for line in lines("4")]
    assert [line.split(": ")[1] for line in together[4:]] != [line.split(": ")[1] for line in together[:3]]  # another user


@pytest.mark.parametrize("bundle", ["weights/demo/bank_dcnv2.h5", "tests/bundle/data/small.h5"])
def test_score_candidates(bundle):
    """The Python and the C++ program print the same, with and without features of the user."""
    program = ROOT / "build/release/bin/score_candidates"
    if not program.exists():
        pytest.skip(f"{program} is not built")
    run = subprocess.run([sys.executable, ROOT / "samples/python/score_candidates.py", ROOT / bundle], capture_output=True, text=True,
                         env={"PYTHONPATH": f"{dpi.__path__[0]}/..", "PATH": "/usr/bin"})
    assert run.returncode == 0, run.stderr
    want = subprocess.run([program, ROOT / bundle], capture_output=True, text=True, check=True).stdout
    assert run.stdout == want and want.count("candidate") == 5
