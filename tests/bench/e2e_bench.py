#!/usr/bin/env python3
"""Times `dpi bench` on the paper's four models at the Criteo_x4 shape (39 categorical fields, D 16), folds on and off.

  python3 tests/bench/e2e_bench.py --program build/release/bin/dpi
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "peers"), str(HERE.parents[1] / "weights" / "python")]
import bundle  # noqa: E402
import shapes  # noqa: E402


def run(program, bundle, batches, seconds, fold):
    command = [program, "bench", bundle, "--batch", ",".join(map(str, batches)), "--device", "cpu", "--json",
               "--seconds", str(seconds), "--option", f"debug.fold={fold}", "--option", f"max_rows={max(batches)}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    return json.loads(done.stdout)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--program", default="build/release/bin/dpi")
    p.add_argument("--hidden", default="3x1024", choices=list(shapes.HIDDEN))
    p.add_argument("--batches", type=int, nargs="+", default=[1, 16, 128, 1024, 8192])
    p.add_argument("--seconds", type=float, default=0.5)
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for kind in shapes.MODELS:
            path = pathlib.Path(folder) / f"{kind}.h5"
            bundle.export(kind, "criteo", shapes.make_weights(kind, "criteo", args.hidden), path)
            for fold in ("on", "off"):
                print(json.dumps({"model": kind, "fold": fold,
                                  "bench": run(args.program, str(path), args.batches, args.seconds, fold)}), flush=True)
            path.unlink()


if __name__ == "__main__":
    main()
