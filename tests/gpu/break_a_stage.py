#!/usr/bin/python3
"""Does the dry run notice what it is for? break_a_stage.py PACK OUT: copies the pack's scripts, breaks one at a time and expects validate.sh to fail."""

import os
import pathlib
import shutil
import subprocess
import sys

# (stage, file, text, replacement): wrong names in two branches, a model that is another one, tables in another order than their ids, an option that there is not.
BREAKS = [("A4", "stages/a4_ceilings.py", 'line.pop("what")', 'lin.pop("what")'),
          ("A5", "stages/a5_tune.py", "common.left() * 0.4", "comon.left() * 0.4"),
          ("A7", "peers/model.py", "h = torch.relu(", "h = torch.tanh("),
          ("C1", "stages/c1_tiers.py", '"tables": shape.vocabs', '"tables": shape.vocabs[::-1]'),
          ("C2", "stages/c2_tiered_model.py", '"store.gpu_bytes"', '"store.gpu_byte"')]


def main(pack, out):
    pack, out = pathlib.Path(pack).resolve(), pathlib.Path(out)
    shutil.rmtree(out, ignore_errors=True)
    missed = 0
    for stage, path, text, replacement in BREAKS:
        copy = out / stage
        copy.mkdir(parents=True)
        for entry in pack.iterdir():
            if entry.name != "tests":
                os.symlink(entry, copy / entry.name)
        shutil.copytree(pack / "tests", copy / "tests", ignore=shutil.ignore_patterns("op_vectors", "results"))
        broken = copy / "tests/gpu" / path
        source = broken.read_text()
        assert text in source, f"{path}: no '{text}' to break"
        broken.write_text(source.replace(text, replacement))
        run = subprocess.run(["bash", str(copy / "tests/gpu/validate.sh"), stage[0], "--dry-run", "--only", stage, "--out", str(copy / "out")],
                             capture_output=True, text=True, check=False)
        if run.returncode == 0:
            missed += 1
            print(f"{path} with '{replacement}': the dry run of {stage} passed\n{run.stdout[-600:]}")
    shutil.rmtree(out, ignore_errors=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
