"""Writes two models twice: python3 tests/store/engine/make_models.py FOLDER. whole.h5 has all rows; external.h5 has the same, but those of
`users` and `items` are somewhere else, called by their hash. Tables of every width and type, and one of odd keys. sums.h5 and
sums_external.h5 look the same tables up, and their heads are sums and means of rows, which folds derive from each row as it comes. keys.h5 and
keys_external.h5 have two features of keys: in the second the key sets are somewhere else too."""

import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "weights/python"))

from dpi_export import Builder  # noqa: E402
from dpi_export.bundle.content_hash import DATA, TreeHash  # noqa: E402

ROWS = 2000
ODD = [-2**63, -2**63 + 1, 2**63 - 1, 0, -1, 1, 2**32, -2**32]
KEYS = np.array(sorted(ODD + [k * 4096 for k in range(1, 293)]), dtype=np.int64)  # strided: low bits all equal


def digest_of(table):
    state = TreeHash(DATA)
    state.update(table.tobytes())
    return state.digest().hex()


def keyed_digest(rows, keys):
    """The tree hash over those of the rows, by rising key with the default row behind them, and of the keys."""
    return digest_of(np.frombuffer(bytes.fromhex(digest_of(rows) + digest_of(keys)), np.uint8))


def tables_of(b, rng, external):
    """The features and tables of both models; gives (feature, table) of those with one id."""
    for name in ("user", "item", "page", "word", "ad"):
        b.categorical(name, ROWS)
    b.categorical("city", 50)
    b.categorical("key", keys="keys")
    b.sequence("seen", ROWS, missing="pad", pad_id=0, max_len=8)
    for name, dim in (("users", 8), ("items", 16)):
        rows = rng.normal(size=(ROWS, dim)).astype(np.float32)
        if external:
            b.external_table(name, dim, rows=ROWS, digest=digest_of(rows))
        else:
            b.table(name, rows)
    for name, dim, dtype in (("pages", 8, "f32"), ("words", 12, "f16"), ("ads", 8, "i8")):
        b.table(name, rng.normal(size=(ROWS, dim)).astype(np.float32), dtype=dtype)
    b.table("cities", rng.normal(size=(50, 4)).astype(np.float32))
    b.keyed_table("keys", KEYS, rng.normal(size=(len(KEYS), 8)).astype(np.float32), default=rng.normal(size=8))
    return (("user", "users"), ("item", "items"), ("page", "pages"), ("word", "words"), ("ad", "ads"), ("city", "cities"), ("key", "keys"))


def write(path, external):
    rng = np.random.default_rng(7)
    b = Builder("tiers")
    values = [b.embed(b.input(f), t) for f, t in tables_of(b, rng, external)]
    values.append(b.embed(b.input("seen"), "items", "sum"))
    x = b.concat(values)
    hidden = b.op("Unary", [b.linear(x, rng.normal(size=(8, b.shape(x)[0])).astype(np.float32) * 0.2)], {"kind": "relu"})
    b.head("y", b.linear(hidden, rng.normal(size=(1, 8)).astype(np.float32)), activation="none")
    b.write(path)


def write_sums(path, external):
    """A sum and a mean of each row; of bags with padding too; one head with dense weights over all of it."""
    rng = np.random.default_rng(7)
    b = Builder("sums")
    values = {t: b.embed(b.input(f), t) for f, t in tables_of(b, rng, external)}
    values["seen"] = b.embed(b.input("seen"), "items", "sum")
    values["recent"] = b.embed(b.input("seen"), "pages", "mean")
    for name, x in values.items():
        for kind in ("sum", "mean"):
            b.head(f"{kind}_{name}", b.op("Reduce", [x], {"kind": kind, "axis": -1, "keepdim": True}), activation="none")
    x = b.concat(list(values.values()))
    b.head("weighed", b.linear(x, rng.normal(size=(1, b.shape(x)[0])).astype(np.float32)), activation="none")
    b.write(path)


def write_keys(path, external):
    """`key` and `other` by sets of their own; a key of either may be in the other's."""
    rng = np.random.default_rng(9)
    b = Builder("keys")
    values = []
    for name, keys in (("key", KEYS), ("other", KEYS[::2])):
        table = f"{name}_rows"
        b.categorical(name, keys=name)
        rows, default = rng.normal(size=(len(keys), 8)).astype(np.float32), rng.normal(size=8).astype(np.float32)
        if external:
            b.external_table(table, 8, key_set=name, rows=len(rows) + 1, digest=keyed_digest(np.vstack([rows, default]), keys), default=default.tolist())
        else:
            b.keyed_table(table, keys, rows, default=default, key_set=name)
        values.append(b.embed(b.input(name), table))
    x = b.concat(values)
    b.head("y", b.linear(x, rng.normal(size=(1, b.shape(x)[0])).astype(np.float32)), activation="none")
    b.write(path)


folder = pathlib.Path(sys.argv[1])
write(folder / "whole.h5", external=False)
write(folder / "external.h5", external=True)
write_sums(folder / "sums.h5", external=False)
write_sums(folder / "sums_external.h5", external=True)
write_keys(folder / "keys.h5", external=False)
write_keys(folder / "keys_external.h5", external=True)
