"""The one exception of this package, and the name rules that everything shares."""

import re

NAME = re.compile(r"^[A-Za-z0-9_.\-/ \[\]:]{1,200}\Z")
DATASET = re.compile(r"^[A-Za-z0-9_.\-]{1,200}\Z")


class BundleError(ValueError):
    """A bundle, or a call that would build one, breaks weights/FORMAT.md. The text names the place and the reason."""


def check_name(what, name):
    """Raises unless `name` may name a feature, table, op or head."""
    if not isinstance(name, str) or not NAME.match(name):
        raise BundleError(f"{what} name {name!r}: expected 1 to 200 characters of A-Z a-z 0-9 _ . - / space [ ] :")


def dataset_name(name):
    """The data set name that stands for a table, parameter or feature name."""
    out = re.sub(r"[/ \[\]:]", "_", name)
    if not DATASET.match(out):
        raise BundleError(f"{name!r} has no data set name")
    return out
