"""Writes weights/python/SUPPORT.md, and the summary in weights/python/README.md, from what tests said; or says whether they are stale.

  python3 tests/parity/support_matrix.py [--check] --junit REPORT.xml --parity LOG --recorded LOG
  python3 tests/parity/support_matrix.py [--check] --torch2 LOG

REPORT.xml is pytest's of weights/python/tests (the files of MODEL_TESTS), LOG what tests/parity/run.sh, tests/e2e/recorded/recorded_test.py
with --table, and torch2.sh, printed. A cell is a count of tests that passed, so nothing stands here that no test ran; a test that failed or
was left out makes the script fail. Each form makes its part of SUPPORT.md and leaves the other as it is: the tests with PyTorch 2 are a
stage of their own. What only FULL=1 has ("more of", functions, FuxiCTR's zoo) counts nowhere.
"""

import argparse
import re
import sys
import xml.etree.ElementTree as tree
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SUPPORT, README = ROOT / "weights/python/SUPPORT.md", ROOT / "weights/python/README.md"
MARK = "<!-- {}: made by tests/parity/support_matrix.py -->"
TORCH2_MARK = MARK.format("newer torch")
#: Files of pytest whose parameters are models, their title in SUPPORT.md, what README.md calls them.
MODEL_TESTS = (("test_user_models", "Models as users write them", "models of users"),
               ("test_trace_models", "Models of the tracer's own tests", "the tracer's own"),
               ("test_can", "CAN, a module of this package", "`dpi_export.models`"))
#: Test function of those -> column, where the test's parameters do not name it.
COLUMNS = {"test_exact": "numpy float64", "test_refused_by_name": "refused"}
MODEL_COLUMNS = ("numpy float64", "ref fp32", "cpu fp32", "cuda_emu fp32", "cuda_emu tf32", "cuda_emu bf16", "cuda_emu fp16", "refused")
SUITE_COLUMNS = ("numpy float64", "ref fp32", "cpu fp32", "cuda_emu fp32", "same plan and bits", "refused")
#: What lines of scores say of a device -> column.
SCORED = {"f64 p": "numpy float64", "ref p": "ref fp32", "cpu p": "cpu fp32", "cuda_emu p": "cuda_emu fp32"}


class Failed(Exception):
    """Results that no matrix can be made of."""


def of_pytest(path):
    """{file: {model: Counter of columns}} of a JUnit report."""
    found = defaultdict(lambda: defaultdict(Counter))
    for case in tree.parse(path).getroot().iter("testcase"):
        function, _, parameters = case.get("name").partition("[")
        file = case.get("classname").rsplit(".", 1)[-1]
        if file not in {name for name, _, _ in MODEL_TESTS} or parameters in ("", "NOTSET]"):  # NOTSET: nothing is refused
            continue
        if len(case):
            raise Failed(f"{file}::{case.get('name')} failed or was left out")
        model, _, last = parameters[:-1].rpartition("-")
        if function == "test_the_engine_agrees":
            found[file][model][f"{last} fp32"] += 1
        elif function == "test_short_products_agree":
            found[file][model][f"cuda_emu {last}"] += 1
        elif function in COLUMNS:
            found[file][parameters[:-1]][COLUMNS[function]] += 1
    if not found:
        raise Failed(f"{path} holds no test of the models")
    return found


_LINE = re.compile(r"^(ok  |FAIL) (?:(traced|zoo|same plan): )?(FuxiCTR|DeepCTR) ([\w-]+)(.*)$")


def of_suite(path):
    """{(library, model, how): Counter of columns} of the parity suite's lines."""
    found = defaultdict(Counter)
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        if line.startswith("FAIL"):
            raise Failed(f"{path}: {line}")
        m = _LINE.match(line)
        if m is None or m[2] is None and " f64 p " not in line or line.rstrip().endswith((", traced", ", another plan")):  # changed models
            continue
        library = {"FuxiCTR": "FuxiCTR", "DeepCTR": "DeepCTR-Torch"}[m[3]]
        if m[2] == "same plan":
            found[library, m[4], "traced"]["same plan and bits"] += 1
        elif m[2] == "traced":
            found[library, m[4], "traced"]["numpy float64"] += 1
        elif line.rstrip().endswith(" refused"):
            found[library, m[4], "traced"]["refused"] += 1
        else:
            found[library, m[4], "traced" if m[2] else "by hand"].update(c for text, c in SCORED.items() if f" {text} " in line)
    if not found:
        raise Failed(f"{path} holds no case of the suite")
    return found


def of_recorded(path):
    """{model: Counter of columns} of the recorded bundles' table."""
    found = defaultdict(Counter)
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        if line.startswith("FAIL"):
            raise Failed(f"{path}: {line}")
        m = re.match(r"^ok   (.+?)(?:, .+?)? {2,}(numpy|ref|cpu|cuda_emu)(?:, (\w+))?.*?(refused)?$", line)
        if m and not m[4] and m[3] != "int8":  # which needs a processor that not every machine has
            found[m[1]]["numpy float64" if m[2] == "numpy" else f"{m[2]} {m[3] if m[3] in ('tf32', 'bf16', 'fp16') else 'fp32'}"] += 1
    if not found:
        raise Failed(f"{path} holds no run of a bundle")
    return found


#: What the lines of torch2.sh begin with -> what SUPPORT.md calls it.
TORCH2 = {"make_fx": "from_torch, the model runs", "export": "from_torch, front=\"export\"", "traced": "layers of FuxiCTR and DeepCTR-Torch, traced",
          "zoo": "classes of DeepCTR-Torch, traced", "dynamo's ONNX": "from_onnx, files of torch.onnx with dynamo=True",
          "torchrec": "from_torchrec"}


def of_torch2(path):
    """(versions, {what: Counter}) of torch2.sh's lines."""
    found, versions = defaultdict(Counter), "?"
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        if line.startswith("FAIL"):
            raise Failed(f"{path}: {line}")
        if line.startswith("torch "):
            versions = line.strip()
        m = re.match(r"^ok   ([\w' ]+): .+?(, refused| refused|, a weight per id, refused)? *$", line)
        if m and m[1] in TORCH2:
            found[TORCH2[m[1]]]["refused" if m[2] else "exact"] += 1
    if set(found) != set(TORCH2.values()):
        raise Failed(f"{path} holds no result of {', '.join(sorted(set(TORCH2.values()) - set(found)))}")
    return versions, found


def table(first, columns, rows):
    """Markdown; `rows` are (cells of the first columns, Counter)."""
    used = [c for c in columns if any(cells[c] for _, cells in rows)]
    lines = [" | ".join(("", *first, *used, "")).strip(), "|" + "---|" * (len(first) + len(used))]
    lines += ["| " + " | ".join((*names, *(str(cells[c]) if cells[c] else "-" for c in used))) + " |" for names, cells in rows]
    return "\n".join(lines)


def support(models, suite, recorded, torch2):
    """The text of SUPPORT.md."""
    parts = ["# What is supported, by what tests said",
             "Made by `tests/parity/support_matrix.py` from the tests' own results, not by hand; `tests/run.d/45_parity.sh` and `47_torch2.sh` say "
             "when it is stale. A cell counts tests that passed, `-` means that none ran. Every table but the last is of PyTorch 1.13 (Debian 12); "
             "the last is of PyTorch 2.",
             "## Models of FuxiCTR and DeepCTR-Torch",
             "Cases of `tests/parity/suite.py` (a model with one set of options each): scores beside the library's own. Traced: `traced.py` and, "
             "for all classes of DeepCTR-Torch and their options, `deepctr_zoo.py`; same plan and bits as by hand: `same_plan.py`.",
             table(("library", "model", "imported"), SUITE_COLUMNS, sorted(suite.items())),
             "## FuxiCTR's model zoo",
             "Runs of `tests/e2e/recorded/recorded_test.py`: traced bundles beside what the zoo's own classes computed in float64; in fp32 with the "
             "plan's folds and fuses on and off. `FUXICTR_ROOT=<checkout> tests/parity/run.sh` has more options of each, and SDIM, the only class that "
             "is refused (`nonzero`).",
             table(("model",), MODEL_COLUMNS, [((name,), cells) for name, cells in sorted(recorded.items())])]
    for file, about, _ in MODEL_TESTS:
        parts += [f"## {about}",
                  f"`weights/python/tests/{file}.py`: numpy float64 is `test_exact[model]`, fp32 on a device `test_the_engine_agrees[model-device]`, "
                  "short floats `test_short_products_agree[model-precision]` (cuda_emu: the CUDA kernels emulated on the host), refused "
                  "`test_refused_by_name[model]`.",
                  table(("model",), MODEL_COLUMNS, [((name,), cells) for name, cells in sorted(models[file].items())])]
    return "\n\n".join(parts) + "\n\n" + torch2


def torch2_part(path):
    """The part on PyTorch 2, from its log."""
    versions, found = of_torch2(path)
    rows = [((name,), cells) for name, cells in sorted(found.items())]
    return (f"{TORCH2_MARK}\n## PyTorch 2\n\n`tests/parity/torch2.sh` with {versions}, in every run (`tests/run.d/47_torch2.sh`): models of users, of the "
            "tracer's tests, models that share weights and recurrent layers through both front ends, the libraries' classes, files of "
            "PyTorch 2's own ONNX exporter, and torchrec's models. With `FULL=1`: every option of the classes, every such file, and each function of "
            f"torch that is exported under 1.13.\n\n{table(('what',), ('exact', 'refused'), rows)}\n")


def summary(models, suite, recorded):
    """The table of README.md: models and cases of each library."""
    rows = []
    for library, how in sorted({(key[0], key[2]) for key in suite}):
        held = {key: cells for key, cells in suite.items() if (key[0], key[2]) == (library, how)}
        rows.append(((library, how, str(len(held))), sum(held.values(), Counter())))
    rows.append((("FuxiCTR, recorded zoo", "traced", str(len(recorded))), sum(recorded.values(), Counter())))
    for file, _, about in MODEL_TESTS:
        rows.append((("PyTorch, " + about, "traced", str(len(models[file]))), sum(models[file].values(), Counter())))
    return table(("library", "imported", "models"), (*MODEL_COLUMNS[:7], *SUITE_COLUMNS[4:]), rows)


def main():
    """Writes, or compares. Exit status 1: stale, or results with a failure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    for name in ("junit", "parity", "recorded", "torch2"):
        parser.add_argument(f"--{name}")
    given = parser.parse_args()
    if given.torch2 is None and None in (given.junit, given.parity, given.recorded):
        parser.error("give --torch2, or --junit, --parity and --recorded")
    now = SUPPORT.read_text(encoding="utf-8") if SUPPORT.exists() else ""
    older, _, newer = now.partition(TORCH2_MARK)
    try:
        if given.torch2 is not None:
            made = {SUPPORT: older + torch2_part(given.torch2)}
        else:
            models, suite, recorded = of_pytest(given.junit), of_suite(given.parity), of_recorded(given.recorded)
            begin, end, readme = MARK.format("tested"), MARK.format("end"), README.read_text(encoding="utf-8")
            made = {SUPPORT: support(models, suite, recorded, TORCH2_MARK + newer),
                    README: readme.partition(begin)[0] + f"{begin}\n{summary(models, suite, recorded)}\n{end}" + readme.partition(end)[2]}
    except Failed as e:
        print(f"no matrix: {e}")
        return 1
    stale = [path.name for path, text in made.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if given.check:
        print(f"stale: {', '.join(stale)}; run tests/parity/support_matrix.py" if stale else "SUPPORT.md and README.md are what the tests said")
        return bool(stale)
    for path, text in made.items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
