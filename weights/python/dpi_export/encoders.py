"""Encoders: the steps that turn a raw value into an id or a float (FORMAT.md part 5), and what they mean in Python. Users
import this module; its parts are in encoding/.

    Encoder([trim(), vocab_string(["Private", "State-gov"], first_id=1)])
    Encoder([to_float(), log1p(), standard(mean=5.0, std=2.0)])
    Encoder([vocab_string(["a", "b"])], splitter="^")                       # of a sequence: "a^b" is a bag of two
"""

from .encoding.encoder import Encoder
from .encoding.marks import MISSING, OOV
from .encoding.steps import (buckets, clip, hash_murmur3, hash_xxh64, log1p, lower, minmax, missing, signed_log1p, standard, to_float, to_id, trim,
                             upper, vocab_float, vocab_int, vocab_string)

__all__ = ["MISSING", "OOV", "Encoder", "buckets", "clip", "hash_murmur3", "hash_xxh64", "log1p", "lower", "minmax", "missing", "signed_log1p", "standard",
           "to_float", "to_id", "trim", "upper", "vocab_float", "vocab_int", "vocab_string"]
