#!/usr/bin/python3
"""Does the emulation stay out of the product? product_check.py EMULATED_PLUGIN BUILD_FOLDER PRODUCT_LIBRARY...

The emulation and the emulated cuBLASLt (sdk/src/backend/cuda_emu, kernels/emu) have symbols in the test-only plugin and none in the
product's libraries, and no installation rule of the build names them."""

import pathlib
import subprocess
import sys

# Symbols of kernels/emu and of lt_emu.cpp.
MARKS = ("dpi::emu::", "product_kernel(dpi::backend::lt::")


def symbols(path):
    return subprocess.run(["nm", "-C", path], capture_output=True, text=True, check=True).stdout


def main(plugin, build, *libraries):
    own = symbols(plugin)
    missing = [mark for mark in MARKS if mark not in own]
    assert not missing, f"{plugin} has no {missing}: this check looks for the wrong names"
    for library in libraries:
        text = symbols(library)
        assert "dpi::backend::" in text, f"{library} is stripped: its symbols say nothing"
        found = [line for line in text.splitlines() if "emu::" in line or any(mark in line for mark in MARKS)]
        assert not found, f"{library} holds parts of the emulation: {found[:5]}"
    rules = list(pathlib.Path(build).rglob("cmake_install.cmake"))
    named = [str(rule) for rule in rules if "cuda_emu" in rule.read_text().replace(f"{build}/sdk/src/backend/cuda_emu", "")]
    assert rules and not named, f"installed by {named}"
    print(f"{len(libraries)} libraries and {len(rules)} installation rules without the emulation")


if __name__ == "__main__":
    main(*sys.argv[1:])
