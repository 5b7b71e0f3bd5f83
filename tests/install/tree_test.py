#!/usr/bin/python3
"""The installed files: which they are, that none knows where it was made, how they are linked, and that the library is the
build's."""

import os
import pathlib
import re
import stat
import sys
import tempfile

from installed import BUILD, DOC, FIRST, LIB, PLUGINS, PREFIX, ROOT, binaries, files, run

EXPECTED = ["bin/dpi", "include/dpi/dpi.h", "include/dpi/endpoint.h", "include/dpi/batcher.h", "lib/libdpi.so", "lib/libdpi.so.1", "lib/pkgconfig/dpi.pc", "lib/cmake/dpi/dpi-config.cmake",
            "lib/cmake/dpi/dpi-config-version.cmake", "lib/cmake/dpi/dpi-targets.cmake", "share/doc/dpi/LICENSE",
            "share/doc/dpi/THIRD_PARTY.md", "share/doc/dpi/dpi.spdx.json", "share/doc/dpi/samples/02_score_batch.c",
            "share/doc/dpi/samples/CMakeLists.txt", "share/doc/dpi/samples/adult_widedeep.h5", "share/dpi/python/dpi_export/cli.py"]


def complete():
    missing = [name for name in EXPECTED if not (PREFIX / name).exists()]
    assert not missing, missing
    manifest = (BUILD / "install_manifest.txt").read_text().split("\n")
    manifest = {os.path.relpath(name, FIRST) for name in manifest if name}
    there = {str(path.relative_to(PREFIX)) for path in PREFIX.rglob("*") if not path.is_dir()}
    assert there == manifest, f"not in the manifest: {there - manifest}; not there: {manifest - there}"


def nothing_absolute():
    """No file names the folder it was installed to, the build or the sources."""
    places = [str(place).encode() for place in (FIRST, BUILD, ROOT)]
    for path in files():
        data = path.read_bytes()
        found = [place.decode() for place in places if place in data]
        assert not found, f"{path.relative_to(PREFIX)} names {found}"
    for path in PREFIX.rglob("*"):
        assert not path.is_symlink() or not os.readlink(path).startswith("/"), path


def rights():
    for path in PREFIX.rglob("*"):
        if not path.is_symlink():
            assert not path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH), f"{path} may be written to by others"


def linked():
    """The rule over binaries, on what is installed."""
    found = binaries()
    assert {LIB / "libdpi.so.1.2.0", PREFIX / "bin/dpi"} <= set(found), found
    rule = [sys.executable, ROOT / "tests/rules/run_rules.py", "binaries", "--root", PREFIX]
    run(rule, DPI_BINARIES=";".join(map(str, found)))
    for path in (LIB / "libdpi.so.1", PREFIX / "bin/dpi"):
        text = run(["readelf", "-d", path])
        needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", text))
        assert needed <= {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}, f"{path} needs {needed}"
        assert "RUNPATH" not in text and "RPATH" not in text, f"{path} has a search path"
    names = run(["nm", "-D", "--defined-only", LIB / "libdpi.so.1"]).splitlines()
    names = [line.split()[-1].split("@")[0] for line in names if " A " not in line]
    assert len(names) > 40 and all(name.startswith("dpi_") for name in names), names
    for path in (LIB / "libdpi.so.1", PREFIX / "bin/dpi"):
        newest = max(tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_(2\.\d+)", run(["objdump", "-T", path])))
        assert newest <= (2, 34), f"{path} needs glibc {newest}"


def repack():
    """The program finds the package beside it, from any folder, runs nothing that lies in that folder, and leaves nothing behind."""
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "dpi_export.py").write_text("raise SystemExit('code of the current folder ran')\n")
        pathlib.Path(folder, "json.py").write_text("raise SystemExit('code of the current folder ran')\n")
        text = run([PREFIX / "bin/dpi", "repack", DOC / "samples/adult_widedeep.h5", f"{folder}/out.h5", "--python", "/usr/bin/python3"],
                   cwd=folder, PYTHONPATH="")
        assert "a bundle with the contents of" in text, text
        run([PREFIX / "bin/dpi", "verify", f"{folder}/out.h5"])
    assert not list(PREFIX.rglob("__pycache__"))


def one_build():
    """The library is the build's, which jar_test.py holds the archive's to."""
    assert (LIB / "libdpi.so.1").read_bytes() == (BUILD / "lib/libdpi.so.1").read_bytes()


def no_test_plugin():
    assert not list(PREFIX.rglob("*emu*")), "a plugin of the tests is installed"
    assert not PLUGINS.exists() or {p.name for p in PLUGINS.iterdir()} <= {"libdpi_cuda.so", "libdpi_rocksdb.so", "libdpi_redis.so", "libdpi_kafka.so"}
    assert "Apache License" in (DOC / "LICENSE").read_text()


for test in (complete, nothing_absolute, rights, linked, repack, one_build, no_test_plugin):
    test()
    print("passed:", test.__name__)
