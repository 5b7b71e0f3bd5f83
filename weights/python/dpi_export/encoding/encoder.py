"""Encoders: the steps that turn a raw value into an id or a float (FORMAT.md part 5), and what they mean in Python.

    Encoder([trim(), vocab_string(["Private", "State-gov"], first_id=1)])
    Encoder([to_float(), log1p(), standard(mean=5.0, std=2.0)])
    Encoder([vocab_string(["a", "b"])], splitter="^")                       # of a sequence: "a^b" is a bag of two
"""

import bisect
import math
import numbers

import numpy as np
import xxhash

from .cells import DECIMAL, INTEGER, is_missing, number_text, whole_of
from ..errors import BundleError
from ..bundle.keyed_tables import check_key_encoder
from .murmur3 import murmur3_32
from ..schema import get, is_keyed, is_slot, pad_of
from .vocabularies import check_vocabulary


class _Marker:
    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return self.name


MISSING, OOV = _Marker("MISSING"), _Marker("OOV")

_SPACE = " \t\n\r\v\f"
_ASCII_LOWER = str.maketrans({chr(c): chr(c + 32) for c in range(65, 91)})
_ASCII_UPPER = str.maketrans({chr(c + 32): chr(c) for c in range(65, 91)})

#: op -> (kinds it reads, kind it gives, keys, array keys)
STEPS = {
    "trim": ("text", "text", (), ()), "lower": ("text", "text", (), ()), "upper": ("text", "text", (), ()),
    "missing": ("text", "text", ("values",), ()),
    "vocab_string": ("text", "id", ("first_id",), ("bytes", "offsets", "ids")),
    "vocab_int": ("text number", "id", ("first_id",), ("keys", "ids")),
    "vocab_float": ("number", "id", ("first_id",), ("keys", "ids")),
    "hash": ("text", "id", ("algorithm", "seed", "modulus", "offset"), ()),
    "to_id": ("text number", "id", (), ()), "to_float": ("text", "number", (), ()),
    "clip": ("number", "number", ("lo", "hi"), ()), "log1p": ("number", "number", (), ()),
    "signed_log1p": ("number", "number", (), ()), "standard": ("number", "number", ("mean", "std"), ()),
    "minmax": ("number", "number", ("min", "max", "lo", "hi"), ()),
    "buckets": ("number", "id", ("boundaries", "right", "first_id"), ()),
}
ARRAY_TYPES = {"bytes": "u1", "offsets": "<u8", "ids": "<i8", "keys": "<i8"}


def _number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < float("inf")


def _integer(lo, hi):
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and lo <= value <= hi


def _list_of(check):
    return lambda value: isinstance(value, (list, tuple)) and all(map(check, value))


#: what the keys of steps may hold
_VALUES = {
    **{key: (_number, "a finite number") for key in ("lo", "hi", "mean", "std", "min", "max")},
    **{key: (_integer(0, 2**31 - 1), "an integer from 0 to 2^31 - 1") for key in ("first_id", "offset")},
    "seed": (_integer(0, 2**63 - 1), "an integer from 0 to 2^63 - 1"),
    "modulus": (_integer(1, 2**31 - 1), "an integer from 1 to 2^31 - 1"),
    "right": (lambda v: isinstance(v, bool), "true or false"), "algorithm": (lambda v: isinstance(v, str), "a text"),
    "values": (_list_of(lambda v: isinstance(v, str)), "a list of texts"),
    "boundaries": (_list_of(_number), "a list of finite numbers"),
}


# -- steps ------------------------------------------------------------------------------------------------------------
def trim():
    """Drops ASCII white space at both ends."""
    return {"op": "trim"}


def lower():
    """ASCII lower case."""
    return {"op": "lower"}


def upper():
    """ASCII upper case."""
    return {"op": "upper"}


def missing(values):
    """These texts are missing values (the empty text always is)."""
    return {"op": "missing", "values": [str(v) for v in values]}


def vocab_string(values, first_id=1, ids=None):
    """Text -> id: the k-th entry has ids[k], or first_id + k."""
    raw = [v.encode() if isinstance(v, str) else bytes(v) for v in values]
    offsets = np.concatenate([[0], np.cumsum([len(r) for r in raw], dtype=np.int64)]).astype("<u8")
    step = {"op": "vocab_string", "bytes": np.frombuffer(b"".join(raw), "u1"), "offsets": offsets}
    return _with_ids(step, len(raw), first_id, ids)


def vocab_int(keys, first_id=1, ids=None):
    """Integer -> id."""
    keys = np.array([int(k) for k in keys], dtype="<i8")
    return _with_ids({"op": "vocab_int", "keys": keys}, len(keys), first_id, ids)


def vocab_float(keys, first_id=1, ids=None):
    """Number -> id, for categories that are floats. Keys are stored as the bit patterns of float64."""
    keys = np.array([float(k) for k in keys], dtype="<f8") + 0.0  # -0 becomes 0
    return _with_ids({"op": "vocab_float", "keys": keys.view("<i8")}, len(keys), first_id, ids)


def _with_ids(step, n, first_id, ids):
    check_vocabulary(step)
    if ids is None:
        return {**step, "first_id": int(first_id)}
    ids = np.asarray(ids, dtype="<i8")
    if ids.shape != (n,):
        raise BundleError(f"{step['op']}: {ids.size} ids for {n} entries")
    return {**step, "ids": ids}


def hash_xxh64(modulus=None, seed=0, offset=0):
    """Text -> offset + XXH64(bytes, seed) mod modulus; without modulus all 64 bits as an int64, for features of keys."""
    if modulus is None:
        return {"op": "hash", "algorithm": "xxh64", "seed": int(seed)}
    return {"op": "hash", "algorithm": "xxh64", "seed": int(seed), "modulus": int(modulus), "offset": int(offset)}


def hash_murmur3(modulus, seed=0, offset=0):
    """Text -> offset + MurmurHash3_x86_32(bytes, seed) mod modulus."""
    return {"op": "hash", "algorithm": "murmur3_32", "seed": int(seed), "modulus": int(modulus), "offset": int(offset)}


def to_id():
    """The integer itself."""
    return {"op": "to_id"}


def to_float():
    """Decimal text -> number."""
    return {"op": "to_float"}


def clip(lo, hi):
    """min(max(x, lo), hi)"""
    return {"op": "clip", "lo": float(lo), "hi": float(hi)}


def log1p():
    """ln(1 + x)"""
    return {"op": "log1p"}


def signed_log1p():
    """sign(x) ln(1 + |x|)"""
    return {"op": "signed_log1p"}


def standard(mean, std):
    """(x - mean) / std"""
    return {"op": "standard", "mean": float(mean), "std": float(std)}


def minmax(min, max, lo=0.0, hi=1.0):  # noqa: A002 (the names of the format)
    """(x - min) / (max - min) (hi - lo) + lo"""
    return {"op": "minmax", "min": float(min), "max": float(max), "lo": float(lo), "hi": float(hi)}


def buckets(boundaries, right=False, first_id=0):
    """Number -> first_id + numpy.digitize(x, boundaries, right)."""
    return {"op": "buckets", "boundaries": [float(b) for b in boundaries], "right": bool(right), "first_id": int(first_id)}


# -- the encoder ------------------------------------------------------------------------------------------------------
class Encoder:
    """Steps in order. Array-valued keys (bytes, offsets, ids, keys) hold numpy arrays. For sequences:

    splitter         splits a text that holds a whole bag; "" splits at runs of white space; None: a text is one element
    missing_element  the id of a missing element, which then keeps its place; None: it leaves the bag
    """

    def __init__(self, steps, splitter=None, missing_element=None):
        self.steps = [dict(s) for s in steps]
        self.splitter = splitter
        if missing_element is not None and (isinstance(missing_element, bool) or not isinstance(missing_element, (int, np.integer))):
            raise BundleError(f"encoder: missing_element is {missing_element!r}, expected an id")
        self.missing_element = None if missing_element is None else int(missing_element)
        self._maps = {}
        self.suggested = {}    # feature rules under which a converted encoder equals its library
        self.padding = ()      # of a converted encoder: texts that its library takes for padding
        self.transform = None  # of a converted encoder: the library's own, raw cells -> ids, padded bags or floats
        self.scaled = None     # of a fitted scaler: (its class, the type of its column or None)
        self.own = None        # its vocabulary is stored apart from equal ones, since it may grow alone (growing.py)
        for i, step in enumerate(self.steps):
            self._check_step(i, step)

    @classmethod
    def of(cls, value):
        """An Encoder from an Encoder, a step or a list of steps."""
        if isinstance(value, cls):
            return value
        return cls([value] if isinstance(value, dict) and "op" in value else value)

    def with_rules(self, **rules):
        """Itself, with these as `suggested`."""
        self.suggested = rules
        return self

    def __eq__(self, other):
        return self is other

    __hash__ = object.__hash__

    def _check_step(self, i, step):
        where = f"encoder step {i} ({step.get('op')})"
        if step.get("op") not in STEPS:
            raise BundleError(f"{where}: this step is not known")
        _, _, keys, arrays = STEPS[step["op"]]
        for key in step:
            if key != "op" and key not in keys and key not in arrays:
                raise BundleError(f"{where}: key '{key}' is not known")
        whole = {"modulus", "offset"} if step["op"] == "hash" and "modulus" not in step else set()  # all 64 bits: checked by check()
        if whole and (step.get("algorithm") != "xxh64" or "offset" in step):
            raise BundleError(f"{where}: modulus is missing; only xxh64 without offset gives a key of 64 bits")
        for key in set(keys) - {"first_id"} - whole | (set(arrays) - {"ids"}):
            if key not in step:
                raise BundleError(f"{where}: key '{key}' is missing")
        for key, value in step.items():
            if key in _VALUES and not _VALUES[key][0](value):
                raise BundleError(f"{where}: {key} is {value!r}, expected {_VALUES[key][1]}")
        bad = {"standard": lambda s: s["std"] == 0, "minmax": lambda s: s["max"] == s["min"],
               "clip": lambda s: s["lo"] > s["hi"], "buckets": lambda s: list(s["boundaries"]) != sorted(s["boundaries"]),
               "hash": lambda s: s["algorithm"] not in ("xxh64", "murmur3_32") or
               (s["algorithm"] == "murmur3_32" and s["seed"] >= 2**32)}
        if step["op"] in bad and bad[step["op"]](step):
            raise BundleError(f"{where}: its numbers make no sense: {step}")

    def check(self, feature):
        """Raises unless the steps fit together and end in what `feature` needs; fixed ids must lie in its vocabulary."""
        where = f"feature '{feature['name']}': encoder"
        kind = "text"
        for i, step in enumerate(self.steps):
            reads, gives, _, _ = STEPS[step["op"]]
            if kind not in reads.split():
                raise BundleError(f"{where} step {i} ({step['op']}) reads {reads}, the step before gives {kind}")
            kind = gives
        self._check_bags(feature, where)
        want = "id" if is_slot(feature) else "number"
        if self.steps and kind != want:
            cure = ": an nn.Embedding of [categories, outputs] is what a Linear over one-hot columns does, and reads the id" if kind == "id" else ""
            raise BundleError(f"{where} ends in {'an id' if kind == 'id' else f'a {kind}'}, the feature needs {'an id' if want == 'id' else 'a number'}{cure}")
        check_key_encoder(feature, self.steps[-1] if self.steps else {"op": "to_id"}, where)
        if is_keyed(feature):
            return
        lo, hi = self.id_range()
        if want == "id" and lo is not None and (lo < 0 or hi >= feature["vocab_size"]):
            raise BundleError(f"{where} gives ids {lo} to {hi}, vocab_size is {feature['vocab_size']}")

    def _check_bags(self, feature, where):
        if self.splitter is None and self.missing_element is None:
            return
        if feature["kind"] != "sequence" or not self.steps:
            raise BundleError(f"{where}: splitter and missing_element are for sequences with steps")
        if self.splitter is not None and (not isinstance(self.splitter, str) or get(feature, "weighted")):
            raise BundleError(f"{where}: splitter is {self.splitter!r}, expected a text, and a feature that is not weighted")
        if is_keyed(feature):
            if self.missing_element is not None and not -2**63 <= self.missing_element < 2**63:
                raise BundleError(f"{where}: missing_element is {self.missing_element}, expected a key")
            return
        if self.missing_element is not None and not 0 <= self.missing_element < feature["vocab_size"]:
            raise BundleError(f"{where}: missing_element is {self.missing_element}, vocab_size is {feature['vocab_size']}")

    def entries(self):
        """{text or number: id} of the vocabulary, or None when the last step is not one."""
        if not self.steps or self.steps[-1]["op"] not in ("vocab_string", "vocab_int", "vocab_float"):
            return None
        return self._vocab(len(self.steps) - 1, self.steps[-1])

    def id_range(self):
        """Least and largest id the last step can give, or (None, None)."""
        step = self.steps[-1] if self.steps else {"op": "to_id"}
        if step["op"] == "hash" and "modulus" in step:
            return step["offset"], step["offset"] + step["modulus"] - 1
        if step["op"] == "buckets":
            return step.get("first_id", 0), step.get("first_id", 0) + len(step["boundaries"])
        if step["op"] in ("vocab_string", "vocab_int", "vocab_float"):
            n = len(step["offsets"]) - 1 if step["op"] == "vocab_string" else len(step["keys"])
            if n == 0:
                return None, None
            if "ids" in step:
                return int(step["ids"].min()), int(step["ids"].max())
            return step.get("first_id", 1), step.get("first_id", 1) + n - 1
        return None, None

    @property
    def names(self):
        """The value names something: no step reads how large it is."""
        return all(step["op"] != "to_float" for step in self.steps)

    def encode(self, raw):
        """One raw value (text or number) -> id, float, MISSING or OOV. Raises BundleError for what no rule covers."""
        if is_missing(raw):
            return MISSING
        if not isinstance(raw, (str, numbers.Real, np.bool_)):
            raise BundleError(f"{raw!r} is no text, number or boolean; give the text by which the data file shows it")
        if isinstance(raw, (float, np.floating)) and abs(raw) >= 2**53 and self.names:
            raise BundleError(f"{raw!r} may stand for another integer (2**53 and beyond); give an integer or text")
        value = number_text(raw) if isinstance(raw, (bool, np.bool_)) else raw
        for i, step in enumerate(self.steps):
            value = self._step(i, step, value)
            if isinstance(value, _Marker):
                return value
        return value

    def _step(self, i, step, x):
        op = step["op"]
        if STEPS[op][0] == "text" and not isinstance(x, str):
            x = number_text(x)
        if STEPS[op][0] == "text" or isinstance(x, str):
            return self._text_step(i, step, x)
        if op == "vocab_int":
            return self._vocab(i, step).get(int(x), OOV) if x == int(x) else OOV
        if op == "to_id":
            if x != int(x):
                raise BundleError(f"{x!r} is not an integer")
            return int(x)
        if op == "vocab_float":
            return self._vocab(i, step).get(float(x), OOV)
        return _number_step(step, float(x))

    def _text_step(self, i, step, x):
        op = step["op"]
        if op in ("trim", "lower", "upper", "missing"):
            x = {"trim": lambda: x.strip(_SPACE), "lower": lambda: x.translate(_ASCII_LOWER),
                 "upper": lambda: x.translate(_ASCII_UPPER),
                 "missing": lambda: "" if x in step["values"] else x}[op]()
            return MISSING if x == "" else x
        if op == "vocab_string":
            return self._vocab(i, step).get(x.encode(), OOV)
        if op == "hash":
            data = x.encode()
            h = xxhash.xxh64_intdigest(data, step["seed"]) if step["algorithm"] == "xxh64" else murmur3_32(data, step["seed"])
            if "modulus" not in step:
                return h - 2**64 if h >= 2**63 else h
            return step["offset"] + h % step["modulus"]
        if op == "vocab_int":
            return self._vocab(i, step).get(whole_of(x), OOV)
        if op == "to_id":
            if not INTEGER.match(x) or not -2**63 <= int(x) < 2**63:
                raise BundleError(f"{x!r} is not an integer")
            return int(x)
        if op == "to_float":
            if not DECIMAL.match(x) or not math.isfinite(float(x)):
                cure = "; write booleans as 1 and 0, as the column that was fitted holds them" if x.lower() in ("true", "false") else ""
                raise BundleError(f"{x!r} is not a decimal number{cure}")
            return float(x)
        raise BundleError(f"encoder step {i} ({op}) needs a number, got text {x!r}")

    def _vocab(self, i, step):
        if i not in self._maps:
            if step["op"] == "vocab_string":
                data, off = step["bytes"].tobytes(), [int(o) for o in step["offsets"]]
                entries = [data[a:b] for a, b in zip(off, off[1:])]
            elif step["op"] == "vocab_float":
                entries = step["keys"].view("<f8").tolist()
            else:
                entries = [int(k) for k in step["keys"]]
            ids = step.get("ids")
            first = step.get("first_id", 1)
            self._maps[i] = {e: int(ids[k]) if ids is not None else first + k for k, e in enumerate(entries)}
        return self._maps[i]

    def encode_for(self, feature, raw):
        """The id or float32 a feature gets for one raw value, under its missing and out_of_range rules. A missing element of a
        sequence is MISSING, which leaves the bag, unless the encoder has an id for it."""
        value = self.encode(raw) if self.steps else (MISSING if is_missing(raw) else raw)
        if value is MISSING and feature["kind"] == "sequence" and self.missing_element is not None:
            return self.missing_element
        return apply_rules(feature, value)

    def elements(self, cell):
        """The raw elements of a sequence's cell: a list gives its own, a text falls apart at the splitter."""
        if isinstance(cell, (list, tuple, np.ndarray)):
            return [e for c in cell for e in self.elements(c)]
        if self.splitter is None:
            return [cell]
        if is_missing(cell):
            return []
        text = cell if isinstance(cell, str) else number_text(cell)
        return text.split(self.splitter or None)

    def encode_bag(self, feature, cell):
        """The ids of a sequence's cell, before the cut to max_len."""
        ids = [self.encode_for(feature, element) for element in self.elements(cell)]
        return [i for i in ids if i is not MISSING]

    def manifest(self, stored, feature_name):
        """({"steps": ...} with data set paths, {path: array}). `stored`: what the model's encoders wrote so far, {} at first;
        a vocabulary that is there already is named again, not written again, but for `own` ones."""
        from ..errors import dataset_name
        steps, arrays, taken = [], {}, stored.setdefault("paths", set())
        for step in self.steps:
            out = {key: value for key, value in step.items() if key not in ARRAY_TYPES}
            contents = {key: np.ascontiguousarray(step[key], dtype=kind) for key, kind in ARRAY_TYPES.items() if key in step}
            # Bytes and offsets go together: a text cut in another way is another vocabulary.
            whole = b"|".join(a.tobytes() for key, a in contents.items() if key != "ids")
            for key, array in contents.items():
                content = (key, step["op"], array.tobytes() if key == "ids" else whole, feature_name if self.own else None)
                if content not in stored:
                    base = path = f"/encoders/{dataset_name(feature_name)[:180]}.{key}"
                    n = 1
                    while path in taken:
                        n += 1
                        path = f"{base}.{n}"
                    taken.add(path)
                    stored[content], arrays[path] = path, array
                out[key] = stored[content]
            steps.append(out)
        bags = {"splitter": self.splitter, "missing_element": self.missing_element}
        return {"steps": steps, **{k: v for k, v in bags.items() if v is not None}}, arrays


def _number_step(step, x):
    op = step["op"]
    if op == "clip":
        return min(max(x, step["lo"]), step["hi"])
    if op == "log1p":
        if x <= -1:
            raise BundleError(f"log1p of {x!r}")
        return math.log1p(x)
    if op == "signed_log1p":
        return math.copysign(math.log1p(abs(x)), x)
    if op == "standard":
        return (x - step["mean"]) / step["std"]
    if op == "minmax":
        return (x - step["min"]) / (step["max"] - step["min"]) * (step["hi"] - step["lo"]) + step["lo"]
    side = bisect.bisect_left if step["right"] else bisect.bisect_right
    return step.get("first_id", 0) + side(step["boundaries"], x)


def apply_rules(feature, value):
    """Missing and out-of-range rules of part 4 on one encoded value."""
    where = f"feature '{feature['name']}'"
    if not is_slot(feature):
        if value is MISSING:
            rule = get(feature, "missing")
            if rule == "error":
                raise BundleError(f"{where}: a value is missing")
            return np.float32(0.0 if rule == "pad" else get(feature, "default"))
        with np.errstate(over="ignore"):
            value = np.float32(value)
        if not np.isfinite(value):
            raise BundleError(f"{where}: {value} is not finite")
        return value
    if value is MISSING or (value is not OOV and value == get(feature, "missing_id")):
        rule = get(feature, "missing")
        if feature["kind"] == "sequence":
            return MISSING
        if rule == "error":
            raise BundleError(f"{where}: a value is missing")
        return pad_of(feature) if rule == "pad" else get(feature, "default_id")
    if is_keyed(feature):
        return int(value)
    if value is OOV or not 0 <= value < feature["vocab_size"]:
        rule = get(feature, "out_of_range")
        if rule == "error":
            raise BundleError(f"{where}: {'a value outside the vocabulary' if value is OOV else f'id {value}'}, "
                              f"expected 0 to {feature['vocab_size'] - 1}")
        return get(feature, "oov_id" if rule == "oov" else "default_id")
    return int(value)
