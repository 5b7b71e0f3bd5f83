"""Bundle: reads a bundle file in Python, for inspect, verify, convert and tests, by the rules of the engine's reader (sdk/src/bundle).
HDF5's library takes no part: whatever the bytes are, what comes is a Bundle or a BundleError."""

import json
import os
from collections import Counter

import numpy as np
import xxhash

from . import digest
from .. import schema
from .content_hash import DATA, TreeHash
from ..encoding.encoder import Encoder
from ..encoding.step_table import ARRAY_TYPES
from ..errors import BundleError, table_path
from .golden import ROW_SETS, check_sets
from ..ops.graph import Graph, check_heads
from .hdf5_structures import Metadata, Structures
from .hot_keys import identities, unpack
from .keyed_tables import TABLE_KEYS, KeySet, RisingKeys, check_external, check_key_set, check_links
from .raw_golden import RAW_SETS, read_raw
from .rows import Rows
from .signing import check_signature
from .row_types import ROW_TYPES
from .tables import BLOCK_BYTES, STORED, decode
from .versions import minor_of
from ..encoding.vocabularies import check_vocabulary

_SECTIONS = ("features", "tables", "ops", "heads")


def _members(pairs):
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueError("a key is given twice")
    return out


def _no_constant(text):
    raise ValueError(f"{text} is no JSON number")


class Bundle:
    """An open bundle. Opening checks user block, digest and hash of the other bytes, HDF5 profile and manifest, not the raw data.
    `require_signature`: hex Ed25519 public keys, separated by commas, one of which must have signed."""

    def __init__(self, path, require_signature=None):
        self.path, self._require = os.fspath(path), require_signature
        try:
            self._file = open(self.path, "rb")
        except OSError as e:
            raise BundleError(f"{self.path}: {e.strerror}") from None
        try:
            self._open()
        except BundleError as e:
            self._file.close()
            raise BundleError(f"{self.path}: {e}") from None
        except (KeyError, IndexError, TypeError, AttributeError, ValueError, OverflowError, RecursionError, MemoryError,
                OSError) as e:
            # A manifest or file whose parts have other types than the format says.
            self._file.close()
            raise BundleError(f"{self.path}: /manifest or the HDF5 structures are malformed: {type(e).__name__}: {e}") from None

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def close(self):
        """Closes the file."""
        self._file.close()

    def _open(self):
        self.length = os.fstat(self._file.fileno()).st_size
        block = digest.unpack(self._file, self.length)
        self.u, self.extents, self.digest, self.version_minor = block.u, block.extents, block.digest, block.minor
        self.signed_by = [key.hex() for key, _ in block.signatures]
        self.version = digest.version_hash(block).hex()  #: what deltas name this bundle by
        if self._require is not None:
            check_signature(block, self._require)
        if digest.metadata_hash(self._file, block.u, self.length, block.extents) != block.metadata_hash:
            raise BundleError("hash of the metadata: it is not what the user block states")
        runs = digest.metadata_runs(block.u, self.length, block.extents)
        self.data_sets, text = Structures(Metadata(self._file, block.u, self.length, runs)).contents(block.extents)
        try:
            self.manifest = json.loads(text.decode("utf-8"), object_pairs_hook=_members, parse_constant=_no_constant)
        except ValueError as e:
            raise BundleError(f"/manifest: not UTF-8 JSON: {e}") from None
        self._check_manifest()
        self.name = self.manifest.get("name", "")
        self.heads = self.manifest["heads"]
        self._read_features()
        self._read_tables()
        self._read_graph()
        self._check_hot_keys()
        self._golden = None
        if "golden" in self.manifest:
            check_sets(self.manifest["golden"], self.features, self.heads, self.data_sets)

    def _check_manifest(self):
        m = self.manifest
        if not isinstance(m, dict) or m.get("format") != "dpi-bundle":
            raise BundleError("/manifest: format is not dpi-bundle")
        if m.get("version") != [2, self.version_minor]:
            raise BundleError(f"/manifest: version {m.get('version')}, expected [2, {self.version_minor}] as the user block says")
        for key in _SECTIONS:
            if not isinstance(m.get(key), list) or not all(isinstance(e, dict) for e in m[key]):
                raise BundleError(f"/manifest: {key} is not a list of objects")

    def _read_features(self):
        self.features, self._shared_arrays, self._pairs, self._sound = [], {}, {}, set()
        for entry in self.manifest["features"]:
            feature = dict(entry)
            if schema.is_keyed(feature) and feature.pop("vocab_size", 1) != 1:
                raise BundleError(f"feature '{feature.get('name')}': has keys and a vocab_size other than 1")
            schema.check_feature(feature)
            if feature.get("encoder") is not None:
                given = feature["encoder"]
                if set(given) - {"steps", "splitter", "missing_element"}:
                    raise BundleError(f"feature '{feature['name']}', encoder: a key of {sorted(given)} is not known")
                steps = given.get("steps", [])
                arrays = [{k: self._vocabulary_array(s, k) if k in ARRAY_TYPES else v for k, v in s.items()} for s in steps]
                feature["encoder"] = Encoder(arrays, given.get("splitter"), given.get("missing_element"))
                feature["encoder"].check(feature)
                self._check_vocabularies(steps, arrays)
            self.features.append(feature)
        schema.Schema(self.features)
        self._mark_own()

    def _mark_own(self):
        """A vocabulary that one feature alone names keeps its path when the features are written again, whatever others are equal to."""
        named = [{id(s[k]) for s in f["encoder"].steps for k in ARRAY_TYPES if k in s} if f.get("encoder") else set() for f in self.features]
        times = Counter(array for arrays in named for array in arrays)
        for feature, arrays in zip(self.features, named):
            if arrays:
                feature["encoder"].own = all(times[array] == 1 for array in arrays)

    def _check_vocabularies(self, steps, arrays):
        """The same bytes come with the same offsets, and these with no other bytes. Each vocabulary is looked at once."""
        for step, array in zip(steps, arrays):
            pair = (step["bytes"], step["offsets"]) if step["op"] == "vocab_string" else (step.get("keys"), step["op"])
            if step["op"] == "vocab_string" and any(self._pairs.setdefault(path, pair) != pair for path in pair):
                raise BundleError(f"{pair[0]}: another feature reads it, or {pair[1]}, with other data")
            if step["op"].startswith("vocab_") and pair not in self._sound:
                try:
                    check_vocabulary(array)
                except BundleError as e:
                    raise BundleError(f"{pair[0]}: {e}") from None
                self._sound.add(pair)

    def _vocabulary_array(self, step, key):
        """An array of an encoder step: of the right type, its length that of the vocabulary. Read once, however many name it."""
        path = step[key]
        info = self.data_sets.get(path) if isinstance(path, str) and path.startswith("/encoders/") else None
        if info is None or info["dtype"] != np.dtype(ARRAY_TYPES[key]) or len(info["shape"]) != 1:
            raise BundleError(f"{path}: is missing, or is no vocabulary's {key} ({ARRAY_TYPES[key]}, one dimension)")
        if key == "ids":
            keys, more = (step["keys"], 0) if "keys" in step else (step["offsets"], 1)
            if self.data_sets[keys]["shape"][0] != info["shape"][0] + more:
                raise BundleError(f"{path}: has {info['shape'][0]} ids, the vocabulary another number of entries")
        if path not in self._shared_arrays:
            self._shared_arrays[path] = self.array(path)
        return self._shared_arrays[path]

    def _read_tables(self):
        self._table_info, named = {}, set()
        self._named = named
        self._read_key_sets(named)
        for t in self.manifest["tables"]:
            name, unknown = t.get("name"), set(t) - {*TABLE_KEYS, "data"}
            unknown -= set(ROW_TYPES[t["dtype"]].scalars if t.get("dtype") in ROW_TYPES else ())
            unknown |= set() if "external" in t else set(t) & {"digest", "default"}
            if unknown:
                raise BundleError(f"table '{name}': key '{sorted(unknown)[0]}' is not known")
            if t.get("dtype") not in STORED:
                raise BundleError(f"table '{name}': dtype {t.get('dtype')!r} is not known")
            if name in self._table_info:
                raise BundleError(f"table '{name}' is defined twice")
            if "external" in t:
                check_external(t)
                self._table_info[name] = dict(t)
                continue
            data = table_path(t)
            kind = ROW_TYPES[t["dtype"]]
            self._need(data, (t["rows"], kind.columns(t["dim"])), kind.stored, f"table '{name}'")
            for role, stored in kind.scalars.items():
                self._need(t.get(role), (t["rows"],), stored, f"{role} of table '{name}'")
            for path in (data, *(t[role] for role in kind.scalars)):
                if path in named:
                    raise BundleError(f"{path}: table '{name}' names it, and another table does too")
                named.add(path)
            self._table_info[name] = {**t, "data": data}
        check_links(self._key_entries, self.features, self._table_info.values())
        minor = max(minor_of(self.features, self._table_info.values(), ()), int(bool(self._key_entries)))
        if minor > self.version_minor:
            later = next((t for t in self._table_info.values() if ROW_TYPES[t["dtype"]].since > self.version_minor), None)
            raise BundleError(f"/manifest: keys and external tables need format 2.{minor}, the file says 2.{self.version_minor}" if later is None
                              else f"table '{later['name']}': dtype {later['dtype']} needs format 2.{minor}, the file says 2.{self.version_minor}")

    def _read_key_sets(self, named):
        self._key_entries, self._key_finders = self.manifest.get("key_sets", []), {}
        if not isinstance(self._key_entries, list) or not all(isinstance(e, dict) for e in self._key_entries):
            raise BundleError("/manifest: key_sets is not a list of objects")
        for s in self._key_entries:
            check_key_set(s)
            if s.get("external"):
                continue
            if s.get("data") in named or not str(s.get("data")).startswith("/tables/"):
                raise BundleError(f"key set '{s['name']}': its data {s.get('data')!r} is not under /tables, or named twice")
            self._need(s["data"], (s["keys"],), "<i8", f"key set '{s['name']}'")
            named.add(s["data"])

    @property
    def key_sets(self):
        """Key set dicts in order."""
        return [{k: s[k] for k in ("name", "keys", "external") if k in s} for s in self._key_entries]

    def key_blocks(self, name):
        """The keys of a set in blocks, looked at as they come."""
        s = next(s for s in self._key_entries if s["name"] == name)
        check = RisingKeys(s["data"], s["keys"])
        for at in range(0, s["keys"], BLOCK_BYTES // 8):
            block = self.read_rows(s["data"], at, min(BLOCK_BYTES // 8, s["keys"] - at))
            check.add(block)
            yield block

    def key_set(self, name):
        """The KeySet of this name: 8 bytes a key are held."""
        if name not in self._key_finders:
            if next((s.get("external") for s in self._key_entries if s["name"] == name), True):
                raise BundleError(f"key set '{name}' is external: its keys are not in the bundle")
            self._key_finders[name] = KeySet(name, np.concatenate(list(self.key_blocks(name))))
        return self._key_finders[name]

    def _check_hot_keys(self):
        path = self.manifest.get("hot_keys")
        if path is None:
            return
        info = self.data_sets.get(path) if isinstance(path, str) and path.startswith("/tables/") else None
        if info is None or info["dtype"] != np.dtype("u1") or len(info["shape"]) != 1 or path in self._named:
            raise BundleError(f"hot_keys: {path!r} is no data set of bytes under /tables that nothing else names")

    def hash_of(self, path):
        """The hash of a data set that the user block states."""
        offset = self.data_sets[path]["offset"]
        return next((bytes(e[3]) for e in self.extents if e[0] == offset), bytes(32))

    def identities(self):
        """The tables as hot-key lists of this bundle name them."""
        key_paths = {s["name"]: s.get("data") for s in self._key_entries}
        return identities(self, {name: (t.get("data"), key_paths.get(t.get("keys"))) for name, t in self._table_info.items()}, self.hash_of)

    @property
    def hot_lists(self):
        """name -> hot-key list (hot_keys.py) of the tables that have one."""
        path = self.manifest.get("hot_keys")
        return unpack(self.array(path).tobytes(), self.identities(), path) if path else {}

    def _need(self, path, shape, dtype, what):
        info = self.data_sets.get(path)
        if info is None:
            raise BundleError(f"{what}: data set {path} is missing")
        if tuple(info["shape"]) != tuple(shape) or info["dtype"] != np.dtype(dtype):
            raise BundleError(f"{what}: data set {path} is {info['dtype']} {list(info['shape'])}, "
                              f"expected {np.dtype(dtype)} {list(shape)}")

    def _read_graph(self):
        params = {}
        for path, info in self.data_sets.items():
            if path.startswith("/params/"):
                self._need(path, info["shape"], "<f4", "parameter")
                params[path[len("/params/"):]] = info["shape"]
        self.graph = Graph({f["name"]: f for f in self.features}, self._table_info, params)
        for op in self.manifest["ops"]:
            self.graph.add(op)
        minor = minor_of((), (), self.manifest["ops"])
        if minor > self.version_minor:
            later = next(op for op in self.manifest["ops"] if minor_of((), (), [op]) == minor)
            raise BundleError(f"op '{later.get('name')}' ({later['op']}): needs format 2.{minor}, the file says 2.{self.version_minor}")
        check_heads(self.graph, self.heads)

    # -- what Builder offers too --------------------------------------------------------------------------------------
    @property
    def tables(self):
        """Table dicts in order."""
        return [{k: t[k] for k in TABLE_KEYS if k in t} for t in self._table_info.values()]

    @property
    def ops(self):
        """Op dicts in order."""
        return self.graph.ops

    def shape(self, value):
        """Dims of a value without the row axis; None for ids."""
        return self.graph.shape(value)

    def space(self, value):
        """Row space of a value."""
        return self.graph.space(value)

    def manifest_provenance(self):
        """Provenance of the manifest."""
        return self.manifest.get("provenance", {})

    def array(self, path):
        """A data set's content."""
        info = self.data_sets.get(path)
        if info is None:
            raise BundleError(f"data set {path} is missing")
        return self.read_rows(path, 0, info["shape"][0])

    def read_rows(self, path, first, n):
        """Rows [first, first + n) of a data set."""
        info = self.data_sets[path]
        shape = (n, *info["shape"][1:])
        size = int(np.prod(shape, dtype=np.int64)) * info["dtype"].itemsize
        if not size:
            return np.empty(shape, info["dtype"])
        row_bytes = info["bytes"] // info["shape"][0]
        data = os.pread(self._file.fileno(), size, info["offset"] + first * row_bytes) if size < 1 << 20 else b""
        if len(data) != size:  # more than one read gives
            data = b"".join(digest.chunks(self._file, info["offset"] + first * row_bytes, info["offset"] + first * row_bytes + size))
        return np.frombuffer(data, info["dtype"]).reshape(shape).copy()

    def _rows_at(self, path, ids):
        """Rows of a data set by their numbers: all of a small one, else those that are asked for."""
        info = self.data_sets[path]
        if info["bytes"] <= 64 << 20:
            return self.array(path)[ids]
        ids = np.asarray(ids)
        unique, where = np.unique(ids, return_inverse=True)
        out = np.empty((len(unique), *info["shape"][1:]), info["dtype"])
        begins = np.flatnonzero(np.diff(unique, prepend=unique[:1] - 2) != 1)
        for at, end in zip(begins, [*begins[1:], len(unique)]):  # runs of neighbours
            out[at:end] = self.read_rows(path, int(unique[at]), int(end - at))
        return out[where].reshape(*ids.shape, *info["shape"][1:])

    def param(self, name):
        """A parameter, f32."""
        return self.array(f"/params/{name}")

    def table(self, name):
        """All rows of a table as float32."""
        t = self._table_info[name]
        return self.gather(name, np.arange(t["rows"]))

    def gather(self, table, ids):
        """float32 rows of a table; reads no other rows."""
        t = self._table_info[table]
        if t.get("external"):
            raise BundleError(f"table '{table}' is external: its rows are not in the bundle")
        stored = self._rows_at(t["data"], ids)
        return decode(stored, t["dtype"], [self._rows_at(t[role], ids) for role in ROW_TYPES[t["dtype"]].scalars], t["dim"])

    def table_source(self, name):
        """The stored blocks of a table, for rewriting it as it is."""
        return _StoredBlocks(self, self._table_info[name])

    def decoded_blocks(self, name):
        """float32 blocks of a table, in order."""
        t = self._table_info[name]
        step = max(1, BLOCK_BYTES // (4 * t["dim"]))
        for at in range(0, t["rows"], step):
            yield self.gather(name, np.arange(at, min(at + step, t["rows"])))

    @property
    def golden(self):
        """{"n", "rows": Rows, "value", "logit" or None, "tolerance", "tolerances": {"value", "logit"} by row or None,
        "raw": {feature: cells} or None}, or None."""
        spec = self.manifest.get("golden")
        if not spec or not spec["rows"] or self._golden is not None:
            return self._golden
        have = {name: self.array(f"/golden/{name}") for name in ROW_SETS if f"/golden/{name}" in self.data_sets}
        value = self.array("/golden/value")
        logit = self.array("/golden/logit") if "/golden/logit" in self.data_sets else None
        tolerances = {k: self.array(f"/golden/{k}_tolerance") for k in ("value", "logit") if f"/golden/{k}_tolerance" in self.data_sets}
        if tolerances and set(tolerances) != ({"value"} if logit is None else {"value", "logit"}):
            raise BundleError("/golden/value_tolerance, /golden/logit_tolerance: expected one per golden value and logit")
        raw = read_raw(spec, {k: self.array(f"/golden/{k}") for k in RAW_SETS}) if spec.get("raw") else None
        rows = Rows(n=spec["rows"], **have)
        self._golden = {"n": spec["rows"], "rows": rows, "value": value, "logit": logit,
                        "tolerance": spec.get("tolerance", 1e-5), "tolerances": tolerances or None, "raw": raw}
        return self._golden

    @property
    def golden_spec(self):
        """Golden rows as Builder.golden takes them."""
        g = self.golden
        return g and {**{k: g[k] for k in ("rows", "value", "logit", "raw")}, "tolerance": g["tolerances"] or g["tolerance"]}

    def verify_digests(self, progress=None):
        """Checks digest and hash of every extent; raises BundleError naming the data set."""
        names = {i["offset"]: p for p, i in self.data_sets.items()}
        total, done = sum(e[1] for e in self.extents), 0
        for offset, size, want, want_hash in self.extents:
            state, tree = xxhash.xxh3_64(), TreeHash(DATA)
            for data in digest.chunks(self._file, offset, offset + size):
                state.update(data)
                tree.update(data)
            if state.intdigest() != want:
                raise BundleError(f"{self.path}: digest of {names[offset]}: the data is damaged")
            if tree.digest() != want_hash:
                raise BundleError(f"{self.path}: hash of {names[offset]}: the data is not what the user block states")
            done += size
            if progress:
                progress(done, total, "digests")
        for s in self._key_entries:
            for _ in () if s.get("external") else self.key_blocks(s["name"]):
                pass  # rising, each once
        self.hot_lists  # of these tables, in order
        return len(self.extents)

    def content_digest(self):
        """XXH3-64 of the user block: changes with any byte of the bundle."""
        self._file.seek(0)
        return xxhash.xxh3_64_intdigest(self._file.read(self.u))


class _StoredBlocks:
    def __init__(self, bundle, info):
        self._bundle, self._info = bundle, info

    def blocks(self):
        """(first row, stored block, scalars)."""
        t, b = self._info, self._bundle
        step = max(1, BLOCK_BYTES // (4 * t["dim"]))
        for at in range(0, t["rows"], step):
            n = min(step, t["rows"] - at)
            yield at, b.read_rows(t["data"], at, n), tuple(b.read_rows(t[role], at, n) for role in ROW_TYPES[t["dtype"]].scalars)
