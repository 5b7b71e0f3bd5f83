"""Runs peers/bench.py over jobs and records what comes back. Used by B2 and B3."""

import json
import os

import common
import data
from common import DRY, TOLERANCE, emit, short, stream


def job(shape, batch, precision, forms, group, distribution="zipf", **more):
    ids, dense = data.rows(shape, batch, distribution)
    reference = data.reference(shape, batch, distribution, precision=precision)
    labels = {"group": group, "model": shape.kind, "dataset": shape.dataset, "dim": shape.dim, "hidden": list(shape.hidden), "batch": batch,
              "precision": precision, "ids": distribution}
    return {"shape": [shape.kind, shape.dataset, shape.dim, list(shape.hidden), shape.dry], "bundle": str(data.bundle(shape)), "ids": str(ids),
            "dense": str(dense) if dense else "", "sets": data.SETS, "batch": batch, "reference": str(reference), "precision": precision,
            "tolerance": TOLERANCE[precision], "forms": list(forms), "calls": 6 if DRY else 1000, "seconds": 0.02 if DRY else 0.25, "labels": labels, **more}


def run(jobs):
    """Jobs whose reference could not be made are left out: what cannot be compared is not timed."""
    if not common.torch_here():
        emit("peers", "skipped", why="no torch")
        return
    jobs = [j for j in jobs if j["reference"] != "None"]
    end, seen, wanted = {}, 0, sum(len(j["forms"]) for j in jobs)
    command = [os.environ.get("PYTHON", "python3"), str(common.PACK / "tests/gpu/peers/bench.py")]
    for result in stream("peers", command, end, "".join(json.dumps(j) + "\n" for j in jobs), ours=False):
        seen += 1
        status = result.pop("status")
        # A peer that cannot run or gives other numbers is reported and not ranked; on a dry run it is a broken script.
        emit("peer", status if status == "ok" or DRY else "skipped", peer_status=status, **result)
    short("peers: {} of {} results", seen, wanted, end)
