"""scikit-learn's fitted preprocessing objects as encoders. Recognised by class name and attributes; the library is not imported."""

import warnings

import numpy as np

from . import encoders as e
from .errors import BundleError


def from_sklearn(obj, column=0):
    """The Encoder of one column of a fitted LabelEncoder, OrdinalEncoder, StandardScaler, MinMaxScaler or KBinsDiscretizer."""
    kind = type(obj).__name__
    if kind not in _SKLEARN:
        raise BundleError(f"{kind} is not supported; use {', '.join(_SKLEARN)} or encoder steps")
    try:
        encoder, read, others = _SKLEARN[kind](obj, column)
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
            matrix = np.array([others] * len(values), dtype=object if any(isinstance(v, str) or v is None for v in
                                                                           [*values, *others]) else np.float64)
            matrix[:, column] = values
            out = obj.transform(matrix)
        return np.asarray(out)[:, column].tolist()
    return run


def _number(cell):
    return float("nan") if _is_missing(cell) else float(cell)


def _is_missing(value):
    return value is None or value != value or value == ""


def _vocabulary(values, what):
    """An Encoder for fitted categories: texts or integers, ids by position. A category that stands for "no value" (empty text,
    None, NaN) cannot be a vocabulary entry; its id is suggested as the feature's default for missing values."""
    kind = getattr(getattr(values, "dtype", None), "kind", "")
    values = list(values)
    known = [(v, i) for i, v in enumerate(values) if not _is_missing(v)]
    gone = [i for i, v in enumerate(values) if _is_missing(v)]
    entries, ids = [v for v, _ in known], [i for _, i in known]
    plain = not gone or gone[0] == len(known)
    keys = {"first_id": 0} if plain else {"ids": ids}
    if entries and all(isinstance(v, (str, np.str_)) for v in entries):
        steps, parse = [e.vocab_string([str(v) for v in entries], **keys)], str
    elif not entries or any(isinstance(v, (str, np.str_)) for v in entries):
        raise BundleError(f"{what}: categories must be all texts or all numbers")
    elif kind == "f" or any(isinstance(v, (float, np.floating)) for v in entries):
        steps, parse = [e.to_float(), e.vocab_float(entries, **keys)], float
    else:
        steps, parse = [e.vocab_int(entries, **keys)], int
    missing = values[gone[0]] if gone else None

    def read(cell):
        return missing if _is_missing(cell) else parse(cell)

    return e.Encoder(steps).with_rules(**({"missing": "default", "default_id": gone[0]} if gone else {})), read


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


def _kbins(obj, column):
    if obj.encode != "ordinal":
        raise BundleError(f"KBinsDiscretizer: encode='{obj.encode}', only 'ordinal' gives ids")
    encoder = e.Encoder([e.to_float(), e.buckets(obj.bin_edges_[column][1:-1])])
    return encoder, _number, [edges[0] for edges in obj.bin_edges_]


_SKLEARN = {"LabelEncoder": _label_encoder, "OrdinalEncoder": _ordinal_encoder, "StandardScaler": _standard_scaler,
            "MinMaxScaler": _minmax_scaler, "KBinsDiscretizer": _kbins}
