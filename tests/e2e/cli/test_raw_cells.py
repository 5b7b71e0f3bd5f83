"""Raw golden cells in `dpi verify`, bags that the bundle splits in `dpi predict --raw`, and columns of unknown values."""

import json

import numpy as np
import pytest
from dpi_export import Builder, Encoder, Rows
from dpi_export import encoders as e

COLUMNS = {"city": [1, 3, 4, 4, 2], "hist": [[1, 0, 2], [], [5], [2, 2], [1, 0, 0]], "last": [[2], [1, 1], [], [0, 2], [3, 1]],
           "size": [2, 1, 3, 3, 2], "age": [0.5, -1.5, 0.0, 2.0, 0.25], "user": [7, 1, 0, 3, 9]}
#: Cells as a file holds them. Bags of `hist` are cut to 3 from the left, those of `last` to 2 from the right.
RAW = {"city": ["Oslo", " Köln", "nowhere", "", "Rome"], "hist": ["a^^b", "", "zz", "b^b^^", "a^^^b"],
       "last": ["b", "b  a\u2003a", "", "zz a b zz b", "c a"], "size": ["2.50", "1", "7", "99", "2.5"],
       "age": ["45", "25", "", "60", "42.5"], "user": ["7", "1", "0", "3", "9"]}


def build():
    b = Builder("raw")
    b.categorical("city", 6, out_of_range="oov", oov_id=4, missing="default", default_id=4,
                  encoder=[e.trim(), e.vocab_string(["Oslo", "Rome", "Köln"])])
    b.sequence("hist", 6, max_len=3, missing="pad", out_of_range="oov", oov_id=5,
               encoder=Encoder([e.vocab_string(["a", "b"])], splitter="^", missing_element=0))
    b.sequence("last", 4, max_len=2, missing="pad", out_of_range="default", default_id=0, keep="last", pad_side="pre",
               encoder=Encoder([e.vocab_string(["a", "b", "c"])], splitter=""))
    b.categorical("size", 4, out_of_range="oov", oov_id=3, encoder=[e.to_float(), e.vocab_float([1.0, 2.5])])
    b.numeric("age", missing="default", encoder=[e.to_float(), e.standard(40.0, 10.0)])
    b.categorical("user", 10)
    rng = np.random.default_rng(4)
    parts = [b.embed(b.input(n), b.table(n, rng.normal(size=(s, 2)))) for n, s in (("city", 6), ("size", 4), ("user", 10))]
    parts += [b.embed(b.input(n), b.table(n, rng.normal(size=(s, 2))), "sum", mask="id") for n, s in (("hist", 6), ("last", 4))]
    x = b.concat(parts + [b.input("age")])
    b.head("y", b.linear(x, rng.normal(size=(1, b.shape(x)[0]))))
    return b


@pytest.fixture
def raw_bundle(tmp_path):
    """raw_bundle(raw): a bundle whose golden rows have these cells; raw_bundle(model=b): of a Builder that has golden rows. Unchecked."""
    def make(raw=RAW, model=None):
        b = model or build()
        if model is None:
            b.golden(Rows.from_columns(b, COLUMNS), raw=raw)
        b.write(tmp_path / "raw.h5", check=False)
        return tmp_path / "raw.h5"
    return make


def changed(name, row, cell):
    raw = {k: list(v) for k, v in RAW.items()}
    raw[name][row] = cell
    return raw


@pytest.mark.parametrize("device", ["ref", "cpu"])
def test_cells_that_agree(dpi, raw_bundle, device):
    path = raw_bundle()
    ran = dpi("verify", path, "--device", device).ok()
    assert "raw cells: 30 of 30 in 5 rows" in ran.out and "verified" in ran.out
    assert dpi("verify", path, "--json", "--device", device).json()["golden"]["raw"] == {"rows": 5, "compared": 30, "failed": 0}


@pytest.mark.parametrize("name, row, cell, text", [
    ("city", 0, "Rome", "row 0, feature 'city': 'Rome' gives [2], golden is [1]"),
    ("city", 1, "koeln", "row 1, feature 'city': 'koeln' gives [4], golden is [3]"),
    ("hist", 0, "a^b", "row 0, feature 'hist': 'a^b' gives [1 2], golden is [1 0 2]"),
    ("hist", 3, "b^^b", "row 3, feature 'hist': 'b^^b' gives [2 0 2], golden is [2 2]"),
    ("last", 1, "b a", "row 1, feature 'last': 'b a' gives [2 1], golden is [1 1]"),
    ("size", 2, "1.0", "row 2, feature 'size': '1.0' gives [1], golden is [3]"),
    ("size", 0, "two", "row 0, feature 'size': 'two' is not a decimal number"),
    ("age", 3, "60.001", "row 3, feature 'age': '60.001' gives 2.00009"),
    ("age", 0, "", "row 0, feature 'age': '' gives 0, golden is 0.5"),
    ("user", 4, "8", "row 4, feature 'user': '8' gives [8], golden is [9]"),
    ("user", 2, "x", "row 2, feature 'user': 'x' is no id"),
])
def test_a_cell_that_differs_is_named(dpi, raw_bundle, name, row, cell, text):
    ran = dpi("verify", raw_bundle(changed(name, row, cell)))
    assert ran.code == 4 and "FAILED" in ran.out and "raw cells: 29 of 30" in ran.out
    assert text in ran.out, ran.out
    raw = json.loads(dpi("verify", raw_bundle(changed(name, row, cell)), "--json").out)["golden"]["raw"]
    assert raw["failed"] == 1 and text in raw["first"]


@pytest.mark.parametrize("change, text", [
    (lambda f: f["hist"]["encoder"].update(splitter="|"), "feature 'hist': 'a^^b' gives [5], golden is [1 0 2]"),
    (lambda f: f["hist"]["encoder"].pop("missing_element"), "feature 'hist': 'a^^b' gives [1 2], golden is [1 0 2]"),
    (lambda f: f["hist"]["encoder"].update(missing_element=4), "feature 'hist': 'a^^b' gives [1 4 2], golden is [1 0 2]"),
    (lambda f: f["size"]["encoder"]["steps"][1].update(first_id=2), "feature 'size': '2.50' gives [3], golden is [2]"),
    (lambda f: f["age"]["encoder"]["steps"][1].update(std=10.01), "feature 'age': '45' gives 0.4995"),
    (lambda f: f["city"].update(default_id=3), "row 3, feature 'city': '' gives [3], golden is [4]"),
])
def test_an_encoder_that_differs_is_seen(dpi, raw_bundle, monkeypatch, change, text):
    from dpi_export.bundle import writer
    original = writer.manifest_of

    def doctor(model, *rest):
        manifest, arrays = original(model, *rest)
        manifest = json.loads(json.dumps(manifest))
        change({f["name"]: f for f in manifest["features"]})
        return manifest, arrays

    b = build()
    b.golden(Rows.from_columns(b, COLUMNS), value=np.zeros((5, 1)), raw=RAW)
    with monkeypatch.context() as m:
        m.setattr(writer, "manifest_of", doctor)
        path = raw_bundle(model=b)
    ran = dpi("verify", path)
    assert ran.code == 4 and text in ran.out, ran.out


def test_only_the_last_rows_have_cells(dpi, raw_bundle):
    path = raw_bundle({"hist": RAW["hist"][3:]})
    assert dpi("verify", path, "--json").json()["golden"]["raw"] == {"rows": 2, "compared": 2, "failed": 0}
    assert "row 4, feature 'hist'" in dpi("verify", raw_bundle({"hist": ["b^b", "b"]})).out


def test_a_shared_part(dpi, raw_bundle):
    b = Builder("shared")
    b.sequence("hist", 6, max_len=3, missing="pad", space="shared", encoder=[e.vocab_string(["a", "b", "c"])])
    b.numeric("age", space="shared", encoder=[e.to_float()])
    b.categorical("city", 6, encoder=[e.vocab_string(["x", "y", "z"])])
    x = b.concat([b.embed(b.input("hist"), b.table("t", np.ones((6, 2))), "sum"), b.embed(b.input("city"), "t"), b.input("age")])
    b.head("y", b.linear(x, np.ones((1, 5))))
    rows = Rows.from_columns(b, {"hist": [[1, 2], [3]], "age": [1, 2], "city": [1, 2, 3]}, shared_counts=[2, 1])
    raw = {"age": ["1", "1", "2"], "hist": [["a", "b"], ["a", "", "b"], ["c"]], "city": ["x", "y", "z"]}
    for wrong, text in ((None, ""), (("hist", 1, ["b"]), "row 1, feature 'hist': 'b' gives [2], golden is [1 2]"),
                        (("age", 2, "1"), "row 2, feature 'age': '1' gives 1, golden is 2")):
        cells = {k: list(v) for k, v in raw.items()}
        if wrong:
            cells[wrong[0]][wrong[1]] = wrong[2]
        b.golden(rows, raw=cells)
        ran = dpi("verify", raw_bundle(model=b))
        assert ran.code == (4 if wrong else 0) and text in ran.out, ran.out


def test_bundle_without_cells_says_so(dpi, raw_bundle):
    path = raw_bundle(None)
    assert "no raw cells, so the encoders are not checked" in dpi("verify", path).ok().out
    assert dpi("verify", path, "--json").json()["golden"]["raw"] is None


def test_inspect_shows_how_bags_are_read(dpi, raw_bundle):
    ran = dpi("inspect", raw_bundle()).ok()
    assert "bags split at '^', a missing element is id 0" in ran.out and "bags split at white space" in ran.out
    features = {f["name"]: f for f in dpi("inspect", raw_bundle(), "--json").json()["features"]}
    assert features["hist"]["splitter"] == "^" and features["hist"]["missing_element"] == 0 and features["last"]["splitter"] == ""
    assert "splitter" not in features["city"] and "missing_element" not in features["last"]


def _file(cells):
    names = list(cells)
    return ",".join(names) + "\n" + "".join(",".join(row) + "\n" for row in zip(*cells.values()))


def test_predict_reads_the_file_as_it_is(dpi, raw_bundle, csv):
    path = raw_bundle()
    bags = {name: ["|".join(map(str, bag)) for bag in COLUMNS[name]] for name in ("hist", "last")}
    ids = {**{k: list(map(str, v)) for k, v in COLUMNS.items()}, **bags}
    _, want = dpi("predict", path, csv(_file(ids))).scores()
    _, got = dpi("predict", path, csv(_file(RAW)), "--raw").scores()
    assert np.abs(got - want).max() <= 1e-6 and np.ptp(want) > 0.1


def test_known_values_that_share_the_id_of_unknown_ones_are_no_reason_to_note(dpi, raw_bundle, csv):
    b = Builder("shared id")
    b.categorical("city", 4, out_of_range="default", default_id=1, encoder=[e.vocab_int([10, 11, 12, 13], first_id=0)])
    b.head("y", b.linear(b.embed(b.input("city"), b.table("t", np.ones((4, 2)))), np.ones((1, 2))))
    path = raw_bundle(model=b)
    assert dpi("predict", path, csv("city\n" + "11\n" * 40), "--raw").ok().err == ""
    err = dpi("predict", path, csv("city\n" + "99\n" * 39 + "11\n"), "--raw", "--batch", "7").ok().err
    assert "feature 'city': 39 of 40 raw values got the id of unknown values, 1" in err


def test_a_column_of_unknown_values_is_noted(dpi, raw_bundle, csv):
    path = raw_bundle()
    many = {k: v * 4 for k, v in RAW.items()}
    assert "warning" not in dpi("predict", path, csv(_file(many)), "--raw").ok().err
    wrong = {**many, "hist": ["a|b"] * 20, "last": ["A", "B"] * 10, "city": ["oslo"] * 19 + ["Oslo"]}
    err = dpi("predict", path, csv(_file(wrong)), "--raw", "--batch", "7").ok().err
    assert "dpi: warning: feature 'hist': 20 of 20 raw values got the id of unknown values, 5" in err
    assert "feature 'last': 20 of 20 raw values got the id of unknown values, 0" in err
    assert "feature 'city': 19 of 20 raw values" in err and "warning: feature 'size'" not in err
    ids = {k: ["0"] * 20 for k in RAW}
    assert dpi("predict", path, csv(_file(ids))).ok().err == ""  # no raw values


@pytest.mark.parametrize("mark, own", [({"city": "exporter", "hist": "library", "age": "rows"}, ["city"]), ({n: "exporter" for n in RAW}, list(RAW)),
                                       ({"city": "rows"}, []), ({"nobody": "exporter", "city": 3, "age": ["exporter"]}, []), ("exporter", []), ([], []), (None, [])])
def test_cells_that_the_exporter_made_are_not_trainings(dpi, tmp_path, mark, own):
    b = build()
    b.golden(Rows.from_columns(b, COLUMNS), raw={**RAW, "city": ["Rome", *RAW["city"][1:]]})  # the first cell of city gives another id
    b.provenance(encoders_held_to=mark)
    b.write(tmp_path / "a.h5", check=False)
    ran = dpi("verify", tmp_path / "a.h5")
    of_training, made = 30 - 5 * len(own), 5 * len(own)
    bad = "city" in own
    assert ran.code != 0 and "row 0, feature 'city': 'Rome' gives [2]" in ran.out
    if of_training:
        assert f"raw cells: {of_training - (not bad)} of {of_training} in 5 rows are encoded as in training" in ran.out
    else:
        assert "as in training" not in ran.out
    assert (f"raw cells: {made - bad} of {made} in 5 rows repeat what the exporter's encoders gave, of " + ", ".join(f"'{n}'" for n in own) in ran.out) is bool(own)
    assert ("whether training encoded these so is not checked" in ran.out) is bool(own)
    raw = json.loads(dpi("verify", tmp_path / "a.h5", "--json").out)["golden"]["raw"]
    assert raw.get("made_by_exporter") == ({"features": own, "compared": made, "failed": int(bad)} if own else None)
    features = dpi("inspect", tmp_path / "a.h5", "--json").json()["features"]
    assert [f["name"] for f in features if f.get("compared_with_training") is False] == [f["name"] for f in features if f["name"] in own]
    assert dpi("inspect", tmp_path / "a.h5").ok().out.count("not compared with training") == len(own)
