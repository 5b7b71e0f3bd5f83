#!/usr/bin/env python3
"""Counts the inner loops of the products in kernels/cpu, in the objects of a build: tile_loops.py BUILD [--objdump PROGRAM] [--all] [--mca].

Of each product of each instruction set it takes the tile of the most rows, which multiplies whole blocks of rows, and the innermost loop of
its machine code with the most multiply-adds. A loop's share is the part of the multiply units' issue slots that multiply and add, in the cycles
that one turn takes at least:

    cycles = max(vector arithmetic / units, loads / load units, instructions / width, additions to one sum x latency)
    share  = multiply-adds / (units x cycles)

All vector arithmetic counts as if it took a slot of a multiply unit. Loads have units of their own. PROCESSORS names, per set, an old processor
that has it; newer ones have as many units or more.

It exits with 1 where a share is below WANTED, or below what LESS says of a product that cannot reach it, and where a loop writes more than one
vector to memory for eight multiply-adds: its sums do not stay in registers. --all prints every tile. --mca adds what llvm-mca says of the same
loop, from tables of its own; it knows nothing of sums that wait in memory."""

import argparse
import pathlib
import re
import subprocess
import sys

WANTED = 0.90
# Per cycle: multiply-adds that start, loads, instructions; cycles until a sum can be added to again; llvm-mca's name of the processor.
PROCESSORS = {
    "avx2": ("Haswell", 2, 2, 4, 5, "haswell"),
    "avx512": ("Skylake-SP", 2, 2, 4, 4, "skylake-avx512"),
    "avx512_bf16": ("Zen 5", 2, 2, 8, 6, None),
    "avx512_vnni": ("Ice Lake-SP", 2, 2, 5, 5, "icelake-server"),
    "amx": ("Sapphire Rapids", 1 / 16, 1 / 8, 6, 52, None),  # a register of 16 rows takes 16 cycles to multiply, 8 to load
    "neon": ("Neoverse N1", 2, 2, 4, 4, "neoverse-n1"),
    "neon_dot": ("Neoverse N1", 2, 2, 4, 3, "neoverse-n1"),
    "neon_mmla": ("Neoverse V1", 4, 3, 8, 5, "neoverse-v1"),
}
FORWARDED = 6  # cycles until what was written to memory can be read again
# Products that have other arithmetic in the loop, and what they reach at least.
LESS = {
    ("avx2", "gemm_bf16"): (0.80, "weights are widened in the loop"),
    ("avx512", "gemm_bf16"): (0.88, "weights are widened in the loop"),
    ("avx2", "gemm_int8"): (0.80, "bytes are widened in the loop"),
    ("neon", "gemm_bf16"): (0.80, "weights are widened in the loop"),
}
# What multiplies and adds. A sum of products that takes several instructions (int8 without one of its own) counts with all of them.
MULTIPLY = re.compile(r"v?fn?m(add|la)|vdpbf16ps|vpdpbusd|tdp|bfmmla|smmla|sdot")
PARTS = {("avx2", "gemm_int8"): r"vpmaddwd|vpaddd", ("avx512", "gemm_int8"): r"vpmaddwd|vpaddd", ("neon", "gemm_int8"): r"smull2?|add|sadalp"}
FORMS = {"Bf16": "gemm_bf16", "Int8": "gemm_int8", "Int8Vectors": "int8_vectors"}
NAME = re.compile(r"run_(?:tile|registers)<.*?(?P<product>\w+)(?:<.*?(?P<form>\w+)>)?, (?P<rows>\d+), (?P<columns>\d+)>\(")


class Instruction:
    def __init__(self, address, text, arm):
        at = re.match(r"(?:j\w+|b|b\.\w+|cbn?z|tbn?z) (?:\S+, )*([0-9a-f]+) <", text)
        self.jump = int(at.group(1), 16) if at else None
        self.address, self.text = address, re.split(r" <| //", text)[0]
        self.name, _, self.operands = self.text.partition(" ")
        memory = "[" if arm else "("
        vector = re.search(r"\b[vq]\d+\b|\b[vq]\d+\." if arm else r"%[xyzt]mm", self.operands)
        self.loads = (self.name.startswith("ld") if arm else memory in self.operands and self.name != "lea" and not self.name.startswith("nop")
                      and not re.search(r"\)$", self.operands))
        self.loaded = 2 if arm and self.name == "ldp" else int(bool(self.loads))
        plain_load = self.loads and (arm or re.match(r"v?mov|vpmovzx|vp?broadcast|vpbroadcast|tileload", self.name))
        store = self.name.startswith("st") if arm else bool(vector) and self.operands.endswith(")")
        self.stores = bool(vector) and store
        renamed = not arm and re.match(r"vmov(dq|[au]p)", self.name)  # between registers: it takes a slot of the front end alone
        self.arithmetic = bool(vector) and not plain_load and not store and not renamed

    def target(self, arm):
        first = self.operands.split(",")[0 if arm else -1]
        return re.sub(r"\..*", "", first.strip()).replace("q", "v") if arm else first.strip()


def functions(objdump, path):
    """Name and instructions of each function."""
    run = subprocess.run([objdump, "-d", "-C", "--no-show-raw-insn", str(path)], capture_output=True, text=True, check=True)
    arm, name, body = "aarch64" in run.stdout[:300], None, []
    for line in run.stdout.splitlines():
        head = re.match(r"[0-9a-f]+ <(.*)>:$", line)
        code = re.match(r"\s+([0-9a-f]+):\s+(\S.*)", line)
        if head:
            if name:
                yield name, body, arm
            name, body = head.group(1), []
        elif code:
            body.append(Instruction(int(code.group(1), 16), re.sub(r"\s+", " ", code.group(2)), arm))
    if name:
        yield name, body, arm


def inner_loops(body):
    jumps = [(i.jump, i.address) for i in body if i.jump is not None and i.jump <= i.address and i.jump >= body[0].address]
    for begin, end in jumps:
        if not any((b, e) != (begin, end) and begin <= b and e <= end for b, e in jumps):
            yield [i for i in body if begin <= i.address <= end]


def longest_chain(code, multiply, arm):
    """Additions to one sum in a turn. A register that is loaded meanwhile holds another sum."""
    added, longest = {}, 0
    for i in code:
        register = i.target(arm)
        if i in multiply and not re.match(r"vpmaddwd|smull|add$", i.name):
            added[register] = added.get(register, 0) + 1
            longest = max(longest, added[register])
        elif not i.stores:
            added[register] = 0
    return longest


class Loop:
    def __init__(self, isa, product, tile, code, arm):
        self.isa, self.product, self.tile, self.code, self.arm = isa, product, tile, code, arm
        parts = re.compile(PARTS[isa, product]) if (isa, product) in PARTS else MULTIPLY
        # A vector's name tells a sum of vectors from one of addresses: `add` is both.
        self.multiply = [i for i in code if parts.match(i.name) and i.arithmetic]
        self.arithmetic = sum(i.arithmetic for i in code)
        self.loads, self.stores = sum(i.loaded for i in code), sum(i.stores for i in code)
        pairs = sum(a.name in ("cmp", "test", "sub", "add") and b.jump is not None for a, b in zip(code, code[1:])) if not arm else 0
        self.instructions = sum(not i.name.startswith("nop") for i in code) - pairs  # a compare and its jump are one
        self.processor, units, load_units, width, latency, self.mca = PROCESSORS["avx512_vnni" if product == "int8_vectors" else isa]
        chain = longest_chain(code, self.multiply, arm)
        if (isa, product) in PARTS:
            latency = 1  # of the sum alone
        if self.stores:
            latency += FORWARDED  # some sum goes through memory
        self.bounds = {"arithmetic": self.arithmetic / units, "loads": self.loads / load_units, "instructions": self.instructions / width,
                       "waiting": chain * latency}
        self.cycles = max(self.bounds.values())
        self.share = len(self.multiply) / units / self.cycles if self.cycles else 0.0

    def told(self):
        bound = max(self.bounds, key=self.bounds.get)
        return (f"{self.isa:12} {self.product:12} {self.tile[0]:>3} x {self.tile[1]:<2} {len(self.multiply):4} of {self.arithmetic:3} vector, "
                f"{self.instructions:3} instructions, {self.loads:2} loads, {self.stores} writes: {100 * self.share:.1f} % of {self.processor}'s slots"
                + ("" if bound == "arithmetic" else f" ({bound})"))


def loops(build, objdump):
    for path in sorted(pathlib.Path(build).glob("kernels/cpu/CMakeFiles/dpi_cpu_*.dir/gemm*.cpp.o")):
        isa = path.parent.name.removeprefix("dpi_cpu_").removesuffix(".dir")
        if isa not in PROCESSORS:
            continue
        for name, body, arm in functions(objdump, path):
            match = NAME.search(name)
            if not match:
                continue
            product = FORMS.get(match["form"] or match["product"], path.name.split(".")[0])
            tile = (int(match["rows"]), int(match["columns"]))
            found = [Loop(isa, product, tile, code, arm) for code in inner_loops(body)]
            if found:
                yield max(found, key=lambda loop: len(loop.multiply))


def mca(loop):
    """llvm-mca's cycles a turn, and the share by them."""
    code = "\n".join("jne 1b" if i.jump is not None else i.text for i in loop.code[:-1])
    if loop.mca is None:
        return "llvm-mca has no table for it"
    triple = "aarch64" if loop.arm else "x86_64"
    command = ["llvm-mca-19", f"-mtriple={triple}", f"-mcpu={loop.mca}", "-iterations=200"]
    run = subprocess.run(command, input=code, capture_output=True, text=True, check=True)
    total = int(re.search(r"Total Cycles:\s+(\d+)", run.stdout)[1]) / 200
    return f"llvm-mca, {loop.mca}: {total:.1f} cycles a turn, {100 * len(loop.multiply) / PROCESSORS[loop.isa][1] / total:.0f} %"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("build")
    parser.add_argument("--objdump", default="objdump")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--mca", action="store_true")
    args = parser.parse_args()
    largest, every = {}, list(loops(args.build, args.objdump))
    for loop in every:
        kept = largest.get((loop.isa, loop.product))
        if kept is None or loop.tile > kept.tile:
            largest[loop.isa, loop.product] = loop
    failed = not largest
    for (isa, product), loop in sorted(largest.items()):
        least, why = LESS.get((isa, product), (WANTED, ""))
        print(loop.told() + (f"; {why}" if why else ""))
        if args.mca:
            print("  " + mca(loop))
        if not loop.share >= least:
            print(f"{isa} {product}: below {100 * least:.0f} %")
            failed = True
        if 8 * loop.stores > len(loop.multiply):
            print(f"{isa} {product}: {loop.stores} vectors are written to memory in each turn")
            failed = True
    for loop in every if args.all else ():
        print("  " + loop.told())
    print(f"{len(largest)} products")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
