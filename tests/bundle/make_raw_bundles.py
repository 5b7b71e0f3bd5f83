"""More malformed bundles, beside make_bad_bundles.py: written from nothing with h5py, numpy and xxhash, sharing no code with the
package. FOLDER/cases.json lists {file, status, text} as there.

    python3 tests/bundle/make_raw_bundles.py FOLDER

All digests are right unless the case is about digests: what is refused is refused for its own reason.
"""

import copy
import json
import os
import struct
import sys

import h5py
import numpy as np
import xxhash
from tree_hash import tree_hash

BAD, UNSUPPORTED = "DPI_E_BAD_MODEL", "DPI_E_UNSUPPORTED"
FOLDER = sys.argv[1]
EXPECTED = []
U = 2048

MANIFEST = {
    "format": "dpi-bundle", "version": [2, 0], "name": "bad",
    "features": [{"name": "c", "kind": "categorical", "vocab_size": 4,
                  "encoder": {"steps": [{"op": "vocab_int", "keys": "/encoders/c.keys", "first_id": 1}]}},
                 {"name": "x", "kind": "numeric"}],
    "tables": [{"name": "c", "rows": 4, "dim": 2, "dtype": "f32"}],
    "ops": [{"name": "c.in", "op": "Input", "attrs": {"feature": "c"}},
            {"name": "e", "op": "Embed", "in": ["c.in"], "attrs": {"table": "c"}},
            {"name": "y", "op": "Linear", "in": ["e"], "params": {"weight": "w"}}],
    "heads": [{"name": "h", "value": "y"}],
}


def sets():
    return {"/tables/c": np.arange(8, dtype="<f4").reshape(4, 2), "/params/w": np.ones((1, 2), "<f4"),
            "/encoders/c.keys": np.arange(3, dtype="<i8")}


def write(name, manifest=None, arrays=None, raw=None, extra=None, minor=0):
    """Writes FOLDER/name with a valid user block. `raw`: the manifest's bytes; `extra(file)`: more HDF5 content; `minor`: the block's version."""
    path = os.path.join(FOLDER, name)
    arrays = sets() if arrays is None else arrays
    text = raw if raw is not None else json.dumps(MANIFEST if manifest is None else manifest).encode()
    with h5py.File(path, "w", userblock_size=U, libver=("earliest", "v110")) as f:
        for key, value in arrays.items():
            f.create_dataset(key, data=value)
        if text:
            f.create_dataset("manifest", data=np.frombuffer(text, "u1"))
        if extra:
            extra(f)
        extents = []

        def visit(_, item):
            if isinstance(item, h5py.Dataset) and item.name != "/manifest" and item.id.get_storage_size():
                if item.id.get_offset() is not None:
                    extents.append((item.id.get_offset(), item.id.get_storage_size()))
        f.visititems(visit)
    seal(path, sorted(set(extents)), version=(2, minor))
    return path


def seal(path, extents, u=U, magic=b"DPIBNDL\0", version=(2, 0), digest=None, flags=0, n_signatures=0, signatures=b"", reserved=b""):
    with open(path, "r+b") as f:
        data = bytes(f.read())
        body = b"".join(struct.pack("<QQQ", o, n, xxhash.xxh3_64_intdigest(data[o:o + n])) + tree_hash(b"DPI 2 data", data[o:o + n])
                        for o, n in extents)
        rest, at = [], U
        for o, n in extents:
            rest.append(data[at:o])
            at = o + n
        rest = b"".join(rest + [data[at:]])
        hashed = tree_hash(b"DPI 2 metadata", rest)

        def block(value):
            head = struct.pack("<8sIIQQQQQQ32s32s", magic, *version, u, len(data), len(extents), value, flags, n_signatures, hashed,
                               reserved)
            return (head + signatures.ljust(640, b"\0") + body).ljust(U, b"\0")
        value = xxhash.xxh3_64_intdigest(block(0) + rest) if digest is None else digest
        assert len(block(value)) == U
        f.seek(0)
        f.write(block(value))


def expect(name, code, text):
    EXPECTED.append({"file": name, "status": code, "text": text})


def case(name, code, text, change=None, **keys):
    """One malformed bundle: `change(manifest)` edits a copy of MANIFEST."""
    manifest = copy.deepcopy(MANIFEST)
    if change:
        change(manifest)
    write(name + ".h5", manifest, **keys)
    expect(name + ".h5", code, text)


def feature(**keys):
    return lambda m: m["features"][0].update(keys)


def encoder(*steps):
    return feature(encoder={"steps": list(steps)})


def manifest_cases():
    write("sound.h5")
    expect("sound.h5", "DPI_OK", "")
    case("not_json", BAD, "/manifest: is not valid JSON", raw=b"{]")
    case("not_utf8", BAD, "/manifest: is not valid JSON", raw=b'{"a": "\xff"}')
    case("twice", BAD, "'name' is given twice", raw=b'{"name": "a", "name": "b"}')
    case("deep", BAD, "nested deeper", raw=b"[" * 5000 + b"]" * 5000)
    case("a_list", BAD, "expected an object", raw=b"[]")
    case("other_format", BAD, "'other'", lambda m: m.update(format="other"))
    case("major_3", UNSUPPORTED, "version 3", lambda m: m.update(version=[3, 0]))
    case("minor_differs", BAD, "the user block says 2.0", lambda m: m.update(version=[2, 7]))
    case("no_features", BAD, "features is missing", lambda m: m.pop("features"))
    case("no_heads", BAD, "heads", lambda m: m.update(heads=[]))
    case("ops_is_text", BAD, "ops", lambda m: m.update(ops="none"))
    case("kind", BAD, "feature 'c': kind is 'pairwise'", feature(kind="pairwise"))
    case("feature_key", UNSUPPORTED, "feature 'c': key 'shuffle' is not known", feature(shuffle=1))
    case("numeric_vocab", UNSUPPORTED, "feature 'x': key 'vocab_size'", lambda m: m["features"][1].update(vocab_size=3))
    case("feature_name", BAD, "c\\u202e", feature(name="c\u202e"))
    case("feature_twice", BAD, "'c'", lambda m: m["features"].append(copy.deepcopy(m["features"][0])))
    for value in (0, -1, 2**31 - 1, 2**63, 1.5, "4", None, True):
        case(f"vocab_{value}", BAD, "feature 'c': vocab_size is", feature(vocab_size=value))
    for name, value in (("true", True), ("text", "0"), ("beyond_float32", 3.5e38), ("below_float32", -1e300)):
        case(f"default_{name}", BAD, "feature 'x': default is", lambda m: m["features"][1].update(default=value))
    case("default_infinite", BAD, "is not valid JSON", lambda m: m["features"][1].update(default=float("inf")))
    case("no_vocab", BAD, "vocab_size is missing", lambda m: m["features"][0].pop("vocab_size"))
    case("oov_without_id", BAD, "oov_id is missing", feature(out_of_range="oov"))
    case("default_without_id", BAD, "default_id is missing", feature(missing="default"))
    case("oov_outside", BAD, "oov_id is 4", feature(out_of_range="oov", oov_id=4))
    case("pad_outside", BAD, "pad_id is -1", feature(pad_id=-1))
    case("rule", BAD, "out_of_range is 'wrap'", feature(out_of_range="wrap"))
    case("max_len", BAD, "max_len is 65537", feature(kind="sequence", max_len=65537))
    case("weighted", BAD, "weighted", feature(kind="sequence", weighted="yes"))
    case("step", UNSUPPORTED, "'sort'", encoder({"op": "sort"}))
    case("step_key", UNSUPPORTED, "'locale'", encoder({"op": "lower", "locale": "tr"}, {"op": "to_id"}))
    case("step_order", BAD, "(trim)", encoder({"op": "to_float"}, {"op": "trim"}))
    case("step_end", BAD, "feature 'c'", encoder({"op": "to_float"}))
    case("step_text_end", BAD, "feature 'c'", encoder({"op": "trim"}))
    case("hash_modulus", BAD, "modulus is 0", encoder({"op": "hash", "algorithm": "xxh64", "modulus": 0}))
    case("hash_name", UNSUPPORTED, "'md5'", encoder({"op": "hash", "algorithm": "md5", "modulus": 9}))
    case("buckets", BAD, "boundaries", encoder({"op": "to_float"}, {"op": "buckets", "boundaries": [2, 1]}))
    case("vocab_path", BAD, "keys", encoder({"op": "vocab_int", "keys": "/tables/c"}))
    case("vocab_gone", BAD, "/encoders/none", encoder({"op": "vocab_int", "keys": "/encoders/none"}))
    case("op_key", UNSUPPORTED, "'device'", lambda m: m["ops"][1].update(device="gpu"))
    case("op_twice", BAD, "'e'", lambda m: m["ops"].append(m["ops"][1]))
    case("op_in", BAD, "op 'e'", lambda m: m["ops"][1].update({"in": [3]}))
    case("op_params", BAD, "op 'y'", lambda m: m["ops"][2].update(params={"weight": 3}))
    case("head_key", UNSUPPORTED, "'scale'", lambda m: m["heads"][0].update(scale=2))
    case("head_twice", BAD, "'h'", lambda m: m["heads"].append(m["heads"][0]))
    case("head_no_value", BAD, "value is missing", lambda m: m["heads"][0].pop("value"))
    case("too_many_heads", BAD, "heads has 257", lambda m: m.update(heads=[{"name": f"h{i}", "value": "y"} for i in range(257)]))
    case("golden_rows", BAD, "rows is 65537", lambda m: m.update(golden={"rows": 65537}))
    case("golden_gone", BAD, "/golden/", lambda m: m.update(golden={"rows": 2}))
    bag = {"kind": "sequence", "encoder": {"steps": [{"op": "to_id"}], "splitter": "^", "missing_element": 0}}
    for name, text, change in (
            ("splitter_of_one", "for sequences", {"kind": "categorical"}), ("splitter_weighted", "weighted", {"weighted": True}),
            ("splitter_bare", "for sequences", {"encoder": {"steps": [], "splitter": "^"}}),
            ("missing_bare", "for sequences", {"encoder": {"steps": [], "missing_element": 1}}),
            ("missing_outside", "missing_element is 4", {"encoder": {**bag["encoder"], "missing_element": 4}}),
            ("splitter_number", "splitter", {"encoder": {**bag["encoder"], "splitter": 3}})):
        case(name, BAD, text, feature(**{**bag, **change}))
    case("encoder_key", UNSUPPORTED, "'joiner'", feature(**{**bag, "encoder": {**bag["encoder"], "joiner": "^"}}))
    for name, value in (("missing_fraction", 1.5), ("missing_true", True)):
        case(name, BAD, "missing_element", feature(**{**bag, "encoder": {**bag["encoder"], "missing_element": value}}))
    vocabulary_cases()
    raw_cases()


def vocabulary_cases():
    """Entries that no encoder can look up."""
    case("float_of_text", BAD, "(vocab_float)", encoder({"op": "vocab_float", "keys": "/encoders/c.keys"}))
    for name, value in (("nan", float("nan")), ("inf", float("inf")), ("minus_zero", -0.0), ("twice", 1.0)):
        keys = np.array([1.0, value, 3.0]).view("<i8")
        case(f"float_{name}", BAD, "feature 'c'", encoder({"op": "to_float"}, {"op": "vocab_float", "keys": "/encoders/c.keys"}),
             arrays={**sets(), "/encoders/c.keys": keys})
    case("keys_twice", BAD, "key 5 appears twice", arrays={**sets(), "/encoders/c.keys": np.array([5, 2, 5], "<i8")})
    text = encoder({"op": "vocab_string", "bytes": "/encoders/b", "offsets": "/encoders/o"})
    for name, about, offsets in (("twice", "'ab' appears twice", [0, 2, 3, 5]), ("falling", "decrease", [0, 4, 2, 5]),
                                 ("beyond", "do not span", [0, 2, 3, 6]), ("short", "do not span", [0, 2, 3, 4]),
                                 ("late", "do not span", [1, 2, 3, 5]), ("huge", "decrease", [0, 2**64 - 1, 3, 5]), ("none", "/encoders/o", [])):
        case(f"texts_{name}", BAD, about, text,
             arrays={**sets(), "/encoders/b": np.frombuffer(b"abcab", "u1"), "/encoders/o": np.array(offsets, "<u8")})


def raw_cases():
    """Raw cells of golden rows."""
    golden = {"/golden/value": np.zeros((2, 1), "<f4"), "/golden/ids": np.array([1, 2], "<i8"), "/golden/offsets": np.arange(3, dtype="<i8"),
              "/golden/dense": np.zeros((2, 1), "<f4"), "/golden/raw_cells": np.array([0, 1, 2], "<i8"),
              "/golden/raw_texts": np.array([0, 1, 3], "<i8"), "/golden/raw_bytes": np.frombuffer(b"abb", "u1")}

    def raw(name, text, keys=(), **arrays):
        case("raw_" + name, BAD, text, lambda m: m.update(golden={"rows": 2, "raw": ["c"], **dict(keys)}),
             arrays={k: v for k, v in {**sets(), **golden, **{f"/golden/raw_{n}": a for n, a in arrays.items()}}.items() if v is not None})

    raw("unknown", "'d' is no", {"raw": ["d"]})
    raw("twice", "'c' is named twice", {"raw": ["c", "c"]})
    raw("number", "raw holds", {"raw": [1]})
    raw("rows", "raw_rows is 3", {"raw_rows": 3})
    raw("few", "/golden/raw_cells", {"raw_rows": 1})
    raw("more", "/golden/raw_cells", {"raw": ["c", "x"]})
    raw("gone", "/golden/raw_bytes", bytes=None)
    raw("type", "/golden/raw_texts", texts=np.zeros(3, "<u8"))
    raw("falling", "/golden/raw_texts", texts=np.array([0, 4, 3], "<i8"))
    raw("late", "/golden/raw_texts", texts=np.array([1, 1, 3], "<i8"))
    raw("short", "/golden/raw_texts", texts=np.array([0, 1, 2], "<i8"))
    raw("no_texts", "/golden/raw_texts", texts=np.zeros(0, "<i8"))
    raw("cells_falling", "/golden/raw_cells", cells=np.array([0, 3, 2], "<i8"))
    raw("cells_beyond", "/golden/raw_cells", cells=np.array([0, 1, 3], "<i8"))


def table(**keys):
    return lambda m: m["tables"][0].update(keys)


def crossed(m):
    """One data set of bytes, cut in two ways."""
    step = {"op": "vocab_string", "bytes": "/encoders/b", "offsets": "/encoders/o1"}
    m["features"][0]["encoder"] = {"steps": [step]}
    m["features"].append({"name": "d", "kind": "categorical", "vocab_size": 4,
                          "encoder": {"steps": [{**step, "offsets": "/encoders/o2"}]}})


def row_type_cases():
    """Tables of i4, which have scales and offsets of their own types, and need format 2.2."""
    def i4(m):
        m["version"] = [2, 2]
        m["tables"][0].update(dtype="i4", scale="/tables/s", offset="/tables/o")

    parts = {"/tables/c": np.zeros((4, 1), "u1"), "/tables/s": np.zeros(4, "<u2"), "/tables/o": np.zeros(4, "<u2")}
    case("i4_minor", BAD, "table 'c': dtype i4 needs format 2.2, the file says 2.0", table(dtype="i4", scale="/tables/s", offset="/tables/o"),
         arrays={**sets(), **parts})
    case("i4_no_offset", BAD, "offset is missing", table(dtype="i4", scale="/tables/s"))
    case("i8_offset", UNSUPPORTED, "'offset'", table(dtype="i8", scale="/tables/s", offset="/tables/o"))
    case("i4_columns", BAD, "/tables/c: the manifest says 4 x 1 u8, the data set is 4 x 2 f32", i4, minor=2, arrays={**parts, **sets()})
    case("i4_scale", BAD, "/tables/s: the manifest says 4 u16, the data set is 4 f32", i4, minor=2,
         arrays={**sets(), **parts, "/tables/s": np.zeros(4, "<f4")})
    case("i4_offset", BAD, "/tables/o: the manifest says 4 u16, the data set is 3 u16", i4, minor=2,
         arrays={**sets(), **parts, "/tables/o": np.zeros(3, "<u2")})
    case("i4_twice", BAD, "/tables/s: table 'c' names it, and another table does too", lambda m: (i4(m), m["tables"][0].update(offset="/tables/s")),
         minor=2, arrays={**sets(), **parts})


def data_cases():
    case("table_dim", BAD, "/tables/c: the manifest says 4 x 3 f32, the data set is 4 x 2 f32", table(dim=3))
    case("table_rows", BAD, "/tables/c: the manifest says 5 x 2", table(rows=5))
    case("table_dtype", BAD, "/tables/c: the manifest says 4 x 2 i8", table(dtype="i8", scale="/tables/c.scale"))
    case("table_f64", BAD, "dtype is 'f64'", table(dtype="f64"))
    case("table_huge", BAD, "rows is", table(rows=2**40))
    case("table_wide", BAD, "dim is 65537", table(dim=65537))
    case("table_key", UNSUPPORTED, "'codec'", table(codec="zip"))
    case("table_twice", BAD, "table 'd' names it, and another table does too",
         lambda m: m["tables"].append({**m["tables"][0], "name": "d", "data": "/tables/c"}))
    case("vocab_crossed", BAD, "another feature reads one of them with other data", crossed, arrays={
        **sets(), "/encoders/b": np.zeros(2, "u1"), "/encoders/o1": np.array([0, 2], "<u8"), "/encoders/o2": np.array([0, 1, 2], "<u8")})
    case("table_gone", BAD, "/tables/d", table(data="/tables/d"))
    case("no_scale", BAD, "scale is missing", table(dtype="i8"))
    row_type_cases()
    case("param_gone", BAD, "/params/v", lambda m: m["ops"][2].update(params={"weight": "v"}))
    case("param_type", BAD, "/params/w", arrays={**sets(), "/params/w": np.ones((1, 2), "<i8")})
    case("keys_type", BAD, "/encoders/c.keys", arrays={**sets(), "/encoders/c.keys": np.arange(3, dtype="<f4")})
    case("ids_length", BAD, "/encoders/c.ids", encoder({"op": "vocab_int", "keys": "/encoders/c.keys", "ids": "/encoders/c.ids"}),
         arrays={**sets(), "/encoders/c.ids": np.arange(2, dtype="<i8")})


def replaced(make):
    """Everything but /tables/c, which `make(file)` creates."""
    arrays = sets()
    del arrays["/tables/c"]
    return {"arrays": arrays, "extra": make}


def profile_cases():
    values = np.arange(8, dtype="<f4").reshape(4, 2)
    at = "/tables/c: "
    case("chunked", BAD, at, **replaced(lambda f: f.create_dataset("tables/c", data=values, chunks=(2, 2))))
    case("gzip", BAD, at, **replaced(lambda f: f.create_dataset("tables/c", data=values, compression="gzip")))
    case("extendible", BAD, at, **replaced(lambda f: f.create_dataset("tables/c", data=values, maxshape=(None, 2))))
    case("big_endian", BAD, at, **replaced(lambda f: f.create_dataset("tables/c", data=values.astype(">f4"))))
    case("f64", BAD, at, **replaced(lambda f: f.create_dataset("tables/c", data=values.astype("<f8"))))
    case("i32", BAD, at, **replaced(lambda f: f.create_dataset("tables/c", data=values.astype("<i4"))))
    case("strings", BAD, at, **replaced(lambda f: f.create_dataset("tables/c", data=["a", "bc"])))
    case("compound", BAD, at, **replaced(lambda f: f.create_dataset("tables/c", data=np.zeros(4, "<f4,<i4"))))
    case("scalar", BAD, at, **replaced(lambda f: f.create_dataset("tables/c", data=np.float32(1))))
    case("never_written", BAD, at, **replaced(lambda f: f.create_dataset("tables/c", (4, 2), "<f4")))
    case("external_file", BAD, at, **replaced(
        lambda f: f.create_dataset("tables/c", (4, 2), "<f4", external=[("/etc/passwd", 0, 32)])))
    case("soft_link", BAD, "/tables/c: ", **replaced(lambda f: f.__setitem__("tables/c", h5py.SoftLink("/params/w"))))
    case("external_link", BAD, "/tables: ", **replaced(
        lambda f: f.__setitem__("tables/c", h5py.ExternalLink("/etc/passwd", "/x"))))
    case("hard_link", BAD, "/tables/", extra=lambda f: f.__setitem__("tables/again", f["tables/c"]))
    case("cycle", BAD, "/tables/", extra=lambda f: f.__setitem__("tables/loop", f["/"]))
    case("nested_group", BAD, "/tables/", extra=lambda f: f.create_group("tables/g"))
    case("other_root", BAD, "/extra", extra=lambda f: f.create_dataset("extra", data=values))
    case("bad_name", BAD, "/tables/a b: ", extra=lambda f: f.create_dataset("tables/a b", data=values))
    case("no_manifest", BAD, "/manifest", raw=b"")
    case("manifest_f4", BAD, "/manifest", raw=b"", extra=lambda f: f.create_dataset("manifest", data=values[0]))

    def virtual(f):
        layout = h5py.VirtualLayout((4, 2), "<f4")
        layout[:, :] = h5py.VirtualSource("/etc/passwd", "x", (4, 2))
        f.create_virtual_dataset("tables/c", layout)
    case("virtual", BAD, at, **replaced(virtual))


def block_cases():
    good = open(write("block.h5"), "rb").read()
    os.remove(os.path.join(FOLDER, "block.h5"))
    n = struct.unpack_from("<Q", good, 32)[0]
    extents = [struct.unpack_from("<QQ", good, 768 + 56 * i) for i in range(n)]

    def block(name, code, text, data=good, ext=None, **keys):
        path = os.path.join(FOLDER, name + ".h5")
        with open(path, "wb") as f:
            f.write(data)
        if keys or ext is not None:
            seal(path, extents if ext is None else ext, **keys)
        expect(name + ".h5", code, text)
    block("magic", BAD, "is not a bundle", magic=b"DPIBNDX\0")
    block("plain_hdf5", BAD, "HDF5", data=good[U:] + bytes(600))
    block("format_3", UNSUPPORTED, "format 3.0, this reader knows 2.x", version=(3, 0))
    block("format_1", UNSUPPORTED, "repack OLD NEW", version=(1, 0))
    block("signatures_9", BAD, "9 signatures", n_signatures=9)
    block("signature_not_counted", BAD, "does not count", signatures=b"\0" * 79 + b"x")
    block("block_reserved", BAD, "reserved byte 96 of the user block is 120", reserved=b"x")
    block("digest", BAD, "digest", digest=1)
    block("flags", BAD, "flags", flags=4)
    block("block_size", BAD, "user block", u=768)
    block("extent_unused", BAD, "extent", ext=sorted(extents + [(len(good) - 1, 1)]))
    block("extent_missing", BAD, "is not an extent", ext=extents[1:])
    block("truncated", BAD, "truncated", data=good[:-100])


def main():
    os.makedirs(FOLDER, exist_ok=True)
    manifest_cases()
    data_cases()
    profile_cases()
    block_cases()
    with open(os.path.join(FOLDER, "cases.json"), "w", encoding="utf-8") as f:
        json.dump(EXPECTED, f, indent=1)


if __name__ == "__main__":
    main()
