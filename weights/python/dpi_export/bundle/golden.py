"""Golden rows (FORMAT.md part 10): their data sets, and the comparison with the executor."""

import warnings

import numpy as np

from ..errors import BundleError
from ..ops.executor import Executor
from .raw_golden import HELD_TO, RAW_SETS, compare_raw, raw_arrays
from ..schema import Schema

#: data sets under /golden that are Rows' arrays of the same name
ROW_SETS = ("dense", "ids", "offsets", "weights", "shared_offsets", "shared_dense", "shared_ids", "shared_bag_offsets",
            "shared_weights")


#: Rows with a tolerance beyond this are named: float32 leaves little of their scores.
LOOSE = 1e-3


def relative_error(got, want):
    """What tolerances bound: |got - want| / max(1, |want|)."""
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    return np.abs(got - want) / np.maximum(1, np.abs(want))


def loose_rows(tolerances, least):
    """{row: its largest tolerance}, of rows that are hardly held to anything. `least`: the tolerance of a good row."""
    worst = np.max([np.nan_to_num(np.asarray(t, np.float64)).max(axis=1) for t in tolerances.values()], axis=0)
    return {int(r): float(worst[r]) for r in np.flatnonzero(worst > max(LOOSE, 10 * least))}


def stack_heads(heads, run, key):
    """[rows, heads] f32 of an executor's result; NaN where a head has no logit; None when no head has one."""
    columns = [run[key].get(h["name"]) for h in heads]
    if all(c is None for c in columns):
        return None
    n = len(next(c for c in columns if c is not None))
    return np.stack([np.full(n, np.nan) if c is None else c for c in columns], axis=1).astype("<f4")


def _matrix(values, n_rows, heads, what):
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    values = np.asarray(values, dtype=np.float64)
    if values.shape not in ((n_rows, len(heads)), (n_rows,) if len(heads) == 1 else None):
        raise BundleError(f"golden: {what} has shape {list(values.shape)}, expected [{n_rows}, {len(heads)}]")
    return np.ascontiguousarray(values.reshape(n_rows, len(heads)), dtype="<f4")


def _tolerances(model, n, given):
    """(that of a good row, {"value", "logit"} by row or nothing). Names the rows that are hardly held to anything."""
    if not isinstance(given, dict):
        return 1e-5 if given is None else float(given), {}
    own = {key: _matrix(t, n, model.heads, f"{key} tolerance") for key, t in given.items()}
    least = float(min(np.nanmin(t) for t in own.values()))
    loose = loose_rows(own, least)
    if loose:
        warnings.warn("golden rows that are ill-conditioned in float32, and the tolerances that leaves them: "
                      + ", ".join(f"row {r} ({t:.2g})" for r, t in loose.items()), stacklevel=2)
    return least, own


def golden_arrays(model, golden):
    """{"spec": manifest entry, "arrays": {path: array}}"""
    rows = golden["rows"]
    n = rows.count(Schema(model.features))
    if not 1 <= n <= 65536:
        raise BundleError(f"golden: {n} rows, expected 1 to 65536")
    arrays = {f"/golden/{name}": getattr(rows, name) for name in ROW_SETS if getattr(rows, name) is not None}
    arrays["/golden/value"] = _matrix(golden["value"], n, model.heads, "value")
    if not np.isfinite(arrays["/golden/value"]).all():
        raise BundleError("golden: a value is not finite")
    if golden.get("logit") is not None:
        arrays["/golden/logit"] = _matrix(golden["logit"], n, model.heads, "logit")
    tolerance, own = _tolerances(model, n, golden["tolerance"])
    arrays.update({f"/golden/{key}_tolerance": t for key, t in own.items()})
    spec = {"rows": n, "shared_rows": rows.shared_rows, "tolerance": tolerance}
    if golden.get("raw"):
        keys, more = raw_arrays(model.features, golden["raw"], n)
        spec.update(keys)
        arrays.update(more)
    return {"spec": spec, "arrays": arrays}


def _check_raw(spec, rows, features, need):
    names, count = spec["raw"], spec.get("raw_rows", rows)
    if not isinstance(names, list) or not all(isinstance(n, str) for n in names) or set(names) - {f["name"] for f in features}:
        raise BundleError(f"/golden: raw is {names!r}, expected names of features")
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= rows:
        raise BundleError(f"/golden: raw_rows is {count!r}, expected 0 to {rows}")
    for name, kind in RAW_SETS.items():
        need(name, (count * len(names) + 1,) if name == "raw_cells" else (None,), kind)


def check_sets(spec, features, heads, data_sets):
    """Raises unless the golden rows of a manifest have their data sets, of the right types and shapes (None = any length)."""
    rows, shared = spec.get("rows"), spec.get("shared_rows", 0)
    if not all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n <= 65536 for n in (rows, shared)):
        raise BundleError(f"/golden: rows is {rows!r} and shared_rows {shared!r}, expected 0 to 65536")
    tolerance = spec.get("tolerance", 1e-5)
    if isinstance(tolerance, bool) or not isinstance(tolerance, (int, float)) or not 0 <= tolerance < float("inf"):
        raise BundleError(f"/golden: tolerance is {tolerance!r}")
    if not rows:
        return
    schema = Schema(features)

    def need(name, shape, dtype, optional=False):
        info = data_sets.get(f"/golden/{name}")
        if info is None and optional:
            return
        if info is None or info["dtype"] != np.dtype(dtype) or len(info["shape"]) != len(shape) or \
                any(want not in (None, have) for want, have in zip(shape, info["shape"])):
            raise BundleError(f"/golden/{name}: is missing, or is not {dtype} of shape {list(shape)}")

    need("value", (rows, len(heads)), "<f4")
    need("logit", (rows, len(heads)), "<f4", optional=True)
    for key in ("value", "logit"):
        need(f"{key}_tolerance", (rows, len(heads)), "<f4", optional=True)
    if spec.get("raw"):
        _check_raw(spec, rows, features, need)
    parts = [("", "offsets", rows, "item" if shared else "all")]
    if shared:
        need("shared_offsets", (shared + 1,), "<i8")
        parts.append(("shared_", "shared_bag_offsets", shared, "shared"))
    for prefix, offsets, n, part in parts:
        if schema.n_columns(part):
            need(prefix + "dense", (n, schema.n_columns(part)), "<f4")
        slots = len(schema.slots(part))
        if slots:
            need(offsets, (n * slots + 1,), "<i8")
            need(prefix + "ids", (None,), "<i8")
            need(prefix + "weights", data_sets[f"/golden/{prefix}ids"]["shape"], "<f4", optional=True)


def compare_golden(bundle, dtype=np.float64):
    """Runs the golden rows; returns {"rows", "tolerance", "heads": {name: {"value": worst, "logit": worst}}, "raw_rows",
    "failures": [..]}. Worst is the largest |x - golden| / max(1, |golden|); loose_rows: {row: tolerance} of those that are hardly
    held to anything. Raw cells are encoded and compared too; raw_own: their features whose ids the exporter made itself."""
    golden = bundle.golden
    report = compare_scores(bundle, Executor(bundle, dtype=dtype).run(golden["rows"]), "computed")
    raw = {"rows": 0, "failures": []} if golden["raw"] is None else compare_raw(bundle, golden)
    report["raw_rows"] = raw["rows"]
    marks = bundle.manifest_provenance().get(HELD_TO)
    own = [name for name, what in marks.items() if what == "exporter"] if isinstance(marks, dict) else []
    report["raw_own"] = [name for name in golden["raw"] or () if name in own]
    report["failures"] += raw["failures"]
    return report


def stated_tolerance(golden, key, head):
    """The tolerance of each golden row for "value" or "logit" of a head, by its index."""
    if golden["tolerances"] is None:
        return np.full(golden["n"], golden["tolerance"])
    return golden["tolerances"][key][:, head]


def compare_scores(bundle, run, who):
    """The report of compare_golden without raw cells, for scores {"value", "logit"}: {head: [rows]} that `who` ("computed") got."""
    golden = bundle.golden
    report = {"rows": golden["n"], "tolerance": golden["tolerance"], "heads": {}, "failures": []}
    report["loose_rows"] = loose_rows(golden["tolerances"], golden["tolerance"]) if golden["tolerances"] else {}
    for i, head in enumerate(bundle.heads):
        entry = report["heads"][head["name"]] = {}
        for key in ("value", "logit"):
            got = run[key].get(head["name"])
            want = golden[key]
            if got is None or want is None or (key == "logit" and np.isnan(want[:, i]).all()):  # a head without a golden logit
                continue
            want = want[:, i].astype(np.float64)
            error = relative_error(got, want)
            tolerance = stated_tolerance(golden, key, i)
            bad = np.flatnonzero(~(error <= tolerance))
            entry[key] = float(error.max()) if not np.isnan(error).any() else float("nan")
            if len(bad):
                r = int(bad[0])
                report["failures"].append(
                    f"head '{head['name']}' {key}: {len(bad)} of {len(want)} golden rows differ, first row {r}: {who} "
                    f"{got[r]:.9g}, golden {want[r]:.9g}, tolerance {tolerance[r]:g}")
    return report
