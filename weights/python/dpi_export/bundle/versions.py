"""Which minor version of the format a content needs (FORMAT.md part 12)."""

from ..schema import is_keyed
from .row_types import ROW_TYPES


#: Ops that came after 2.0: the minor version that has them.
_LATER = {"Attention": 2}


def minor_of(features, tables, ops):
    """The lowest minor version that holds this content."""
    keyed = int(any(is_keyed(f) for f in features) or any("keys" in t or t.get("external") for t in tables))
    types = [ROW_TYPES[t["dtype"]].since for t in tables if t.get("dtype") in ROW_TYPES]
    return max([keyed] + types + [_LATER.get(op.get("op"), 0) for op in ops])
