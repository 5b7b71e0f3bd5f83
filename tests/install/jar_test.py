#!/usr/bin/python3
"""The archives' papers and libraries: jar_test.py BUILD JAR [CUDA_JAR]. The project's licence, a notice and a text for all that is
linked in, a bill of materials that fits the content; and the libraries hold to the rule over what is shipped."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

import sbom

ROOT = pathlib.Path(__file__).resolve().parents[2]
GCC = {"libstdc++", "libgcc"}
NATIVE = f"dpi/native/linux-{os.uname().machine}/"
INSIDE = {"dpi-jar": ("libdpi.so.1", GCC | {"xxHash", "libsodium", "nlohmann-json"}),
          "dpi-cuda13-jar": ("dpi/backends-1/libdpi_cuda.so", GCC | {"cudart"})}


def papers(jar, kind):
    assert jar.read("META-INF/LICENSE") == (ROOT / "LICENSE").read_bytes()
    own = f"META-INF/sbom/{kind}.spdx.json"
    names = [name for name in jar.namelist() if not name.endswith("/") and name not in (own, "META-INF/MANIFEST.MF")]
    library, linked = INSIDE[kind]
    inside = {name: linked for name in names if re.fullmatch(f"dpi/native/linux-[a-z0-9_]+/{library}", name)}
    assert NATIVE + library in inside, names
    bill = sbom.check(jar.read(own).decode(), jar.read, names, inside)
    table = jar.read("META-INF/THIRD_PARTY.md").decode()
    for package in bill["packages"]:
        if package["name"] != "dpi":
            assert f"| {package['name']} | {package['versionInfo']} | {package['licenseDeclared']} |" in table, package
            assert len(jar.read(f"META-INF/licenses/{package['name']}.txt")) > 50, package


def libraries(jar, folder):
    names = [name for name in jar.namelist() if ".so" in name]
    assert names and not re.search("rocksdb|redis|kafka", " ".join(names)), names  # as bindings/java/README.md says
    paths = [jar.extract(name, folder) for name in names]
    rule = [sys.executable, ROOT / "tests/rules/run_rules.py", "binaries", "--root", folder]
    done = subprocess.run(rule, env={**os.environ, "DPI_BINARIES": ";".join(paths)}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def main(build, *jars):
    for path, kind in zip(jars, INSIDE):
        with zipfile.ZipFile(path) as jar, tempfile.TemporaryDirectory() as folder:
            papers(jar, kind)
            libraries(jar, folder)
            if kind == "dpi-jar":
                stripped = f"{folder}/stripped"
                subprocess.run(["strip", "--strip-unneeded", "-o", stripped, f"{build}/lib/libdpi.so.1"], check=True)
                assert jar.read(f"{NATIVE}libdpi.so.1") == pathlib.Path(stripped).read_bytes(), "not the build's library"
        print(f"passed: {os.path.basename(path)}")
    for name in pathlib.Path(jars[0]).parent.glob("*.jar"):
        assert b"Apache License" in zipfile.ZipFile(name).read("META-INF/LICENSE"), name


if __name__ == "__main__":
    main(*sys.argv[1:])
