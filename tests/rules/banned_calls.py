"""Libraries never print, never end the process, and launch kernels in one place only; the program prints in one place."""

import re

from common import CXX, files, grep, read, strip_cxx

LIBRARIES = ("sdk/src/", "kernels/", "capi/")
SIMT = "kernels/cuda/common/simt.hpp"
SIMT_FOLDERS = ("kernels/emu/",)

IN_LIBRARIES = {
    r"(?<![\w:.>])(?:std::)?(?:v?f?printf|puts|fputs|putchar|perror)\s*\(": "a library does not print",
    r"\bstd::(?:cout|cerr|clog)\b": "a library does not print",
    r"(?<![\w:.>])(?:std::)?(?:abort|exit|_exit|quick_exit)\s*\(": "a library does not end the process",
    r"\bstd::terminate\b": "a library does not end the process",
    r"(?<![\w:.>])(?:std::)?s?rand\s*\(": "unseeded, and one lock for the process",
    r"(?<![\w:.>])assert\s*\(": "ends the process; return a Status",
    r"\bomp_set_num_threads\b": "the host's OpenMP settings stay the host's",
}
IN_PROGRAM = {
    r"(?<![\w:.>])(?:std::)?(?:v?f?printf|f?putc?s?|putchar|fwrite|perror)\s*\(": "the program shows text by terminal.hpp",
    r"\bstd::(?:cout|cerr|clog)\b": "the program shows text by terminal.hpp",
}
PROGRAM = "sdk/tools/dpi/"
PROGRAM_OUTPUT = (PROGRAM + "terminal.cpp", PROGRAM + "score_file.cpp")
IN_CUDA = {
    r"<<<": f"kernels are launched in {SIMT} only",
    r"\b__shared__\b": f"shared memory is declared in {SIMT} only",
}


def check(root):
    found = []
    for path in files(root, ("sdk/", "kernels/", "capi/", "samples/", "bindings/"), CXX):
        text = strip_cxx(read(root, path))
        rules = {}
        if path.startswith(LIBRARIES):
            rules.update(IN_LIBRARIES)
            if path != SIMT and not path.startswith(SIMT_FOLDERS):
                rules.update(IN_CUDA)
        if path.startswith(PROGRAM) and path not in PROGRAM_OUTPUT:
            rules.update(IN_PROGRAM)
        if path.endswith((".h", ".hpp", ".cuh")):
            rules[r"\busing\s+namespace\b"] = "a header does not open namespaces for its readers"
        for pattern, reason in rules.items():
            found += [f"{path}:{line}: `{match}`: {reason}" for line, match in grep(text, pattern)]
    return found


PLANTED = [
    ("sdk/src/base/a.cpp", 'void f() { printf("x"); }\n', "does not print"),
    ("sdk/src/base/a.cpp", 'void f() { std::fprintf(stderr, "x"); }\n', "does not print"),
    ("capi/src/a.cpp", "void f() { std::cerr << 1; }\n", "does not print"),
    ("kernels/ref/a.cpp", "void f() { std::abort(); }\n", "end the process"),
    ("kernels/cpu/a.cpp", "void f() { exit (1); }\n", "end the process"),
    ("sdk/src/plan/a.cpp", "int f() { return rand(); }\n", "unseeded"),
    ("kernels/cuda/a.cu", "void f() { k<<<1, 2>>>(); }\n", "launched in"),
    ("kernels/cuda/a.cu", "__shared__ float x[2];\n", "shared memory"),
    ("sdk/tools/dpi/main.cpp", 'int main() { std::printf("x"); }\n', "terminal.hpp"),
    ("sdk/tools/dpi/plan.cpp", 'void f() { std::fputs("x", stdout); }\n', "terminal.hpp"),
    ("sdk/tools/dpi/plan.cpp", "void f() { std::cout << 1; }\n", "terminal.hpp"),
    ("sdk/src/base/a.hpp", "using namespace std;\n", "open namespaces"),
]
CLEAN = [
    ("sdk/src/base/a.cpp", 'void f() { std::snprintf(b, 2, "printf("); x.exit(); operand(); }  // abort()\n'),
    ("sdk/tools/dpi/terminal.cpp", 'void f() { std::printf("x"); }\n'),
    ("sdk/tools/dpi/plan.cpp", 'void f() { print_line(stdout, "x"); output(1); }\n'),
    (SIMT, "__shared__ float x[2];\n"),
]
