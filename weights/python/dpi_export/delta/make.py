"""delta: what changed between two versions of a model, as a file that makes the new bundle of the old one (weights/DELTA.md). Tables
are read in blocks, twice where they differ and not at all where they do not: memory is that of some blocks and of the manifests."""

import json
import math
import os

import numpy as np
import xxhash

from ..bundle import digest
from ..bundle.content_hash import DATA, TreeHash
from .rows import KeyChanges, RowChanges
from .schema import check_same_schema
from ..errors import BundleError
from ..bundle.reader import Bundle
from ..bundle.signing import add_signature, read_signing_key
from ..bundle.writer import ProfileFile, seal

VERSION = (1, 0)
_LEAST_RUN = 64  # zeros that are left out of the metadata


def delta(old, new, out, sign=None, progress=None):
    """Writes to `out` the delta that makes the bundle at `new` of the bundle at `old`, bit for bit; returns a summary. Raises where
    they differ in what a delta cannot change (DELTA.md part 4). `sign`: a key file."""
    key, out = None if sign is None else read_signing_key(sign), os.fspath(out)
    part = out + ".part"
    for path in (old, new):
        for written in (out, part):
            if os.path.exists(path) and os.path.exists(written) and os.path.samefile(path, written):
                raise BundleError(f"{written}: is one of the two bundles, and would be written over; name another file")
    try:
        with Bundle(old) as base, Bundle(new) as after:
            summary = _write(base, after, part, progress)
        if key:
            add_signature(part, key, digest.DELTA_MAGIC)
        with open(part, "rb") as f:
            os.fsync(f.fileno())
        os.replace(part, out)
    except OSError as e:
        raise BundleError(f"{out}: cannot be written: {e.strerror or e}") from None
    finally:
        if os.path.exists(part):
            os.remove(part)
    return {"path": out, "bytes": os.path.getsize(out), **summary}


class _Changes:
    """What differs between two bundles, by the hashes that their user blocks state."""

    def __init__(self, base, after):
        self.base, self.after = base, after
        self._hashes = [{offset: hashed for offset, _, _, hashed in b.extents} for b in (base, after)]

    def differs(self, path):
        """Has the new bundle other data under this path?"""
        a, b = self.base.data_sets.get(path), self.after.data_sets[path]
        if a is None or a["dtype"] != b["dtype"] or tuple(a["shape"]) != tuple(b["shape"]):
            return True
        return b["bytes"] > 0 and self._hashes[0][a["offset"]] != self._hashes[1][b["offset"]]

    def check(self, bundle, path):
        """The data is what its bundle says: a delta of damaged data would not be told from a true one."""
        info = bundle.data_sets.get(path)
        if info is None or not info["bytes"]:
            return
        state, tree = xxhash.xxh3_64(), TreeHash(DATA)
        for data in digest.chunks(bundle._file, info["offset"], info["offset"] + info["bytes"]):
            state.update(data)
            tree.update(data)
        found = next(e for e in bundle.extents if e[0] == info["offset"])
        if state.intdigest() != found[2] or tree.digest() != found[3]:
            raise BundleError(f"{bundle.path}: {path}: the data is damaged, or does not match its hash")


def _table_info(bundle, name):
    return bundle._table_info[name]


def _row_parts(changes, progress):
    """What differs of the rows of tables and of keys: objects with `sets` and `blocks`; and the paths that they speak for."""
    parts, done, summary = [], set(), []
    for s, entry in enumerate(changes.after._key_entries):
        if entry.get("external"):
            continue
        tables = [(i, _table_info(changes.after, t["name"])) for i, t in enumerate(changes.after.tables) if t.get("keys") == entry["name"]]
        paths = [entry["data"]] + [p for _, t in tables for p in (t["data"], t.get("scale"), t.get("offset")) if p]
        done.update(paths)
        if not any(changes.differs(p) for p in paths):
            continue
        _check_both(changes, paths)
        part = KeyChanges(changes, s, entry, tables)
        part.count(progress)
        parts.append(part)
        summary += part.summary()
    for i, t in enumerate(changes.after.tables):
        t = _table_info(changes.after, t["name"])
        paths = [p for p in (t.get("data"), t.get("scale"), t.get("offset")) if p]
        if t.get("external") or t.get("keys"):
            continue
        done.update(paths)
        if not any(changes.differs(p) for p in paths):
            continue
        _check_both(changes, paths)
        part = RowChanges(changes, i, t)
        part.count(progress)
        parts.append(part)
        summary += part.summary()
    return parts, done, summary


def _check_both(changes, paths):
    for path in paths:
        changes.check(changes.base, path)
        changes.check(changes.after, path)


def _tail(changes, path):
    """(path, first element that is new) of an encoder's array, whose elements before must be the base's."""
    a, b = changes.base.data_sets.get(path), changes.after.data_sets[path]
    have = 0 if a is None else a["shape"][0]
    same = a is None or (a["dtype"] == b["dtype"] and have <= b["shape"][0])
    step = 1 << 20
    for at in range(0, have if same else 0, step):
        n = min(step, have - at)
        same = same and np.array_equal(changes.base.read_rows(path, at, n), changes.after.read_rows(path, at, n))
    if not same:
        raise BundleError(f"{path}: an entry that the base has is another one now; a delta can only add entries behind them")
    return path, have


def _array_parts(changes, done):
    """(path, first row, rows) of what is written whole, or from its first new element on."""
    out = []
    for path, info in sorted(changes.after.data_sets.items()):
        if path in done or path == "/manifest" or not changes.differs(path) or not info["bytes"]:
            continue
        _check_both(changes, [path])
        if path.startswith("/encoders/"):
            out.append((*_tail(changes, path), info["shape"][0]))
        elif path.startswith(("/params/", "/golden/")) or path == changes.after.manifest.get("hot_keys"):
            out.append((path, 0, info["shape"][0]))
        else:
            raise BundleError(f"{path}: differs, and belongs to no table")
    return [part for part in out if part[2] > part[1]]


def _without_zeros(data, n_extents):
    """(runs, bytes): what is left of the metadata without its long runs of zeros."""
    data = np.frombuffer(data, "u1")
    at = np.flatnonzero(data)
    cuts = np.flatnonzero(np.diff(at) > _LEAST_RUN)
    begins, ends = at[np.concatenate([[0], cuts + 1])], at[np.concatenate([cuts, [len(at) - 1]])] + 1
    kept = int((ends - begins).sum())
    if len(data) > 2 * kept + (128 << 10) + 8192 * n_extents:  # more than a reader lets a delta leave out
        begins, ends = np.array([0]), np.array([len(data)])
    runs = np.stack([begins, ends - begins], axis=1).astype("<u8")
    return runs.reshape(-1), np.concatenate([data[a:b] for a, b in zip(begins, ends)])


def _new_parts(after):
    """The new bundle's own bytes: user block and metadata."""
    with open(after.path, "rb") as f:
        block = f.read(digest.EXTENTS + digest.EXTENT.size * len(after.extents))
        runs = digest.metadata_runs(after.u, after.length, after.extents)
        metadata = b"".join(data for begin, end in runs for data in digest.chunks(f, begin, end))
    runs, data = _without_zeros(metadata, len(after.extents))
    return {"/new/block": np.frombuffer(block, "u1"), "/new/runs": runs, "/new/metadata": data}


def _write(base, after, part, progress):
    check_same_schema(base, after)
    changes = _Changes(base, after)
    rows, done, summary = _row_parts(changes, progress)
    arrays = _array_parts(changes, done)
    manifest = {"format": "dpi-delta", "version": list(VERSION), "name": after.name, "base": base.version, "new": after.version}
    new = _new_parts(after)
    sets = [s for r in rows for s in r.sets()]
    n_extents = len(new) + len(arrays) + sum(1 for _, shape, _ in sets if math.prod(shape))
    out = ProfileFile(part, n_extents)
    try:
        out.put("/manifest", np.frombuffer(json.dumps(manifest, ensure_ascii=False, separators=(",", ":")).encode(), "u1"))
        for path, array in new.items():
            out.put(path, array)
        for path, first, end in arrays:
            _copy(after, out, path, first, end)
        for path, shape, dtype in sets:
            if math.prod(shape):
                out.create(path, shape, dtype)
        for r in rows:
            for path, block in r.blocks(progress):
                out.append(path, block)
    finally:
        extents = out.close()
    seal(part, out.u, extents, version=VERSION, magic=digest.DELTA_MAGIC)
    return {"base": base.version, "new": after.version, "tables": summary, "arrays": [a[0] for a in arrays]}


def _copy(after, out, path, first, end):
    info = after.data_sets[path]
    out.create(path, (end - first, *info["shape"][1:]), info["dtype"])
    step = max(1, (4 << 20) // max(1, info["bytes"] // info["shape"][0]))
    for at in range(first, end, step):
        out.append(path, after.read_rows(path, at, min(step, end - at)))
