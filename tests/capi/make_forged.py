#!/usr/bin/env python3
"""Writes deltas whose rows are not those of the version that they name, and whose own digests are right: make_forged.py FOLDER.

    FORM0.h5 ... FORM2.h5     versions of make_deep.py's models, and FORM0.delta, FORM1.delta from each to the next
    FORM.ids                  int64 ids of rows that change, and others
    FORM-*.forged             FORM0.delta with something in it that is not FORM1's: what its name says
    near0.h5, near.delta      a delta of rows that stand side by side, in one of the table's five leaves
    gone0.h5, gone.delta      one key goes, and the rows of all leaves behind it move
"""

import pathlib
import sys

import h5py
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "weights/python"), str(HERE)]

from make_deep import N, build, first, later  # noqa: E402

from dpi_export import delta  # noqa: E402
from dpi_export.bundle import digest  # noqa: E402
from dpi_export.bundle.writer import ProfileFile, seal  # noqa: E402


def forge(source, target, changes):
    """The delta `source` with other arrays, sealed as the exporter does."""
    arrays = {}
    with h5py.File(source, "r") as f:
        f.visititems(lambda name, item: arrays.__setitem__("/" + name, item[()]) if isinstance(item, h5py.Dataset) else None)
    manifest = arrays.pop("/manifest")
    for path, change in changes.items():
        arrays[path] = np.ascontiguousarray(change(arrays[path].copy()), arrays[path].dtype)
    f = ProfileFile(str(target), sum(1 for a in arrays.values() if a.size))
    for path, array in arrays.items():
        f.put(path, array)
    f.put("/manifest", manifest)
    seal(str(target), f.u, f.close(), version=(1, 0), magic=digest.DELTA_MAGIC)


def one_bit(rows):
    flat = rows.view("u1").reshape(-1)
    flat[-1] ^= 1
    return rows


def first_row(rows):
    rows[0] = rows[0][::-1]
    return rows


def other_number(at):
    """One of the numbers is the one behind it, which the delta does not name."""
    k = next(k for k in range(len(at) - 1) if at[k] + 1 < at[k + 1])
    at[k] += 1
    return at


def other_key(keys):
    """A key of the base that the delta does not name."""
    def change(at):
        between = [k for k in keys if at[3] < k < at[4]]
        at[3] = between[0]
        return at
    return change


def forgeries(form, m):
    yield "bit", {"/tables/0.rows": one_bit}
    yield "row", {"/tables/0.rows": first_row}
    yield "small", {"/tables/1.rows": one_bit}
    yield "at", {"/tables/0.at": other_key(m["keys"]) if form == "keyed" else other_number}
    if form == "keyed":
        yield "gone", {"/tables/set0.gone": other_key(m["keys"])}
    if form == "i8":
        yield "scale", {"/tables/0.scale": lambda scale: np.concatenate([scale[:1] * 2, scale[1:]])}


def write_form(folder, form):
    rng = np.random.default_rng(7)
    m, asked, files = first(form, rng), [], [folder / f"{form}{v}.h5" for v in range(3)]
    keys = m["keys"]
    for v, path in enumerate(files):
        if v > 0:
            changed = np.unique(rng.choice(np.arange(1, N - 1), 40, replace=False))
            asked += [changed, changed + 1]
            m = later(m, rng, changed, dense=True)
        if v == 1 and form == "keyed":  # keys go, and all rows behind them move
            stay = rng.random(N) > 0.001
            m["rows"], m["keys"] = np.concatenate([m["rows"][:-1][stay], m["rows"][-1:]]), m["keys"][stay]
        build(form, m).write(path, check=None)
        if v > 0:
            delta(files[v - 1], path, folder / f"{form}{v - 1}.delta")
    ids = np.unique(np.concatenate([*asked, rng.integers(0, N, 200)]))
    (keys[ids] if form == "keyed" else ids).astype("<i8").tofile(folder / f"{form}.ids")
    for name, changes in forgeries(form, {"keys": keys}):
        forge(folder / f"{form}0.delta", folder / f"{form}-{name}.forged", changes)
    with h5py.File(folder / f"{form}0.delta", "r") as f:
        param = "/params/" + sorted(f["params"])[0]
    forge(folder / f"{form}0.delta", folder / f"{form}-param.forged", {param: one_bit})


def write_near(folder):
    rng = np.random.default_rng(9)
    m = first("f32", rng)
    build("f32", m).write(folder / "near0.h5", check=None)
    build("f32", later(m, rng, np.arange(40, 90), dense=False)).write(folder / "near1.h5", check=None)
    delta(folder / "near0.h5", folder / "near1.h5", folder / "near.delta")
    m = first("keyed", rng)
    build("keyed", m).write(folder / "gone0.h5", check=None)
    m["keys"], m["rows"] = np.delete(m["keys"], 5), np.delete(m["rows"], 5, axis=0)
    build("keyed", m).write(folder / "gone1.h5", check=None)
    delta(folder / "gone0.h5", folder / "gone1.h5", folder / "gone.delta")


def main():
    folder = pathlib.Path(sys.argv[1])
    for form in ("f32", "i8", "keyed", "linear"):
        write_form(folder, form)
    write_near(folder)


if __name__ == "__main__":
    main()
