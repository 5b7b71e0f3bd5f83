"""Bundle: reads a bundle file in Python, for inspect, verify, convert and tests. The engine's own reader is sdk/src/bundle."""

import json
import os

import h5py
import numpy as np
import xxhash

from . import digest, schema
from .encoders import Encoder
from .errors import BundleError, dataset_name
from .graph import Graph, check_heads
from .profile import check_profile
from .raw_golden import read_raw
from .rows import Rows
from .tables import BLOCK_BYTES, STORED, decode

_SECTIONS = ("features", "tables", "ops", "heads")


class Bundle:
    """An open bundle. Opening checks user block, digest of the other bytes, HDF5 profile and manifest, not the raw data."""

    def __init__(self, path):
        self.path = os.fspath(path)
        try:
            self._file = open(self.path, "rb")
        except OSError as e:
            raise BundleError(f"{self.path}: {e.strerror}") from None
        try:
            self._open()
        except BundleError as e:
            self._file.close()
            raise BundleError(f"{self.path}: {e}") from None
        except (KeyError, TypeError, AttributeError, ValueError, RecursionError, OSError) as e:
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
        self.length = os.path.getsize(self.path)
        self.u, _, self.extents, self.digest, _, self.version_minor = digest.unpack(self._file, self.length)
        with h5py.File(self.path, "r") as h5:
            self.data_sets = check_profile(h5, self.extents)
            if "/manifest" not in self.data_sets:
                raise BundleError("/manifest is missing")
            text = h5["/manifest"][()].tobytes()
        try:
            self.manifest = json.loads(text.decode("utf-8"))
        except ValueError as e:
            raise BundleError(f"/manifest: not UTF-8 JSON: {e}") from None
        self._check_manifest()
        self.name = self.manifest.get("name", "")
        self.heads = self.manifest["heads"]
        self._read_features()
        self._read_tables()
        self._read_graph()
        self._golden = None

    def _check_manifest(self):
        m = self.manifest
        if not isinstance(m, dict) or m.get("format") != "dpi-bundle":
            raise BundleError("/manifest: format is not dpi-bundle")
        if not isinstance(m.get("version"), list) or m["version"][:1] != [1]:
            raise BundleError(f"/manifest: version {m.get('version')}, expected [1, x]")
        for key in _SECTIONS:
            if not isinstance(m.get(key), list) or not all(isinstance(e, dict) for e in m[key]):
                raise BundleError(f"/manifest: {key} is not a list of objects")

    def _read_features(self):
        self.features = []
        for entry in self.manifest["features"]:
            feature = dict(entry)
            schema.check_feature(feature)
            if feature.get("encoder") is not None:
                given = feature["encoder"]
                if set(given) - {"steps", "splitter", "missing_element"}:
                    raise BundleError(f"feature '{feature['name']}', encoder: a key of {sorted(given)} is not known")
                steps = [{k: self.array(v) if k in ("bytes", "offsets", "ids", "keys") else v for k, v in s.items()}
                         for s in given.get("steps", [])]
                feature["encoder"] = Encoder(steps, given.get("splitter"), given.get("missing_element"))
                feature["encoder"].check(feature)
            self.features.append(feature)
        schema.Schema(self.features)

    def _read_tables(self):
        self._table_info = {}
        for t in self.manifest["tables"]:
            name = t.get("name")
            if set(t) - {"name", "rows", "dim", "dtype", "data", "scale"}:
                raise BundleError(f"table '{name}': key '{sorted(set(t) - {'name', 'rows', 'dim', 'dtype', 'data', 'scale'})[0]}'"
                                  " is not known")
            if t.get("dtype") not in STORED:
                raise BundleError(f"table '{name}': dtype {t.get('dtype')!r} is not known")
            if name in self._table_info:
                raise BundleError(f"table '{name}' is defined twice")
            data = t.get("data", f"/tables/{dataset_name(name)}")
            self._need(data, (t["rows"], t["dim"]), STORED[t["dtype"]], f"table '{name}'")
            if t["dtype"] == "i8":
                self._need(t.get("scale"), (t["rows"],), "<f4", f"scale of table '{name}'")
            self._table_info[name] = {**t, "data": data}

    def _need(self, path, shape, dtype, what):
        info = self.data_sets.get(path)
        if info is None:
            raise BundleError(f"{what}: data set {path} is missing")
        if tuple(info["shape"]) != tuple(shape) or info["dtype"] != np.dtype(dtype):
            raise BundleError(f"{what}: data set {path} is {info['dtype']} {list(info['shape'])}, "
                              f"expected {np.dtype(dtype)} {list(shape)}")

    def _read_graph(self):
        params = {p[len("/params/"):]: i["shape"] for p, i in self.data_sets.items() if p.startswith("/params/")}
        self.graph = Graph({f["name"]: f for f in self.features}, self._table_info, params)
        for op in self.manifest["ops"]:
            self.graph.add(op)
        check_heads(self.graph, self.heads)

    # -- what Builder offers too --------------------------------------------------------------------------------------
    @property
    def tables(self):
        """Table dicts in order."""
        return [{k: t[k] for k in ("name", "rows", "dim", "dtype")} for t in self._table_info.values()]

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
        if info["offset"] is None:
            return np.empty(info["shape"], info["dtype"])
        return np.array(self._map(info))

    def _map(self, info):
        return np.memmap(self.path, dtype=info["dtype"], mode="r", offset=info["offset"], shape=tuple(info["shape"]))

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
        stored = self._map(self.data_sets[t["data"]])[ids]
        scales = self._map(self.data_sets[t["scale"]])[ids] if t["dtype"] == "i8" else None
        return decode(stored, t["dtype"], scales)

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
        if spec is None or self._golden is not None:
            return self._golden
        have = {p[len("/golden/"):]: self.array(p) for p in self.data_sets if p.startswith("/golden/")}
        value, logit = have.pop("value"), have.pop("logit", None)
        cells = {k: have.pop(k) for k in ("raw_cells", "raw_texts", "raw_bytes") if k in have}
        raw = read_raw(spec, cells) if spec.get("raw") else None
        if value.shape != (spec["rows"], len(self.heads)) or (logit is not None and logit.shape != value.shape):
            raise BundleError(f"/golden/value has shape {list(value.shape)}, expected [{spec['rows']}, {len(self.heads)}]")
        tolerances = {k: have.pop(f"{k}_tolerance") for k in ("value", "logit") if f"{k}_tolerance" in have}
        if any(t.shape != value.shape for t in tolerances.values()) or ("logit" in tolerances and logit is None) or len(tolerances) == 1 \
                and logit is not None:
            raise BundleError("/golden/value_tolerance, /golden/logit_tolerance: expected one per golden value and logit")
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
        """Checks the digest of every extent; raises BundleError naming the data set."""
        names = {i["offset"]: p for p, i in self.data_sets.items()}
        total, done = sum(e[1] for e in self.extents), 0
        for offset, size, want in self.extents:
            if digest.digest_range(self._file, offset, offset + size).intdigest() != want:
                raise BundleError(f"{self.path}: digest of {names.get(offset, f'extent at {offset}')}: the data is damaged")
            done += size
            if progress:
                progress(done, total, "digests")
        return len(self.extents)

    def content_digest(self):
        """XXH3-64 of the user block: changes with any byte of the bundle."""
        self._file.seek(0)
        return xxhash.xxh3_64_intdigest(self._file.read(self.u))


class _StoredBlocks:
    def __init__(self, bundle, info):
        self._bundle, self._info = bundle, info

    def blocks(self):
        """(first row, stored block, scales or None)."""
        t, b = self._info, self._bundle
        data = b._map(b.data_sets[t["data"]])
        scales = b._map(b.data_sets[t["scale"]]) if t["dtype"] == "i8" else None
        step = max(1, BLOCK_BYTES // (4 * t["dim"]))
        for at in range(0, t["rows"], step):
            yield at, np.array(data[at:at + step]), None if scales is None else np.array(scales[at:at + step])
