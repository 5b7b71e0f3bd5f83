#!/usr/bin/python3
"""Compiles every kernel, those of the pack's programs too, with nvcc, warnings as errors, holds registers and spills to ptxas_budgets.txt, and looks into the PTX of kernels whose
loads, products and stores have to be of one kind (INSTRUCTIONS).

    compile_kernels.py [--arch sm_90] [--work FOLDER] [--only PART]    # PART: of a source's name; several may be given
    compile_kernels.py --reports FOLDER     # of a build of plugin and programs with keep_report.py: compiles nothing

Exit status 77 (skipped) without nvcc."""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FOLDERS = ("kernels/cuda", "tests/gpu/tools")
# What the PTX of a kernel must have, must not have, and at most how often. A load without a state space goes to a generic address: it looks up
# where that lies, and neither constant nor shared memory serves it.
GENERIC = r"ld(\.volatile|\.relaxed\.\w+)?(\.v[248])?\.[bfus]\d+ "
# A block of the lookup's `rows` copies its records from the arguments to shared memory, 16 bytes at a time; from there on no operand comes from
# an address that could be anywhere.
STAGED = ((r"ld\.shared\.v4\.u32", 8, None), (r"ld\.v4\.u32 ", 1, 8))
GENERIC_BUT_STAGED = r"ld(\.volatile|\.relaxed\.\w+)?(\.v[28])?\.[bfus]\d+ "
INSTRUCTIONS = {
    "lookup_rows_kernel": (*STAGED, (GENERIC_BUT_STAGED, 0, 0)),
    "lookup_mixed_kernel": STAGED[:1],  # its copies, and the bags of the next two, read each record once and through a pointer
    "lookup_all_kernel": STAGED[:1],
    "cached_all_kernel": STAGED[:1],
    "lookup_many_kernel": ((GENERIC, 0, 1),),  # 1: the map of copies
    "cached_many_kernel": ((GENERIC, 0, 5),),  # and the scales of rows that are in no cache
    "dense_wmma_kernel": ((r"ldmatrix\.sync\.aligned\.m8n8\.x4\.shared", 1, None), (r"mma\.sync\.aligned\.m16n8k(8|16)\.", 1, None),
                          (r"wmma\.|mma\.sync\.aligned\.m16n8k4", 0, 0), (GENERIC, 0, 0)),
    "dense_split_kernel": ((r"ldmatrix\.sync\.aligned\.m8n8\.x4\.shared", 1, None), (r"mma\.sync\.aligned\.m16n8k8\.", 1, None),
                           (r"wmma\.|mma\.sync\.aligned\.m16n8k4", 0, 0), (GENERIC, 0, 0)),
    # All pieces of all three types: 16 bytes of x, and of the weights beside them.
    "tail_kernel": ((r"ld\.global\.nc\.v4\.", 20, 20), (GENERIC, 0, 0)),
    # Four rows in flight, of floats and of 16 bits; each row of both paths as three vectors.
    "split_rows_kernel": ((r"ld\.global\.v4\.", 4, 4), (r"ld\.global\.v2\.", 4, 4), (r"st\.global\.v4\.", 15, 15), (GENERIC, 0, 0)),
    "convert_rows_kernel": ((r"ld\.global\.v4\.", 4, 4), (r"ld\.global\.v2\.", 4, 4), (r"st\.global\.v4\.", 5, 5), (GENERIC, 0, 0)),
}
FLAGS = ["-std=c++20", "-O3", "--expt-relaxed-constexpr", "-Werror", "all-warnings", "-Xcompiler=-Wall,-Wextra,-Werror,-fPIC",
         "-Xptxas", "-v", f"-I{ROOT}", f"-I{ROOT}/kernels/include", f"-I{ROOT}/sdk/src"]


def find_nvcc():
    return shutil.which("nvcc") or next((p for p in ("/usr/local/cuda/bin/nvcc",) if pathlib.Path(p).exists()), None)


def budgets():
    table = {}
    for line in (HERE / "ptxas_budgets.txt").read_text().splitlines():
        words = line.split("#")[0].split()
        if words:
            table[words[0]] = (int(words[1]), int(words[2]))
    return table


def kernel_name(mangled):
    """The name that ends in _kernel: in a mangled name its length stands in front of it."""
    end = mangled.find("_kernel") + len("_kernel")
    for length in range(8, 64):
        start = end - length
        if mangled[start:end][:1].isalpha() and mangled[:start].endswith(str(length)):
            return mangled[start:end]
    return mangled


def usage(report):
    """(kernel, registers, spilled bytes) of each of our entry functions in ptxas's report."""
    for block in re.split(r"Compiling entry function '", report)[1:]:
        if block.startswith("_ZN3cub"):
            continue  # CUB's own, tuned by its authors
        registers = re.search(r"Used (\d+) registers", block)
        spills = re.search(r"(\d+) bytes spill stores", block)
        if registers:
            yield kernel_name(block.split("'")[0]), int(registers.group(1)), int(spills.group(1)) if spills else 0


def kernels_of(ptx):
    """(kernel, its PTX) of each entry function."""
    for block in re.split(r"\.entry ", ptx)[1:]:
        yield kernel_name(block.split("(")[0].strip()), block.split("\n}")[0]


def check_instructions(ptx):
    """What is wrong with the kernels of INSTRUCTIONS, and which of them were there."""
    wrong, seen = [], set()
    for kernel, text in kernels_of(ptx):
        for pattern, least, most in INSTRUCTIONS.get(kernel, ()):
            seen.add(kernel)
            n = len(re.findall(r"(?<![\w.])" + f"(?:{pattern})", text))
            if n < least or (most is not None and n > most):
                wrong.append(f"{kernel}: {n} of '{pattern}' in its PTX, expected {least if most == least else f'{least} at least'}")
    return wrong, seen


def check(report, table):
    wrong = []
    for kernel, registers, spills in usage(report):
        if kernel not in table:
            wrong.append(f"{kernel}: {registers} registers, {spills} bytes spilled; not in ptxas_budgets.txt")
            continue
        most, most_spilled = table[kernel]
        if registers > most or spills > most_spilled:
            wrong.append(f"{kernel}: {registers} registers of {most}, {spills} bytes spilled of {most_spilled}")
    return wrong


def sources(only=None):
    """(folder, path in it) of every source with kernels; only: parts of names."""
    found = [(folder, str(path.relative_to(ROOT / folder))) for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.cu"))]
    return [(folder, name) for folder, name in found if not only or any(part in name for part in only)]


def compiled(found, arch, work):
    """(name, ptxas's report or None, PTX, messages) of each source, compiled now."""
    for folder, name in found:
        kept_in = work / (f"{folder}/{name}".replace("/", ".") + ".kept")
        kept_in.mkdir()
        run = subprocess.run([find_nvcc(), *FLAGS, "--keep", "--keep-dir", str(kept_in), f"-arch={arch}", "-c", str(ROOT / folder / name),
                              "-o", str(kept_in / "o")], capture_output=True, text=True, check=False)
        report = run.stdout + run.stderr
        ptx = "".join(p.read_text() for p in kept_in.glob("*.ptx"))
        yield name, report if run.returncode == 0 else None, ptx, f"does not compile\n{report}"


def kept(found, build):
    """The same of a build whose launcher was keep_report.py, warnings as errors there."""
    for folder, name in found:
        reports = list((build / folder).rglob(f"{name}.o.ptxas"))
        ptx = reports[0].with_suffix(".ptx") if len(reports) == 1 else None
        yield (name, reports[0].read_text() if len(reports) == 1 else None, ptx.read_text() if ptx and ptx.exists() else "",
               f"{len(reports)} reports below {build / folder}, not 1")


def hold(reports, whole=True):
    """Prints what each kernel uses; the number of faults. whole: all kernels are there."""
    failed, seen, looked_into, table = 0, set(), set(), budgets()
    for name, report, ptx, message in reports:
        if report is None:
            print(f"{name}: {message}")
            failed += 1
            continue
        rows = list(usage(report))
        seen.update(kernel for kernel, _, _ in rows)
        wrong, found = check_instructions(ptx)
        looked_into |= found
        wrong += check(report, table)
        failed += len(wrong)
        print(f"{name}: {len(rows)} kernels, at most {max((r for _, r, _ in rows), default=0)} registers")
        print("".join(f"  {line}\n" for line in wrong), end="")
    for kernel in sorted(set(table) - seen if whole else ()):
        print(f"{kernel}: in ptxas_budgets.txt, but nvcc compiled no such kernel")
        failed += 1
    for kernel in sorted(set(INSTRUCTIONS) & seen - looked_into):
        print(f"{kernel}: there is no PTX of it to look into")
        failed += 1
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", default="sm_90", help="what to compile for (default: sm_90, which the budgets are for)")
    parser.add_argument("--work", type=pathlib.Path, help="where objects go (default: a folder that is removed)")
    parser.add_argument("--only", action="append", help="only sources whose name has this in it")
    parser.add_argument("--reports", type=pathlib.Path, help="a build folder with reports: reads them and compiles nothing")
    args = parser.parse_args()
    found = sources(args.only)
    if args.reports:
        return 1 if hold(kept(found, args.reports)) else 0
    if find_nvcc() is None:
        print("skipped: no nvcc on PATH")
        return 77
    with tempfile.TemporaryDirectory() as own:
        return 1 if hold(compiled(found, args.arch, args.work or pathlib.Path(own)), not args.only) else 0


if __name__ == "__main__":
    sys.exit(main())
