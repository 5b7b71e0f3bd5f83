"""scikit-learn's fitted preprocessing objects as encoders. Recognised by class name and attributes; the library is not imported."""

import numbers
import warnings

import numpy as np

from . import encoders as e
from .errors import BundleError
from .fitted_numbers import as_narrow, boundaries, float_keys, held_in, narrow_type


def from_sklearn(obj, column=0, dtype=None):
    """The Encoder of one column of a fitted LabelEncoder, OrdinalEncoder, StandardScaler, MinMaxScaler or KBinsDiscretizer. `dtype`: of
    the column that it was fitted on, where the object does not tell (KBinsDiscretizer)."""
    kind = type(obj).__name__
    if kind not in _SKLEARN:
        raise BundleError(f"{kind} is not supported; use {', '.join(_SKLEARN)} or encoder steps")
    try:
        encoder, read, others = _kbins(obj, column, dtype) if kind == "KBinsDiscretizer" else _SKLEARN[kind](obj, column)
    except AttributeError as error:
        raise BundleError(f"{kind} is not fitted ({error})") from None
    encoder.transform = _transform(obj, column, read, others)
    return encoder


def _transform(obj, column, read, others):
    """cells -> the object's own transform of this column. `read` makes a cell what the object was fitted on; `others` are values
    for the columns beside it, None for an object that knows only one."""
    def run(cells):
        values = [read(c) for c in cells]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a matrix without the names of its columns
            if others is None:
                return obj.transform(np.array(values, dtype=object if isinstance(values[0], str) else obj.classes_.dtype)).tolist()
            matrix = np.array([others] * len(values), dtype=object if any(map(_no_float64, [*values, *others])) else np.float64)
            matrix[:, column] = values
            out = obj.transform(matrix)
        return np.asarray(out)[:, column].tolist()
    return run


def _no_float64(value):
    return isinstance(value, str) or value is None or isinstance(value, numbers.Integral) and abs(value) > 2**53


def _number(cell):
    return float("nan") if _is_missing(cell) else float(cell)


def _is_missing(value):
    return value is None or type(value).__name__ == "NAType" or value != value or value == ""


def _vocabulary(values, what):
    """An Encoder for fitted categories: texts, numbers or booleans, ids by position. A category that stands for "no value" (empty text,
    None, NaN) cannot be a vocabulary entry; its id is suggested as the feature's default for missing values."""
    dtype = getattr(values, "dtype", None)
    values = list(values)
    known = [(v, i) for i, v in enumerate(values) if not _is_missing(v)]
    gone = [i for i, v in enumerate(values) if _is_missing(v)]
    entries, ids = [v for v, _ in known], [i for _, i in known]
    steps, parse = _lookup(entries, ids, dtype, not gone or gone[0] == len(known), what)
    missing = values[gone[0]] if gone else None

    def read(cell):
        return missing if _is_missing(cell) else parse(cell)

    return e.Encoder(steps).with_rules(**({"missing": "default", "default_id": gone[0]} if gone else {})), read


def _lookup(entries, ids, dtype, plain, what):
    """(steps, what a cell was in the fitted column) of categories and their ids; plain: the ids are their positions."""
    keys = {"first_id": 0} if plain else {"ids": ids}
    held = {_kind(v) for v in entries}
    try:
        if held == {"text"}:
            return [e.vocab_string([str(v) for v in entries], **keys)], str
        if held == {"truth"}:
            return _truths(entries, ids)
        if held <= {"integer"}:
            if any(not -2**63 <= v < 2**63 for v in entries):
                raise BundleError("integers beyond 64 bits with a sign")
            return [e.vocab_int(entries, **keys)], _whole
        if held <= {"integer", "float"}:
            cells, their = float_keys(entries, ids, dtype)
            width = held_in([float(v) for v in entries if np.isfinite(v)], dtype)
            more = {"ids": their} if len(cells) > len(entries) else keys
            return [e.to_float(), e.vocab_float(cells, **more)], lambda cell: as_narrow(width, cell)
    except BundleError as error:
        raise BundleError(f"{what}: {error}; fit it on text (astype(str)) to name such values") from None
    odd = next((v for v in entries if _kind(v) == "odd"), None)
    told = "are texts beside numbers or booleans" if odd is None else f"such as {odd!r} are neither texts, numbers nor booleans"
    raise BundleError(f"{what}: categories {told}; fit it on text (astype(str)), as the data file shows these values")


def _kind(value):
    kinds = (("text", (str, np.str_)), ("truth", (bool, np.bool_)), ("odd", np.timedelta64), ("integer", numbers.Integral),
             ("float", (float, np.floating)))
    return next((name for name, types in kinds if isinstance(value, types)), "odd")


def _whole(cell):
    """An integer as its column holds it, from its digits or from a float's text, which is how pandas writes a column with gaps."""
    try:
        return int(cell)
    except ValueError:
        return float(cell)


def _truths(entries, ids):
    """Booleans by every text that routes give them: True of pandas, true of Java, Go and JSON, 1 and 1.0 where they became numbers."""
    texts = {True: ("true", "1", "1.0"), False: ("false", "0", "0.0")}
    forms = {t: (bool(v), i) for v, i in zip(entries, ids) for t in texts[bool(v)]}

    def parse(cell):
        return next((v for v in texts if str(cell).lower() in texts[v]), 2.0)  # a number that is no category

    return [e.lower(), e.vocab_string(list(forms), ids=[i for _, i in forms.values()])], parse


def _label_encoder(obj, column):
    return *_vocabulary(obj.classes_, "LabelEncoder"), None


def _ordinal_encoder(obj, column):
    encoder, read = _vocabulary(obj.categories_[column], "OrdinalEncoder")
    gone, code = read(""), getattr(obj, "encoded_missing_value", None)
    if isinstance(gone, float) and code is not None:  # NaN has a code of its own; None and "" are categories like others
        encoder.suggested.clear()
        if code == code and code >= 0:
            encoder.suggested.update(missing="default", default_id=int(code))
    unknown = getattr(obj, "unknown_value", None)
    if getattr(obj, "handle_unknown", "error") == "use_encoded_value" and unknown is not None and unknown >= 0:
        encoder.suggested.update(out_of_range="oov", oov_id=int(unknown))
    return encoder, read, [c[0] for c in obj.categories_]


def _standard_scaler(obj, column):
    mean = 0.0 if obj.mean_ is None or not obj.with_mean else obj.mean_[column]
    std = 1.0 if obj.scale_ is None else obj.scale_[column]
    return e.Encoder([e.to_float(), e.standard(mean, std)]), _number, [0.0] * obj.n_features_in_


def _minmax_scaler(obj, column):
    lo, hi = obj.feature_range
    low, span = float(obj.data_min_[column]), float(obj.data_max_[column] - obj.data_min_[column])
    steps = [e.to_float(), e.minmax(low, low + (span or 1.0), lo, hi)]
    encoder = e.Encoder(steps + [e.clip(lo, hi)] if getattr(obj, "clip", False) else steps)
    return encoder, _number, [0.0] * obj.n_features_in_


def _kbins(obj, column, dtype=None):
    if obj.encode != "ordinal":
        raise BundleError(f"KBinsDiscretizer: encode='{obj.encode}', only 'ordinal' gives ids")
    dtype = narrow_type(getattr(obj, "dtype", None)) or dtype  # transform rounds to its own
    edges = obj.bin_edges_[column]
    encoder = e.Encoder([e.to_float(), e.buckets(boundaries(edges, dtype, "KBinsDiscretizer"))])
    ends = [float(x) for x in edges[[0, -1]] if np.isfinite(x)]
    width = held_in(ends, edges.dtype) if dtype is None else narrow_type(dtype)
    return encoder, lambda cell: as_narrow(width, _number(cell)), [edges[0] for edges in obj.bin_edges_]


_SKLEARN = {"LabelEncoder": _label_encoder, "OrdinalEncoder": _ordinal_encoder, "StandardScaler": _standard_scaler,
            "MinMaxScaler": _minmax_scaler, "KBinsDiscretizer": _kbins}
