#!/usr/bin/env python3
"""Writes a chain of versions into a folder: make_chain.py FOLDER.

    0.h5 ... 7.h5         the bundles of tests/capi/make_versions.py, whose scores tell which one they are
    1.delta ... 7.delta   from the bundle before to that of the number
    other.h5, other.delta   another bundle of this model, and a delta that starts from it
    signed.delta          1.delta, signed by the key whose public half is in `public`
"""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "capi"), str(HERE.parents[1] / "weights/python")]

from make_versions import build  # noqa: E402

from dpi_export import delta  # noqa: E402
from dpi_export.bundle.signing import make_keys  # noqa: E402

LENGTH = 8


def main():
    folder = pathlib.Path(sys.argv[1])
    for n in range(LENGTH):
        build(n + 1).write(folder / f"{n}.h5")
    for n in range(1, LENGTH):
        delta(folder / f"{n - 1}.h5", folder / f"{n}.h5", folder / f"{n}.delta")
    build(12).write(folder / "other.h5")
    build(13).write(folder / "after_other.h5")
    delta(folder / "other.h5", folder / "after_other.h5", folder / "other.delta")
    (folder / "public").write_text(make_keys(str(folder / "key")))
    delta(folder / "0.h5", folder / "1.h5", folder / "signed.delta", sign=str(folder / "key"))


if __name__ == "__main__":
    main()
