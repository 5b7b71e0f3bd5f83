#!/usr/bin/python3
"""compile_kernels.py --reports finds what it is there for: planted reports of a build, one fault at a time."""

import contextlib
import io
import pathlib
import sys
import tempfile

sys.dont_write_bytecode = True
import compile_kernels as ck


def report(kernel, registers, spilled):
    return (f"ptxas info    : Compiling entry function '_ZN3dpi{len(kernel)}{kernel}Ev' for 'sm_90'\n"
            f"    0 bytes stack frame, {spilled} bytes spill stores, 0 bytes spill loads\n"
            f"ptxas info    : Used {registers} registers, used 0 barriers\n")


STAGING = "ld.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1];\n" + "ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [%r5];\n" * 10
GOOD = {
    "lookup_rows_kernel": STAGING,
    "lookup_mixed_kernel": STAGING,
    "lookup_all_kernel": STAGING,
    "cached_all_kernel": STAGING,
    "lookup_many_kernel": "ld.global.u32 %r1, [%rd1];",
    "cached_many_kernel": "ld.global.u32 %r1, [%rd1];",
    "dense_wmma_kernel": "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1}, [%r2];\nmma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1};\nld.param.u64 %rd1, [p];",
    "dense_split_kernel": "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1}, [%r2];\nmma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1};\nld.shared.f32 %f1, [%r1];",
    "tail_kernel": "ld.global.nc.v4.f32 {%f1};\n" * 20,
    "split_rows_kernel": "ld.global.v4.u32 {%r1};\nld.global.v2.u32 {%r1};\n" * 4 + "st.global.v4.u32 [%rd1];\n" * 15,
    "convert_rows_kernel": "ld.global.v4.u32 {%r1};\nld.global.v2.u32 {%r1};\n" * 4 + "st.global.v4.u32 [%rd1];\n" * 5,
}


def ptx(bodies):
    return "".join(f".visible .entry _ZN3dpi{len(k)}{k}Ev(\n\t.param .u64 p\n)\n{{\n{body}\n}}\n" for k, body in bodies.items())


def plant(folder, change):
    """Reports of every source, all kernels in the first one; change(texts) plants a fault. texts["ptx"]: of the first one."""
    texts = {f"{folder}/{name}": "" for folder, name in ck.sources()}
    first = next(iter(texts))
    texts[first] = "".join(report(k, *budget) for k, budget in ck.budgets().items())
    texts["ptx"] = ptx(GOOD)
    change(texts, first)
    written = texts.pop("ptx")
    for name, text in texts.items():
        home = next(h for h in ck.FOLDERS if name.startswith(h))
        path = folder / home / "objects" / (name.removeprefix(f"{home}/") + ".o.ptxas")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if name == first and written is not None:
            path.with_suffix(".ptx").write_text(written)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        failed = ck.hold(ck.kept(ck.sources(), folder))
    return failed, said.getvalue()


def replaced(old, new):
    def change(texts, first):
        assert old in texts[first]
        texts[first] = texts[first].replace(old, new, 1)
    return change


def with_ptx(kernel, old, new):
    """The PTX of one kernel changed; old None: all of it is gone."""
    def change(texts, _):
        assert old is None or old in GOOD[kernel]
        texts["ptx"] = None if old is None else ptx({**GOOD, kernel: GOOD[kernel].replace(old, new)})
    return change


def main():
    kernel, (registers, spilled) = next(iter(ck.budgets().items()))
    own = report(kernel, registers, spilled)
    cases = [("as budgeted", lambda texts, first: None, 0, ""),
             ("a register too many", replaced(own, report(kernel, registers + 1, spilled)), 1, f"{registers + 1} registers of {registers}"),
             ("spills", replaced(own, report(kernel, registers, spilled + 4)), 1, "bytes spilled of"),
             ("a kernel without a budget", replaced(own, own + report("planted_kernel", 8, 0)), 1, "planted_kernel: 8 registers"),
             ("a kernel that is gone", replaced(own, ""), 1, "nvcc compiled no such kernel"),
             ("a source without a report", lambda texts, first: texts.pop([t for t in texts if t != "ptx"][-1]), 1, "0 reports below"),
             ("a generic load in a loop over slabs", with_ptx("dense_wmma_kernel", "ld.param.u64", "ld.f32"), 1, "dense_wmma_kernel: 1 of 'ld("),
             ("the product of half the depth", with_ptx("dense_split_kernel", "m16n8k8", "m16n8k4"), 2, "dense_split_kernel: 0 of 'mma"),
             ("tiles through the library's loads", with_ptx("dense_wmma_kernel", "ldmatrix.sync.aligned.m8n8.x4.shared", "wmma.load.a.sync.aligned"), 2, "'wmma"),
             ("a record read where it may lie anywhere", with_ptx("lookup_rows_kernel", STAGING, STAGING + "ld.u32 %r1, [%rd1+36];"), 1, "lookup_rows_kernel: 1 of"),
             ("records that nobody copied to shared memory", with_ptx("lookup_all_kernel", "ld.shared.v4", "ld.v4"), 1, "lookup_all_kernel: 0 of"),
             ("records in device memory through any address", with_ptx("lookup_many_kernel", "ld.global.u32", "ld.u32 %r1, [%rd1];\nld.u32"), 1, "lookup_many_kernel: 2 of"),
             ("a piece of a row by elements", with_ptx("tail_kernel", "nc.v4.f32 {%f1};\nld", "nc.f32 {%f1};\nld"), 1, "tail_kernel: "),
             ("four columns stored one by one", with_ptx("split_rows_kernel", "st.global.v4.u32", "st.global.u32"), 1, "split_rows_kernel: 0 of 'st"),
             ("no PTX at all", with_ptx("dense_wmma_kernel", None, None), len(GOOD), "there is no PTX")]
    wrong = 0
    for name, change, want, text in cases:
        with tempfile.TemporaryDirectory() as scratch:
            failed, said = plant(pathlib.Path(scratch), change)
        if failed != want or text not in said:
            print(f"FAILED: {name}: {failed} faults, expected {want} and '{text}' in:\n{said}")
            wrong += 1
    print(f"{len(cases)} cases, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
