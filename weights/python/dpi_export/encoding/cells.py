"""Raw cells by themselves: which are missing, and the text of a number."""

import math
import re

import numpy as np

from ..errors import BundleError

INTEGER = re.compile(r"[+-]?[0-9]+\Z")
DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?\Z")


def is_missing(cell):
    """True for None, NaN, the empty text, and pandas' NA and NaT, which answer no comparison."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(cell, str) and cell == "" or isinstance(cell, (float, np.floating)) and cell != cell


def number_text(x):
    """The text that text steps see for a number: no exponent for integers, else the shortest decimal that reads back; of a boolean true
    or false, as every binding has it."""
    if isinstance(x, (bool, np.bool_)):
        return "true" if x else "false"
    if isinstance(x, (int, np.integer)):
        return str(int(x))
    return str(int(x)) if math.isfinite(x) and x == int(x) else repr(float(x))


def whole_of(text):
    """The integer that a text writes, also as a float: "3", "3.0", "3e0"; None where it writes none."""
    if INTEGER.match(text):
        return int(text)
    number = float(text) if DECIMAL.match(text) else math.nan
    if math.isfinite(number) and abs(number) >= 2**53:
        raise BundleError(f"{text!r} may stand for another integer (2**53 and beyond); give its digits")
    return int(number) if math.isfinite(number) and number == int(number) else None
