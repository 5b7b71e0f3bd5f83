"""Raw golden cells: written, read back, checked; and what the encoders of bags mean (Python's str.split is the oracle)."""

import numpy as np
import pytest

from dpi_export import Builder, Bundle, BundleError, Encoder, Rows, training_stats
from dpi_export import encoders as e
from dpi_export.cli import main
from dpi_export.bundle.golden import compare_golden
from dpi_export.bundle.raw_golden import Probes, encode_column, settled

CITIES = ["Oslo", "Rome", "Köln"]
COLUMNS = {"city": [1, 3, 4, 4, 2], "hist": [[1, 0, 2], [], [5], [2, 2], [1, 0, 0]], "size": [2, 1, 3, 3, 2],
           "age": [0.5, -1.5, 0.0, 2.0, 0.25], "user": [7, 1, 0, 3, 9]}
RAW = {"city": ["Oslo", " Köln", "nowhere", "", "Rome"], "hist": ["a^^b", "", "zz", "b^b^^", "a^^^b"],
       "size": ["2.50", "1", "7", "99", "2.5"], "age": ["45", "25", "", "60", "42.5"], "user": ["7", "1", "0", "3", "9"]}


def build(**hist):
    """Features of every kind that takes raw cells, and one dense."""
    b = Builder("raw")
    b.categorical("city", 6, out_of_range="oov", oov_id=4, missing="default", default_id=4,
                  encoder=[e.trim(), e.vocab_string(CITIES)])
    keys = {"splitter": "^", "missing_element": 0, **hist}
    b.sequence("hist", 6, max_len=3, missing="pad", out_of_range="oov", oov_id=5, encoder=Encoder([e.vocab_string(["a", "b"])], **keys))
    b.categorical("size", 4, out_of_range="oov", oov_id=3, encoder=[e.to_float(), e.vocab_float([1.0, 2.5])])
    b.numeric("age", missing="default", encoder=[e.to_float(), e.standard(40.0, 10.0)])
    b.categorical("user", 10)
    b.dense("vec", 2, missing="pad")
    rng = np.random.default_rng(4)
    parts = [b.embed(b.input(n), b.table(n, rng.normal(size=(s, 2)))) for n, s in (("city", 6), ("size", 4), ("user", 10))]
    parts += [b.embed(b.input("hist"), b.table("hist", rng.normal(size=(6, 2))), "sum"), b.input("age"), b.input("vec")]
    x = b.concat(parts)
    b.head("y", b.linear(x, rng.normal(size=(1, b.shape(x)[0]))))
    return b


def rows_of(b, columns=COLUMNS, n=5):
    return Rows.from_columns(b, {**{k: v[:n] for k, v in columns.items()}, "vec": np.zeros((n, 2))})


def written(path, b, raw=RAW, columns=COLUMNS, check=True):
    b.golden(rows_of(b, columns), raw=raw)
    b.write(path, check=check)
    return path


def failures(path):
    with Bundle(path) as bundle:
        return compare_golden(bundle)["failures"]


def test_round_trip(tmp_path):
    path = written(tmp_path / "a.h5", build())
    with Bundle(path) as bundle:
        assert bundle.manifest["golden"]["raw"] == list(RAW) and bundle.manifest["golden"]["raw_rows"] == 5
        assert bundle.golden["raw"]["hist"] == [["a^^b"], [""], ["zz"], ["b^b^^"], ["a^^^b"]]
        assert compare_golden(bundle)["raw_rows"] == 5 and not compare_golden(bundle)["failures"]
        feature = bundle.features[1]
        assert feature["encoder"].splitter == "^" and feature["encoder"].missing_element == 0
    again = tmp_path / "b.h5"
    written(again, build())
    assert again.read_bytes() == path.read_bytes()


def test_last_rows_only(tmp_path):
    raw = {name: cells[3:] for name, cells in RAW.items() if name in ("city", "hist")}
    path = written(tmp_path / "a.h5", build(), raw)
    assert failures(path) == []
    raw["city"] = ["", "Oslo"]
    assert "row 4, feature 'city': 'Oslo' gives [1], golden is [2]" in failures(written(path, build(), raw, check=False))[0]


@pytest.mark.parametrize("name, row, cell, text", [
    ("city", 0, "Rome", "row 0, feature 'city': 'Rome' gives [2], golden is [1]"),
    ("city", 1, "köln", "gives [4], golden is [3]"),
    ("hist", 0, "a^b", "row 0, feature 'hist': 'a^b' gives [1, 2], golden is [1, 0, 2]"),
    ("hist", 1, "b", "gives [2], golden is []"),
    ("size", 2, "1.0", "row 2, feature 'size': '1.0' gives [1], golden is [3]"),
    ("size", 0, "two", "row 0, feature 'size': 'two'"),
    ("age", 3, "60.001", "row 3, feature 'age'"),
    ("user", 4, "8", "row 4, feature 'user'"),
])
def test_a_wrong_cell_is_named(tmp_path, name, row, cell, text):
    raw = {k: list(v) for k, v in RAW.items()}
    raw[name][row] = cell
    with pytest.raises(BundleError, match="raw cells"):
        written(tmp_path / "no.h5", build(), raw)
    assert not list(tmp_path.iterdir())
    path = written(tmp_path / "a.h5", build(), raw, check=False)
    assert [f for f in failures(path) if text in f], failures(path)
    assert main(["verify", str(path)]) == 1


def test_command_says_whether_encoders_are_checked(tmp_path, capsys):
    assert main(["verify", str(written(tmp_path / "a.h5", build()))]) == 0
    assert "raw cells in 5" in capsys.readouterr().out
    assert main(["verify", str(written(tmp_path / "b.h5", build(), raw=None))]) == 0
    assert "encoders are not checked" in capsys.readouterr().out
    assert main(["convert", str(tmp_path / "a.h5"), str(tmp_path / "c.h5"), "--dtype", "f16", "--tolerance", "1e-2"]) == 0
    with Bundle(tmp_path / "c.h5") as bundle:
        assert bundle.golden["raw"]["city"][0] == ["Oslo"]


def test_shared_part(tmp_path):
    b = Builder("shared")
    b.sequence("hist", 6, max_len=3, missing="pad", space="shared", encoder=[e.vocab_string(["a", "b", "c"])])
    b.categorical("city", 6, encoder=[e.vocab_string(CITIES)])
    x = b.concat([b.embed(b.input("hist"), b.table("t", np.ones((6, 2))), "sum"), b.embed(b.input("city"), "t")])
    b.head("y", b.linear(x, np.ones((1, 4))))
    rows = Rows.from_columns(b, {"hist": [[1, 2], [3]], "city": [1, 2, 3]}, shared_counts=[2, 1])
    raw = {"hist": [["a", "b"], ["a", "", "b"], ["c"]], "city": CITIES}
    b.golden(rows, raw=raw)
    b.write(tmp_path / "a.h5")
    assert failures(tmp_path / "a.h5") == []
    b.golden(rows, raw={**raw, "hist": [["a", "b"], ["b"], ["c"]]})
    b.write(tmp_path / "a.h5", check=False)
    assert "row 1, feature 'hist'" in failures(tmp_path / "a.h5")[0]


@pytest.mark.parametrize("raw, text", [({"vec": ["1"] * 5}, "'vec'"), ({"zip": ["1"] * 5}, "'zip'"), ({"city": ["Oslo"] * 6}, "at most 5"),
                                       ({"city": ["Oslo"] * 5, "age": ["1"]}, "same number")])
def test_cells_that_do_not_fit(tmp_path, raw, text):
    with pytest.raises(BundleError, match=text):
        written(tmp_path / "a.h5", build(), raw)


def test_elements_are_pythons():
    rng = np.random.default_rng(8)
    for _ in range(500):
        text = "".join(rng.choice(["a", "^", ",", " ", "\t", "\u2003", "x"], rng.integers(0, 9)))
        for splitter in ("^", ", ", ""):
            got = Encoder([e.to_id()], splitter=splitter).elements(text)
            assert got == (text.split(splitter or None) if text else [])
    assert Encoder([e.to_id()]).elements("a^b") == ["a^b"] and Encoder([e.to_id()], splitter="^").elements(["a^b", "c"]) == ["a", "b", "c"]


def test_missing_elements_keep_their_place_only_when_told():
    feature = next(f for f in build().features if f["name"] == "hist")
    assert encode_column(feature, ["a^^b", "^^b^a", ""]) == [[1, 0, 2], [0, 0, 2, 1], []]
    assert settled(feature, encode_column(feature, ["a^^b^a", "^^^b", "b^^"])) == [[1, 0, 2], [], [2]]  # cut, then padding falls off
    dropping = next(f for f in build(missing_element=None).features if f["name"] == "hist")
    assert encode_column(dropping, ["a^^b", "^^b^a"]) == [[1, 2], [2, 1]]


@pytest.mark.parametrize("keys, text", [({"splitter": 3}, "splitter is 3"), ({"missing_element": 6}, "missing_element is 6"),
                                        ({"missing_element": -1}, "missing_element is -1")])
def test_refused_encoders_of_bags(keys, text):
    with pytest.raises(BundleError, match=text):
        build(**keys)
    with pytest.raises(BundleError, match="for sequences"):
        Builder("x").categorical("c", 9, encoder=Encoder([e.to_id()], splitter="^"))
    with pytest.raises(BundleError, match="not weighted"):
        Builder("x").sequence("s", 9, weighted=True, encoder=Encoder([e.to_id()], splitter="^"))


def test_float_vocabulary():
    encoder = Encoder([e.to_float(), e.vocab_float([1.0, 2.5, -0.0, 1e300], first_id=3)])
    assert [encoder.encode(t) for t in ("1", "1.0", "1e0", "2.50", "0", "-0.0", "1e300")] == [3, 3, 3, 4, 5, 5, 6]
    assert encoder.encode(2.5) == 4 and encoder.encode("2") is e.OOV
    for keys in ([1.0, 1], [0.0, -0.0], [float("nan")], [float("inf")]):
        with pytest.raises(BundleError, match="vocab_float"):
            e.vocab_float(keys)


def test_statistics_split_bags():
    feature = next(f for f in build().features if f["name"] == "hist")
    stats = training_stats(feature, ["a^b", "zz^a", "", "a^"])
    assert stats == {"missing_rate": 2 / 7, "oov_rate": 1 / 7}


def test_probes_reach_every_kind_of_value():
    rng = np.random.default_rng(0)
    for feature in build().features:
        if feature.get("encoder") is None:
            continue
        cells = Probes(feature, rng, 64).cells()
        values = encode_column(feature, cells)
        assert len(cells) == 64
        if feature["name"] == "hist":
            ids = {i for bag in values for i in bag}
            assert ids == {0, 1, 2, 5} and max(map(len, values)) > 3 and [] in values
        elif feature["name"] == "city":
            assert set(values) == {1, 2, 3, 4} and "" in cells
        elif feature["name"] == "size":
            assert set(values) == {1, 2, 3} and {"1", "1.0"} <= set(cells)


def test_cells_of_a_data_frame_are_taken_by_position(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(RAW, index=[4, 3, 2, 1, 0])
    for raw in (frame, {name: frame[name] for name in frame}, {name: frame[name].to_numpy() for name in frame}):
        path = written(tmp_path / "a.h5", build(), raw=raw)
        with Bundle(path) as bundle:
            assert bundle.golden["raw"] == {name: [[cell] for cell in cells] for name, cells in RAW.items()}
        assert failures(path) == []
