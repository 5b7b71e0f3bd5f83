#!/usr/bin/env python3
"""The example of README.md and that of dpi.h compile without a warning, in C and C++, as does every DPI_..._INIT.

    snippets_test.py C_COMPILER CXX_COMPILER"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADER = (ROOT / "capi/include/dpi/dpi.h").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{ROOT}/capi/include"]
FUNCTION = "int run(int64_t rows, int64_t slots, int64_t heads, const int64_t *ids, const float *dense, float *scores);\n" \
           "int run(int64_t rows, int64_t slots, int64_t heads, const int64_t *ids, const float *dense, float *scores) {\n"
UNUSED = "(void)rows; (void)slots; (void)heads; (void)ids; (void)dense; (void)scores;\n"


def sources():
    block = re.search(r"```c\n#include <dpi/dpi.h>\n(.*?)```", README, re.DOTALL).group(1)
    yield "README.md", "#include <dpi/dpi.h>\n#include <stdio.h>\n" \
        "static int fail(const char *text) { return fputs(text, stderr); }\n" + FUNCTION + UNUSED + block + "return 0;\n}\n"
    lines = re.search(r"\*\n((?: \*   .*\n)+) \*\n \* Library", HEADER).group(1)
    block = re.sub(r"^ \*   ", "", lines, flags=re.MULTILINE)
    block = re.sub(r" {2,}\([^;]*\)$", "", block, flags=re.MULTILINE)  # remarks beside the code
    yield "dpi.h", "#include <dpi/dpi.h>\n#include <stdio.h>\n" + FUNCTION + UNUSED + block + "return 0;\n}\n"
    for name in re.findall(r"define (DPI_\w+_INIT) ", HEADER):
        kind = name[:-len("_INIT")].lower()
        yield name, f"#include <dpi/dpi.h>\nint size_of(void);\nint size_of(void) {{ {kind} x = {name}; " \
            f"return x.struct_size == sizeof({kind}) ? 0 : 1; }}\n"


def main():
    failed, n = 0, 0
    for name, text in sources():
        for compiler, flags in ((sys.argv[1], ["-std=c99", "-xc"]), (sys.argv[2], ["-std=c++11", "-xc++"]), (sys.argv[2], ["-std=c++20", "-xc++"])):
            n += 1
            run = subprocess.run([compiler, *WARNINGS, *flags, "-"], input=text, capture_output=True, text=True, check=False)
            if run.returncode != 0:
                failed += 1
                print(f"{name} with {' '.join(flags)}:\n{run.stderr}\n{text}")
    print(f"{n - failed} of {n} compile")
    return 1 if failed or n < 15 else 0


if __name__ == "__main__":
    sys.exit(main())
