#!/usr/bin/env python3
"""Every precision keeps the AUC of a demo: bank_dcnv2 (cross v2 layers) on the emulated GPU, and bf16 and int8 of all demos on cpu,
each by its instruction sets, against the reference backend.

  python3 tests/e2e/precision_demo_test.py build/release/bin [device]     exit 77 (skipped) when dpi or a GPU is not there
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
GATES = {"fp32": 1e-5, "tf32": 1e-4, "fp16": 1e-4, "bf16": 1e-3}
ROWS = 3000 if os.environ.get("FULL") == "1" else 1000  # the emulated GPU is slow
CPU_GATE = 1e-4
DEMOS = {"adult_widedeep": "adult", "bank_dcnv2": "bank", "msweb_deepfm": "msweb"}
SETS = {"bf16": ("auto", "avx512_bf16", "avx512", "avx2", "scalar"), "int8": ("auto", "avx512_vnni", "avx512", "avx2", "scalar")}


def auc(dpi, rows, device, precision, demo="bank_dcnv2", isa="auto"):
    """The AUC of a demo; None where the processor lacks the instruction set."""
    command = [dpi, "predict", ROOT / f"weights/demo/{demo}.h5", rows, "--raw", "--label", "label", "--device", device, "--precision",
               precision, "--batch", "1024", "--summary", "--json", "--option", f"isa={isa}"]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        if "this processor lacks it" in done.stderr:
            return None
        if device != "cuda_emu" and "cannot be used" in done.stderr:  # the test is registered where the emulated GPU was built
            print(f"skipped: {done.stderr.strip()}")
            sys.exit(77)
        sys.exit(f"{device} {precision}: exit {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)["auc"]["value"]


def within(who, got, want, gate):
    moved = abs(got - want)
    good = moved <= gate  # false on NaN
    print(f"{who}: AUC {want:.6f} moves by {moved:.1e}, {'within' if good else 'NOT within'} {gate:.0e}")
    return good


def on_cpu(dpi):
    """Wrong ones of all demos and sets."""
    wrong = 0
    for demo, data in DEMOS.items():
        rows = ROOT / f"weights/demo/{data}_test.csv"
        want = auc(dpi, rows, "ref", "fp32", demo)
        for precision, isa in ((p, isa) for p, sets in SETS.items() for isa in sets):
            got = auc(dpi, rows, "cpu", precision, demo, isa)
            wrong += got is not None and not within(f"cpu {precision} {demo} isa={isa}", got, want, CPU_GATE)
    return wrong


def on_gpu(dpi, device):
    """Wrong ones of all precisions."""
    lines = (ROOT / "weights/demo/bank_test.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    with tempfile.TemporaryDirectory() as folder:
        rows = pathlib.Path(folder) / "rows.csv"
        rows.write_text("".join(lines[:ROWS + 1]), encoding="utf-8")
        want = auc(dpi, rows, "ref", "fp32")
        return sum(not within(f"{device} {p}", auc(dpi, rows, device, p), want, gate) for p, gate in GATES.items())


def main():
    dpi = pathlib.Path(sys.argv[1]).resolve() / "dpi"
    device = sys.argv[2] if len(sys.argv) > 2 else "cuda_emu"
    if not dpi.exists():
        print("skipped: dpi is not built")
        sys.exit(77)
    sys.exit(1 if (on_cpu(dpi) if device == "cpu" else on_gpu(dpi, device)) else 0)


if __name__ == "__main__":
    main()
