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
    return [Shape("dcnv2", "criteo", 4, (8,) * 3, True)] if DRY else [Shape(kind, "criteo", 16, (256,) * 3) for kind in KINDS]


def stage():
    batches = (4,) if DRY else (64, 2048)
    data.prepare(shapes(), batches)
    jobs = [data.bench_job(s, b, {"precision": p, **tuned(), **options}, {"group": "ablation", "engine": "dpi", "choice": name})
            for p in ("fp32", "fp16") for s in shapes() for name, options in CHOICES.items() for b in batches if b <= MOST_ROWS or options.get("debug.fetch") != "in_place"]
    for result in answers("gpu_bench", jobs):
        emit("latency", result.pop("status"), **result)
    assert batches[-1] == GRID_BATCH or DRY


if __name__ == "__main__":
    common.main(stage)
