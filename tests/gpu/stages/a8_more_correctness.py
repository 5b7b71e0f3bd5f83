"""A8: with what time is left, A2's large table if there was no time for it, A2 at awkward widths, and its programs once more."""

import analysis
import common
from a2_correctness import HUGE, checks, huge, model_jobs, programs, shapes
from spec import KINDS


def stage():
    results = common.OUT / "results.jsonl"
    if not results.exists() or not any(r.get("model") == HUGE.name for r in analysis.read(results)):
        huge()
    programs(2)
    checks(model_jobs(shapes()[len(KINDS):], False))


if __name__ == "__main__":
    common.main(stage)
