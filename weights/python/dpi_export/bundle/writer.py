"""Writes a Builder (or anything with its attributes) as a bundle file: streaming, deterministic, HDF5 profile of FORMAT.md part 2."""

import json
import os

import h5py
import numpy as np
import xxhash

from . import digest
from .content_hash import DATA, TreeHash
from .engine_check import ENGINE, check_engine, check_kind
from ..errors import BundleError, dataset_name
from ..ops.executor import Executor
from ..ops.conditioning import row_tolerances, rounding_errors
from .golden import golden_arrays, stack_heads
from .golden_check import check_golden
from .hot_keys import identities, pack
from .keyed_tables import TABLE_KEYS, RisingKeys
from .reader import Bundle
from ..schema import is_keyed
from .signing import add_signature, read_signing_key
from .row_types import ROW_TYPES
from .versions import minor_of

_H5_TYPES = {"u1": h5py.h5t.STD_U8LE, "i1": h5py.h5t.STD_I8LE, "u2": h5py.h5t.STD_U16LE, "i8": h5py.h5t.STD_I64LE,
             "u8": h5py.h5t.STD_U64LE, "f4": h5py.h5t.IEEE_F32LE}


class ProfileFile:
    """An HDF5 file under construction that can hold nothing outside the profile; extents are recorded as data is written."""

    def __init__(self, path, n_extents):
        self.u = digest.user_block_size(n_extents)
        fcpl = h5py.h5p.create(h5py.h5p.FILE_CREATE)
        fcpl.set_userblock(self.u)
        fapl = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
        fapl.set_libver_bounds(h5py.h5f.LIBVER_EARLIEST, h5py.h5f.LIBVER_V110)
        fapl.set_alignment(4096, 64)
        self._file = h5py.h5f.create(os.fsencode(path), h5py.h5f.ACC_TRUNC, fcpl, fapl)
        self._groups, self._sets = {}, {}

    def create(self, path, shape, dtype):
        """Creates a contiguous data set at /group/name or /name."""
        group, _, name = path.strip("/").rpartition("/")
        where = self._file
        if group:
            if group not in self._groups:
                self._groups[group] = h5py.h5g.create(self._file, group.encode())
            where = self._groups[group]
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_layout(h5py.h5d.CONTIGUOUS)
        plist.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        plist.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        plist.set_obj_track_times(False)
        kind = np.dtype(dtype).str.lstrip("<|")
        space = h5py.h5s.create_simple(tuple(int(s) for s in shape))
        ds = h5py.h5d.create(where, name.encode(), _H5_TYPES[kind], space, dcpl=plist)
        self._sets[path] = {"ds": ds, "shape": tuple(shape), "dtype": np.dtype(dtype), "rows": 0,
                            "state": xxhash.xxh3_64(), "hash": TreeHash(DATA)}

    def append(self, path, block):
        """Writes the next rows of a data set."""
        entry = self._sets[path]
        block = np.ascontiguousarray(block, dtype=entry["dtype"])
        n = len(block)
        if not block.size:
            return
        memory = h5py.h5s.create_simple(block.shape)
        space = entry["ds"].get_space()
        space.select_hyperslab((entry["rows"],) + (0,) * (block.ndim - 1), block.shape)
        entry["ds"].write(memory, space, block)
        entry["state"].update(block.data)
        entry["hash"].update(block.data)
        entry["rows"] += n

    def put(self, path, array):
        """Creates and fills a data set."""
        array = np.asarray(array)
        self.create(path, array.shape, array.dtype)
        self.append(path, array)

    def hash_of(self, path):
        """The hash of a data set whose rows have all been written."""
        entry = self._sets[path]
        if "hashed" not in entry:
            entry["hashed"] = entry["hash"].digest()
        return entry["hashed"]

    def close(self):
        """Closes the HDF5 part; returns the extents (offset, length, digest, hash) by rising offset."""
        h5py.h5f.flush(self._file)  # tells of a full disk, as closing does not
        extents = []
        for path, entry in self._sets.items():
            size = int(np.prod(entry["shape"], dtype=np.int64)) * entry["dtype"].itemsize
            if size and path != "/manifest":
                extents.append((entry["ds"].get_offset(), size, entry["state"].intdigest(),
                                self.hash_of(path)))
        self._sets, self._groups = {}, {}
        self._file.close()
        return sorted(extents)


def seal(path, u, extents, minor=0, version=None, magic=digest.MAGIC):
    """Writes the user block into a finished HDF5 file. `version` (2, minor) unless it is another format's."""
    length, version = os.path.getsize(path), version or (2, minor)
    with open(path, "r+b") as f:
        hashed = digest.metadata_hash(f, u, length, extents)
        block = digest.pack(u, length, extents, 0, hashed, version=version, magic=magic)
        value = digest.other_digest(f, block, length, extents)
        f.seek(0)
        f.write(digest.pack(u, length, extents, value, hashed, version=version, magic=magic))


def _unique(base, taken):
    path, n = base, 1
    while path in taken:
        n += 1
        path = f"{base}.{n}"
    taken.add(path)
    return path


def table_paths(tables, key_sets=()):
    """name -> the paths of data and of what each row has beside it (row_types.py) of the tables, name -> path of the key sets, and the manifest entries of both. External
    ones have no path."""
    taken, paths, key_paths, entries, key_entries = set(), {}, {}, [], []
    for t in tables:
        if t.get("external"):
            entries.append({k: t[k] for k in TABLE_KEYS if k in t})
            continue
        plain = f"/tables/{dataset_name(t['name'])}"
        data = _unique(plain, taken)
        scalars = {role: _unique(f"{data}.{role}", taken) for role in ROW_TYPES[t["dtype"]].scalars}
        entry = {k: t[k] for k in TABLE_KEYS if k in t}
        if data != plain or not t["name"].isascii():
            entry["data"] = data
        entry.update(scalars)
        paths[t["name"]] = (data, *scalars.values())
        entries.append(entry)
    for s in key_sets:
        entry = dict(s)
        if not s.get("external"):
            key_paths[s["name"]] = entry["data"] = _unique(f"/tables/{dataset_name(s['name'])[:190]}.keys", taken)
        key_entries.append(entry)
    return paths, key_paths, entries, key_entries


def _feature_entry(feature):
    """A reader of format 2.0 asks for vocab_size first: with it, it comes to the key that it does not know and names that."""
    return {**feature, "vocab_size": 1} if is_keyed(feature) else dict(feature)


def manifest_of(model, table_entries, key_entries, golden):
    """(manifest dict, {path: encoder array}) of a model."""
    stored, arrays, features = {}, {}, []
    for feature in model.features:
        feature = _feature_entry(feature)
        if feature.get("encoder") is not None:
            feature["encoder"], more = feature["encoder"].manifest(stored, feature["name"])
            arrays.update(more)
        features.append(feature)
    manifest = {"format": "dpi-bundle", "version": [2, minor_of(model.features, model.tables, model.ops)], "name": model.name,
                "provenance": model.manifest_provenance(), "features": features, "tables": table_entries, "ops": model.ops,
                "heads": model.heads}
    if key_entries:
        manifest["key_sets"] = key_entries
    if golden:
        manifest["golden"] = golden["spec"]
    return manifest, arrays


def _manifest_bytes(manifest):
    try:
        text = json.dumps(manifest, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (ValueError, TypeError) as e:
        raise BundleError(f"the manifest cannot be written as JSON: {e}") from None
    return np.frombuffer(text.encode(), "u1")


def write_bundle(model, path, progress=None, check=True, sign=None):
    """Writes `model` to `path` by way of a temporary file beside it. See Builder.write."""
    key, check = None if sign is None else read_signing_key(sign), check_kind(check)  # before anything is written
    path, part = os.fspath(path), os.fspath(path) + ".part"
    golden, first = model.golden_spec, path + ".first"
    try:
        if golden and golden.get("value") is None and any(t.get("external") for t in model.tables):
            raise BundleError("golden: value is missing, and rows of external tables are not here to compute it")
        if golden and golden.get("value") is None:
            # The executor needs table rows, which an iterator gives only once: write without golden rows, run on that file
            # and copy it.
            _write(model, first, None, progress)
            with Bundle(first) as source:
                run = Executor(source).run(golden["rows"])
                golden = {**golden, "value": stack_heads(model.heads, run, "value"),
                          "logit": stack_heads(model.heads, run, "logit")}
                if golden["tolerance"] is None:
                    golden["tolerance"] = row_tolerances(rounding_errors(source, golden["rows"]),
                                                         {k: golden[k] for k in ("value", "logit")}, 1e-5)
                _write(source, part, golden_arrays(model, golden), None)
        else:
            _write(model, part, golden_arrays(model, golden) if golden else None, progress)
        if check:
            external = any(t.get("external") for t in model.tables)
            check_golden(part, rows=not external)
            if check == ENGINE and not external:
                check_engine(part)
        if key:
            add_signature(part, key)
        os.replace(part, path)
    finally:
        for leftover in (first, part):
            if os.path.exists(leftover):
                os.remove(leftover)
    return path


def _write(model, path, golden, progress):
    tables = model.tables
    paths, key_paths, entries, key_entries = table_paths(tables, model.key_sets)
    manifest, arrays = manifest_of(model, entries, key_entries, golden)
    lists = model.hot_lists
    if lists:
        taken = {p for those in paths.values() for p in those} | set(key_paths.values())
        manifest["hot_keys"] = _unique("/tables/hot_keys", taken)
    arrays.update({f"/params/{n}": model.param(n) for n in sorted({p for op in model.ops for p in
                                                                   op.get("params", {}).values()})})
    arrays.update(golden["arrays"] if golden else {})
    n_extents = sum(1 for a in arrays.values() if np.asarray(a).size) + len(key_paths) + \
        sum(len(p) for p in paths.values()) + bool(lists)
    out = ProfileFile(path, n_extents)
    try:
        out.put("/manifest", _manifest_bytes(manifest))
        for where, array in arrays.items():
            out.put(where, array)
        keys = _KeyWriter(out, model, key_paths)
        _write_tables(out, model, [t for t in tables if t["name"] in paths], paths, keys, progress)
        if lists:
            known = identities(model, {t["name"]: (paths.get(t["name"], (None,))[0], key_paths.get(t.get("keys"))) for t in tables},
                               out.hash_of)
            out.put(manifest["hot_keys"], np.frombuffer(pack(lists, known), "u1"))
    finally:
        extents = out.close()
    seal(path, out.u, extents, manifest["version"][1])


class _KeyWriter:
    """Writes each key set once: from the file it is copied from, else while the first of its tables is written; the keys of the set's
    other tables must be the same."""

    def __init__(self, out, model, paths):
        self._out, self._paths, self._counts, self._digests = out, paths, {}, {}
        for s in model.key_sets:
            if s["name"] not in paths:
                continue
            out.create(paths[s["name"]], (s["keys"],), "<i8")
            self._counts[s["name"]] = s["keys"]
            blocks = model.key_blocks(s["name"])
            for block in blocks or ():
                out.append(paths[s["name"]], block)
            if blocks is not None:
                self._digests[s["name"]] = None  # with its rows, as it was

    def of_table(self, table, source):
        """Call before the table's blocks are read; the result is called after them."""
        name = table.get("keys")
        if name is None or not hasattr(source, "on_keys"):
            return lambda: None
        known, state = self._digests.get(name), xxhash.xxh3_64()
        rising = RisingKeys(f"table '{table['name']}'", self._counts[name])

        def add(keys):
            rising.add(keys)
            state.update(np.ascontiguousarray(keys, dtype="<i8").data)
            if name not in self._digests:
                self._out.append(self._paths[name], keys)

        def finish():
            rising.finish()
            if known is not None and known != state.digest():
                raise BundleError(f"table '{table['name']}': its keys are not those of the other tables of key set '{name}'")
            self._digests.setdefault(name, state.digest())

        source.on_keys = add
        return finish

    def finish(self):
        """After the last table."""
        for name in self._counts:
            if name not in self._digests:
                raise BundleError(f"key set '{name}': no table has it")


def _write_tables(out, model, tables, paths, keys, progress):
    total = sum(t["rows"] * ROW_TYPES[t["dtype"]].element_bytes(t["dim"]) for t in tables)
    done = 0
    for t in tables:
        (data, *scalars), kind = paths[t["name"]], ROW_TYPES[t["dtype"]]
        out.create(data, (t["rows"], kind.columns(t["dim"])), kind.stored)
        for path, stored in zip(scalars, kind.scalars.values()):
            out.create(path, (t["rows"],), stored)
        source = model.table_source(t["name"])
        end_of_keys = keys.of_table(t, source)
        for _, block, beside in source.blocks():
            out.append(data, block)
            for path, values in zip(scalars, beside):
                out.append(path, values)
            done += block.nbytes
            if progress:
                progress(done, total, f"table {t['name']}")
        end_of_keys()
    keys.finish()
