"""Times the forms of forms.py. Standard input: one JSON job a line; standard output: one JSON result a line, flushed.

A job: {"shape", "bundle", "ids", "dense", "sets", "batch", "reference", "precision", "tolerance", "forms", "calls", "seconds", "labels",
"part"?: "embedding", "device_runs"?, "busy"?: false}. Outputs are compared before anything is timed; a form whose outputs differ has status "wrong" and no times."""

import json
import sys
import time
import traceback

import numpy as np
import torch
from forms import FORMS, Device, Runner
from model import Arrays, load_rows


def worst_error(runner, job):
    want = np.fromfile(job["reference"], np.float32).reshape(job["sets"], job["batch"]).astype(np.float64)
    worst = 0.0
    for s in range(job["sets"]):
        errors = np.abs(runner.logits(s) - want[s]) / (1 + np.abs(want[s]))
        worst = max(worst, float(np.max(errors))) if np.isfinite(errors).all() else float("nan")
    return worst


def host_times(runner, job):
    for s in range(2 * job["sets"]):
        runner.call(s)
    times, begin = [], time.perf_counter()
    while len(times) < job["calls"]:
        start = time.perf_counter()
        runner.call(len(times))
        end = time.perf_counter()
        times.append((end - start) * 1e6)
        if len(times) >= 20 and end - begin > job["seconds"]:
            break
    p50, p95, p99 = (float(np.percentile(times, p)) for p in (50, 95, 99))
    return {"p50_us": p50, "p95_us": p95, "p99_us": p99, "mean_us": float(np.mean(times)), "min_us": min(times), "calls": len(times)}


def busy_us(runner):
    """Time the device was executing kernels during one call, from torch's profiler; None where it cannot say."""
    try:
        from torch.profiler import ProfilerActivity, profile
        with profile(activities=[ProfilerActivity.CUDA if runner.device.cuda else ProfilerActivity.CPU]) as trace:
            for s in range(4):
                runner.call(s)
        total = 0.0
        for event in trace.key_averages():
            total += getattr(event, "self_device_time_total", getattr(event, "self_cuda_time_total", 0)) or 0
        return total / 4
    except (ImportError, RuntimeError, AttributeError):
        return None


def run_form(job, name, arrays, rows, device):
    begin = time.perf_counter()
    runner = Runner(FORMS[name], job, arrays, rows, device)
    result = {"status": "ok"}
    if job.get("part") == "embedding":
        result["device_us"] = device.device_us(runner.lookup_works(), 4 if not device.cuda else 200)
        return result
    result["worst"] = worst_error(runner, job)
    result["prepare_s"] = time.perf_counter() - begin
    if not result["worst"] <= job["tolerance"]:
        return {**result, "status": "wrong", "worst": str(result["worst"])}
    result.update(host_times(runner, job))
    result["device_us"] = device.device_us(runner.device_works(), 4 if not device.cuda else job.get("device_runs", min(200, job["calls"])))
    if name.startswith("eager") and job.get("busy", True):
        result["busy_us"] = busy_us(runner)
    return result


def main():
    device, arrays = Device(), None
    for line in sys.stdin:
        job = json.loads(line)
        rows = load_rows(job)
        if arrays is None or arrays.bundle != job["bundle"]:
            arrays = None  # the next model's may need the room
            arrays = Arrays(job["bundle"], device.name)
        for name in job["forms"]:
            try:
                result = run_form(job, name, arrays, rows, device)
            except Exception:  # one form that cannot run leaves the others
                result = {"status": "failed", "error": traceback.format_exc()[-700:]}
            print(json.dumps({**job["labels"], "engine": name, **result}), flush=True)
            if device.cuda:
                torch.cuda.empty_cache()


if __name__ == "__main__":
    torch.set_num_threads(1 if not torch.cuda.is_available() else torch.get_num_threads())
    with torch.inference_mode():
        main()
