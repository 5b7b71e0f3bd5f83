#!/usr/bin/env python3
"""The parity suite: every model x option of cases.py against the library it comes from.

    suite.py [--only TEXT] [--rows N] [--engine LIBRARY|none] [--option KEY=VALUE]... [--golden FOLDER] [--oldest FOLDER]

For each case: random weights and rows (empty bags, padding, ids outside the vocabulary), export, then the bundle is scored by the
package's executor in float64 and by the engine on `ref` and `cpu`. With p32 and p64 the library's outputs in float32 and float64:
|p - p64| <= max(1e-6, 2 |p32 - p64|) and |logit - logit64| <= 1e-5 max(1, |logit64|). With a lossy table_dtype the library runs on
the rounded tables. With --oldest FOLDER the raw values are checked once more with the FuxiCTR that lies there.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "weights" / "python")]

import oracles  # noqa: E402, F401
import numpy as np  # noqa: E402
import torch  # noqa: E402
from cases import deepctr_cases, fuxictr_cases  # noqa: E402
from dpi_export import Bundle, Executor, Rows, from_deepctr_torch, from_fuxictr  # noqa: E402
from dpi_export.importers.deepctr_torch import DeepctrImport  # noqa: E402
from dpi_export.importers.fuxictr import FuxiImport  # noqa: E402
from dpi_export.bundle.tables import decode, encode  # noqa: E402
from engine import Engine, EngineError, find_library  # noqa: E402

MAX_STD = 4.0
#: Cases kept as golden bundles for tests that have no torch.
GOLDEN = {
    "FuxiCTR LR, mixed": "fx_lr", "FuxiCTR FM, mixed": "fx_fm", "FuxiCTR WideDeep, PReLU, batch norm": "fx_widedeep_prelu_bn",
    "FuxiCTR DeepFM, Dice, batch norm": "fx_deepfm_dice_bn", "FuxiCTR DeepFM, padding row in use": "fx_deepfm_pad_row",
    "FuxiCTR DeepFM, GELU": "fx_deepfm_gelu", "FuxiCTR DeepFM, weights float16": "fx_deepfm_half",
    "FuxiCTR DeepFM, table_dtype i8": "fx_deepfm_i8", "FuxiCTR DCN, 2 cross layers": "fx_dcn",
    "FuxiCTR DCN, feature encoders": "fx_dcn_encoders", "FuxiCTR DCNv2, crossnet_only, matrix": "fx_dcnv2_cross",
    "FuxiCTR DCNv2, stacked, mixture r3 x 4, batch norm, Dice": "fx_dcnv2_stacked_mix",
    "FuxiCTR DCNv2, parallel, matrix": "fx_dcnv2_parallel", "FuxiCTR DCNv2, stacked_parallel, mixture r3 x 4": "fx_dcnv2_sp_mix",
    "FuxiCTR DCNv2, parallel, matrix, dims per feature": "fx_dcnv2_dims", "DeepCTR LR (WDL without DNN)": "dt_lr",
    "DeepCTR FM (DeepFM without DNN)": "dt_fm", "DeepCTR WDL, Dice, batch norm": "dt_wdl_dice_bn",
    "DeepCTR DeepFM, prelu": "dt_deepfm_prelu", "DeepCTR DCN vector, 3 cross layers": "dt_dcn_vector",
    "DeepCTR DCN matrix, 3 cross layers": "dt_dcn_matrix", "DeepCTR DCNMix r3 x 4": "dt_dcnmix",
    "DeepCTR WDL, max pooling": "dt_wdl_max", "DeepCTR WDL, regression": "dt_wdl_regression",
}


def limit_spread(imported, rows):
    """Scales all weights down until the logits' standard deviation is at most 4."""
    for _ in range(40):
        std = imported.run(rows)[1].std()
        if std <= MAX_STD:
            return
        with torch.no_grad():
            for p in imported.model.parameters():
                p.mul_(0.9)


def bags_with_zeros(imported, rows, rng):
    """Puts id 0 into the middle of some bags: an ordinary id for FuxiCTR's sum and length-given bags, a hole for masked ones."""
    if isinstance(rows, dict):
        for value in rows.values():
            if getattr(value, "ndim", 1) == 2 and value.dtype.kind == "i" and value.shape[1] > 2:
                value[rng.random(len(value)) < 0.2, 1] = 0
        return
    for name, column in imported.columns_of.items():
        lo, hi = imported.model.feature_index[name]
        if type(column).__name__ == "VarLenSparseFeat" and hi - lo > 2:
            rows[rng.random(len(rows)) < 0.2, lo + 1] = 0


@contextlib.contextmanager
def rounded_tables(model, dtype):
    """The library's embedding tables as the bundle will store them: a lossy type is held to the same tolerance."""
    held = [m.weight for m in model.modules() if isinstance(m, torch.nn.Embedding)] if dtype else []
    before = [w.detach().clone() for w in held]
    with torch.no_grad():
        for w in held:
            stored, scalars = encode(w.detach().numpy(), dtype)
            w.copy_(torch.from_numpy(decode(stored, dtype, scalars, w.shape[1])))
        yield
        for w, old in zip(held, before):
            w.copy_(old)


class Case:
    """One model with its rows and what the library says."""

    def __init__(self, name, make, seed, n):
        kind, self.model, self.map, options = make(seed)
        self.name, self.table_dtype = name, options["table_dtype"]
        importer = {"fuxictr": FuxiImport, "deepctr_torch": DeepctrImport}[kind]
        probe = importer(self.model, self.map, None, None)
        probe.build()
        rng = np.random.default_rng(seed)
        self.rows = probe.random_rows(rng, n)
        bags_with_zeros(probe, self.rows, rng)
        self.saturated = options.get("empty_max", False)
        if self.saturated:
            lo, hi = self.model.feature_index["hist"]
            self.rows[::3, lo:hi] = 0
        limit_spread(probe, self.rows)
        if options["half"] is not None:
            self.model.to(options["half"])
        self.imported = importer(self.model, self.map, None, None)
        self.imported.build()
        with rounded_tables(self.model, self.table_dtype):
            self.p32, self.z32 = self.imported.run(self.rows)
            self.p64, self.z64 = self.imported.run(self.rows, torch.float64)
        self.given = Rows.from_columns(self.imported.b, self.imported.columns(self.rows))
        self.n = n

    def export(self, path, rows=None):
        """Writes the bundle with golden rows."""
        keywords = {"rows": self.rows if rows is None else rows, "table_dtype": self.table_dtype}
        if self.map is not None:
            return from_fuxictr(self.model, self.map, path, **keywords)
        return from_deepctr_torch(self.model, path, **keywords)

    def singles(self, count):
        """The first rows as batches of one: the empty bags, the full ones, the first of random length."""
        columns = self.imported.columns(self.rows)
        return [Rows.from_columns(self.imported.b, {k: v[i:i + 1] for k, v in columns.items()}) for i in range(count)]

    def errors(self, p, z):
        """(worst |p - p64|, worst logit error / max(1, |logit64|), passes)"""
        dp, dz = np.abs(p - self.p64), np.abs(z - self.z64)
        size = np.maximum(1.0, np.abs(self.z64))
        bound_p, bound_z = np.maximum(1e-6, 2 * np.abs(self.p32 - self.p64)), 1e-5 * size
        if (self.p64 == self.z64).all():  # a regression head: the output is the logit
            bound_p = bound_z
        if self.saturated:  # an empty bag's -1e9 leaves the logit's low digits to chance in float32, in every framework
            bound_z = np.full_like(size, np.inf)
        ok = bool((dp <= bound_p).all() and (dz <= bound_z).all())
        return float(dp.max()), float((dz / size).max()), ok


def out_of_range(case):
    """(Rows with ids outside the vocabulary, Rows with what the rules make of them), or None when no feature has the rule."""
    features = [f for f in case.imported.b.features if f.get("out_of_range") == "oov"]
    if not features:
        return None
    wild, tame = case.imported.columns(case.rows), case.imported.columns(case.rows)
    for k, f in enumerate(features):
        for row in range(k % 3, case.n, 3):
            bad = [f["vocab_size"], -1, 2**40, f["vocab_size"] + 17][(row + k) % 4]
            if f["kind"] == "categorical":
                wild[f["name"]][row], tame[f["name"]][row] = bad, f["oov_id"]
            elif wild[f["name"]][row]:
                wild[f["name"]][row] = [bad] + wild[f["name"]][row][1:]
                tame[f["name"]][row] = [f["oov_id"]] + tame[f["name"]][row][1:]
    return Rows.from_columns(case.imported.b, wild), Rows.from_columns(case.imported.b, tame)


class Runner:
    """Runs cases and collects the table."""

    def __init__(self, engine, devices, options, folder):
        self.engine, self.devices, self.folder = engine, devices, Path(folder)
        self.n, self.golden, self.extra = options.rows, options.golden, dict(o.split("=", 1) for o in options.option)
        self.failed = self.passed = self.skipped = 0

    def run(self, name, make):
        """One line of the table."""
        try:
            text, problems = self._run(name, make)
        except Exception as e:  # noqa: BLE001  (a crash of one case is its failure, not the suite's)
            text, problems = "", [f"{type(e).__name__}: {e}"]
        self.failed += bool(problems)
        self.passed += not problems
        print(f"{'FAIL' if problems else 'ok  '} {name:<58} {text}{'  '.join([''] + problems)}", flush=True)

    def note(self, name, problem, text=""):
        """One line of another check."""
        self.failed += bool(problem)
        self.passed += not problem
        print(f"{'FAIL' if problem else 'ok  '} {name:<58} {text}{problem}", flush=True)

    def _run(self, name, make):
        seed = sum(map(ord, name)) % 9973
        case = Case(name, make, seed, self.n)
        path = self.folder / "case.h5"
        case.export(path)
        if self.golden and name in GOLDEN:
            few = {k: v[:9] for k, v in case.rows.items()} if isinstance(case.rows, dict) else case.rows[:9]
            case.export(Path(self.golden) / f"{GOLDEN[name]}.h5", few)
        spread = case.z64.std()
        text, problems = [f"std {spread:4.2f}" if not case.saturated else "std huge"], []
        if not (case.saturated or 0.05 <= spread <= MAX_STD * 1.01):
            problems.append(f"logits spread {spread:.2f}")
        with Bundle(path) as bundle:
            head = bundle.heads[0]["name"]
            executor = Executor(bundle)
            run = executor.run(case.given)
            self._compare(case, "f64", run["value"][head], run["logit"][head], text, problems)
            pair = out_of_range(case)
            if pair:
                a, b = (executor.run(r)["value"][head] for r in pair)
                if not np.array_equal(a, b):
                    problems.append("f64: ids out of range are not the unknown value's")
        for device in self.devices:
            self._engine(case, path, device, pair, text, problems)
        return " ".join(text), problems

    def _compare(self, case, who, p, z, text, problems):
        dp, dz, ok = case.errors(np.reshape(p, (-1, 1)), np.reshape(z, (-1, 1)))
        text.append(f"{who} p {dp:.1e} logit {dz:.1e}")
        if not ok:
            problems.append(f"{who}: beyond the tolerance")

    def _engine(self, case, path, device, pair, text, problems):
        with self.engine.load(path, device=device, verify="golden", **self.extra) as model:
            p, z = model.predict(case.given, case.n)
            self._compare(case, device, p, z, text, problems)
            one = [model.predict(r, 1) for r in case.singles(3)]
            if not all(np.allclose(p1[0], p[i], rtol=0, atol=1e-6 * max(1, abs(p[i, 0]))) for i, (p1, _) in enumerate(one)):
                problems.append(f"{device}: a row alone scores differently")
            if pair:
                a, b = (model.predict(r, case.n)[0] for r in pair)
                if not np.array_equal(a, b):
                    problems.append(f"{device}: ids out of range are not the unknown value's")
                return
            slots = [f for f in case.imported.b.features if f["kind"] == "categorical"]
            if slots:
                columns = case.imported.columns(case.rows)
                columns[slots[0]["name"]][3] = slots[0]["vocab_size"]
                try:
                    model.predict(Rows.from_columns(case.imported.b, columns), case.n)
                    problems.append(f"{device}: an id out of range was scored")
                except EngineError as e:
                    if e.code != 1 or e.row != 3:
                        problems.append(f"{device}: an id out of range gave code {e.code}, row {e.row}, expected 1 and 3")


def oldest_release(folder, engine, devices):
    """(name, problem) of encoding.py under the FuxiCTR in `folder`."""
    command = [sys.executable, str(HERE / "encoding.py"), "--devices", ",".join(devices)]
    done = subprocess.run(command + (["--engine", engine] if engine != "none" else []), capture_output=True, text=True, check=False,
                          env={**os.environ, "PYTHONPATH": str(folder)})
    if done.returncode:
        yield "runs", done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit {done.returncode}"
        return
    yield from json.loads(done.stdout.splitlines()[-1])


def main():
    """Runs the suite; exit status 1 when anything failed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--rows", type=int, default=33)
    parser.add_argument("--engine", default=find_library())
    parser.add_argument("--devices", default="ref,cpu")
    parser.add_argument("--option", action="append", default=[], help="key=value for the engine, as debug.fuse=off")
    parser.add_argument("--golden", help="folder to write the golden bundles to")
    parser.add_argument("--oldest", help="folder with the oldest FuxiCTR")
    options = parser.parse_args()
    if options.engine is None:
        parser.error("there is no build/release/lib/libdpi.so.1; build it, or give --engine LIBRARY or --engine none")
    torch.set_num_threads(1)
    engine = None if options.engine == "none" else Engine(options.engine)
    print(f"engine: {options.engine}; {options.rows} rows per case")
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(engine, options.devices.split(",") if engine else [], options, folder)
        for name, make in {**fuxictr_cases(), **deepctr_cases()}.items():
            if options.only in name:
                runner.run(name, make)
        if not options.only:
            import arguments
            import deepctr_zoo
            import doctored
            import edges
            import encoding
            import fuxictr_models
            import fuxictr_zoo
            import same_plan
            import traced

            library = None if engine is None else options.engine
            groups = [("refused", doctored.run_all()), ("traced", traced.run_all()),
                      ("zoo", deepctr_zoo.checks(engine, runner.devices)), ("same plan", same_plan.run_all(engine)),
                      ("arguments", arguments.run_all()),
                      ("ends of an activation", edges.run_all(engine, runner.devices)),
                      ("raw values", encoding.run_all(engine, runner.devices, library))]
            if options.oldest:
                groups.append(("raw values, oldest FuxiCTR", oldest_release(options.oldest, options.engine, runner.devices)))
            root = os.environ.get("FUXICTR_ROOT")
            if root:
                groups.append(("FuxiCTR's zoo", fuxictr_zoo.checks(root, engine, runner.devices)))
            else:
                runner.skipped = len(fuxictr_models.makers())
                print(f"skipped: {runner.skipped} cases of FuxiCTR's zoo; FUXICTR_ROOT names no checkout")
            for about, checks in groups:
                for name, *result in checks:
                    runner.note(f"{about}: {name}", *result)
    print(f"{time.monotonic() - started:.1f} s")
    print(f"{runner.passed} passed, {runner.failed} failed" + (f", {runner.skipped} skipped" if runner.skipped else ""))
    return 1 if runner.failed else 0


if __name__ == "__main__":
    sys.exit(main())
