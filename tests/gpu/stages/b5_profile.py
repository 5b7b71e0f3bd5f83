"""B4 of the plan: timelines of the branches under two schedules, device time of each op, and ncu's counters of the top kernels."""

import csv
import io
import json
import shutil

import common
import data
from b1_end_to_end import GRID_BATCH, strongest_batches, sweep_shapes, tuned
from b2_peers import embedding_batches, embedding_shape
from common import DEVICE, DRY, WORK, emit, program, run
from spec import Shape, paper_grid

METRICS = ("gpu__time_duration.sum", "dram__bytes_read.sum", "dram__throughput.avg.pct_of_peak_sustained_elapsed", "lts__t_sector_hit_rate.pct",
           "sm__warps_active.avg.pct_of_peak_sustained_active", "launch__registers_per_thread", "launch__waves_per_multiprocessor",
           "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active", "l1tex__data_bank_conflicts_pipe_lsu.sum")


# Kernels of a call by the names of their functions: what loading a model starts has others.
OWN_KERNELS = ("lookup_copy_kernel", "lookup_copy8_kernel", "lookup_rows_kernel", "lookup_mixed_kernel", "dense_kernel", "dense_wmma_kernel",
               "dense_split_kernel", "finish_dense_kernel", "cross_v1_closed_kernel", "tail_kernel", "elementwise_kernel")
LIBRARY_KERNELS = ("gemm", "cutlass", "xmma", "nvjet")


PREPARE_SECONDS = 5  # bundles and rows of more cells
NCU_SECONDS = 15  # it replays each kernel many times


def shape():
    return Shape("dcnv2", "criteo", 4, (8,) * 3, True) if DRY else Shape("dcnv2", "criteo", 16, (512,) * 3)


def timeline(which, batch, options, label, seconds="0.3"):
    """`dpi bench --profile`: what each op takes on the device and when it starts."""
    chosen = [part for key, value in {"debug.timestamps": "on", **options}.items() for part in ("--option", f"{key}={value}")]
    status, text = run([program("dpi"), "bench", str(data.bundle(which)), "--device", DEVICE, "--batch", str(batch), "--seconds", "0.02" if DRY else seconds,
                        "--profile", "--json", "--option", f"max_rows={max(64, batch)}", *chosen], 60)
    fields = {"model": which.kind, "dataset": which.dataset, "dim": which.dim, "hidden": list(which.hidden), "batch": batch, "group": label, **options}
    if status != 0:
        unknown = "unknown option" in text or "precision" in text
        late = status == 124 and common.left() < 1
        emit("timeline", "skipped" if late else "unsupported" if unknown else "failed", exit=status, log=text[-400:], **fields)
        return
    result = json.loads(text[text.index("{"):])
    emit("timeline", "ok", profile=result.get("profile"), timeline=result.get("timeline"), **fields)


def counters():
    """ncu over calls of the bench: one row per kernel and grid, the last of equal ones. The library's algorithms are also tried while a model is loaded,
    which grids tell apart."""
    ncu = shutil.which("ncu")
    job = data.bench_job(shape(), GRID_BATCH, {"precision": "fp32" if DRY else "fp16", "debug.graphs": "off", **tuned()}, {})
    job.pop("reference", None)
    job.pop("compare_with", None)
    job.update(calls=1, seconds=0)
    path = WORK / "ncu.jobs"
    path.write_text(json.dumps(job) + "\n")
    command = [program("gpu_bench"), str(path)]
    if DRY or not ncu:
        status, text = run(command, 30)
        emit("ncu", "ok" if DRY and status == 0 else "skipped" if not DRY else "failed", why="no ncu" if not DRY else "dry run", log=text[-300:])
        return
    kernels = {}
    for names, count in (("^(" + "|".join(OWN_KERNELS) + ")$", 10), ("|".join(LIBRARY_KERNELS), 24)):
        status, text = run([ncu, "--clock-control", "none", "--cache-control", "none", "--kernel-name-base", "function", "--kernel-name", f"regex:{names}",
                            "--launch-count", str(count), "--csv", "--metrics", ",".join(METRICS), *command], 30)
        kernels.update(counters_of(text))
        if not kernels:
            emit("ncu", "skipped", exit=status, names=names, log=text[-500:])
    if kernels:
        emit("ncu", "ok", kernels=kernels)


def counters_of(text):
    """{"kernel, grid": {metric: value}} of ncu's CSV, which stands between other lines."""
    rows = [line for line in text.splitlines() if line.startswith('"')]
    kernels = {}
    for row in csv.DictReader(io.StringIO("\n".join(rows))):
        kernels.setdefault(f"{row['Kernel Name'][:80]}, {row['Grid Size']}", {})[row["Metric Name"]] = row["Metric Value"]
    return kernels


def device_time_parts():
    """The cells of predictions.csv: the smallest and the largest models first, then as many as there is time for."""
    if DRY:
        return paper_grid(DRY)[:1], []
    criteo = [c for c in paper_grid() if c.dataset == "criteo"]
    ends = [c for c in criteo if (c.dim, c.hidden[0]) in ((16, 256), (32, 1024))]
    between = [c for c in criteo if c not in ends and c.kind in ("deepfm", "dcnv2")]
    return ends, between


def device_times(cells):
    data.prepare(cells, [GRID_BATCH])
    for precision in ("fp32", "fp16", "tf32"):
        for cell in cells:
            if DRY or common.left() > PREPARE_SECONDS:
                timeline(cell, GRID_BATCH, {"precision": precision}, "device time", "0.1")


def ops():
    """What each op of the usual models takes, few rows and many."""
    shapes = sweep_shapes()[:4]
    data.prepare(shapes, strongest_batches(), precisions=())
    for batch in strongest_batches():
        for precision in ("fp16", "fp32", "tf32"):
            for which in shapes:
                if common.left() > 2:
                    timeline(which, batch, {"precision": precision}, "ops", "0.1")


def stage():
    data.prepare([shape()], [GRID_BATCH])
    data.prepare([embedding_shape()], embedding_batches(), "uniform")
    for batch in embedding_batches():
        timeline(embedding_shape(), batch, {"debug.fold": "off"}, "embedding")
    ends, between = device_time_parts()
    device_times(ends)
    for schedule in ("breadth", "depth", "single"):
        for graphs in ("off", "on"):
            if DRY or common.left() > PREPARE_SECONDS:
                timeline(shape(), GRID_BATCH, {"debug.schedule": schedule, "debug.graphs": graphs}, "schedule", "0.1")
    for more in (lambda: device_times(between), ops):
        if DRY or common.left() > PREPARE_SECONDS:
            more()
    if DRY or common.left() > NCU_SECONDS:
        counters()
    else:
        emit("ncu", "skipped", why="out of time")


if __name__ == "__main__":
    common.main(stage)
