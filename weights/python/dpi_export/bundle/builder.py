"""Builder: describes a model (features, tables, ops, heads, golden rows) and writes it as a bundle. numpy only.

    b = Builder("ctr")
    b.categorical("item", vocab_size=1000, out_of_range="oov", oov_id=999)
    x = b.embed(b.input("item"), b.table("item", weights))
    logit = b.linear(x, w, bias)
    b.head("ctr", b.sigmoid(logit), logit=logit)
    b.write("ctr.h5")
"""

import numpy as np
import xxhash

from .. import schema
from ..encoding.encoder import Encoder
from ..errors import BundleError, check_name, dataset_name
from ..ops.graph import Graph, check_heads
from .hot_keys import hot_list
from .keyed_tables import KeyedSource, KeySet, check_external, check_key_set, check_links, external_entry
from ..ops.api import OpsApi
from .raw_golden import as_lists
from .rows import Rows
from .tables import TableSource

VERSION = "1.2.0"


class Builder(OpsApi):
    """One model under construction. Every call checks at once and raises BundleError; op calls return the op's name."""

    def __init__(self, name):
        check_name("model", name)
        self.name = name
        self._features, self._sources, self._table_info, self._params, self._param_of = {}, {}, {}, {}, {}
        self._key_sets, self._key_finders = {}, {}
        self.hot_lists = {}
        self.heads, self._golden, self._provenance = [], None, {}
        self._param_shapes = {}
        self.graph = Graph(self._features, self._table_info, self._param_shapes)
        self._n_auto = {}
        self.unsure = set()  #: names of ops that the framework itself rounds in two ways (trace/lower_math.py, fused)

    # -- features -----------------------------------------------------------------------------------------------------
    def categorical(self, name, vocab_size=None, out_of_range="error", oov_id=None, missing="error", pad_id=None, default_id=None,
                    missing_id=None, space="item", encoder=None, stats=None, keys=None):
        """A feature with one id per row: 0 .. vocab_size-1, or with `keys` (a key set's name) any int64."""
        return self._feature("categorical", name, vocab_size=vocab_size, out_of_range=out_of_range, oov_id=oov_id,
                             missing=missing, pad_id=pad_id, default_id=default_id, missing_id=missing_id, space=space,
                             encoder=encoder, stats=stats, keys=keys)

    def sequence(self, name, vocab_size=None, max_len=0, keep="first", pad_side="post", weighted=False, out_of_range="error",
                 oov_id=None, missing="error", pad_id=None, default_id=None, missing_id=None, space="item", encoder=None,
                 stats=None, keys=None):
        """A feature with an ordered bag of ids per row; `keys` as in categorical()."""
        return self._feature("sequence", name, vocab_size=vocab_size, max_len=max_len, keep=keep, pad_side=pad_side,
                             weighted=weighted, out_of_range=out_of_range, oov_id=oov_id, missing=missing, pad_id=pad_id,
                             default_id=default_id, missing_id=missing_id, space=space, encoder=encoder, stats=stats,
                             keys=keys)

    def numeric(self, name, missing="error", default=0.0, space="item", encoder=None, stats=None):
        """A feature with one float per row."""
        return self._feature("numeric", name, missing=missing, default=default, space=space, encoder=encoder, stats=stats)

    def dense(self, name, dim, missing="error", default=0.0, space="item", encoder=None, stats=None):
        """A feature with `dim` floats per row."""
        return self._feature("dense", name, dim=dim, missing=missing, default=default, space=space, encoder=encoder,
                             stats=stats)

    def _feature(self, kind, name, **keys):
        feature = schema.make_feature(kind, name, **keys)
        if name in self._features:
            raise BundleError(f"feature '{name}' is defined twice")
        encoder = feature.get("encoder")
        if encoder is not None:
            feature["encoder"] = Encoder.of(encoder)
            feature["encoder"].check(feature)
        self._features[name] = feature
        return name

    @property
    def features(self):
        """Feature dicts in order (keys of FORMAT.md part 4; `encoder` is an Encoder object)."""
        return list(self._features.values())

    # -- tables and parameters ----------------------------------------------------------------------------------------
    def table(self, name, values, dtype="f32", rows=None, dim=None):
        """Adds an embedding table: an array [rows, dim], or with rows and dim given an iterator (or a callable that returns
        one) of row blocks, so that memory stays flat. i8 is quantised per row. Returns the table's name."""
        return self._add_table(TableSource(name, values, dtype, rows, dim))

    def _add_table(self, source, **more):
        if source.name in self._table_info:
            raise BundleError(f"table '{source.name}' is defined twice")
        self._sources[source.name], self._table_info[source.name] = source, {**source.info(), **more}
        return source.name

    def keyed_table(self, name, keys, values, default=None, dtype="f32", count=None, dim=None, key_set=None):
        """Adds a table whose rows are found by 64-bit keys: int64 keys [n], each once, and rows [n, dim] in the same order; or keys=None,
        count, dim and an iterator (or a callable that returns one) of (keys, rows) blocks with rising keys, so that memory stays flat.
        `default`: the row of keys that are absent, zeros unless given. `key_set`: the set's name, by default the table's; tables of one
        set have the same keys, and features name it (categorical(..., keys=...)). Returns the table's name."""
        source = KeyedSource(name, keys, values, default, dtype, count, dim)
        key_set = name if key_set is None else key_set
        check_name("key set", key_set)
        known = self._key_sets.setdefault(key_set, {"name": key_set, "keys": source.rows - 1})
        if known.get("external") or known["keys"] != source.rows - 1:
            raise BundleError(f"table '{name}': {source.rows - 1} keys, key set '{key_set}' "
                              + ("is external" if known.get("external") else f"has {known['keys']}"))
        return self._add_table(source, keys=key_set)

    def external_table(self, name, dim, dtype="f32", rows=None, digest=None, default=None, key_set=None, count=None):
        """Declares a table whose rows are not in the bundle: its form, and what tells that the right rows were found elsewhere (`digest`,
        64 hex digits). `key_set`: its rows are found by keys, of which there are `count` (None: not known)."""
        entry = external_entry(name, dim, dtype, rows, digest, default, key_set)
        check_external(entry)
        if name in self._table_info:
            raise BundleError(f"table '{name}' is defined twice")
        if key_set is not None:
            keyed = {"name": key_set, "external": True, **({} if count is None else {"keys": int(count)})}
            check_key_set(keyed)
            if self._key_sets.setdefault(key_set, keyed) != keyed:
                raise BundleError(f"table '{name}': key set '{key_set}' is defined in another way")
        self._table_info[name] = entry
        return name

    def hot_keys(self, table, keys, counts, lookups=None):
        """How often rows of a table were looked up, in training data say: engines with a host tier begin with the hottest. `keys`: row
        numbers, of a keyed table by rising key (then the default row, then padding), of an external keyed one raw keys; any order, each
        once. `lookups`: of any row of it, the sum of the counts unless given. Changes no score."""
        if table not in self._table_info:
            raise BundleError(f"hot keys: there is no table '{table}'")
        self.hot_lists[table] = hot_list(table, keys, counts, lookups)

    @property
    def key_sets(self):
        """Key set dicts in order."""
        return list(self._key_sets.values())

    def key_blocks(self, name):
        """None: the keys of a set come with the rows of its tables."""
        return None

    def key_set(self, name):
        """The KeySet of this name."""
        if name not in self._key_finders:
            keys = next((s.keys for t, s in self._sources.items() if self._table_info[t].get("keys") == name), None)
            if keys is None:
                raise BundleError(f"key set '{name}': its keys can be read after writing only")
            self._key_finders[name] = KeySet(name, keys)
        return self._key_finders[name]

    @property
    def tables(self):
        """Table dicts in order."""
        return list(self._table_info.values())

    def table_source(self, name):
        """The TableSource of a table."""
        return self._sources[name]

    def _param(self, op_name, role, array):
        """Stores a parameter once per content and returns its name."""
        if hasattr(array, "detach"):
            array = array.detach().cpu().numpy()
        array = np.asarray(array)
        if array.dtype.kind not in "fiub" or array.size == 0 or not 1 <= array.ndim <= 5:
            raise BundleError(f"op '{op_name}': parameter {role} has type {array.dtype} and shape {list(array.shape)}, "
                              "expected floats of 1 to 5 dims")
        with np.errstate(over="ignore"):
            array = np.ascontiguousarray(array, dtype="<f4")
        if not np.isfinite(array).all():
            raise BundleError(f"op '{op_name}': parameter {role} holds a value that is not finite in float32")
        key = (array.shape, xxhash.xxh3_64_intdigest(array.tobytes()))
        same = self._param_of.get(key)
        if same is not None and np.array_equal(self._params[same], array):
            return same
        base = name = dataset_name(op_name)[:180] + "." + role
        n = 1
        while name in self._params:
            n += 1
            name = f"{base}.{n}"
        self._params[name], self._param_shapes[name], self._param_of[key] = array, array.shape, name
        return name

    # -- ops ----------------------------------------------------------------------------------------------------------
    def op(self, kind, inputs=(), attrs=None, params=None, name=None, module=None):
        """Adds any op by its dict parts; `params`: role -> array. The named calls below are this one with less writing."""
        name = name or self._auto_name(kind, module)
        check_name("op", name)
        attrs = {k: _plain(v) for k, v in (attrs or {}).items() if v is not None}
        op = {"name": name, "op": kind, "v": 1, "in": list(inputs), "attrs": attrs}
        stored = {role: self._param(name, role, a) for role, a in (params or {}).items() if a is not None}
        if stored:
            op["params"] = stored
        if module:
            op["module"] = module
        return self.graph.add(op)

    def _auto_name(self, kind, module):
        base = (f"{module}/" if module else "") + kind.lower()
        while True:
            n = self._n_auto.get(base, 0)
            self._n_auto[base] = n + 1
            if f"{base}_{n}" not in self.graph:
                return f"{base}_{n}"

    @property
    def ops(self):
        """Op dicts in order."""
        return self.graph.ops

    def param(self, name):
        """A stored parameter, f32."""
        return self._params[name]

    def gather(self, table, ids):
        """float32 rows of a table as a reader will see them."""
        if table not in self._sources:
            raise BundleError(f"table '{table}' is external: its rows are not here")
        return self._sources[table].gather(ids)

    def shape(self, value):
        """Dims of a value without the row axis; None for ids."""
        return self.graph.shape(value)

    def space(self, value):
        """Row space of a value: item, shared or constant."""
        return self.graph.space(value)

    # -- heads, provenance, golden rows, writing ----------------------------------------------------------------------
    def head(self, name, value, logit=None, activation="sigmoid"):
        """Declares an output: `value` (one float per row) and optionally the value before its activation."""
        head = {"name": name, "value": value}
        if logit is not None:
            head["logit"] = logit
        head["activation"] = activation
        check_heads(self.graph, self.heads + [head])
        self.heads.append(head)
        return name

    def provenance(self, **keys):
        """Adds provenance keys: framework, data, metrics, created (a text; no time is stored unless given) ..."""
        self._provenance.update(keys)

    def golden(self, rows, value=None, logit=None, tolerance=None, raw=None):
        """Golden rows: inputs and what the training framework computed, [rows] or [rows, heads]. Without `value` the package's
        own executor fills both in while writing. `tolerance`: of |score - golden| / max(1, |golden|), one number, or
        {"value": .., "logit": ..} with one per row and head; None: 1e-5, and without `value` more for rows that float32 cannot hold.
        `raw`: {feature: cells} as data files hold them, for the last of the rows: with them verify checks the encoders too. A cell is a
        text or number, None where it is missing, for a sequence a text that its splitter takes apart or a list of elements. Columns are lists,
        arrays or pandas Series, or all of them a DataFrame."""
        if not isinstance(rows, Rows):
            raise BundleError("golden: rows must be a dpi_export.Rows")
        if value is None and logit is not None:
            raise BundleError("golden: logit is given without value")
        self._golden = {"rows": rows, "value": value, "logit": logit, "tolerance": tolerance, "raw": as_lists(raw)}

    def manifest_provenance(self):
        """Provenance as the manifest will hold it."""
        return {"exporter": f"dpi-export {VERSION}", **self._provenance}

    @property
    def golden_spec(self):
        """The golden rows as given (dict of rows, value, logit, tolerance), or None."""
        return self._golden

    def write(self, path, progress=None, check=True, sign=None):
        """Writes the bundle. `progress(done, total, text)` is called between blocks. `check`: "numpy" (True) runs the golden
        rows through the package's executor on the written tables first, "engine" then through the engine as well, by the package dpi;
        a mismatch raises with the numbers and leaves no file. None (False) writes unchecked. `sign`: a key file of
        `dpi keygen`; the bundle is signed before it appears under its name."""
        from .writer import write_bundle
        check_heads(self.graph, self.heads)
        check_links(self.key_sets, self.features, self.tables)
        return write_bundle(self, path, progress=progress, check=check, sign=sign)


def _plain(value):
    """numpy scalars and tuples as plain JSON values."""
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_plain(v) for v in value]
    return value.item() if isinstance(value, np.generic) else value
