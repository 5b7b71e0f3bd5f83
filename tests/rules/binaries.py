"""What is shipped is linked so that nothing else runs in its place: no search path that is empty or relative (an empty entry is
the current directory), every symbol resolved at load and then read-only, no executable stack, and no library but those that
the README names. DPI_BINARIES lists the files (ctest does); what readelf prints of a file may also lie in the tree, as
*.readelf.txt, which is how the rule is tested."""

import os
import re
import subprocess

from common import files, read

LIBRARIES = {"libdpi.so.1", "libxxhash.so.0", "libsodium.so.23", "libstdc++.so.6", "libm.so.6", "libgcc_s.so.1", "libc.so.6",
             "ld-linux-x86-64.so.2"}


def check(root):
    found = []
    for path in files(root, suffixes=(".readelf.txt",)):
        found += judge(path, read(root, path))
    for path in os.environ.get("DPI_BINARIES", "").split(";"):
        if not path:
            continue
        if not os.path.exists(path):
            found.append(f"{path} is not built")
            continue
        run = subprocess.run(["readelf", "-dlW", path], capture_output=True, text=True, check=True)
        found += judge(os.path.basename(path), run.stdout)
    return found


def judge(name, text):
    found = []
    for entries in re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", text):
        bad = [e for e in entries.split(":") if not e.startswith(("/", "$ORIGIN"))]
        found += [f"{name}: the search path '{entries}' has the entry '{e}', which is not absolute" for e in bad]
    found += [f"{name}: needs {library}, which no README names" for library in re.findall(r"\(NEEDED\).*\[(.*)\]", text)
              if library not in LIBRARIES]
    if not re.search(r"\(FLAGS(?:_1)?\).*\b(?:NOW|BIND_NOW)\b", text):
        found.append(f"{name}: is not linked with -z now")
    if "GNU_RELRO" not in text:
        found.append(f"{name}: is not linked with -z relro")
    if re.search(r"GNU_STACK\s.*\sRWE\s", text):
        found.append(f"{name}: has an executable stack")
    return found


_GOOD = """  GNU_STACK      0x000000 0x0000000000000000 0x0000000000000000 0x000000 0x000000 RW  0x10
  GNU_RELRO      0x0ad8f0 0x00000000000ae8f0 0x00000000000ae8f0 0x003710 0x003710 R   0x1
 0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]
 0x000000000000001d (RUNPATH)            Library runpath: [/opt/dpi/lib:$ORIGIN/../lib]
 0x000000000000001e (FLAGS)              BIND_NOW
"""
PLANTED = [
    ("a.readelf.txt", _GOOD.replace("$ORIGIN/../lib", ""), "has the entry ''"),
    ("a.readelf.txt", _GOOD.replace("/opt/dpi/lib", "lib"), "has the entry 'lib'"),
    ("a.readelf.txt", _GOOD.replace("libc.so.6", "libhdf5_serial.so.103"), "needs libhdf5_serial"),
    ("a.readelf.txt", _GOOD.replace("BIND_NOW", ""), "-z now"),
    ("a.readelf.txt", _GOOD.replace("GNU_RELRO", "LOAD"), "-z relro"),
    ("a.readelf.txt", _GOOD.replace("RW  0x10", "RWE 0x10"), "executable stack"),
]
CLEAN = [("a.readelf.txt", _GOOD)]
