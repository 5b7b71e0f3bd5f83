"""The exceptions of this package, and the name rules that everything shares."""

import contextlib
import re

#: Beyond ASCII: neither C1 controls, line separators and marks of direction nor halves of a surrogate pair.
NAME = re.compile(r"[A-Za-z0-9_.\-/ \[\]:\u00a0-\u2027\u202f-\u2065\u206a-\ud7ff\ue000-\U0010ffff]+")
NAME_BYTES = 200
DATASET = re.compile(r"^[A-Za-z0-9_.\-]{1,200}\Z")


class BundleError(ValueError):
    """A bundle, or a call that would build one, breaks weights/FORMAT.md. The text names the place and the reason."""


class UnsupportedModelError(ValueError):
    """A model holds something that the importer cannot carry over exactly. The text names the layer or option and the reason."""

    _made = None  #: those made while a model runs, which may catch them

    def __init__(self, *args):
        super().__init__(*args)
        if UnsupportedModelError._made is not None:
            UnsupportedModelError._made.append(self)

    @classmethod
    @contextlib.contextmanager
    def kept(cls):
        """Raises at the end what was refused meanwhile, though the model's own try caught it: what it did instead is not what it does."""
        held, cls._made = cls._made, []
        try:
            yield
            if cls._made:
                raise cls._made[0]
        finally:
            cls._made = held


def check_name(what, name):
    """Raises unless `name` may name a feature, table, op or head."""
    if not isinstance(name, str) or not NAME.fullmatch(name) or len(name.encode()) > NAME_BYTES:
        raise BundleError(f"{what} name {name!r}: expected 1 to {NAME_BYTES} bytes of UTF-8: A-Z a-z 0-9 _ . - / space [ ] : and "
                          "letters beyond ASCII")


def dataset_name(name):
    """The data set name that stands for a table, parameter or feature name: `_` for every character that it cannot hold."""
    out = re.sub(r"[/ \[\]:]|[^\x00-\x7f]", "_", name)
    if not DATASET.match(out):
        raise BundleError(f"{name!r} has no data set name")
    return out


def table_path(entry):
    """The data set of a table's manifest entry. A name beyond ASCII stands for none by itself: two could stand for the same."""
    check_name("table", entry.get("name"))
    if "data" in entry:
        return entry["data"]
    if not entry["name"].isascii():
        raise BundleError(f"table '{entry['name']}': data is missing, which a name beyond ASCII needs")
    return f"/tables/{dataset_name(entry['name'])}"
