#!/usr/bin/python3
"""Each .rpm's bill of materials is SPDX 2.3 and names every file that the package installs, with its digest: rpm_materials.py FOLDER ROOT,
where ROOT is what rpm has installed them in."""

import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "install"))
import sbom  # noqa: E402

out, root = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
LINKED = {"dpi-libs": {"xxHash", "libsodium", "nlohmann-json", "libstdc++", "libgcc"}}
LINKED["dpi-tools"] = LINKED["dpi-libs"] | {"CLI11"}
LINKED["dpi-doc"] = {"javadoc"}


def check(package, read):
    text = pathlib.Path(package).with_suffix(".spdx.json").read_text()
    listed = subprocess.run(["rpm", "-qp", "--qf", "[%{FILEMODES:perms} %{FILENAMES}\n]", package], capture_output=True, text=True, check=True).stdout
    names = {line.split(" ", 1)[1].lstrip("/") for line in listed.splitlines() if line.startswith("-")}
    name = package.name.rsplit("-", 2)[0]
    bill = sbom.json.loads(text)
    linked = {p["name"] for p in bill["packages"]} - {"dpi"}
    assert name == "dpi-cuda13" or linked == LINKED.get(name, set()), (name, linked)
    sbom.fields(bill)
    sbom.digests(bill, read, names)
    return len(names)


def main():
    packages = sorted(p for p in out.glob("*.rpm") if not p.name.startswith("dpi-debuginfo"))
    files = sum(check(package, lambda name: (root / name).read_bytes()) for package in packages)
    for package in packages:  # planted: one byte more in every file
        try:
            check(package, lambda name: (root / name).read_bytes() + b"\n")
        except AssertionError:
            continue
        sys.exit(f"{package.name}: a changed file is not noticed")
    print(f"{files} files of {len(packages)} packages are in their bills of materials")


main()
