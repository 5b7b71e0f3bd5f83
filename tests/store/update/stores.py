"""Tables in RocksDB and Redis as tests of `dpi store` need them: the program, models and their deltas, and a second reader of what Redis has."""

import contextlib
import json
import pathlib
import socket
import struct
import subprocess
import sys

import h5py
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "weights/python"), str(ROOT / "weights/python/tests"), str(ROOT / "tests/e2e"), str(ROOT / "tests/bundle")]

import delta_models  # noqa: E402
from tree_hash import tree_hash  # noqa: E402
from dpi_export.delta import delta as make_delta  # noqa: E402


class Program:
    def __init__(self, path):
        self.path = str(path)

    def run(self, *words, expect=0):
        done = subprocess.run([self.path, *map(str, words)], capture_output=True, text=True)
        if expect is not None and done.returncode != expect:
            raise AssertionError(f"{words}: exit {done.returncode}, expected {expect}\n{done.stdout}{done.stderr}")
        return done

    def json(self, *words):
        return json.loads(self.run(*words, "--json").stdout)


def chain(folder, seed, steps, grow=1):
    """Bundles v0.h5 ... of random models, each version's delta, grown to `grow` times the rows."""
    m = enlarge(delta_models.first(seed), grow, seed)
    bundles, deltas = [delta_models.write(m, folder / "v0.h5", golden=False)], []
    for i in range(steps):
        m = delta_models.later(m, seed * 1000 + i + 1)
        bundles.append(delta_models.write(m, folder / f"v{i + 1}.h5", golden=False))
        deltas.append(folder / f"v{i + 1}.delta")
        make_delta(bundles[i], bundles[i + 1], deltas[-1])
    return bundles, deltas


def enlarge(m, grow, seed):
    if grow == 1:
        return m
    rng = np.random.default_rng(seed)
    m["rows"] = {name: rng.normal(size=(len(rows) * grow, rows.shape[1])).astype("f4") for name, rows in m["rows"].items()}
    for name, keys in m["keys"].items():
        m["keys"][name] = np.unique(rng.integers(-2**63, 2**63 - 1, len(keys) * grow, dtype=np.int64))
    for table, (of, rows) in m["keyed"].items():
        m["keyed"][table] = (of, rng.normal(size=(len(m["keys"][of]) + 1, rows.shape[1])).astype("f4"))
    return m


def rows_of(path):
    """{table: {key: bytes of its row as stores have it}}, by h5py alone."""
    tables = {}
    with h5py.File(path, "r") as f:
        manifest = json.loads(f["manifest"][()].tobytes())
        sets = {s["name"]: s for s in manifest.get("key_sets", [])}
        for t in manifest["tables"]:
            data = f[t.get("data", "/tables/" + t["name"])][()]
            scale = f[t["scale"]][()] if t["dtype"] == "i8" else None
            behind = [f[t[part]][()] for part in ("scale", "offset") if part in t and t["dtype"] != "i8"]
            keys = f[sets[t["keys"]]["data"]][()] if "keys" in t else np.arange(len(data))
            rows = {}
            for i, key in enumerate(keys):
                row = data[i].tobytes() + b"".join(part[i].tobytes() for part in behind)
                if scale is not None:
                    row += b"\0" * (-len(row) % 4) + struct.pack("<f", scale[i])
                rows[int(key)] = row
            tables[t["name"]] = rows
    return tables


def contents_of(path):
    """{table: its content}, by FORMAT.md part 6."""
    with h5py.File(path, "r") as f:
        manifest = json.loads(f["manifest"][()].tobytes())
        keys = {s["name"]: s["data"] for s in manifest.get("key_sets", [])}
        out = {}
        for t in manifest["tables"]:
            paths = [t.get("data", "/tables/" + t["name"]), t.get("scale"), t.get("offset"), keys.get(t.get("keys"))]
            parts = [tree_hash(b"DPI 2 data", f[p][()].tobytes()) for p in paths if p]
            out[t["name"]] = (parts[0] if len(parts) == 1 else tree_hash(b"DPI 2 data", b"".join(parts))).hex()
    return out


class Redis:
    """Commands to one server, by a socket."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), 30)
        self.file = self.socket.makefile("rb")

    def ask(self, *words):
        parts = [w if isinstance(w, bytes) else str(w).encode() for w in words]
        self.socket.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts))
        return self.answer()

    def answer(self):
        line = self.file.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise AssertionError(rest.decode())
        if kind == b"*":
            return [self.answer() for _ in range(int(rest))]
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2]
        return int(rest) if kind == b":" else rest

    def hash(self, key):
        flat = self.ask("HGETALL", key)
        return dict(zip(flat[::2], flat[1::2]))

    def close(self):
        with contextlib.suppress(OSError):
            self.socket.close()


def dump(redis):
    """What lies in Redis, from the names and forms of sdk/src/store/redis/table.hpp: {(table, content now): {key: row}}."""
    tables = {}
    for name in redis.ask("KEYS", "dpi1:*:table}"):
        record = redis.hash(name)
        if b"at" in record:
            continue
        assert record[b"complete"] == b"1" and record.get(b"next", b"") == b"", record
        width, rows = int(record[b"row_bytes"]), {}
        gone_bytes = 9 if width == 8 else 8
        for p in range(int(record[b"partitions"])):
            part = redis.hash(name[:-len(b"table}")] + b"p%d}" % p)
            assert part.pop(b"sealed") == b"dpi1 " + record[b"partitions"]
            said = part.pop(b"update", b"0 0 0").split()
            assert int(said[1]) == int(record.get(b"sequence", 0)), (said, record)
            gone = [k for k, v in part.items() if len(v) == gone_bytes]
            assert len(gone) == int(said[2]), "tombstones are counted"
            for k, v in part.items():
                if len(v) == gone_bytes:
                    continue
                assert len(v) in (width, width + 8), len(v)
                assert len(v) == width or 1 <= struct.unpack("<q", v[width:])[0] <= int(record[b"sequence"])
                rows[struct.unpack("<q", k)[0]] = v[:width]
        tables[record[b"name"].decode(), record.get(b"now", record[b"content"]).decode()] = rows
    return tables
