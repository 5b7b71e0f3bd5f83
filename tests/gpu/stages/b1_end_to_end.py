"""B1: our latencies from rows in pageable host memory to scores in host memory. Four models at 64 rows, the paper's grid, precision by precision, the one
kernel of few rows, then models over batch sizes, schedules and callers. Settles the headline numbers and which schedule is the default."""

import common
import data
from common import DRY, PRECISIONS, answers, emit
from spec import KINDS, Shape, paper_grid

GRID_BATCH = 8 if DRY else 2048
SCHEDULES = {"breadth, graphs": {}, "breadth, most ops first": {"debug.order": "ops"}, "breadth, least work first": {"debug.order": "light"}, "depth, graphs": {"debug.schedule": "depth"}, "single, graphs": {"debug.schedule": "single"},
             "breadth, no graphs": {"debug.graphs": "off"}, "depth, no graphs": {"debug.schedule": "depth", "debug.graphs": "off"}, "small batch": {"small_batch": "on"}}
GRID_CALLS = {} if DRY else {"calls": 300, "seconds": 0.3}  # of 192 cells
LOOKUPS = {"output first": {}, "input first": {"debug.lookup": "input_first"}, "a lookup per field": {"debug.skip": "lookup"}, "one stream": {"debug.schedule": "single"}}
FEW_ROWS = {"op by op": {}, "one kernel": {"small_batch": "on"}, "one kernel, reads its input in place": {"small_batch": "on", "debug.fetch": "in_place"}}


def tuned():
    """The tuning table of an earlier call, where one came back."""
    for folder in (common.OUT, common.PACK):
        if (folder / "tuning.txt").exists() and not DRY:
            return {"tuning": str(folder / "tuning.txt")}
    return {}


def sweep_shapes():
    """gpu.md's two sizes over batches: the numeric form of Criteo."""
    if DRY:
        return [Shape("deepfm", "criteo_numeric", 4, (8, 8, 8), True)]
    small = [Shape(kind, "criteo_numeric", 16, (400, 400, 400)) for kind in KINDS]
    return small + [Shape(kind, "criteo_numeric", 64, (1024, 512, 256)) for kind in ("deepfm", "dcnv2")]


def sweep_batches():
    return (1, 4) if DRY else (1, 64, 512, 2048, 4096, 16384)


def grid_parts():
    """The grid's cells as they are made and timed: Criteo first, where the paper's ratios are largest."""
    grid = paper_grid(DRY)
    return [part for name in ("criteo", "avazu") for part in [[s for s in grid if s.dataset == name]] if part]


def grid_jobs(shapes, precisions):
    for precision in precisions:
        for shape in shapes:
            yield data.bench_job(shape, GRID_BATCH, {"precision": precision, **tuned()}, {"group": "grid", "engine": "dpi"}, info=True, **GRID_CALLS)


def small_cells():
    """What the target of a few rows is about: shape, precision, batch."""
    return [(shape, precision, sweep_batches()[1]) for precision in ("fp16", "tf32") for shape in sweep_shapes()[:4]]


def strongest_batches():
    """Where B2 and B3 begin."""
    return sweep_batches()[1:2] if DRY else (64, 2048)


def first_cells():
    """The small cells, and what peers are timed at first."""
    return list(dict.fromkeys(small_cells() + [(s, p, b) for p in ("fp16", "tf32", "fp32") for s in sweep_shapes()[:4] for b in strongest_batches()]))


def larger_cells():
    """What the strongest peers are timed at besides."""
    return [] if DRY else [(s, p, b) for p in ("fp16", "fp32") for s in sweep_shapes()[:4] for b in (512, 4096, 16384)]


def sweep_cells():
    return [(s, p, b) for s in sweep_shapes() for p in PRECISIONS for b in sweep_batches()]


def sweep_jobs(cells):
    return [data.bench_job(s, b, {"precision": p, **tuned()}, {"group": "sweep", "engine": "dpi"}, info=b == sweep_batches()[1]) for s, p, b in cells]


def schedule_jobs():
    for shape in sweep_shapes()[:4]:
        for precision in ("fp32", "fp16"):
            for name, options in SCHEDULES.items():
                for batch in (4,) if DRY else (64, 512, 2048):
                    yield data.bench_job(shape, batch, {"precision": precision, **options, **tuned()}, {"group": "schedule", "engine": "dpi", "choice": name})


def few_rows_jobs():
    """The whole model in one kernel, and how that comes by its input: both are off until these cells say otherwise."""
    for shape in sweep_shapes()[:4]:
        for name, options in FEW_ROWS.items():
            yield data.bench_job(shape, 4 if DRY else 64, {"precision": "fp16", **options, **tuned()}, {"group": "few rows", "engine": "dpi", "choice": name})


def lookup_jobs():
    """Rows of 16 floats, where nothing but launches counts and where the rows do."""
    for shape in sweep_shapes()[3:0:-2] or sweep_shapes():
        for batch in (4,) if DRY else (16384, 2048):
            for name, options in LOOKUPS.items():
                yield data.bench_job(shape, batch, {"precision": "fp16", **options, **tuned()}, {"group": "lookup forms", "engine": "dpi", "choice": name})


def caller_jobs():
    for shape in sweep_shapes()[1:2] or sweep_shapes():
        for precision in ("fp16", "tf32"):
            for callers in (1, 2, 4):
                yield data.bench_job(shape, 4 if DRY else 64, {"precision": precision, **tuned()},
                                     {"group": "callers", "engine": "dpi", "callers": callers}, callers=callers)


def large_shapes():
    return [Shape("deepfm", "large", 4, (8, 8, 8), True)] if DRY else [Shape("deepfm", "large", 16, (400, 400, 400))]


def large_batches():
    return (4,) if DRY else (64, 2048, 16384)


def large_jobs():
    """Uniform ids over tables far beyond L2: every row comes from memory."""
    for shape in large_shapes():
        for precision in ("fp32", "fp16"):
            for batch in large_batches():
                yield data.bench_job(shape, batch, {"precision": precision, **tuned()}, {"group": "large", "engine": "dpi"}, "uniform")


def measure(jobs):
    for result in answers("gpu_bench", jobs):
        emit("latency", result.pop("status"), **result)


def stage():
    import a0_probe
    a0_probe.clocks("before end to end")
    usual, parts = sweep_shapes()[:4], grid_parts()
    first = [(s, b, "zipf") for s in usual for b in strongest_batches()]
    # One process of torch for both; a reference per type of tables that is timed here.
    data.prepare_all(first + [(s, GRID_BATCH, "zipf") for s in parts[0]], ("fp32", "fp16"))
    measure(sweep_jobs(first_cells()))
    for i, part in enumerate(parts):
        if i > 0:
            data.prepare(part, [GRID_BATCH], precisions=("fp32", "fp16"))
        measure(grid_jobs(part, ("fp32", "fp16")))
    measure(few_rows_jobs())
    data.prepare(usual[1:4:2] or usual, sweep_batches()[-1:])
    measure(lookup_jobs())
    measure(job for part in parts for job in grid_jobs(part, ("tf32",)))
    data.prepare(usual, sweep_batches())
    larger = larger_cells()
    measure(sweep_jobs(larger))
    measure(caller_jobs())
    data.prepare(sweep_shapes(), sweep_batches())
    measure(sweep_jobs(c for c in sweep_cells() if c not in first_cells() and c not in larger))
    data.prepare(large_shapes(), large_batches(), "uniform")
    measure([*large_jobs(), *schedule_jobs(), *(job for part in parts for job in grid_jobs(part, ("bf16",)))])
    a0_probe.clocks("after end to end")


if __name__ == "__main__":
    common.main(stage)
