#!/usr/bin/python3
"""What is inside: the bill of materials, the notices and dpi_build_info_json of the installed library agree with each other, with the
files, with the symbols that are linked in, and with what the distribution says it installed."""

import json
import subprocess

import sbom
from installed import BUILD, DOC, LIB, PREFIX, ROOT, WORK, files, run

GCC = {"libstdc++", "libgcc"}
LIBRARY = GCC | {"xxHash", "libsodium", "nlohmann-json"}
PACKAGES = {"xxHash": "libxxhash-dev", "libsodium": "libsodium-dev", "nlohmann-json": "nlohmann-json3-dev", "CLI11": "libcli11-dev",
            "libstdc++": "g++-12", "libgcc": "g++-12"}
# A symbol of the library's local ones that shows that it is inside.
SYMBOLS = {"xxHash": "XXH3_64bits_update", "libsodium": "crypto_sign_verify_detached", "nlohmann-json": "nlohmann",
           "libstdc++": "__cxa_throw", "libgcc": "_Unwind_RaiseException", "CLI11": "CLI"}
APP = '#include <dpi/dpi.h>\n#include <stdio.h>\nint main(void) { return puts(dpi_build_info_json()) < 0; }\n'


def expected():
    inside = {"lib/libdpi.so.1.2.0": LIBRARY, "bin/dpi": LIBRARY | {"CLI11"}}
    if (PREFIX / "lib/dpi/backends-1/libdpi_cuda.so").exists():
        inside["lib/dpi/backends-1/libdpi_cuda.so"] = GCC | {"cudart"}
    if (PREFIX / "lib/dpi/backends-1/libdpi_redis.so").exists():  # libdpi_rocksdb.so has nothing inside
        inside["lib/dpi/backends-1/libdpi_redis.so"] = GCC
    if (PREFIX / "lib/dpi/backends-1/libdpi_kafka.so").exists():
        inside["lib/dpi/backends-1/libdpi_kafka.so"] = GCC
    return inside


def bill():
    names = [str(path.relative_to(PREFIX)) for path in files()]
    names.remove("share/doc/dpi/dpi.spdx.json")
    text = (DOC / "dpi.spdx.json").read_text()
    return sbom.check(text, lambda name: (PREFIX / name).read_bytes(), names, expected())


def versions(bill):
    """As the distribution counts them."""
    for package in bill["packages"]:
        debian = PACKAGES.get(package["name"])
        asked = debian and subprocess.run(["dpkg-query", "-W", "-f", "${Version}", debian], capture_output=True, text=True, check=False)
        if asked and asked.returncode == 0:
            assert asked.stdout.startswith(package["versionInfo"]), (package["name"], package["versionInfo"], asked.stdout)


def symbols():
    for name, what in (("lib/libdpi.so.1.2.0", LIBRARY), ("bin/dpi", LIBRARY | {"CLI11"})):
        text = run(["nm", PREFIX / name])
        for library in what:
            assert SYMBOLS[library] in text, f"{name} has nothing of {library}: this test looks for the wrong name, or the bill is wrong"


def notices(bill):
    table = (DOC / "THIRD_PARTY.md").read_text()
    for package in bill["packages"]:
        if package["name"] == "dpi":
            continue
        assert f"| {package['name']} | {package['versionInfo']} | {package['licenseDeclared']} |" in table, package
        text = (DOC / "licenses" / f"{package['name']}.txt").read_text()
        assert package["name"] == "cudart" or ("opyright" in text and len(text) > 500), package["name"]
    rows = table.count("| `licenses/")
    assert rows == len(bill["packages"]) - 1 == len(list((DOC / "licenses").iterdir())), table


def build_info(bill):
    (WORK / "info.c").write_text(APP)
    run('cc info.c -I"$PREFIX/include" -L"$PREFIX/lib" -ldpi -o info', PREFIX=str(PREFIX))
    info = json.loads(run([WORK / "info"], LD_LIBRARY_PATH=str(LIB)))
    assert info["path"] == str(LIB / "libdpi.so.1.2.0"), info
    assert info["version"] == "1.2.0" and info["backends"] == ["ref", "cpu"], info
    own = {p["name"]: (p["versionInfo"], p["licenseDeclared"]) for p in bill["packages"]}
    got = {one["name"]: (one["version"], one["license"]) for one in info["libraries"]}
    assert got == {name: own[name] for name in LIBRARY} and {one["linked"] for one in info["libraries"]} == {"static"}, info


def same_bytes():
    """The same files give the same bill."""
    table, out = BUILD / "packaging/third_party.cmake", WORK / "again.spdx.json"
    (WORK / "again.txt").write_text("".join(f"{p.relative_to(PREFIX)}\n" for p in files() if p.name != "dpi.spdx.json"))
    run(["cmake", f"-DTABLE={table}", "-DNAME=dpi-prefix", "-DVERSION=1.2.0", f"-DROOT={PREFIX}", f"-DLIST={WORK}/again.txt",
         f"-DOUT={out}", "-P", "packaging/sbom.cmake"], cwd=ROOT)
    assert out.read_bytes() == (DOC / "dpi.spdx.json").read_bytes()


document = bill()
for test, arguments in ((versions, [document]), (symbols, []), (notices, [document]), (build_info, [document]), (same_bytes, [])):
    test(*arguments)
    print("passed:", test.__name__)
