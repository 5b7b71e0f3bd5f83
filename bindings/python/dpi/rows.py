"""Rows: a batch of raw values that is filled step by step."""

from typing import Any, Mapping, Optional, Protocol, Tuple

import numpy as np

from . import _native, arrays, raw
from .arrays import Cancel, deadline_of
from .errors import Closed, closed
from .handle import Closing, Use
from .schema import Feature, Info


class _OfModel(Protocol):
    """The parts of a Model that a row batch reads. model.py imports this file, so the class itself is not named here."""

    features: Tuple[Feature, ...]
    info: Info
    _cell: int

    @property
    def closed(self) -> bool:
        """True after close()."""

    def feature(self, name: str) -> Feature:
        """A feature by name."""


class Rows(Closing):
    """Builds a batch from raw values with the bundle's own encoders, so that serving reads values exactly as training did. A feature
    that is not set is missing. clear() keeps the memory for the next batch. Keeps the model's memory until close().

    Calls from several threads run one after another, but rows are built by one at a time.
    """

    def __init__(self, model: _OfModel) -> None:
        self._model = model
        held = _native.dpi_py_cell_retain(model._cell)
        try:
            self._use = Use("row batch", _native.dpi_rows_create(held))
        finally:
            _native.dpi_model_free(held)
        self._setter = raw.Setter(model.features, self._use.address)

    def begin(self) -> "Rows":
        """Starts the next row."""
        with self._use as handle:
            _native.dpi_rows_begin(handle)
        return self

    def begin_shared(self) -> "Rows":
        """Starts the next shared row, before the rows that belong to it; shared features then go there."""
        with self._use as handle:
            _native.dpi_rows_begin_shared(handle)
            self._setter.shared += 1
        return self

    def set(self, feature: str, value: Any) -> "Rows":
        """Sets a feature of the open row by name. An unknown name is NotFound, a value that fits no rule InvalidArgument with row and
        feature; the rules are those of Java and Go:

        - a str is a raw text, a bool the text true or false, None, pandas.NA and NaT are missing
        - an integer of any type is read by its digits, whole, whatever its size; a Decimal by those that it writes
        - a float is read as a quantity, NaN is missing
        - a list, tuple or one-dimensional array is a list of such values: elements of a sequence, or the floats of a dense vector
          without encoder (None is missing). No other feature takes a list, and no list holds a list
        - bytes, dates, sets, dicts and whatever else are refused
        """
        with self._use as handle:
            self._setter.set(handle, self._model.feature(feature), value)
        return self

    def set_all(self, values: Mapping[str, Any]) -> "Rows":
        """set() for every item of a mapping."""
        for name, value in values.items():
            self.set(name, value)
        return self

    def add_text(self, feature: str, value: str, weight: float = 1.0) -> "Rows":
        """Appends one element of a sequence with its weight."""
        with self._use as handle:
            data = value.encode()
            _native.dpi_rows_add_text(handle, self._model.feature(feature).index, data, len(data), weight)
        return self

    def add_integers(self, feature: str, values: Any, weights: Any = None) -> "Rows":
        """Appends raw integers to a sequence, all or none. values: [n] int64; weights: [n] float32 or None."""
        return self._arrays(feature, arrays.integers("values", values), None, weights, True)

    def set_ids(self, feature: str, ids: Any, weights: Any = None) -> "Rows":
        """Sets ids that are encoded already, [n] int64, with one float32 weight each or None; they replace the whole bag."""
        return self._arrays(feature, arrays.integers("ids", ids), None, weights, False)

    def set_floats(self, feature: str, values: Any) -> "Rows":
        """Sets the floats of a numeric or dense feature, [1] or [dim]."""
        return self._arrays(feature, None, arrays.floats("values", values), None, False)

    def _arrays(self, feature: str, ids: Any, floats: Any, weights: Any, as_raw: bool) -> "Rows":
        with self._use as handle:
            _native.dpi_py_rows_arrays(handle, self._model.feature(feature).index, ids, floats, arrays.floats("weights", weights), as_raw)
        return self

    def extend(self, columns: Any, *, shared: Any = None, shared_offsets: Any = None, extra: str = "refuse") -> "Rows":
        """Appends rows from columns, as Model.predict_raw takes them."""
        with self._use as handle:
            raw.extend(self._setter, handle, columns, shared, shared_offsets, extra)
        return self

    def predict(self, *, out: Optional[np.ndarray] = None, logits: Any = None, timeout: Optional[float] = None,
                cancel: Optional[Cancel] = None) -> Any:
        """Scores the rows: [rows, heads] float32, or (scores, logits); arguments as in Model.predict."""
        with self._use as handle:
            if self._model.closed:
                raise closed("model")
            return _native.dpi_py_rows_predict(handle, self._model.info.heads, out, logits,
                                               deadline_of(timeout), None if cancel is None else cancel.flag)

    def clear(self) -> "Rows":
        """Forgets all rows and keeps the memory."""
        with self._use as handle:
            _native.dpi_rows_clear(handle)
            self._setter.shared = 0
        return self

    def __len__(self) -> int:
        try:
            with self._use as handle:
                return _native.dpi_rows_count(handle)
        except Closed:
            return 0

    def close(self) -> None:
        """Frees the rows. Closing again does nothing."""
        handle = self._use.take()
        if handle:
            _native.dpi_rows_free(handle)

    def __del__(self) -> None:
        if hasattr(self, "_use"):
            self.close()
