"""A2: every op and every model in every precision against the reference backend, twice for equal bits. Settles whether anything that is timed
later may be believed, and which precision modes, schedules and kernels have to stay switched off."""

import json

import common
import data
from common import DEVICE, DRY, PACK, PRECISIONS, TOLERANCE, answers, emit, program, run, test
from spec import KINDS, Shape

PROGRAMS = ("kernels_test", "gemm_test", "e2e_op_bundles_test", "e2e_golden_bundles_test", "capi_predict_test")
OP_TOLERANCE = 1e-4  # of a primitive alone: sums of squares and logarithms of differences cancel, 3.6e-5 on every device that sums in float32
GATE_SECONDS = 4  # a demo's gates are not begun with less: five programs
HUGE_SECONDS = 25  # nor a bundle of 4.8 GB
HUGE = Shape("widedeep", "huge", 16, (64, 64, 64), DRY)
AUC_GATE = {"fp32": 1e-5, "tf32": 1e-4, "fp16": 1e-4, "bf16": 1e-3}
BASE = {"device": DEVICE, "max_contexts": "4"}
# Every choice of execution, one at a time from the defaults.
CHOICES = {"defaults": {}, "debug.schedule=depth": {"debug.schedule": "depth"}, "debug.schedule=single": {"debug.schedule": "single"}, "debug.graphs=off": {"debug.graphs": "off"},
           "debug.order=ops": {"debug.order": "ops"}, "debug.order=light": {"debug.order": "light"},
           "small_batch=on": {"small_batch": "on"}, "small_batch=on, debug.fetch=in_place": {"small_batch": "on", "debug.fetch": "in_place"}, "in_flight=1": {"in_flight": "1"}, "chunks of 100": {"max_rows": "100"}, "debug.fold=off": {"debug.fold": "off"},
           "debug.fuse=off": {"debug.fuse": "off"}, "debug.skip=lookup": {"debug.skip": "lookup"}, "debug.skip=elementwise": {"debug.skip": "elementwise"}, "debug.skip=merge": {"debug.skip": "merge"},
           "debug.skip=tail": {"debug.skip": "tail"}, "debug.lookup=input_first": {"debug.lookup": "input_first"}, "debug.timestamps=on": {"debug.timestamps": "on"}}


def variants(precisions_required):
    made = [{"name": name, "options": {**BASE, **options}, "tolerance": TOLERANCE["fp32"]} for name, options in CHOICES.items()]
    for precision in PRECISIONS[1:]:
        for name in ("defaults", "debug.graphs=off", "small_batch=on", "debug.schedule=single"):
            made.append({"name": f"{precision}, {name}", "options": {**BASE, **CHOICES[name], "precision": precision},
                         "tolerance": TOLERANCE[precision], "required": precisions_required})
    return made


def programs(attempt, names=PROGRAMS):
    """The test programs on the device; a second pass must agree as well."""
    for name in names:
        few = ["--last=2"] if DRY else []  # ctest runs all of them on the emulated device
        if common.left() < 1:
            emit(name, "skipped", attempt=attempt, why="out of time")
            continue
        status, text = run([*test(name), f"--device={DEVICE}", *few], 120)
        asserted = next((line for line in text.splitlines() if "assertions:" in line), "").replace("[doctest] ", "")
        late = status == 124 and common.left() < 1
        emit(name, "ok" if status == 0 else "skipped" if late else "failed", attempt=attempt, exit=status, report=asserted,
             log="" if status == 0 else text[-1200:])


def bundle_jobs():
    """The importers' golden bundles, the demos and every primitive."""
    found = [(f, [1, 2, 33, 100], False) for f in sorted((PACK / "tests/e2e/golden").glob("*.h5"))]
    found += [(f, [1, 31], False) for f in sorted((PACK / "tests/e2e/op_bundles").glob("*.h5"))]
    found += [(f, [1, 31, 64, 417], True) for f in sorted((PACK / "weights/demo").glob("*.h5"))]
    if DRY:
        found = [f for f in found if f[0].stem in ("fx_deepfm_half", "dt_dcn_vector", "row_spaces", "dt_wdl_max", "reduce", "unary")]
    for path, rows, required in found:
        chosen, reference = variants(required), {}
        if path.parent.name == "op_bundles":  # values without a scale of their own (exp, pow; NaN of a logarithm): exact modes only
            reference = {"nonfinite": "return"}
            chosen = [{**v, "tolerance": OP_TOLERANCE, "options": {**v["options"], **reference}} for v in chosen if v["tolerance"] == TOLERANCE["fp32"]]
        made = job(str(path), rows[:2] if DRY else rows, "ref", chosen, {"model": path.stem})
        made["reference"].update(reference)
        yield made


def job(bundle, rows, reference, chosen, labels, seconds=0, **more):
    if DRY and labels["model"] != "fx_deepfm_half":  # one model goes through every choice, the others through the most different
        chosen = [v for v in chosen if v["name"] == "defaults" or v["name"].endswith(", defaults")]
    return {"bundle": bundle, "rows": rows, "reference": {"device": reference, "threads": "1" if DRY else "8"}, "variants": chosen, "seconds": seconds,
            "labels": {**labels, "reference": reference}, **more}


def shapes():
    """The paper's models at awkward widths, small vocabularies; those of the usual width first."""
    sizes = [(4, 8, "criteo_numeric")] if DRY else [(16, 256, "criteo_numeric"), (64, 256, "criteo"), (20, 96, "criteo"), (8, 256, "criteo_numeric")]
    return [Shape(kind, dataset, dim, (hidden,) * 3, True) for dim, hidden, dataset in sizes for kind in KINDS]


def model_jobs(which, callers, some=lambda variant: True):
    """Variants that `some` takes. Small batches against ref, large ones against the cpu backend, which ctest holds to ref; four callers at once if asked for."""
    for tables in ("", "fp16", "bf16"):
        for error in data.make_bundles(which, tables):
            emit("make bundle", "failed", error=error)
    for i, shape in enumerate(which):
        path, labels = str(data.bundle(shape)), {"model": shape.name}
        for tables in ("", "fp16", "bf16"):  # the reference's; the device rounds its own
            of_type = [v for v in variants(True) if data.rounding(v["options"].get("precision", "")) == tables and some(v)]
            against = {"reference_bundle": str(data.bundle(shape, tables))}
            yield job(path, [1, 3] if DRY else [1, 3, 31, 64], "ref", of_type, labels, **against)
            if not DRY:
                yield job(path, [417, 1000, 4096], "cpu", of_type, labels, **against)
        if callers and not (DRY and i > 0):
            defaults = [v for v in variants(True) if v["name"].endswith("defaults")]
            yield job(path, [33], "cpu", defaults, {**labels, "callers": 4}, 0.05 if DRY else 1.0)


def huge_jobs():
    """A table above 4 GiB: half of the ids lie beyond 2^31 bytes of it, some beyond 2^32."""
    shape = HUGE
    for error in data.make_bundles([shape]):
        emit("make bundle", "failed", error=error)
    chosen = [{"name": f"{precision}, small_batch={small}", "options": {"device": DEVICE, "max_contexts": "1", "precision": precision,
                                                                        "small_batch": small}, "tolerance": TOLERANCE[precision]}
              for precision in ("fp32", "fp16") for small in ("off", "on")]
    yield {"bundle": str(data.bundle(shape)), "rows": [1, 3] if DRY else [33, 3000], "reference": {"device": "cpu", "threads": "1" if DRY else "8"},
           "variants": chosen, "labels": {"model": shape.name, "reference": "cpu"}}


def auc(path, rows, options):
    """AUC of a demo's held-out rows, scored from raw text; None and the reason where the combination is refused."""
    chosen = [part for key, value in options.items() for part in ("--option", f"{key}={value}") if key != "device"]
    status, text = run([program("dpi"), "predict", str(path), str(rows), "--raw", "--label", "label", "--device", options["device"], "--summary",
                        "--json", *chosen], 60)
    return (json.loads(text[text.index("{"):])["auc"]["value"], "") if status == 0 else (None, text[-300:])


def gates():
    """A precision mode must leave the AUC of the demos where the cpu backend has it."""
    for model in sorted((PACK / "weights/demo").glob("*.h5"))[:1 if DRY else None]:
        if common.left() < GATE_SECONDS:
            emit("auc gate", "skipped", model=model.stem, why="out of time")
            continue
        rows = model.with_name(model.stem.split("_")[0] + "_test.csv")
        if DRY:
            few = common.WORK / rows.name
            few.write_text("".join(rows.read_text().splitlines(keepends=True)[:200]))
            rows = few
        want, why = auc(model, rows, {"device": "cpu"})
        for precision in PRECISIONS:
            got, refused = auc(model, rows, {"device": DEVICE, "precision": precision}) if want else (None, why)
            if got is None and common.left() < 1:
                emit("auc gate", "skipped", model=model.stem, precision=precision, why="out of time")
                continue
            status = "unsupported" if got is None and "asked" in refused else "ok" if got is not None and abs(got - want) <= AUC_GATE[precision] else "failed"
            emit("auc gate", status, model=model.stem, precision=precision, auc=got, cpu=want, error=refused)


def checks(jobs):
    for result in answers("gpu_check", (job for job in jobs if job["variants"])):
        emit("check", result.pop("status"), **result)


def huge():
    if common.left() < HUGE_SECONDS and not DRY:
        return emit("table above 4 GiB", "skipped", why="out of time")
    return checks(huge_jobs())


def is_default(variant):
    return variant["name"].endswith("defaults")


def stage():
    """Kernels, the models of the usual width, the gates, the large table, other bundles. A8 has what can wait."""
    usual = shapes()[:len(KINDS)]
    programs(1, PROGRAMS[:2])
    checks(model_jobs(usual, False, is_default))
    programs(1, PROGRAMS[2:])
    checks(model_jobs(usual, True, lambda variant: not is_default(variant)))
    gates()
    huge()
    checks(bundle_jobs())


if __name__ == "__main__":
    common.main(stage)
