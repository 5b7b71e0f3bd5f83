"""What the entries of a vocabulary step must be (FORMAT.md part 5), by the rules of the engine (sdk/src/encode)."""

import numpy as np

from ..errors import BundleError


def check_vocabulary(step):
    """Raises unless the entries of a vocab_string, vocab_int or vocab_float are sound and each is there once."""
    if step["op"] == "vocab_string":
        twice = _a_text_twice(step["bytes"], step["offsets"])
    else:
        keys = step["keys"]
        if step["op"] == "vocab_float":
            numbers = keys.view("<f8")
            if not np.all(np.isfinite(numbers) & ((numbers != 0) | (keys == 0))):
                raise BundleError("vocab_float: a key is not finite, or is -0")
        twice = len(np.unique(keys)) != len(keys)
    if twice:
        raise BundleError(f"{step['op']}: {'an entry' if step['op'] == 'vocab_string' else 'a key'} appears twice")


def _a_text_twice(data, offsets):
    if not len(offsets) or offsets[0] != 0 or offsets[-1] != len(data) or np.any(offsets[1:] < offsets[:-1]):
        raise BundleError("vocab_string: its offsets do not rise from 0 to the number of its bytes")
    data, ends = data.tobytes(), offsets.tolist()
    return len({data[a:b] for a, b in zip(ends, ends[1:])}) != len(ends) - 1
