"""Two versions of a random model, and what a delta between them makes of the first: by h5py and numpy alone, from weights/DELTA.md."""

import json

import h5py
import numpy as np

from dpi_export import Builder, Rows, encoders

DTYPES = ("f32", "f16", "bf16", "i8")
WHOLE = ("i4", "i2", "fp8")  # behind the keyed tables


def first(seed):
    """What a model is made of: tables of rows of each type, keyed tables of two sets, words, dense weights."""
    rng = np.random.default_rng(seed)
    dims = rng.integers(1, 6, len(DTYPES) + 3 + len(WHOLE))
    m = {"dims": dims, "rows": {}, "words": [f"w{i}é" for i in range(int(rng.integers(2, 9)))], "keys": {}, "keyed": {}}
    for d, dim in zip(DTYPES, dims):
        m["rows"][d] = rng.normal(size=(int(rng.integers(1, 40)) + len(m["words"]) + 1, dim)).astype("f4")
    for name in ("user", "item"):
        m["keys"][name] = np.unique(rng.integers(-2**63, 2**63 - 1, int(rng.integers(1, 60)), dtype=np.int64))
    for table, of, dim in (("user", "user", dims[4]), ("user.linear", "user", dims[5]), ("item", "item", dims[6])):
        m["keyed"][table] = (of, rng.normal(size=(len(m["keys"][of]) + 1, dim)).astype("f4"))
    m["dense"] = rng.normal(size=(1, int(dims.sum()))).astype("f4")
    m["bias"] = rng.normal(size=1).astype("f4")
    for d, dim in zip(WHOLE, dims[7:]):
        m["rows"][d] = rng.normal(size=(int(rng.integers(1, 40)) + len(m["words"]) + 1, dim)).astype("f4")
    return m


def later(m, seed, share=0.2):
    """A next version: about `share` of all rows, keys and weights are others; tables and the vocabulary grow."""
    rng = np.random.default_rng(seed)
    n = {"dims": m["dims"], "rows": {}, "words": list(m["words"]), "keys": {}, "keyed": {}, "dense": m["dense"].copy(), "bias": m["bias"]}
    grow = int(rng.integers(0, 5)) if share else 0
    n["words"] += [f"new{seed}.{i}" for i in range(grow)]
    for name, rows in m["rows"].items():
        rows = np.concatenate([rows, rng.normal(size=(grow, rows.shape[1])).astype("f4")])
        which = rng.random(len(rows)) < share
        rows[which] = rng.normal(size=(which.sum(), rows.shape[1]))
        rows[rng.random(len(rows)) < share / 4] = 0
        n["rows"][name] = rows
    for name, keys in m["keys"].items():
        stay = rng.random(len(keys)) >= share / 2
        stay[0] |= not stay.any()
        new = rng.integers(-2**63, 2**63 - 1, int(len(keys) * share), dtype=np.int64)
        n["keys"][name] = np.unique(np.concatenate([keys[stay], new]))
    for name, (of, rows) in m["keyed"].items():
        old = {int(k): row for k, row in zip(m["keys"][of], rows)}
        made = [rng.normal(size=rows.shape[1]).astype("f4") if int(k) not in old or rng.random() < share else old[int(k)]
                for k in n["keys"][of]]
        default = rows[-1] if rng.random() >= share else rng.normal(size=rows.shape[1]).astype("f4")
        n["keyed"][name] = (of, np.stack([*made, default]))
    if share:
        n["dense"] = rng.normal(size=m["dense"].shape).astype("f4")
    return n


def write(m, path, golden=True):
    """The bundle of a model."""
    b = Builder("changing")
    vocab = encoders.vocab_string(m["words"], first_id=1)
    parts = []

    def plain(name):
        rows = m["rows"][name]
        b.categorical(f"c.{name}", len(rows), out_of_range="oov", oov_id=0, missing="pad", encoder=[encoders.trim(), vocab])
        parts.append(b.embed(b.input(f"c.{name}"), b.table(name, rows, dtype=name)))

    for name in DTYPES:
        plain(name)
    for table, (of, rows) in m["keyed"].items():
        if of == table:
            b.categorical(of, keys=of, missing="default", default_id=7)
        dtype = {"user": "f32", "user.linear": "i8", "item": "f16"}[table]
        b.keyed_table(table, m["keys"][of], rows[:-1], default=rows[-1], dtype=dtype, key_set=of)
        parts.append(b.embed(b.input(of), table))
    for name in WHOLE:
        plain(name)
    logit = b.linear(b.concat(parts), m["dense"], m["bias"], name="logit")
    b.head("ctr", b.sigmoid(logit), logit=logit)
    if golden:
        b.golden(requests(b, m))
    b.write(path)
    return path


def requests(b, m, n=12, seed=1):
    """Rows that ask for what both versions have, and for what one of them has."""
    rng = np.random.default_rng(seed)
    columns = {f"c.{d}": rng.integers(0, len(rows), n).tolist() for d, rows in m["rows"].items()}
    for of, keys in m["keys"].items():
        columns[of] = [int(k) for k in rng.choice(keys, n - 2)] + [7, -9]
    return Rows.from_columns(b, columns)


def contents(path):
    """(manifest, {path: array}) of any bundle or delta, by h5py."""
    with h5py.File(path, "r") as f:
        sets = {f"/{g}/{n}": f[g][n][()] for g in f if g != "manifest" for n in f[g]}
        return json.loads(f["manifest"][()].tobytes()), sets


def _set_rows(old, at, new, gone=(), rows=None):
    out = np.zeros((len(old) if rows is None else rows, *old.shape[1:]), old.dtype)
    out[:len(old)] = old
    if len(at):
        out[at] = new
    if len(gone):
        out[gone] = 0
    return out


def applied(base, delta, after_manifest):
    """The data sets that `base` and `delta` make: {path: array}."""
    (manifest, old), (_, d) = contents(base), contents(delta)
    out = {p: a for p, a in old.items() if p in d or not p.startswith("/golden/")}
    out.update({p: a for p, a in old.items() if p.startswith("/golden/")})
    none = np.empty(0, "<i8")
    for s, entry in enumerate(after_manifest.get("key_sets", [])):
        keys = old[entry["data"]]
        kept = ~np.isin(keys, d.get(f"/tables/set{s}.gone", none))
        out[entry["data"]] = np.union1d(keys[kept], d.get(f"/tables/set{s}.added", none))
    for i, t in enumerate(after_manifest["tables"]):
        data = t.get("data", f"/tables/{t['name']}")
        for where, part in ((data, "rows"), (t.get("scale"), "scale"), (t.get("offset"), "offset")):
            if where is None:
                continue
            new, at = d.get(f"/tables/{i}.{part}"), d.get(f"/tables/{i}.at", none)
            gone = d.get(f"/tables/{i}.gone", none)
            if new is not None and f"/tables/{i}.at" not in d and not ("keys" in t and len(new) == 1):
                out[where] = new
            elif "keys" not in t:
                out[where] = _set_rows(old[where], at, new, gone, t["rows"])
            else:
                entry = next(s for s in after_manifest["key_sets"] if s["name"] == t["keys"])
                before = {int(k): row for k, row in zip(old[entry["data"]], old[where])}
                before.update({} if new is None else {int(k): row for k, row in zip(at, new)})
                default = old[where][-1] if new is None or len(new) == len(at) else new[-1]
                out[where] = np.stack([before[int(k)] for k in out[entry["data"]]] + [default])
    for path, array in d.items():
        if path.startswith(("/params/", "/golden/")):
            out[path] = array
        if path.startswith("/encoders/"):
            out[path] = np.concatenate([old.get(path, array[:0]), array])
    return out
