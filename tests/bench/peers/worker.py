"""One engine in a process of its own: compare.py starts it, sends a line of JSON, gets a line of JSON back, and stops it meanwhile.

  {"do": "batch", "ids": path of [calls, rows, fields]}  -> {"scores": path}: the model made for that size, its scores of every row
  {"do": "time", "seconds": s}             -> {"wall": [us of each call], "cpu": us of the process's processor time for each call}
"""

import json
import os
import pathlib
import sys
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[2] / "weights" / "python")]
import numpy as np  # noqa: E402


def make(job, weights, batch, options):
    """The engine's `calls`, made anew for each size: several need it, all are given it."""
    name, threads = job["engine"], job["threads"]
    if name.startswith("dpi"):
        from engines_dpi import Engine
        return Engine(job["model"], job["shape"], weights, threads, options, job["folder"])
    if name == "litert":
        from engines_litert import Engine
        return Engine(job["model"], weights, threads, batch)
    if name == "onnxruntime":
        from engines_graph import Onnx
        return Onnx(job["model"], weights, threads, job["folder"])
    if name.startswith("openvino"):
        from engines_graph import OpenVino
        return OpenVino(job["model"], weights, threads, "bf16" if name.endswith("bf16") else "f32", batch, job["folder"])
    from engines_torch import Engine
    return Engine(name, job["model"], weights, threads, batch)


def timed(call, seconds):
    wall, clock = [], time.perf_counter_ns
    cpu, begin = time.process_time_ns(), clock()
    while len(wall) < 4 or clock() - begin < seconds * 1e9:
        start = clock()
        call(len(wall))
        wall.append((clock() - start) / 1e3)
    return {"wall": wall, "cpu": (time.process_time_ns() - cpu) / 1e3 / len(wall)}


def main():
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print is no answer
    job = json.loads(sys.argv[1])
    with np.load(job["weights"]) as found:
        weights = dict(found)
    call = None
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            if asked["do"] == "batch":
                sets = list(np.load(asked["ids"]))
                call = make(job, weights, len(sets[0]), job["options"]).calls(sets)
                scores = np.concatenate([np.array(call(i)).reshape(-1) for i in range(len(sets))])
                path = pathlib.Path(job["folder"]) / "scores.npy"
                np.save(path, scores)
                answer = {"scores": str(path)}
            else:
                answer = timed(call, asked["seconds"])
        except Exception as error:  # told to who compares: one engine less, not the end of the run
            answer = {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}
        print(json.dumps(answer), file=answers)


if __name__ == "__main__":
    main()
