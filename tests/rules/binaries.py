"""What is shipped is linked so that nothing else runs in its place: no search path that is empty or relative (an empty entry is
the current directory), every symbol resolved at load and then read-only, no executable stack, no fixed address, and no library but
those that the README names. And it is compiled so that a mistake of ours ends the process instead of serving somebody: guard words on
the stack, checked copies, entry marks (endbr64) for indirect calls. What is linked in brings some of each too, so the commands are looked
at as well. DPI_BINARIES lists the files (ctest does, and tests/install with what is installed), DPI_COMMANDS is the build's
compile_commands.json; what readelf prints of a file may also lie in the tree, as *.readelf.txt, and commands as *.commands.json, which
is how the rule is tested.

Not asked for is the note that would let a CPU enforce the marks: Debian 12's start-up objects, xxHash and libsodium have none, so
the linker drops it."""

import json
import os
import re
import struct
import subprocess

from common import files, read

LIBRARIES = {"libm.so.6", "libc.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
STORES = {"libdpi_rocksdb.so": {"librocksdb.so.7.8", "libxxhash.so.0", "libstdc++.so.6", "libgcc_s.so.1"}, "libdpi_redis.so": {"libhiredis.so.0.14", "libssl.so.3", "libcrypto.so.3"},
          "libdpi_kafka.so": {"librdkafka.so.1"}}
# So small that no copy is left to be checked (judge_commands sees the flag); the first over a library in C++ of the system, whose runtime it shares.
UNCHECKED_COPIES = ("libdpi_rocksdb.so", "libdpi_kafka.so")
WRAPPERS = ("libdpi_jni.so", "_native.")  # of the JAR and the wheel, over the library beside them; generated code without buffers
SHIPPED = ("sdk/src/", "sdk/tools/", "kernels/ref/", "kernels/cpu/", "kernels/cuda/", "capi/")
FLAGS = ("-fstack-protector-strong", "-D_FORTIFY_SOURCE=2", "-fcf-protection=full", "-fPI")  # -fPIC or -fPIE
ENDBR = bytes.fromhex("f30f1efa")


def check(root):
    found = []
    for path in files(root, suffixes=(".readelf.txt",)):
        found += judge(path, read(root, path))
    for path in files(root, suffixes=(".commands.json",)):
        found += judge_commands(root, read(root, path))
    commands = os.environ.get("DPI_COMMANDS")
    if commands:
        with open(commands, encoding="utf-8") as file:
            found += judge_commands(root, file.read())
    for path in os.environ.get("DPI_BINARIES", "").split(";"):
        if not path:
            continue
        if not os.path.exists(path):
            found.append(f"{path} is not built")
            continue
        run = subprocess.run(["readelf", "-hdlW", "--dyn-syms", path], capture_output=True, text=True, check=True)
        found += judge(os.path.basename(path), run.stdout)
        with open(path, "rb") as file:
            found += judge_entries(os.path.basename(path), run.stdout, file.read())
    return found


def judge(name, text):
    found = []
    for entries in re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", text):
        bad = [e for e in entries.split(":") if not e.startswith(("/", "$ORIGIN"))]
        found += [f"{name}: the search path '{entries}' has the entry '{e}', which is not absolute" for e in bad]
    allowed = LIBRARIES | ({"libdpi.so.1"} if name.startswith(WRAPPERS) else set())
    allowed = allowed | STORES.get(name, set())
    found += [f"{name}: needs {library}, which no README names" for library in re.findall(r"\(NEEDED\).*\[(.*)\]", text)
              if library not in allowed]
    if not re.search(r"\(FLAGS(?:_1)?\).*\b(?:NOW|BIND_NOW)\b", text):
        found.append(f"{name}: is not linked with -z now")
    if "GNU_RELRO" not in text:
        found.append(f"{name}: is not linked with -z relro")
    if re.search(r"GNU_STACK\s.*\sRWE\s", text):
        found.append(f"{name}: has an executable stack")
    if "TEXTREL" in text:
        found.append(f"{name}: its code is written to at load")
    if not re.search(r"Type:\s+DYN\b", text):
        found.append(f"{name}: is not position-independent")
    if not name.startswith(WRAPPERS):
        found += [f"{name}: is not compiled with {flag}" for flag, pattern in
                  (("-fstack-protector-strong", r"\b__stack_chk_fail\b"), ("-D_FORTIFY_SOURCE=2", r"\b__[a-z]+_chk\b"))
                  if not re.search(pattern, text) and (flag != "-D_FORTIFY_SOURCE=2" or name not in UNCHECKED_COPIES)]
    return found


def judge_commands(root, text):
    """Every source of what is shipped, however often it is compiled."""
    found, seen = [], 0
    for entry in json.loads(text):
        path = os.path.relpath(os.path.join(root, entry["file"]), root)
        if path.startswith(SHIPPED):
            seen += 1
            found += [f"{path} is compiled without {flag}" for flag in FLAGS if flag not in entry["command"]]
    return found if seen else ["the list of commands has no source of what is shipped"]


def judge_entries(name, text, data):
    """Every exported function begins with the mark; a program, which exports none, has many. Of x86-64 alone."""
    if re.search(r"Machine:\s+AArch64\b", text):
        return []
    at = [int(value, 16) for value, defined in re.findall(r"^\s*\d+:\s+([0-9a-f]{16})\s+\d+\s+FUNC\s+GLOBAL\s+DEFAULT\s+(\d+|UND)\s", text,
                                                           re.MULTILINE) if defined != "UND"]
    bare = [address for address in at if data[place(data, address):][:4] != ENDBR]
    if bare or data.count(ENDBR) < 20:
        return [f"{name}: is not compiled with -fcf-protection ({len(bare)} of {len(at)} functions without the mark)"]
    return []


def place(data, address):
    """Where in the file the loader's address comes from."""
    start, size, count = struct.unpack_from("<Q", data, 32)[0], *struct.unpack_from("<HH", data, 54)
    for i in range(count):
        kind, _, offset, base, _, length = struct.unpack_from("<IIQQQQ", data, start + i * size)
        if kind == 1 and base <= address < base + length:
            return address - base + offset
    return len(data)


_GOOD = """  Type:                              DYN (Shared object file)
  GNU_STACK      0x000000 0x0000000000000000 0x0000000000000000 0x000000 0x000000 RW  0x10
  GNU_RELRO      0x0ad8f0 0x00000000000ae8f0 0x00000000000ae8f0 0x003710 0x003710 R   0x1
 0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]
 0x000000000000001d (RUNPATH)            Library runpath: [/opt/dpi/lib:$ORIGIN/../lib]
 0x000000000000001e (FLAGS)              BIND_NOW
     3: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND __stack_chk_fail@GLIBC_2.4 (3)
     4: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND __memcpy_chk@GLIBC_2.3.4 (2)
"""
_COMMAND = ('[{"file": "kernels/cpu/a.cpp", '
            '"command": "c++ -fPIC -fstack-protector-strong -fcf-protection=full -D_FORTIFY_SOURCE=2 a.cpp"}]')
PLANTED = [
    ("a.readelf.txt", _GOOD.replace("$ORIGIN/../lib", ""), "has the entry ''"),
    ("a.readelf.txt", _GOOD.replace("/opt/dpi/lib", "lib"), "has the entry 'lib'"),
    ("a.readelf.txt", _GOOD.replace("libc.so.6", "libhdf5_serial.so.103"), "needs libhdf5_serial"),
    ("a.readelf.txt", _GOOD.replace("libc.so.6", "libstdc++.so.6"), "needs libstdc++"),
    ("libdpi.so.readelf.txt", _GOOD.replace("libc.so.6", "librocksdb.so.7.8"), "needs librocksdb"),
    ("a.readelf.txt", _GOOD.replace("BIND_NOW", ""), "-z now"),
    ("a.readelf.txt", _GOOD.replace("GNU_RELRO", "LOAD"), "-z relro"),
    ("a.readelf.txt", _GOOD.replace("RW  0x10", "RWE 0x10"), "executable stack"),
    ("a.readelf.txt", _GOOD.replace("BIND_NOW", "TEXTREL BIND_NOW"), "written to at load"),
    ("a.readelf.txt", _GOOD.replace("DYN (Shared object file)", "EXEC (Executable file)"), "not position-independent"),
    ("a.readelf.txt", _GOOD.replace("__stack_chk_fail", "memset"), "-fstack-protector-strong"),
    ("a.readelf.txt", _GOOD.replace("__memcpy_chk", "memcpy"), "-D_FORTIFY_SOURCE=2"),
    ("a.commands.json", _COMMAND.replace("-strong", ""), "kernels/cpu/a.cpp is compiled without -fstack-protector-strong"),
    ("a.commands.json", _COMMAND.replace("=2 ", "=0 "), "kernels/cpu/a.cpp is compiled without -D_FORTIFY_SOURCE=2"),
    ("a.commands.json", _COMMAND.replace("=full", "=none"), "kernels/cpu/a.cpp is compiled without -fcf-protection"),
    ("a.commands.json", _COMMAND.replace("kernels/cpu", "tests"), "no source of what is shipped"),
]
CLEAN = [("a.readelf.txt", _GOOD), ("a.commands.json", _COMMAND)]
