"""The executor against the recorded vectors of every primitive, and the reader against malformed bundles."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from dpi_export import Bundle, BundleError
from dpi_export.bundle.golden import compare_golden

TESTS = pathlib.Path(__file__).resolve().parents[3] / "tests"
FOLDER = TESTS / "e2e" / "op_bundles"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.h5")), ids=lambda p: p.stem)
def test_op_bundle(path):
    with Bundle(path) as bundle:
        bundle.verify_digests()
        for dtype in (np.float64, np.float32):
            report = compare_golden(bundle, dtype)
            assert report["failures"] == []
            worst = max(h["value"] for h in report["heads"].values())
            assert worst <= (5e-7 if dtype is np.float64 else 2e-5)


def test_all_op_bundles_are_there():
    assert len(list(FOLDER.glob("*.h5"))) == 16


def test_malformed_bundles(tmp_path):
    subprocess.run([sys.executable, TESTS / "bundle" / "make_bad_bundles.py", tmp_path], check=True, capture_output=True)
    cases = json.loads((tmp_path / "cases.json").read_text())
    assert len(cases) > 80
    for case in cases:
        error = ""
        try:
            with Bundle(tmp_path / case["file"]) as bundle:
                bundle.verify_digests()
                assert bundle.golden is not None
        except BundleError as e:
            error = str(e)
        assert (error == "") == (case["status"] == "DPI_OK"), case
        assert case["text"].lower() in error.lower(), (case, error)
