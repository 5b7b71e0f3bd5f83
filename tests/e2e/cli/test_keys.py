"""Bundles with keyed and external tables in `dpi inspect`, `verify`, `predict` and `bench`."""

import numpy as np
import pytest

from conftest import Builder, Rows, encoders


@pytest.fixture(scope="module")
def keyed(tmp_path_factory):
    """Two keys and a default; texts are hashed to 64 bits, numbers are keys as they are."""
    b = Builder("keyed")
    b.categorical("user", keys="user", missing="pad", pad_id=-1, encoder=[encoders.to_id()])
    b.sequence("words", keys="words", missing="pad", max_len=3, encoder=encoders.Encoder([encoders.hash_xxh64()], splitter=" "))
    words = np.array([e for w in ("red", "blue") for e in [encoders.Encoder([encoders.hash_xxh64()]).encode(w)]], dtype=np.int64)
    b.keyed_table("user", [-2**63, 12], np.array([[1.0], [2.0]]), default=[100])
    b.keyed_table("words", words, np.array([[0.25], [0.5]]))
    z = b.add(b.embed(b.input("user"), "user"), b.embed(b.input("words"), "words", "sum"))
    b.head("z", z, activation="none")
    b.golden(Rows.from_columns(b, {"user": [12, -2**63, 3], "words": [[], [int(words[0])], [int(words[0]), int(words[1])]]}),
             raw={"user": ["12", str(-2**63), "3"], "words": ["", "red", "red blue"]})
    path = tmp_path_factory.mktemp("keys") / "keyed.h5"
    b.write(path)
    return path


def test_inspect_shows_keys(dpi, keyed):
    told = dpi("inspect", keyed, "--json").json()
    assert told["format"] == [2, 1]
    assert told["key_sets"] == [{"name": "user", "keys": 2}, {"name": "words", "keys": 2}]
    assert [(t["rows"], t["keys"]) for t in told["tables"]] == [(3, "user"), (3, "words")]
    user = told["features"][0]
    assert user["keys"] == "user" and user["pad_id"] == -1 and "vocab_size" not in user
    assert told["memory"]["host"]["key_bytes"] == 128
    text = dpi("inspect", keyed).ok().out
    for part in ("keys of user", "key set user", "2 keys"):
        assert part in text


def test_verify_reads_raw_cells_as_keys(dpi, keyed):
    for device in ("ref", "cpu"):
        assert "verified" in dpi("verify", keyed, "--device", device).ok().out
    dpi("bench", keyed, "--seconds", "0.1").ok()


def test_predict_takes_keys_and_raw_values(dpi, keyed):
    raw = "user,words\n12,red\n-9223372036854775808,red blue green\n3,\n,blue\n"
    _, scores = dpi("predict", keyed, "-", "--raw", stdin=raw).scores()
    assert scores[:, -1].tolist() == [2.25, 1.75, 100, 100.5]
    _, scores = dpi("predict", keyed, "-", stdin="user,words\n12,1\n9223372036854775807,\n").scores()
    assert scores[:, -1].tolist() == [2, 100]


def test_external_tables_are_shown_and_refused(dpi, tmp_path):
    b = Builder("far")
    b.categorical("user", keys="user")
    b.external_table("users", 2, "f16", key_set="user", digest="ab" * 32)
    b.head("z", b.linear(b.embed(b.input("user"), "users"), np.ones((1, 2))))
    b.write(tmp_path / "far.h5")
    told = dpi("inspect", tmp_path / "far.h5", "--json").json()
    assert told["tables"] == [{"name": "users", "rows": None, "dim": 2, "dtype": "f16", "keys": "user", "external": True,
                               "digest": "ab" * 32, "default": []}]
    assert told["memory"] is None
    assert "external, keys of user" in dpi("inspect", tmp_path / "far.h5").ok().out
    ran = dpi("verify", tmp_path / "far.h5")
    assert ran.code != 0 and "table 'users' is external" in ran.out + ran.err


def test_the_largest_external_table_can_be_planned(dpi, tmp_path):
    """Its bytes, and those with a row for padding, are still numbers of 64 bits (a sanitizer sees when they are not)."""
    b = Builder("far")
    b.categorical("user", keys="user", missing="pad", pad_id=5)
    b.external_table("users", 65536, key_set="user", rows=2**40, count=2**40 - 1)
    b.head("z", b.linear(b.embed(b.input("user"), "users"), np.ones((1, 65536))))
    b.write(tmp_path / "far.h5")
    assert dpi("plan", tmp_path / "far.h5", "--json").json()["tables"][0]["rows"] >= 2**40
    assert "1 099 511 627 776 x 65536" in dpi("inspect", tmp_path / "far.h5").ok().out
