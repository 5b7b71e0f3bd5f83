"""grow: the next version of a feature whose vocabulary keeps every entry where it is, so that a delta can carry it (DELTA.md part 4)."""

from collections import Counter

import numpy as np

from . import steps
from .cells import number_text, whole_of
from .encoder import Encoder
from .marks import MISSING
from ..errors import BundleError
from ..schema import get, is_keyed, is_slot


def grow(feature, raw, least=1):
    """(the feature with a longer vocabulary, the entries that are new). `feature`: one of `Builder.features` or `Bundle.features`; `raw`:
    its cells, as the encoder reads them. What the vocabulary lacks and `raw` has at least `least` times comes behind the entries that are
    there, the most frequent first, then by value; vocab_size rises where the new ids need it. The feature that was given stays as it is.
    All versions of a chain come from it, the first one too: it also sees to it that the vocabulary has an array of its own in the bundle."""
    encoder, where = feature.get("encoder"), f"feature '{feature['name']}'"
    if not is_slot(feature) or is_keyed(feature) or encoder is None or encoder.entries() is None:
        raise BundleError(f"{where}: has no vocabulary that could grow")
    if least < 1:
        raise BundleError(f"{where}: least is {least!r}, expected 1 or more")
    new = _new_entries(encoder, feature["kind"] == "sequence", raw, least)
    first = _first_free(encoder)
    _check_room(feature, encoder, first, first + len(new), where)
    grown = Encoder([*encoder.steps[:-1], _longer(encoder.steps[-1], new, first)], encoder.splitter, encoder.missing_element)
    grown.suggested, grown.padding = dict(encoder.suggested), encoder.padding
    # Two features that begin with equal vocabularies grow apart: an array for both could not. Those that a bundle names together stay so.
    grown.own = encoder.own is not False
    after = {**feature, "encoder": grown, "vocab_size": max(feature["vocab_size"], first + len(new))}
    grown.check(after)
    return after, [x.decode() if isinstance(x, bytes) else x for x in new]


def _new_entries(encoder, bags, raw, least):
    step, known = encoder.steps[-1], encoder.entries()
    before, counts = Encoder(encoder.steps[:-1]), Counter()
    for cell in raw:
        for value in encoder.elements(cell) if bags else [cell]:
            counts[value.item() if isinstance(value, np.generic) else value] += 1
    found = Counter()  # cells that differ may be one entry: " a" and "a" behind trim
    for value, n in counts.items():
        entry = _entry(step["op"], before.encode(value))
        if entry is not None and entry not in known:
            found[entry] += n
    return sorted((x for x, n in found.items() if n >= least), key=lambda x: (-found[x], x))


def _entry(op, x):
    """What the vocabulary would hold for a value before its step; None for one that it cannot hold."""
    if x is MISSING:
        return None
    if op == "vocab_string":
        return (x if isinstance(x, str) else number_text(x)).encode()
    if op == "vocab_float":
        return float(x) + 0.0
    if isinstance(x, str):
        x = whole_of(x)
    elif x is not None:
        x = int(x) if x == int(x) else None
    return x if x is not None and -2**63 <= x < 2**63 else None


def _first_free(encoder):
    """The id behind all that the vocabulary has."""
    last = encoder.id_range()[1]
    return encoder.steps[-1].get("first_id", 1) if last is None else last + 1


def _check_room(feature, encoder, first, end, where):
    """No id with a meaning of its own may become an entry's."""
    held = {key: get(feature, key) for key in ("pad_id", "oov_id", "default_id", "missing_id")}
    held["missing_element"] = encoder.missing_element
    for key, value in held.items():
        if value is not None and first <= value < end:
            raise BundleError(f"{where}: {key} is {value}, and the vocabulary grows over the ids {first} to {end - 1}; "
                              f"give {key} an id below the vocabulary's first, once and for all versions")


def _longer(step, new, first):
    more = {"ids": np.arange(first, first + len(new))} if "ids" in step else {"first_id": 0}
    tail = getattr(steps, step["op"])(new, **more)
    longer = {k: np.concatenate([step[k], tail[k]]) for k in ("bytes", "keys", "ids") if k in step}
    if "offsets" in step:
        longer["offsets"] = np.concatenate([step["offsets"], tail["offsets"][1:] + step["offsets"][-1]])
    return {**step, **longer}
