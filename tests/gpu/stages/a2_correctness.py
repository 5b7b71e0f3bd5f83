"""A2: every op and every model in every precision against the reference backend, twice for equal bits. Settles whether anything that is timed
later may be believed, and which precision modes, schedules and kernels have to stay switched off."""

import common
import data
from common import DEVICE, DRY, PACK, PRECISIONS, TOLERANCE, answers, emit, program, run
from spec import KINDS, Shape

BASE = {"device": DEVICE, "max_contexts": "4"}
# Every choice of execution, one at a time from the defaults.
CHOICES = {"defaults": {}, "schedule=depth": {"schedule": "depth"}, "schedule=single": {"schedule": "single"}, "graphs=off": {"graphs": "off"},
           "small_batch=off": {"small_batch": "off"}, "slots=1": {"slots": "1"}, "chunks of 100": {"max_rows": "100"}, "fold=off": {"fold": "off"},
           "fuse=off": {"fuse": "off"}, "skip=lookup": {"skip": "lookup"}, "skip=elementwise": {"skip": "elementwise"}, "skip=merge": {"skip": "merge"},
           "skip=tail": {"skip": "tail"}, "lookup=input_first": {"lookup": "input_first"}, "debug=on": {"debug": "on"}}


def variants(precisions_required):
    made = [{"name": name, "options": {**BASE, **options}, "tolerance": TOLERANCE["fp32"]} for name, options in CHOICES.items()]
    for precision in PRECISIONS[1:]:
        for name in ("defaults", "graphs=off", "small_batch=off", "schedule=single"):
            made.append({"name": f"{precision}, {name}", "options": {**BASE, **CHOICES[name], "precision": precision},
                         "tolerance": TOLERANCE[precision], "required": precisions_required})
    return made


def programs():
    """The test programs on the device; the second pass must agree as well."""
    for attempt in (1,) if DRY else (1, 2):
        for name in ("kernels_test", "e2e_op_bundles_test", "e2e_golden_bundles_test", "capi_predict_test"):
            status, text = run([program(name), f"--device={DEVICE}"], 120)
            asserted = next((line for line in text.splitlines() if "assertions:" in line), "").replace("[doctest] ", "")
            emit(name, "ok" if status == 0 else "failed", attempt=attempt, exit=status, report=asserted, log="" if status == 0 else text[-1200:])


def bundle_jobs():
    """The importers' golden bundles, the demos and every primitive."""
    folders = [("golden", [1, 2, 33, 100], False), ("op_bundles", [1, 31], False)]
    found = [(f, rows, r) for name, rows, r in folders for f in sorted((PACK / "tests/e2e" / name).glob("*.h5"))]
    found += [(f, [1, 31, 64, 417], True) for f in sorted((PACK / "weights/demo").glob("*.h5"))]
    if DRY:
        found = [found[1], found[6], *found[-3:-2]]
    for path, rows, required in found:
        yield {"bundle": str(path), "rows": rows[:2] if DRY else rows, "reference": {"device": "ref"}, "variants": variants(required),
               "seconds": 0.05 if DRY else 0, "labels": {"model": path.stem}}


def model_jobs():
    """The paper's models at awkward widths and batch sizes, small vocabularies. Large batches against the cpu backend, which ctest holds to ref."""
    dims = (4,) if DRY else (8, 16, 20, 64)
    shapes = [Shape(kind, dataset, dim, (hidden,) * 3, True) for kind in KINDS
              for dim, hidden, dataset in [(d, 8 if DRY else (96 if d == 20 else 256), "criteo_numeric" if d in (4, 16) else "criteo") for d in dims]]
    for error in data.make_bundles(shapes):
        emit("make bundle", "failed", error=error)
    for shape in shapes:
        cases = [("ref", [1, 3] if DRY else [1, 3, 31, 64])] + ([] if DRY else [("cpu", [417, 1000, 4096])])
        for device, rows in cases:
            some = variants(True)
            yield {"bundle": str(data.bundle(shape)), "rows": rows, "reference": {"device": device}, "variants": some[:3] + some[-12:] if DRY else some,
                   "seconds": 0 if DRY or device == "ref" else 0.5, "labels": {"model": shape.name, "reference": device}}


def stage():
    programs()
    for result in answers("gpu_check", [*model_jobs(), *bundle_jobs()]):
        emit("check", result.pop("status"), **result)


if __name__ == "__main__":
    common.main(stage)
