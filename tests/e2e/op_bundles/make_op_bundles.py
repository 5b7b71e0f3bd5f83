"""Writes the op bundles: every primitive over awkward shapes with float64 results computed here, apart from the
exporter's executor and from the engine. Needs torch. Usage: python3 make_op_bundles.py [folder]"""

import pathlib
import sys

import attention_vectors
import bag_vectors
import dense_vectors
import select_vectors
from vector_bundle import ROOT


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "tests" / "e2e" / "op_bundles"
    folder.mkdir(parents=True, exist_ok=True)
    total = 0
    for make in dense_vectors.BUNDLES + bag_vectors.BUNDLES + select_vectors.BUNDLES + attention_vectors.BUNDLES:
        path, cases = make().write(folder)
        total += path.stat().st_size
        print(f"{path.name:20s} {cases:4d} cases {path.stat().st_size:8d} bytes")
    print(f"{total} bytes")


if __name__ == "__main__":
    main()
