"""`dpi predict` ends with how many values of which feature were unknown, out of range, unparsable or missing, and warns from half of them on."""

import json

import numpy as np
import pytest
from dpi_export import Builder, Encoder
from dpi_export import encoders as e

CAUSES = ("unknown", "out_of_range", "unparsable", "missing")
#: feature: (cells, values, then how many by cause), counted by hand. A bag's values are its elements.
CELLS = {"city": (["Oslo", "Rome", "", "Bern", "Bern", "Oslo"], 6, 2, 0, 0, 1),
         "job": (["7", "7.0", "8", "", "", "7"], 6, 1, 0, 0, 2),
         "last": (["a|b", "", "z||a", "b", "a", "z"], 8, 2, 0, 0, 1),
         "age": (["", "1", "", "", "2", "3"], 6, 0, 0, 0, 3),
         "user": (["1", "99", "2", "-1", "0", "3"], 6, 0, 2, 0, 0),
         "good": (["1", "0", "1", "0", "1", "0"], 6, 0, 0, 0, 0),
         "vec[0]": (["", "1", "2", "3", "4", "5"], 12, 0, 0, 0, 1), "vec[1]": (["0"] * 6, 12, 0, 0, 0, 1)}
ROWS = ",".join(CELLS) + "\n" + "".join(",".join(cells) + "\n" for cells in zip(*(c[0] for c in CELLS.values())))


def wanted(times=1):
    return [{"name": n, "values": c[1] * times, **{k: x * times for k, x in zip(CAUSES, c[2:])}}
            for n, c in ((name.replace("[0]", ""), c) for name, c in CELLS.items() if name != "vec[1]")]


@pytest.fixture(scope="module", params=[False, True], ids=["item", "shared"])
def counted(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("counts") / "counts.h5"
    b = Builder("counts")
    shared = {"space": "shared"} if request.param else {}
    b.categorical("city", 4, out_of_range="oov", oov_id=3, missing="default", default_id=0, encoder=[e.vocab_string(["Oslo", "Rome"])], **shared)
    b.categorical("job", 4, out_of_range="default", default_id=3, missing="default", encoder=[e.vocab_int([7])])
    b.sequence("last", 5, max_len=3, missing="pad", out_of_range="oov", oov_id=4, encoder=Encoder([e.vocab_string(["a", "b"])], splitter="|"), **shared)
    b.numeric("age", missing="default", encoder=[e.to_float()], **shared)
    b.categorical("user", 5, out_of_range="oov", oov_id=4)
    b.categorical("good", 2)
    b.dense("vec", dim=2, missing="default")
    parts = [b.embed(b.input(n), b.table(n, np.ones((s, 1)))) for n, s in (("city", 4), ("job", 4), ("user", 5), ("good", 2))]
    x = b.concat([*parts, b.embed(b.input("last"), b.table("last", np.ones((5, 1))), "sum"), b.input("age"), b.input("vec")])
    b.head("y", b.linear(x, np.ones((1, 8))))
    b.write(path)
    return path


@pytest.mark.parametrize("how", [[], ["--batch", "2"], ["--users"]], ids=["one call", "three calls", "users"])
def test_counts_in_the_summary(dpi, counted, csv, how):
    rows = csv(ROWS)
    assert dpi("predict", counted, rows, "--raw", "--summary", "--json", *how).json()["features"] == wanted()
    ran = dpi("predict", counted, rows, "--raw", "--summary", *how).ok()
    for text in ("values     feature 'city': 2 of 6 values unknown, 1 missing", "feature 'age': 3 of 6 values missing",
                 "feature 'job': 1 of 6 values unknown, 2 missing", "feature 'last': 2 of 8 values unknown, 1 missing",
                 "feature 'user': 2 of 6 values out of range", "feature 'vec': 1 of 12 values missing"):
        assert text in ran.out
    assert "'good'" not in ran.out and "dpi: note" not in ran.err


def test_counts_beside_scores(dpi, counted, csv):
    err = dpi("predict", counted, csv(ROWS), "--raw").ok().err
    assert err.count("dpi: note: feature") == 6 and "dpi: note: feature 'user': 2 of 6 values out of range" in err
    clean = "city,job,last,age,user,good,vec[0],vec[1]\n" + "Oslo,7,a,1,1,1,0,0\n" * 3
    ran = dpi("predict", counted, csv(clean, "clean.csv"), "--raw").ok()
    assert ran.err == ""
    ran = dpi("predict", counted, csv(clean, "clean.csv"), "--raw", "--summary").ok()
    assert "values     none unknown, out of range, unparsable or missing" in ran.out and ran.err == ""


@pytest.mark.parametrize("bad, warns", [(0, False), (4, False), (5, True), (10, True)])
@pytest.mark.parametrize("feature, cell, text", [("city", "Bern", "raw values got the id of unknown values, 3; are spelling"), ("user", "99", "values are out of range"),
                                                 ("city", "", "values are missing"), ("age", "", "values are missing")])
def test_a_warning_from_half_of_the_values_on(dpi, counted, csv, feature, cell, text, bad, warns):
    good = {"city": "Oslo", "job": "7", "last": "a", "age": "1", "user": "1", "good": "1", "vec[0]": "0", "vec[1]": "0"}
    lines = [{**good, feature: cell} if i < bad else good for i in range(10)]
    rows = csv(",".join(good) + "\n" + "".join(",".join(line.values()) + "\n" for line in lines))
    for more in ([], ["--summary"], ["--summary", "--json"]):
        err = dpi("predict", counted, rows, "--raw", *more).ok().err
        assert (f"dpi: warning: feature '{feature}': {bad} of 10 {text}" in err) is warns and err.count("warning") == warns


def test_no_more_lines_than_one_reads(dpi, csv, tmp_path):
    b = Builder("many")
    for i in range(20):
        b.numeric(f"n{i}", missing="default")
    b.head("y", b.linear(b.concat([b.input(f"n{i}") for i in range(20)]), np.ones((1, 20))))
    b.write(tmp_path / "many.h5")
    rows = csv(",".join(f"n{i}" for i in range(20)) + "\n" + ("," * 19 + "\n") + (",".join("1" * 20) + "\n") * 2)
    err = dpi("predict", tmp_path / "many.h5", rows).ok().err
    assert err.count("1 of 3 values missing") == 8 and "and 12 more features; --summary --json lists all" in err
    assert len(json.loads(dpi("predict", tmp_path / "many.h5", rows, "--summary", "--json").ok().out)["features"]) == 20
