"""Which minor version of the format a content needs (FORMAT.md part 12)."""

from ..schema import is_keyed


def minor_of(features, tables):
    """The lowest minor version that holds this content."""
    return int(any(is_keyed(f) for f in features) or any("keys" in t or t.get("external") for t in tables))
