"""scikit-learn's fitted preprocessing objects as encoders. Recognised by class name and attributes; the library is not imported."""

import copy
import numbers
import warnings
from collections import namedtuple

import numpy as np

from . import steps as e
from .encoder import Encoder
from .marks import MISSING, OOV
from .step_table import STEPS
from .cells import is_missing
from ..errors import BundleError
from .fitted_numbers import as_narrow, boundaries, float_keys, held_in, narrow_type


#: encoder; read: cell -> what the object was fitted on; others: values for the columns beside it, None for an object that knows only one;
#: pick: (the object's result, column) -> ids, where they do not stand in that column
Recognised = namedtuple("Recognised", "encoder read others pick", defaults=[None])


def from_sklearn(obj, column=0, dtype=None):
    """The Encoder of one column of a fitted object of scikit-learn: the classes of _SKLEARN, or a Pipeline of them. `dtype`: of
    the column that it was fitted on, where the object does not tell (KBinsDiscretizer)."""
    found = _recognised(obj, column, dtype)
    found.encoder.transform = _transform(obj, column, found)
    return found.encoder


def _recognised(obj, column, dtype=None):
    kind = type(obj).__name__
    if kind not in _SKLEARN:
        raise BundleError(f"{kind} is not supported; {_INSTEAD.get(kind, '')}use {', '.join(_SKLEARN)} or encoder steps, or apply it where rows are made, "
                          "in training and in serving, and give no encoder")
    try:
        return _SKLEARN[kind](obj, column, *([dtype] if kind in ("KBinsDiscretizer", "Pipeline") else []))
    except AttributeError as error:
        raise BundleError(f"{kind} is not fitted ({error})") from None


def _transform(obj, column, found):
    """cells -> the object's own transform of this column."""
    def run(cells):
        values, others = [found.read(c) for c in cells], found.others
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a matrix without the names of its columns
            if others is None:
                return _labels(obj, values)
            matrix = np.array([others] * len(values), dtype=object if any(map(_no_float64, [*values, *others])) else np.float64)
            matrix[:, column] = values
            out = obj.transform(matrix)
        return np.asarray(out)[:, column].tolist() if found.pick is None else found.pick(out, column)
    return run


def _labels(obj, values):
    """LabelEncoder.transform. Of texts with classes as objects: numpy's own type cuts a longer text to the length of the longest class."""
    if obj.classes_.dtype.kind == "b" and not all(isinstance(v, (bool, np.bool_)) for v in values):
        raise ValueError("a value is no boolean")  # numpy would make one of it
    if obj.classes_.dtype.kind == "U":
        obj = copy.copy(obj)
        obj.classes_ = obj.classes_.astype(object)
    return obj.transform(np.array(values, dtype=obj.classes_.dtype)).tolist()


def _no_float64(value):
    return isinstance(value, str) or value is None or isinstance(value, numbers.Integral) and abs(value) > 2**53


def _number(cell):
    return float("nan") if is_missing(cell) else float(cell)


def _vocabulary(values, what):
    """An Encoder for fitted categories: texts, numbers or booleans, ids by position. A category that stands for "no value" (empty text,
    None, NaN) cannot be a vocabulary entry; its id is suggested as the feature's default for missing values."""
    dtype = getattr(values, "dtype", None)
    values = list(values)
    known = [(v, i) for i, v in enumerate(values) if not is_missing(v)]
    gone = [i for i, v in enumerate(values) if is_missing(v)]
    entries, ids = [v for v, _ in known], [i for _, i in known]
    steps, parse = _lookup(entries, ids, dtype, not gone or gone[0] == len(known), what)
    missing = values[gone[0]] if gone else None

    def read(cell):
        return missing if is_missing(cell) else parse(cell)

    return Encoder(steps).with_rules(**({"missing": "default", "default_id": gone[0]} if gone else {})), read


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
            if set(entries) <= {0.0, 1.0}:  # a nullable column of booleans looks the same
                return _truths(entries, ids)
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


#: how files write the number 1
_ONES = ("1", "1.0", "1.", "1.00", "+1", "1e0", "1e+0", "1e+00", "1.0e0", "1.0e+00", "1.000000", "1.000000e+00", "1.000000000000000000e+00")


def _truths(entries, ids):
    """Booleans by every text that routes give them: True of pandas, true of Java, Go and JSON, 1 and 1.0 where they became numbers."""
    texts = {held: (word, *(form.replace("1", digit, 1) for form in _ONES)) for held, word, digit in ((True, "true", "1"), (False, "false", "0"))}
    forms = {t: (bool(v), i) for v, i in zip(entries, ids) for t in texts[bool(v)]}

    def parse(cell):
        return next((v for v in texts if str(cell).lower() in texts[v]), 2.0)  # a number that is no category

    return [e.lower(), e.vocab_string(list(forms), ids=[i for _, i in forms.values()])], parse


def _label_encoder(obj, column):
    return Recognised(*_vocabulary(obj.classes_, "LabelEncoder"), None)


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
    return Recognised(encoder, read, [c[0] for c in obj.categories_])


def _one_hot_encoder(obj, column):
    """The number of the column that is 1."""
    rare = getattr(obj, "infrequent_categories_", None) or []
    if obj.drop_idx_ is not None or any(values is not None for values in rare[column:column + 1]):
        raise BundleError("OneHotEncoder: drop= and rare categories that share a column leave some values without an id; use OrdinalEncoder")
    first, size = sum(map(len, obj.categories_[:column])), len(obj.categories_[column])

    def pick(out, _column):
        block = (out.toarray() if hasattr(out, "toarray") else np.asarray(out))[:, first:first + size]
        return np.where(block.any(axis=1), block.argmax(axis=1), -1).tolist()  # -1: unknown, all columns are 0

    return Recognised(*_vocabulary(obj.categories_[column], "OneHotEncoder"), [c[0] for c in obj.categories_], pick)


def _numbers(obj, *steps):
    return Recognised(Encoder([e.to_float(), *steps]), _number, [0.0] * obj.n_features_in_)


def _standard_scaler(obj, column):
    mean = 0.0 if obj.mean_ is None or not obj.with_mean else obj.mean_[column]
    return _numbers(obj, e.standard(mean, 1.0 if obj.scale_ is None else obj.scale_[column]))


def _robust_scaler(obj, column):
    center, scale = getattr(obj, "center_", None), getattr(obj, "scale_", None)
    if obj.with_centering and center is None or obj.with_scaling and scale is None:
        raise AttributeError("it has no center_ and scale_")
    return _numbers(obj, e.standard(0.0 if center is None else center[column], 1.0 if scale is None else scale[column]))


def _max_abs_scaler(obj, column):
    return _numbers(obj, e.standard(0.0, obj.scale_[column]), *([e.clip(-1.0, 1.0)] if getattr(obj, "clip", False) else []))


def _minmax_scaler(obj, column):
    lo, hi = obj.feature_range
    low, span = float(obj.data_min_[column]), float(obj.data_max_[column] - obj.data_min_[column])
    return _numbers(obj, e.minmax(low, low + (span or 1.0), lo, hi), *([e.clip(lo, hi)] if getattr(obj, "clip", False) else []))


def _kbins(obj, column, dtype=None):
    if obj.encode != "ordinal":
        raise BundleError(f"KBinsDiscretizer: encode='{obj.encode}', only 'ordinal' gives ids")
    dtype = narrow_type(getattr(obj, "dtype", None)) or dtype  # transform rounds to its own
    edges = obj.bin_edges_[column]
    encoder = Encoder([e.to_float(), e.buckets(boundaries(edges, dtype, "KBinsDiscretizer"))])
    ends = [float(x) for x in edges[[0, -1]] if np.isfinite(x)]
    width = held_in(ends, edges.dtype) if dtype is None else narrow_type(dtype)
    return Recognised(encoder, lambda cell: as_narrow(width, _number(cell)), [edges[0] for edges in obj.bin_edges_])


# -- several in a row -------------------------------------------------------------------------------------------------
def chained(encoders):
    """One Encoder of several in order: text becomes a number once, at the front. The rules are those of all, of the last before the first."""
    steps, rules = [], {}
    for one in encoders:
        again = steps and one.steps and one.steps[0]["op"] == "to_float" and STEPS[steps[-1]["op"]][1] == "number"
        steps += one.steps[1:] if again else one.steps
        rules.update(one.suggested)
    return Encoder(steps).with_rules(**rules)


def _function(obj, column):
    if obj.func is not np.log1p:
        raise BundleError(f"FunctionTransformer: {getattr(obj.func, '__name__', obj.func)} is Python code; numpy.log1p is known")
    return _numbers(obj, e.log1p())


def _imputer(obj, column):
    fill = obj.statistics_[column]
    if isinstance(fill, (str, np.str_)):
        raise BundleError("SimpleImputer: fills in a text; give it in a Pipeline with the encoder that reads the text")
    return _filled(_numbers(obj), obj, column)


def _filled(found, imputer, column):
    """What comes behind a SimpleImputer, with what the fill becomes there as the rule for missing values."""
    if not is_missing(imputer.missing_values) or getattr(imputer, "add_indicator", False):
        raise BundleError("SimpleImputer: missing_values= other than empty cells, or add_indicator=True, is not supported; map such values to "
                          "NaN where rows are made")
    fill = imputer.statistics_[column]
    value = MISSING if is_missing(fill) else found.encoder.encode(fill.item() if isinstance(fill, np.generic) else fill)
    ends = found.encoder.steps[-1]["op"]
    if value is MISSING or value is OOV:
        raise BundleError(f"SimpleImputer: fills in {fill!r}, which the step behind it does not know")
    key = "default_id" if STEPS[ends][1] == "id" else "default"
    found.encoder.suggested.update(missing="default", **{key: value})
    return found._replace(read=lambda cell: imputer.missing_values if is_missing(cell) else found.read(cell))


def _pipeline(obj, column, dtype=None):
    steps = [step for _, step in obj.steps if step is not None and step != "passthrough"]
    imputer = steps.pop(0) if len(steps) > 1 and type(steps[0]).__name__ == "SimpleImputer" else None
    if not steps or any(type(step).__name__ == "SimpleImputer" for step in steps[1:]):
        raise BundleError("Pipeline: expected steps, SimpleImputer as the first of them only")
    parts = [_recognised(step, column, dtype if step is steps[0] else None) for step in steps]
    found = Recognised(chained([part.encoder for part in parts]), parts[0].read, parts[0].others, parts[-1].pick)
    return found if imputer is None else _filled(found, imputer, column)


#: what does nearly the same and has steps
_INSTEAD = {"QuantileTransformer": "no step interpolates between quantiles: train on KBinsDiscretizer(encode='ordinal', strategy='quantile') with an "
                                   "nn.Embedding of the bins, or ",
            "PowerTransformer": "train on FunctionTransformer(numpy.log1p), then a StandardScaler, or ",
            "TargetEncoder": "train an nn.Embedding of an OrdinalEncoder's ids, or ", "Binarizer": "compare in the model, x > threshold, or "}
_SKLEARN = {"LabelEncoder": _label_encoder, "OrdinalEncoder": _ordinal_encoder, "OneHotEncoder": _one_hot_encoder,
            "StandardScaler": _standard_scaler, "MinMaxScaler": _minmax_scaler, "RobustScaler": _robust_scaler,
            "MaxAbsScaler": _max_abs_scaler, "KBinsDiscretizer": _kbins, "FunctionTransformer": _function, "SimpleImputer": _imputer,
            "Pipeline": _pipeline}
