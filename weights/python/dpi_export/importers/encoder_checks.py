"""The encoders of an import: do they fit the model, do they encode as the library does, and which golden rows show it.

The oracle is the library's own transform (`Encoder.transform`): FuxiCTR's FeatureProcessor, scikit-learn's objects. Where an
encoder has none, the ids that the caller gives beside raw cells are.
"""

import warnings

import numpy as np

from ..encoding.marks import MISSING, OOV
from ..encoding.rules import apply_rules
from ..errors import BundleError
from ..encoding.fitted_numbers import digits
from ..padding import strip_padding
from .importer import Importer
from ..bundle.raw_golden import Probes, encode_column, first_difference, settled, show
from ..schema import get, is_slot

_CHECK_CELLS, _GOLDEN_CELLS = 64, 12


def check_names(imported: Importer, encoders, raw):
    """Refuses encoders and raw cells of features that the model does not have."""
    known = {f["name"] for f in imported.b.features}
    for what, given in (("encoders", encoders), ("raw", raw or {})):
        for name in given:
            if name not in known:
                imported.ctx.refuse(what, f"'{name}' is no feature of the model, which has {', '.join(sorted(known))}")


def check_encoders(imported: Importer):
    """Every encoder on cells made for it, against the library's own transform. Refuses with feature and cell."""
    for feature in _encoded(imported):
        if feature["encoder"].transform is not None:
            cells = Probes(feature, np.random.default_rng(11), _CHECK_CELLS).cells()
            _compare(imported, feature, cells, _library_column(imported, feature, cells), "the library's transform gives")


def check_scalers(imported: Importer, rows):
    """Refuses a scaler that rounded otherwise in training than the bundle does, which scales in float64, where it shows: results of float16, and
    results of float32 that the model compares or buckets. Warns where nobody says of which type the column was."""
    from ..trace.jumps import edges

    found = [f for f in _encoded(imported) if f["encoder"].scaled is not None]
    if not found:
        return
    decided = set(edges(imported.lowering)) if getattr(imported, "lowering", None) is not None else ()
    columns = {} if rows is None else imported.columns(rows)
    for name, (kind, dtype) in ((f["name"], f["encoder"].scaled) for f in found):
        where, column = f"feature '{name}'", columns.get(name)
        if column is not None and dtype is None and held_as_float16(np.ravel(np.asarray(column, np.float64))):
            imported.ctx.refuse(where, f"rows holds numbers of float16, so {kind} rounded them to 11 bits, and a bundle scales in float64: fit and "
                                       "transform astype('float32'), and train on that")
        if name not in decided:
            continue
        cure = "scale astype('float64') in training, or compare and bucket the number as the file holds it"
        if dtype is not None and dtype == np.float32:
            imported.ctx.refuse(where, f"the model compares or buckets what {kind} made of float32, which rounds at an edge otherwise than the bundle, "
                                       f"which scales in float64: {cure}")
        if dtype is None:
            warnings.warn(f"{where}: the model compares or buckets what {kind} gives, which rounds at an edge otherwise where its column was float32: {cure}; "
                          "raw= with the column says its type", stacklevel=5)


def held_as_float16(numbers):
    """True for results of float16: no more bits, in several numbers with more digits than one writes."""
    numbers = numbers[np.isfinite(numbers)]
    with np.errstate(over="ignore"):
        return bool((numbers.astype(np.float16) == numbers).all()) and len({x for x in numbers.tolist() if digits(x) > 5}) >= 4


def golden_rows(imported: Importer, rows, raw):
    """(library rows, {feature: raw cells of the last of them}) for the golden rows of an import; (rows, None) when there is no
    encoder. Without `raw`, rows made of cells for the encoders are added to those given."""
    encoded = [f for f in _encoded(imported) if f["kind"] != "dense"]
    if raw is not None:
        return _given(imported, rows, raw), raw
    rng = np.random.default_rng(23)
    cells = {f["name"]: Probes(f, rng, _GOLDEN_CELLS).cells() for f in encoded}
    n = min(len(c) for c in cells.values()) if cells else 0
    if not n:
        return rows, None
    cells = {name: c[:n] for name, c in cells.items()}
    added = imported.random_rows(rng, n)
    for feature in encoded:
        imported.put(added, feature["name"], _bundle_column(imported, feature, cells[feature["name"]]))
    return (added if rows is None else imported.join(rows, added)), cells


def held_to(imported: Importer, rows, raw):
    """{feature: what its encoder is held to}, by HELD_TO. Warns of encoders that nothing from outside confirms."""
    by = {f["name"]: "rows" if raw is not None and rows is not None else "exporter" if f["encoder"].transform is None else "library"
          for f in _encoded(imported) if f["kind"] != "dense"}
    alone = [name for name, what in by.items() if what == "exporter"]
    if alone:
        names = ", ".join(alone[:8]) + (f" and {len(alone) - 8} more" if len(alone) > 8 else "")
        warnings.warn(f"nothing shows that the encoders of {names} encode as training did: their golden cells come from the encoders themselves. "
                      "Give raw={feature: cells of the data file} together with rows=, which holds what training made of them", stacklevel=4)
    return by


def _encoded(imported):
    return [f for f in imported.b.features if f.get("encoder") is not None and f["encoder"].steps]


def _given(imported, rows, raw):
    """The library's rows of the caller's raw cells: those given, else the library's transform."""
    for feature in _encoded(imported):
        if feature["kind"] != "dense" and feature["name"] not in raw:
            raise ValueError(f"raw: feature '{feature['name']}' has an encoder but no cells")
    features = {f["name"]: f for f in imported.b.features}
    if rows is None:
        count = len(next(iter(raw.values())))
        rows = imported.random_rows(np.random.default_rng(23), count)
        for name, feature in features.items():
            if name not in raw:
                raise ValueError(f"rows are not given, so raw needs every feature; '{name}' is missing")
            imported.put(rows, name, _bundle_column(imported, feature, raw[name]))
    columns = imported.columns(rows)
    for name, cells in raw.items():
        if len(cells) != len(columns[name]):
            raise ValueError(f"raw: feature '{name}' has {len(cells)} cells, rows has {len(columns[name])}")
        _compare(imported, features[name], cells, columns[name], "rows holds")
        if getattr(features[name].get("encoder"), "transform", None) is not None:
            _compare(imported, features[name], cells, _library_column(imported, features[name], cells), "the library's transform gives")
    return rows


def _bundle_column(imported, feature, cells):
    """Ids, bags or floats of raw cells: by the library's own transform where there is one."""
    own = encode_column(feature, cells)  # raises by row and feature
    return own if getattr(feature.get("encoder"), "transform", None) is None else _library_column(imported, feature, cells)


def _library_column(imported, feature, cells):
    """Ids, bags or floats that the library's own transform makes of cells."""
    encoder = feature["encoder"]
    if feature["kind"] != "sequence":
        return _library_ids(imported, feature, cells) if is_slot(feature) else _call(imported, feature, cells)
    if encoder.splitter is not None:
        return strip_padding(np.asarray(_call(imported, feature, cells)), get(feature, "pad_id"), get(feature, "pad_side"))
    bags = [[e for e in encoder.elements(cell) if e not in ("", None)] for cell in cells]
    flat = [e for bag in bags for e in bag]
    ids = iter(_library_ids(imported, feature, flat) if flat else [])
    return [[i for i in (next(ids) for _ in bag) if i is not MISSING] for bag in bags]


def _library_ids(imported, feature, cells):
    """The library's ids of cells. A value that it does not know may have none there: it raises, or gives NaN or a number outside of the
    vocabulary. Then the feature's rule says which row the model gets."""
    encoder = feature["encoder"]
    marks = [next((m for m in (MISSING, OOV) if encoder.encode(cell) is m), None) for cell in cells]
    try:
        values = encoder.transform(cells)
    except _REFUSALS:
        known = iter(_call(imported, feature, [c for c, mark in zip(cells, marks) if mark is None]))
        values = [next(known) if mark is None else _alone(encoder, cell) for cell, mark in zip(cells, marks)]
    ids = [int(v) if v == v and 0 <= v < feature["vocab_size"] else None for v in values]
    return [i if i is not None else -1 if mark is None else apply_rules(feature, mark) for i, mark in zip(ids, marks)]


def _alone(encoder, cell):
    """The library's id of one cell, NaN where it refuses the value."""
    try:
        return encoder.transform([cell])[0]
    except _REFUSALS:
        return np.nan


_REFUSALS = (ValueError, TypeError, KeyError, IndexError, OverflowError)


def _call(imported, feature, cells):
    try:
        return feature["encoder"].transform(cells) if len(cells) else []
    except _REFUSALS as error:
        return imported.ctx.refuse(f"feature '{feature['name']}'", f"the library's own transform fails: {error}")


def _compare(imported, feature, cells, column, says):
    try:
        got, want = _seen(imported, feature, settled(feature, encode_column(feature, cells))), settled(feature, column)
    except BundleError as error:
        imported.ctx.refuse("check of encoders", str(error))
    row = first_difference(got, want)
    if row is not None:
        imported.ctx.refuse(f"feature '{feature['name']}'", f"row {row}: {show(cells[row])} is encoded as {got[row]}, but {says} "
                                                            f"{want[row]}")


def _seen(imported, feature, column):
    """Bags as rows of the model hold them: an unknown value whose id is that of padding is padding where it stands at its end."""
    if feature["kind"] != "sequence" or not column:
        return column
    rows = imported.random_rows(np.random.default_rng(0), len(column))
    imported.put(rows, feature["name"], column)
    return settled(feature, imported.columns(rows)[feature["name"]])


def spelled_out(imported: Importer, columns, raw):
    """Columns of golden rows, the bags of raw cells with the ids of padding that their encoder ends them in: rows of the model cannot hold
    these, and score the same."""
    for feature in imported.b.features:
        cells = (raw or {}).get(feature["name"], ())
        if feature["kind"] == "sequence" and len(cells):
            whole, column = settled(feature, encode_column(feature, cells)), list(columns[feature["name"]])
            short, at = _seen(imported, feature, whole), len(column) - len(cells)
            held = settled(feature, column[at:])
            columns[feature["name"]] = column[:at] + [w if s == h else c for w, s, h, c in zip(whole, short, held, column[at:])]
    return columns
