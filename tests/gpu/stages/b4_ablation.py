"""Ablation: each choice of the design off by itself, and the small-batch kernel (off by default) on, on the paper's Criteo shapes, host to host. Settles what each is worth and what should go."""

import common
import data
from b1_end_to_end import GRID_BATCH, tuned
from common import DRY, answers, emit
from spec import KINDS, Shape

CHOICES = {"defaults": {}, "lookup fusion off": {"debug.skip": "lookup"}, "element-wise fusion off": {"debug.skip": "elementwise"}, "merged GEMMs off": {"debug.skip": "merge"},
       "tail fusion off": {"debug.skip": "tail"}, "folds off": {"debug.fold": "off"}, "all fusion off": {"debug.fuse": "off"}, "input-first lookup": {"debug.lookup": "input_first"},
       "one stream": {"debug.schedule": "single"}, "depth first": {"debug.schedule": "depth"}, "most ops first": {"debug.order": "ops"}, "least work first": {"debug.order": "light"}, "graphs off": {"debug.graphs": "off"},
       "one stream, graphs off": {"debug.schedule": "single", "debug.graphs": "off"}, "depth first, graphs off": {"debug.schedule": "depth", "debug.graphs": "off"},
       "small-batch kernel on": {"small_batch": "on"}, "small-batch kernel on, reads in place": {"small_batch": "on", "debug.fetch": "in_place"}, "inputs by the copy engine": {"debug.fetch": "copy"}, "one chunk in flight": {"in_flight": "1"}, "tuning off": {"tuning": "off"},
       "two chunks of 1024": {"max_rows": "1024"}}
MOST_ROWS = 256  # that the small-batch kernel takes: beyond, debug.fetch=in_place chooses nothing


def shapes():
    return [Shape("dcnv2", "criteo", 4, (8,) * 3, True)] if DRY else [Shape(kind, "criteo", 16, (256,) * 3) for kind in reversed(KINDS)]  # DCNv2 has two branches


def chooses(name, batch):
    return batch <= MOST_ROWS or CHOICES[name].get("debug.fetch") != "in_place"


def job(shape, precision, batch, name):
    few = {} if DRY else {"calls": 300, "seconds": 0.3}
    return data.bench_job(shape, batch, {"precision": precision, **tuned(), **CHOICES[name]}, {"group": "ablation", "engine": "dpi", "choice": name}, **few)


def stage():
    batches = (4,) if DRY else (GRID_BATCH, 64)
    first, *others = shapes()
    for some, precisions in (([first], ("fp16",)), ([first], ("fp32",)), (others, ("fp16", "fp32"))):
        data.prepare(some, batches)
        for result in answers("gpu_bench", [job(s, p, b, name) for p in precisions for s in some for b in batches for name in CHOICES if chooses(name, b)]):
            emit("latency", result.pop("status"), **result)


if __name__ == "__main__":
    common.main(stage)
