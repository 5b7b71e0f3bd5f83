"""`dpi store hot-keys`: its lists, read by a second reader (weights/HOT_KEYS.md), against counts by numpy; and what becomes of them."""

import collections
import pathlib
import struct

import numpy as np
import pytest
import xxhash

from conftest import Builder, encoders
from dpi_export import cli

ROOT = pathlib.Path(__file__).resolve().parents[3]
MODEL = ROOT / "weights" / "demo" / "msweb_deepfm.h5"
REQUESTS = ROOT / "weights" / "demo" / "msweb_test.csv"


def read_list(path):
    """name -> (rows, lookups, [(key, count)])."""
    data = path.read_bytes()
    magic, version, n, length, digest = struct.unpack_from("<8sIIQQ", data)
    assert (magic, version, length) == (b"DPIHOTK\0", 1, len(data))
    assert digest == xxhash.xxh3_64(data[:24] + bytes(8) + data[32:]).intdigest()
    tables, end = {}, 32 + 304 * n
    for t in range(n):
        rows, keys, offset, lookups, _, _, name_bytes, name = struct.unpack_from("<QQQQ32s32sI200s", data, 32 + 304 * t)
        assert offset == end
        end += 16 * keys
        tables[name[:name_bytes].decode()] = (rows, lookups, [struct.unpack_from("<qQ", data, offset + 16 * i) for i in range(keys)])
    assert end == len(data)
    return tables


def hottest(ids):
    return sorted(collections.Counter(ids).items(), key=lambda kc: (-kc[1], kc[0]))


def model_of(path, rows=50, seed=5):
    """50 users, a bag of them that pads and is cut to 3, and cities with a vocabulary; users twice, beside a linear part."""
    rng = np.random.default_rng(seed)
    b = Builder("users")
    b.categorical("user", rows, missing="pad", pad_id=0)
    b.sequence("friends", rows, missing="pad", pad_id=0, max_len=3)
    b.categorical("city", 4, out_of_range="oov", oov_id=3, missing="pad", encoder=[encoders.trim(), encoders.vocab_string(["Rome", "Oslo"], first_id=1)])
    users = b.table("users", rng.normal(size=(rows, 8)).astype("f4"))
    parts = [b.embed(b.input("user"), users), b.embed(b.input("friends"), users, "sum"),
             b.embed(b.input("user"), b.table("users.linear", rng.normal(size=(rows, 1)).astype("f4"))),
             b.embed(b.input("city"), b.table("city", rng.normal(size=(4, 2)).astype("f4")))]
    b.head("z", b.linear(b.concat(parts), rng.normal(size=(1, 19)).astype("f4")), activation="none")
    b.write(path)
    return path


@pytest.fixture
def log(tmp_path):
    """A model, a file of requests of it with raw cities, and the rows that each of its tables is asked for."""
    rng = np.random.default_rng(6)
    lines, asked = ["user,friends,city"], collections.defaultdict(list)
    for _ in range(700):
        user, friends = int(rng.zipf(1.3) % 50), [int(f) for f in rng.integers(0, 50, rng.integers(0, 6))]
        city = str(rng.choice(["Rome", " Oslo ", "Bonn", ""]))
        missing = rng.random() < 0.1
        lines.append(f"{'' if missing else user},{'|'.join(map(str, friends))},{city}")
        row = 0 if missing else user
        asked["users"] += [row] + friends[:3]
        asked["users.linear"].append(row)
        asked["city"].append({"Rome": 1, "Oslo": 2, "": 0}.get(city.strip(), 3))
    csv = tmp_path / "log.csv"
    csv.write_text("\n".join(lines) + "\n")
    return model_of(tmp_path / "users.h5"), csv, asked


def test_counts_are_those_of_the_rows_that_lookups_ask_for(dpi, log, tmp_path):
    model, csv, asked = log
    out = tmp_path / "users.hot"
    told = dpi("store", "hot-keys", model, "--data", csv, "--raw", "--out", out, "--json").json()
    found = read_list(out)
    assert {t["name"]: t["lookups"] for t in told["tables"]} == {name: len(ids) for name, ids in asked.items()}
    assert told["requests"] == 700
    for name, ids in asked.items():
        rows, lookups, keys = found[name]
        assert keys == hottest(ids)
        assert lookups == len(ids)
        assert rows == (4 if name == "city" else 50)
    assert all(t["counts_low_by"] == 0 and t["share_listed"] == 1 and t["rows_listed"] == t["rows_counted"] for t in told["tables"])


def test_files_are_added_up_and_standard_input_is_one(dpi, log, tmp_path):
    model, csv, asked = log
    one, two = tmp_path / "one.hot", tmp_path / "two.hot"
    dpi("store", "hot-keys", model, "--data", csv, csv, "--raw", "--out", one).ok()
    dpi("store", "hot-keys", model, "--data", "-", csv, "--raw", "--out", two, stdin=csv.read_text()).ok()
    assert one.read_bytes() == two.read_bytes()
    assert read_list(one)["city"][2] == hottest(asked["city"] * 2)


def test_top_bytes_and_tables(dpi, log, tmp_path):
    model, csv, asked = log
    out = tmp_path / "users.hot"
    dpi("store", "hot-keys", model, "--data", csv, "--raw", "--out", out, "--top", 3).ok()
    assert {name: keys for name, (_, _, keys) in read_list(out).items()} == {name: hottest(ids)[:3] for name, ids in asked.items()}
    dpi("store", "hot-keys", model, "--data", csv, "--raw", "--out", out, "--table", "users.linear").ok()
    assert list(read_list(out)) == ["users.linear"]
    # the hottest of all, until a row no longer fits: rows of 32, 4 and 8 bytes
    dpi("store", "hot-keys", model, "--data", csv, "--raw", "--out", out, "--bytes", 300).ok()
    order = sorted(((-count, key, t, name) for t, name in enumerate(["users", "users.linear", "city"]) for key, count in hottest(asked[name])))
    kept, left = collections.Counter(), 300
    for *_, name in order:
        size = {"users": 32, "users.linear": 4, "city": 8}[name]
        if size > left:
            break
        kept[name], left = kept[name] + 1, left - size
    assert {name: len(keys) for name, (_, _, keys) in read_list(out).items()} == {name: kept[name] for name in asked}


def test_rows_of_keyed_tables(dpi, tmp_path):
    b = Builder("keyed")
    b.categorical("user", keys="user", missing="pad", pad_id=-1)
    b.keyed_table("user", [-7, 0, 5, 900], np.arange(4, dtype=np.float32).reshape(4, 1), default=[100])
    b.head("z", b.embed(b.input("user"), "user"), activation="none")
    b.write(tmp_path / "keyed.h5")
    (tmp_path / "log.csv").write_text("user\n900\n5\n900\n12345\n\n-7\n900\n6\n")
    out = tmp_path / "keyed.hot"
    dpi("store", "hot-keys", tmp_path / "keyed.h5", "--data", tmp_path / "log.csv", "--out", out).ok()
    rows, lookups, keys = read_list(out)["user"]
    assert (rows, lookups) == (6, 8)  # four keys, the default row, padding
    assert keys == [(3, 3), (4, 2), (0, 1), (2, 1), (5, 1)]
    options = ["--option", "store.host_bytes=3000", "--option", "store.resident_bytes=0"]
    want = dpi("predict", tmp_path / "keyed.h5", tmp_path / "log.csv").ok().out
    assert dpi("predict", tmp_path / "keyed.h5", tmp_path / "log.csv", *options, "--option", f"store.hot_keys={out}").ok().out == want


def test_little_memory_is_told_and_loses_nothing_frequent(dpi, tmp_path):
    model = model_of(tmp_path / "large.h5", rows=20000)
    rng = np.random.default_rng(1)
    users = [*rng.permutation(20000), *[7, 19999] * 2000]
    (tmp_path / "log.csv").write_text("user,friends,city\n" + "".join(f"{u},,0\n" for u in users))
    out = tmp_path / "large.hot"
    told = dpi("store", "hot-keys", model, "--data", tmp_path / "log.csv", "--out", out, "--memory", 150000, "--json").json()["tables"]
    low = {t["name"]: t["counts_low_by"] for t in told}
    assert low["users"] > 0 and low["city"] == 0
    keys = read_list(out)["users"][2]
    assert [k for k, _ in keys[:2]] == [7, 19999]
    assert all(2001 - low["users"] <= count <= 2001 for _, count in keys[:2])
    assert len(keys) < 5000
    text = dpi("store", "hot-keys", model, "--data", tmp_path / "log.csv", "--out", out, "--memory", 150000).ok().out
    assert f"counts may be low by {low['users']}" in text


def test_a_list_changes_no_score(dpi, tmp_path):
    out = tmp_path / "msweb.hot"
    dpi("store", "hot-keys", MODEL, "--data", REQUESTS, "--raw", "--out", out, "--top", 60).ok()
    options = ["--raw", "--option", "debug.fold=off"]
    want = dpi("predict", MODEL, REQUESTS, *options).ok().out
    options += ["--option", "store.host_bytes=9000", "--option", "store.resident_bytes=0", "--option", "max_rows=4", "--option", f"store.hot_keys={out}"]
    assert dpi("predict", MODEL, REQUESTS, *options).ok().out == want


def test_lists_that_are_refused(dpi, log, tmp_path):
    model, csv, _ = log
    out = tmp_path / "users.hot"
    dpi("store", "hot-keys", model, "--data", csv, "--raw", "--out", out).ok()
    tier = ["--raw", "--option", "store.host_bytes=60000", "--option", "store.resident_bytes=0"]

    def predict(bundle, path, *options):
        return dpi("predict", bundle, csv, *(options or tier), "--option", f"store.hot_keys={path}")

    predict(model, out).ok()
    predict(model, out, "--raw").fails(1, "store.hot_keys", "set 'store.host_bytes'")
    predict(model, tmp_path / "none.hot").fails(3, "none.hot", "No such file")
    other = model_of(tmp_path / "other.h5", seed=9)
    predict(other, out).fails(1, "users.hot", "table 'users' is another one", "dpi store hot-keys")
    dpi("predict", MODEL, REQUESTS, *tier, "--option", f"store.hot_keys={out}").fails(3, "table 'users' is none of this bundle's")
    good = out.read_bytes()
    out.write_bytes(good[:-1])
    predict(model, out).fails(3, "users.hot", "it has")
    out.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    predict(model, out).fails(3, "users.hot", "digest")
    out.write_bytes(b"")
    predict(model, out).fails(3, "users.hot")
    predict(model, csv).fails(3, "log.csv", "no hot-key list")


def test_a_list_in_the_bundle(dpi, log, tmp_path):
    model, csv, asked = log
    out, listed, without = tmp_path / "users.hot", tmp_path / "listed.h5", tmp_path / "without.h5"
    dpi("store", "hot-keys", model, "--data", csv, "--raw", "--out", out, "--top", 9).ok()
    assert cli.main(["hot-keys", str(model), str(listed), "--list", str(out)]) == 0
    told = {t["table"]: t for t in dpi("inspect", listed, "--json").json()["hot_keys"]}
    assert {n: (t["keys"], t["lookups"]) for n, t in told.items()} == {n: (min(9, len(set(i))), len(i)) for n, i in asked.items()}
    assert "hot keys of users" in dpi("inspect", listed).ok().out and dpi("inspect", model, "--json").json()["hot_keys"] == []
    dpi("verify", listed).ok()
    options = ["--raw", "--option", "debug.fold=off", "--option", "store.host_bytes=6000", "--option", "store.resident_bytes=0", "--option", "max_rows=2"]
    want = dpi("predict", model, csv, "--raw", "--option", "debug.fold=off").ok().out
    for more in ([], ["--option", "store.hot_keys=off"], ["--option", f"store.hot_keys={out}"]):
        assert dpi("predict", listed, csv, *options, *more).ok().out == want
    assert cli.main(["hot-keys", str(listed), str(without), "--remove"]) == 0
    assert without.read_bytes() == model.read_bytes()
    assert cli.main(["hot-keys", str(model_of(tmp_path / "other.h5", seed=9)), str(without), "--list", str(out)]) == 1


def test_wrong_use(dpi, log, tmp_path):
    model, csv, _ = log
    out = tmp_path / "users.hot"

    def run(*args, data=csv):
        return dpi("store", "hot-keys", model, "--data", data, "--raw", *args)

    run().fails(1, "--out")
    run("--out", csv).fails(1, "a file that is read")
    run("--out", model).fails(1, "the bundle")
    run("--out", out, "--table", "nothing").fails(1, "--table 'nothing'", "looks up no such table")
    run("--out", out, "--top", 0).fails(1, "--top")
    run("--out", out, "--top", 3, "--bytes", 9).fails(1, "--bytes")
    run("--out", tmp_path / "no" / "users.hot").fails(6, "No such file")
    empty = tmp_path / "empty.csv"
    empty.write_text("user,friends,city\n")
    run("--out", out, data=empty).fails(2, "nothing to list")
    bad = tmp_path / "bad.csv"
    bad.write_text("user,friends,city\n1,2,Rome\n50,2,Rome\n")
    run("--out", out, data=bad).fails(2, "bad.csv:3:1", "user")
    dpi("store", "hot-keys", build_without_tables(tmp_path), "--data", csv, "--out", out).fails(1, "looks up no table")
    assert not out.exists()
    dpi("store").fails(1, "a command is required: load, stat, verify, update, drop, hot-keys")
    dpi("store", "load").fails(1, "bundle")
    assert "Examples:" in dpi("store", "hot-keys", "--help").ok().out
    assert [p.name for p in tmp_path.glob("*.part")] == []


def build_without_tables(folder):
    b = Builder("plain")
    b.numeric("user", missing="default")
    b.head("z", b.linear(b.input("user"), np.ones((1, 1), "f4")), activation="none")
    b.write(folder / "plain.h5")
    return folder / "plain.h5"
