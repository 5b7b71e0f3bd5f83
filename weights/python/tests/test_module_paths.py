"""Import paths that users have: the public names, and module paths from before the package had folders."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import dpi_export
from dpi_export.earlier_paths import MOVED, MOVED_NAMES

PACKAGE = Path(dpi_export.__file__).parent
#: lines "module: names": what each module defined before the package had folders. No file of the package makes this list.
EARLIER_NAMES = [line.split(": ") for line in (Path(__file__).parent / "earlier_names.txt").read_text().splitlines()]


@pytest.mark.parametrize("earlier", sorted(MOVED))
def test_an_earlier_path_is_the_same_module(earlier):
    assert importlib.import_module(f"dpi_export.{earlier}") is importlib.import_module(f"dpi_export.{MOVED[earlier]}")


@pytest.mark.parametrize("module, names", EARLIER_NAMES, ids=[module for module, _ in EARLIER_NAMES])
def test_every_earlier_name_is_in_its_earlier_module(module, names):
    found = importlib.import_module(module)
    assert [name for name in names.split() if not hasattr(found, name)] == []


def test_a_moved_name_is_the_same_object():
    for earlier, names in MOVED_NAMES.items():
        for name, path in names.items():
            found = getattr(importlib.import_module(f"dpi_export.{earlier}"), name)
            assert found is getattr(importlib.import_module(f"dpi_export.{path}"), name)


def test_statements_that_users_have():
    statements = ("from dpi_export import encoders as e; e.trim()", "import dpi_export.encoders as e; e.to_float()", "from dpi_export.encoders import vocab_string",
                  "from dpi_export.fuxictr import from_fuxictr", "from dpi_export.torch_import import explain", "from dpi_export.signing import sign",
                  "from dpi_export.golden import check_golden", "from dpi_export.errors import BundleError", "from dpi_export.cli import main",
                  "from dpi_export.delta import delta; delta.__call__", "from dpi_export.repack import repack; repack.__call__",
                  "import dpi_export; dpi_export.delta.__call__, dpi_export.repack.__call__, dpi_export.encoders.to_id()")
    for statement in statements:
        ran = subprocess.run([sys.executable, "-c", statement], cwd=PACKAGE.parent, capture_output=True, text=True)
        assert ran.returncode == 0, f"{statement}: {ran.stderr}"


def test_every_public_name_is_there():
    assert all(hasattr(dpi_export, name) for name in dpi_export.__all__)


def test_every_folder_is_in_the_list_that_is_installed():
    text = (PACKAGE.parent / "pyproject.toml").read_text()
    for init in PACKAGE.rglob("__init__.py"):
        name = ".".join(init.parent.relative_to(PACKAGE.parent).parts)
        assert f'"{name}"' in text, f"pyproject.toml does not list {name}"
