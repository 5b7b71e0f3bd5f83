"""Model: a loaded bundle, and everything that is asked of it."""

import collections.abc
import json
import os
import warnings
from typing import Any, Dict, List, Mapping, Optional, Tuple, Union

import numpy as np

from . import _native, arrays
from .arrays import Cancel, Shared, deadline_of
from .env import Env
from .errors import invalid, make
from .handle import Closing
from .library import text_of
from .raw import listed, no_feature, type_name
from .rows import Rows
from .schema import DENSE, NUMERIC, Feature, Info, read_features, read_info

LAYOUTS = {"row_major": _native.DPI_LAYOUT_ROW_MAJOR, "slot_major": _native.DPI_LAYOUT_SLOT_MAJOR}
_predict = _native.dpi_py_predict
_table_lookup = _native.dpi_py_table_lookup
Result = Union[np.ndarray, Tuple[np.ndarray, np.ndarray]]


def _option_text(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else os.fsdecode(value) if isinstance(value, os.PathLike) else str(value)


def made_options(env: Optional[Env], options: Mapping[str, Any]) -> int:
    """The address of a dpi_options, which the caller frees."""
    held = _native.dpi_options_create()
    if not held:
        raise make(_native.DPI_E_OUT_OF_MEMORY, message="no memory for the options")
    try:
        for key, value in options.items():
            _native.dpi_options_set(held, key, _option_text(value))
        if env is not None:
            env.give_to(held)
        return held
    except BaseException:
        _native.dpi_options_free(held)
        raise


class Model(Closing):
    """A loaded bundle, immutable. All methods may be called from any number of threads at once; the GIL is released while the library
    loads and scores. Close it, or use it in a `with` statement.

        with dpi.Model("ctr.h5", threads=4) as model:
            scores = model.predict(ids, dense)                       # [rows, heads] float32
            scores = model.predict_raw({"age": [39, 50], "job": ["clerk", None]})

    path      of the bundle
    env       an Env; None = the process's
    warm_up   int, runs batches of up to so many rows through every context while loading
    cancel    a Cancel that ends the load
    options   {key: value} of dpi_options_set, and the same as keywords: device="cpu", max_rows=512. True and False are "on" and
              "off", a list is joined by commas; keys with a dot, "debug.fuse", fit into `options` only

    After a fork the child gets Forked from its parent's models and loads its own.
    """

    def __init__(self, path: Union[str, "os.PathLike[str]"], *, env: Optional[Env] = None, warm_up: int = 0,
                 cancel: Optional[Cancel] = None, options: Optional[Mapping[str, Any]] = None, **more: Any) -> None:
        name = os.fsencode(path)
        self._load(lambda held: _native.dpi_model_load(name, held), env, warm_up, cancel, {**(options or {}), **more})

    @classmethod
    def _of(cls, handle: int) -> "Model":
        """A model over a handle, which it owns from now on."""
        model = cls.__new__(cls)
        model._take(handle)
        return model

    @classmethod
    def from_bytes(cls, bundle: Any, *, env: Optional[Env] = None, warm_up: int = 0, cancel: Optional[Cancel] = None,
                   options: Optional[Mapping[str, Any]] = None, **more: Any) -> "Model":
        """A model from a bundle in memory: bytes, or anything that bytes() copies."""
        held_bytes = bundle if type(bundle) is bytes else bytes(bundle)
        model = cls.__new__(cls)
        model._load(lambda held: _native.dpi_model_load_memory(held_bytes, len(held_bytes), held), env, warm_up, cancel,
                    {**(options or {}), **more})
        return model

    def _load(self, call: Any, env: Optional[Env], warm_up: int, cancel: Optional[Cancel], options: Mapping[str, Any]) -> None:
        held = made_options(env, options)
        try:
            if cancel is not None:
                _native.dpi_options_set_progress(held, None, None, cancel.address())
            handle = call(held)
        finally:
            _native.dpi_options_free(held)
        self._take(handle)
        try:
            if warm_up:
                self.warm_up(warm_up)
        except BaseException:
            self.close()
            raise

    def _take(self, handle: int) -> None:
        """Owns the handle from now on."""
        self._cell, self._open = 0, False
        try:
            self._cell = _native.dpi_py_cell_make(handle)
        except BaseException:
            _native.dpi_model_free(handle)
            raise
        self._open = True
        self.info: Info = read_info(handle)  #: sizes; also after close()
        self.features: Tuple[Feature, ...] = read_features(handle, self.info.features)  #: in schema order
        self.heads: Tuple[str, ...] = tuple(_native.dpi_model_head_name(handle, i) for i in range(self.info.heads))  #: scores of a row
        self._by_name = {f.name: f for f in self.features}

    # ---- scoring ----
    def predict(self, ids: Any = None, dense: Any = None, *, offsets: Any = None, weights: Any = None, shared: Optional[Shared] = None,
                rows: int = -1, layout: str = "row_major", out: Optional[np.ndarray] = None, logits: Any = None,
                timeout: Optional[float] = None, cancel: Optional[Cancel] = None) -> Result:
        """Scores encoded rows: [rows, heads] float32, or (scores, logits) where logits are asked for.

        ids      [rows, slots] int64, one id per slot in schema order; with offsets [nnz]
        dense    [rows, dense_dim] float32, NaN = missing; may have a stride between rows
        offsets  [rows * slots + 1] int64: bag b is ids[offsets[b]:offsets[b+1]], b = row * slots + slot; None = one id per bag
        weights  one float32 per id, for weighted features; None = 1
        shared   a Shared; ids and dense then hold item features only
        rows     int, where the arrays do not tell it
        layout   "row_major", or "slot_major": ids [slots, rows], bag = slot * rows + row
        out      [rows, heads] float32 (or those floats in one dimension), contiguous, to write to; None = a new array
        logits   True for a new array, or one like out: values before the heads' activations, NaN for a head without logit
        timeout  seconds, then Timeout; looked at on entry, while waiting, between chunks
        cancel   a Cancel

        Contiguous arrays of these types are read where they lie; others are converted first. They must not change during the call.
        """
        order = 0 if layout == "row_major" else LAYOUTS.get(layout, -1)
        parts, rest = (None, None, None, None, None), (out, logits, None, None)
        if shared is None and timeout is None and cancel is None:  # 0.2 us less for most calls; a small model's row takes 2
            result = _predict(self._cell, rows, ids, dense, offsets, weights, order, out, logits)
        else:
            if shared is not None:
                parts = (shared.offsets, shared.ids, shared.dense, shared.bag_offsets, shared.weights)
            rest = (out, logits, deadline_of(timeout), None if cancel is None else cancel.flag)
            result = _predict(self._cell, rows, ids, dense, offsets, weights, order, *parts, *rest)
        if result is NotImplemented:
            result = self._converted((ids, dense, offsets, weights), parts, (rows, order), rest)
        return result

    def _converted(self, item: tuple, parts: tuple, sizes: tuple, rest: tuple) -> Result:
        """predict again, with arrays of the library's types."""
        for what, value in (("ids", item[0]), ("dense", item[1])):
            if isinstance(value, collections.abc.Mapping):
                raise self._no_columns(what, value)

        def part(values: tuple, prefix: str) -> tuple:
            ids, dense, offsets, weights = values
            return (arrays.integers(prefix + "ids", ids), arrays.floats(prefix + "dense", dense),
                    arrays.integers(prefix + "offsets", offsets), arrays.floats(prefix + "weights", weights))

        starts = arrays.integers("shared offsets", parts[0])
        result = _predict(self._cell, sizes[0], *part(item, ""), sizes[1], starts, *part(parts[1:], "shared "), *rest)
        if result is NotImplemented:
            raise make(_native.DPI_E_INTERNAL, message="arrays stayed of another form")
        return result

    def _no_columns(self, what: str, value: Any) -> Exception:
        """predict got columns by name, which predict_raw takes."""
        unknown = [name for name in value if name not in self._by_name]
        if unknown:
            return no_feature(self.features, unknown[0], f"; {what} is an array, columns by feature go to predict_raw")
        of_ids = what == "ids"
        names = [f.name for f in self.features if (f.kind not in (NUMERIC, DENSE)) == of_ids]
        shape, kind = (f"[rows, {self.info.slots}]", "int64") if of_ids else (f"[rows, {self.info.dense_dim}]", "float32")
        return invalid(f"{what}: a {type_name(value)} with {listed(list(value))}, expected an array {shape} of {kind} for "
                       f"{listed(names) or 'no feature'}; columns by feature go to predict_raw")

    def predict_raw(self, columns: Any, *, shared: Any = None, shared_offsets: Any = None, extra: str = "refuse",
                    out: Optional[np.ndarray] = None, logits: Any = None, timeout: Optional[float] = None,
                    cancel: Optional[Cancel] = None) -> Result:
        """Scores raw values with the bundle's own encoders: [rows, heads] float32, or (scores, logits).

        columns         {feature: column}, a pandas DataFrame, or a list of {feature: value} dicts, one per row. A feature without
                        column is missing. A column is a list, an array or a Series with one value per row; for a sequence also
                        (values, offsets) or (values, offsets, weights), for a dense feature [rows, dim]. Values as Rows.set has them
        shared          the shared (user) features in the same forms, one value per shared row
        shared_offsets  [shared_rows + 1]: rows offsets[s] .. offsets[s+1]-1 belong to shared row s; None = one shared row for all
        extra           "refuse" raises NotFound for columns that are no feature, "ignore" leaves them out
        out, logits, timeout, cancel  as in predict

        Encoding holds the GIL, scoring releases it.
        """
        with self.rows() as rows:
            rows.extend(columns, shared=shared, shared_offsets=shared_offsets, extra=extra)
            return rows.predict(out=out, logits=logits, timeout=timeout, cancel=cancel)

    def rows(self) -> Rows:
        """An empty batch of raw rows, for one that is filled step by step."""
        return Rows(self)

    # ---- embeddings alone ----
    def table_lookup(self, table: str, keys: Any, *, out: Optional[np.ndarray] = None, timeout: Optional[float] = None,
                     cancel: Optional[Cancel] = None) -> np.ndarray:
        """Rows of one table, [n, dim] float32, as the model's own lookups read them: for a dense part that runs elsewhere.

        table  the table's name in the bundle; NotFound if there is none, or no op of the model reads its rows
        keys   [n] int64 or uint64. Where a key set finds the table's rows, any key, and one that it does not hold gives the table's
               default row; a uint64 stands for the int64 of the same bits, as hashes of 64 bits are stored. Else row numbers, and one
               outside the table is InvalidArgument, its `row` the key's number in `keys`
        out    [n, dim] float32 (or those floats in one dimension), contiguous, to write to; None = a new array
        timeout  seconds, then Timeout; looked at on entry and while rows are waited for
        cancel   a Cancel, looked at there too

        A table in the host tier (option store.host_bytes) is read through it, by its policy table.NAME.miss: "exact" waits for rows that
        are late; "default" hands out table.NAME.default in their place, and only the counter `defaulted` under "tiers" of counters()
        tells; "fail" raises NotFound. Contiguous keys of these types are read where they lie; others are converted first. They must not
        change during the call. What fails leaves `out` as it is.
        """
        rest = (out, deadline_of(timeout), None if cancel is None else cancel.flag)
        rows = _table_lookup(self._cell, table, keys, *rest)
        if rows is NotImplemented:
            rows = _table_lookup(self._cell, table, arrays.keys(keys), *rest)
        if rows is NotImplemented:
            raise make(_native.DPI_E_INTERNAL, message="keys stayed of another form")
        return rows

    # ---- what it is ----
    def feature(self, name: str) -> Feature:
        """The feature of that name; NotFound if there is none."""
        found = self._by_name.get(name)
        if found is None:
            raise no_feature(self.features, name)
        return found

    def _json(self, call: Any) -> Any:
        handle = _native.dpi_py_cell_retain(self._cell)
        try:
            text = text_of(lambda buf, cap: call(handle, buf, cap))
        finally:
            _native.dpi_model_free(handle)
        if not text:
            raise make(_native.DPI_E_FORKED, message="the model belongs to the parent process")
        return json.loads(text)

    def schema(self) -> Dict[str, Any]:
        """Features with their slots, columns and rules, heads, provenance: dpi_model_schema_json."""
        return self._json(_native.dpi_model_schema_json)

    def report(self) -> Dict[str, Any]:
        """Device and why it was chosen, options in force, memory by table, the plan: dpi_model_info_json."""
        return self._json(_native.dpi_model_info_json)

    def options(self) -> Dict[str, Any]:
        """The options in force."""
        return self.report()["options"]

    def plan(self) -> Any:
        """How the model is computed, as report() tells it."""
        return self.report()["plan"]

    def counters(self) -> Dict[str, Any]:
        """Counts since the load: calls, rows, errors by code, waits, by feature what was missing, unknown, cut, and by table of the host
        tier what was late or handed out as the default: dpi_model_counters_json."""
        return self._json(_native.dpi_model_counters_json)

    def slow(self) -> List[Dict[str, Any]]:
        """The last 64 calls that took as long as option slow_us says: when, how long each stage took, rows, ids by feature, and no values;
        empty without the option: dpi_model_slow_json."""
        return list(self._json(_native.dpi_model_slow_json))

    def warm_up(self, max_rows: int) -> None:
        """Creates all contexts and runs batches of up to max_rows rows through each, so that no later call pays for a first time."""
        handle = _native.dpi_py_cell_retain(self._cell)
        try:
            _native.dpi_model_warm_up(handle, max_rows)
        finally:
            _native.dpi_model_free(handle)

    # ---- its life ----
    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return not self._open

    def close(self) -> None:
        """Later calls raise Closed. Calls that run in other threads end as they would; the last frees the model. Closing again does
        nothing."""
        if self._open:
            self._open = False
            _native.dpi_py_cell_close(self._cell)

    def __del__(self) -> None:
        if getattr(self, "_cell", 0):
            if self._open:
                warnings.warn(f"{self!r} was not closed", ResourceWarning, source=self)
                self.close()
            _native.dpi_py_cell_free(self._cell)

    def __repr__(self) -> str:
        state = "closed" if self.closed else self.info.device
        return f"<dpi.Model {len(self.features)} features, {len(self.heads)} heads, {state}>"

    def __reduce__(self) -> Any:
        raise TypeError("a Model belongs to its process: load the bundle in the other one")
