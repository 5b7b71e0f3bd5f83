#!/usr/bin/python3
"""What the scripts of a visit promise and a dry run does not show: the order of what they start, that being late is no failure, and what they make of
answers. stages_test.py [BIN]: with the folder of the pack's programs the tuner's list is looked at too. Needs no GPU; parts that need torch are skipped
without it."""

import contextlib
import io
import json
import math
import os
import pathlib
import re
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "stages"), str(HERE / "peers")]
import rehearse  # noqa: E402

BIN = pathlib.Path(sys.argv.pop(1)) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else None


class Stage(unittest.TestCase):
    """A stage of a visit on rehearse.py's fakes; `started` are the programs and jobs in order."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.out = pathlib.Path(self.folder.name)
        self.started = []

    def records(self):
        path = self.out / "results.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def load(self, stage, script, seconds):
        clock = rehearse.Clock(1.0)
        clock.end = clock.now + 1e6
        os.environ.update(DEADLINE=str(clock.now + seconds), OUT=str(self.out), WORK=str(self.out), PACK=str(HERE.parents[1]), DPI_GPU_DRY="0", PYTHON=sys.executable)
        module, common = rehearse.load(stage, script, clock)
        run, stream = common.run, common.stream

        def seen_run(command, seconds=None, **more):
            self.started.append(("run", [str(c) for c in command]))
            return run(command, seconds, **more)

        def seen_stream(name, command, end, text="", ours=True):
            self.started.append((name, [str(c) for c in command]))
            for line in text.splitlines() if name in ("gpu_bench", "gpu_check", "gpu_tiers", "peers") else ():
                self.started.append((name, json.loads(line)))
            return stream(name, command, end, text, ours)
        for place in filter(None, (common, module, sys.modules.get("peers"))):
            for name, was, fake in (("run", run, seen_run), ("stream", stream, seen_stream)):
                if getattr(place, name, None) is was:
                    setattr(place, name, fake)
        return module, common

    def ran(self, stage, script, seconds=1e5):
        module, common = self.load(stage, script, seconds)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
            common.main(module.stage)
        return self.records()

    def jobs(self, name):
        return [job for what, job in self.started if what == name and isinstance(job, dict)]


class Order(Stage):
    def test_the_gpu_is_on_record_before_torch_is_imported(self):
        self.ran("A0", "a0_probe")
        module, common = self.load("A0", "a0_probe", 1e5)
        before = []
        module.common.stream = lambda *_, **__: before.extend(r["what"] for r in self.records()) or iter([{"torch": "none"}])
        with contextlib.redirect_stdout(io.StringIO()):
            module.stage()
        self.assertIn("machine", before)
        self.assertTrue(next(r for r in self.records() if r["what"] == "machine")["gpu"])

    def test_tuning_begins_with_the_grid(self):
        self.ran("A5", "a5_tune")
        programs = [pathlib.Path(c[0]).name + " " + " ".join(c[1:]) for what, c in self.started if what.startswith("dpi_gpu")]
        self.assertRegex(programs[0], "^dpi_gpu_tune .*--first")
        self.assertRegex(programs[1], "^dpi_gpu_lookup")
        self.assertNotIn("--first", programs[2])

    @unittest.skipUnless(BIN, "without the pack's programs")
    def test_the_tuner_has_every_layer_of_the_grid(self):
        import subprocess
        import spec
        tool = BIN / "dpi_gpu_tune_emu"
        text = subprocess.run([tool, "--gemm", "--first", "--list"], capture_output=True, text=True, check=True).stdout
        cells = [json.loads(line) for line in text.splitlines()]
        self.assertEqual({(c["rows"], c["algorithms"]) for c in cells}, {(2048, 8)})
        self.assertEqual({c["precision"] for c in cells}, {"fp32", "tf32", "fp16"})
        listed = {(c["precision"], c["end"], c["in"], c["out"]) for c in cells}
        self.assertEqual(len(cells), len(listed))
        for s in spec.paper_grid():
            layers = list(zip([s.width, *s.hidden], s.hidden))
            wanted = [("plain", a, b) for a, b in layers] + [("fused", s.width, s.width)] * (s.kind == "dcnv2")
            for p in ("fp32", "tf32", "fp16"):
                for end, a, b in wanted:
                    self.assertIn((p, end, a, b), listed)

    def test_b1_begins_with_the_small_cells(self):
        self.ran("B1", "b1_end_to_end")
        first = [job["labels"] for job in self.jobs("gpu_bench")[:8]]
        self.assertEqual({(j["batch"], j["precision"], j["model"]) for j in first},
                         {(64, p, k) for p in ("fp16", "tf32") for k in ("widedeep", "deepfm", "dcn", "dcnv2")})
        cells = [json.dumps((j["bundle"], j["batch"], j["options"], j["labels"])) for j in self.jobs("gpu_bench")]
        self.assertEqual(len(cells), len(set(cells)), "a cell is timed twice")
        groups = [job["labels"]["group"] for job in self.jobs("gpu_bench")]
        self.assertEqual(groups.count("grid"), 48 * 4)
        self.assertLess(groups.index("grid"), 30)

    def test_peers_begin_with_the_strongest(self):
        self.ran("B2", "b2_peers")
        sweep = [j for j in self.jobs("peers") if j["labels"]["group"] == "sweep"][:24]
        self.assertEqual({(j["labels"]["model"], j["batch"], j["precision"]) for j in sweep},
                         {(k, b, p) for k in ("widedeep", "deepfm", "dcn", "dcnv2") for b in (64, 2048) for p in ("fp16", "tf32", "fp32")})
        self.assertTrue(all("graph_triton" in j["forms"] for j in sweep))
        groups = [j["labels"]["group"] for j in self.jobs("peers")]
        self.assertLess(groups.index("sweep"), groups.index("grid"))
        grid = [j["forms"][0] for j in self.jobs("peers") if j["labels"]["group"] == "grid"]
        self.assertEqual(grid[:144], ["eager_field_copies"] * 48 + ["eager_field"] * 48 + ["eager_merged"] * 48)

    def test_compiled_peers_begin_with_the_strongest(self):
        self.ran("B3", "b3_compiled")
        first = self.jobs("peers")[:4]
        self.assertEqual([j["forms"] for j in first], [["graph_compiled"]] * 4)
        self.assertEqual({j["batch"] for j in first}, {64, 2048})
        forms = [j["forms"][0] for j in self.jobs("peers")]
        self.assertGreater(forms.index("graph_autotuned"), max(i for i, f in enumerate(forms) if f == "graph_compiled"))

    def test_managed_memory_beyond_what_is_free_only_where_it_is_allowed(self):
        module, _ = self.load("C1", "c1_tiers", 1e5)
        del os.environ["DPI_GPU_UVM"]
        with contextlib.redirect_stdout(io.StringIO()):
            module.stage()
        ways = {job["way"] for job in self.jobs("gpu_tiers")}
        self.assertEqual(ways, {"resident", "cached", "mapped", "chain", "peers"})
        self.assertEqual([r["status"] for r in self.records() if r.get("way") == "uvm"], ["skipped"])

    def test_tiers_begin_with_what_the_goal_is_about(self):
        self.ran("C1", "c1_tiers")
        jobs = self.jobs("gpu_tiers")
        self.assertEqual([(j["way"], j["labels"]["zipf"], j["batch"]) for j in jobs[:6]],
                         [(way, "1.05", 2048) for way in ("resident", "cached", "mapped", "chain", "uvm", "peers")])
        for job in jobs:
            nbytes = sum(job["tables"]) * job["dim"] * 4
            self.assertEqual(job["budget"], nbytes // max(job["labels"]["part"], 1))
            self.assertEqual(job["sets"], job["warm"] + job["calls"])  # no timed set is asked for before or twice
        self.assertEqual(len(jobs), len({json.dumps(j["labels"], sort_keys=True) for j in jobs}), "a cell is timed twice")

    def test_a_tiered_model_is_timed_on_rows_that_nobody_asked_for(self):
        self.ran("C2", "c2_tiered_model")
        jobs, loads = self.jobs("gpu_bench"), []
        self.assertEqual([(j["labels"]["way"], j["labels"]["callers"]) for j in jobs[:2]], [("resident", 16), ("resident", 1)])
        for job in jobs:
            self.assertTrue(job["once"])
            self.assertEqual(len({job["ids"], job["warm"]["ids"], job["check"]["ids"]}), 3)
            loads.append(json.dumps(job["options"], sort_keys=True))
        import tiers
        goal = sum(j["labels"]["zipf"] == tiers.GOAL[0] for j in jobs)
        for part in (loads[:goal], loads[goal:]):
            changes = sum(a != b for a, b in zip(part, part[1:]))
            self.assertEqual(changes + 1, len(set(part)), "a model is loaded twice")
        self.assertEqual({j["labels"]["zipf"] for j in jobs[:goal]}, {tiers.GOAL[0]})
        cached = next(j for j in jobs if (j["labels"]["way"], j["labels"]["part"]) == ("cached", 4))
        self.assertEqual(4 * int(cached["options"]["store.gpu_bytes"]), tiers.table_bytes())
        self.assertGreater(int(cached["options"]["store.host_bytes"]), tiers.table_bytes())
        for dry in (False, True):  # vectors are tiered, linear weights are not
            for vocab in tiers.shape(dry).vocabs:
                self.assertLessEqual(4 * vocab, tiers.resident_bytes(dry))
                self.assertGreater(64 * vocab, tiers.resident_bytes(dry))
        by_load = {}
        for job in jobs:
            by_load.setdefault((json.dumps(job["options"], sort_keys=True), job["labels"]["zipf"]), []).append(job["ids"])
        self.assertTrue(all(len(set(ids)) == len(ids) for ids in by_load.values()), "a model is asked for the same rows by two jobs")

    def test_profiles_are_of_kernels_by_name(self):
        self.ran("B5", "b5_profile")
        commands = [c for what, c in self.started if what == "run" and pathlib.Path(c[0]).name == "ncu"]
        self.assertEqual(len(commands), 2)
        for command in commands:
            self.assertNotIn("--launch-skip", command)
            self.assertIn("--kernel-name", command)
        sources = "".join(p.read_text() for folder in ("kernels/cuda",) for p in (HERE.parents[1] / folder).rglob("*") if p.suffix in (".cu", ".hpp"))
        named = set(re.findall(r"__global__[^;{]*?\b(\w+_kernel)\(", sources))
        import b5_profile
        self.assertLessEqual(set(b5_profile.OWN_KERNELS), named)


class Visit(unittest.TestCase):
    def test_its_calls_fit_their_seconds_and_the_visit(self):
        calls = rehearse.visit()
        self.assertEqual(len(calls), 2)
        for _, seconds, stages in calls:
            self.assertLessEqual(sum(limit for *_, limit in stages), seconds)
        self.assertLessEqual(rehearse.START + rehearse.TRANSFERS + sum(seconds for _, seconds, _ in calls), rehearse.VISIT)

    def test_validate_takes_what_it_passes_on(self):
        import subprocess
        for number in ("1", "2"):
            done = subprocess.run(["bash", HERE / "visit.sh", number, "--list"], capture_output=True, text=True, check=True)
            self.assertIn("a2_correctness", done.stdout)
        for wrong in ([], ["3"], ["1", "--fly"]):
            self.assertEqual(subprocess.run(["bash", HERE / "visit.sh", *wrong], capture_output=True, check=False).returncode, 2)


class Late(Stage):
    def test_being_late_is_no_failure(self):
        for call, stages in rehearse.plan()[0].items():
            for stage, script, _ in stages:
                for seconds in (0.5, 5, 20, 60):
                    with self.subTest(stage=stage, seconds=seconds):
                        records = self.ran(stage, script, seconds)
                        for path in self.out.iterdir():
                            path.unlink()
                        self.assertEqual([r for r in records if r.get("counts") == "failure"], [])

    def test_gates_are_left_when_time_is_up(self):
        module, _ = self.load("A2", "a2_correctness", 1)
        with contextlib.redirect_stdout(io.StringIO()):
            module.gates()
        self.assertEqual({r["status"] for r in self.records()}, {"skipped"})
        self.assertFalse(self.started)


class Children(Stage):
    """common.stream with programs that are started."""

    def stream(self, code, seconds=20.0):
        sys.modules.pop("common", None)
        os.environ.update(STAGE="T", WORK=str(self.out), OUT=str(self.out), DEADLINE=str(time.time() + seconds))
        import common
        end, begin = {}, time.time()
        answers = list(common.stream("child", [sys.executable, "-c", "import json, sys, time\n" + code], end, '{"n": 1}\n', ours=False))
        return answers, end, time.time() - begin

    def test_a_child_may_say_a_lot_on_standard_error(self):
        answers, end, _ = self.stream("sys.stderr.write('x' * 1000000 + ' last words')\nprint(sys.stdin.readline(), end='')")
        self.assertEqual(answers, [{"n": 1}])
        self.assertEqual((end["exit"], end["late"]), (0, False))
        self.assertTrue(end["log"].endswith("last words"))

    def test_a_late_child_is_ended_and_its_half_line_dropped(self):
        answers, end, took = self.stream("print('{}', flush=True)\nsys.stdout.write('{\"ha')\nsys.stdout.flush()\ntime.sleep(600)", 4.0)
        self.assertEqual(answers, [{}])
        self.assertTrue(end["late"])
        self.assertLess(took, 300)

    def test_a_child_that_fails_says_why(self):
        _, end, _ = self.stream("sys.exit('no such thing')")
        self.assertEqual((end["exit"], end["late"]), (1, False))
        self.assertIn("no such thing", end["log"])


class Numbers(Stage):
    def test_the_papers_averages_come_out(self):
        import paper
        stated = {"PyTorch": (3.55, 5.83), "TorchRec": (2.63, 4.29), "HugeCTR": (1.69, 2.15), "OneFlow": (1.53, 2.0)}
        for name, (mean, most) in stated.items():
            cells = [paper.published(d, m, *size)[name] for d in paper.PAPER for m in paper.PAPER[d] for size in paper.SIZES]
            self.assertEqual(len(cells), 48)
            self.assertAlmostEqual(sum(cells) / 48, mean, delta=0.02 * mean)
            self.assertAlmostEqual(max(cells), most, delta=0.02 * most)

    def test_predictions_are_those_of_the_formula(self):
        import paper
        import predict
        self.assertEqual(predict.TABLE.read_text(), predict.text())
        known = predict.read()
        self.assertEqual(len(known), 48 * 3)
        for (*cell, precision), us in known.items():
            guide = paper.predicted(*cell, precision)  # computed apart from this formula, +-40 %
            most = 1.0 if cell[1] == "dcnv2" else 0.6  # its ends, splits and our kernel of deep fp32 layers are the formula's alone
            self.assertLess(abs(us["device_us"] / guide - 1), most, (cell, precision))
            self.assertLess(us["device_us"], us["host_fetched_us"])
            self.assertLess(us["host_fetched_us"], us["host_us"])
            self.assertLess(us["host_us"], us["stock_eager_fp32_us"])
        for precision, stated in (("fp32", 5.9), ("tf32", 9.0), ("fp16", 11)):  # README.md
            ratios = [math.log(us["stock_eager_fp32_us"] / us["host_us"]) for (*_, p), us in known.items() if p == precision]
            mean = math.exp(sum(ratios) / 48)
            self.assertAlmostEqual(mean, stated, delta=0.01 * stated)
            self.assertLess(paper.HOST_TARGET[precision], paper.DEVICE_TARGET[precision])

    def test_the_ways_to_bring_the_ids_are_those_of_the_formula(self):
        import predict
        import spec
        readme = (HERE / "README.md").read_text()
        for line in predict.ways_table():
            self.assertIn(line, readme)
        self.assertEqual({d: predict.narrow_ids(spec.Shape("dcn", d)) for d in ("criteo", "avazu")}, {"criteo": 34, "avazu": 22})  # README.md
        for s in spec.paper_grid():  # what the visit measures as an option is what wins everywhere
            won = predict.wins(s, "fp16")
            self.assertEqual(max(won, key=won.get), "fetched")

    def test_host_and_device_targets_are_judged_apart(self):
        import analysis
        cell = {"dataset": "criteo", "model": "dcn", "dim": 16, "hidden": [256] * 3}
        records = [{**cell, "what": "peer", "status": "ok", "engine": analysis.STOCK, "precision": "fp32", "group": "grid", "batch": 2048, "p50_us": 700.0, "device_us": 300.0},
                   {**cell, "what": "latency", "status": "ok", "engine": "dpi", "precision": "fp32", "group": "grid", "batch": 2048, "p50_us": 100.0},
                   {**cell, "what": "timeline", "status": "ok", "group": "device time", "precision": "fp32", "timeline": {"total_us": 30.0}}]
        judged = {what: (target, got, passed) for what, target, got, passed in analysis.targets(records) if "stock eager" in what and "fp32" in what}
        self.assertEqual(judged, {"host to host: geometric mean over stock eager, fp32, 1 of 48 cells": ("6x", "7.00x", False),
                                  "on the device: geometric mean over stock eager, fp32, 1 cells": ("9x", "10.00x", True)})

    def test_forms_are_taken_where_the_formula_says_so(self):
        import predict_forms
        self.assertEqual(predict_forms.TABLE.read_text(), predict_forms.text())
        lines = predict_forms.read()
        for form in {line["form"] for line in lines}:
            mine = [line for line in lines if line["form"] == form]
            self.assertEqual([int(line["rows"]) for line in mine], list(predict_forms.ROWS))
            mean = math.exp(sum(math.log(float(line["ratio"])) for line in mine) / len(mine))
            self.assertEqual(mine[0]["taken"], "yes" if mean > 1 else "no", form)
            self.assertGreater(len(mine[0]["reason"]), 20)

    def test_tiers_are_those_of_the_formula(self):
        import predict_tiers
        import tiers
        self.assertEqual(predict_tiers.TABLE.read_text(), predict_tiers.text())
        known = predict_tiers.read()
        self.assertEqual(len(known), len(tiers.lookup_cells()) + len(tiers.model_cells()))
        for (level, way, part, *rest), (hits, _, rate) in known.items():
            self.assertLessEqual(rate, 1.001 * known[(level, "resident", 0, *rest)][2], (level, way, part))
            if way == "cached" and part > 1:
                half = known[(level, way, part // 2, *rest)] if (level, way, part // 2, *rest) in known else None
                self.assertTrue(half is None or half[0] > hits)

    def test_predicted_hit_rates_are_those_of_the_rows_that_are_drawn(self):
        import numpy as np
        import predict_tiers
        import tiers
        self.load("C1", "c1_tiers", 100)
        import data
        vocab = tiers.shape().vocabs[0]
        for zipf in tiers.ZIPFS:
            ids = data.ids_of(np.random.default_rng(5), vocab, (200, tiers.ROWS), f"zipf{zipf}")
            for part in tiers.PARTS:
                held = predict_tiers.held(part, 68)
                self.assertAlmostEqual(float((ids < held).mean()), predict_tiers.hit_rate("cached", part, zipf, 68), delta=0.004)
            unique = [np.unique(row) for row in ids]
            held = predict_tiers.held(4, 72)
            for got, want in zip((np.mean([len(u) for u in unique]), np.mean([(u >= held).sum() for u in unique])), predict_tiers.unique_keys(4, zipf, tiers.ROWS)):
                self.assertAlmostEqual(float(got), want, delta=0.03 * want)

    def test_reports_judge_the_goal(self):
        import analysis
        import predict_tiers
        import report
        known = predict_tiers.read()

        def records(times):
            return [{"stage": "C2", "what": "tier", "status": "ok", "level": level, "way": way, "part": part, "zipf": zipf, "batch": batch, "callers": callers,
                     "p50_us": us, "p99_us": us, "hit_rate": hits, "rows_per_s": rate * (times if way == "cached" else 1)}
                    for (level, way, part, zipf, batch, callers), (hits, us, rate) in known.items()]
        for times, passed in ((1.0, False), (1.5, True)):  # predicted: 0.67 of resident
            (_, target, measured, got), = analysis.tier_targets(records(times))
            self.assertEqual((target, got), ("80%", passed), measured)
        self.assertAlmostEqual(analysis.tier_share(analysis.tiers(records(1.0)), "model"), 0.67, delta=0.01)  # README.md
        (_, _, measured, got), = analysis.tier_targets([r for r in records(1.5) if r["way"] != "resident"])
        self.assertEqual((measured, got), (None, False))
        text = report.tiers(records(1.5))
        self.assertIn("\n| model | cached 1/4 | 1.05 | 2048 | 16 | 91.9% | 91.9% | 684.0 | 684.0 | - | 71,865,000 | 47,910,000 | 1.50 | 100.0% |\n", text)

    def test_reports_put_predictions_beside_measurements(self):
        import analysis
        import predict
        import report
        cell = {"dataset": "criteo", "model": "dcnv2", "dim": 16, "hidden": [512] * 3, "precision": "tf32"}
        us = predict.read()["criteo", "dcnv2", 16, 512, "tf32"]
        device, host, eager = us["device_us"], us["host_us"], us["stock_eager_fp32_us"]
        records = [{**cell, "what": "latency", "status": "ok", "stage": "B1", "engine": "dpi", "group": "grid", "batch": 2048, "p50_us": 1.5 * host},
                   {**cell, "what": "timeline", "status": "ok", "stage": "B5", "group": "device time", "batch": 2048, "timeline": {"total_us": 2 * device}},
                   {**cell, "what": "peer", "status": "ok", "stage": "B2", "engine": analysis.STOCK, "precision": "fp32", "group": "grid", "batch": 2048,
                    "p50_us": 3 * eager}]
        text = report.predictions(records)
        self.assertIn(f"| {device:.1f} | {2 * device:.1f} | 2.00 | {host:.1f} | {1.5 * host:.1f} | 1.50 |", text)
        self.assertIn("| stock eager, host | 1 | 3.00 |", text)
        grid = report.grid(records)
        self.assertIn("RTX 3090", grid)
        self.assertIn("| 3.39x | 2.22x | 1.80x | 1.35x |", grid)  # over PyTorch, 1.53, 1.88 and 2.51 of it

    def test_tuning_tables_are_merged(self):
        self.load("A5", "a5_tune", 100)
        import a5_tune
        head = "dpi-tuning 1\ndevice X\ncapability 90\ncublaslt 1\n# precision end out in rows implementation tile algorithm microseconds\n"
        text = a5_tune.merged(head + "fp32 plain 256 624 2048 own-3xtf32 128 - 9\nfp16 plain 256 624 2048 own-fp16 64 - 5\n",
                              head + "fp32 plain 256 624 2048 cublaslt-3xtf32 - ab 7\nfp32 plain 256 624 64 own-simt - - 3\n")
        self.assertEqual(text, head + "fp32 plain 256 624 2048 cublaslt-3xtf32 - ab 7\nfp16 plain 256 624 2048 own-fp16 64 - 5\n"
                         "fp32 plain 256 624 64 own-simt - - 3\n")

    def test_the_large_table_reaches_beyond_4_gib(self):
        import spec
        rows = spec.DATASETS["huge"][1][0]
        nbytes = rows * 64  # of a row of 16 floats; rows of 16-bit tables are padded to as many
        self.assertGreater(nbytes, 1 << 32)
        self.assertGreater(1 - (1 << 31) / nbytes, 0.5)
        self.assertGreater(3000 * (1 - (1 << 32) / nbytes), 50)  # rows of the check that lie beyond 2^32 bytes
        self.assertLess(rows, 1 << 31)

    def test_peers_hold_their_weights_as_buffers(self):
        try:
            import torch
        except ImportError:
            self.skipTest("no torch")
        import model
        from forms import FORMS
        shape = model.Shape("dcnv2", "criteo", 4, (8, 8, 8), True)

        class Arrays:
            device, dtype = "cpu", torch.float32

            def __call__(self, path):
                part = path.split("/")[-1]
                sizes = {"tables": (50, 4)}
                if path.startswith("/tables/"):
                    return torch.zeros(shape.vocabs[int(part[1:])], sizes["tables"][1])
                name, kind = part.rsplit(".", 1)
                n_in, n_out = {"mlp.0": (156, 8), "out": (164, 1)}.get(name, (156, 156) if name.startswith("cross") else (8, 8))
                return torch.zeros(n_out, n_in) if kind == "w" else torch.zeros(n_out)
        for lookup in ("field", "merged"):
            peer = model.Peer(shape, Arrays(), lookup)
            held = {id(b) for b in peer.buffers()}
            loose = [k for k, v in vars(peer).items() if isinstance(v, torch.Tensor) and id(v) not in held
                     or isinstance(v, (list, tuple)) and any(isinstance(x, (torch.Tensor, tuple)) for x in v)]
            self.assertEqual(loose, [])
            for ids in (torch.zeros(3, 39, dtype=torch.int64), torch.zeros(3, 39, dtype=torch.int32)):
                self.assertEqual(peer(ids, None)[0].shape, (3,))
        self.assertEqual(FORMS["eager_field_copies"].copies, "field")


if __name__ == "__main__":
    unittest.main()
