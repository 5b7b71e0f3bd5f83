"""Hot-key lists (weights/HOT_KEYS.md): how often rows are looked up, for an engine to fill its host tier by. They change no score.

A list of a table is a dict: `keys` (int64, hottest first), `counts` (uint64) and `lookups` (of any row of the table)."""

import struct

import numpy as np
import xxhash

from ..errors import BundleError

MAGIC, VERSION = b"DPIHOTK\0", 1
_HEAD, _ENTRY = struct.Struct("<8sIIQQ"), struct.Struct("<QQQQ32s32sI200sI")
_KEY = np.dtype([("key", "<i8"), ("count", "<u8")])
_MOST_TABLES, _MOST_NAME, _RAW = 65536, 200, 1


def hot_list(name, keys, counts, lookups=None):
    """The list of a table from keys and counts in any order; `lookups`: by default their sum."""
    keys, counts = np.asarray(keys), np.asarray(counts)
    if keys.ndim != 1 or keys.shape != counts.shape or not len(keys) or keys.dtype.kind not in "iu" or counts.dtype.kind not in "iu":
        raise BundleError(f"hot keys of table '{name}': keys and counts must be integers, as many of one as of the other, and not none")
    if (counts < 1).any():
        raise BundleError(f"hot keys of table '{name}': a count is below 1")
    keys, counts = keys.astype("<i8"), counts.astype("<u8")
    if len(np.unique(keys)) != len(keys):
        raise BundleError(f"hot keys of table '{name}': a key is there twice")
    order = np.lexsort((keys, -counts.astype(np.int64)))
    total = int(counts.sum())
    if lookups is not None and not total <= int(lookups) < 2**64:
        raise BundleError(f"hot keys of table '{name}': {lookups} lookups, the counts are {total} in all")
    return {"keys": keys[order], "counts": counts[order], "lookups": total if lookups is None else int(lookups)}


def identities(model, paths, hash_of):
    """name -> (rows, hash, hash of its keys, names raw keys) of the tables, as lists of this model's bundle state them. `paths`: name ->
    data sets of its rows and of its keys, None where there is none; `hash_of(path)` of one."""
    sets, pads, out = {s["name"]: s for s in model.key_sets}, {}, {}
    for f in model.features:
        if "keys" in f:
            pads.setdefault(f["keys"], set()).add(f.get("pad_id"))
    for info in model.tables:
        path, key_path = paths[info["name"]]
        key_set = sets.get(info.get("keys"))
        rows = info.get("rows") or 0
        if key_set is not None:
            rows = max(rows, key_set.get("keys", -1) + 1) + len(pads.get(key_set["name"], ()))
        content = bytes.fromhex(info.get("digest", "")).ljust(32, b"\0") if info.get("external") else hash_of(path)
        out[info["name"]] = (rows, content, hash_of(key_path) if key_path else bytes(32), bool(key_set) and bool(info.get("external")))
    return out


def pack(lists, known):
    """The bytes of a list; `known` as identities() has it."""
    at, entries, keys = _HEAD.size + _ENTRY.size * len(lists), [], []
    for name, entry in lists.items():
        if name not in known:
            raise BundleError(f"hot keys: there is no table '{name}'")
        rows, content, key_content, raw = known[name]
        n = len(entry["keys"])
        if not raw and (n > rows or (entry["keys"] < 0).any() or (entry["keys"] >= rows).any()):
            raise BundleError(f"hot keys of table '{name}': a row number outside of its {rows} rows")
        text = name.encode()
        entries.append(_ENTRY.pack(rows, n, at, entry["lookups"], content, key_content, len(text), text, _RAW if raw else 0))
        both = np.empty(n, _KEY)
        both["key"], both["count"] = entry["keys"], entry["counts"]
        keys.append(both.tobytes())
        at += n * _KEY.itemsize
    body = b"".join(entries + keys)
    head = _HEAD.pack(MAGIC, VERSION, len(lists), at, 0)
    return _HEAD.pack(MAGIC, VERSION, len(lists), at, xxhash.xxh3_64_intdigest(head + body)) + body


def unpack(data, known, what):
    """The lists of a file's or data set's bytes, which must be of the tables `known`; BundleError, beginning with `what`, else."""
    def bad(text):
        return BundleError(f"{what}: {text}")
    if len(data) < _HEAD.size:
        raise bad("is no hot-key list")
    magic, version, n_tables, length, stated = _HEAD.unpack_from(data)
    if magic != MAGIC or version != VERSION:
        raise bad("is no hot-key list of version 1")
    if length != len(data) or n_tables > _MOST_TABLES or _HEAD.size + n_tables * _ENTRY.size > length:
        raise bad(f"has {len(data)} bytes, which is not what it states")
    if xxhash.xxh3_64_intdigest(_HEAD.pack(magic, version, n_tables, length, 0) + data[_HEAD.size:]) != stated:
        raise bad("its digest is not that of its bytes")
    lists, at = {}, _HEAD.size + n_tables * _ENTRY.size
    for t in range(n_tables):
        rows, n, offset, lookups, content, key_content, size, text, raw = _ENTRY.unpack_from(data, _HEAD.size + t * _ENTRY.size)
        name = text[:size].decode("utf-8", "replace")
        if size > _MOST_NAME or name in lists or offset != at or n > (length - at) // _KEY.itemsize:
            raise bad(f"the entry of table '{name}' is damaged")
        if known.get(name) != (rows, content, key_content, raw == _RAW):
            raise bad(f"its table '{name}' is none of this bundle's, or has other rows there")
        both = np.frombuffer(data, _KEY, n, at)
        lists[name] = _checked(bad, name, both["key"].astype("<i8"), both["count"].astype("<u8"), lookups, None if raw else rows)
        at += n * _KEY.itemsize
    if at != length or not any(len(entry["keys"]) for entry in lists.values()):
        raise bad("holds no key, or bytes follow the last one")
    return lists


def _checked(bad, name, keys, counts, lookups, rows):
    if rows is not None and ((keys < 0).any() or (keys >= rows).any()):
        raise bad(f"table '{name}': a row number outside of its {rows} rows")
    falls = (counts[1:] < counts[:-1]) | ((counts[1:] == counts[:-1]) & (keys[1:] > keys[:-1]))
    if not falls.all() or len(np.unique(keys)) != len(keys):
        raise bad(f"table '{name}': keys are not in their order, hottest first, or one is there twice")
    if (counts < 1).any() or sum(map(int, counts)) > lookups:
        raise bad(f"table '{name}': counts are below 1, or more than its {lookups} lookups")
    return {"keys": keys, "counts": counts, "lookups": lookups}
