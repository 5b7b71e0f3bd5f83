"""`dpi delta`: random bundles changed at random, hostile deltas, and an apply that is killed. What is expected comes from
weights/python/tests/delta_models.py, which knows DELTA.md by numpy and h5py."""

import json
import os
import random
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest
from conftest import PROGRAM, ROOT

sys.path.insert(0, str(ROOT / "weights" / "python" / "tests"))
from delta_models import contents, first, later, requests, write  # noqa: E402

from dpi_export import Builder, Bundle, Executor, delta, make_keys, sign  # noqa: E402
from dpi_export.bundle import digest  # noqa: E402
from dpi_export.bundle.writer import ProfileFile, seal  # noqa: E402

FULL = os.environ.get("FULL") == "1"


def chain(folder, seed, n=3, share=0.2):
    """Bundles v0 .. vn of one model and the deltas between them."""
    m, bundles, deltas = first(seed), [], []
    for i in range(n + 1):
        bundles.append(write(m, folder / f"v{i}.h5"))
        m = later(m, 100 * seed + i, share)
        if i:
            deltas.append(folder / f"d{i}.delta")
            delta(bundles[i - 1], bundles[i], deltas[-1])
    return bundles, deltas


def version_of(path):
    with Bundle(path) as b:
        return b.version


@pytest.mark.parametrize("seed", range(10 if FULL else 3))
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
def test_applied_is_the_exporters_file(dpi, tmp_path, seed, share):
    (old, new), (d,) = chain(tmp_path, seed + 1, 1, share)
    told = dpi("delta", "apply", old, d, "--output", tmp_path / "out.h5", "--json").json()
    assert (tmp_path / "out.h5").read_bytes() == new.read_bytes()
    assert told["version"] == version_of(new) == dpi("inspect", new, "--json").json()["content_version"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["d1.delta", "out.h5", "v0.h5", "v1.h5"]


def test_applied_scores_as_trained(dpi, tmp_path):
    """The golden rows are the new model's, by numpy; the engine reads the applied file."""
    m = first(3)
    n = later(m, 4, 0.4)
    old, new = write(m, tmp_path / "old.h5"), write(n, tmp_path / "new.h5")
    delta(old, new, tmp_path / "d")
    dpi("delta", "apply", old, tmp_path / "d", "-o", tmp_path / "out.h5").ok()
    for device in ("ref", "cpu"):
        assert "agree" in dpi("verify", tmp_path / "out.h5", "--device", device).ok().out
    scores = []
    for path in (old, tmp_path / "out.h5"):
        with Bundle(path) as b:
            scores.append(Executor(b).run(requests(b, m))["logit"]["ctr"])
    assert np.abs(scores[0] - scores[1]).max() > 0.1
    with Bundle(new) as b:
        np.testing.assert_array_equal(scores[1], Executor(b).run(requests(b, m))["logit"]["ctr"])


def test_make_runs_the_package(dpi, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "weights" / "python"))
    (old, new), (d,) = chain(tmp_path, 2, 1)
    make_keys(tmp_path / "k")
    told = dpi("delta", "make", old, new, tmp_path / "made", "--python", sys.executable, "--json").json()
    assert told["ok"] and (tmp_path / "made").read_bytes() == d.read_bytes()
    dpi("delta", "make", old, tmp_path / "none.h5", tmp_path / "x", "--python", sys.executable).fails(3, "none.h5")
    dpi("delta", "make", old, new, old, "--python", sys.executable).fails(3, "is one of the two bundles")
    assert not (tmp_path / "x").exists()


def test_show_says_what_changes(dpi, tmp_path):
    (old, new), (d,) = chain(tmp_path, 5, 1, 0.3)
    told = dpi("delta", "show", d, "--json").json()
    _, sets = contents(d)
    assert (told["base"], told["new"]) == (version_of(old), version_of(new))
    assert told["bytes"] == d.stat().st_size and told["bundle_bytes"] == new.stat().st_size
    names = ["f32", "f16", "bf16", "i8", "user", "user.linear", "item", "i4", "i2", "fp8"]
    for t in told["tables"]:
        i = names.index(t["name"])
        assert t["set"] == len(sets[f"/tables/{i}.rows"]) and t["gone"] == len(sets.get(f"/tables/{i}.gone", ()))
    for s in told["key_sets"]:
        k = ["user", "item"].index(s["name"])
        assert s["added"] == len(sets.get(f"/tables/set{k}.added", ())) and s["gone"] == len(sets.get(f"/tables/set{k}.gone", ()))
    assert {a["path"] for a in told["arrays"]} == {p for p in sets if not p.startswith(("/new/", "/tables/"))}
    text = dpi("delta", "show", d).ok().out
    assert version_of(old) in text and "rows set" in text and "keys added" in text


def test_chains(dpi, tmp_path):
    bundles, deltas = chain(tmp_path, 7, 4)
    out = tmp_path / "out.h5"
    for have in range(5):
        told = dpi("delta", "apply", bundles[have], *deltas, "--output", out, "--json").json()
        assert (told["already_applied"], told["applied"]) == (have, 4 - have)
        assert out.read_bytes() == bundles[4].read_bytes()
    shutil.copy(bundles[1], out)
    for i in (1, 2, 3):  # in its own place
        dpi("delta", "apply", out, deltas[i], "--output", out).ok()
        assert out.read_bytes() == bundles[i + 1].read_bytes()
    before = out.stat()
    ran = dpi("delta", "apply", out, *deltas, "--output", out).ok()
    assert "already applied" in ran.out and "nothing was written" in ran.out
    assert out.stat().st_ino == before.st_ino and out.stat().st_mtime_ns == before.st_mtime_ns


def test_a_gap_is_refused_by_name(dpi, tmp_path):
    bundles, deltas = chain(tmp_path, 8, 3)
    out = tmp_path / "out.h5"
    dpi("delta", "apply", bundles[0], deltas[1], "-o", out).fails(3, "d2.delta", version_of(bundles[0]), version_of(bundles[1]))
    dpi("delta", "apply", bundles[0], deltas[0], deltas[2], "-o", out).fails(3, "d3.delta", version_of(bundles[2]), version_of(bundles[1]))
    dpi("delta", "apply", bundles[3], deltas[0], "-o", out).fails(3, version_of(bundles[3]), version_of(bundles[0]))
    assert not out.exists()


def test_files_of_the_other_kind_are_told(dpi, tmp_path):
    (old, _), (d,) = chain(tmp_path, 9, 1)
    dpi("inspect", d).fails(3, "is a delta, not a bundle")
    dpi("delta", "show", old).fails(3, "is a bundle, not a delta")
    dpi("delta", "apply", d, d, "-o", tmp_path / "o").fails(3, "is a delta, not a bundle")
    dpi("delta", "apply", old, d, "-o", d).fails(1, "is a delta that is read")
    dpi("delta", "apply", old, tmp_path / "none", "-o", tmp_path / "o").fails(3, "none")
    dpi("delta").fails(1)


def test_what_is_read_is_not_written_over(dpi, tmp_path):
    """The output is written as OUTPUT.part first, and that may be the name of a file that is read."""
    (old, new), (d,) = chain(tmp_path, 9, 1)
    for source, command in ((old, ("{}", d)), (d, (old, "{}"))):
        part = tmp_path / "out.h5.part"
        shutil.copy(source, part)
        dpi("delta", "apply", *(part if word == "{}" else word for word in command), "-o", tmp_path / "out.h5").fails(1, "out.h5.part", "name another")
        assert part.read_bytes() == source.read_bytes() and not (tmp_path / "out.h5").exists()
    part.write_bytes(b"left behind")
    dpi("delta", "apply", old, d, "-o", tmp_path / "out.h5").ok()
    assert (tmp_path / "out.h5").read_bytes() == new.read_bytes() and not part.exists()


def hot_bundle(path, rows, hot, dense=1.0):
    """One table of 20 rows with a hot-key list."""
    b = Builder("hot")
    b.categorical("c", 20)
    x = b.embed(b.input("c"), b.table("c", np.arange(40, dtype="f4").reshape(20, 2) + rows))
    b.head("ctr", b.linear(x, np.full((1, 2), dense, "f4"), np.zeros(1, "f4")))
    if hot:
        b.hot_keys("c", hot, range(len(hot) + 1, 1, -1), lookups=100)
    b.write(path)
    return path


@pytest.mark.parametrize("lists", [([3, 1], [3, 1]), ([3, 1], [2, 5, 7]), ([], [4]), ([4], [])], ids=str)
@pytest.mark.parametrize("rows", [0, 1])
def test_hot_key_lists(dpi, tmp_path, lists, rows):
    """A list names the hashes of its tables, so it changes with them, and goes with the delta."""
    old, new = hot_bundle(tmp_path / "old.h5", 0, lists[0]), hot_bundle(tmp_path / "new.h5", rows, lists[1], 2.0)
    told, d = delta(old, new, tmp_path / "d"), tmp_path / "d"
    assert ("/tables/hot_keys" in told["arrays"]) == (lists[1] != [] and (rows == 1 or lists[0] != lists[1]))
    assert {a["path"] for a in dpi("delta", "show", d, "--json").json()["arrays"]} == set(told["arrays"])
    dpi("delta", "apply", old, d, "-o", tmp_path / "out.h5").ok()
    assert (tmp_path / "out.h5").read_bytes() == new.read_bytes()
    with Bundle(tmp_path / "out.h5") as b:
        assert [list(e["keys"]) for e in b.hot_lists.values()] == ([lists[1]] if lists[1] else [])


def test_signatures(dpi, tmp_path):
    (old, new), (d,) = chain(tmp_path, 4, 1)
    public, other = make_keys(tmp_path / "k"), make_keys(tmp_path / "other")
    dpi("delta", "show", d, "--require-signature", public).fails(3, "is not signed")
    delta(old, new, d, sign=tmp_path / "k")
    first_bytes = d.read_bytes()
    assert dpi("delta", "show", d, "--require-signature", public, "--json").json()["signed_by"]
    dpi("delta", "apply", old, d, "-o", tmp_path / "o", "--require-signature", other).fails(3, "is required")
    dpi("sign", d, "--key", tmp_path / "other").ok()  # a second one
    dpi("delta", "apply", old, d, "-o", tmp_path / "o", "--require-signature", other).ok()
    assert (tmp_path / "o").read_bytes() == new.read_bytes()
    dpi("sign", d, "--remove", dpi("delta", "show", d, "--json").json()["signed_by"][1]).ok()
    assert d.read_bytes() == first_bytes
    sign(new, tmp_path / "k")  # the new bundle's signature comes with the delta
    delta(old, new, tmp_path / "signed.delta")
    dpi("delta", "apply", old, tmp_path / "signed.delta", "-o", tmp_path / "o").ok()
    assert (tmp_path / "o").read_bytes() == new.read_bytes()
    dpi("verify", tmp_path / "o", "--option", f"require_signature={public}").ok()


def rewritten(source, path, change):
    """The delta after `change(manifest, sets)`, with digests and hashes that are right."""
    manifest, sets = contents(source)
    change(manifest, sets)
    text = manifest if isinstance(manifest, bytes) else json.dumps(manifest).encode()
    out = ProfileFile(path, sum(1 for a in sets.values() if a.size))
    out.put("/manifest", np.frombuffer(text, "u1"))
    for name, array in sets.items():
        out.put(name, array)
    seal(path, out.u, out.close(), version=(1, 0), magic=digest.DELTA_MAGIC)
    return path


def _put(path, fn):
    def change(_, sets):
        sets[path] = fn(sets.get(path))
    return change


def _drop(*paths):
    def change(_, sets):
        for path in paths:
            del sets[path]
    return change


def _both(*changes):
    def change(manifest, sets):
        for c in changes:
            c(manifest, sets)
    return change


def _numbers(*values):
    return lambda _: np.array(values, "<i8")


def _at(value):
    """The last number of a list becomes this."""
    return lambda a: np.concatenate([a[:-1], np.array([value], "<i8")])


def _huge(a):
    a = a.copy()
    a[24:32] = np.frombuffer((2**60).to_bytes(8, "little"), "u1")  # length of the new file
    return a


#: what is done to a delta; what is told. Table 0 has row numbers (f32), 3 is i8, 4 and 5 have the keys of set 0.
HOSTILE = {
    "a row twice": (_put("/tables/0.at", lambda a: np.concatenate([a[:1], a[:-1]])), "/tables/0.at: row", "is there twice"),
    "rows fall": (_put("/tables/0.at", lambda a: a[::-1].copy()), "/tables/0.at: row", "comes after"),
    "a row out of range": (_put("/tables/0.at", _at(2**40)), "/tables/0.at: row 1099511627776", "out of range"),
    "a negative row": (_put("/tables/0.at", lambda a: np.concatenate([[-1], a[1:]]).astype("<i8")), "row -1 at 0 is out of range"),
    "rows without numbers": (_drop("/tables/0.at"), "/tables/0.rows: is", "expected"),
    "numbers without rows": (_drop("/tables/0.rows"), "has no rows for what is set"),
    "a row too few": (_put("/tables/0.rows", lambda a: a[:-1]), "/tables/0.rows: is", "expected"),
    "a column too many": (_put("/tables/0.rows", lambda a: np.concatenate([a, a], axis=1)), "/tables/0.rows: is", "expected"),
    "another type": (_put("/tables/0.rows", lambda a: a.astype("<i8")), "/tables/0.rows: is", "expected"),
    "one dimension": (_put("/tables/0.rows", lambda a: a.reshape(-1)), "/tables/0.rows: is", "expected"),
    "numbers of another type": (_put("/tables/0.at", lambda a: a.astype("<f4")), "/tables/0.at: is", "expected"),
    "numbers in two dimensions": (_put("/tables/0.at", lambda a: a.reshape(1, -1)), "/tables/0.at: is", "one dimension"),
    "set and gone": (lambda m, s: s.update({"/tables/0.gone": s["/tables/0.at"][:1].copy()}), "is set and gone"),
    "no scale": (_drop("/tables/3.scale"), "has no scale"),
    "no offset": (_drop("/tables/7.offset"), "has no offset"),
    "an offset too many": (lambda m, s: s.update({"/tables/9.offset": np.ones(len(s["/tables/9.rows"]), "u2")}), "has an offset"),
    "a scale too many": (lambda m, s: s.update({"/tables/0.scale": np.ones(len(s["/tables/0.rows"]), "f4")}), "has a scale"),
    "a scale too short": (_put("/tables/3.scale", lambda a: a[:-1]), "/tables/3.scale: is", "expected"),
    "a table that is not there": (lambda m, s: s.update({"/tables/10.rows": s["/tables/0.rows"]}), "/tables/10.rows: is not part of"),
    "a number with a zero": (lambda m, s: s.update({"/tables/00.rows": s["/tables/0.rows"]}), "/tables/00.rows: is not part of"),
    "an unknown part": (lambda m, s: s.update({"/tables/0.rank": s["/tables/0.at"]}), "/tables/0.rank: is not part of"),
    "an unknown part of new": (lambda m, s: s.update({"/new/more": s["/new/runs"]}), "/new/more: is not part of"),
    "a set that is not there": (lambda m, s: s.update({"/tables/set2.gone": s["/tables/0.at"]}), "/tables/set2.gone: is not part of"),
    "tombstones of a keyed table": (lambda m, s: s.update({"/tables/4.gone": s["/tables/0.at"]}), "keys go with their set"),
    "a key twice": (_put("/tables/set0.added", lambda a: np.concatenate([a[:1], a[:-1]])), "/tables/set0.added: key", "is there twice"),
    "added and gone": (lambda m, s: s.update({"/tables/set0.gone": s["/tables/set0.added"].copy()}), "is added and gone"),
    "a key that no table has": (_put("/tables/set0.added", _at(2**63 - 1)), "has no row in table"),
    "a parameter of another shape": (lambda m, s: s.update({"/params/logit.weight": np.ones((1, 1), "f4")}), "/params/logit.weight: is 1 x 1 f32"),
    "a parameter that is not there": (lambda m, s: s.update({"/params/x": np.ones(1, "f4")}), "/params/x: the new bundle has no such"),
    "an unknown group member": (lambda m, s: s.update({"/golden/x": np.ones(1, "f4")}), "/golden/x: the new bundle has no such"),
    "more words than there are": (lambda m, s: s.update({"/encoders/c.f32.offsets": np.arange(9999, dtype="<u8")}), "/encoders/c.f32.offsets: is 9999"),
    "no block": (_drop("/new/block"), "/new/block: is missing"),
    "half a block": (_put("/new/block", lambda a: a[:800]), "/new/block"),
    "a short block": (_put("/new/block", lambda a: a[:100]), "100 bytes are too few"),
    "a huge file": (_put("/new/block", _huge), "/new/metadata", "are allowed"),
    "a huge user block": (_put("/new/block", lambda a: np.concatenate([a[:16], np.frombuffer((1 << 26).to_bytes(8, "little"), "u1"), a[24:]])),
                          "/new/block: says that it has 67108864 bytes"),
    "another magic": (_put("/new/block", lambda a: np.concatenate([np.zeros(8, "u1"), a[8:]])), "/new/block: is not a bundle"),
    "runs past the end": (_put("/new/runs", lambda a: np.concatenate([a[:-2], [2**63, 2**63]]).astype("<u8")), "/new/runs: run"),
    "an odd number of runs": (_put("/new/runs", lambda a: a[:-1]), "/new/runs: expected pairs"),
    "runs too short": (_put("/new/runs", lambda a: a[:-2]), "/new/metadata:"),
    "other metadata": (_put("/new/metadata", lambda a: np.concatenate([a[:-1], a[-1:] ^ 1])), "(/new)"),
    "another version": (lambda m, s: m.update({"new": "0" * 64}), "gives version", "its manifest says"),
    "no version": (lambda m, s: m.pop("base"), "base is missing"),
    "half a version": (lambda m, s: m.update({"base": "00"}), "base is '00', expected 64 hex digits"),
    "another name": (lambda m, s: m.update({"name": "x"}), "name is 'x'"),
    "an unknown key": (lambda m, s: m.update({"more": 1}), "more"),
    "another format": (lambda m, s: m.update({"format": "dpi-bundle"}), "expected 'dpi-delta'"),
    "another format's version": (lambda m, s: m.update({"version": [1, 1]}), "version is not [1, 0]"),
}


@pytest.fixture(scope="session")
def changed(tmp_path_factory):
    """A base, its next version, and a delta with every kind of data set."""
    folder = tmp_path_factory.mktemp("delta")
    (old, new), (d,) = chain(folder, 4, 1, 0.25)
    _, sets = contents(d)
    assert {"/tables/0.at", "/tables/3.scale", "/tables/set0.added", "/tables/set0.gone", "/encoders/c.f32.offsets"} <= set(sets), sorted(sets)
    return folder, old, new, d


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_deltas_are_refused_by_name(dpi, changed, tmp_path, name):
    _, old, _, d = changed
    change, *texts = HOSTILE[name]
    bad = rewritten(d, tmp_path / "bad.delta", change)
    for command in (("show", bad), ("apply", old, bad, "-o", tmp_path / "out.h5")):
        dpi("delta", *command).fails(3, "bad.delta", *texts)
    assert not (tmp_path / "out.h5").exists()


def test_a_rewritten_delta_is_good(dpi, changed, tmp_path):
    """The list above refuses what it changes, not how it is written."""
    _, old, new, d = changed
    same = rewritten(d, tmp_path / "same.delta", lambda m, s: None)
    dpi("delta", "apply", old, same, "-o", tmp_path / "out.h5").ok()
    assert (tmp_path / "out.h5").read_bytes() == new.read_bytes()


def _unknown_key(_, sets):
    """A key beside one that both have."""
    at = sets["/tables/4.at"]
    at[np.flatnonzero(~np.isin(at, sets["/tables/set0.added"]))[0]] -= 1


#: what only the base can tell
MISFITS = {
    "a key that the base has not goes": (_put("/tables/set0.gone", _at(2**63 - 1)), "set0.gone: key 9223372036854775807 is not in the base"),
    "a key that is nowhere is set": (_unknown_key, "/tables/4.at: key", "is neither in the base nor added"),
    "too few keys go": (_put("/tables/set0.gone", lambda a: a[:-1]), "key set 'user':", "are not the"),
    "a parameter is not there": (_drop("/params/logit.weight"), "/params/logit.weight: the delta does not make "),
    "words are not there": (_drop("/encoders/c.f32.offsets"), "/encoders/c.f32.offsets: the delta does not make "),
    "another row": (_put("/tables/0.rows", lambda a: a + 1), "/tables/f32: its data is"),
    "a row less": (_both(_put("/tables/0.at", lambda a: a[1:]), _put("/tables/0.rows", lambda a: a[1:])), "/tables/f32: its data is"),
    "a new row less": (_both(_put("/tables/0.at", lambda a: a[:-1]), _put("/tables/0.rows", lambda a: a[:-1])), "some are not in the delta"),
}


@pytest.mark.parametrize("name", MISFITS)
def test_what_does_not_fit_the_base_is_refused(dpi, changed, tmp_path, name):
    _, old, _, d = changed
    change, *texts = MISFITS[name]
    bad = rewritten(d, tmp_path / "bad.delta", change)
    dpi("delta", "show", bad).ok()
    dpi("delta", "apply", old, bad, "-o", tmp_path / "out.h5").fails(3, *texts)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.delta"]


def test_every_damage_is_told(dpi, changed, tmp_path):
    """One byte anywhere, and files that end too early."""
    _, old, _, d = changed
    data, rng = d.read_bytes(), random.Random(1)
    bad = tmp_path / "bad.delta"
    with open(d, "rb") as f:
        block = digest.unpack(f, len(data), digest.DELTA_MAGIC)
    places = [rng.randrange(len(data)) for _ in range(60)] + [e[0] for e in block.extents]
    for at in places:
        bad.write_bytes(data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1:])
        dpi("delta", "show", bad).fails(3, "bad.delta")
    for n in (0, 7, 767, 1024, len(data) // 2, len(data) - 1):
        bad.write_bytes(data[:n])
        dpi("delta", "apply", old, bad, "-o", tmp_path / "o").fails(3, "bad.delta")
    bad.write_bytes(data + b"\0")
    dpi("delta", "show", bad).fails(3, "is too long")


def test_a_damaged_base_is_told(dpi, changed, tmp_path):
    _, old, _, d = changed
    with Bundle(old) as b:
        at = b.data_sets["/tables/f32"]["offset"]
    data = bytearray(old.read_bytes())
    data[at: at + 40] = bytes(40)
    (tmp_path / "base.h5").write_bytes(data)
    dpi("delta", "apply", tmp_path / "base.h5", d, "-o", tmp_path / "o").fails(3, "/tables/f32: its data is damaged")
    assert not (tmp_path / "o").exists()


KILLS = int(os.environ.get("DPI_DELTA_KILLS", "50" if FULL else "8"))


def test_killed_at_any_moment(dpi, tmp_path):
    """SIGKILL while a chain is applied in place: there is the old file, or the new one; the same command again gives the new one."""
    m = first(12)
    m["rows"]["f32"] = np.random.default_rng(0).random(size=(1 << 19, m["dims"][0]), dtype="f4")
    bundles, deltas = [], []
    for i in range(3):
        bundles.append(write(m, tmp_path / f"v{i}.h5", golden=False))
        m = later(m, i, 0.1)
        if i:
            deltas.append(tmp_path / f"d{i}.delta")
            delta(bundles[i - 1], bundles[i], deltas[-1])
    old, new, live = bundles[0].read_bytes(), bundles[2].read_bytes(), tmp_path / "live.h5"
    command = [PROGRAM, "delta", "apply", live, *deltas, "--output", live]
    shutil.copy(bundles[0], live)
    begin = time.monotonic()
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    whole, rng, ends, parts = time.monotonic() - begin, random.Random(2), [], 0
    for _ in range(8 * KILLS):  # on a machine that is busy only now and then, more runs than half may end by themselves
        if len(ends) >= KILLS and ends.count(-9) >= KILLS // 2 and parts >= 1:
            break
        shutil.copy(bundles[0], live)
        ran = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(rng.random() * 1.1 * whole)
        ran.kill()
        ends.append(ran.wait())
        found = live.read_bytes()
        assert found in (old, new)
        parts += (tmp_path / "live.h5.part").exists()
        assert subprocess.run(command, capture_output=True, check=False).returncode == 0
        assert live.read_bytes() == new
        assert not (tmp_path / "live.h5.part").exists()
    assert ends.count(-9) >= KILLS // 2 and parts >= 1, (ends, parts)


def test_two_at_once_do_not_mix(dpi, changed, tmp_path):
    """Who comes second is told, or finds the first one's result."""
    _, old, new, d = changed
    out = tmp_path / "out.h5"
    for _ in range(10 if FULL else 4):
        two = [subprocess.Popen([PROGRAM, "delta", "apply", old, d, "-o", out], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
               for _ in range(2)]
        told = [p.communicate()[1] for p in two]
        assert any(p.returncode == 0 for p in two)
        assert all(p.returncode == 0 or "another process writes it" in t for p, t in zip(two, told)), told
        assert out.read_bytes() == new.read_bytes()
