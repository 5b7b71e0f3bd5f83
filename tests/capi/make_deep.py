#!/usr/bin/env python3
"""Writes versions of models with large tables of which a few rows change: make_deep.py FOLDER.

    FORM0.h5 ... FORM4.h5   a table of 70000 rows or keys (4 MiB or more) under features `a` and, in bags, `h`, and a small one under `b`. From
                            0 to 1 and 1 to 2 rows change, some in both; to 3 dense weights too; to 4 rows, padding's among them
    FORM0.delta ...         from each to the next
    FORM.ids                int64 ids, of feature `a`, that changed in some version, and as many others
    moved.delta             from keyed0.h5 to moved.h5, which has other keys
    all.delta               from f320.h5 to all.h5, of which every row is another

    tag0.h5 ... tag15.h5    as make_versions.py's, with tables of 65536 rows: 16 of them have the tag
    tag0.delta ...          from each to the next, the last one to tag0.h5
"""

import pathlib
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "weights/python"))

from dpi_export import Builder, delta  # noqa: E402

N, TAGS, HOT, SMALL = 70000, 16, 16, 16
FORMS = {"f32": ("f32", 16), "f16": ("f16", 32), "bf16": ("bf16", 32), "i8": ("i8", 64), "i4": ("i4", 128), "bags": ("f32", 16), "linear": ("f32", 15),
         "keyed": ("f32", 16)}


def build(form, m):
    dtype, dim = FORMS[form]
    b = Builder("deep")
    if form == "keyed":
        b.keyed_table("rows", m["keys"], m["rows"][:-1], m["rows"][-1], dtype=dtype)
        b.categorical("a", keys="rows")
    else:
        b.table("rows", m["rows"], dtype=dtype)
        b.categorical("a", N)
    b.categorical("b", SMALL)
    parts = [b.embed(b.input("a"), "rows"), b.embed(b.input("b"), b.table("small", m["small"]))]
    if form == "bags":
        b.sequence("h", N, max_len=4, pad_id=0, missing="pad")
        parts.append(b.embed(b.input("h"), "rows", pooling="mean", mask="id"))
    if form == "linear":
        parts.append(b.embed(b.input("a"), b.table("weights", m["linear"])))
    x = b.concat(parts)
    n = b.shape(x)[0]
    logit = b.linear(b.unary("relu", b.linear(x, m["hidden"][:, :n], m["bias"])), m["top"], m["bias"][:1])
    if form == "linear":  # whose weights fold into scalars that ride in the rows
        logit = b.add(logit, b.linear(x, m["dense"][:, :n], None))
    b.head("score", logit, activation="identity")
    return b


def first(form, rng):
    rows = N + (form == "keyed")
    return {"rows": rng.normal(size=(rows, FORMS[form][1])).astype("f4"), "small": rng.normal(size=(SMALL, 4)).astype("f4"),
            "linear": rng.normal(size=(rows, 1)).astype("f4"), "dense": rng.normal(size=(1, 200)).astype("f4"),
            "hidden": rng.normal(size=(8, 200)).astype("f4"), "top": rng.normal(size=(1, 8)).astype("f4"),
            "bias": rng.normal(size=8).astype("f4"), "keys": np.sort(rng.choice(1 << 40, N, replace=False)) - (1 << 39)}


def later(m, rng, changed, dense):
    n = {k: v.copy() for k, v in m.items()}
    n["rows"][changed] = rng.normal(size=(len(changed), m["rows"].shape[1]))
    some = rng.choice(changed, len(changed) // 2, replace=False)  # of one table more rows change than of the other
    n["linear"][some] = rng.normal(size=(len(some), 1))
    n["small"][3] = rng.normal(size=4)
    if dense:
        n["dense"], n["top"] = rng.normal(size=m["dense"].shape).astype("f4"), rng.normal(size=m["top"].shape).astype("f4")
    return n


def write_form(folder, form):
    rng = np.random.default_rng(len(form) + FORMS[form][1])
    m = first(form, rng)
    build(form, m).write(folder / f"{form}0.h5", check=None)
    often, asked = rng.choice(np.arange(1, N), 20, replace=False), []
    for v in range(1, 5):
        more = [N - 1, 0] if v == 4 else [N - 1]
        changed = np.unique(np.concatenate([rng.choice(np.arange(1, N), 40, replace=False), often[v:v + 10], more]))
        m = later(m, rng, changed, v == 3)
        asked.append(changed)
        build(form, m).write(folder / f"{form}{v}.h5", check=None)
        delta(folder / f"{form}{v - 1}.h5", folder / f"{form}{v}.h5", folder / f"{form}{v - 1}.delta")
    ids = np.unique(np.concatenate([*asked, rng.integers(0, N, 300)])).astype("<i8")
    if form == "keyed":
        ids = np.concatenate([m["keys"][ids[ids < N]], [7]])  # 7 is absent
    ids.astype("<i8").tofile(folder / f"{form}.ids")


def write_others(folder):
    rng = np.random.default_rng(5)
    base = first("f32", np.random.default_rng(3 + 16))
    base["rows"] += 1
    build("f32", base).write(folder / "all.h5", check=None)
    delta(folder / "f320.h5", folder / "all.h5", folder / "all.delta")
    keyed = first("keyed", np.random.default_rng(5 + 16))
    stay = rng.random(N) > 0.01
    new = rng.integers(-(1 << 39), 1 << 39, 500)
    rows = np.concatenate([keyed["rows"][:-1][stay], rng.normal(size=(500, 16)).astype("f4")])
    keyed["keys"], which = np.unique(np.concatenate([keyed["keys"][stay], new]), return_index=True)
    keyed["rows"] = np.concatenate([rows[which], keyed["rows"][-1:]])
    build("keyed", keyed).write(folder / "moved.h5", check=None)
    delta(folder / "keyed0.h5", folder / "moved.h5", folder / "moved.delta")


def build_tag(tag):
    b = Builder("tags")
    parts = []
    for name in ("a", "b"):
        b.categorical(name, 65536)
        table = np.zeros((65536, 16), np.float32)
        table[:HOT, 0], table[:, 1] = tag / 2, np.arange(65536) / 1024
        parts.append(b.embed(b.input(name), b.table(name, table)))
    weight = np.zeros((1, 32), np.float32)
    weight[0, [0, 1, 16, 17]] = 1
    b.head("score", b.linear(b.concat(parts), weight, np.float32([32 * tag])), activation="identity")
    return b


def write_tags(folder):
    for n in range(TAGS):
        build_tag(n + 1).write(folder / f"tag{n}.h5", check=None)
    for n in range(TAGS):
        delta(folder / f"tag{n}.h5", folder / f"tag{(n + 1) % TAGS}.h5", folder / f"tag{n}.delta")
        (folder / f"tag{n}.h5").unlink() if n > 1 else None


def main():
    folder = pathlib.Path(sys.argv[1])
    for form in FORMS:
        write_form(folder, form)
    write_others(folder)
    write_tags(folder)


if __name__ == "__main__":
    main()
