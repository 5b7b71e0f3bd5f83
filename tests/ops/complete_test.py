#!/usr/bin/env python3
"""A hole in the op table, or in the cpu backend's, does not compile: each variant of the source lacks one thing, and the compiler
must say so in the words of a static_assert. The source as it is compiles.

    complete_test.py COMPILER"""

import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = "sdk/src/ops/table.cpp"
CPU = "sdk/src/backend/cpu/cpu_op.cpp"
ROW = re.compile(r"    \{\.kind = OpKind::kFm,.*?\},\n(?=    \{\.kind)", re.DOTALL)
OUT_OF_ORDER = "has no row, or its row is out of order"


def without(text):
    return lambda source: source.replace(text, "", 1)


VARIANTS = [
    (TABLE, lambda source: source, ""),
    (TABLE, lambda source: ROW.sub("", source, count=1), OUT_OF_ORDER),
    (TABLE, lambda source: source.replace(".kind = OpKind::kFm,", ".kind = OpKind::kTail,", 1), OUT_OF_ORDER),
    (TABLE, lambda source: source.replace('.name = "Fm",', '.name = "Dense",', 1), "the name of another"),
    (TABLE, without('.name = "Fm",'), "a row has no name"),
    (TABLE, without(".check = check_fm,"), "lacks its check"),
    (TABLE, without(".text = fm_text,"), "lacks its text"),
    (TABLE, without(".attrs = copy<kernels::FmAttrs>,"), "lacks its attributes"),
    (TABLE, without(",\n     .ref = run<ref::fm, fm_args>"), "lacks its definition"),
    (TABLE, without(".work = linear_work,"), "lacks its work"),
    (TABLE, without(".graph_text = linear_graph_text,"), "lacks its text in a graph"),
    (TABLE, without(".infer = infer_linear,"), "no shape rule"),
    (TABLE, lambda source: source.replace('.name = "Fm",\n     .inputs = {"x"},\n     .outputs = {"y"},',
                                          '.name = "Fm",\n     .inputs = {"x"},', 1), "lacks its outputs"),
    (CPU, lambda source: source, ""),
    (CPU, lambda source: re.sub(r"    \{OpKind::kFm, .*\n", "", source, count=1), "has no line"),
    (CPU, lambda source: re.sub(r"\{OpKind::kFm, .*\}", "{OpKind::kFm}", source, count=1), "has no line"),
]


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        for path, change, wanted in VARIANTS:
            source = (ROOT / path).read_text(encoding="utf-8")
            changed = change(source)
            if wanted and changed == source:
                print(f"{path}: the variant for '{wanted}' changes nothing: adapt it to the source")
                failed += 1
                continue
            file = pathlib.Path(scratch, "variant.cpp")
            file.write_text(changed, encoding="utf-8")
            flags = ["-std=c++20", "-fsyntax-only", f"-I{ROOT}", f"-I{ROOT}/sdk/src", f"-I{ROOT}/kernels/include"]
            done = subprocess.run([sys.argv[1], *flags, str(file)], capture_output=True, text=True)
            as_wanted = (done.returncode == 0) if not wanted else done.returncode != 0 and wanted in done.stderr
            print(("ok      " if as_wanted else "FAILED  ") + f"{path}: {wanted or 'as it is'}")
            if not as_wanted:
                print(done.stderr[:2000])
                failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
