"""The comparison with other engines: what it counts, compares and says. compare.py --smoke runs the engines themselves."""

import math
import pathlib
import sys

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/bench/peers"))
import compare  # noqa: E402
import processes  # noqa: E402
import report  # noqa: E402
import shapes  # noqa: E402

ROW = {"threads": 1, "model": "dcn", "shape": "cached", "hidden": "64-32", "batch": 4, "refused": {},
       "us": {"dpi": {"p50": 10.0, "p99": 12.0, "cpu": 9.0}, "torch": {"p50": 30.0, "p99": 40.0, "cpu": 18.0},
              "litert": {"p50": 15.0, "p99": 16.0, "cpu": 27.0}, "dpi-bf16": {"p50": 4.0, "p99": 5.0, "cpu": 4.0},
              "openvino-bf16": {"p50": 8.0, "p99": 9.0, "cpu": 8.0}}}
RATES = {"BM_read/512KiB": 200.0, "BM_read/8192KiB": 100.0, "BM_read/262144KiB": 40.0, "BM_gather/64": 16.0, "BM_fma": 250.0}


def by_hand(model, weights, ids):
    """One row at a time, one multiply-add at a time, in Python's floats."""
    found = []
    for row in ids:
        e = [[float(v) for v in weights["table"][o + i]] for o, i in zip(weights["offsets"], row)]
        x0 = [v for field in e for v in field]

        def layer(x, w, b):
            return [sum(a * float(w[i][j]) for i, a in enumerate(x)) + float(b[j]) for j in range(w.shape[1])]
        h = x0
        for i in range(2):
            h = [max(v, 0.0) for v in layer(h, weights[f"w{i}"], weights[f"b{i}"])]
        x = x0
        for i in range(sum(k.startswith("cross_w") for k in weights)):
            w, b = weights[f"cross_w{i}"], weights[f"cross_b{i}"]
            if model == "dcn":
                s = layer(x, w, [0.0])[0]
                x = [a * s + float(c) + v for a, c, v in zip(x0, b, x)]
            else:
                x = [a * p + v for a, p, v in zip(x0, layer(x, w, b), x)]
        logit = layer(x + h if model.startswith("dcn") else h, weights["out_w"], weights["out_b"])[0]
        if "linear" in weights:
            logit += sum(float(weights["linear"][o + i]) for o, i in zip(weights["offsets"], row))
        if model == "deepfm":
            logit += sum(a * b for f in range(len(e)) for g in range(f) for a, b in zip(e[f], e[g]))
        found.append(1 / (1 + math.exp(-logit)))
    return np.array(found)


@pytest.mark.parametrize("model", shapes.MODELS)
def test_reference_is_the_papers_formula(model, monkeypatch):
    monkeypatch.setitem(shapes.SHAPES, "tiny", [3, 5, 2])
    weights = shapes.make_weights(model, "tiny", "64-32")
    ids = shapes.make_rows("tiny", 4, np.random.default_rng(3))
    np.testing.assert_allclose(shapes.float64(model, weights, ids), by_hand(model, weights, ids), rtol=0, atol=1e-12)


def test_rows_are_within_their_tables():
    for shape, fields in shapes.SHAPES.items():
        ids = shapes.make_rows(shape, 200, np.random.default_rng(0))
        assert ids.shape == (200, len(fields)) and (ids >= 0).all() and (ids < np.array(fields)).all()


@pytest.mark.parametrize("found", [np.array([0.5, np.nan]), np.array([0.5, 0.5 + 1e-4]), np.array([0.5]), np.array([0.5, np.inf])])
def test_wrong_scores_are_refused(found):
    want = np.array([0.5, 0.5])
    compare.check(want.astype(np.float32), want, "torch")
    with pytest.raises(processes.Refused):
        compare.check(found, want, "torch")


def test_bf16_has_its_own_tolerance_and_peers():
    compare.check(np.array([0.51]), np.array([0.5]), "openvino-bf16")
    found = {own: (ratio, best) for ratio, _, own, best in report.pairs([ROW], "wall")}
    assert found == {"dpi": (1.5, "litert"), "dpi-bf16": (2.0, "openvino-bf16")}
    assert dict((own, best) for _, _, own, best in report.pairs([ROW], "cpu"))["dpi"] == "torch"


def test_ceiling_is_of_the_busiest_part():
    told = {"ceilings": RATES, "caches": {"L2": 1 << 20, "L3": 32 << 20}}

    def bound(threads=1, **work):
        none = {"flops": 0, "weight_bytes": 0, "table_bytes": 0, "lines": 0}
        return report.ceiling({"threads": threads, "work": {**none, **work}}, told)
    assert bound(flops=250_000) == (1.0, "FMA") and bound(threads=2, flops=250_000) == (0.5, "FMA")
    assert bound(weight_bytes=8_000_000) == (80.0, "L3") and bound(weight_bytes=80_000_000) == (2000.0, "DRAM")
    assert bound(weight_bytes=500_000) == (2.5, "L2") and bound(weight_bytes=500_000, flops=2_500_000) == (10.0, "FMA")
    assert bound(lines=1000, table_bytes=1 << 30) == (4.0, "rows, DRAM") and bound(lines=1000, table_bytes=1 << 22) == (0.64, "rows, L3")
    assert report.ceiling({"threads": 1, "work": {}}, {"ceilings": {}}) is None


def test_work_counts_the_formulas():
    weights = shapes.make_weights("dcnv2", "cached", "64-32")
    work = shapes.work("dcnv2", weights, 10)
    assert work["flops"] == 20 * (624 * 64 + 64 * 32 + 3 * 624 * 624 + 656) and work["lines"] == 390
    assert shapes.work("deepfm", shapes.make_weights("deepfm", "cached", "64-32"), 10)["lines"] == 780


def test_summary_has_the_worst_cell_first_and_counts_those_behind(tmp_path):
    slow = {**ROW, "batch": 8, "us": {"dpi": {"p50": 20.0, "p99": 21.0, "cpu": 20.0}, "torch": {"p50": 10.0, "p99": 11.0, "cpu": 10.0}}}
    text = report.summary([ROW, slow], "wall", {})
    assert text.splitlines()[2].startswith("  0.50 x of torch: dpi, dcn") and "behind in 1 of 2 cells" in text
    assert "dpi: 0.87 x of the best peer" in text  # sqrt(1.5 * 0.5)
    report.plot([ROW, slow], "wall", tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes()[:4] == b"\x89PNG"


def test_an_engine_that_dies_is_told(tmp_path):
    class Arguments:
        build, litert_python = ROOT, sys.executable
    process = processes.Process({"engine": "none", "threads": 1, "folder": str(tmp_path), "weights": str(tmp_path / "absent.npz")}, Arguments)
    with pytest.raises(processes.Refused, match="absent.npz"):
        process.ask({"do": "batch", "ids": ""})
    process.end()
