"""libdpi.so.1 exports exactly what the headers <dpi/*.h> declare, each symbol under a version node, and src/exports.map is what
make_exports.py writes from the headers. The library is given by DPI_LIB (ctest does); without one only the map is checked."""

import os
import re
import subprocess

from common import files, read, strip_cxx

HEADER = "capi/include/dpi/dpi.h"
HEADERS = (HEADER, *(f"capi/include/dpi/{name}.h" for name in ("endpoint", "metrics", "batcher")))
MAP = "capi/src/exports.map"


def declared(header):
    text = "\n".join(re.findall(r"\bDPI_API\b[^;{]*;", strip_cxx(header)))
    return set(re.findall(r"\b(dpi_[a-z0-9_]+)\s*\(", text))


def in_map(text):
    return set(re.findall(r"^\s*(dpi_[a-z0-9_]+);", text, re.MULTILINE))


def in_library(path):
    out = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True).stdout
    return dict(re.findall(r"^\S+ [TDBWVi] (\w+)@@?(\S+)$", out, re.MULTILINE)), unversioned(out)


def unversioned(out):
    return {line.split()[-1] for line in out.splitlines() if line.split()[-2] != "A" and "@" not in line}


def check(root):
    present = list(files(root, (*HEADERS, MAP)))
    functions = set().union(*(declared(read(root, header)) for header in HEADERS if header in present))
    found = compare("src/exports.map", in_map(read(root, MAP)) if MAP in present else set(), functions)
    library = os.environ.get("DPI_LIB")
    if library and not os.path.exists(library):
        found.append(f"{library} is not built")
    elif library:
        symbols, bare = in_library(library)
        found += compare("the library", set(symbols), functions)
        found += [f"{library}: `{name}` is exported without a version node" for name in sorted(bare)]
    return found


def compare(where, names, functions):
    hint = "run capi/src/make_exports.py"
    lost = [f"a header declares `{name}`, {where} lacks it; {hint}" for name in sorted(functions - names)]
    return lost + [f"{where} has `{name}`, no header declares it; {hint}" for name in sorted(names - functions)]


PLANTED = [
    (HEADER, "DPI_API int dpi_a(void);\n", "declares `dpi_a`"),
    (HEADERS[1], "DPI_API int dpi_endpoint_a(void);\n", "declares `dpi_endpoint_a`"),
    (HEADERS[2], "DPI_API int dpi_metrics_a(void);\n", "declares `dpi_metrics_a`"),
    (MAP, "DPI_1.0 {\n global:\n  dpi_b;\n local: *;\n};\n", "has `dpi_b`"),
]
CLEAN = [
    (HEADER, "/* DPI_API int dpi_x(void); */\nDPI_API DPI_NODISCARD int dpi_a(void);\nDPI_API const char *\ndpi_b(void);\n"),
    (MAP, "DPI_1.0 {\n global:\n  dpi_a;\n  dpi_b;\n local: *;\n};\n"),
]
