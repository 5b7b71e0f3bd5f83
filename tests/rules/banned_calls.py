"""Libraries never print, never end the process, launch kernels in one place and ask for cache lines in two; the program prints
in one place."""

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
PROGRAM_OUTPUT = (PROGRAM + "shared/terminal.cpp", PROGRAM + "csv/score_file.cpp")
IN_CUDA = {
    r"<<<": f"kernels are launched in {SIMT} only",
    r"\b__shared__\b": f"shared memory is declared in {SIMT} only",
}
# GCC takes a function that only prefetches for free of effects and leaves out its calls, where it has not put it in place of
# them before. An empty statement behind the prefetch is an effect.
PREFETCH_LINE = ("kernels/cpu/simd/prefetch.hpp", "sdk/src/base/prefetch.hpp")
PREFETCH = r"\b(?:__builtin_prefetch|_m+_prefetchw?)\s*\("
BARE_PREFETCH = PREFETCH + r"[^;]*;(?!\s*(?:__)?asm(?:__)?\s+volatile\(\"\"\);)"


def check(root):
    found = []
    for path in files(root, ("sdk/", "kernels/", "capi/", "samples/", "bindings/"), CXX):
        text = strip_cxx(read(root, path))
        rules = {}
        if path.startswith(LIBRARIES):
            rules.update(IN_LIBRARIES)
            if path != SIMT and not path.startswith(SIMT_FOLDERS):
                rules.update(IN_CUDA)
            if path in PREFETCH_LINE:
                rules[BARE_PREFETCH] = "without the empty statement behind it GCC may leave it out"
            else:
                rules[PREFETCH] = f"GCC may leave it out; prefetch_line() of {' and '.join(PREFETCH_LINE)} stays"
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
    ("sdk/tools/dpi/commands/plan.cpp", 'void f() { std::fputs("x", stdout); }\n', "terminal.hpp"),
    ("sdk/tools/dpi/commands/plan.cpp", "void f() { std::cout << 1; }\n", "terminal.hpp"),
    ("sdk/src/base/a.hpp", "using namespace std;\n", "open namespaces"),
    ("kernels/cpu/a.cpp", "void f(const char* p) { __builtin_prefetch(p, 0, 3); }\n", "may leave it out"),
    ("kernels/include/dpi/kernels/a.hpp", "inline void f(const char* p) { _mm_prefetch(p, _MM_HINT_T0); }\n", "may leave it out"),
    ("sdk/src/store/a.hpp", "void f() const { __builtin_prefetch(\n&a[0]); }\n", "may leave it out"),
    (PREFETCH_LINE[0], "inline void f(const char* p) { __builtin_prefetch(p); }\n", "without the empty statement"),
]
CLEAN = [
    ("sdk/src/base/a.cpp", 'void f() { std::snprintf(b, 2, "printf("); x.exit(); operand(); }  // abort()\n'),
    ("sdk/tools/dpi/shared/terminal.cpp", 'void f() { std::printf("x"); }\n'),
    ("sdk/tools/dpi/commands/plan.cpp", 'void f() { print_line(stdout, "x"); output(1); }\n'),
    (SIMT, "__shared__ float x[2];\n"),
    (PREFETCH_LINE[0], 'void prefetch_line(const void* at) {\n  __builtin_prefetch(at, 0, 3);\n  __asm__ volatile("");\n}\n'),
    (PREFETCH_LINE[1], 'void prefetch_line(const void* at) {\n  __builtin_prefetch(at);\n  asm volatile("");\n}\n'),
    ("kernels/cpu/a.cpp", "void f() { prefetch_line(at); }  // __builtin_prefetch(\n"),
]
