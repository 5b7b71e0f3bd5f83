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
