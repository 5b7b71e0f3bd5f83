"""Runs peers/bench.py over jobs and records what comes back. Used by B2 and B3."""

import json
import os
import subprocess
import threading

import common
import data
from common import DRY, TOLERANCE, emit


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
    jobs = [j for j in jobs if j["reference"] != "None"]
    text = "".join(json.dumps(j) + "\n" for j in jobs)
    log = open(common.WORK / f"{common.STAGE}.peers.log", "w+")
    child = subprocess.Popen([os.environ.get("PYTHON", "python3"), str(common.PACK / "tests/gpu/peers/bench.py")], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=log, text=True)

    def feed():
        try:
            child.stdin.write(text)
            child.stdin.close()
        except BrokenPipeError:
            pass

    threading.Thread(target=feed, daemon=True).start()
    killer = threading.Timer(max(1.0, common.left()), child.kill)
    killer.start()
    seen, wanted = 0, sum(len(j["forms"]) for j in jobs)
    for line in child.stdout:
        result = json.loads(line)
        seen += 1
        status = result.pop("status")
        # A peer that cannot run or gives other numbers is reported and not ranked; on a dry run it is a broken script.
        emit("peer", status if status == "ok" or DRY else "skipped", peer_status=status, **result)
    child.wait()
    killer.cancel()
    if seen < wanted:
        log.seek(0)
        late = common.left() < 2
        emit(f"peers: {seen} of {wanted} results", "skipped" if late else "failed", why="out of time" if late else log.read()[-800:])
    log.close()
