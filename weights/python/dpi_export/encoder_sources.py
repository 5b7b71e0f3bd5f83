"""Encoders from objects that teams already have: FuxiCTR's FeatureProcessor, scikit-learn's preprocessing, plain steps.

    convert_encoders({"age": StandardScaler().fit(x), "job": LabelEncoder().fit(jobs), "id": [hash_xxh64(1000)]})

Objects are recognised by their class name and fitted attributes; neither library is imported.
"""

import numpy as np

from . import encoders as e
from .errors import BundleError
from .schema import is_slot


def convert_encoders(source):
    """{feature: Encoder} from a FeatureProcessor, from one scikit-learn object fitted with feature names, or from a dict whose
    values are Encoders, step lists, scikit-learn objects or (scikit-learn object, column).

    Each Encoder carries `suggested`: feature rules (missing, out_of_range ...) under which it equals the library.
    """
    if source is None:
        return {}
    if hasattr(source, "processor_dict"):
        return _from_feature_processor(source)
    if isinstance(source, dict):
        return {name: _one(name, value) for name, value in source.items()}
    names = getattr(source, "feature_names_in_", None)
    if names is None:
        raise BundleError(f"encoders: {type(source).__name__} does not tell its features; give {{feature: encoder}}")
    return {str(n): from_sklearn(source, i) for i, n in enumerate(names)}


def _one(name, value):
    if isinstance(value, e.Encoder):
        return value
    if isinstance(value, list) or (isinstance(value, dict) and "op" in value):
        return _joined(name, value if isinstance(value, list) else [value])
    value, column = value if isinstance(value, tuple) else (value, None)
    if column is None:
        names = [str(n) for n in getattr(value, "feature_names_in_", [])]
        column = names.index(name) if name in names else 0
        if name not in names and getattr(value, "n_features_in_", 1) > 1:
            raise BundleError(f"encoder of '{name}': {type(value).__name__} has {value.n_features_in_} columns; "
                              "give (encoder, column)")
    try:
        return from_sklearn(value, column)
    except BundleError as error:
        raise BundleError(f"encoder of '{name}': {error}") from None


def _joined(name, parts):
    """One Encoder from a list that mixes steps, Encoders and fitted objects, in order of application."""
    steps, rules = [], {}
    for part in parts:
        one = None if isinstance(part, dict) else _one(name, part)
        new = [part] if one is None else one.steps
        # Text becomes a number once, at the front.
        if steps and new and new[0]["op"] == "to_float" and e.STEPS[steps[-1]["op"]][1] == "number":
            new = new[1:]
        steps += new
        rules.update(one.suggested if one is not None else {})
    return _with_rules(e.Encoder(steps), **rules)


def _with_rules(encoder, **rules):
    encoder.suggested = rules
    return encoder


# -- scikit-learn -----------------------------------------------------------------------------------------------------
def from_sklearn(obj, column=0):
    """The Encoder of one column of a fitted LabelEncoder, OrdinalEncoder, StandardScaler, MinMaxScaler or KBinsDiscretizer."""
    kind = type(obj).__name__
    if kind not in _SKLEARN:
        raise BundleError(f"{kind} is not supported; use {', '.join(_SKLEARN)} or encoder steps")
    try:
        return _SKLEARN[kind](obj, column)
    except AttributeError as error:
        raise BundleError(f"{kind} is not fitted ({error})") from None


def _is_missing(value):
    return value is None or value != value or value == ""


def _vocabulary(values, what):
    """An Encoder for fitted categories: texts or integers, ids by position. A category that stands for "no value" (empty text,
    None, NaN) cannot be a vocabulary entry; its id is suggested as the feature's default for missing values."""
    known = [(v, i) for i, v in enumerate(values) if not _is_missing(v)]
    gone = [i for i, v in enumerate(values) if _is_missing(v)]
    entries, ids = [v for v, _ in known], [i for _, i in known]
    plain = not gone or gone[0] == len(known)
    keys = {"first_id": 0} if plain else {"ids": ids}
    if entries and all(isinstance(v, (str, np.str_)) for v in entries):
        step = e.vocab_string([str(v) for v in entries], **keys)
    elif entries and not any(isinstance(v, (str, np.str_)) for v in entries) and all(float(v).is_integer() for v in entries):
        step = e.vocab_int([int(v) for v in entries], **keys)
    else:
        raise BundleError(f"{what}: categories must be all texts or all integers")
    return _with_rules(e.Encoder([step]), **({"missing": "default", "default_id": gone[0]} if gone else {}))


def _label_encoder(obj, column):
    return _vocabulary(list(obj.classes_), "LabelEncoder")


def _ordinal_encoder(obj, column):
    encoder = _vocabulary(list(obj.categories_[column]), "OrdinalEncoder")
    code = getattr(obj, "encoded_missing_value", None)
    if "default_id" in encoder.suggested and code is not None and code == code:
        if code >= 0:
            encoder.suggested["default_id"] = int(code)
        else:
            encoder.suggested.clear()
    unknown = getattr(obj, "unknown_value", None)
    if getattr(obj, "handle_unknown", "error") == "use_encoded_value" and unknown is not None and unknown >= 0:
        encoder.suggested.update(out_of_range="oov", oov_id=int(unknown))
    return encoder


def _standard_scaler(obj, column):
    mean = 0.0 if obj.mean_ is None or not obj.with_mean else obj.mean_[column]
    std = 1.0 if obj.scale_ is None else obj.scale_[column]
    return e.Encoder([e.to_float(), e.standard(mean, std)])


def _minmax_scaler(obj, column):
    lo, hi = obj.feature_range
    low, span = float(obj.data_min_[column]), float(obj.data_max_[column] - obj.data_min_[column])
    steps = [e.to_float(), e.minmax(low, low + (span or 1.0), lo, hi)]
    return e.Encoder(steps + [e.clip(lo, hi)] if getattr(obj, "clip", False) else steps)


def _kbins(obj, column):
    if obj.encode != "ordinal":
        raise BundleError(f"KBinsDiscretizer: encode='{obj.encode}', only 'ordinal' gives ids")
    return e.Encoder([e.to_float(), e.buckets(obj.bin_edges_[column][1:-1])])


_SKLEARN = {"LabelEncoder": _label_encoder, "OrdinalEncoder": _ordinal_encoder, "StandardScaler": _standard_scaler,
            "MinMaxScaler": _minmax_scaler, "KBinsDiscretizer": _kbins}


# -- FuxiCTR ----------------------------------------------------------------------------------------------------------
def _from_feature_processor(processor):
    columns = {c["name"]: c for c in getattr(processor, "feature_cols", [])}
    out = {}
    for name, spec in processor.feature_map.features.items():
        column = columns.get(name, {})
        if spec["type"] == "numeric":
            out[name] = _fuxi_numeric(processor.processor_dict.get(name + "::normalizer"), column, name)
        elif spec["type"] in ("categorical", "sequence"):
            tokenizer = processor.processor_dict.get(name + "::tokenizer")
            if tokenizer is None or "category_processor" in spec:
                raise BundleError(f"feature '{name}': category_processor {spec.get('category_processor')!r} has no transform "
                                  "in FuxiCTR; give an encoder")
            out[name] = _fuxi_ids(tokenizer, spec["type"], column, name)
        if column.get("preprocess"):
            raise BundleError(f"feature '{name}': preprocess {column['preprocess']!r} is Python code, which no bundle carries; "
                              "give an encoder")
    return out


def _fuxi_numeric(normalizer, column, name):
    fill = float(column.get("fill_na", 0.0))
    if normalizer is None:
        return _with_rules(e.Encoder([e.to_float()]), missing="default", default=fill)
    scaler = getattr(normalizer.normalizer, "__self__", None)  # Normalizer keeps a bound transform
    if type(scaler).__name__ not in ("StandardScaler", "MinMaxScaler"):
        raise BundleError(f"feature '{name}': normalizer {normalizer.normalizer!r} is not StandardScaler or MinMaxScaler")
    encoder = from_sklearn(scaler)
    return _with_rules(encoder, missing="default", default=float(encoder.encode(fill)))


def _fuxi_ids(tokenizer, kind, column, name):
    vocab = dict(tokenizer.vocab)
    oov = int(vocab["__OOV__"])
    if any(not isinstance(k, str) for k in vocab if k not in ("__PAD__", "__OOV__")):
        vocab = {k: v for k, v in vocab.items() if not isinstance(k, str)}
        steps = [e.vocab_int(list(vocab), ids=list(vocab.values()))]
    else:
        texts = {k: v for k, v in vocab.items() if k != ""}
        steps = [e.vocab_string(list(texts), ids=list(texts.values()))]
    na = getattr(tokenizer, "_na_value", "")
    if kind == "sequence":
        if na != "":
            steps.insert(0, e.missing([na]))
        side = tokenizer.padding
        return _with_rules(e.Encoder(steps), missing="pad", pad_id=int(tokenizer.vocab["__PAD__"]), out_of_range="oov", oov_id=oov,
                           pad_side=side, keep="last" if side == "pre" else "first")
    fill = column.get("fill_na", 0 if column.get("dtype") in ("int", int) else "")
    return _with_rules(e.Encoder(steps), missing="default", default_id=int(tokenizer.vocab.get(fill, oov)), out_of_range="oov",
                       oov_id=oov)


# -- training-time statistics -----------------------------------------------------------------------------------------
def training_stats(feature, raw, quantiles=(0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)):
    """`stats` of a feature from its raw training column (elements; bags as lists): shares of missing and out-of-vocabulary
    values, and quantiles of encoded numbers."""
    encoder = feature.get("encoder") or e.Encoder([])
    n_values = n_missing = n_oov = 0
    numbers = []
    for value in raw:
        bag = value if isinstance(value, (list, tuple, np.ndarray)) else [value]
        if len(bag) == 0:
            n_missing, n_values = n_missing + 1, n_values + 1
        for element in bag:
            x = encoder.encode(element.item() if isinstance(element, np.generic) else element)
            n_values += 1
            if x is e.MISSING or (is_slot(feature) and x == feature.get("missing_id")):
                n_missing += 1
            elif is_slot(feature):
                n_oov += x is e.OOV or not 0 <= x < feature["vocab_size"]
            else:
                numbers.append(float(x))
    stats = {"missing_rate": n_missing / max(n_values, 1)}
    if is_slot(feature):
        return {**stats, "oov_rate": n_oov / max(n_values, 1)}
    if numbers:
        stats["quantiles"] = {str(q): float(v) for q, v in zip(quantiles, np.quantile(numbers, quantiles))}
    return stats
