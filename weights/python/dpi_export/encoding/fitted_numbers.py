"""Numbers that a fitted object saw as float16 or float32: the cells by which frames and files show them later, and bins that take each
cell where the object takes the number.

A frame hands over a float32 as it is, 0.10000000149011612; the CSV that pandas writes of the frame shows its shortest decimal, 0.1, and its
JSON ten decimals, 0.1000000015. All of them are one number, and become one id.
"""

import math
import re

import numpy as np

from ..errors import BundleError

_NARROW = (np.float16, np.float32)


def as_narrow(width, x):
    """x rounded to `width` (np.float16, np.float32; None: not at all), as a float."""
    if width is None:
        return float(x)
    with np.errstate(over="ignore"):
        return float(width(x))


def narrow_type(dtype):
    """np.float16 or np.float32 where that is the dtype, else None."""
    return next((w for w in _NARROW if dtype is not None and np.dtype(dtype) == w), None)


def shown(width, x):
    """The float64 values by which frames, CSV and JSON show a number of `width`: the number itself first."""
    forms = (float(x), float(str(width(x))), round(float(x), 10))
    return [f for f in dict.fromkeys(forms) if as_narrow(width, f) == x]


def held_in(numbers, dtype=None):
    """np.float32 or np.float16 when the numbers come from a column of it, else None. Nullable columns (Float32) reach scikit-learn as
    float64: such numbers are known by their digits, which no decimal of up to nine digits has."""
    known = narrow_type(dtype)
    if known is not None or not numbers:
        return known
    exact = all(as_narrow(np.float32, x) == x for x in numbers)
    return np.float32 if exact and any(digits(x) > 9 and float(str(np.float32(x))) != x for x in numbers) else None


def digits(x):
    """How many digits the shortest decimal of x has."""
    return len(re.sub(r"e.*|[-.]", "", repr(float(x))).strip("0"))


def float_keys(entries, ids, dtype):
    """(keys, their ids) of vocab_float, a number of float16 or float32 once for each cell that shows it."""
    for v in entries:
        if isinstance(v, (complex, np.complexfloating)) or float(v) != v:
            raise BundleError(f"category {v!r} is no float64")
    group = held_in([float(v) for v in entries if math.isfinite(v)], dtype)
    found = {float(v): i for v, i in zip(entries, ids)}
    for v, i in zip(entries, ids):
        width = next((w for w in _NARROW if isinstance(v, w)), group)
        for form in shown(width, v) if width is not None and math.isfinite(v) else ():
            found.setdefault(form, i)
    return list(found), list(found.values())


# -- bins -------------------------------------------------------------------------------------------------------------
def boundaries(edges, dtype, of):
    """The boundaries by which `buckets` puts every cell where bins with these edges (the least and the largest value of the fitted column
    are the first and the last) put the number that it shows. `dtype`: of the column, None where nobody says."""
    inner = [float(e) for e in edges[1:-1]]
    if not inner:
        return []
    kinds = [narrow_type(dtype)] if dtype is not None else _candidates(edges)
    return [_boundary(e, kinds, of) for e in inner]


def _candidates(edges):
    """What the column may have been: its ends are numbers of its type."""
    known, ends = narrow_type(edges.dtype), [float(edges[0]), float(edges[-1])]
    if known is not None:
        return [known]
    narrow = [w for w in _NARROW if all(as_narrow(w, x) == x for x in ends)]
    told = held_in(ends)  # by digits that only a column of float32, or narrower, has
    return narrow if told is not None else [None, *narrow]


def _beside(width, edge):
    """The numbers of `width` at an edge: the least that is not below it, and the one before."""
    first = width(edge)
    if float(first) < edge:
        first = np.nextafter(first, width(np.inf))
    return [first, np.nextafter(first, width(-np.inf))]


def _boundary(edge, kinds, of):
    """A boundary that takes every cell which shows a number beside the edge to its side, whichever of `kinds` the column was."""
    if kinds == [None]:
        return edge
    if len(kinds) == 1:
        return _where_rounding_turns(kinds[0], edge)
    narrow = [(x, f) for w in kinds if w is not None for x in _beside(w, edge) if np.isfinite(x) for f in shown(w, x)]
    above = {f for x, f in narrow if float(x) >= edge}
    below = {f for x, f in narrow if float(x) < edge}
    if None in kinds:
        above |= {edge} | {f for _, f in narrow if f >= edge}
        below |= {f for _, f in narrow if f < edge}
    if below and max(below) >= min(above):
        names = [np.dtype(w or np.float64).name for w in kinds]
        raise BundleError(f"{of}: the cell {max(below)!r} is below or above the edge {edge!r} by the type of the column that it was fitted on, "
                          f"{' or '.join(names)}; say which, encoders={{name: (encoder, column, \"{names[0]}\")}}, or give raw= with that "
                          "column (whole numbers are float64 here)")
    return min(above)


def _where_rounding_turns(width, edge):
    """The least float64 whose rounding to `width` is not below the edge."""
    first, before = _beside(width, edge)
    if not (np.isfinite(first) and np.isfinite(before)):
        return edge
    middle = (float(first) + float(before)) / 2
    return middle if as_narrow(width, middle) == float(first) else math.nextafter(middle, math.inf)
