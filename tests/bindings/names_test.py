#!/usr/bin/env python3
"""Compares what SWIG makes of bindings/dpi.i with the headers dpi.h, endpoint.h, batcher.h and metrics.h: every function and constant in Go, Java and Python, every field's offset.

    names_test.py REPOSITORY [SWIG]

Generates the layers into a temporary folder, so it needs SWIG and neither Go nor a JDK nor Python's headers. Exit status 1 on a difference.
"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

EXTRA_JAVA = {"dpi_java_buffer_address", "dpi_java_buffer_over", "dpi_java_allocate", "dpi_java_release", "dpi_java_text_length"}


def of_header(text):
    """Functions, constants and struct fields that the header declares."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    functions = set(re.findall(r"DPI_API[^;]*?\b(dpi_\w+)\s*\(", text))
    constants = set(re.findall(r"\b(DPI_\w+)\s*=", text)) | set(re.findall(r"#define (DPI_VERSION_\w+) ", text))
    fields = set()
    for body, name in re.findall(r"typedef struct \w+ \{(.*?)\} (\w+);", text, flags=re.S):
        fields |= {f"OFFSET_{name}_{f}" for f in re.findall(r"(\w+)(?:\[\d+\])?;", body)} | {f"SIZEOF_{name}"}
    return functions, constants, fields


def generate(swig, root, out, *arguments):
    command = [swig, "-Wall", "-Werror", *arguments, f"-I{root}/capi/include", f"-I{root}/bindings", "-outdir", out, "-o", f"{out}/wrap.c", f"{root}/bindings/dpi.i"]
    subprocess.run(command, check=True)


def compare(what, wanted, found):
    for name in sorted(wanted - found):
        print(f"{what}: {name} is in dpi.h and not generated")
    for name in sorted(found - wanted):
        print(f"{what}: {name} is generated and not in dpi.h")
    print(f"{what}: {len(wanted & found)} of {len(wanted)}")
    return wanted == found


def setter_faults(root):
    """Keys of dpi_env_set and dpi_endpoint_set that the doc of a binding's setter does not list; it stands in the lines before or behind the call's name."""
    files = {"dpi.h": ("bindings/go/env.go", "bindings/java/src/main/java/org/dpiframe/Environment.java", "bindings/python/dpi/env.py"),
             "endpoint.h": ("bindings/go/endpoint.go", "bindings/java/src/main/java/org/dpiframe/Endpoint.java", "bindings/python/dpi/endpoint.py")}
    found, count = [], 0
    for header, of in files.items():
        function = "dpi_env_set" if header == "dpi.h" else "dpi_endpoint_set"
        before = (root / "capi/include/dpi" / header).read_text().split(f"dpi_status {function}(")[0]
        keys = re.findall(r"(?m)^ \*   ([a-z_.]+)  +\S.*  +\S", before[before.rindex("/*"):])
        count += len(keys)
        for file in of:
            doc = re.search(rf"{function}:(.*?)\.(?:\n|\"\"\"| \*/)", (root / file).read_text(), flags=re.S)
            listed = set(re.findall(r"[a-z_]+(?:\.[a-z_]+)?", doc[1])) if doc else set()
            found += [f"{file}: the setter's doc does not list {key}" for key in keys if key not in listed]
    return found if count >= 9 else [f"{count} keys of setters, expected 9 or more"]


def main():
    root, swig = Path(sys.argv[1]).resolve(), (sys.argv[2:] or ["swig"])[0]
    functions, constants, fields = of_header("".join((root / "capi/include/dpi" / name).read_text() for name in ("dpi.h", "endpoint.h", "batcher.h", "metrics.h")))
    if len(functions) < 30 or len(constants) < 30 or len(fields) < 60:
        print("the header was not understood:", len(functions), len(constants), len(fields))
        return 1
    faults = setter_faults(root)
    print("\n".join(faults) or "setters: all keys are listed")
    ok = not faults
    with tempfile.TemporaryDirectory() as out:
        generate(swig, root, out, "-go", "-cgo", "-intgosize", "64", "-DSWIGWORDSIZE64", "-package", "native")
        go = (Path(out) / "native.go").read_text()
        made = {n[0].lower() + n[1:] for n in re.findall(r"^func (Dpi_\w+)\(", go, flags=re.M)}
        named = set(re.findall(r"^(?:var|const) (\w+) int = ", go, flags=re.M))
        ok &= compare("Go functions", functions, made)
        ok &= compare("Go constants", constants, {n for n in named if n.startswith("DPI_")})
        ok &= compare("Go offsets", fields, {n for n in named if not n.startswith("DPI_")} - {"SIZEOF_dpi_error_message"})
        boxed = re.findall(r"^type (\w*[Ss]truct\w*|Dpi_\w+) ", go, flags=re.M)
        ok &= compare("Go types besides", set(), set(boxed))
    with tempfile.TemporaryDirectory() as out:
        generate(swig, root, out, "-java", "-package", "org.dpiframe.internal")
        files = {p.name for p in Path(out).glob("*.java")}
        ok &= compare("Java classes", {"DpiNative.java", "DpiNativeJNI.java", "DpiNativeConstants.java"}, files)
        java = (Path(out) / "DpiNative.java").read_text()
        made = set(re.findall(r"public static [\w.]+ (dpi_\w+)\(", java))
        named = set(re.findall(r"int (\w+) = ", (Path(out) / "DpiNativeConstants.java").read_text()))
        ok &= compare("Java functions", functions, made - EXTRA_JAVA)
        ok &= compare("Java constants", constants, {n for n in named if n.startswith("DPI_")})
        ok &= compare("Java offsets", fields, {n for n in named if not n.startswith("DPI_")} - {"SIZEOF_dpi_error_message"})
        ok &= compare("Java SWIGTYPE", set(), set(re.findall(r"SWIGTYPE\w*", java)))
    with tempfile.TemporaryDirectory() as out:
        generate(swig, root, out, "-python", "-noproxy")
        wrapper = (Path(out) / "wrap.c").read_text()
        table = wrapper[wrapper.index("static PyMethodDef SwigMethods"):]
        made = {n for n in re.findall(r'\{ "(dpi_\w+)", ', table) if not n.startswith("dpi_py_")}
        named = set(re.findall(r'SWIG_Python_SetConstant\(d, "(\w+)"', wrapper))
        ok &= compare("Python functions", functions, made)
        ok &= compare("Python constants", constants, {n for n in named if n.startswith("DPI_")})
        ok &= compare("Python offsets", fields, {n for n in named if not n.startswith("DPI_")} - {"SIZEOF_dpi_error_message"})
        ok &= compare("Python pointer objects", set(), set(re.findall(r"SWIG_NewPointerObj\([^,]*,SWIGTYPE\w*", wrapper)))
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
