"""Raw values: what Python, numpy and pandas hold, as the values that src/raw.h hands to the library."""

import collections.abc
import decimal
import difflib
import numbers
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from . import _native, arrays
from .errors import invalid, make
from .schema import DENSE, Feature

ABSENT = object()  #: a value that is not set
_VALUES, _FLOAT64, _INT64, _UINT64, _MATRIX, _BAGS = range(6)  # as in src/raw.h

_LISTED = 8  #: names in a message


class Misfit(Exception):
    """Why a value fits no rule; the caller knows row and feature."""


class Weighted:
    """A bag with weights."""

    def __init__(self, values: List[Any], weights: np.ndarray) -> None:
        self.values, self.weights = values, weights


def type_name(value: Any) -> str:
    """The type as a reader knows it: "bytes", "datetime.date"."""
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def is_missing(value: Any) -> bool:
    """None, and what pandas writes for it."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") and type(value).__module__.startswith("pandas")


def list_of(value: Any) -> Optional[List[Any]]:
    """The elements of a list, or None: a sequence or an array, but no text's characters or bytes."""
    if isinstance(value, (str, bytes, bytearray, memoryview)):
        return None
    if isinstance(value, np.ndarray):
        return _plain(value) if value.ndim else None
    if isinstance(value, collections.abc.Sequence):
        return list(value)
    if hasattr(value, "__array__") and getattr(value, "ndim", 0) == 1:  # a Series or an extension array
        return _plain(np.asarray(value))
    return None


def _plain(values: np.ndarray) -> List[Any]:
    if values.dtype.kind not in "biufUO":  # tolist would make integers of dates
        raise Misfit(f"an array of {values.dtype} holds no raw values")
    return list(values) if values.dtype == np.longdouble else values.tolist()


def plain(value: Any) -> Any:
    """A value that is no list as the None, str, bool, int or float that it stands for."""
    if is_missing(value):
        return None
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(value)
    if isinstance(value, decimal.Decimal):
        return None if value.is_nan() else str(value)
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return plain(value[()])
    raise Misfit(f"a {type_name(value)} is no raw value")


class Setter:
    """Sets values that are not plain, and names row and feature of what fits no rule. One per Rows."""

    def __init__(self, features: Sequence[Feature], rows: int) -> None:
        self.features, self._rows, self.shared = features, rows, 0
        self._busy: Optional[Feature] = None  # the feature whose value was made plain already

    def set(self, rows: int, feature: Feature, value: Any) -> None:
        """Any value of a feature in the open row."""
        _native.dpi_py_rows_set(rows, feature.index, feature.kind == DENSE, value, self.odd, ABSENT)

    def odd(self, index: int, value: Any) -> None:
        """What src/raw.h does not know by itself."""
        feature = self.features[index]
        try:
            if feature.kind == DENSE:
                self._vector(feature, value)
            elif isinstance(value, Weighted):
                self._weighted(feature, value)
            else:
                self._plain(feature, value)
        except Misfit as misfit:
            raise self._named(feature, str(misfit)) from None

    def _plain(self, feature: Feature, value: Any) -> None:
        elements = list_of(value)
        if elements is not None:
            _native.dpi_rows_add_integers(self._rows, feature.index, None, None, 0)  # says whether the feature takes a list
            for i, element in enumerate(elements):
                if list_of(element) is not None:
                    raise Misfit(f"element {i} is a list inside a list")
            known: Any = [plain(e) for e in elements]
        else:
            known = plain(value)
        if self._busy is feature:
            raise Misfit("the text is no UTF-8: it holds half of a surrogate pair")
        self._busy = feature
        try:
            texts = [x for x in (known if elements is not None else [known]) if isinstance(x, str)]
            if any(not _encodes(t) for t in texts):
                raise Misfit("the text is no UTF-8: it holds half of a surrogate pair")
            _native.dpi_py_rows_set(self._rows, feature.index, False, known, self.odd, ABSENT)
        finally:
            self._busy = None

    def _weighted(self, feature: Feature, bag: Weighted) -> None:
        for value, weight in zip(bag.values, bag.weights):
            known = plain(value)
            if isinstance(known, str):
                data = known.encode()
                _native.dpi_rows_add_text(self._rows, feature.index, data, len(data), float(weight))
            elif isinstance(known, int) and not isinstance(known, bool) and -2**63 <= known < 2**63:
                one, its = np.array([known], np.int64), np.array([weight], np.float32)
                _native.dpi_py_rows_arrays(self._rows, feature.index, one, None, its, True)
            else:
                raise Misfit(f"a {type_name(value)} with a weight: texts and integers have one")

    def _vector(self, feature: Feature, value: Any) -> None:
        elements = None if is_missing(value) else list_of(value)
        if elements is None and not is_missing(value):
            raise Misfit(f"a {type_name(value)} is no dense vector, which is a list of {feature.dim} numbers")
        if feature.has_encoder:
            raise Misfit("a vector with an encoder, which raw values cannot be given for; set_floats takes encoded ones")
        floats = [float("nan")] * feature.dim if elements is None else [_float(i, e) for i, e in enumerate(elements)]
        with np.errstate(over="ignore"):
            packed = np.array(floats, np.float64).astype(np.float32)
        _native.dpi_py_rows_arrays(self._rows, feature.index, None, packed, None, False)

    def _named(self, feature: Feature, what: str) -> Exception:
        in_shared = feature.shared and self.shared > 0
        row = self.shared - 1 if in_shared else _native.dpi_rows_count(self._rows) - 1
        place = "shared row" if in_shared else "row"
        return invalid(f"{place} {row}, feature '{feature.name}': {what}", row, feature.index, in_shared)


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _float(i: int, element: Any) -> float:
    """An element of a dense vector; None is missing."""
    if is_missing(element):
        return float("nan")
    if isinstance(element, (bool, np.bool_)) or not isinstance(element, (numbers.Real, decimal.Decimal)):
        raise Misfit(f"element {i} is no number but a {type_name(element)}")
    try:
        return float(element)
    except OverflowError:
        raise Misfit(f"element {i} is beyond every float") from None


# ---- columns ------------------------------------------------------------------------------------------------------------------------
def extend(setter: Setter, rows: int, columns: Any, shared: Any, shared_offsets: Any, extra: str) -> None:
    """Appends the rows of Model.predict_raw."""
    if extra not in ("refuse", "ignore"):
        raise invalid(f"extra is {extra!r}, expected 'refuse' or 'ignore'")
    n, prepared = _prepared(setter.features, columns, extra, None if shared is None else False)
    if shared is None:
        if shared_offsets is not None:
            raise invalid("shared_offsets without shared")
        _native.dpi_py_rows_fill(rows, prepared, 0, n, n, False, setter.odd, ABSENT)
        return
    users, of_users = _prepared(setter.features, shared, extra, True)
    starts = [0, n] if shared_offsets is None else _starts(shared_offsets, n)
    if len(starts) != users + 1:
        raise invalid(f"shared_offsets has {len(starts)} entries for {users} shared rows, expected one more")
    for user in range(users):
        setter.shared += 1
        _native.dpi_py_rows_fill(rows, of_users, user, user + 1, users, True, setter.odd, ABSENT)
        _native.dpi_py_rows_fill(rows, prepared, starts[user], starts[user + 1], n, False, setter.odd, ABSENT)


def _starts(offsets: Any, n: int) -> List[int]:
    found = arrays.integers("shared_offsets", offsets).reshape(-1)
    if not len(found) or found[0] != 0 or found[-1] != n or (np.diff(found) < 0).any():
        raise invalid(f"shared_offsets: expected rising offsets from 0 to {n}")
    return found.tolist()


def no_feature(features: Sequence[Feature], name: Any, advice: str = "") -> Exception:
    """NotFound for a name that no feature has: the one that it may be meant for, and those that there are."""
    names = [f.name for f in features]
    near = difflib.get_close_matches(str(name), names, 1)
    meant = f" (did you mean '{near[0]}'?)" if near else ""
    return make(_native.DPI_E_NOT_FOUND, message=f"the model has no feature '{name}'{meant}{advice}; its features are {listed(names)}")


def listed(names: Sequence[str]) -> str:
    """The names in quotes, of many the first ones."""
    return ", ".join(f"'{name}'" for name in names[:_LISTED]) + (f" and {len(names) - _LISTED} more" if len(names) > _LISTED else "")


def _prepared(features: Sequence[Feature], data: Any, extra: str, shared: Optional[bool]) -> Tuple[int, tuple]:
    """(rows, columns for dpi_py_rows_fill). shared: whether the features have to be shared ones; None = any."""
    columns, n = named_columns(data)
    by_name, prepared = {f.name: f for f in features}, []
    first = ""  # the column that tells how many rows there are
    for name, column in columns.items():
        feature = by_name.get(name)
        if feature is None:
            if extra == "refuse":
                raise no_feature(features, name, "; extra='ignore' leaves out columns that are no features")
            continue
        if shared is not None and feature.shared != shared:
            part = "shared" if feature.shared else "item"
            raise invalid(f"feature '{name}' belongs to the {part} part", feature=feature.index)
        try:
            length, entry = _column(feature, column)
        except Misfit as misfit:
            raise invalid(f"feature '{name}': {misfit}", feature=feature.index) from None
        if n is None:
            n, first = length, name
        if length != n:
            like = f", as column '{first}' has" if first else ""
            raise invalid(f"feature '{name}': a column of {length} rows, expected {n}{like}", feature=feature.index)
        prepared.append((feature.index, *entry))
    return n or 0, tuple(prepared)


def named_columns(data: Any) -> Tuple[Dict[str, Any], Optional[int]]:
    """({name: column}, rows where the data tell them by themselves) of a mapping, a DataFrame or a list of dicts."""
    if isinstance(data, collections.abc.Mapping):
        return dict(data), None
    if hasattr(data, "columns") and hasattr(data, "iloc"):
        names = list(data.columns)
        twice = [name for i, name in enumerate(names) if name in names[:i]]
        if twice:
            raise invalid(f"the column '{twice[0]}' is there twice")
        return {name: data.iloc[:, i] for i, name in enumerate(names)}, len(data)
    if isinstance(data, (list, tuple)) and all(isinstance(row, collections.abc.Mapping) for row in data):
        names = dict.fromkeys(name for row in data for name in row)
        return {name: [row.get(name, ABSENT) for row in data] for name in names}, len(data)
    raise invalid(f"a {type_name(data)} holds no columns: expected a dict, a DataFrame or a list of dicts")


def _column(feature: Feature, column: Any) -> Tuple[int, tuple]:
    if isinstance(column, tuple):
        return _bags(column)
    if type(column) is list:
        return len(column), (_VALUES, feature.kind == DENSE, column, None, None)
    if not isinstance(column, np.ndarray) and hasattr(column, "__array__"):
        plain_type = isinstance(getattr(column, "dtype", None), np.dtype)
        column = np.asarray(column) if plain_type or not hasattr(column, "astype") else np.asarray(column.astype(object), object)
    if not isinstance(column, np.ndarray):
        elements = list_of(column)
        if elements is None:
            raise Misfit(f"one {type_name(column)} is no column; a single row is a list of one dict")
        return len(elements), (_VALUES, feature.kind == DENSE, elements, None, None)
    return _array(feature, column)


def _array(feature: Feature, column: np.ndarray) -> Tuple[int, tuple]:
    kind, vector = column.dtype.kind, feature.kind == DENSE
    if column.ndim == 2 and vector and not feature.has_encoder and kind in "fiu":
        return len(column), (_MATRIX, True, arrays.floats("column", column), None, None)
    if column.ndim == 0:
        raise Misfit("one value is no column; a single row is a list of one dict")
    if column.ndim > 1 or vector or kind not in "fiu" or column.dtype == np.longdouble:
        return len(column), (_VALUES, vector, _plain(column), None, None)
    mode, kept = {"f": (_FLOAT64, np.float64), "i": (_INT64, np.int64), "u": (_UINT64, np.uint64)}[kind]
    return len(column), (mode, False, arrays.packed(column, kept), None, None)


def _bags(column: tuple) -> Tuple[int, tuple]:
    """(values, offsets) or (values, offsets, weights)."""
    if len(column) not in (2, 3):
        raise Misfit(f"a tuple of {len(column)}: expected (values, offsets) or (values, offsets, weights)")
    values = column[0]
    offsets = arrays.integers("offsets", column[1])
    weights = arrays.floats("weights", column[2]) if len(column) == 3 else None
    n = len(values)
    if not offsets.size or offsets[0] != 0 or offsets[-1] != n or (np.diff(offsets) < 0).any():
        raise Misfit(f"offsets: expected rising ones from 0 to {n}")
    if weights is not None and len(weights) != n:
        raise Misfit(f"{len(weights)} weights for {n} values")
    if isinstance(values, np.ndarray) and values.dtype.kind == "i" and values.ndim == 1:
        return len(offsets) - 1, (_BAGS, False, arrays.packed(values, np.int64), offsets, weights)
    elements = list_of(values)
    if elements is None:
        raise Misfit(f"a {type_name(values)} holds no values of bags")
    ends = offsets.tolist()
    bags: List[Any] = [elements[a:b] for a, b in zip(ends, ends[1:])]
    if weights is not None:
        bags = [Weighted(bag, weights[a:b]) for bag, a, b in zip(bags, ends, ends[1:])]
    return len(bags), (_VALUES, False, bags, None, None)
