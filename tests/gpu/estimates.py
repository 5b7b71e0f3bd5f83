"""How long what a visit starts should take there, and what it would answer. Used by rehearse.py. Seconds on a machine with an H200, 16 processors and a cold
disk, guessed on the slow side; what a call or a kernel takes is predict.py's. No number here decides anything on a visit."""

import json
import pathlib

import predict
import predict_tiers
from spec import Shape, make

PYTHON = 0.7  # an interpreter with numpy
TORCH = 6.0  # with torch and a CUDA context
TORCH_COLD = 10.0  # the first time
CONTEXT = 1.5  # of a program of ours
ROWS = 30e-9  # an id
LOG = 1.5e-6  # a cell of a log of requests written as text and counted
PINNED = 2.0e9  # bytes a second of tables made in pinned memory, or copied from there
MAKE = 0.25e9  # bytes a second of one gpu_make_bundle, of which six run at once
MAKERS = 6
READ = 1.0e9  # a bundle, digests and the way to the device included
TIER_ROW = 1.5e-6  # of a load with a host tier: 90 s for 10^8 rows on two cores (tests/bench/README.md), and its pinned memory
LOAD = 0.15  # a model whatever its size: algorithms asked for, memory, contexts
TEST_PROGRAM = {"kernels_test": 10, "gemm_test": 8, "e2e_op_bundles_test": 8, "e2e_golden_bundles_test": 14, "capi_predict_test": 6}
SANITIZER = {"gpu_check": 7, "e2e_op_bundles_test": 12}
CELL = {"dpi_gpu_tune": 0.6, "dpi_gpu_lookup": 1.0}  # of a sweep; the first pass has three precisions of one batch
FIRST_CELLS = 19 * 3
AUTOTUNE = {"graph_autotuned": 25, "graph_compiled": 9, "compiled_merged": 9, "compiled_field": 30, "compiled_merged_overhead": 12}


def bundle_bytes(shape):
    tables = sum(shape.vocabs) * (shape.dim + (0 if shape.kind.startswith("dcn") else 1))
    return 4 * (tables + shape.flops_per_row() // 2)


def shape_at(path):
    """Of a bundle's path, by its name."""
    kind, rest = pathlib.Path(path).name.split("_", 1)
    dataset, tail = rest.split("_d", 1)
    dim, hidden = tail.split(".")[0].split("_")
    widths = tuple(map(int, hidden.split("-")))
    return Shape(kind, dataset, int(dim), widths if len(widths) > 1 else widths * 3)


def argument(command, name, default):
    return command[command.index(name) + 1] if name in command else default


# ---- programs that are run and waited for


def run(command):
    """(seconds, exit status, output)"""
    name, words = pathlib.Path(str(command[0])).name, [str(w) for w in command[1:]]
    if name == "gpu_make_bundle":
        nbytes = 4 * sum(_product(a["shape"]) for a in json.loads(pathlib.Path(words[0]).read_text())["arrays"])
        for path in (words[1], f"{words[1]}.json"):
            pathlib.Path(path).touch()
        return 0.05 + nbytes / MAKE / MAKERS, 0, ""
    if name == "compute-sanitizer":
        return SANITIZER[next(n for n in SANITIZER if any(pathlib.Path(w).name.startswith((n, "test")) for w in words))], 0, "ERROR SUMMARY: 0 errors"
    if name == "ncu":
        return 12.0, 0, '"ID","Kernel Name","Grid Size","Metric Name","Metric Value"\n"0","tail_kernel","(1, 1, 1)","gpu__time_duration.sum","1"\n'
    if name in TEST_PROGRAM:
        return (0.1, 0, "") if "--list-test-cases" in words else (TEST_PROGRAM[name], 0, "[doctest] assertions: 1")
    if name == "dpi":
        return dpi(words)
    if name in ("nvidia-smi", "nvcc", "dmesg"):
        return 0.3, 0, "x, " * 10 + "x\n"
    if name in ("gpu_check", "gpu_bench", "bash"):
        return 0.2, 0, ""
    raise SystemExit(f"estimates.py does not know {name}")


def _product(dims):
    n = 1
    for d in dims:
        n *= d
    return n


def dpi(words):
    if words[0] == "devices":
        return CONTEXT, 0, '[{"backend": "cuda", "usable": true}]'
    if words[0] == "predict":
        return CONTEXT + 0.5, 0, '{"auc": {"value": 0.75}}'
    seconds = 2 * float(argument(words, "--seconds", "0.3"))
    if not pathlib.Path(words[1]).name.startswith(("widedeep_", "deepfm_", "dcn_", "dcnv2_")):
        return CONTEXT + LOAD + seconds, 0, "{}"
    shape = shape_at(words[1])
    us = predict.device_us(shape, "fp32", int(argument(words, "--batch", "64")))
    answer = {"profile": [{"op": "lookup", "kind": "MultiLookup", "us_per_call": us / 3}], "timeline": {"total_us": us}}
    return CONTEXT + LOAD + bundle_bytes(shape) / READ + seconds, 0, json.dumps(answer)


# ---- programs that answer in lines: [(seconds, [answers])] a job


def jobs_of(name, command, text):
    if name == "torch":
        return [(TORCH_COLD, [{"torch": "rehearsed"}])]
    if name == "reference":
        return references(json.loads(text))
    if name == "peers":
        return peers([json.loads(line) for line in text.splitlines()])
    if name == "ceilings":
        batch = int(argument(command, "--batch", "0"))
        return [(8.0, [{"what": "field_rows", "batch": batch, "us": 150.0}, {"what": "copy", "bytes": 1 << 32, "us": 2.0, "gb_s": 4300.0}])]
    if name == "gemm":
        return [(TORCH + 5, [{"precision": "fp32", "m": 1, "k": 1, "n": 1, "us": 1.0, "tflops": 55.0}])]
    if name in CELL:
        return sweep(name, command)
    maker = {"gpu_check": check, "gpu_bench": bench, "gpu_tiers": tiers}[name]
    return maker([json.loads(line) for line in text.splitlines()])


def references(jobs):
    made, bundle = [(TORCH, [])], None
    for job in sorted(jobs, key=lambda j: (j["bundle"], j["tables"])):
        pathlib.Path(job["out"]).touch()
        made.append((0.1 + (bundle_bytes(shape_at(job["bundle"])) / READ if job["bundle"] != bundle else 0), []))
        bundle = job["bundle"]
    return made


def sweep(name, command):
    """A program that ends by itself when its seconds are over, after at least one cell."""
    first = "--first" in command
    seconds = float(argument(command, "--seconds", "60"))
    wanted = FIRST_CELLS if first else 400
    cost = CELL[name] * (0.5 if first else 1)
    done = min(wanted, max(1, int(seconds / cost)))
    cells = [{"rows": 2048, "right": True, "us": 1.0, "dim": 16, "sums": True, "table": "f32", "out": "f32", "ids": "zipf", "table_rows": 1,
              "variant": "rows vector=4 ilp=1 block=128 hint=0 sort_bags=0 stores=0"} for _ in range(done)]
    if first and done == wanted:
        cells[-1]["first"] = "done"
    if name == "dpi_gpu_tune":
        pathlib.Path(argument(command, "--out", "")).write_text("dpi-tuning 1\n")
    return [(CONTEXT, [])] + [(cost, [c]) for c in cells]


def check(jobs):
    made = [(CONTEXT, [])]
    for job in jobs:
        made_here = "/tests/" not in job["bundle"] and "/weights/" not in job["bundle"]
        shape = shape_at(job["bundle"]) if made_here else None
        small = shape is None or shape.dataset != "huge"
        nbytes = 2e6 if small else bundle_bytes(shape)
        flops = shape.flops_per_row() if shape else 1e5
        rate = 0.3e9 if job["reference"]["device"] == "ref" else 20e9
        cost = LOAD + nbytes / READ + 2 * sum(job["rows"]) * flops / rate
        for variant in job["variants"]:
            cost += LOAD + nbytes / READ + 6 * len(job["rows"]) * 0.5e-3 + job.get("seconds", 0)
            precision = variant["options"].get("precision", "fp32")
            made.append((cost, [{**job["labels"], "variant": variant["name"], "precisions": precision, "status": "ok", "worst": 0.0}]))
            cost = 0
    return made


def timed(us, calls, seconds):
    return 1e-6 * us * min(calls, max(20, seconds / (us * 1e-6)))


def tiers(jobs):
    made, seen = [(CONTEXT, [])], set()
    for job in jobs:
        labels, nbytes = job["labels"], sum(job["tables"]) * job["dim"] * 4
        hits, us, rate = predict_tiers.read()[_tier_key(labels)]
        cost = 0.05 + nbytes / PINNED
        for new in (str(job["tables"]), job["ids"]):
            cost += 0 if new in seen else nbytes / PINNED if new == str(job["tables"]) else 0.5
            seen.add(new)
        cost += 1e-6 * us * 3 + min(2 * job["seconds"], (job["warm"] + job["calls"]) * (us * 1e-6 + (1e-3 if labels["way"] == "cached" else 0)))
        made.append((cost, [{**labels, "status": "ok", "p50_us": us, "p95_us": us, "p99_us": us, "rows_per_s": rate, "hit_rate": hits, "device_us": us}]))
    return made


def _tier_key(labels):
    return (labels["level"], labels["way"], labels["part"], labels["zipf"], labels["batch"], labels["callers"])


def tiered(job, shape):
    """(seconds beside a load, answer) of a job of gpu_bench over rows that are asked for once."""
    hits, us, rate = predict_tiers.read()[_tier_key(job["labels"])]
    sets = sum(job[k]["sets"] for k in ("check", "warm")) + job["sets"]
    read = sets * job["batch"] * 8 * (len(shape.vocabs) + shape.numerics / 2) / READ
    calls = min(job["calls"], job["sets"] // job["callers"])
    return read + 4e-6 * us + job["warm_seconds"] + 1e-6 * us * calls, {"hit_rate": hits, "p50_us": us, "p95_us": us, "p99_us": us, "rows_per_s": rate}


def bench(jobs):
    made, loaded = [(CONTEXT, [])], None
    for job in jobs:
        labels, key = job["labels"], (job["bundle"], json.dumps(job["options"]))
        if labels.get("group") == "tiers":
            shape = shape_at(job["bundle"])
            tier_rows = sum(shape.vocabs) if "store.host_bytes" in job["options"] else 0
            cost, answer = tiered(job, shape)
            cost += LOAD + bundle_bytes(shape) / READ + TIER_ROW * tier_rows if key != loaded else 0
            loaded = key
            made.append((cost, [{**labels, "status": "ok", "worst": 0.0, **answer}]))
            continue
        shape = Shape(labels["model"], labels["dataset"], labels["dim"], tuple(labels["hidden"]))
        precision = {"bf16": "fp16"}.get(labels["precision"], labels["precision"])
        us = predict.host_us(shape, precision, job["batch"])
        cost = (LOAD + bundle_bytes(shape) / READ if key != loaded else 0) + 0.01 + 8 * us * 1e-6 + 0.1 + timed(us, job["calls"], job["seconds"])
        loaded = key
        made.append((cost, [{**labels, "status": "ok", "p50_us": us, "p95_us": us, "p99_us": us, "rows_per_s": 1.0, "worst": 0.0}]))
    return made


def peers(jobs):
    made, bundle, tuned = [(TORCH, [])], None, set()
    for job in jobs:
        shape = Shape(*job["shape"][:3], tuple(job["shape"][3]))
        cost = bundle_bytes(shape) / READ if job["bundle"] != bundle else 0
        bundle = job["bundle"]
        for form in job["forms"]:
            us = predict.eager_us(shape, job["batch"]) if form.startswith("eager") else 1.6 * predict.host_us(shape, "fp32", job["batch"])
            cost += 0.15 + AUTOTUNE.get(form, 0) + (0.3 if form.startswith("graph") else 0)
            if form == "graph_triton" and (job["batch"], shape.dim) not in tuned:
                tuned.add((job["batch"], shape.dim))
                cost += 2.5
            runs = 3 * job.get("device_runs", 200) if job.get("busy", True) else job["device_runs"]
            cost += 24e-6 * us + timed(us, job["calls"], job["seconds"]) + runs * 1e-6 * min(us, 300)
            made.append((cost, [{**job["labels"], "engine": form, "status": "ok", "worst": 0.0, "p50_us": us, "p95_us": us, "p99_us": us, "device_us": us / 2}]))
            cost = 0
    return made
