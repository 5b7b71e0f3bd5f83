"""Tables whose rows are found by 64-bit keys (FORMAT.md part 6): key sets, and where keyed tables take their rows from."""

import numpy as np

from ..errors import BundleError, check_name
from .tables import BLOCK_BYTES, TableSource, encode

MOST_KEYS = 2**31 - 3
MOST_EXTERNAL = 2**40  #: rows of an external table, keys of an external set
MOST_PADS = 16  #: different pad_ids of the features of a set: each is a row of every table


def as_keys(values, where):
    """int64 keys [n]; a value that no int64 holds is refused, not wrapped."""
    keys = np.asarray(values.detach().cpu().numpy() if hasattr(values, "detach") else values)
    if keys.ndim != 1 or keys.dtype.kind not in "iu" or (keys.dtype == np.uint64 and keys.size and keys.max() >= 2**63):
        raise BundleError(f"{where}: keys have shape {list(keys.shape)} and type {keys.dtype}, expected integers [n] that int64 holds; "
                          "view uint64 hashes as int64")
    return keys.astype("<i8")


def check_count(n, where):
    """Raises unless a key set may have n keys."""
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or not 1 <= n <= MOST_KEYS:
        raise BundleError(f"{where}: {n!r} keys, expected 1 to 2^31-3")


class RisingKeys:
    """Looks at a key set's blocks as they go by: every key once, each above the one before, as many as stated."""

    def __init__(self, where, count):
        self.where, self.count, self.at, self.last = where, count, 0, None

    def add(self, keys):
        """The next block."""
        whole = keys if self.last is None else np.concatenate([[self.last], keys])
        bad = np.flatnonzero(whole[1:] <= whole[:-1])
        if len(bad):
            before, key = int(whole[bad[0]]), int(whole[bad[0] + 1])
            at = self.at + int(bad[0]) + (1 if self.last is None else 0)
            raise BundleError(f"{self.where}: key {key} at {at} " + ("is there twice" if key == before else f"comes after {before}")
                              + "; keys rise, each once")
        self.at += len(keys)
        if self.at > self.count:
            raise BundleError(f"{self.where}: more than {self.count} keys")
        if len(keys):
            self.last = keys[-1]

    def finish(self):
        """After the last block."""
        if self.at != self.count:
            raise BundleError(f"{self.where}: {self.at} keys, expected {self.count}")


class KeySet:
    """Sorted keys and the rows they stand for: key k is row k; a key that is not there stands for row len(keys), the default row.
    Padding has a row of its own, so that no other key is taken for it: see pad_row."""

    def __init__(self, name, keys):
        self.name, self.keys, self._pads = name, keys, {}

    def find(self, keys):
        """int64 keys -> rows of the stored table; an absent one gives the default row."""
        keys = np.asarray(keys, dtype=np.int64)
        at = np.searchsorted(self.keys, keys)
        near = np.minimum(at, len(self.keys) - 1)
        return np.where(self.keys[near] == keys, near, len(self.keys)).astype(np.int64)

    def pad_row(self, pad):
        """The number that stands for padding of a feature with this pad_id (None: without one)."""
        return self._pads.setdefault(pad, len(self.keys) + 1 + len(self._pads))

    def stored(self, rows):
        """Numbers of find and pad_row -> rows of the stored table."""
        table = np.array([len(self.keys) if p is None else int(self.find([p])[0]) for p in self._pads], dtype=np.int64)
        rows, n = np.asarray(rows, dtype=np.int64), len(self.keys) + 1
        return rows if not len(table) else np.where(rows < n, rows, table[np.maximum(rows - n, 0)])


class KeyedSource(TableSource):
    """The rows of a keyed table before writing, in the order of its keys, the default row last. Arrays are sorted here; blocks of
    (keys, rows) from an iterator have rising keys. `on_keys` hears of each block's keys while blocks() runs."""

    def __init__(self, name, keys, values, default=None, dtype="f32", count=None, dim=None):
        where = f"table '{name}'"
        self.on_keys, self.keys, self._order, self._pairs = (lambda keys: None), None, None, None
        if keys is not None:
            if hasattr(values, "detach"):
                values = values.detach().cpu().numpy()
            values = np.asarray(values)
            keys = as_keys(keys, where)
            if values.ndim != 2 or values.dtype.kind not in "fiu" or len(keys) != len(values):
                raise BundleError(f"{where}: {len(keys)} keys for values of shape {list(values.shape)} and type {values.dtype}, expected "
                                  "floats [keys, dim]")
            self._order = np.argsort(keys, kind="stable")
            self.keys, self._values = keys[self._order], values
            check = RisingKeys(where, len(keys))
            check.add(self.keys)
            count, dim = values.shape
        elif count is None or dim is None:
            raise BundleError(f"{where}: an iterator of (keys, rows) needs both count and dim")
        else:
            self._pairs = values
        check_count(count, where)
        super().__init__(name, None, dtype, count + 1, dim)
        self.default = np.zeros(self.dim, np.float32) if default is None else np.asarray(default, dtype=np.float32).reshape(-1)
        if self.default.shape != (self.dim,) or not np.isfinite(self.default).all():
            raise BundleError(f"{where}: its default has {self.default.size} values, expected {self.dim} finite ones")

    def _raw_blocks(self):
        step = max(1, BLOCK_BYTES // (4 * self.dim))
        left = self.rows - 1
        for keys, rows in self._keyed_blocks(step):
            self.on_keys(keys)
            left -= len(keys)
            yield rows
        if left > 0:
            raise BundleError(f"table '{self.name}': {self.rows - 1 - left} keys, expected {self.rows - 1}")
        yield self.default[None]

    def _keyed_blocks(self, step):
        if self._order is not None:
            for at in range(0, len(self.keys), step):
                yield self.keys[at:at + step], self._values[self._order[at:at + step]]
            return
        if self._pairs is None:
            raise BundleError(f"table '{self.name}': its iterator was already read; give an array or a callable")
        pairs, again = self._pairs, callable(self._pairs)
        self._pairs = self._pairs if again else None
        for keys, rows in pairs() if again else pairs:
            keys = as_keys(keys, f"table '{self.name}'")
            rows = np.asarray(rows.detach().cpu().numpy() if hasattr(rows, "detach") else rows)
            if rows.ndim != 2 or len(rows) != len(keys):
                raise BundleError(f"table '{self.name}': a block of {len(keys)} keys with rows of shape {list(rows.shape)}")
            for at in range(0, len(keys), step):
                yield keys[at:at + step], rows[at:at + step]

    def gather(self, ids):
        """float32 rows by row number, as a reader will see them."""
        if self._order is None:
            return super().gather(ids)
        ids = np.asarray(ids)
        is_key = ids < len(self.keys)
        rows = np.where(is_key[..., None], self._values[self._order[np.where(is_key, ids, 0)]], self.default)
        return self.decoded(*self.encoded(rows.reshape(-1, self.dim))).reshape(*ids.shape, self.dim)


def external_entry(name, dim, dtype, rows, digest, default, key_set):
    """The manifest's entry of a table whose rows are elsewhere."""
    check_name("table", name)
    entry = {"name": name, "dim": int(dim), "dtype": dtype, "external": True}
    if rows is not None:
        entry["rows"] = int(rows)
    if digest is not None:
        entry["digest"] = digest
    if default is not None:
        entry["default"] = [float(v) for v in np.asarray(default, dtype=np.float32).reshape(-1)]
    if key_set is not None:
        entry["keys"] = key_set
    return entry


#: what the manifest's entry of a table may hold
TABLE_KEYS = ("name", "rows", "dim", "dtype", "keys", "external", "digest", "default")


def check_external(t):
    """Raises unless an external table's entry follows part 6."""
    where, digest, default = f"table '{t.get('name')}'", t.get("digest"), t.get("default")
    if t["external"] is not True:
        raise BundleError(f"{where}: external is {t['external']!r}, expected true")
    if set(t) & {"data", "scale", "offset"}:
        raise BundleError(f"{where}: is external and names a data set")
    if "rows" in t:
        _whole(t["rows"], 1, MOST_EXTERNAL, f"{where}: rows")
    if digest is not None and not (isinstance(digest, str) and len(digest) == 64 and set(digest) <= set("0123456789abcdef")):
        raise BundleError(f"{where}: digest is {digest!r}, expected 64 lower-case hex digits")
    if default is not None and not (isinstance(default, list) and len(default) == t["dim"] and all(
            isinstance(v, (int, float)) and not isinstance(v, bool) and abs(v) <= 3.4028235e38 for v in default)):
        raise BundleError(f"{where}: default is no list of {t['dim']} finite floats")
    if default is not None:
        try:
            encode(np.array([default], dtype=np.float32), t["dtype"])
        except BundleError as error:
            raise BundleError(f"{where}: default has a value beyond the range of {t['dtype']}") from error


def _whole(value, lo, hi, what):
    if isinstance(value, bool) or not isinstance(value, int) or not lo <= value <= hi:
        raise BundleError(f"{what} is {value!r}, expected an integer from {lo} to {hi}")


def check_key_set(entry):
    """Raises unless an entry of `key_sets` follows part 6."""
    check_name("key set", entry.get("name"))
    where, external = f"key set '{entry['name']}'", entry.get("external", False)
    unknown = set(entry) - {"name", "keys", "data", "external"}
    if unknown:
        raise BundleError(f"{where}: key '{sorted(unknown)[0]}' is not known")
    if not isinstance(external, bool) or (external and "data" in entry):
        raise BundleError(f"{where}: external is {external!r}" + (", and it names a data set" if "data" in entry else ""))
    if "keys" in entry or not external:
        _whole(entry.get("keys"), 1, MOST_EXTERNAL if external else MOST_KEYS, f"{where}: keys")


def check_links(key_sets, features, tables):
    """Raises unless features and tables name key sets that are there, and keyed tables have a row for each key and the default row."""
    sets = {}
    for s in key_sets:
        if s["name"] in sets:
            raise BundleError(f"key set '{s['name']}' is defined twice")
        sets[s["name"]] = s
    for what, entries in (("feature", features), ("table", tables)):
        for e in entries:
            if "keys" in e and e["keys"] not in sets:
                raise BundleError(f"{what} '{e['name']}': there is no key set '{e['keys']}'")
    pads = {name: set() for name in sets}
    for f in features:
        if "keys" in f:
            pads[f["keys"]].add(f.get("pad_id"))
    for name, s in sets.items():
        if len(pads[name]) > MOST_PADS:
            raise BundleError(f"key set '{name}': its features have more than {MOST_PADS} different pad_ids")
        if not s.get("external") and s["keys"] + len(pads[name]) >= 2**31 - 2:
            raise BundleError(f"key set '{name}': keys and pad_ids need more than 2^31-2 rows")
    for t in tables:
        s = sets.get(t.get("keys"))
        if s is None:
            continue
        if bool(t.get("external")) != bool(s.get("external")):
            raise BundleError(f"table '{t['name']}': one of it and its key set '{s['name']}' is external, the other is not")
        if t.get("external") and (t.get("rows") is None or s.get("keys") is None):
            continue
        if t["rows"] != s["keys"] + 1:
            raise BundleError(f"table '{t['name']}': {t['rows']} rows, expected the {s['keys']} keys of key set '{s['name']}' and one for the "
                              "default")
