"""Keyed and external tables: what Builder writes, streams and refuses, and what a Bundle gives back. What scores come of them is the
engine's test (tests/e2e/keyed), with an oracle of its own."""

import numpy as np
import pytest

from dpi_export import Builder, Bundle, BundleError, Executor, Rows, encoders, make_keys, repack
from dpi_export.cli import main

KEYS = np.array([7, -2**63, 0, 2**63 - 1, -1], dtype=np.int64)


def small(dtype="f32", blocks=None, **feature):
    """One feature of keys, its embedding and its linear weight."""
    rng = np.random.default_rng(0)
    values, wide = rng.normal(size=(5, 3)).astype("f4"), rng.normal(size=(5, 1)).astype("f4")
    b = Builder("keyed")
    b.categorical("user", keys="user", **feature)
    if blocks is None:
        b.keyed_table("user", KEYS, values, default=[1, 2, 3], dtype=dtype)
    else:
        b.keyed_table("user", None, blocks(values), default=[1, 2, 3], dtype=dtype, count=5, dim=3)
    b.keyed_table("weight", KEYS, wide, key_set="user")
    z = b.add(b.linear(b.embed(b.input("user"), "user"), np.ones((1, 3))), b.embed(b.input("user"), "weight"))
    b.head("ctr", b.sigmoid(z), logit=z)
    return b, values, wide


def sorted_blocks(values):
    """The same rows as blocks of rising keys, uneven and with an empty one."""
    order = np.argsort(KEYS)
    for a, z in ((0, 2), (2, 2), (2, 5)):
        yield KEYS[order[a:z]], values[order[a:z]]


def test_arrays_and_blocks_make_the_same_file(tmp_path):
    for name, blocks in (("a", None), ("b", sorted_blocks), ("c", lambda v: lambda: sorted_blocks(v))):
        b, _, _ = small(blocks=blocks)
        b.golden(Rows.from_columns(b, {"user": [7, -2**63, 5]}))
        b.write(tmp_path / f"{name}.h5")
    first = (tmp_path / "a.h5").read_bytes()
    assert first == (tmp_path / "b.h5").read_bytes() == (tmp_path / "c.h5").read_bytes()
    with Bundle(tmp_path / "a.h5") as bundle:
        assert bundle.manifest["version"] == [2, 1] and bundle.version_minor == 1
        assert bundle.key_sets == [{"name": "user", "keys": 5}]
        assert bundle.key_set("user").keys.tolist() == sorted(KEYS.tolist())


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "i8"])
def test_rows_by_key(tmp_path, dtype):
    b, values, wide = small(dtype)
    b.write(tmp_path / "k.h5")
    ids = [*KEYS.tolist(), 6, -2, 2**62]
    want = {int(k): v.astype(np.float64).sum() + w[0] for k, v, w in zip(KEYS, values, wide)}
    expected = np.array([want.get(i, 6.0) for i in ids])
    near = {"f32": 1e-6, "f16": 2e-3, "bf16": 2e-2, "i8": 3e-2}[dtype]
    with Bundle(tmp_path / "k.h5") as bundle:
        for model in (b, bundle):
            got = Executor(model).run(Rows.from_columns(model, {"user": ids}))["logit"]["ctr"]
            np.testing.assert_allclose(got, expected, atol=near)
        assert bundle.gather("user", np.array([5]))[0].tolist() == pytest.approx([1, 2, 3], abs=near)


def test_a_stream_is_read_block_by_block(tmp_path):
    seen = []

    def blocks():
        for at in range(0, 40, 4):
            seen.append(at)
            yield np.arange(at, at + 4), np.full((4, 2), at, "f4")

    b = Builder("stream")
    b.categorical("user", keys="user")
    b.keyed_table("user", None, blocks(), count=40, dim=2)
    b.head("z", b.linear(b.embed(b.input("user"), "user"), np.ones((1, 2))))
    assert not seen
    told = []
    b.write(tmp_path / "s.h5", progress=lambda done, total, text: told.append((len(seen), done)))
    assert told[:3] == [(1, 32), (2, 64), (3, 96)]  # each block is written before the next is asked for


@pytest.mark.parametrize("keys,text", [([1, 3, 2], "key 2 at 2 comes after 3"), ([1, 2, 2], "key 2 at 2 is there twice"), ([1, 2], "2 keys, expected 3"),
                                       ([1, 2, 3, 4], "more than 3 keys"), ([1.0, 2.0, 3.0], "expected integers")])
def test_streams_that_are_refused(tmp_path, keys, text):
    b = Builder("s")
    b.categorical("user", keys="user")
    b.keyed_table("user", None, iter([(keys[:1], np.zeros((1, 1))), (keys[1:], np.zeros((len(keys) - 1, 1)))]), count=3, dim=1)
    b.head("z", b.embed(b.input("user"), "user"))
    with pytest.raises(BundleError, match=text):
        b.write(tmp_path / "s.h5")
    assert not list(tmp_path.iterdir())


def test_tables_of_one_set_have_the_same_keys(tmp_path):
    b, _, _ = small()
    with pytest.raises(BundleError, match="key set 'user' has 5"):
        b.keyed_table("other", [1, 2], np.zeros((2, 1)), key_set="user")
    b.keyed_table("other", [1, 2, 3, 4, 5], np.zeros((5, 1)), key_set="user")
    with pytest.raises(BundleError, match="table 'other': its keys are not those of the other tables of key set 'user'"):
        b.write(tmp_path / "k.h5")


@pytest.mark.parametrize("call,text", [
    (lambda b: b.keyed_table("t", [1, 1], np.zeros((2, 1))), "key 1 at 1 is there twice"),
    (lambda b: b.keyed_table("t", [1], np.zeros((2, 1))), "1 keys for values"),
    (lambda b: b.keyed_table("t", np.array([2**63], np.uint64), np.zeros((1, 1))), "view uint64 hashes as int64"),
    (lambda b: b.keyed_table("t", [1], np.zeros((1, 2)), default=[1]), "its default has 1 values"),
    (lambda b: b.keyed_table("t", None, iter([])), "needs both count and dim"),
    (lambda b: b.categorical("f", keys="t", vocab_size=5), "vocab_size does not apply"),
    (lambda b: b.categorical("f", keys="t", out_of_range="oov", oov_id=1), "does not apply"),
    (lambda b: b.categorical("f", keys="t", missing="pad"), "pad_id is not given"),
    (lambda b: b.categorical("f", keys="t", encoder=encoders.vocab_string(["a"])), "needs to_id or hash"),
    (lambda b: b.categorical("f", vocab_size=5, encoder=encoders.hash_xxh64()), "only a feature of keys may leave out"),
    (lambda b: b.embed(b.input(b.categorical("f", vocab_size=2)), b.keyed_table("t", [1], np.zeros((1, 1)))), "keys of 't'"),
    (lambda b: b.embed(b.input(b.categorical("f", keys="t")), b.table("n", np.zeros((1, 1)))), "row numbers"),
    (lambda b: b.external_table("t", 4, digest="abc"), "64 lower-case hex digits"),
    (lambda b: b.external_table("t", 4, rows=2**40 + 1), "an integer from 1 to 1099511627776"),
    (lambda b: b.external_table("t", 4, key_set="k", count=2**40 + 1), "an integer from 1 to 1099511627776"),
    (lambda b: b.external_table("t", 4, default=[1]), "default is no list of 4"),
    (lambda b: b.external_table("t", 1, "f16", default=[65505]), "default has a value beyond the range of f16"),
    (lambda b: b.external_table("t", 1, "bf16", default=[-3.4e38]), "default has a value beyond the range of bf16")])
def test_what_builder_refuses(call, text):
    with pytest.raises(BundleError, match=text):
        call(Builder("b"))


def test_a_feature_of_no_key_set_is_not_written(tmp_path):
    b = Builder("b")
    b.categorical("f", keys="nobody")
    b.head("z", b.const([1.0]))
    with pytest.raises(BundleError, match="there is no key set 'nobody'"):
        b.write(tmp_path / "k.h5")


def test_commands_keep_keys(tmp_path, capsys):
    b, _, _ = small(pad_id=0, missing="pad")
    b.golden(Rows.from_columns(b, {"user": [7, 0, None, 12]}))
    key = tmp_path / "team.key"
    make_keys(key)
    path = tmp_path / "k.h5"
    b.write(path, sign=key)
    assert main(["verify", str(path)]) == 0
    repack(path, tmp_path / "again.h5")
    assert main(["convert", str(path), str(tmp_path / "half.h5"), "--dtype", "f16", "--tolerance", "1e-2"]) == 0
    for name in ("again.h5", "half.h5"):
        with Bundle(tmp_path / name) as bundle:
            assert bundle.version_minor == 1 and bundle.key_set("user").keys.tolist() == sorted(KEYS.tolist())
    assert main(["inspect", str(path)]) == 0
    assert "6 x 3 f32, keys of user" in capsys.readouterr().out


def test_external_tables(tmp_path, capsys):
    b = Builder("far")
    b.categorical("user", keys="user")
    b.categorical("item", vocab_size=9)
    b.external_table("users", 2, "i8", key_set="user", default=[0.5, -1])
    b.external_table("items", 2, rows=9, digest="0123456789abcdef" * 4)
    z = b.linear(b.concat([b.embed(b.input("user"), "users"), b.embed(b.input("item"), "items")]), np.ones((1, 4)))
    b.head("z", z)
    rows = Rows.from_columns(b, {"user": [1], "item": [2]})
    b.golden(rows)
    with pytest.raises(BundleError, match="rows of external tables are not here"):
        b.write(tmp_path / "far.h5")
    b.golden(rows, value=[0.25])
    b.write(tmp_path / "far.h5")
    with Bundle(tmp_path / "far.h5") as bundle:
        assert [t.get("rows") for t in bundle.tables] == [None, 9] and bundle.key_sets == [{"name": "user", "external": True}]
        with pytest.raises(BundleError, match="table 'users' is external|key set 'user' is external"):
            Executor(bundle).run(rows)
    assert main(["inspect", str(tmp_path / "far.h5")]) == 0
    assert "unknown x 2 i8, keys of user, external" in capsys.readouterr().out


def test_a_model_without_keys_stays_2_0(tmp_path):
    b = Builder("plain")
    b.categorical("item", vocab_size=3)
    b.head("z", b.embed(b.input("item"), b.table("item", np.zeros((3, 1)))))
    b.write(tmp_path / "p.h5")
    with Bundle(tmp_path / "p.h5") as bundle:
        assert bundle.manifest["version"] == [2, 0] and "key_sets" not in bundle.manifest
