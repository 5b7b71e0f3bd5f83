#!/usr/bin/env python3
"""The HTTP samples in Go and Java with a batcher and without, end to end: rows a second and latencies of a closed loop.

  tests/bench/bindings/services.py --build build/release [--rounds 3] [--seconds 8] [--connections 16]

Models: the demo msweb_deepfm.h5 and DCNv2 3 x 1024 at the Criteo_x4 shape. Requests: one row, and fifty. The services and the load run on the same
processors. Settings alternate in each round; a line has the medians. Needs the targets dpi_go, dpi_java and dpi_python_package."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "peers"), str(ROOT / "weights/python"), str(ROOT / "tests/bindings/services")]
import bundle  # noqa: E402
import client  # noqa: E402
import shapes  # noqa: E402
import under_load  # noqa: E402


def request_of(path, rows):
    """Rows that the model takes: of the demo a visitor's, else small ids and numbers."""
    if path.stem == "msweb_deepfm":
        return json.dumps({"rows": [{"history": ["1038", "1026"], "area": "1034", "visits": 2}] * rows})
    import dpi

    with dpi.Model(path, device="cpu") as model:
        one = {f.name: [1 % max(f.vocab_size, 1)] if f.kind == "sequence" else 1 for f in model.features}
        return json.dumps({"rows": [one] * rows})


def programs(build):
    """{language: command} of the services, and that of the load."""
    env = dict(os.environ, PKG_CONFIG_PATH=str(build / "pkgconfig"), GOFLAGS="-mod=readonly", GOPROXY="off")
    subprocess.run(["go", "build", "-o", build / "go/scoreservice", "./scoreservice"], cwd=build / "go/samples/go", env=env, check=True)
    load = build / "go/serviceload"
    subprocess.run(["go", "build", "-o", load, "./serviceload"], cwd=build / "go/tests/bench/bindings/go", env=env, check=True)
    jar, classes = next((build / "java").glob("dpi-[0-9].[0-9].[0-9].jar")), build / "java/service-classes"
    path = f"{jar}:/usr/share/java/gson.jar"
    sources = sorted((ROOT / "samples/java/scoreservice").glob("*.java"))
    subprocess.run(["javac", "-d", classes, "-cp", path, *sources], check=True)
    return {"Go": str(build / "go/scoreservice"), "Java": f"java -cp {classes}:{path} scoreservice.ScoringService"}, load


def measured(command, load, model, body, batch, args, log):
    os.environ["DPI_TEST_SERVICE"] = command
    service = client.Service(model, log, "-batch", batch)
    try:
        ask = [load, "-url", f"http://127.0.0.1:{service.port}/score", "-body", body, "-connections", str(args.connections), "-seconds", str(args.seconds)]
        return json.loads(subprocess.run(ask, check=True, stdout=subprocess.PIPE, text=True).stdout)
    finally:
        service.end()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--seconds", type=float, default=8)
    p.add_argument("--connections", type=int, default=16)
    args = p.parse_args()
    build = args.build.resolve()
    sys.path.insert(0, str(build / "python"))
    services, load = programs(build)
    m = under_load.machine()
    print(f"{m['cpu']}, {m['processors']} processors, {m['date']}, {m['load_before']} of them busy before the run; {args.connections} connections, {args.rounds} x {args.seconds:g} s\n")
    print("| model | rows | service | batch | rows/s | p50 us | p99 us |\n|---|---:|---|---|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        wide = pathlib.Path(folder) / "dcnv2.h5"
        bundle.export("dcnv2", "criteo", shapes.make_weights("dcnv2", "criteo", "3x1024"), wide)
        for model in (ROOT / "weights/demo/msweb_deepfm.h5", wide):
            for rows in (1, 50):
                body = pathlib.Path(folder) / "request.json"
                body.write_text(request_of(model, rows), encoding="utf-8")
                found = {(name, batch): [] for name in services for batch in ("off", "on")}
                for _ in range(args.rounds):
                    for name, batch in found:
                        found[name, batch].append(measured(services[name], load, model, body, batch, args, pathlib.Path(folder) / "log"))
                for (name, batch), runs in found.items():
                    median = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
                    print(f"| {model.stem} | {rows} | {name} | {batch} | {rows * median['per_second']:,.0f} | {median['p50_us']:,.0f} | "
                          f"{median['p99_us']:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
