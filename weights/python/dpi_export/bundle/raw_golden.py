"""Raw cells of golden rows (FORMAT.md part 10): their data sets, and whether encoders make of them what training did.

A cell is what a data file holds for one feature in one row: a text or number, None or "" where it is missing, and for a sequence
one text that the encoder's splitter takes apart, or a list of elements.
"""

import numpy as np

from ..ops.batch import Batch
from ..encoding.cells import is_missing, number_text
from ..encoding.encoder import Encoder
from ..errors import BundleError
from .rows import Rows
from ..schema import get, is_slot, pad_of

#: A float of a raw cell agrees when |encoded - golden| <= this * max(1, |golden|).
TOLERANCE = 1e-6

#: the key of `provenance` that says, by feature, where the golden rows' ids of raw cells come from: "rows" (training's, given beside raw=),
#: "library" (its own transform) or "exporter" (the encoder itself, so they say nothing of training)
HELD_TO = "encoders_held_to"


def texts_of(cell):
    """The texts that stand for a cell: one, or one per element of a list."""
    if isinstance(cell, (list, tuple, np.ndarray)):
        return [t for c in cell for t in texts_of(c)]
    if is_missing(cell):
        return [""]
    return [cell if isinstance(cell, str) else number_text(cell)]


def as_lists(raw):
    """{feature: list of cells} of {feature: column} or a DataFrame. A column is taken by position, so the index of a pandas Series says nothing;
    pandas' NA is None."""
    if raw is None:
        return None
    if not hasattr(raw, "items"):
        raise BundleError(f"raw: expected {{feature: cells of the data file}} or a DataFrame, not {type(raw).__name__}")
    for name, column in raw.items():
        if isinstance(column, (str, bytes)) or not hasattr(column, "__iter__"):
            raise BundleError(f"raw: feature '{name}': expected a list, an array or a Series with a cell for each row, not {type(column).__name__}")
    return {name: [None if is_missing(cell) else cell for cell in column] for name, column in raw.items()}


#: data sets under /golden that hold raw cells, and their types
RAW_SETS = {"raw_cells": "<i8", "raw_texts": "<i8", "raw_bytes": "u1"}


def raw_arrays(features, raw, n_rows):
    """(manifest keys, {path: array}) of {feature: cells} for the last rows of `n_rows`."""
    kinds = {f["name"]: f["kind"] for f in features}
    lengths = {name: len(cells) for name, cells in raw.items()}
    count = next(iter(lengths.values()), 0)
    if set(lengths.values()) - {count} or count > n_rows:
        raise BundleError(f"golden: raw cells for {lengths} rows, expected the same number for each feature, at most {n_rows}")
    for name in raw:
        if kinds.get(name) not in ("categorical", "sequence", "numeric"):
            raise BundleError(f"golden: raw cells of '{name}', which is no categorical, sequence or numeric feature")
    cells = [texts_of(column[row]) for row in range(count) for column in raw.values()]
    texts = [t.encode() for cell in cells for t in cell]
    arrays = {"raw_cells": np.cumsum([0] + [len(c) for c in cells], dtype="<i8"),
              "raw_texts": np.cumsum([0] + [len(t) for t in texts], dtype="<i8"),
              "raw_bytes": np.frombuffer(b"".join(texts), "u1")}
    return {"raw": list(raw), "raw_rows": count}, {f"/golden/{k}": v for k, v in arrays.items()}


def read_raw(spec, arrays):
    """{feature: cells} from a manifest's `golden` and the data sets; lists of texts for every cell."""
    names, count = spec["raw"], spec.get("raw_rows", spec["rows"])
    cells, texts, data = (arrays[k] for k in ("raw_cells", "raw_texts", "raw_bytes"))
    for what, offsets, end in (("raw_texts", texts, len(data)), ("raw_cells", cells, len(texts) - 1)):
        if not len(offsets) or offsets[0] != 0 or offsets[-1] != end or (np.diff(offsets) < 0).any():
            raise BundleError(f"/golden/{what}: expected rising offsets from 0 to {end}")
    if not 0 <= count <= spec["rows"] or len(cells) != count * len(names) + 1:
        raise BundleError(f"/golden/raw_cells: {len(cells)} offsets for {count} rows of {len(names)} features")
    try:
        held = [data[a:b].tobytes().decode() for a, b in zip(texts, texts[1:])]
    except UnicodeDecodeError as e:
        raise BundleError(f"/golden/raw_bytes: not UTF-8: {e}") from None
    lists = [held[a:b] for a, b in zip(cells, cells[1:])]
    return {name: lists[i::len(names)] for i, name in enumerate(names)}


# -- what a feature gets ----------------------------------------------------------------------------------------------
def _without_padding(feature, bag):
    """Where missing elements keep their place, pad_ids at the side of padding are the same as none."""
    bag = list(bag)
    if getattr(feature.get("encoder"), "missing_element", None) is None:
        return bag
    end = -1 if get(feature, "pad_side") == "post" else 0
    while bag and bag[end] == pad_of(feature):
        bag.pop(end)
    return bag


def settled(feature, columns):
    """A column of ids, bags or floats after the rules of part 4: one list entry per row."""
    batch = Batch([feature], Rows.from_columns([feature], {feature["name"]: columns}))
    return _settled_values(feature, batch.values[feature["name"]])


def _settled_values(feature, values):
    if not is_slot(feature):
        return np.asarray(values, np.float64).reshape(len(values), -1)[:, 0].tolist()
    bags = [values.ids[a:b].tolist() for a, b in zip(values.offsets, values.offsets[1:])]
    return [_without_padding(feature, b) for b in bags] if feature["kind"] == "sequence" else bags


def encode_column(feature, cells):
    """Raw cells through the feature's encoder, before the rules: ids, bags or floats. Raises BundleError naming row and feature."""
    encoder = feature.get("encoder") or Encoder([])
    out = []
    for row, cell in enumerate(cells):
        try:
            if feature["kind"] == "sequence":
                out.append(encoder.encode_bag(feature, cell))
                continue
            cell = cell[-1] if isinstance(cell, (list, tuple)) else cell
            if not encoder.steps and isinstance(cell, str) and cell:
                cell = int(cell) if is_slot(feature) else float(cell)
            out.append(encoder.encode_for(feature, cell))
        except (BundleError, ValueError) as error:
            raise BundleError(f"row {row}, feature '{feature['name']}': {show(cell)}: {error}") from None
    return out


def show(cell):
    """A cell for a message."""
    try:
        text = ", ".join(repr(t) for t in texts_of(cell)) or "no text"
    except (TypeError, ValueError):  # neither text nor number
        text = repr(cell)
    return text if len(text) <= 80 else text[:77] + "..."


def first_difference(got, want):
    """Row where two settled columns differ, or None."""
    for row, (a, b) in enumerate(zip(got, want)):
        if isinstance(b, list):
            same = list(a) == b
        else:
            same = abs(a - b) <= TOLERANCE * max(1.0, abs(b)) or (a != a and b != b)
        if not same:
            return row
    return None


def compare_raw(bundle, golden):
    """{"rows", "failures"} of a bundle's raw cells: encoded by this package and compared with the golden rows."""
    raw, failures = golden["raw"], []
    first = golden["n"] - len(next(iter(raw.values()), []))
    batch = Batch(bundle.features, golden["rows"])
    for feature in bundle.features:
        name = feature["name"]
        if name not in raw:
            continue
        values = batch.values[name]
        if batch.row_map is not None and get(feature, "space") == "shared":
            values = values[batch.row_map]
        want = _settled_values(feature, values)[first:]
        try:
            got = settled(feature, encode_column(feature, raw[name]))
        except BundleError as error:
            failures.append(f"raw cells: {error}")
            continue
        row = first_difference(got, want)
        if row is not None:
            failures.append(f"raw cells: row {first + row}, feature '{name}': {show(raw[name][row])} gives {got[row]}, golden is "
                            f"{want[row]}")
    return {"rows": golden["n"] - first, "failures": failures}


# -- cells to try -----------------------------------------------------------------------------------------------------
class Probes:
    """Raw cells that exercise an encoder: entries of its vocabulary, unknown and missing values, bags of every length."""

    def __init__(self, feature, rng, n):
        self.feature, self.encoder, self.rng, self.n = feature, feature["encoder"], rng, n
        self.last = self.encoder.steps[-1]["op"] if self.encoder.steps else "to_id"
        entries = self.encoder.entries()
        self.entries = [] if entries is None else [t.decode() if isinstance(t, bytes) else t for t in entries]

    def cells(self):
        """n cells, each of which the encoder takes."""
        if self.feature["kind"] == "sequence":
            return [self._bag(i) for i in range(self.n)]
        tried = self._special() + [self._element() for _ in range(4 * self.n)]
        return [c for c in tried if self._taken(c)][:self.n]

    def _taken(self, cell):
        try:
            self.encoder.encode_for(self.feature, cell)
        except (BundleError, OverflowError):
            return False
        return True

    def _special(self):
        """The ends of the vocabulary, an unknown value and a missing one, where the rules allow them."""
        out = [self._text(e) for e in (*self.entries[:2], *self.entries[-2:])] + self._unknown()
        return out + ([""] if get(self.feature, "missing") != "error" else [])

    def _unknown(self):
        if get(self.feature, "out_of_range") == "error" or not self.entries:
            return []
        first = self.entries[0]
        if isinstance(first, str):
            out = ["never seen before", *(t for t in (" " + first, first.swapcase()) if t not in self.entries)]
        else:
            top = max(self.entries)
            out = [self._text(top + 1), self._text(-top - 3)] + ([repr(top + 0.5)] if isinstance(first, float) else [])
        return [t for t in out if self._taken(t)]

    def _text(self, entry):
        """A vocabulary entry as a cell; a float as training's files show it, "1.0", and every other time shorter."""
        if isinstance(entry, float):
            return repr(entry) if self.rng.integers(2) else number_text(entry)
        return entry if isinstance(entry, str) else str(entry)

    def _element(self):
        if self.entries:
            return self._text(self.entries[self.rng.integers(len(self.entries))])
        if self.last == "hash":
            return f"value {self.rng.integers(10**9)}"
        if self.last == "to_id":
            return str(self.rng.integers(self.feature.get("vocab_size", 10)))
        return repr(float(np.round(self._number(), 4)))

    def _number(self):
        """A number where the steps do something: around a mean, between bounds, beside a bucket's edge."""
        step = self.encoder.steps[-1]
        spread = self.rng.standard_normal()
        if step["op"] == "standard":
            return step["mean"] + 2 * step["std"] * spread
        if step["op"] == "minmax":
            return step["min"] + (step["max"] - step["min"]) * (0.5 + spread)
        if step["op"] == "buckets" and len(step["boundaries"]):
            return step["boundaries"][self.rng.integers(len(step["boundaries"]))] + spread
        return 3 * spread

    def _bag(self, i):
        """Row 0 is empty; the rest of random length up to beyond max_len, some with unknown, missing and doubled elements."""
        limit = get(self.feature, "max_len") or 5
        length = 0 if i == 0 else limit + 2 if i == 1 else int(self.rng.integers(1, limit + 3))
        elements = [self._element() for _ in range(length)]
        unknown = self._unknown()
        for at in range(length):
            roll = self.rng.random()
            if roll < 0.2:
                elements[at] = ""
            elif roll < 0.35 and unknown:
                elements[at] = unknown[self.rng.integers(len(unknown))]
        splitter = self.encoder.splitter
        if splitter is None:
            return elements
        if splitter == "":
            return "  ".join(e for e in elements if e and e.split() == [e])
        return splitter.join(e for e in elements if splitter not in e)


