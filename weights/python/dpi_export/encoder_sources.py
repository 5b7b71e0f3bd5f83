"""Encoders made from what training used: scikit-learn objects and FuxiCTR's FeatureProcessor.

`encoders_from(x)` takes a dict feature -> encoder, one scikit-learn object fitted on a frame with column names, or a
FeatureProcessor, and gives {feature: FeatureSource}. Needs neither library: objects are read by their fitted attributes.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from . import encoders as e
from .encoders import Encoder
from .errors import BundleError


@dataclass
class FeatureSource:
    """The encoder of one feature, and the keys of its schema entry that follow from it (missing, default_id ...)."""

    encoder: Encoder = None
    rules: dict = field(default_factory=dict)


def encoders_from(value):
    """{feature: FeatureSource}"""
    if not value:
        return {}
    if hasattr(value, "processor_dict"):
        return _from_processor(value)
    if isinstance(value, dict):
        return {name: FeatureSource(make_encoder(one, name)) for name, one in value.items()}
    names = getattr(value, "feature_names_in_", None)
    if names is None:
        raise BundleError(f"encoders: a {type(value).__name__} without column names; give {{feature: encoder}} or fit it on a frame")
    return {str(name): FeatureSource(Encoder(_steps(value, str(name), i))) for i, name in enumerate(names)}


def make_encoder(value, feature="?"):
    """An Encoder from an Encoder, steps, a scikit-learn object, or a list that mixes them in order of application."""
    if isinstance(value, Encoder):
        return value
    steps = []
    for part in value if isinstance(value, (list, tuple)) else [value]:
        if isinstance(part, dict):
            steps.append(part)
        elif isinstance(part, Encoder):
            steps += part.steps
        else:
            new = _steps(part, feature, _column(part, feature))
            # Text becomes a number once, at the front.
            steps += new[1:] if steps and new[0]["op"] == "to_float" and e.STEPS[steps[-1]["op"]][1] == "number" else new
    return Encoder(steps)


def _column(fitted, feature):
    """The column of a fitted object that belongs to a feature."""
    names = [str(n) for n in getattr(fitted, "feature_names_in_", [])]
    if feature in names:
        return names.index(feature)
    count = getattr(fitted, "n_features_in_", 1)
    if count != 1:
        raise BundleError(f"encoder of '{feature}': the {type(fitted).__name__} was fitted on {count} columns, none of them '{feature}'")
    return 0


def _steps(fitted, feature, column):
    """Steps of a scikit-learn object for one of its columns."""
    kind = type(fitted).__name__
    makers = {"LabelEncoder": _label, "OrdinalEncoder": _ordinal, "StandardScaler": _standard, "MinMaxScaler": _minmax,
              "KBinsDiscretizer": _bins}
    if kind not in makers or not type(fitted).__module__.startswith("sklearn."):
        raise BundleError(f"encoder of '{feature}': {type(fitted).__module__}.{kind} is not supported; known: {', '.join(makers)}")
    try:
        return makers[kind](fitted, feature, column)
    except AttributeError as error:
        raise BundleError(f"encoder of '{feature}': the {kind} is not fitted ({error})") from None


def vocabulary(entries, ids, feature):
    """One vocabulary step: integers by value, texts by bytes."""
    entries = list(entries)
    if entries and all(isinstance(v, (int, np.integer)) and not isinstance(v, bool) for v in entries):
        return e.vocab_int(entries, ids=ids)
    if all(isinstance(v, (float, np.floating)) and v == int(v) for v in entries):
        return e.vocab_int([int(v) for v in entries], ids=ids)
    if all(isinstance(v, str) for v in entries):
        return e.vocab_string(entries, ids=ids)
    raise BundleError(f"encoder of '{feature}': its values are neither all texts nor all integers")


def _known(values):
    """(entries, ids) without missing values."""
    kept = [(v, i) for i, v in enumerate(values) if v is not None and v == v and v != ""]
    return [v for v, _ in kept], [i for _, i in kept]


def _label(fitted, feature, _column):
    return [vocabulary(*_known(fitted.classes_), feature)]


def _ordinal(fitted, feature, column):
    return [vocabulary(*_known(fitted.categories_[column]), feature)]


def _standard(fitted, _feature, column):
    mean = float(fitted.mean_[column]) if fitted.with_mean else 0.0
    std = float(fitted.scale_[column]) if fitted.with_std else 1.0
    return [e.to_float(), e.standard(mean, std)]


def _minmax(fitted, _feature, column):
    lo, hi = fitted.feature_range
    least, most = float(fitted.data_min_[column]), float(fitted.data_max_[column])
    steps = [e.to_float(), e.minmax(least, most if most != least else least + 1.0, lo, hi)]
    return steps + ([e.clip(lo, hi)] if getattr(fitted, "clip", False) else [])


def _bins(fitted, feature, column):
    if fitted.encode != "ordinal":
        raise BundleError(f"encoder of '{feature}': KBinsDiscretizer(encode='{fitted.encode}') gives vectors, expected 'ordinal'")
    return [e.to_float(), e.buckets(fitted.bin_edges_[column][1:-1])]


# -- FuxiCTR -----------------------------------------------------------------------------------------------------------
def _from_processor(processor):
    columns = {c["name"]: c for c in processor.feature_cols}
    out = {}
    for name, spec in processor.feature_map.features.items():
        column = columns.get(name, {})
        if column.get("preprocess"):
            raise BundleError(f"encoder of '{name}': the FeatureProcessor's preprocess='{column['preprocess']}' is Python code and "
                              "cannot be carried over; give encoders= as a dict")
        if spec["type"] == "numeric":
            out[name] = _numeric_source(processor, name, column)
        elif spec["type"] in ("categorical", "sequence"):
            source = _vocabulary_source(processor, name, spec, column)
            if source is not None:
                out[name] = source
    return out


def _numeric_source(processor, name, column):
    steps, normalizer = [e.to_float()], processor.processor_dict.get(f"{name}::normalizer")
    if normalizer is not None:
        scaler = getattr(normalizer.normalizer, "__self__", None)
        if scaler is None:
            raise BundleError(f"encoder of '{name}': its normalizer is Python code and cannot be carried over")
        steps = _steps(scaler, name, 0)
    encoder = Encoder(steps)
    # Missing cells were filled before they were scaled.
    filled = float(np.float32(encoder.encode(float(column.get("fill_na", 0.0)))))
    if not math.isfinite(filled):
        raise BundleError(f"encoder of '{name}': fill_na={column.get('fill_na')} becomes {filled}")
    return FeatureSource(encoder, {"missing": "default", "default": filled})


def _vocabulary_source(processor, name, spec, column):
    tokenizer = processor.processor_dict.get(f"{name}::tokenizer")
    if tokenizer is None:
        return None
    sequence = spec["type"] == "sequence"
    integers = not sequence and column.get("dtype") in ("int", int)
    kind = int if integers else str
    kept = [(k, i) for k, i in tokenizer.vocab.items() if isinstance(k, (kind, np.integer) if integers else kind) and k != ""]
    oov = int(tokenizer.vocab["__OOV__"])
    make = e.vocab_int if integers else e.vocab_string
    steps = [make([k for k, _ in kept], ids=[i for _, i in kept])]
    if sequence:
        if tokenizer._na_value:
            steps.insert(0, e.missing([tokenizer._na_value]))
        side = tokenizer.padding
        return FeatureSource(Encoder(steps), {"pad_side": side, "keep": "first" if side == "post" else "last"})
    filled = column.get("fill_na", 0 if integers else "")
    return FeatureSource(Encoder(steps), {"missing": "default", "default_id": int(tokenizer.vocab.get(filled, oov))})
