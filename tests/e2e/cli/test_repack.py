"""`dpi repack`: a file that h5py edited, and what is told when it cannot be done."""

import json
import sys

import h5py
import numpy as np
import pytest

from conftest import ROOT


@pytest.fixture(autouse=True)
def package(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "weights" / "python"))


def edited(bundle, path, bias):
    """The bundle's contents, chunked and compressed, with another bias in its last layer."""
    with h5py.File(bundle, "r") as source, h5py.File(path, "w") as f:
        for group in ("tables", "params", "encoders", "golden"):
            for name, item in source.get(group, {}).items():
                f.create_dataset(f"{group}/{name}", data=item[()], **({"chunks": True, "compression": "gzip"} if item.size else {}))
        f["manifest"] = source["manifest"][()]
        names = [name for name in f["params"] if f[f"params/{name}"].shape == (1,)]
        assert len(names) == 1
        f[f"params/{names[0]}"][0] += bias
    return path


def test_an_edit_is_scored(dpi, bundle, csv, tmp_path):
    path = edited(bundle, tmp_path / "edited.h5", 0.25)
    dpi("inspect", path).fails(3)
    ran = dpi("repack", path, tmp_path / "out.h5", "--python", sys.executable, "--no-golden", "--json")
    assert ran.json()["ok"] is True
    rows = csv("job,tags,seen,age,vec[0],vec[1]\n1,1:1,1|2,0.5,0,1\n2,2:1|3:0.5,,-1,1,0\n")
    heads, before = dpi("predict", bundle, rows).scores()
    _, after = dpi("predict", tmp_path / "out.h5", rows).scores()
    np.testing.assert_allclose(after[:, heads.index("raw")] - before[:, heads.index("raw")], 0.25, rtol=0, atol=1e-6)


def test_golden_rows_that_no_longer_hold_are_told(dpi, bundle, tmp_path):
    path = edited(bundle, tmp_path / "edited.h5", 0.25)
    dpi("repack", path, tmp_path / "out.h5", "--python", sys.executable).fails(3, "golden")
    assert not (tmp_path / "out.h5").exists()


def test_nothing_to_read(dpi, tmp_path):
    (tmp_path / "in.h5").write_bytes(b"no HDF5 at all")
    dpi("repack", tmp_path / "in.h5", tmp_path / "out.h5", "--python", sys.executable).fails(3, "in.h5")
    ran = dpi("repack", tmp_path / "in.h5", tmp_path / "out.h5", "--python", sys.executable, "--json")
    assert ran.code == 3 and json.loads(ran.out)["ok"] is False


def test_no_interpreter_and_no_package(dpi, bundle, tmp_path, monkeypatch):
    dpi("repack", bundle, tmp_path / "out.h5", "--python", tmp_path / "none").fails(6, "cannot be started", "--python")
    monkeypatch.setenv("PYTHONPATH", "")
    dpi("repack", bundle, tmp_path / "out.h5", "--python", "/usr/bin/python3").fails(6, "dpi_export", "PYTHONPATH")
    dpi("repack", bundle, tmp_path / "out.h5", "--limit", "0").fails(1, "--limit")
