#!/usr/bin/env python3
"""Every precision keeps the AUC of a demo: bank_dcnv2 (cross v2 layers) on the emulated GPU against the reference backend.

  python3 tests/e2e/precision_demo_test.py build/release/bin [device]     exit 77 (skipped) when dpi or a GPU is not there
"""

import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
GATES = {"fp32": 1e-5, "tf32": 1e-4, "fp16": 1e-4, "bf16": 1e-3}
ROWS = 3000


def auc(dpi, rows, device, precision):
    command = [dpi, "predict", ROOT / "weights/demo/bank_dcnv2.h5", rows, "--raw", "--label", "label", "--device", device, "--precision",
               precision, "--batch", "1024", "--summary", "--json"]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        if device != "cuda_emu" and "cannot be used" in done.stderr:  # the test is registered where the emulated GPU was built
            print(f"skipped: {done.stderr.strip()}")
            sys.exit(77)
        sys.exit(f"{device} {precision}: exit {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)["auc"]["value"]


def main():
    dpi = pathlib.Path(sys.argv[1]).resolve() / "dpi"
    device = sys.argv[2] if len(sys.argv) > 2 else "cuda_emu"
    if not dpi.exists():
        print("skipped: dpi is not built")
        sys.exit(77)
    lines = (ROOT / "weights/demo/bank_test.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    with tempfile.TemporaryDirectory() as folder:
        rows = pathlib.Path(folder) / "rows.csv"
        rows.write_text("".join(lines[:ROWS + 1]), encoding="utf-8")
        want = auc(dpi, rows, "ref", "fp32")
        failed = False
        for precision, gate in GATES.items():
            moved = abs(auc(dpi, rows, device, precision) - want)
            within = moved <= gate  # false on NaN
            failed = failed or not within
            print(f"{device} {precision}: AUC {want:.6f} moves by {moved:.1e}, {'within' if within else 'NOT within'} {gate:.0e}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
