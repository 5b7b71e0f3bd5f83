"""The steps of an encoder carried out in Python, as the engine carries them out."""

import bisect
import math

import xxhash

from ..errors import BundleError
from .cells import DECIMAL, INTEGER, number_text, whole_of
from .marks import MISSING, OOV
from .murmur3 import murmur3_32
from .step_table import STEPS

_SPACE = " \t\n\r\v\f"
_ASCII_LOWER = str.maketrans({chr(c): chr(c + 32) for c in range(65, 91)})
_ASCII_UPPER = str.maketrans({chr(c + 32): chr(c) for c in range(65, 91)})


def run_step(i, step, x, entries):
    """One step on a text or number: a text, number, id, MISSING or OOV. `entries` is called for the vocabulary of the step."""
    op = step["op"]
    if STEPS[op][0] == "text" and not isinstance(x, str):
        x = number_text(x)
    if STEPS[op][0] == "text" or isinstance(x, str):
        return _text_step(i, step, x, entries)
    if op == "vocab_int":
        return entries().get(int(x), OOV) if x == int(x) else OOV
    if op == "to_id":
        if x != int(x):
            raise BundleError(f"{x!r} is not an integer")
        return int(x)
    if op == "vocab_float":
        return entries().get(float(x), OOV)
    return _number_step(step, float(x))


def _text_step(i, step, x, entries):
    op = step["op"]
    if op in ("trim", "lower", "upper", "missing"):
        x = {"trim": lambda: x.strip(_SPACE), "lower": lambda: x.translate(_ASCII_LOWER),
             "upper": lambda: x.translate(_ASCII_UPPER),
             "missing": lambda: "" if x in step["values"] else x}[op]()
        return MISSING if x == "" else x
    if op == "vocab_string":
        return entries().get(x.encode(), OOV)
    if op == "hash":
        data = x.encode()
        h = xxhash.xxh64_intdigest(data, step["seed"]) if step["algorithm"] == "xxh64" else murmur3_32(data, step["seed"])
        if "modulus" not in step:
            return h - 2**64 if h >= 2**63 else h
        return step["offset"] + h % step["modulus"]
    if op == "vocab_int":
        return entries().get(whole_of(x), OOV)
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


def vocabulary(step):
    """{entry: id} of a vocabulary step; texts are bytes."""
    if step["op"] == "vocab_string":
        data, off = step["bytes"].tobytes(), [int(o) for o in step["offsets"]]
        entries = [data[a:b] for a, b in zip(off, off[1:])]
    elif step["op"] == "vocab_float":
        entries = step["keys"].view("<f8").tolist()
    else:
        entries = [int(k) for k in step["keys"]]
    ids = step.get("ids")
    first = step.get("first_id", 1)
    return {e: int(ids[k]) if ids is not None else first + k for k, e in enumerate(entries)}
