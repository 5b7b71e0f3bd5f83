"""delta: what is written, against a second reader of DELTA.md by h5py and numpy (delta_models.py), and what is refused."""

import json
import subprocess
import sys

import h5py
import numpy as np
import pytest
from delta_models import applied, contents, first, later, write

from dpi_export import Builder, Bundle, BundleError, delta, encoders, make_keys
from dpi_export.cli import main


def same_contents(made, new):
    manifest, sets = contents(new)
    live = {p for p in sets}
    assert live <= set(made)
    for path in live:
        assert made[path].dtype == sets[path].dtype
        np.testing.assert_array_equal(made[path].view("u1") if made[path].size else made[path], sets[path].view("u1") if sets[path].size
                                      else sets[path], err_msg=path)
    return manifest


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("share", [0.05, 0.4, 1.0])
def test_what_is_written_makes_the_new_bundle(tmp_path, seed, share):
    m = first(seed)
    old, new = write(m, tmp_path / "old.h5"), write(later(m, seed + 100, share), tmp_path / "new.h5")
    told = delta(old, new, tmp_path / "d.delta")
    same_contents(applied(old, tmp_path / "d.delta", contents(new)[0]), new)
    with Bundle(old) as a, Bundle(new) as b:
        assert (told["base"], told["new"]) == (a.version, b.version) and a.version != b.version


def test_blocks_of_a_few_rows_write_the_same_file(tmp_path, monkeypatch):
    m = first(5)
    old, new = write(m, tmp_path / "old.h5"), write(later(m, 6, 0.3), tmp_path / "new.h5")
    delta(old, new, tmp_path / "whole.delta")
    for bytes_of_a_block in (1, 8, 40):
        monkeypatch.setattr(sys.modules["dpi_export.delta.rows"], "BLOCK_BYTES", bytes_of_a_block)
        delta(old, new, tmp_path / "blocks.delta")
        assert (tmp_path / "blocks.delta").read_bytes() == (tmp_path / "whole.delta").read_bytes()


def test_nothing_changed(tmp_path):
    old = write(first(1), tmp_path / "old.h5")
    told = delta(old, old, tmp_path / "d.delta")
    assert told["tables"] == [] and told["arrays"] == [] and told["base"] == told["new"]
    assert set(contents(tmp_path / "d.delta")[1]) == {"/new/block", "/new/runs", "/new/metadata"}


def test_a_delta_is_small_and_names_what_changed(tmp_path):
    m = first(2)
    m["rows"]["f32"] = np.arange(200_000, dtype="f4").reshape(-1, 4)
    m["dims"][0], m["dense"] = 4, np.ones((1, 4 + m["dims"][1:].sum()), "f4")
    old = write(m, tmp_path / "old.h5")
    m["rows"]["f32"] = m["rows"]["f32"].copy()
    m["rows"]["f32"][[17, 40_000]] += 1
    m["rows"]["f32"][3] = 0
    new = write(m, tmp_path / "new.h5")
    told = delta(old, new, tmp_path / "d.delta")
    _, sets = contents(tmp_path / "d.delta")
    assert sets["/tables/0.at"].tolist() == [17, 40_000] and sets["/tables/0.gone"].tolist() == [3]
    assert [t["name"] for t in told["tables"]] == ["f32"] and told["bytes"] < 40_000 < new.stat().st_size


def test_nan_and_minus_zero_are_bits(tmp_path):
    """A bundle's values are not looked at; h5py may have put anything there."""
    from dpi_export import repack
    m = first(3)
    write(m, tmp_path / "old.h5", golden=False)
    for path, value in (("a.h5", 0.0), ("b.h5", -0.0)):
        with h5py.File(tmp_path / "old.h5", "r") as s, h5py.File(tmp_path / path, "w") as f:
            for g in ("tables", "params", "encoders"):
                for n, item in s[g].items():
                    f[f"{g}/{n}"] = item[()]
            f["manifest"] = s["manifest"][()]
            f["tables/f32"][0] = np.full(m["dims"][0], np.nan)
            f["tables/f32"][2] = np.full(m["dims"][0], value)
        repack(tmp_path / path, tmp_path / ("r" + path), check=False)
    delta(tmp_path / "ra.h5", tmp_path / "rb.h5", tmp_path / "d.delta")
    same_contents(applied(tmp_path / "ra.h5", tmp_path / "d.delta", contents(tmp_path / "rb.h5")[0]), tmp_path / "rb.h5")
    assert contents(tmp_path / "d.delta")[1]["/tables/0.at"].tolist() == [2]


def _bundle(path, words=("a", "b"), rows=6, dim=2, hidden=3, name="m", pad=0, mean=0.0, head="ctr", act="relu"):
    rng = np.random.default_rng(4)
    b = Builder(name)
    b.categorical("c", rows, missing="pad", pad_id=pad, out_of_range="oov", oov_id=0, encoder=[encoders.vocab_string(list(words))])
    b.numeric("n", encoder=[encoders.to_float(), encoders.standard(mean, 1.0)])
    x = b.concat([b.embed(b.input("c"), b.table("t", rng.normal(size=(rows, dim)))), b.input("n")])
    h = b.op("Unary", [b.linear(x, rng.normal(size=(hidden, dim + 1)))], {"kind": act})
    b.head(head, b.linear(h, rng.normal(size=(1, hidden)), name="logit"), activation="none")
    b.write(path)
    return path


@pytest.mark.parametrize("change, text", [
    ({"words": ("b", "a")}, "/encoders/c.bytes: an entry that the base has is another one now"),
    ({"words": ("a",)}, "an entry that the base has is another one now"),
    ({"rows": 5}, "feature 'c': vocab_size falls from 6 to 5"),
    ({"dim": 3}, "table 't' is not what it is in the base"),
    ({"hidden": 4}, "the shape of /params/"),
    ({"name": "other"}, "name 'other' is not what it is in the base"),
    ({"pad": 1}, "feature 'c' is not what it is in the base"),
    ({"mean": 1.0}, "feature 'n' is not what it is in the base"),
    ({"head": "cvr"}, "head 0 ('cvr') is not what it is in the base"),
    ({"act": "tanh"}, "is not what it is in the base, and a delta cannot change it; that takes a new bundle"),
])
def test_what_no_delta_can_change_is_named(tmp_path, change, text):
    old, new = _bundle(tmp_path / "old.h5"), _bundle(tmp_path / "new.h5", **change)
    with pytest.raises(BundleError) as e:
        delta(old, new, tmp_path / "d.delta")
    assert text in str(e.value), e.value
    assert sorted(p.name for p in tmp_path.iterdir()) == ["new.h5", "old.h5"]


def test_new_words_and_rows_can_come(tmp_path):
    old, new = _bundle(tmp_path / "old.h5"), _bundle(tmp_path / "new.h5", words=("a", "b", "çé"), rows=9)
    delta(old, new, tmp_path / "d.delta")
    _, sets = contents(tmp_path / "d.delta")
    assert sets["/encoders/c.bytes"].tobytes().decode() == "çé" and sets["/encoders/c.offsets"].tolist() == [6]
    same_contents(applied(old, tmp_path / "d.delta", contents(new)[0]), new)


def test_damaged_data_makes_no_delta(tmp_path):
    m = first(7)
    old, new = write(m, tmp_path / "old.h5"), write(later(m, 8), tmp_path / "new.h5")
    with Bundle(new) as b:
        at = b.data_sets["/tables/f32"]["offset"]
    data = bytearray(new.read_bytes())
    data[at] ^= 1
    new.write_bytes(data)
    with pytest.raises(BundleError, match="/tables/f32: the data is damaged"):
        delta(old, new, tmp_path / "d.delta")
    assert not (tmp_path / "d.delta").exists()


def test_the_inputs_are_not_written_over(tmp_path):
    m = first(9)
    old, new = write(m, tmp_path / "old.h5"), write(later(m, 10), tmp_path / "new.h5")
    for out in (old, new):
        with pytest.raises(BundleError, match="is one of the two bundles"):
            delta(old, new, out)
    for i in (0, 1):  # the delta is written as NAME.part first
        pair = [old, new]
        pair[i] = pair[i].rename(tmp_path / "d.delta.part")
        before = pair[i].read_bytes()
        with pytest.raises(BundleError, match="d.delta.part: is one of the two bundles"):
            delta(*pair, tmp_path / "d.delta")
        assert pair[i].read_bytes() == before and not (tmp_path / "d.delta").exists()
        pair[i].rename((old, new)[i])


def test_the_command(tmp_path, capsys):
    m = first(11)
    old, new, out = write(m, tmp_path / "old.h5"), write(later(m, 12), tmp_path / "new.h5"), tmp_path / "d.delta"
    make_keys(tmp_path / "k")
    assert main(["delta", str(old), str(new), str(out), "--key", str(tmp_path / "k"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["ok"] and told["bytes"] == out.stat().st_size
    assert main(["delta", str(old), str(new), str(out)]) == 0
    assert "rows set" in capsys.readouterr().out
    assert main(["delta", str(new), str(tmp_path / "k"), str(out)]) == 1


_MEASURE = """
import resource, sys
import dpi_export
dpi_export.delta(sys.argv[1], sys.argv[1], sys.argv[4])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
dpi_export.delta(sys.argv[2], sys.argv[3], sys.argv[4])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_memory_does_not_follow_the_tables(tmp_path):
    """Two versions of 192 MiB each, half of it keyed: 80 MiB above a delta of nothing are enough."""
    rows, dim = 1 << 18, 96

    def blocks(seed, step=1 << 15):
        rng = np.random.default_rng(1)
        for at in range(0, rows, step):
            block = rng.random(size=(step, dim), dtype="f4")
            block[:: 37 + seed] += seed
            yield np.arange(at, at + step) * 5 + (seed if at == step else 0), block

    paths = []
    for seed in (0, 1):
        b = Builder("large")
        b.categorical("u", keys="u", missing="default", default_id=0)
        b.categorical("r", rows)
        b.keyed_table("u", None, lambda s=seed: blocks(s), count=rows, dim=dim)
        b.table("r", lambda s=seed: (rows_ for _, rows_ in blocks(s)), rows=rows, dim=dim)
        x = b.concat([b.embed(b.input("u"), "u"), b.embed(b.input("r"), "r")])
        b.head("z", b.linear(x, np.ones((1, 2 * dim), "f4")), activation="none")
        paths.append(tmp_path / f"{seed}.h5")
        b.write(paths[-1], check=False)
    small = _bundle(tmp_path / "small.h5")
    done = subprocess.run([sys.executable, "-c", _MEASURE, small, *paths, tmp_path / "d.delta"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 80 << 10, f"{int(done.stdout) >> 10} MiB"
