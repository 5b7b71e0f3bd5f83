"""The course of an import: build, compare with the library, add golden rows, write."""

import warnings

import numpy as np

from ..ops import jumps
from ..ops.conditioning import row_tolerances, rounding_errors
from ..encoding.sources import convert_encoders
from ..bundle.engine_check import check_kind
from ..errors import BundleError, UnsupportedModelError
from ..bundle.golden import relative_error
from .encoder_checks import check_encoders, check_names, check_scalers, golden_rows, held_to, spelled_out
from .common import compare
from ..library_run import MAX_DOUBLE_PARAMETERS
from .importer import Importer, ImporterKind
from ..bundle.raw_golden import HELD_TO, as_lists
from ..bundle.rows import Rows
from .wrapped import eager, unwrapped

_CHECK_ROWS = 32
_EDGE = 1e-4  #: more than float32 loses elsewhere, less than a decision changes
_MOST_TORN = 32  #: rows that are looked at one by one


def export(importer: ImporterKind, model, feature_map, path, given):
    """The course of every import; `given` has the keywords of from_fuxictr. Returns what Builder.write returns. The model is left as it
    was, whatever it kept of the calls that were made."""
    from ..trace.state import kept

    if not hasattr(model, "named_modules"):
        return _export(importer, model, feature_map, path, given)
    model = unwrapped(model)
    with kept(model), eager():
        return _export(importer, model, feature_map, path, given)


def _export(importer, model, feature_map, path, given):
    rows, check = given["rows"], check_kind(given["check"])  # before hours of work
    options = {"encoders": convert_encoders(given["encoders"], given["raw"]), "stats": given["stats"], "features": given["features"],
               "name": given["name"]}
    cells = as_lists(given["raw"])
    exact = importer(model, feature_map, **options)
    builder = _build(exact)
    check_names(exact, given["encoders"] if isinstance(given["encoders"], dict) else {}, cells)
    if check:
        check_encoders(exact)
        check_scalers(exact, rows)
        # Random rows too: the given ones may hold no empty bag, no padding, no rare id.
        check_against_library(exact, exact.random_rows(np.random.default_rng(7), _CHECK_ROWS), made=_CHECK_ROWS)
        if rows is not None:
            check_against_library(exact, rows)
        if hasattr(exact, "edge_rows") and (edges := exact.edge_rows(np.random.default_rng(13))) is not None:
            check_edges(exact, edges)
        if hasattr(exact, "check_batch_sizes"):
            exact.check_batch_sizes()
    by = held_to(exact, rows, cells)
    rows, raw = golden_rows(exact, rows, cells)
    if given["table_dtype"] is not None:
        builder = _build(importer(model, feature_map, table_dtype=given["table_dtype"], **options))
    builder.provenance(**{**(given.get("provenance") or {}), "framework": framework_text(exact.library), "model": type(model).__name__})
    if by:
        builder.provenance(**{HELD_TO: by})
    if given["metrics"] is not None:
        builder.provenance(metrics=dict(given["metrics"]))
    if rows is not None:
        add_golden(exact, builder, rows, raw, made=len(next(iter(raw.values()))) if raw and cells is None else 0)
    return builder.write(path, check=check)


def _build(imported: Importer):
    """The builder of an import; what does not fit together is the model's fault and named so."""
    try:
        return imported.build()
    except BundleError as e:
        raise UnsupportedModelError(f"{type(imported.model).__name__}: its parts do not fit together: {e}") from e


def framework_text(library):
    """'fuxictr 2.3.10, torch 2.1.0': what the manifest says the model came from."""
    import torch
    from importlib import metadata

    try:
        version = metadata.version(library.replace("_", "-"))
    except metadata.PackageNotFoundError:
        version = "?"
    return f"{library} {version}, torch {torch.__version__}"


def to_rows(imported: Importer, rows, raw=None):
    """The library's input as a Rows of the import's features; `raw`: cells of the last rows, as in Builder.golden."""
    return Rows.from_columns(imported.b, spelled_out(imported, imported.columns(rows), raw))


def check_against_library(imported: Importer, rows, made=0):
    """Runs the import in float64 beside the library; raises UnsupportedModelError where they differ. The exporter made the last `made` rows.

    The library runs in float64 too when its weights are small enough to be copied, else as it is.
    """
    import torch

    double = _fits_double(imported)
    try:
        value, logit = imported.run(rows, torch.float64 if double else None)
    except (RuntimeError, TypeError, AttributeError, IndexError, KeyError, AssertionError) as e:
        raise UnsupportedModelError(f"{type(imported.model).__name__}: the model's own forward fails: "
                                    f"{type(e).__name__}: {e}") from e
    rows, value, logit, _ = _answered(imported, rows, value, logit, made=made)
    run = _scores(imported, rows)
    if double and jumps.ahead(imported.b):
        run, value, logit = _where_float32_agrees(imported, rows, run, value, logit)
    compare(imported.ctx, run["logit"], logit, "logit", 2e-5 if double else 1e-4)
    compare(imported.ctx, run["value"], value, "output", 1e-5)


def _scores(imported, rows):
    """{"value", "logit"} [rows, heads] of the import in float64."""
    from ..ops.executor import Executor

    run, names = Executor(imported.b).run(to_rows(imported, rows)), [head["name"] for head in imported.b.heads]
    return {key: _by_head(run[key], names) for key in ("value", "logit")}


def _where_float32_agrees(imported, rows, run, value, logit):
    """The rows of which the library's float32 and float64 say the same. The others stand on an edge: there its float32 counts, or any of
    both where the import cannot know (jumps.inexact)."""
    single = dict(zip(("value", "logit"), imported.run(rows)))
    double = {"value": value, "logit": logit}
    close = {key: np.abs(single[key] - want) <= _EDGE * np.maximum(1, np.abs(want)) for key, want in double.items()}
    agree = np.logical_and(*(c.all(axis=1) for c in close.values()))
    edge = ~agree & ~np.isnan(single["value"]).any(axis=1)
    edge &= ~_torn(imported, rows, run["logit"], single["logit"])
    unsure = bool(jumps.inexact(imported.b))
    for key, what in (("logit", "logit"), ("value", "output")):
        want = single[key]
        if unsure:
            want = np.where(np.abs(run[key] - want) <= np.abs(run[key] - double[key]), want, double[key])
        compare(imported.ctx, run[key][edge], want[edge], what, _EDGE)
    return {key: got[agree] for key, got in run.items()}, value[agree], logit[agree]


def _torn(imported, rows, got, want):
    """[rows] True where the library's float32 gives a row one of two answers by its place in the batch, and `got` is one of them. PyTorch's
    sigmoid, for one, has other last bits in whole vectors of AVX-512 than in the rest. Only rows of another answer than `want` are looked at."""
    far = lambda a, b: np.abs(a - b) > _EDGE * np.maximum(1, np.abs(b))  # noqa: E731
    torn = np.zeros(len(got), bool)
    if not hasattr(imported, "select"):
        return torn
    for row in np.flatnonzero(far(got, want).any(axis=1))[:_MOST_TORN]:
        few, many = (imported.run(imported.select(rows, np.full(n, row)))[1][0] for n in (3, 64))
        torn[row] = far(few, many).any() and not (far(got[row], few) & far(got[row], many)).any()
    return torn


def check_edges(imported, rows):
    """Compares float32 with the library's on the edges of single numbers, where one rounding decides."""
    single = dict(zip(("value", "logit"), imported.run(rows)))
    known = np.logical_and(*(np.isfinite(want).all(axis=1) for want in single.values()))
    if not known.any():
        return
    rows = imported.select(rows, known)
    run, errors = _scores(imported, rows), rounding_errors(imported.b, to_rows(imported, rows))
    torn = _torn(imported, rows, run["logit"], single["logit"][known])
    for key, got in run.items():
        want = single[key][known]
        bad = ~(np.abs(got - want) <= 3 * errors[key] + _EDGE * np.maximum(1, np.abs(want))) & ~torn[:, None]
        if bad.any():
            row = int(np.argmax(bad.any(axis=1)))
            at = {name: np.ravel(column[row]).tolist() for name, column in imported.columns(rows).items()}
            imported.ctx.refuse("check", f"on an edge at which the model decides otherwise the bundle's {key} is {got[row].tolist()}, the "
                                         f"model's {want[row].tolist()}, for {at}: a rounding decides there, and no primitive rounds as the "
                                         "model does. Compare, cut or bucket before such arithmetic, or in preprocessing")


def _answered(imported, rows, value, logit, raw=None, made=0):
    """Rows, values, logits and raw cells without the rows that the model has no score for; a hand-written importer knows no such rows."""
    known = imported.known(value, logit, rows, made) if hasattr(imported, "known") else None
    return (rows, value, logit, raw) if known is None else _kept(imported, known, rows, value, logit, raw)


def _kept(imported, known, rows, value, logit, raw):
    if known.all():
        return rows, value, logit, raw
    if raw is not None:  # the cells of the last rows
        raw = {name: [cell for cell, keep in zip(cells, known[len(known) - len(cells):]) if keep] for name, cells in raw.items()}
    return imported.select(rows, known), value[known], logit[known], raw


def _by_head(scores, names):
    """Scores {head: [rows]} as [rows, heads]."""
    return np.stack([scores[name] for name in names], axis=1)


def add_golden(imported: Importer, builder, rows, raw=None, made=0):
    """Golden rows with the library's float32 outputs; `raw` as in Builder.golden. The exporter made the last `made` rows.

    A row's tolerance is 1e-5, and more where float32 cannot hold the row (a cancellation of huge numbers): what roundings do to it, or
    twice what they did to the library's own score. Tables that lost bits loosen all rows.
    """
    rows, value, logit, raw = _answered(imported, rows, *imported.run(rows), raw, made)
    if jumps.ahead(imported.b):
        torn = _torn(imported, rows, _scores(imported, rows)["logit"], logit)
        rows, value, logit, raw = _kept(imported, ~torn, rows, value, logit, raw)
    report_margins(imported, builder, rows)
    golden, given = {"value": value, "logit": logit}, to_rows(imported, rows, raw)
    least, extra = 1e-5, _library_errors(imported, rows, golden)
    errors = rounding_errors(imported.b, given)
    if _lost_bits(imported, builder):
        from ..ops.executor import Executor

        run, names = Executor(builder).run(given), [head["name"] for head in builder.heads]
        lost = {key: relative_error(_by_head(run[key], names), golden[key]) for key in golden}
        least = max(5e-3, 2 * max(float(e.max()) for e in lost.values()))
    tolerance = row_tolerances({key: np.maximum(errors[key], 2 * extra[key]) for key in golden}, golden, least)
    builder.golden(given, **golden, tolerance=tolerance, raw=raw)


def report_margins(imported, builder, rows):
    """Says in the provenance, and warns where float32 may cross it, how near the rows come to an edge that no rule keeps."""
    from ..ops.executor import Executor

    if not jumps.inexact(imported.b):
        return
    found = jumps.margins(imported.b, Executor(imported.b).run(to_rows(imported, rows), keep=True)["ops"])
    if not found:
        return
    name, margin, row = min(found, key=lambda f: f[1])
    builder.provenance(smallest_margin={"op": name, "margin": margin, "row": row})
    if jumps.is_close(margin):
        warnings.warn(f"{type(imported.model).__name__}: op '{name}' decides by a sum or a function, which no two libraries round alike; row "
                      f"{row} comes within {margin:.2g} (relative) of its edge, so the engine may decide otherwise there", stacklevel=4)


def _library_errors(imported, rows, golden):
    """|float32 - float64| of the library itself, 0 where its weights are too many to be copied. No more than it is from the import: on an edge
    float64 decides otherwise, and the import as float32 does."""
    import torch

    if not _fits_double(imported):
        return {key: 0.0 for key in golden}
    exact = dict(zip(("value", "logit"), imported.run(rows, torch.float64)))
    own = _scores(imported, rows) if jumps.ahead(imported.b) else exact
    return {key: np.fmin(np.abs(want - exact[key]), np.abs(want - own[key])) for key, want in golden.items()}


def _fits_double(imported):
    return sum(p.numel() for p in imported.model.parameters()) <= MAX_DOUBLE_PARAMETERS


def _lost_bits(imported, builder):
    """False when every table is stored in its weights' own type."""
    return [t["dtype"] for t in builder.tables] != [t["dtype"] for t in imported.b.tables]
