"""A feature's rules for missing values and for those outside of its vocabulary."""

import numpy as np

from ..errors import BundleError
from ..schema import get, is_keyed, is_slot, pad_of
from .marks import MISSING, OOV


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
