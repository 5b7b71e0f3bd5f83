"""Tests of the Python package dpi. DPI_PYTHON: the folder that holds it (a build's `python`, or where a wheel was installed); DPI_BIN: the
build's programs."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [os.environ.get("DPI_PYTHON", str(ROOT / "build/release/python")), str(Path(__file__).parent)]
