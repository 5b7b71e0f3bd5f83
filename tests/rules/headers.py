"""The public headers compile alone, as C99 and C++, under g++ and clang, and name no third-party header."""

import os
import re
import shutil
import subprocess

from common import files, grep, read, strip_cxx

PUBLIC = "capi/include/"
FLAGS = ["-fsyntax-only", "-pedantic-errors", "-Wall", "-Wextra", "-Werror", "-Wundef"]
C_MODES = [("gcc", "c", "c99"), ("clang-19", "c", "c99"), ("gcc", "c", "c11")]
CXX_MODES = [("g++", "c++", "c++11"), ("g++", "c++", "c++20"), ("clang++-19", "c++", "c++20")]
LEAK = r"#\s*include\s*[<\"](?:hdf5|H5|cuda|cublas|dnnl|oneapi|nlohmann|CLI|xxhash)[^>\"]*"


def check(root):
    found = []
    for path in files(root, (PUBLIC,), (".h", ".hpp")):
        text = strip_cxx(read(root, path), keep_strings=True)
        found += [f"{path}:{line}: `{match}`: users would need it too" for line, match in grep(text, LEAK)]
        modes = CXX_MODES if path.endswith(".hpp") else C_MODES + CXX_MODES
        for compiler, language, standard in modes:
            if path.endswith(".hpp") and standard == "c++11":
                continue
            found += compile_alone(root, path, compiler, language, standard)
    return found


def compile_alone(root, path, compiler, language, standard):
    if not shutil.which(compiler):
        return []
    source = f"#include <{path[len(PUBLIC):]}>\n" * 2
    command = [compiler, "-x", language, f"-std={standard}", *FLAGS, "-I", os.path.join(root, PUBLIC), "-"]
    done = subprocess.run(command, input=source, capture_output=True, text=True)
    if done.returncode == 0:
        return []
    first = next((line for line in done.stderr.splitlines() if re.search(r"error", line)), "failed")
    return [f"{path}: {compiler} -std={standard}: {first}"]


PLANTED = [
    (PUBLIC + "dpi/dpi.h", "#include <hdf5.h>\n", "users would need it too"),
    (PUBLIC + "dpi/dpi.h", "#ifndef A\n#define A\nsize_t f(void);\n#endif\n", "size_t"),
    (PUBLIC + "dpi/dpi.h", "#ifndef A\n#define A\nstruct a { int class; };\n#endif\n", "c++"),
    (PUBLIC + "dpi/dpi.h", "#include <stdint.h>\nstruct a { int x; };\n", "redefinition"),
]
CLEAN = [(PUBLIC + "dpi/dpi.h", "#ifndef A\n#define A\n#include <stdint.h>\nstruct a { int32_t x; };\n#endif\n")]
