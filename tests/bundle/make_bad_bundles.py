"""Writes malformed bundles and what a reader must say about each. Usage: python3 make_bad_bundles.py FOLDER

FOLDER/cases.json lists {file, status, text}: `status` is the name of the DPI_E_* code, `text` must occur in the error (any
letter case; empty where a reader may find the fault before it knows the data set's name). Where the fault is deeper than the
digests, these are computed again, as a hostile author would. The first two entries, good.h5 and newer_minor.h5, must load
(status DPI_OK)."""

import json
import os
import pathlib
import struct
import sys

import h5py
import numpy as np
import xxhash

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "weights" / "python"))
from dpi_export import Builder, Bundle, Rows, encoders  # noqa: E402
from dpi_export.bundle import digest  # noqa: E402
from dpi_export.bundle.content_hash import DATA, METADATA, TreeHash  # noqa: E402

BAD, UNSUPPORTED = "DPI_E_BAD_MODEL", "DPI_E_UNSUPPORTED"


def good(path):
    """A small model with every kind of feature."""
    rng = np.random.default_rng(1)
    b = Builder("good")
    b.categorical("item", 20, out_of_range="oov", oov_id=19, encoder=[encoders.vocab_string(["a", "bc", "def"])])
    b.sequence("history", 20, max_len=4, missing="pad")
    b.numeric("age", missing="default", default=0.5)
    b.table("item", rng.normal(size=(20, 4)), dtype="i8")
    b.table("wide", rng.normal(size=(20, 1)))
    x = b.concat([b.embed(b.input("item"), "item"), b.embed(b.input("history"), "item", "mean"), b.input("age")], name="x")
    h = b.relu(b.linear(x, rng.normal(size=(8, 9)), rng.normal(size=8), name="hidden"))
    wide = b.embed(b.input("item"), "wide", name="lookup")
    logit = b.add(b.linear(h, rng.normal(size=(1, 8)), name="out"), wide, name="logit")
    b.head("ctr", b.sigmoid(logit), logit=logit)
    b.golden(Rows.from_columns(b, {"item": [1, 2, 50], "history": [[], [1, 2], [3, 3, 3, 3]], "age": [0.5, None, -1.0]}))
    b.write(path)


def good_keys(path):
    """Keys in two sets, an embedding and its linear weight in one of them."""
    rng = np.random.default_rng(2)
    b = Builder("keys")
    b.categorical("user", keys="user", missing="pad", pad_id=0, encoder=[encoders.hash_xxh64()])
    b.sequence("seen", keys="item", max_len=4, missing="pad")
    b.keyed_table("user", [-2**63, -5, 0, 7, 2**63 - 1, 12], rng.normal(size=(6, 3)), default=[1, 2, 3], dtype="i8")
    b.keyed_table("weight", [-2**63, -5, 0, 7, 2**63 - 1, 12], rng.normal(size=(6, 1)), key_set="user")
    b.keyed_table("item", [1, 2, 3], rng.normal(size=(3, 2)))
    x = b.concat([b.embed(b.input("user"), "user", name="lookup"), b.embed(b.input("user"), "weight"), b.embed(b.input("seen"), "item", "sum")])
    logit = b.linear(x, rng.normal(size=(1, 6)), name="out")
    b.head("ctr", b.sigmoid(logit), logit=logit)
    b.golden(Rows.from_columns(b, {"user": [7, 0, 99], "seen": [[], [1, 5], [3, 3, 2, 1, 1]]}))
    b.write(path)


class Image:
    """A bundle's bytes with the places a fault needs."""

    def __init__(self, path):
        self.bytes = bytearray(pathlib.Path(path).read_bytes())
        with Bundle(path) as bundle:
            self.u, self.extents, self.sets = bundle.u, list(bundle.extents), bundle.data_sets
            self.manifest = bundle.manifest

    def head(self, offset, fmt, value):
        """Overwrites a field of the user block."""
        struct.pack_into(fmt, self.bytes, offset, value)

    def sealed(self, extents=None, minor=0, major=2):
        """The bytes with all digests and hashes computed again."""
        extents = self.extents if extents is None else extents
        extents = [(o, n, xxhash.xxh3_64_intdigest(bytes(self.bytes[o:o + n])), tree_hash(DATA, self.bytes[o:o + n]))
                   for o, n, *_ in extents]
        self.bytes[:self.u] = _block(self, extents, (major, minor))
        return bytes(self.bytes)


def tree_hash(domain, data):
    state = TreeHash(domain)
    state.update(bytes(data))
    return state.digest()


def _block(image, extents, version=(2, 0)):
    """The user block for these extents, its digest of the other bytes right."""
    rest, at = b"", image.u
    for offset, size, *_ in sorted(extents):
        rest += bytes(image.bytes[at:max(at, offset)])
        at = offset + size
    rest += bytes(image.bytes[at:])
    parts = (image.u, len(image.bytes), extents)
    hashed = tree_hash(METADATA, rest)
    value = xxhash.xxh3_64_intdigest(digest.pack(*parts, 0, hashed, version=version) + rest)
    return digest.pack(*parts, value, hashed, version=version)


def rebuild(source, change, minor=0):
    """Copies a bundle data set by data set into a fresh HDF5 file, lets `change(h5py.File, manifest)` spoil it (it may return
    another manifest text), and seals it with whatever extents the result has."""
    path = str(source) + ".work"
    with Bundle(source) as bundle:
        arrays, manifest = {p: bundle.array(p) for p in bundle.data_sets if p != "/manifest"}, json.loads(json.dumps(bundle.manifest))
    with h5py.File(path, "w", userblock_size=2048, libver="earliest") as f:
        for where, array in arrays.items():
            f.create_dataset(where, data=array)
        text = change(f, manifest)
        if "manifest" not in f and text is not False:
            text = text if isinstance(text, bytes) else json.dumps(manifest).encode()
            f.create_dataset("/manifest", data=np.frombuffer(text, "u1"))
    extents = []
    with h5py.File(path, "r") as f:
        def visit(name, item):
            if isinstance(item, h5py.Dataset) and name != "manifest" and item.id.get_offset() is not None and item.size:
                extents.append((item.id.get_offset(), item.size * item.dtype.itemsize))
        f.visititems(visit)
    image = object.__new__(Image)
    image.bytes, image.u, image.extents = bytearray(pathlib.Path(path).read_bytes()), 2048, sorted(set(extents))
    os.remove(path)
    return image.sealed(minor=minor)


def block_faults(path):
    """Faults of the user block and of bytes: caught before anything of HDF5 is read."""
    def image(edit=None, cut=None):
        i = Image(path)
        if edit:
            edit(i)
        return bytes(i.bytes[:cut])

    def flip(at):
        def edit(i):
            i.bytes[at(i)] ^= 0x10
        return edit

    u = Image(path).u
    table = Image(path).sets["/tables/item"]["offset"]
    yield "empty", b"", BAD, ""
    yield "magic_only", image(cut=8), BAD, ""
    yield "not_hdf5", b"this is not a bundle\n" * 100, BAD, "bundle"
    yield "truncated_block", image(cut=300), BAD, ""
    yield "truncated_half", image(cut=len(Image(path).bytes) // 2), BAD, "truncated"
    yield "truncated_byte", image(cut=-1), BAD, "truncated"
    yield "too_long", image() + b"\0", BAD, ""
    yield "flipped_metadata", image(flip(lambda i: i.u + 30)), BAD, "digest"
    yield "flipped_manifest", image(flip(lambda i: i.sets["/manifest"]["offset"] + 40)), BAD, "digest"
    yield "flipped_table", image(flip(lambda i: table)), BAD, "/tables/item"
    yield "flipped_param", image(flip(lambda i: i.sets["/params/hidden.weight"]["offset"] + 3)), BAD, "/params/hidden.weight"
    yield "wrong_digest", image(lambda i: i.head(40, "<Q", 12345)), BAD, "digest"
    yield "wrong_extent_digest", _extent_digest(path), BAD, "digest"
    yield "block_not_power_of_two", image(lambda i: i.head(16, "<Q", u + 8)), BAD, "user block"
    yield "block_beyond_file", image(lambda i: i.head(16, "<Q", 1 << 40)), BAD, "user block"
    yield "extent_count_huge", image(lambda i: i.head(32, "<Q", (1 << 60) + 1)), BAD, ""
    yield "extent_offset_wraps", image(lambda i: i.head(768, "<Q", 2**64 - 8)), BAD, "extent"
    yield "extents_swapped", Image(path).sealed(extents=Image(path).extents[::-1]), BAD, "extent"
    yield "unknown_flags", image(lambda i: i.head(48, "<Q", 6)), BAD, "flags"
    yield "signature_of_zeros", image(lambda i: i.head(56, "<Q", 1)), BAD, "is not there"
    yield "signature_uncovered", image(lambda i: (i.head(56, "<Q", 1), i.head(128, "<Q", 1))), BAD, "digest"
    yield "wrong_extent_hash", _extent_digest(path, 3), BAD, "hash"
    yield "major_3", Image(path).sealed(major=3), UNSUPPORTED, "3.0"
    yield "format_1", Image(path).sealed(major=1), UNSUPPORTED, "repack OLD NEW"


def _extent_digest(path, field=2):
    """Everything valid except one extent's own digest (field 2) or hash (3)."""
    image = Image(path)
    extents = [list(e) for e in image.extents]
    extents[0][field] = extents[0][2] ^ 1 if field == 2 else bytes(32)
    return _block(image, extents) + bytes(image.bytes[image.u:])


def profile_faults(path):
    """HDF5 content outside the profile, with valid digests."""
    def again(name, **keys):
        def change(f, _):
            array = f[name][()]
            del f[name]
            f.create_dataset(name, data=array, **keys)
        return change

    def soft(f, _):
        del f["/tables/wide"]
        f["/tables/wide"] = h5py.SoftLink("/tables/item")

    def external(f, _):
        del f["/tables/wide"]
        f["/tables/wide"] = h5py.ExternalLink("other.h5", "/tables/wide")

    def vlen(f, _):
        f.create_dataset("/tables/names", data=["a", "b"], dtype=h5py.string_dtype())

    def compound(f, _):
        f.create_dataset("/params/c", data=np.zeros(3, dtype=[("a", "<f4"), ("b", "<i4")]))

    def big_endian(f, _):
        array = f["/params/hidden.weight"][()]
        del f["/params/hidden.weight"]
        f.create_dataset("/params/hidden.weight", data=array.astype(">f4"), dtype=">f4")

    def external_storage(f, _):
        del f["/params/hidden.weight"]
        f.create_dataset("/params/hidden.weight", (8, 9), "<f4", external=[("/etc/hostname", 0, 288)])

    def hard_link(f, _):
        f["/tables/twice"] = f["/tables/wide"]

    yield "chunked", rebuild(path, again("/tables/item", chunks=(4, 4))), BAD, "/tables/item"
    yield "extendible", rebuild(path, again("/tables/item", maxshape=(None, 4), chunks=(4, 4))), BAD, "/tables/item"
    yield "compressed", rebuild(path, again("/params/hidden.weight", compression="gzip")), BAD, ""
    yield "checksummed", rebuild(path, again("/params/hidden.weight", fletcher32=True)), BAD, ""
    yield "vlen", rebuild(path, vlen), BAD, "/tables/names"
    yield "compound", rebuild(path, compound), BAD, "/params/c"
    yield "big_endian", rebuild(path, big_endian), BAD, "/params/hidden.weight"
    yield "soft_link", rebuild(path, soft), BAD, "wide"
    yield "external_link", rebuild(path, external), BAD, ""
    yield "external_storage", rebuild(path, external_storage), BAD, ""
    yield "shared_extent", rebuild(path, hard_link), BAD, ""
    yield "nested_group", rebuild(path, lambda f, m: f.create_group("/params/deep") and None), BAD, "/params/deep"
    yield "stray_group", rebuild(path, lambda f, m: f.create_group("/other") and None), BAD, "/other"
    yield "scalar_manifest", rebuild(path, lambda f, m: f.create_dataset("manifest", data=np.uint8(1)) and None), BAD, "/manifest"
    yield "no_manifest", rebuild(path, lambda f, m: False), BAD, "/manifest"
    yield "manifest_not_json", rebuild(path, lambda f, m: b'{"format": '), BAD, "/manifest"
    yield "manifest_not_utf8", rebuild(path, lambda f, m: b'{"format": "\xff\xfe"}'), BAD, "/manifest"
    yield "manifest_deep", rebuild(path, lambda f, m: b"[" * 200000), BAD, "/manifest"


def manifest_faults(path):
    """Manifests that lie or use what format 2.0 does not have, with valid digests."""
    def entry(section, name):
        return lambda m: next(e for e in m[section] if e["name"] == name)

    def edit(section, which, /, **keys):
        def change(f, m):
            one = entry(section, which)(m)
            for key, value in keys.items():
                if value is None:
                    one.pop(key, None)
                else:
                    one[key] = value
        return rebuild(path, change)

    def attrs(which, /, **keys):
        return rebuild(path, lambda f, m: entry("ops", which)(m).setdefault("attrs", {}).update(keys))

    def top(**keys):
        return rebuild(path, lambda f, m: m.update(keys))

    def cycle(f, m):
        entry("ops", "x")(m)["in"][0] = "logit"

    def params(name, role, value):
        return rebuild(path, lambda f, m: entry("ops", name)(m)["params"].update({role: value}))

    yield "other_format", top(format="something"), BAD, "format"
    yield "manifest_major_3", top(version=[3, 0]), UNSUPPORTED, "version"
    yield "no_heads", top(heads=[]), BAD, "heads"
    yield "heads_missing", rebuild(path, lambda f, m: m.pop("heads") and None), BAD, "heads"
    yield "head_of_nothing", edit("heads", "ctr", value="nowhere"), BAD, "nowhere"
    yield "head_too_wide", edit("heads", "ctr", value="hidden"), BAD, "ctr"
    yield "table_rows_lie", edit("tables", "item", rows=21), BAD, "/tables/item"
    yield "table_dim_lies", edit("tables", "wide", dim=2), BAD, "/tables/wide"
    yield "table_dim_huge", edit("tables", "wide", dim=1 << 40), BAD, "wide"
    yield "table_rows_huge", edit("tables", "wide", rows=1 << 62), BAD, "wide"
    yield "table_rows_negative", edit("tables", "wide", rows=-1), BAD, "wide"
    yield "table_rows_float", edit("tables", "wide", rows=20.5), BAD, "wide"
    yield "table_dtype_lies", edit("tables", "wide", dtype="f16"), BAD, "/tables/wide"
    yield "table_dtype_unknown", edit("tables", "wide", dtype="f8"), BAD, "f8"
    yield "table_without_data", edit("tables", "wide", data="/tables/nowhere"), BAD, "/tables/nowhere"
    yield "table_data_elsewhere", edit("tables", "wide", data="/golden/value"), BAD, ""
    yield "table_missing", rebuild(path, lambda f, m: m["tables"].pop() and None), BAD, "wide"
    yield "table_twice", rebuild(path, lambda f, m: m["tables"].append(m["tables"][0])), BAD, "item"
    yield "table_key_unknown", edit("tables", "wide", shards=2), UNSUPPORTED, "shards"
    yield "scale_missing", edit("tables", "item", scale=None), BAD, "scale"
    yield "vocab_beyond_table", edit("features", "item", vocab_size=21), BAD, "item"
    yield "vocab_huge", edit("features", "item", vocab_size=1 << 60), BAD, "vocab_size"
    yield "oov_id_missing", edit("features", "item", oov_id=None), BAD, "oov_id"
    yield "feature_kind_unknown", edit("features", "age", kind="audio"), BAD, "audio"
    yield "feature_key_unknown", edit("features", "age", unit="years"), UNSUPPORTED, "unit"
    yield "feature_name_bad", edit("features", "age", name="a\nb"), BAD, "name"
    yield "feature_twice", rebuild(path, lambda f, m: m["features"].append(m["features"][2])), BAD, "age"
    yield "encoder_step_unknown", edit("features", "age", encoder={"steps": [{"op": "stem"}]}), UNSUPPORTED, "stem"
    yield "encoder_data_missing", edit("features", "item", encoder={"steps": [
        {"op": "vocab_string", "bytes": "/encoders/nowhere", "offsets": "/encoders/item.offsets", "first_id": 1}]}), BAD, "/encoders/nowhere"
    yield "op_unknown", edit("ops", "hidden", op="Conv"), UNSUPPORTED, "Conv"
    yield "op_version", edit("ops", "hidden", v=2), UNSUPPORTED, "hidden"
    yield "op_key_unknown", edit("ops", "hidden", fused=True), UNSUPPORTED, "fused"
    yield "op_attr_unknown", attrs("hidden", dilation=2), UNSUPPORTED, "dilation"
    yield "op_attr_type", attrs("hidden", groups="two"), BAD, "groups"
    yield "op_param_unknown", params("hidden", "gain", "hidden.bias"), UNSUPPORTED, "gain"
    yield "op_param_missing", params("hidden", "weight", "nowhere"), BAD, "nowhere"
    yield "op_param_shape", params("hidden", "bias", "hidden.weight"), BAD, "hidden"
    yield "op_forward_reference", rebuild(path, cycle), BAD, "logit"
    yield "op_self_reference", edit("ops", "hidden", **{"in": ["hidden"]}), BAD, "hidden"
    yield "op_input_missing", edit("ops", "hidden", **{"in": ["nowhere"]}), BAD, "nowhere"
    yield "op_inputs_too_many", edit("ops", "hidden", **{"in": ["x", "x"]}), BAD, "hidden"
    yield "op_twice", rebuild(path, lambda f, m: m["ops"].append(m["ops"][0])), BAD, m_name(path)
    yield "op_ids_as_floats", edit("ops", "hidden", **{"in": ["item"]}), BAD, "hidden"
    yield "op_table_missing", attrs("lookup", table="nowhere"), BAD, "nowhere"
    yield "op_pooling_unknown", attrs("lookup", pooling="median"), UNSUPPORTED, "median"
    yield "op_pooling_wrong_kind", attrs("lookup", pooling="sum"), BAD, "lookup"
    yield "axis_outside", attrs("x", axis=7), BAD, "axis"
    yield "value_huge", rebuild(path, huge_value), BAD, "wide_value"
    yield "golden_rows_lie", rebuild(path, lambda f, m: m["golden"].update(rows=4)), BAD, "golden"
    yield "golden_tolerance_short", rebuild(path, short_tolerance), BAD, "/golden/value_tolerance"
    yield "golden_rows_huge", rebuild(path, lambda f, m: m["golden"].update(rows=1 << 40)), BAD, "golden"


def key_faults(path):
    """Keys and key sets that lie, with valid digests; `path` is the bundle of good_keys."""
    def edit(section, which, /, **keys):
        def change(f, m):
            one = next(e for e in m[section] if e["name"] == which)
            for key, value in keys.items():
                if value is None:
                    one.pop(key, None)
                else:
                    one[key] = value
        return rebuild(path, change, 1)

    def stored(name, array, **more):
        def change(f, m):
            del f[name]
            f.create_dataset(name, data=array)
            for which, keys in more.items():
                next(s for s in m["key_sets"] if s["name"] == which)["keys"] = keys
        return rebuild(path, change, 1)

    def pads(f, m):
        m["features"] += [{**m["features"][0], "name": f"f{k}", "pad_id": k} for k in range(1, 17)]

    def damaged(i):
        i.bytes[i.sets["/tables/item.keys"]["offset"] + 3] ^= 1
        return bytes(i.bytes)

    external = {"name": "far", "dim": 3, "dtype": "f32", "external": True}
    step = {"op": "buckets", "boundaries": [1.0], "right": False, "first_id": 0}
    yield "keys_damaged", damaged(Image(path)), BAD, "/tables/item.keys"
    yield "keys_unsorted", stored("/tables/item.keys", np.array([1, 3, 2], "<i8")), BAD, "key 2 at 2"
    yield "keys_twice", stored("/tables/item.keys", np.array([1, 2, 2], "<i8")), BAD, "key 2 at 2 is there twice"
    yield "keys_unsigned_order", stored("/tables/item.keys", np.array([1, 2, -1], "<i8")), BAD, "key -1 at 2"
    yield "keys_fewer", edit("key_sets", "item", keys=4), BAD, "item"
    yield "keys_other_rows", stored("/tables/item.keys", np.array([1, 2], "<i8"), item=2), BAD, "table 'item': 4 rows"
    yield "keys_dtype", stored("/tables/item.keys", np.array([1, 2, 3], "<u8")), BAD, "/tables/item.keys"
    yield "keys_float", stored("/tables/item.keys", np.array([1, 2, 3], "<f4")), BAD, "/tables/item.keys"
    yield "keys_of_golden", edit("key_sets", "item", data="/golden/ids"), BAD, "/golden/ids"
    yield "keys_of_table", edit("key_sets", "item", data="/tables/user"), BAD, "/tables/user"
    yield "keys_data_missing", edit("key_sets", "item", data=None), BAD, "item"
    yield "keys_data_nowhere", edit("key_sets", "item", data="/tables/nowhere"), BAD, "/tables/nowhere"
    yield "keys_none", edit("key_sets", "item", keys=0), BAD, "keys"
    yield "keys_huge", edit("key_sets", "item", keys=2**31 - 2), BAD, "keys"
    yield "key_set_twice", rebuild(path, lambda f, m: m["key_sets"].append(m["key_sets"][0]), 1), BAD, "user"
    yield "key_set_unknown_key", edit("key_sets", "item", hashed=True), UNSUPPORTED, "hashed"
    yield "key_set_of_feature_missing", edit("features", "user", keys="nobody"), BAD, "nobody"
    yield "key_set_of_table_missing", edit("tables", "weight", keys="nobody"), BAD, "nobody"
    yield "key_set_of_table_other", edit("tables", "weight", keys="item"), BAD, "table 'weight': 7 rows"
    yield "key_set_of_feature_other", edit("features", "seen", keys="user"), BAD, "keys of 'user'"
    yield "keys_in_numbered_table", edit("tables", "item", keys=None), BAD, "keys of 'item'"
    yield "keys_and_vocabulary", edit("features", "user", vocab_size=7), BAD, "vocab_size"
    yield "keys_and_oov", edit("features", "user", out_of_range="oov", oov_id=0), UNSUPPORTED, "o"
    yield "keys_pad_missing", edit("features", "user", pad_id=None), BAD, "pad_id"
    yield "keys_pad_float", edit("features", "user", pad_id=0.5), BAD, "pad_id"
    yield "keys_many_pads", rebuild(path, pads, 1), BAD, "16 different pad_ids"
    yield "keys_of_buckets", edit("features", "user", encoder={"steps": [{"op": "to_float"}, step]}), BAD, "to_id or hash"
    yield "keys_murmur_whole", edit("features", "user", encoder={"steps": [{"op": "hash", "algorithm": "murmur3_32", "seed": 0}]}), BAD, "modulus"
    yield "keys_hash_offset", edit("features", "user", encoder={"steps": [{"op": "hash", "algorithm": "xxh64", "seed": 0, "offset": 1}]}), BAD, "modulus"
    yield "keys_minor_0", rebuild(path, lambda f, m: m.update(version=[2, 0])), BAD, "2.1"
    yield "external_and_data", edit("tables", "weight", external=True, data="/tables/weight"), UNSUPPORTED + "|" + BAD, "weight"
    yield "external_false", edit("tables", "weight", external=False), BAD, "external"
    yield "external_of_stored_keys", edit("tables", "weight", external=True), BAD, "external"
    yield "external_rows", rebuild(path, lambda f, m: m["tables"].append({**external, "rows": 2**40 + 1}), 1), BAD, "rows"
    yield "external_keys", rebuild(path, lambda f, m: m["key_sets"].append({"name": "far", "external": True, "keys": 2**40 + 1}), 1), BAD, "keys"
    yield "external_digest", rebuild(path, lambda f, m: m["tables"].append({**external, "digest": "12"}), 1), BAD, "digest"
    yield "external_default_short", rebuild(path, lambda f, m: m["tables"].append({**external, "default": [1, 2]}), 1), BAD, "default"
    yield "external_default_huge", rebuild(path, lambda f, m: m["tables"].append({**external, "default": [1, 2, 1e39]}), 1), BAD, "default"
    for dtype, beyond in (("f16", 65505.0), ("bf16", -3.4e38), ("i4", 1e6), ("i2", -65600.0)):
        far = {**external, "dtype": dtype, "default": [1, 2, beyond]}
        yield f"external_default_{dtype}", rebuild(path, lambda f, m, far=far: m["tables"].append(far), 1), BAD, f"range of {dtype}"
    yield "stored_default", edit("tables", "weight", default=[0]), UNSUPPORTED, "default"


def m_name(path):
    """Name of the first op."""
    return Image(path).manifest["ops"][0]["name"]


def short_tolerance(f, m):
    """Two tolerances for three golden rows."""
    f.create_dataset("/golden/value_tolerance", data=np.zeros((2, 1), "<f4"))


def huge_value(f, m):
    """A value of 2^25 elements a row."""
    m["ops"].append({"name": "wide_value", "op": "View", "v": 1, "in": ["logit"], "attrs": {"kind": "expand", "dims": [1 << 20, 32]}})


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    good(folder / "good.h5")
    cases = [{"file": "good.h5", "status": "DPI_OK", "text": ""}]
    (folder / "newer_minor.h5").write_bytes(newer_minor(folder / "good.h5"))
    cases.append({"file": "newer_minor.h5", "status": "DPI_OK", "text": ""})
    good_keys(folder / "good_keys.h5")
    cases.append({"file": "good_keys.h5", "status": "DPI_OK", "text": ""})
    for faults, source in ((block_faults, "good.h5"), (profile_faults, "good.h5"), (manifest_faults, "good.h5"), (key_faults, "good_keys.h5")):
        for name, data, status, text in faults(folder / source):
            (folder / f"{name}.h5").write_bytes(data)
            cases.append({"file": f"{name}.h5", "status": status, "text": text})
    (folder / "cases.json").write_text(json.dumps(cases, indent=1) + "\n")
    print(f"{len(cases)} bundles")


def newer_minor(path):
    """Format 2.7 that uses nothing new: to be read."""
    sealed = bytearray(rebuild(path, lambda f, m: m.update(version=[2, 7])))
    image = object.__new__(Image)
    n = struct.unpack_from("<Q", sealed, 32)[0]
    image.bytes, image.u = sealed, 2048
    image.extents = [struct.unpack_from("<QQ", sealed, 768 + 56 * k) for k in range(n)]
    return image.sealed(minor=7)


if __name__ == "__main__":
    main()
