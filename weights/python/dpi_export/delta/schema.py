"""What a delta may not change (weights/DELTA.md part 4), by the rules of the engine (sdk/src/bundle/delta)."""

from ..errors import BundleError


def _same(base, after, what):
    if base != after:
        raise BundleError(f"{what} is not what it is in the base, and a delta cannot change it; that takes a new bundle")


def _without(entry, *keys):
    return {k: v for k, v in entry.items() if k not in keys}


def _lists(base, after, what, check):
    _same(len(base), len(after), f"the number of {what}s")
    for i, (a, b) in enumerate(zip(base, after)):
        _same(a.get("name"), b.get("name"), f"{what} {i} ('{b.get('name')}')")
        check(a, b, f"{what} '{b.get('name')}'")


def _feature(a, b, what):
    if b.get("vocab_size", 0) < a.get("vocab_size", 0):
        raise BundleError(f"{what}: vocab_size falls from {a['vocab_size']} to {b['vocab_size']}; that takes a new bundle")
    _same(_without(a, "vocab_size", "stats"), _without(b, "vocab_size", "stats"), what)


def _table(a, b, what):
    if not b.get("external") and "keys" not in b and b["rows"] < a["rows"]:
        raise BundleError(f"{what}: loses rows, {a['rows']} to {b['rows']}; that takes a new bundle")
    may = ("rows", "digest", "default") if b.get("external") else ("rows",)
    _same(_without(a, *may), _without(b, *may), what)


def check_same_schema(base, after):
    """Raises unless the bundle `after` is a later version of the model that `base` is."""
    a, b = base.manifest, after.manifest
    _same(base.name, after.name, f"name '{after.name}'")
    _same(base.version_minor, after.version_minor, "the format's version")
    _lists(a["features"], b["features"], "feature", _feature)
    _lists(a["tables"], b["tables"], "table", _table)
    _lists(a.get("key_sets", []), b.get("key_sets", []), "key set", lambda x, y, what: _same(_without(x, "keys"), _without(y, "keys"), what))
    _lists(a["ops"], b["ops"], "op", _same)
    _lists(a["heads"], b["heads"], "head", _same)
    for path, info in after.data_sets.items():
        if path.startswith("/params/"):
            before = base.data_sets.get(path)
            _same(before and tuple(before["shape"]), tuple(info["shape"]), f"the shape of {path}")
