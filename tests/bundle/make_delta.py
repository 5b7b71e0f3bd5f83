"""Writes data/changing.h5, data/changed.h5 and data/changing.delta: a model with keyed tables, tables of all types and a vocabulary, its
next version, and the delta between them. delta_test.cpp and tests/fuzz read them.

    python3 tests/bundle/make_delta.py
"""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "weights/python"), str(HERE.parents[1] / "weights/python/tests")]

from delta_models import first, later, write  # noqa: E402

from dpi_export import delta  # noqa: E402

SEED = 31

if __name__ == "__main__":
    model, data = first(SEED), HERE / "data"
    write(model, data / "changing.h5", golden=False)
    write(later(model, 1, 0.25), data / "changed.h5", golden=False)
    delta(data / "changing.h5", data / "changed.h5", data / "changing.delta")
