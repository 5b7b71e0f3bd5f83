"""`dpi store`: tables in RocksDB and in a real redis-server, read back against h5py's view of the bundle."""

import json
import pathlib
import shutil
import socket
import struct
import sys

import h5py
import numpy as np
import pytest
import xxhash

from conftest import PROGRAM, Builder, Rows
from test_hot_keys import read_list

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

from redis_server import is_installed, redis_server  # noqa: E402

PLUGINS = pathlib.Path(PROGRAM).resolve().parents[1] / "lib" / "dpi" / "backends-1"
MODEL = ROOT / "weights" / "demo" / "bank_dcnv2.h5"
EIGHT_BITS = ROOT / "tests" / "e2e" / "golden" / "fx_deepfm_i8.h5"


@pytest.fixture
def rocksdb(tmp_path):
    if not (PLUGINS / "libdpi_rocksdb.so").exists():
        pytest.skip("libdpi_rocksdb.so is not built")
    return ["--rocksdb", tmp_path / "rows", "--backend-dir", PLUGINS]


@pytest.fixture
def redis(tmp_path):
    if not (PLUGINS / "libdpi_redis.so").exists() or not is_installed():
        pytest.skip("libdpi_redis.so is not built, or there is no redis-server")
    with redis_server(tmp_path) as port:
        yield ["--redis", f"127.0.0.1:{port}", "--backend-dir", PLUGINS]


def tables_of(path):
    with h5py.File(path) as f:
        return {name: f["tables"][name].shape[0] for name in f["tables"] if not name.endswith(".scale")}


@pytest.mark.parametrize("where", ["rocksdb", "redis"])
@pytest.mark.parametrize("model", [MODEL, EIGHT_BITS])
def test_load_stat_verify_drop(dpi, model, where, request):
    store = request.getfixturevalue(where)
    dpi("store", "verify", model, *store).fails(5, "dpi store load")
    loaded = dpi("store", "load", model, *store, "--json").json()
    assert {t["name"].replace("/", "_"): t["rows"] for t in loaded["tables"]} == tables_of(model)
    assert all(t["complete"] for t in loaded["tables"])
    assert "the same as the bundle's" in dpi("store", "verify", model, *store).ok().out
    assert loaded["written"] == sum(tables_of(model).values())
    assert dpi("store", "load", model, *store, "--json").json() == loaded | {"written": 0}  # nothing is left to do
    assert dpi("store", "stat", model, *store, "--json").json()["tables"] == loaded["tables"]
    dpi("store", "drop", model, *store).ok()
    dpi("store", "stat", model, *store).fails(5, "is not there")


def test_rows_in_redis_are_those_of_the_file(dpi, redis):
    """Read by another client: a row is a field of one of the table's hashes, named by its key's 8 bytes."""
    dpi("store", "load", MODEL, *redis, "--table", "job").ok()
    port = int(redis[1].rpartition(":")[2])
    with h5py.File(MODEL) as f:
        rows = np.asarray(f["tables"]["job"][...])
    found = {}
    for name in redis_cli(port, "KEYS", "*"):
        if redis_cli(port, "TYPE", name) != [b"hash"]:
            continue
        pairs = redis_cli(port, "HGETALL", name)
        found.update({k: v for k, v in zip(pairs[::2], pairs[1::2]) if len(v) == rows[0].nbytes})
    for order in ("<q", ">q"):
        if struct.pack(order, 3) in found:
            assert {struct.unpack(order, k)[0]: v for k, v in found.items() if len(k) == 8} == {i: r.tobytes() for i, r in enumerate(rows)}
            return
    raise AssertionError("no field is named by the bytes of key 3")


def partitions_of(port, bundle):
    """The names of the hashes that have rows of a bundle's tables, largest first."""
    names = [n for n in redis_cli(port, "KEYS", "*") if not n.endswith(b":table}")]
    return sorted(names, key=lambda n: -int(redis_cli(port, "HLEN", n)[0]))


def test_rows_that_redis_has_lost_are_named_and_written_again(dpi, redis):
    dpi("store", "load", MODEL, *redis, "--setting", "partitions=4").ok()
    port = int(redis[1].rpartition(":")[2])
    rows = sum(tables_of(MODEL).values())
    lost = partitions_of(port, MODEL)[0]
    fields = int(redis_cli(port, "HLEN", lost)[0]) - 1  # but the seal
    number = lost.decode().rpartition(":p")[2].rstrip("}")
    redis_cli(port, "DEL", lost)
    stat = dpi("store", "stat", MODEL, *redis)
    stat.fails(5)
    assert f"lost: partition {number} of 4; {fields} rows are missing, dpi store load writes them again" in stat.out
    told = [t for t in json.loads(dpi("store", "stat", MODEL, *redis, "--json").out)["tables"] if t["missing"]]
    assert [(t["missing"], t["missing_rows"], t["missing_partitions"], t["of"] - t["rows"]) for t in told] == [(f"partition {number} of 4", fields, 1, fields)]
    dpi("store", "verify", MODEL, *redis).fails(5, f"partition {number} is gone", "`dpi store load`")
    loaded = dpi("store", "load", MODEL, *redis, "--json").json()
    assert loaded["written"] == fields and sum(t["rows"] for t in loaded["tables"]) == rows
    assert "the same as the bundle's" in dpi("store", "verify", MODEL, *redis).ok().out
    assert "0 rows written" in dpi("store", "load", MODEL, *redis).ok().out


def redis_cli(port, *command):
    """One command by RESP, its reply as a list of bytes."""
    def read(f):
        line = f.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"$":
            return f.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [read(f) for _ in range(int(rest))]
        return rest

    words = [w if isinstance(w, bytes) else w.encode() for w in command]
    with socket.create_connection(("127.0.0.1", port), 5) as s, s.makefile("rb") as f:
        s.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))
        reply = read(f)
    return reply if isinstance(reply, list) else [reply]


def test_a_row_that_differs_is_named(dpi, redis):
    dpi("store", "load", MODEL, *redis, "--table", "job").ok()
    port = int(redis[1].rpartition(":")[2])
    for name in redis_cli(port, "KEYS", "*"):
        pairs = redis_cli(port, "HGETALL", name) if redis_cli(port, "TYPE", name) == [b"hash"] else []
        for key, value in zip(pairs[::2], pairs[1::2]):
            if len(key) == 8 and 3 in (struct.unpack("<q", key)[0], struct.unpack(">q", key)[0]):
                redis_cli(port, "HSET", name, key, bytes([value[0] ^ 1]) + value[1:])
    dpi("store", "verify", MODEL, *redis, "--table", "job").fails(4, "table 'job': key 3 has another row in the store")


def test_keys_of_a_keyed_table(dpi, rocksdb, keyed_bundle):
    path, rows = keyed_bundle
    loaded = dpi("store", "load", path, *rocksdb, "--json").json()
    assert [t["rows"] for t in loaded["tables"]] == [rows]  # the default row stays in the bundle
    dpi("store", "verify", path, *rocksdb).ok()


@pytest.fixture
def keyed_bundle(tmp_path):
    keys = [-(2**63), -7, 0, 5, 2**63 - 1]
    b = Builder("keyed")
    b.categorical("user", keys="user", missing="pad", pad_id=-1)
    b.keyed_table("user", keys, np.arange(5, dtype=np.float32).reshape(5, 1), default=[100])
    b.head("z", b.embed(b.input("user"), "user"), activation="none")
    b.golden(Rows.from_columns(b, {"user": [5, 1]}))
    path = tmp_path / "keyed.h5"
    b.write(path)
    return path, len(keys)


@pytest.mark.parametrize("arguments, texts", [
    (["load", MODEL], ["one of --rocksdb FOLDER and --redis HOST:PORT"]),
    (["load", MODEL, "--rocksdb", "/x", "--redis", "a:1"], ["one of"]),
    (["fetch", MODEL, "--rocksdb", "/x"], ["fetch"]),
    (["load", MODEL, "--rocksdb", "/x", "--table", "nothing"], ["--table 'nothing'", "no such table"]),
    (["load", MODEL, "--rocksdb", "/x", "--setting", "color"], ["expected key=value"]),
])
def test_wrong_use(dpi, arguments, texts):
    dpi("store", *arguments).fails(1, *texts)


def test_settings_and_places_that_cannot_be(dpi, rocksdb, tmp_path):
    dpi("store", "load", MODEL, *rocksdb, "--setting", "color=red").fails(1, "color")
    dpi("store", "load", MODEL, "--redis", "127.0.0.1:1", "--backend-dir", PLUGINS).fails(5, "127.0.0.1:1")
    dpi("store", "load", tmp_path / "none.h5", *rocksdb).fails(3, "none.h5")


def model_of(path, table, digest=None):
    """50 users of 8 columns, and a bag of them that pads; the table in the bundle, or external."""
    b = Builder("users")
    b.categorical("user", 50, missing="pad", pad_id=0)
    b.sequence("friends", 50, missing="pad", pad_id=0, max_len=4)
    if digest is None:
        b.table("users", table)
    else:
        b.external_table("users", 8, rows=50, digest=digest)
    both = b.concat([b.embed(b.input("user"), "users"), b.embed(b.input("friends"), "users", "sum")])
    b.head("z", b.linear(both, np.linspace(-1, 1, 16, dtype=np.float32).reshape(1, 16)), activation="none")
    b.write(path)
    return path


@pytest.fixture
def users(tmp_path):
    rng = np.random.default_rng(5)
    table = rng.normal(size=(50, 8)).astype(np.float32)
    csv = tmp_path / "rows.csv"
    csv.write_text("user,friends\n" + "".join(f"{rng.integers(0, 50)},{'|'.join(map(str, rng.integers(0, 50, rng.integers(0, 5))))}\n" for _ in range(300)))
    return model_of(tmp_path / "whole.h5", table), table, csv


@pytest.mark.parametrize("where", ["rocksdb", "redis"])
def test_a_model_reads_the_rows_of_an_external_table(dpi, where, request, users, tmp_path):
    store = request.getfixturevalue(where)
    whole, table, csv = users
    content = dpi("store", "load", whole, *store, "--json").json()["tables"][0]["content"]
    external = model_of(tmp_path / "external.h5", table, digest=content)
    key = "rocksdb_path" if where == "rocksdb" else "redis_address"
    options = [f"store.{key}={store[1]}", "store.host_bytes=3000", f"backend_dir={PLUGINS}", "max_rows=8"]
    options = [part for o in options for part in ("--option", o)]
    want = dpi("predict", whole, csv, "--option", "debug.fold=off").ok().out
    assert dpi("predict", external, csv, "--option", "debug.fold=off", *options).ok().out == want
    # a hot-key list is one for both, and its rows are fetched while the model loads
    one, two = tmp_path / "one.hot", tmp_path / "two.hot"
    dpi("store", "hot-keys", whole, "--data", csv, "--out", one).ok()
    dpi("store", "hot-keys", external, "--data", csv, "--out", two, *options).ok()
    assert one.read_bytes() == two.read_bytes()
    assert dpi("predict", external, csv, "--option", "debug.fold=off", "--option", f"store.hot_keys={one}", *options).ok().out == want
    dpi("predict", external, csv).fails(3, "table 'users' is external", "store.rocksdb_path", "store.redis_address")
    dpi("predict", external, csv, "--option", "table.users.tier=resident").fails(
        1, "option 'table.users.tier' is 'resident', but the table is external")
    other = model_of(tmp_path / "other.h5", table, digest="0" * 64)
    dpi("predict", other, csv, *options).fails(3, "is not there", "dpi store load")
    dpi("predict", external, csv, *options[:2], "--option", "store.host_bytes=0").fails(3, "set 'store.host_bytes'")


def two_tables(path, digests=None):
    """Scores 10 * items[item] + users[user]; the tables in the bundle, or external."""
    b = Builder("two")
    tables = {"items": np.arange(7, dtype=np.float32).reshape(7, 1), "users": np.arange(5, dtype=np.float32).reshape(5, 1) / 8}
    for name, feature, weight in (("items", "item", 10), ("users", "user", 1)):
        if feature == "item":
            b.categorical(feature, 7)
        else:
            b.categorical(feature, keys="users")
        if digests is None:
            b.table(name, tables[name]) if feature == "item" else b.keyed_table(name, [-9, 0, 4, 2**40, 2**62], tables[name], default=[0.0625])
        else:
            key = {} if feature == "item" else {"key_set": "users", "default": [0.0625]}
            b.external_table(name, 1, rows=len(tables[name]) + len(key) // 2, digest=digests[name], **key)
        part = b.linear(b.embed(b.input(feature), name), np.full((1, 1), weight, np.float32))
        z = part if feature == "item" else b.add(z, part)
    b.head("z", z, activation="none")
    b.write(path)
    return path


def test_each_table_comes_from_the_first_store_that_has_it(dpi, rocksdb, redis, tmp_path):
    whole = two_tables(tmp_path / "whole.h5")
    digests = {t["name"]: t["content"] for t in dpi("store", "load", whole, *rocksdb, "--table", "users", "--json").json()["tables"]}
    digests |= {t["name"]: t["content"] for t in dpi("store", "load", whole, *redis, "--table", "items", "--json").json()["tables"]}
    far, csv = two_tables(tmp_path / "far.h5", digests), tmp_path / "rows.csv"
    csv.write_text("item,user\n0,-9\n6,4611686018427387904\n3,7\n2,1099511627776\n")
    tier, here = ["--option", "store.host_bytes=4000", "--option", f"backend_dir={PLUGINS}"], ["--option", f"store.rocksdb_path={rocksdb[1]}"]
    there = ["--option", f"store.redis_address={redis[1]}"]
    want = dpi("predict", whole, csv).ok().out
    assert [float(line) for line in want.split()[-4:]] == [0, 60.5, 30.0625, 20.375]
    assert dpi("predict", far, csv, *tier, *here, *there).ok().out == want
    dpi("predict", far, csv, *tier, *here).fails(3, "table 'items'", "is not there")
    dpi("predict", far, csv, *tier, *there).fails(3, "table 'users'", "is not there")
    dpi("store", "load", whole, *rocksdb, "--table", "items").ok()
    nobody = ["--option", "store.redis_address=127.0.0.1:1"]  # never asked: all is here
    assert dpi("predict", far, csv, *tier, *here, *nobody).ok().out == want
    shutil.rmtree(rocksdb[1])
    dpi("store", "load", whole, *redis, "--table", "users").ok()
    assert dpi("predict", far, csv, *tier, *here, *there).ok().out == want  # a folder with nothing in it


def test_hot_keys_of_an_external_keyed_table_are_its_raw_keys(dpi, rocksdb, tmp_path):
    whole = two_tables(tmp_path / "whole.h5")
    digests = {t["name"]: t["content"] for t in dpi("store", "load", whole, *rocksdb, "--json").json()["tables"]}
    far, csv, hot = two_tables(tmp_path / "far.h5", digests), tmp_path / "rows.csv", tmp_path / "far.hot"
    csv.write_text("item,user\n" + "0,-9\n" * 5 + "6,4611686018427387904\n" * 7 + "3,7\n1,7\n2,1099511627776\n")  # 7 is no key
    options = [f"store.rocksdb_path={rocksdb[1]}", "store.host_bytes=4000", f"backend_dir={PLUGINS}", "store.fetch_threads=1"]
    options = [part for o in options for part in ("--option", o)]
    dpi("store", "hot-keys", far, "--data", csv, "--out", hot, *options).ok()
    tables = read_list(hot)
    assert tables["users"] == (7, 15, [(2**62, 7), (-9, 5), (7, 2), (2**40, 1)])  # five keys, the default row, padding
    assert tables["items"] == (7, 15, [(6, 7), (0, 5), (1, 1), (2, 1), (3, 1)])
    want, listed = dpi("predict", whole, csv).ok().out, [*options, "--option", f"store.hot_keys={hot}"]
    assert dpi("predict", far, csv, *listed).ok().out == want
    dpi("predict", whole, csv, "--option", "store.host_bytes=4000", "--option", f"store.hot_keys={hot}").fails(1, "table 'users' is another one")


def forge(path, to, dataset):
    """A sound file but for the hash of one data set, which it states as zeros (FORMAT.md part 1)."""
    data = bytearray(path.read_bytes())
    with h5py.File(path) as f:
        offset = f[dataset].id.get_offset()
    size = int.from_bytes(data[16:24], "little")  # of the user block
    extents = [struct.unpack_from("<QQ", data, at) for at in range(768, size - 55, 56)]
    extents = [(o, n) for o, n in extents if o]
    at = 768 + 56 * [o for o, _ in extents].index(offset)
    data[at + 24 : at + 56] = bytes(32)
    data[40:48] = bytes(8)
    rest, end = xxhash.xxh3_64(bytes(data[:size])), size
    for o, n in extents:
        rest.update(bytes(data[end:o]))
        end = o + n
    rest.update(bytes(data[end:]))
    data[40:48] = rest.intdigest().to_bytes(8, "little")
    to.write_bytes(data)
    return to


def test_a_table_has_no_name_that_is_not_its_hash(dpi, rocksdb, tmp_path):
    forged = forge(MODEL, tmp_path / "forged.h5", "tables/job")
    dpi("inspect", forged).ok()  # its digests are right
    dpi("store", "load", forged, *rocksdb, "--table", "job").fails(4, "tables/job", "hash")
    dpi("store", "stat", forged, *rocksdb, "--table", "job").fails(4, "table 'job'", "dpi store load")  # never complete: nobody reads it
