"""A second reader of record files, made from the words of weights/RECORD.md alone, and endpoints that are driven through the C API by
ctypes: the requests that they were given are what a file must hold."""

import ctypes
import json
import os
import pathlib
import struct

import numpy as np
import pytest
import xxhash

from conftest import PROGRAM, Builder, encoders

LIBRARY = pathlib.Path(os.environ.get("DPI_LIBRARY", pathlib.Path(PROGRAM).parent.parent / "lib" / "libdpi.so.1"))


# ---- a second reader

class Broken(Exception):
    pass


def digest(data, seed=0):
    return xxhash.xxh3_64(data, seed=seed).intdigest()


def padded(n):
    return -(-n // 8) * 8


def take(data, at, kind, n):
    dtype = np.dtype(kind)
    size = padded(n * dtype.itemsize)
    assert at + size <= len(data)
    assert not any(data[at + n * dtype.itemsize:at + size]), "padding is zeros"
    return np.frombuffer(data, dtype, n, at).copy(), at + size


def read_request(p):
    keys = ("bundle", "flags", "ended_ms", "took_ns", "rows", "nnz", "users", "users_nnz", "slots", "columns", "users_slots", "users_columns",
            "heads", "zero")
    r = dict(zip(keys, struct.unpack_from("<IIqQqqqqIIIIII", p)))
    assert r["zero"] == 0 and r["flags"] < 64
    at = 80
    for part, rows, nnz, slots, columns, bags, weights in (("item", r["rows"], r["nnz"], r["slots"], r["columns"], 4, 8),
                                                          ("user", r["users"], r["users_nnz"], r["users_slots"], r["users_columns"], 16, 32)):
        r[part + "_ids"], at = take(p, at, "<i8", nnz)
        if r["flags"] & bags:
            r[part + "_offsets"], at = take(p, at, "<i8", rows * slots + 1)
        if r["flags"] & weights:
            r[part + "_weights"], at = take(p, at, "<f4", nnz)
        dense, at = take(p, at, "<f4", rows * columns)
        r[part + "_dense"] = dense.reshape(rows, columns)
    if r["flags"] & 1:
        r["shared_offsets"], at = take(p, at, "<i8", r["users"] + 1)
    scores, at = take(p, at, "<f4", r["rows"] * r["heads"])
    r["scores"] = scores.reshape(r["rows"], r["heads"])
    assert at == len(p)
    return r


def read_bundle(p):
    number, schema_digest, s, i = struct.unpack_from("<QQII", p, 32)
    assert len(p) == padded(56 + s + i)
    schema = p[56:56 + s]
    assert digest(schema) == schema_digest
    return {"bundle": p[:32].hex(), "version": number, "schema": json.loads(schema), "text": schema, "info": json.loads(p[56 + s:56 + s + i])}


def read_file(data):
    """-> bundles, requests, end (None without), bytes that are whole."""
    if len(data) < 40 or data[:8] != b"DPIRECD\0":
        raise Broken("head")
    version, zero, _, number, stated = struct.unpack_from("<IIqQQ", data, 8)
    assert (version, zero) == (1, 0) and number >= 1 and stated == digest(data[:32])
    bundles, requests, end, at = [], [], None, 40
    while at + 32 <= len(data):
        kind, zero, n, of_payload, of_head = struct.unpack_from("<IIQQQ", data, at)
        if of_head != digest(data[at:at + 24], seed=at) or zero or kind not in (1, 2, 3) or n % 8 or n > 16 << 20:
            raise Broken(f"frame at {at}")
        if at + 32 + n > len(data):
            break
        payload = data[at + 32:at + 32 + n]
        if digest(payload) != of_payload:
            raise Broken(f"payload at {at}")
        if kind == 1:
            bundles.append(read_bundle(payload))
        elif kind == 2:
            requests.append({**read_request(payload), "at": at})
            assert requests[-1]["bundle"] < len(bundles)
        else:
            end = struct.unpack("<QQ", payload)
            assert end[0] == len(requests)
        at += 32 + n
        if end is not None:
            assert at == len(data)
            break
    return bundles, requests, end, at


# ---- endpoints by the C API

class Error(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("code", ctypes.c_int32), ("row", ctypes.c_int64), ("feature", ctypes.c_int64),
                ("native_code", ctypes.c_int32), ("in_shared", ctypes.c_uint32), ("message", ctypes.c_char * 480)]


class Batch(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("flags", ctypes.c_uint32), ("rows", ctypes.c_int64), ("dense", ctypes.c_void_p),
                ("dense_stride", ctypes.c_int64), ("ids", ctypes.c_void_p), ("offsets", ctypes.c_void_p), ("weights", ctypes.c_void_p),
                ("nnz", ctypes.c_int64), ("layout", ctypes.c_int32), ("memory", ctypes.c_int32), ("shared_rows", ctypes.c_int64),
                ("shared_offsets", ctypes.c_void_p), ("shared_dense", ctypes.c_void_p), ("shared_dense_stride", ctypes.c_int64),
                ("shared_ids", ctypes.c_void_p), ("shared_bag_offsets", ctypes.c_void_p), ("shared_weights", ctypes.c_void_p),
                ("shared_nnz", ctypes.c_int64)]


def pointer(a):
    return None if a is None else a.ctypes.data


class Endpoint:
    def __init__(self, name="recorded", **settings):
        self.lib = ctypes.CDLL(str(LIBRARY))
        self.error = Error(ctypes.sizeof(Error))
        self.handle = ctypes.c_void_p()
        self.lib.dpi_endpoint_status_json.restype = ctypes.c_size_t
        self.call("dpi_endpoint_create", name.encode(), None, ctypes.byref(self.handle))
        for key, value in settings.items():
            self.set("record." + key, value)

    def call(self, function, *args):
        code = getattr(self.lib, function)(*args, ctypes.byref(self.error))
        if code != 0:
            raise RuntimeError(f"{code}: {self.error.message.decode()}")

    def set(self, key, value):
        self.call("dpi_endpoint_set", self.handle, key.encode(), str(value).encode())

    def load(self, path, number=0):
        self.call("dpi_endpoint_load", self.handle, str(path).encode(), ctypes.c_uint64(number))

    def predict(self, request, heads):
        """request: as the second reader gives one."""
        b = Batch(ctypes.sizeof(Batch))
        b.rows, b.nnz, b.layout = request["rows"], len(request["item_ids"]), 1 if request["flags"] & 2 else 0
        b.ids, b.offsets, b.weights = (pointer(request.get("item_" + k)) for k in ("ids", "offsets", "weights"))
        b.dense = pointer(request.get("item_dense"))
        b.dense_stride = request.get("stride", 0)
        if request["flags"] & 1:
            b.shared_rows, b.shared_nnz = request["users"], len(request["user_ids"])
            b.shared_ids, b.shared_bag_offsets, b.shared_weights = (pointer(request.get("user_" + k)) for k in ("ids", "offsets", "weights"))
            b.shared_dense, b.shared_offsets = pointer(request.get("user_dense")), pointer(request["shared_offsets"])
        out = np.full((request["rows"], heads), np.nan, np.float32)
        self.call("dpi_endpoint_predict", self.handle, ctypes.byref(b), ctypes.c_void_p(pointer(out)), ctypes.c_size_t(out.size), None)
        return out

    def status(self):
        text = ctypes.create_string_buffer(1 << 16)
        assert self.lib.dpi_endpoint_status_json(self.handle, text, ctypes.c_size_t(len(text))) <= len(text)
        return json.loads(text.value)

    def close(self):
        if self.handle:
            self.lib.dpi_endpoint_free(self.handle)
            self.handle = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def model(path, seed=3, vocabulary=("cook", "clerk"), scale=1.0):
    """Item: a category, a weighted bag, a vector; user: a bag and a number. Two heads."""
    rng = np.random.default_rng(seed)
    b = Builder("recorded")
    b.categorical("job", vocab_size=5, out_of_range="oov", oov_id=3, missing="pad", encoder=[encoders.vocab_string(list(vocabulary), first_id=1)])
    b.sequence("tags", vocab_size=6, weighted=True, missing="pad", out_of_range="default", default_id=2)
    b.sequence("seen", vocab_size=9, max_len=3, missing="pad", out_of_range="default", default_id=2, space="shared")
    b.numeric("age", missing="default", default=1.5, space="shared")
    b.dense("vec", dim=2)
    parts = [b.embed(b.input("job"), b.table("job", rng.normal(size=(5, 3)).astype("f4"))),
             b.embed(b.input("tags"), b.table("tags", rng.normal(size=(6, 2)).astype("f4")), pooling="sum"),
             b.embed(b.input("seen"), b.table("seen", rng.normal(size=(9, 2)).astype("f4")), pooling="mean"), b.input("age"), b.input("vec")]
    logit = b.linear(b.concat(parts), (scale * rng.normal(size=(1, 10))).astype("f4"), np.zeros(1, "f4"))
    b.head("click", b.sigmoid(logit), logit=logit)
    b.head("raw", logit, activation="none")
    b.write(path)
    return path


def bags(rng, n, vocab):
    lengths = rng.integers(0, 4, n)
    return rng.integers(0, vocab + 2, lengths.sum()), np.concatenate([[0], np.cumsum(lengths)])


def draw(rng, shared=None):
    """A request of the model, in one of the forms that a caller may choose."""
    shared = bool(rng.integers(2)) if shared is None else shared
    rows, users = int(rng.integers(1, 9)), 0
    r = {"flags": int(shared) | 2 * int(rng.integers(2)), "rows": rows}
    slots = 2 if shared else 3
    r["item_ids"], r["item_offsets"] = bags(rng, rows * slots, 5)
    lengths, bag = np.diff(r["item_offsets"]), np.arange(rows * slots)
    job = bag < rows if r["flags"] & 2 else bag % slots == 0
    lengths[job] = np.minimum(lengths[job], 1)  # a category takes one id at most
    r["item_offsets"] = np.concatenate([[0], np.cumsum(lengths)])
    r["item_ids"] = rng.integers(0, 8, r["item_offsets"][-1])
    if shared:
        users = int(rng.integers(1, 4))
        r["user_ids"], r["user_offsets"] = bags(rng, users, 9)
        r["user_dense"] = rng.normal(size=(users, 1)).astype("f4")
        cuts = np.sort(rng.integers(0, rows + 1, users - 1))
        r["shared_offsets"] = np.concatenate([[0], cuts, [rows]]).astype("i8")
    r["users"] = users
    columns = 2 if shared else 3
    wide = rng.normal(size=(rows, columns + 3)).astype("f4")
    wide[rng.random(wide.shape) < 0.1] = 7
    r["stride"], r["wide"], r["item_dense"] = columns + 3, wide, np.ascontiguousarray(wide[:, :columns])
    return r


def ask(endpoint, request):
    return endpoint.predict({**request, "item_dense": request["wide"]}, 2)


def same(recorded, given, scores):
    for key in ("flags", "rows", "users", "item_ids", "item_offsets", "item_dense", "user_ids", "user_offsets", "user_dense", "shared_offsets"):
        want = given.get(key)
        if key == "flags":
            want = given["flags"] | 4 | (16 if given["flags"] & 1 else 0)
        if want is not None:
            np.testing.assert_array_equal(recorded[key], want, err_msg=key)
    assert recorded["scores"].tobytes() == scores.tobytes()


def record(tmp_path, bundle, n=40, seed=1, **settings):
    """A file of n requests that an endpoint of the bundle was asked, and those requests with their scores."""
    path = tmp_path / "requests.rec"
    rng = np.random.default_rng(seed)
    asked = []
    with Endpoint(**{"share": 1, "bytes_per_second": 0, "path": path, **settings}) as e:
        e.load(bundle, 7)
        for _ in range(n):
            asked.append(draw(rng))
            asked[-1]["scores"] = ask(e, asked[-1])
    return path, asked


def flat(endpoint, request, function="dpi_endpoint_predict_flat", handle=None, tail=(None,)):
    """The call without structs, of a request without a shared part."""
    ids, offsets, dense = request["item_ids"].astype("i8"), request["item_offsets"].astype("i8"), request["item_dense"]
    out = np.full((request["rows"], 2), np.nan, np.float32)
    size, i64, p = ctypes.c_size_t, ctypes.c_int64, ctypes.c_void_p
    keep = (ids, offsets, dense, out)
    endpoint.call(function, handle or endpoint.handle, i64(request["rows"]), p(pointer(dense)), size(dense.size), i64(0), p(pointer(ids)), size(ids.size),
                  p(pointer(offsets)), size(offsets.size), None, size(0), ctypes.c_int32(1 if request["flags"] & 2 else 0), p(pointer(out)),
                  size(out.size), ctypes.c_uint64(0), None, *tail)
    return keep


class Completion(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("status", ctypes.c_int32), ("user", ctypes.c_uint64), ("ticket", ctypes.c_uint64),
                ("version", ctypes.c_uint64), ("queued_ns", ctypes.c_uint64), ("run_ns", ctypes.c_uint64), ("error", Error)]


def made(factory):
    if not LIBRARY.exists():
        pytest.skip(f"{LIBRARY} is not built")
    return model(factory.mktemp("record") / "model.h5")
