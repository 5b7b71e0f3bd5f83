"""Encoders from objects that teams already have: FuxiCTR's FeatureProcessor, scikit-learn's preprocessing, plain steps.

    convert_encoders({"age": StandardScaler().fit(x), "job": LabelEncoder().fit(jobs), "id": [hash_xxh64(1000)]})

Objects are recognised by their class name and fitted attributes; neither library is imported.
"""

import numpy as np

from .encoder import Encoder
from .marks import MISSING, OOV
from ..errors import BundleError
from .fuxictr_encoders import from_feature_processor
from ..schema import is_slot
from .sklearn_encoders import chained, from_sklearn


def convert_encoders(source, raw=None):
    """{feature: Encoder} from a FeatureProcessor, from one scikit-learn object fitted with feature names, or from a dict whose
    values are Encoders, step lists, scikit-learn objects, (scikit-learn object, column) or (scikit-learn object, column, dtype of the
    column that it was fitted on). `raw`, {feature: column}, says these dtypes too.

    Each Encoder carries `suggested`: feature rules (missing, out_of_range ...) under which it equals the library, and
    `transform`: the library's own, against which an export checks it.
    """
    if source is None:
        return {}
    if hasattr(source, "processor_dict"):
        return from_feature_processor(source)
    dtypes = {name: getattr(column, "dtype", None) for name, column in ({} if raw is None else raw).items()}
    if isinstance(source, dict):
        return {name: _one(name, value, dtypes.get(name)) for name, value in source.items()}
    names = getattr(source, "feature_names_in_", None)
    if names is None:
        raise BundleError(f"encoders: {type(source).__name__} does not tell its features; give {{feature: encoder}}")
    return {str(n): _fitted(str(n), source, i, dtypes.get(str(n))) for i, n in enumerate(names)}


def _one(name, value, dtype=None):
    if isinstance(value, Encoder):
        return value
    if isinstance(value, list) or (isinstance(value, dict) and "op" in value):
        return _joined(name, value if isinstance(value, list) else [value])
    if isinstance(value, tuple) and not 1 <= len(value) <= 3:
        raise BundleError(f"encoder of '{name}': a tuple of {len(value)}, expected (encoder, column) or (encoder, column, dtype)")
    value, column, said = (*value, None, None)[:3] if isinstance(value, tuple) else (value, None, None)
    _check_said(name, said)
    names = [str(n) for n in getattr(value, "feature_names_in_", [])]
    if column is not None:
        column = _place(name, value, column, names)
    else:
        column = names.index(name) if name in names else 0
        if name not in names and getattr(value, "n_features_in_", 1) > 1:
            raise BundleError(f"encoder of '{name}': {type(value).__name__} has {value.n_features_in_} columns; "
                              "give (encoder, column)")
    return _fitted(name, value, column, dtype if said is None else said)


def _place(name, value, column, names):
    """The number of a column that was given by its name or number."""
    if isinstance(column, str):
        if column not in names:
            held = f"only {', '.join(map(repr, names))}" if names else "and was fitted without names: give the column's number"
            raise BundleError(f"encoder of '{name}': {type(value).__name__} has no column {column!r}, {held}")
        return names.index(column)
    count = getattr(value, "n_features_in_", 1)
    if isinstance(column, (bool, float)) or not hasattr(column, "__index__") or not 0 <= column < count:
        raise BundleError(f"encoder of '{name}': column {column!r} of {type(value).__name__}, expected a name or a number from 0 to {count - 1}")
    return int(column)


def _check_said(name, said):
    try:
        np.dtype(getattr(said, "numpy_dtype", said))
    except TypeError:
        raise BundleError(f"encoder of '{name}': {said!r} is no type of numpy; give the fitted column's, such as 'float32' or 'int64'") from None


def _fitted(name, value, column, dtype):
    """`dtype`: numpy's or a name; what is no number type of numpy (pandas' own, object) says nothing."""
    try:
        known = None if dtype is None else np.dtype(getattr(dtype, "numpy_dtype", dtype))
    except TypeError:
        known = None
    scales = type(value).__name__.endswith("Scaler")
    own = _check_scaled(name, value, getattr(dtype, "name", str(dtype)), known) if scales else None
    try:
        encoder = from_sklearn(value, column, known if known is not None and known.kind in "biuf" else None)
    except BundleError as error:
        raise BundleError(f"encoder of '{name}': {error}") from None
    if scales:
        encoder.scaled = type(value).__name__, own
    return encoder


def _check_scaled(name, value, dtype, known):
    """The type of a scaler's column where it is known. Refuses cells that no number step reads, and results that float16 rounds."""
    kind = type(value).__name__
    if dtype == "boolean" or known is not None and known.kind == "b":
        raise BundleError(f"encoder of '{name}': {kind} of booleans, whose cells are the texts true and false: write the column as 0 and 1, "
                          "astype(int), in training, in raw= and in serving")
    own = next((getattr(value, key).dtype for key in ("data_min_", "center_", "max_abs_") if getattr(value, key, None) is not None), None)
    if np.float16 in (known, own):
        raise BundleError(f"encoder of '{name}': {kind} of a column of float16 rounds its results to 11 bits, and a bundle scales in float64: fit and "
                          "transform astype('float32'), and train on that")
    return known if own is None else own


def _joined(name, parts):
    """One Encoder from a list that mixes steps, Encoders and fitted objects, in order of application."""
    return chained([Encoder([part]) if isinstance(part, dict) else _one(name, part) for part in parts])


# -- training-time statistics -----------------------------------------------------------------------------------------
def training_stats(feature, raw, quantiles=(0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)):
    """`stats` of a feature from its raw training column (elements; bags as lists): shares of missing and out-of-vocabulary
    values, and quantiles of encoded numbers."""
    encoder = feature.get("encoder") or Encoder([])
    n_values = n_missing = n_oov = 0
    numbers = []
    for value in raw:
        bag = encoder.elements(value) if feature["kind"] == "sequence" else [value]
        if len(bag) == 0:
            n_missing, n_values = n_missing + 1, n_values + 1
        for element in bag:
            x = encoder.encode(element.item() if isinstance(element, np.generic) else element)
            n_values += 1
            if x is MISSING or (is_slot(feature) and x == feature.get("missing_id")):
                n_missing += 1
            elif is_slot(feature):
                n_oov += x is OOV or not 0 <= x < feature["vocab_size"]
            else:
                numbers.append(float(x))
    stats = {"missing_rate": n_missing / max(n_values, 1)}
    if is_slot(feature):
        return {**stats, "oov_rate": n_oov / max(n_values, 1)}
    if numbers:
        stats["quantiles"] = {str(q): float(v) for q, v in zip(quantiles, np.quantile(numbers, quantiles))}
    return stats
