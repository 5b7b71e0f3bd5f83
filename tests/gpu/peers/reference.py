"""Logits of the benchmark's models in float64: what every engine's output is compared with. Standard input: a JSON list of jobs
{"shape", "bundle", "ids", "dense", "sets", "batch", "tables", "out"}; writes float32 [sets, batch] to each "out". tables: "fp16" or "bf16" rounds
them first, "" does not."""

import json
import os
import sys

import numpy as np
import torch
from model import DTYPES, Arrays, Peer, load_rows, shape_of


def main():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    jobs, loaded, peer, arrays = json.load(sys.stdin), None, None, None
    for job in sorted(jobs, key=lambda j: (j["bundle"], j["tables"])):
        if (job["bundle"], job["tables"]) != loaded:
            peer, loaded = None, (job["bundle"], job["tables"])
            if arrays is None or arrays.bundle != job["bundle"]:
                arrays = None  # the next model's may need the room
                arrays = Arrays(job["bundle"], device)
            peer = Peer(shape_of(job["shape"]), arrays.as_type(torch.float64, DTYPES.get(job["tables"])), "merged")
        ids, dense = load_rows(job)
        sets = []
        for s in range(job["sets"]):
            numbers = None if dense is None else torch.from_numpy(dense[s]).to(device).double()
            sets.append(peer(torch.from_numpy(ids[s]).to(device), numbers)[1].float().cpu().numpy())
        values = np.stack(sets)
        if not np.isfinite(values).all():
            raise SystemExit(f"{job['bundle']}: the reference is not finite")
        values.tofile(job["out"] + ".part")
        os.replace(job["out"] + ".part", job["out"])


if __name__ == "__main__":
    with torch.inference_mode():
        main()
