"""Hot-key lists inside bundles: a load with a host tier begins with their rows, unless an option names a file or says off. Lists that lie
are refused by name, and looked at only where there is a tier."""

import os
import struct
import sys

import numpy as np
import pytest
import xxhash
from drawn import ROOT

import dpi

sys.path.append(str(ROOT / "weights/python"))
import dpi_export  # noqa: E402
from dpi_export.bundle import hot_keys, writer  # noqa: E402

ROWS, HOT = 4000, 60
TIER = {"store.host_bytes": 20000, "store.resident_bytes": 0, "debug.fold": "off"}


class Drawn:
    """A bundle whose list names rows from the end of its two tables, so that a tier without it begins with others."""

    def __init__(self, folder):
        rng = np.random.default_rng(21)
        self.path, self.folder = folder / "listed.h5", folder
        self.rows = rng.normal(size=(ROWS, 8)).astype(np.float32)
        self.keys = np.sort(rng.choice(2**40, ROWS, replace=False))
        self.keyed = rng.normal(size=(ROWS, 8)).astype(np.float32)
        self.hot = ROWS - 1 - np.arange(0, 5 * HOT, 5)
        self.written(True).write(self.path)

    def written(self, listed):
        b = dpi_export.Builder("listed")
        b.categorical("item", vocab_size=ROWS)
        b.categorical("user", keys="user")
        b.table("item", self.rows)
        b.keyed_table("user", self.keys, self.keyed)
        b.head("z", b.linear(b.concat([b.embed(b.input(n), n) for n in ("item", "user")]), np.ones((1, 16), "f4")), activation="none")
        if listed:
            b.hot_keys("item", self.hot, np.arange(HOT) + 3, lookups=10**6)
            b.hot_keys("user", self.hot, np.full(HOT, 7))
        return b

    def first_pass(self, path=None, **options):
        """(hits, late) of one lookup of every row of the list, whose rows must be right."""
        with dpi.Model(path or self.path, device="cpu", options={**TIER, **{k.replace("__", "."): v for k, v in options.items()}}) as model:
            for row in self.hot:
                assert model.table_lookup("item", [row]).tobytes() == self.rows[row].tobytes()
                assert model.table_lookup("user", [self.keys[row]]).tobytes() == self.keyed[row].tobytes()
            tiers = model.counters()["tiers"]
        return sum(t["hits"] for t in tiers), sum(t["late"] for t in tiers)

    def changed(self, change, name="changed.h5"):
        """The same bundle with `change(bytes) -> bytes` of its list; digest of the list and of the bundle are right."""
        path = self.folder / name
        with dpi_export.Bundle(self.path) as source:
            data = change(bytearray(source.array(source.manifest["hot_keys"]).tobytes()))
            data[24:32] = bytes(8)
            data[24:32] = struct.pack("<Q", xxhash.xxh3_64_intdigest(bytes(data)))
            pack, writer.pack = writer.pack, lambda lists, known: bytes(data)
            try:
                writer.write_bundle(source, path, check=False)
            finally:
                writer.pack = pack
        return path


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    return Drawn(tmp_path_factory.mktemp("hot"))


def test_a_load_begins_with_the_rows_of_the_list(drawn):
    assert drawn.first_pass() == (2 * HOT, 0)
    hits, late = drawn.first_pass(store__hot_keys="off")
    assert late == 2 * HOT and hits == 0
    plain = drawn.folder / "plain.h5"
    drawn.written(False).write(plain)
    assert drawn.first_pass(plain)[1] == 2 * HOT


def test_an_option_names_another_list(drawn):
    with dpi_export.Bundle(drawn.path) as source:
        first = {"item": hot_keys.hot_list("item", np.arange(HOT), np.full(HOT, 9))}
        (drawn.folder / "first.hot").write_bytes(hot_keys.pack(first, source.identities()))
    assert drawn.first_pass(store__hot_keys=str(drawn.folder / "first.hot"))[1] == 2 * HOT


def test_a_list_goes_in_and_out_of_a_bundle(drawn):
    with dpi_export.Bundle(drawn.path) as source:
        (drawn.folder / "own.hot").write_bytes(source.array(source.manifest["hot_keys"]).tobytes())
        assert source.hot_lists["item"]["lookups"] == 10**6
        assert list(source.hot_lists["item"]["keys"][:2]) == [drawn.hot[-1], drawn.hot[-2]]
    without, again = drawn.folder / "without.h5", drawn.folder / "again.h5"
    dpi_export.set_hot_keys(drawn.path, without, None)
    dpi_export.set_hot_keys(without, again, drawn.folder / "own.hot")
    assert again.read_bytes() == drawn.path.read_bytes()
    assert drawn.first_pass(without)[1] == 2 * HOT
    other = drawn.folder / "other.h5"
    drawn.rows[0] += 1
    drawn.written(False).write(other)
    drawn.rows[0] -= 1
    with pytest.raises(dpi_export.BundleError, match="table 'item' is none of this bundle's, or has other rows"):
        dpi_export.set_hot_keys(other, drawn.folder / "no.h5", drawn.folder / "own.hot")


def entry(data, field, value, table=0):
    """field: rows, n, offset, lookups as the 8 bytes' number."""
    struct.pack_into("<Q", data, 32 + 304 * table + 8 * field, value)
    return data


def key(data, index, value, count=None):
    at = 32 + 2 * 304 + 16 * index
    struct.pack_into("<q", data, at, value)
    if count is not None:
        struct.pack_into("<Q", data, at + 8, count)
    return data


HOSTILE = {
    "beyond the table": (lambda d: key(d, 0, ROWS), "is outside of its 4000 rows"),
    "below 0": (lambda d: key(d, 0, -1), "is outside of its 4000 rows"),
    "largest key": (lambda d: key(d, 0, 2**63 - 1), "is outside of its 4000 rows"),
    "twice in a row": (lambda d: key(d, 1, struct.unpack_from("<q", d, 32 + 608)[0], struct.unpack_from("<Q", d, 32 + 616)[0]),
                       "is not in its place, hottest first"),
    "twice with other counts": (lambda d: key(d, 1, struct.unpack_from("<q", d, 32 + 608)[0]), "twice"),
    "more keys than rows": (lambda d: entry(d, 1, 2**60), "it states"),
    "more keys than bytes": (lambda d: entry(d, 1, HOT + 1), "it states|bytes follow|outside of"),
    "an offset elsewhere": (lambda d: entry(d, 2, 0), "it states"),
    "fewer lookups than counts": (lambda d: entry(d, 3, 5), "has a count of"),
    "other rows": (lambda d: entry(d, 0, ROWS - 1), "outside of|is another one"),
    "another hash": (lambda d: d[:64] + bytes([d[64] ^ 1]) + d[65:], "is another one"),
    "another magic": (lambda d: b"X" + d[1:], "it is no hot-key list"),
    "two billion tables": (lambda d: d[:12] + struct.pack("<I", 2**31) + d[16:], "it states 2147483648 tables"),
    "too short": (lambda d: d[:-1], "it has"),
    "no key": (lambda d: bytearray(struct.pack("<8sIIQQ", b"DPIHOTK\0", 1, 0, 32, 0)), "it holds no key"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_lists_that_lie_are_refused_by_name(drawn, name):
    change, says = HOSTILE[name]
    path = drawn.changed(lambda d: bytearray(change(d)))
    with pytest.raises(dpi.BadModel) as caught:
        dpi.Model(path, device="cpu", options=TIER)
    assert f"{path}:/tables/hot_keys" in caught.value.message
    assert any(part in caught.value.message for part in says.split("|"))
    with dpi_export.Bundle(path) as bundle, pytest.raises(dpi_export.BundleError, match="hot_keys"):
        bundle.hot_lists
    dpi.Model(path, device="cpu").close()  # nobody looks at it
    dpi.Model(path, device="cpu", options={**TIER, "store.hot_keys": "off"}).close()


@pytest.mark.parametrize("named", ["/params/x", "/tables/item", "/tables/none", "", 5])
def test_a_manifest_that_names_no_list(drawn, named, monkeypatch):
    of = writer._manifest_bytes
    monkeypatch.setattr(writer, "_manifest_bytes", lambda manifest: of({**manifest, "hot_keys": named}))
    path = drawn.folder / "named.h5"
    with dpi_export.Bundle(drawn.path) as source:
        writer.write_bundle(source, path, check=False)
    with pytest.raises(dpi.BadModel) as caught:
        dpi.Model(path, device="cpu")
    assert "hot_keys" in caught.value.message or "/tables/" in caught.value.message
    with pytest.raises(dpi_export.BundleError, match="hot_keys"):
        dpi_export.Bundle(path)


def test_a_signature_covers_the_list(drawn):
    public = dpi_export.make_keys(drawn.folder / "team.key")
    path = drawn.folder / "signed.h5"
    drawn.written(True).write(path, sign=drawn.folder / "team.key")
    options = {**TIER, "require_signature": public}
    dpi.Model(path, device="cpu", options=options).close()
    with dpi_export.Bundle(path) as bundle:
        at = bundle.data_sets[bundle.manifest["hot_keys"]]["offset"]
    data = bytearray(path.read_bytes())
    data[at + 40] ^= 1
    path.write_bytes(data)
    for given in (options, {"require_signature": public}):  # without a tier, too: every byte is looked at
        with pytest.raises(dpi.Error):
            dpi.Model(path, device="cpu", options=given)


def test_what_builders_refuse(drawn):
    b = drawn.written(False)
    for args in (("item", [], []), ("item", [1], [0]), ("item", [1, 1], [2, 3]), ("item", [1], [2.5]), ("item", [1, 2], [3]), ("none", [1], [1])):
        with pytest.raises(dpi_export.BundleError, match="hot keys"):
            b.hot_keys(*args)
    with pytest.raises(dpi_export.BundleError, match="2 lookups"):
        b.hot_keys("item", [1], [3], lookups=2)
    b.hot_keys("item", [ROWS], [1])
    with pytest.raises(dpi_export.BundleError, match="outside of its 4000 rows"):
        b.write(drawn.folder / "beyond.h5")
    assert not os.path.exists(drawn.folder / "beyond.h5")
