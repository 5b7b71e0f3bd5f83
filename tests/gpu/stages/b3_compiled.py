"""B3: compiled peers. Settles the ratio over the strongest framework form at equal precision."""

import common
import data
import peers
from b1_end_to_end import sweep_shapes
from common import DRY


def stage():
    shapes = sweep_shapes() if DRY else [s for s in sweep_shapes() if s.dim == 16 and s.kind in ("deepfm", "dcnv2")]
    batches = (4,) if DRY else (64, 2048, 16384)
    data.prepare(shapes, batches)
    few = batches[:2]
    jobs = [peers.job(s, b, p, ("graph_compiled",), "sweep") for some in (few, batches[2:]) for p in ("fp16", "tf32", "fp32") for s in shapes for b in some]
    jobs += [peers.job(s, b, "fp16", ("compiled_merged_overhead",), "sweep") for s in shapes for b in few]
    # Autotuning one of them took a whole limit on the first visit.
    jobs += [peers.job(s, b, p, ("graph_autotuned",), "sweep") for p in ("fp16", "tf32", "fp32") for s in shapes for b in few]
    jobs += [peers.job(s, b, p, ("graph_autotuned",), "sweep") for p in ("fp16", "tf32", "fp32") for s in shapes for b in batches[2:]]
    jobs += [peers.job(s, batches[0], "fp16", ("compiled_merged", "compiled_field"), "sweep") for s in shapes]
    peers.run(jobs)


if __name__ == "__main__":
    common.main(stage)
