"""What `check` may be, without the engine; tests/python/test_export_check.py has it."""

import sys

import numpy as np
import pytest

from dpi_export import Bundle, BundleError, Rows


@pytest.fixture
def golden(small):
    """The small model with golden rows that the package's executor computes."""
    columns = small.columns
    small.golden(Rows.from_columns(small, {**columns, "hist": columns["hist"][:2]}, shared_counts=[3, 1]))
    return small


def test_the_engine_is_missing(golden, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "dpi", None)
    with pytest.raises(BundleError, match="check='engine' needs the package dpi"):
        golden.write(tmp_path / "a.h5", check="engine")
    monkeypatch.setitem(sys.modules, "dpi", np)  # something else of that name
    with pytest.raises(BundleError, match="what is imported under that name"):
        golden.write(tmp_path / "a.h5", check="engine")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("check", [True, False, None, "numpy"])
def test_kinds(golden, tmp_path, check):
    golden.write(tmp_path / "a.h5", check=check)
    with Bundle(tmp_path / "a.h5") as bundle:
        assert bundle.golden["n"] == 4


@pytest.mark.parametrize("check", ["Engine", "", 2, 1.5, ["numpy"]])
def test_other_kinds_are_refused(golden, tmp_path, check):
    with pytest.raises(BundleError, match="check is .*, expected None, 'numpy' or 'engine'"):
        golden.write(tmp_path / "a.h5", check=check)
    assert not list(tmp_path.iterdir())
