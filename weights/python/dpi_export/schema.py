"""Features of a bundle (FORMAT.md part 4): their rules, and which slot or dense column each owns."""

from .errors import BundleError, check_name

KINDS = ("categorical", "sequence", "numeric", "dense")
MAX_LEN = 65536
MAX_ROWS = 2**31 - 2
FLOAT32_MAX = 2.0**128 - 2.0**104

#: Defaults of every key; a feature dict leaves out what equals its default.
DEFAULTS = {
    "space": "item", "out_of_range": "error", "missing": "error", "pad_id": 0, "oov_id": None, "default_id": None,
    "missing_id": None, "default": 0.0, "max_len": 0, "keep": "first", "pad_side": "post", "weighted": False,
    "encoder": None, "stats": None,
}
_IDS = {"vocab_size", "out_of_range", "pad_id", "oov_id", "default_id", "missing_id", "keys"}
_NOT_KEYED = ("vocab_size", "out_of_range", "oov_id")
_COMMON = {"name", "kind", "space", "missing", "encoder", "stats"}
KEYS = {
    "categorical": _COMMON | _IDS,
    "sequence": _COMMON | _IDS | {"max_len", "keep", "pad_side", "weighted"},
    "numeric": _COMMON | {"default"},
    "dense": _COMMON | {"default", "dim"},
}
_CHOICES = {
    "space": ("item", "shared"), "out_of_range": ("error", "oov", "default"), "missing": ("error", "pad", "default"),
    "keep": ("first", "last"), "pad_side": ("post", "pre"), "weighted": (False, True),
}


def get(feature, key):
    """The value of `key`, or its default."""
    return feature.get(key, DEFAULTS.get(key))


def is_slot(feature):
    """True for features that hold ids (categorical, sequence)."""
    return feature["kind"] in ("categorical", "sequence")


def is_keyed(feature):
    """True for features whose ids are 64-bit keys of a key set."""
    return "keys" in feature


def pad_of(feature):
    """The id that padding has; None for keyed features without one."""
    return feature.get("pad_id") if is_keyed(feature) else get(feature, "pad_id")


def width(feature):
    """Dense columns a feature owns: 0 for ids."""
    return {"numeric": 1, "dense": feature.get("dim", 0)}.get(feature["kind"], 0)


def _fail(feature, text):
    raise BundleError(f"feature '{feature.get('name')}': {text}")


def _check_int(feature, key, lo, hi):
    value = feature[key]
    if isinstance(value, bool) or not isinstance(value, int) or not lo <= value <= hi:
        _fail(feature, f"{key} is {value!r}, expected an integer from {lo} to {hi}")


def _check_keyed(feature):
    """Ids are any int64: what names a vocabulary does not apply."""
    check_name("key set", feature["keys"])
    for key in _NOT_KEYED:
        if key in feature:
            _fail(feature, f"{key} does not apply to a feature of keys")
    rule = get(feature, "missing")
    needs = {"default": "default_id", "pad": "pad_id" if feature["kind"] == "categorical" else None}.get(rule)
    if needs and needs not in feature:
        _fail(feature, f"missing is '{rule}' but {needs} is not given")
    for key in ("pad_id", "default_id", "missing_id"):
        if key in feature:
            _check_int(feature, key, -2**63, 2**63 - 1)


def _check_ids(feature):
    if "max_len" in feature:
        _check_int(feature, "max_len", 0, MAX_LEN)
    if is_keyed(feature):
        _check_keyed(feature)
        return
    if "vocab_size" not in feature:
        _fail(feature, "vocab_size is missing")
    _check_int(feature, "vocab_size", 1, MAX_ROWS)
    needed = {"out_of_range": {"oov": "oov_id", "default": "default_id"},
              "missing": {"default": "default_id", "pad": "pad_id"}}
    for rule, keys in needed.items():
        key = keys.get(get(feature, rule))
        if key and get(feature, key) is None:
            _fail(feature, f"{rule} is '{get(feature, rule)}' but {key} is not given")
    for key in ("oov_id", "default_id"):
        if key in feature:
            _check_int(feature, key, 0, feature["vocab_size"] - 1)
    _check_int({**feature, "pad_id": get(feature, "pad_id")}, "pad_id", 0, feature["vocab_size"] - 1)
    if "missing_id" in feature:
        _check_int(feature, "missing_id", -2**63, 2**63 - 1)


def check_feature(feature):
    """Raises unless `feature` (a manifest dict) follows part 4."""
    check_name("feature", feature.get("name"))
    kind = feature.get("kind")
    if kind not in KINDS:
        _fail(feature, f"kind is {kind!r}, expected one of {', '.join(KINDS)}")
    for key in feature:
        if key not in KEYS[kind]:
            _fail(feature, f"key '{key}' is not known for kind {kind}")
    for key, allowed in _CHOICES.items():
        if key in feature and not any(feature[key] is a or (feature[key] == a and isinstance(a, str)) for a in allowed):
            _fail(feature, f"{key} is {feature[key]!r}, expected one of {', '.join(map(str, allowed))}")
    if is_slot(feature):
        _check_ids(feature)
    else:
        default = get(feature, "default")
        number = isinstance(default, (int, float)) and not isinstance(default, bool)
        if not number or not abs(default) <= FLOAT32_MAX:  # false for NaN, too
            _fail(feature, f"default is {default!r}, expected a finite float32")
    if kind == "dense":
        if "dim" not in feature:
            _fail(feature, "dim is missing")
        _check_int(feature, "dim", 1, 65536)


def make_feature(kind, name, **keys):
    """A checked feature dict without the keys that equal their defaults."""
    feature = {"name": name, "kind": kind}
    for key, value in keys.items():
        if hasattr(value, "item") and not hasattr(value, "__len__"):
            value = value.item()  # numpy scalars
        if value is None and key in ("vocab_size", "pad_id", "keys"):
            continue
        if key == "pad_id" and keys.get("keys") is not None:  # no key is padding unless it is named
            feature[key] = value
            continue
        if key in DEFAULTS and value == DEFAULTS[key] and type(value) in (type(DEFAULTS[key]), int):
            continue
        feature[key] = value
    check_feature(feature)
    return feature


class Schema:
    """Where each feature's values stand in a batch. `part` is 'all' (no shared part), 'item' or 'shared'."""

    def __init__(self, features):
        self.features = list(features)
        self.by_name = {f["name"]: f for f in self.features}
        if len(self.by_name) != len(self.features):
            names = [f["name"] for f in self.features]
            raise BundleError(f"feature '{next(n for n in names if names.count(n) > 1)}' is defined twice")

    def _members(self, part):
        return [f for f in self.features if part == "all" or get(f, "space") == part]

    def slots(self, part="all"):
        """Names of the id features of a part, in slot order."""
        return [f["name"] for f in self._members(part) if is_slot(f)]

    def columns(self, part="all"):
        """name -> (first dense column, width) of the float features of a part."""
        out, at = {}, 0
        for f in self._members(part):
            if not is_slot(f):
                out[f["name"]] = (at, width(f))
                at += width(f)
        return out

    def n_columns(self, part="all"):
        """Dense columns of a part."""
        return sum(width(f) for f in self._members(part))
