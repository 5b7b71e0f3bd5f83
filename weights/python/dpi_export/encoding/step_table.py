"""The table of an encoder's steps: what each reads, gives and holds, and the check of one step."""

from ..errors import BundleError

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


def check_step(i, step):
    """Raises unless the step is known and has the keys and values that it needs."""
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


def check_key_encoder(feature, last, where):
    """The last step of an encoder: a key is an integer as it is, or a hash; a hash of 64 bits is nothing else."""
    if "keys" in feature and last["op"] not in ("to_id", "hash"):
        raise BundleError(f"{where} ends in {last['op']}, a feature of keys needs to_id or hash")
    if "keys" not in feature and last["op"] == "hash" and "modulus" not in last:
        raise BundleError(f"{where}: hash has no modulus, which only a feature of keys may leave out")
