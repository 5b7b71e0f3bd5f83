"""The check by the engine itself: a written bundle is loaded by the package `dpi`, over the library that will serve it, and scores its own
golden rows, by ids and by raw cells."""

import os

import numpy as np

from ..errors import BundleError
from .golden import compare_scores, stated_tolerance
from .reader import Bundle

#: What `check` may be in every function that writes a bundle.
NONE, NUMPY, ENGINE = None, "numpy", "engine"


def check_kind(check):
    """None, "numpy" or "engine" of a `check` argument; True is "numpy", False None. For "engine" the package dpi has to be there."""
    kind = {True: NUMPY, False: NONE, None: NONE, NUMPY: NUMPY, ENGINE: ENGINE}.get(check, "?") if isinstance(check, (bool, str, type(None))) \
        else "?"
    if kind == "?":
        raise BundleError(f"check is {check!r}, expected None, 'numpy' or 'engine' (True is 'numpy', False None)")
    if kind == ENGINE:
        engine()
    return kind


def engine():
    """The package dpi; a BundleError that says what to do where there is none."""
    try:
        import dpi
    except ImportError as e:
        raise BundleError("check='engine' needs the package dpi, the engine for Python (bindings/python: a wheel, python3-dpi, or a build's "
                          f"folder `python` on PYTHONPATH), which cannot be imported: {e}") from e
    if not hasattr(dpi, "Model"):
        raise BundleError(f"check='engine' needs the package dpi; what is imported under that name is {dpi!r}")
    return dpi


def compare_engine(path, **options):
    """Scores the golden rows of a bundle with the engine, on device cpu unless `options` say another; returns what compare_golden does,
    and "engine": version and device."""
    dpi = engine()
    with Bundle(path) as bundle:
        golden, heads = bundle.golden, [h["name"] for h in bundle.heads]
        if golden is None:
            raise BundleError(f"{path}: has no golden rows, so there is nothing that the engine could be held to: give rows")
        rows = golden["rows"]
        try:
            with dpi.Model(os.fspath(path), **{"device": "cpu", **options}) as model:
                shared = None
                if rows.shared_offsets is not None:
                    shared = dpi.Shared(rows.shared_offsets, rows.shared_ids, rows.shared_dense, rows.shared_bag_offsets, rows.shared_weights)
                value, logit = model.predict(rows.ids, rows.dense, offsets=rows.offsets, weights=rows.weights, shared=shared,
                                             rows=golden["n"], logits=True)
                report = compare_scores(bundle, _by_head(heads, value, logit), "the engine computed")
                raw = _compare_raw(model, bundle, golden)
                report["engine"] = f"{dpi.version()} on {model.info.device}"
        except dpi.Error as e:
            raise BundleError(f"the engine ({dpi.version()}) refuses the bundle or its golden rows: {e}") from e
    report["raw_rows"] = raw["rows"]
    report["failures"] += raw["failures"]
    return report


def _by_head(heads, value, logit):
    return {"value": {h: value[:, i] for i, h in enumerate(heads)}, "logit": {h: logit[:, i] for i, h in enumerate(heads)}}


def _compare_raw(model, bundle, golden):
    """Whole rows of raw cells through the bundle's encoders in the engine; nothing where a feature has none."""
    raw = golden["raw"]
    if raw is None or set(raw) != {f["name"] for f in bundle.features}:
        return {"rows": 0, "failures": []}
    kinds = {f["name"]: f["kind"] for f in bundle.features}
    columns = {name: [c if kinds[name] == "sequence" else c[-1] for c in cells] for name, cells in raw.items()}
    n = len(next(iter(columns.values())))
    got, want = model.predict_raw(columns).astype(np.float64), golden["value"][golden["n"] - n:].astype(np.float64)
    failures = []
    for i, head in enumerate(bundle.heads):
        tolerance = stated_tolerance(golden, "value", i)[golden["n"] - n:]
        bad = np.flatnonzero(~(np.abs(got[:, i] - want[:, i]) <= tolerance * np.maximum(1, np.abs(want[:, i]))))
        if len(bad):
            r = int(bad[0])
            failures.append(f"head '{head['name']}' from raw cells: {len(bad)} of {n} rows differ, first row {golden['n'] - n + r}: the engine "
                            f"computed {got[r, i]:.9g}, golden {want[r, i]:.9g}, tolerance {tolerance[r]:g}")
    return {"rows": n, "failures": failures}


def check_engine(path):
    """Raises, with the numbers, unless the engine computes a bundle's golden rows."""
    report = compare_engine(path)
    if report["failures"]:
        raise BundleError(f"golden rows: the engine ({report['engine']}) does not compute what the training framework did: "
                          + "; ".join(report["failures"]))
