"""The table of raw values (tests/e2e/raw_values) through `dpi predict --raw`: a cell scores, or is refused, as in C, Go and Java."""

import csv as csv_module
import io
import json

import numpy as np
import pytest

from conftest import ROOT

DATA = ROOT / "tests" / "e2e" / "raw_values" / "data"
CASES = [c for c in json.loads((DATA / "cases.json").read_text(encoding="utf-8")) if c["csv"] is not None]
FEATURES = ["user", "token", "word", "plain", "bucket", "age", "log", "amount", "history", "member", "narrow", "half", "bins", "half_bins"]
HEADER = [*FEATURES, "vector[0]", "vector[1]"]


def line(case):
    """A row in which nothing but the case's feature is set."""
    return [*(case["csv"] if case["feature"] == f else "" for f in FEATURES), *(case["csv"] if case["feature"] == "vector" else ["", ""])]


def text_of(cases):
    out = io.StringIO()
    csv_module.writer(out, lineterminator="\n").writerows([HEADER, *map(line, cases)])
    return out.getvalue()


def test_every_cell_scores_as_python_says(dpi, csv):
    cases = [c for c in CASES if "score" in c]
    assert len(cases) > 500 and {c["feature"] for c in cases} == {*FEATURES, "vector"}
    heads, scores = dpi("predict", DATA / "raw_values.h5", "--raw", csv(text_of(cases))).scores()
    for case, got in zip(cases, scores):
        assert abs(got[heads.index(case["feature"])] - case["score"]) <= 1.2e-7 * abs(case["score"]), case
    assert len(scores) == len(cases) and np.isfinite(scores).all()


def test_every_other_cell_is_refused_at_its_place(dpi, csv):
    cases = [c for c in CASES if "error" in c]
    assert len(cases) > 30
    for case in cases:
        column = 1 + HEADER.index(case["feature"] if case["feature"] != "vector" else "vector[0]")
        dpi("predict", DATA / "raw_values.h5", "--raw", csv(text_of([CASES[0], case]))).fails(2, f"rows.csv:3:{column}:", *case["error"])


def test_a_cell_is_no_list(dpi, csv):
    header = ",".join(HEADER) + "\n"
    for feature, cell, texts in (("age", "26|7", ["'age'", "number"]), ("age", "[26]", ["'age'", "number"]), ("plain", "1|2", ["'plain'", "id"]),
                                 ("plain", "[26]", ["'plain'", "id"]), ("history", "[26]", None)):
        row = ",".join(cell if name == feature else "" for name in HEADER) + "\n"
        ran = dpi("predict", DATA / "raw_values.h5", "--raw", csv(header + row))
        if texts is not None:
            ran.fails(2, f"rows.csv:2:{1 + HEADER.index(feature)}:", *texts)
        else:  # a text that is not among the keys
            heads, scores = ran.scores()
            assert scores[0][heads.index(feature)] == 14


@pytest.mark.parametrize("name", ["raw_values", "more_kinds"])
def test_the_bundles_verify(dpi, name):
    dpi("verify", DATA / f"{name}.h5").ok()
