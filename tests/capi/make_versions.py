#!/usr/bin/env python3
"""Writes bundles whose scores tell which one they are: make_versions.py FOLDER.

    0.h5 ... 15.h5   two tables of 16 rows of [tag / 2, row / 1024] and a bias of 32 tag, tag = the file's number + 1. The score of ids a and b is
                     33 tag + (a + b) / 1024: rows of one bundle with rows or weights of another give a number of no bundle
    0.delta ...      from 0.h5 to 1.h5 and so on, the last one to 0.h5; twice.delta from 0.h5 to 2.h5
    wide0, wide1     a table of 40 MiB that is the same in both, and a small one that wide.delta changes
    grown, others    bundles that callers of 0.h5 may be given next, or may not: what their names say
    signed, foreign  0.h5 signed by the key whose public half is in key.pub, and by another
"""

import pathlib
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "weights/python"))

from dpi_export import Builder, Rows, delta  # noqa: E402
from dpi_export.bundle.signing import make_keys  # noqa: E402

TAGS, ROWS, WIDE = 16, 16, 163840


def build(tag, rows=ROWS, names=("a", "b"), head="score", shared=False, golden=0.0, big=0, **rules):
    b = Builder("versions")
    parts = []
    for i, name in enumerate(names):
        b.categorical(name, rows, space="shared" if shared and i == 1 else "item", **rules)
        table = np.zeros((rows, 2 + big), np.float32)
        table[:, 0], table[:, 1] = tag / 2, np.arange(rows) / 1024
        parts.append(b.embed(b.input(name), b.table(name, table)))
    x = b.concat(parts)
    weight = np.zeros((1, b.shape(x)[0]), np.float32)
    for i in range(len(names)):
        weight[0, i * (2 + big):i * (2 + big) + 2] = 1
    b.head(head, b.linear(x, weight, np.float32([32 * tag])), activation="identity")
    ids = [[0] * len(names), [3] * len(names)]
    want = np.array([tag * len(names) / 2 + 32 * tag + sum(row) / 1024 for row in ids]) + golden
    if not shared:
        b.golden(Rows(ids=np.array(ids).ravel(), offsets=np.arange(2 * len(names) + 1)), value=want, tolerance=1e-5)
    return b


def build_wide(tag):
    b = Builder("wide")
    b.categorical("a", WIDE)
    b.categorical("b", ROWS)
    large = np.zeros((WIDE, 64), np.float32)
    large[:, 0], large[:, 1] = 0.5, np.arange(WIDE) % ROWS / 1024
    small = np.zeros((ROWS, 2), np.float32)
    small[:, 0], small[:, 1] = tag / 2, np.arange(ROWS) / 1024
    x = b.concat([b.embed(b.input("a"), b.table("a", large)), b.embed(b.input("b"), b.table("b", small))])
    weight = np.zeros((1, 66), np.float32)
    weight[0, [0, 1, 64, 65]] = 1
    b.head("score", b.linear(x, weight, np.float32([32 * tag])), activation="identity")
    return b


def write_deltas(folder):
    for n in range(TAGS):
        delta(folder / f"{n}.h5", folder / f"{(n + 1) % TAGS}.h5", folder / f"{n}.delta")
    delta(folder / "0.h5", folder / "2.h5", folder / "twice.delta")
    for n in (0, 1):
        build_wide(n + 1).write(folder / f"wide{n}.h5")
    delta(folder / "wide0.h5", folder / "wide1.h5", folder / "wide.delta")
    delta(folder / "0.h5", folder / "wrong_golden.h5", folder / "wrong_golden.delta")
    delta(folder / "signed.h5", folder / "signed_next.h5", folder / "signed.delta", sign=str(folder / "key"))
    delta(folder / "signed.h5", folder / "signed_next.h5", folder / "unsigned.delta")
    flipped = bytearray((folder / "0.delta").read_bytes())
    flipped[-1] ^= 1
    (folder / "damaged.delta").write_bytes(flipped)


def main():
    folder = pathlib.Path(sys.argv[1])
    for n in range(TAGS):
        build(n + 1).write(folder / f"{n}.h5")
    made = {
        "grown": build(3, rows=20), "shrunk": build(3, rows=8), "shrunk_milder": build(3, rows=8, out_of_range="oov", oov_id=0),
        "milder": build(3, out_of_range="oov", oov_id=0), "renamed": build(3, names=("a", "c")), "turned": build(3, names=("b", "a")),
        "more": build(3, names=("a", "b", "c")), "other_head": build(3, head="ctr"), "shared_part": build(3, shared=True),
        "wrong_golden": build(3, golden=1.0), "large": build(3, rows=4096, big=62),
        "large4": build(4, rows=4096, big=62), "large5": build(5, rows=4096, big=62),
    }
    for name, builder in made.items():
        builder.write(folder / f"{name}.h5", check=None if name == "wrong_golden" else "numpy")
    key, other = folder / "key", folder / "other_key"
    (folder / "public").write_text(make_keys(str(key)))
    make_keys(str(other))
    build(1).write(folder / "signed.h5", sign=str(key))
    build(2).write(folder / "signed_next.h5", sign=str(key))
    build(2).write(folder / "foreign.h5", sign=str(other))
    whole = (folder / "5.h5").read_bytes()
    (folder / "truncated.h5").write_bytes(whole[:-100])
    flipped = bytearray(whole)
    flipped[-1] ^= 1
    (folder / "damaged.h5").write_bytes(flipped)
    write_deltas(folder)


if __name__ == "__main__":
    main()
