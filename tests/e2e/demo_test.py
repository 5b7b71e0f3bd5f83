#!/usr/bin/env python3
"""The demos from raw CSV: the C sample and the program give the same bits, and AUC and log loss are the training framework's to 1e-6.

  python3 tests/e2e/demo_test.py build/release/bin            exit 77 (skipped) when a program is not built
"""

import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEMOS = {"adult_widedeep.h5": "adult_test.csv", "bank_dcnv2.h5": "bank_test.csv", "msweb_deepfm.h5": "msweb_test.csv",
         "msweb_can.h5": "msweb_test.csv"}


def run(command, **environment):
    """Standard output of a command that must succeed."""
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, env=environment or None, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stderr}")
    return done.stdout


def check(bin_dir, bundle, rows, device):
    """One demo on one device. Returns the number of rows compared."""
    model, csv = ROOT / "weights/demo" / bundle, ROOT / "weights/demo" / rows
    sample = run([bin_dir / "score_csv", model, csv], DPI_DEVICE=device).splitlines()
    program = run([bin_dir / "dpi", "predict", model, csv, "--raw", "--label", "label", "--device", device]).splitlines()[1:]
    if sample != program:
        row = next((i for i, pair in enumerate(zip(sample, program)) if pair[0] != pair[1]), min(len(sample), len(program)))
        sys.exit(f"{bundle} on {device}: sample and program differ from row {row} ({len(sample)} and {len(program)} rows)")
    summary = json.loads(run([bin_dir / "dpi", "predict", model, csv, "--raw", "--label", "label", "--device", device, "--summary",
                              "--json"]))
    metrics = json.loads(run([bin_dir / "dpi", "inspect", model, "--json"]))["provenance"]["metrics"]
    for key in ("auc", "logloss"):
        found = summary[key]["value"]
        if not abs(found - metrics[key]) <= 1e-6:
            sys.exit(f"{bundle} on {device}: {key} is {found}, the framework got {metrics[key]}")
    return len(sample)


def main():
    bin_dir = pathlib.Path(sys.argv[1]).resolve()
    if not all((bin_dir / name).exists() for name in ("dpi", "score_csv")):
        print("skipped: dpi or score_csv is not built")
        sys.exit(77)
    for bundle, rows in DEMOS.items():
        for device in ("ref", "cpu"):
            print(f"{bundle} {device}: {check(bin_dir, bundle, rows, device)} rows agree")


if __name__ == "__main__":
    main()
