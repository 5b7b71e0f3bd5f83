"""FuxiCTR's FeatureProcessor (2.3.0 to 2.3.10) as encoders. Recognised by its attributes; the library is not imported.

What a cell means is what FuxiCTR makes of it: its CSV reader gives a column its dtype and fills empty cells with `fill_na`, then
Tokenizer and Normalizer see texts, integers or floats.
"""

import math

from . import steps as e
from .encoder import Encoder
from ..errors import BundleError
from .sklearn_encoders import from_sklearn

_RESERVED = ("__PAD__", "__OOV__")
_TEXT, _INT, _FLOAT = "str", "int", "float"


class _Columns(dict):
    """Raw columns in the form that both kinds of FeatureProcessor.transform take: a data frame until 2.3.9, a dict since."""

    columns = property(list)


def from_feature_processor(processor):
    """{feature: Encoder} of a fitted FeatureProcessor. Each Encoder's `transform` is the processor's own."""
    columns = {c["name"]: c for c in getattr(processor, "feature_cols", [])}
    out = {}
    for name, spec in processor.feature_map.features.items():
        column = columns.get(name, {})
        if column.get("preprocess"):
            raise BundleError(f"feature '{name}': preprocess {column['preprocess']!r} is Python code, which no bundle carries; "
                              "give an encoder")
        if spec["type"] == "numeric":
            out[name] = _numeric(processor.processor_dict.get(name + "::normalizer"), column, name)
        elif spec["type"] in ("categorical", "sequence"):
            tokenizer = processor.processor_dict.get(name + "::tokenizer")
            if tokenizer is None or "category_processor" in spec:
                raise BundleError(f"feature '{name}': category_processor {spec.get('category_processor')!r} has no transform "
                                  "in FuxiCTR; give an encoder")
            out[name] = (_sequence if spec["type"] == "sequence" else _categorical)(tokenizer, column, name)
        else:
            continue
        out[name].transform = _transform(processor, name, spec["type"], column)
    return out


def _dtype(column):
    dtype = column.get("dtype", _TEXT)
    return getattr(dtype, "__name__", dtype)


def _fill(column):
    return column.get("fill_na", {_INT: 0, _FLOAT: 0.0}.get(_dtype(column), ""))


def _read(cell, dtype, fill):
    """A cell as FuxiCTR's reader gives it to transform."""
    if cell is None or cell == "" or cell != cell:
        return fill
    return {_INT: int, _FLOAT: float}.get(dtype, str)(cell)


def _transform(processor, name, kind, column):
    """cells -> what the processor's own transform makes of this feature's column."""
    def run(cells):
        import pandas

        dtype, fill = _dtype(column), _fill(column)
        if kind == "numeric":
            read = pandas.Series([float(_read(c, _FLOAT, fill)) for c in cells], dtype="float64")
        else:
            read = pandas.Series([_read(c, dtype, fill) for c in cells], dtype=object)
        out = processor.transform(_Columns({name: read}))[name]
        return out.tolist() if hasattr(out, "tolist") else list(out)
    return run


def _numeric(normalizer, column, name):
    fill = float(column.get("fill_na", 0.0))
    if normalizer is None:
        return Encoder([e.to_float()]).with_rules(missing="default", default=fill)
    held = normalizer.normalizer
    scaler = getattr(held, "__self__", held)  # a bound transform since 2.3.10, the scaler itself before
    if type(scaler).__name__ not in ("StandardScaler", "MinMaxScaler"):
        raise BundleError(f"feature '{name}': its normalizer is {getattr(held, '__qualname__', type(held).__name__)}, expected "
                          "scikit-learn's StandardScaler or MinMaxScaler")
    try:
        encoder = from_sklearn(scaler)
    except BundleError as error:
        raise BundleError(f"feature '{name}': {error}") from None
    return encoder.with_rules(missing="default", default=float(encoder.encode(fill)))


def _categorical(tokenizer, column, name):
    vocab, dtype = dict(tokenizer.vocab), _dtype(column)
    oov = int(vocab["__OOV__"])
    rules = {"missing": "default", "default_id": int(vocab.get(_fill(column), oov)), "out_of_range": "oov", "oov_id": oov}
    # A shared vocabulary may hold the keys of columns of another dtype; a cell never equals those.
    texts = {k: v for k, v in vocab.items() if isinstance(k, str)}
    numbers = {k: v for k, v in vocab.items() if not isinstance(k, str)}
    if dtype == _TEXT:
        if numbers and set(texts) <= set(_RESERVED):
            raise BundleError(f"feature '{name}': dtype is str, but its vocabulary holds numbers such as {next(iter(numbers))!r}: "
                              "FuxiCTR would take every value for unknown")
        texts.pop("", None)  # an empty cell is missing
        return Encoder([e.vocab_string(list(texts), ids=list(texts.values()))]).with_rules(**rules)
    if dtype not in (_INT, _FLOAT):
        raise BundleError(f"feature '{name}': dtype {dtype} is not str, int or float")
    numbers = {k: v for k, v in numbers.items() if k == k and not math.isinf(k)}
    if dtype == _FLOAT:
        if any(float(k) != k for k in numbers):
            raise BundleError(f"feature '{name}': dtype is float, but its vocabulary holds integers beyond 2^53")
        return Encoder([e.to_float(), e.vocab_float(list(numbers), ids=list(numbers.values()))]).with_rules(**rules)
    whole = {int(k): v for k, v in numbers.items() if k == int(k) and -2**63 <= k < 2**63}
    return Encoder([e.vocab_int(list(whole), ids=list(whole.values()))]).with_rules(**rules)


def _sequence(tokenizer, column, name):
    vocab = dict(tokenizer.vocab)
    oov, pad = int(vocab["__OOV__"]), int(vocab["__PAD__"])
    texts = {k: v for k, v in vocab.items() if isinstance(k, str)}
    if len(vocab) > len(texts) and set(texts) <= set(_RESERVED):
        raise BundleError(f"feature '{name}': it splits texts, but its vocabulary holds numbers: FuxiCTR would take every "
                          "element for unknown")
    # FuxiCTR takes `fill_na` for padding wherever it stands; another fill leaves the empty text an element like any other.
    texts[tokenizer._na_value] = pad
    empty = texts.pop("", oov)
    encoder = Encoder([e.vocab_string(list(texts), ids=list(texts.values()))], missing_element=empty,
                        splitter="" if tokenizer._splitter is None else tokenizer._splitter)
    encoder.padding = ("__PAD__", tokenizer._na_value)
    side = tokenizer.padding
    return encoder.with_rules(missing="pad", pad_id=pad, out_of_range="oov", oov_id=oov, pad_side=side,
                              keep="last" if side == "pre" else "first")
