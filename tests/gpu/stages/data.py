"""Bundles, rows and reference logits of the benchmark, made once per machine in WORK and shared by stages and peers.

A model is a spec.Shape. Its bundle NAME.h5 comes from gpu_make_bundle with NAME.h5.json beside it (where each array lies). Rows are raw files:
int64 ids [sets, batch, slots] and float32 numbers [sets, batch, columns]. The reference is peers/reference.py in float64; for fp16 and bf16 over
tables rounded to the precision, because a sum of squares (FM) magnifies what the rounding of a table takes away, whoever computes it."""

import concurrent.futures
import json
import os

import numpy as np

import common
from common import DRY, WORK
from spec import make

SETS = 2 if DRY else 8
USUAL_ROWS = 4096  # of a chunk: larger calls have several, which overlap
ZIPF = 1.1


def rounding(precision):
    """What tables are rounded to before they are compared: a precision of 16 bits, or "" for none."""
    return precision if precision in ("fp16", "bf16") else ""


def bundle(shape, tables=""):
    """tables: "" or what rounding() gives."""
    return WORK / f"{shape.name}{tables and '.' + tables}.h5"


def make_bundles(shapes, tables=""):
    """Writes the bundles that are not there yet; several programs at once."""
    def one(shape):
        path = bundle(shape, tables)
        spec = path.with_suffix(".spec.json")
        if path.exists():
            return None
        made = make(shape)
        for array in made["arrays"]:
            if tables and array["path"].startswith("/tables/"):
                array["round"] = tables
        spec.write_text(json.dumps(made))
        part = path.with_suffix(".part")
        status, text = common.run([common.program("gpu_make_bundle"), str(spec), str(part)])
        if status != 0:
            return f"{shape.name}: {text[-300:]}"
        os.replace(f"{part}.json", f"{path}.json")
        os.replace(part, path)
        return None

    workers = max(1, min(6, (os.cpu_count() or 1) // 2))
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        return [error for error in pool.map(one, shapes) if error]


def ids_of(rng, vocab, shape, distribution):
    """Ids of one field. zipf: rank r with P(r) ~ r^-1.1, id = rank - 1 as in files sorted by frequency; zipf0.8: with that exponent, not 1; uniform: the
    worst for caches."""
    u = rng.random(shape)
    if distribution == "uniform":
        return np.minimum((u * vocab).astype(np.int64), vocab - 1)
    rest = 1 - float(distribution.removeprefix("zipf") or ZIPF)
    top = (vocab + 1.0) ** rest
    return np.clip(((1 - u * (1 - top)) ** (1 / rest)).astype(np.int64) - 1, 0, vocab - 1)


def rows(shape, batch, distribution="zipf", sets=SETS, turn=0):
    """(path of ids, path of numbers or None) for a batch size; models of one data set share them. turn: other rows of the same distribution."""
    small = ".dry" if shape.dry else ""
    again = f".{turn}" if turn else ""
    ids, dense = (WORK / f"{shape.dataset}{small}.{batch}.{sets}.{distribution}{again}.{what}" for what in ("ids", "dense"))
    if not ids.exists():
        rng = np.random.default_rng([batch, turn] if turn else batch)
        columns = [ids_of(rng, v, (sets, batch), distribution) for v in shape.vocabs]
        rng.standard_normal((sets, batch, max(1, shape.numerics)), dtype=np.float32).tofile(dense)
        np.ascontiguousarray(np.stack(columns, axis=-1)).tofile(ids)
    return ids, dense if shape.numerics else None


def reference_path(shape, batch, distribution, sets, precision):
    tables = rounding(precision)
    return WORK / f"{shape.name}.{batch}.{sets}.{distribution}{tables and '.' + tables}.logits"


def reference(shape, batch, distribution="zipf", sets=SETS, precision="fp32"):
    """Path of the float32 logits [sets, batch] that torch computes in float64; None if it has not been made."""
    path = reference_path(shape, batch, distribution, sets, precision)
    return path if path.exists() else None


def make_references(wanted, precisions, sets=SETS):
    """wanted: (shape, batch, distribution). One torch process for all; returns its error text or None."""
    missing = [(s, b, d, p) for s, b, d in wanted for p in precisions if reference(s, b, d, sets, p) is None]
    if not missing or not common.torch_here():
        return None
    lines = []
    for shape, batch, distribution, precision in missing:
        ids, dense = rows(shape, batch, distribution, sets)
        lines.append({"shape": [shape.kind, shape.dataset, shape.dim, list(shape.hidden), shape.dry], "bundle": str(bundle(shape)), "ids": str(ids),
                      "dense": str(dense) if dense else None, "sets": sets, "batch": batch, "tables": rounding(precision),
                      "out": str(reference_path(shape, batch, distribution, sets, precision))})
    end = {}
    for _ in common.stream("reference", [os.environ.get("PYTHON", "python3"), str(common.PACK / "tests/gpu/peers/reference.py")], end, json.dumps(lines),
                           ours=False):
        pass
    return None if end["exit"] == 0 or end["late"] else end["log"]


def prepare(shapes, batches, distribution="zipf", precisions=("fp32", "fp16", "bf16")):
    prepare_all([(s, b, distribution) for s in shapes for b in batches], precisions)


def prepare_all(wanted, precisions=("fp32", "fp16", "bf16")):
    """Bundles, rows and references of (shape, batch, distribution); emits what failed. References are those of the precisions' tables."""
    for error in make_bundles({s: None for s, _, _ in wanted}):
        late = common.left() < 1
        common.emit("make bundle", "skipped" if late else "failed", error=error, why="out of time" if late else "")
    for shape, batch, distribution in {(s.dataset, b, d): (s, b, d) for s, b, d in wanted}.values():
        if common.left() > 1:
            rows(shape, batch, distribution)
    error = make_references([w for w in wanted if bundle(w[0]).exists()], precisions)
    if error:
        common.emit("reference in float64", "failed", error=error)


def hot_list(shape, distribution, lookups):
    """A hot-key list made of a log of `lookups` rows that are never timed, or None with its error in a record."""
    made = WORK / f"{shape.name}.{distribution}.hot"
    if made.exists():
        return made
    log = made.with_suffix(".csv")
    rng = np.random.default_rng([lookups, 99])
    columns = [np.zeros(lookups, np.int64)] * shape.numerics + [ids_of(rng, v, lookups, distribution) for v in shape.vocabs]
    names = [f["name"] for f in make(shape)["manifest"]["features"]]
    with open(log, "w") as f:
        f.write(",".join(names) + "\n")
        f.writelines(",".join(map(str, row)) + "\n" for row in np.stack(columns, axis=-1).tolist())
    status, text = common.run([common.program("dpi"), "store", "hot-keys", str(bundle(shape)), "--data", str(log), "--out", str(made)])
    log.unlink()
    if status == 0:
        return made
    late = common.left() < 1
    common.emit("hot-key list", "skipped" if late else "failed", error=text[-300:], why="out of time" if late else "")
    return None


def bench_job(shape, batch, options, labels, distribution="zipf", sets=SETS, **more):
    """A job of gpu_bench."""
    ids, dense = rows(shape, batch, distribution, sets)
    precision = options.get("precision", "fp32")
    known = {"model": shape.kind, "dataset": shape.dataset, "dim": shape.dim, "hidden": list(shape.hidden), "batch": batch, "precision": precision,
             "ids": distribution}
    job = {"bundle": str(bundle(shape)), "ids": str(ids), "dense": str(dense) if dense else "", "batch": batch, "sets": sets,
           "options": {"device": common.DEVICE, "max_contexts": str(more.get("callers", 1)), "max_rows": str(min(max(batch, 64), USUAL_ROWS)), **options}, "calls": 8 if DRY else 1000,
           "seconds": 0.05 if DRY else 0.6, "tolerance": common.TOLERANCE[precision], "labels": {**known, **labels}, **more}
    known_reference = reference(shape, batch, distribution, sets, precision)
    if known_reference:
        job["reference"] = str(known_reference)
    else:  # no torch: what cannot be compared with it is compared with the cpu backend
        job["compare_with"] = {"device": "cpu", "threads": "1" if DRY else str(os.cpu_count() or 1)}
    return job
