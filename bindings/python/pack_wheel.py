#!/usr/bin/python3
"""Packs a tree as a wheel: pack_wheel.py TREE OUT VERSION README. For build_wheel.sh; the standard library alone.
pack_wheel.py --metadata VERSION README prints what the package says of itself, for a distribution's package.

Entries are sorted and carry the time of SOURCE_DATE_EPOCH (default: 2026-01-01)."""

import base64
import hashlib
import os
import re
import subprocess
import sys
import time
import zipfile
from pathlib import Path

METADATA = """Metadata-Version: 2.1
Name: dpi
Version: {version}
Summary: Scores click-through-rate models inside a process: the DPIFrame SDK for Python
License: Apache-2.0
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Python :: 3
Requires-Python: >=3.9
Requires-Dist: numpy>=1.20
Provides-Extra: pandas
Requires-Dist: pandas; extra == "pandas"
Description-Content-Type: text/markdown

{readme}"""
WHEEL = "Wheel-Version: 1.0\nGenerator: dpi {version}\nRoot-Is-Purelib: false\nTag: {tag}\n"
STABLE = "cp39-abi3"  # Py_LIMITED_API of CMakeLists.txt's dpi_python_stable
MACHINES = {"Advanced Micro Devices X86-64": "x86_64", "AArch64": "aarch64"}


def tag_of(tree):
    """cp39-abi3-manylinux_2_34_x86_64, by the extension's name, its processor and the glibc that the libraries ask for."""
    extension, = (tree / "dpi").glob("_native.*.so")
    python = STABLE if extension.name == "_native.abi3.so" else None
    if python is None:
        one = "cp" + re.match(r"_native\.cpython-(\d+)-\w+-linux-gnu\.so", extension.name).group(1)
        python = f"{one}-{one}"
    head = subprocess.run(["readelf", "-hW", extension], capture_output=True, text=True, check=True).stdout
    machine = MACHINES[re.search(r"Machine: +(.*)", head).group(1)]
    symbols = "".join(subprocess.run(["readelf", "-VW", lib], capture_output=True, text=True, check=True).stdout
                      for lib in (extension, tree / "dpi/libdpi.so.1"))
    minor = max(int(m) for m in re.findall(r"GLIBC_2\.(\d+)", symbols))
    return f"{python}-manylinux_2_{minor}_{machine}"


def metadata(version, readme):
    return METADATA.format(version=version, readme=Path(readme).read_text())


def main(tree, out, version, readme):
    """Writes OUT/dpi-VERSION-TAG.whl and prints its name."""
    tree, tag = Path(tree), tag_of(Path(tree))
    info = f"dpi-{version}.dist-info"
    (tree / info / "METADATA").write_text(metadata(version, readme))
    (tree / info / "WHEEL").write_text(WHEEL.format(version=version, tag=tag))
    files = sorted(p.relative_to(tree).as_posix() for p in tree.rglob("*") if p.is_file())
    record = []
    for name in files:
        data = (tree / name).read_bytes()
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record.append(f"{name},sha256={digest},{len(data)}\n")
    (tree / info / "RECORD").write_text("".join(record) + f"{info}/RECORD,,\n")
    moment = time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", 1767225600)))[:6]
    target = Path(out) / f"dpi-{version}-{tag}.whl"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for name in files + [f"{info}/RECORD"]:
            entry = zipfile.ZipInfo(name, moment)
            entry.external_attr = (0o755 if ".so" in name else 0o644) << 16 | 0o100000 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, (tree / name).read_bytes())
    print(target)


if __name__ == "__main__":
    if sys.argv[1] == "--metadata":
        sys.stdout.write(metadata(*sys.argv[2:]))
    else:
        main(*sys.argv[1:])
