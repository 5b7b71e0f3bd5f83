"""Columns of every type x encoders fitted on them x ways in: each cell gets the id that scikit-learn's own transform gives for the frame that the
encoder was fitted on, or the export or the call refuses. tests/e2e/raw_values has such cells for C, Java, Go and the program too."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from drawn import ROOT

import dpi

sys.path.append(str(ROOT / "weights/python"))
import dpi_export  # noqa: E402

pandas = pytest.importorskip("pandas")
pre = pytest.importorskip("sklearn.preprocessing")
PROGRAM = os.path.join(os.environ.get("DPI_BIN", str(ROOT / "build/release/bin")), "dpi")
RNG = np.random.default_rng(35)
TENTHS, DRAWN = np.round(np.arange(11) / 10 + 0.1, 1), np.round(RNG.lognormal(2, 2, 200), 3)
WHOLE, BIG = [3, -1, 7, 3, 2000], [2**53 + 1, 2**53 + 3, 5, 2**53 + 1, -2**62 - 1]

COLUMNS = {
    **{f"{name} {np.dtype(t).name}": np.asarray(x, t) for t in (np.float16, np.float32, np.float64) for name, x in (("tenths", TENTHS), ("drawn", DRAWN))},
    **{f"whole {t}": np.array([3, 1, 7, 3, 100], t) for t in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")},
    "big i8": np.array(BIG, "i8"), "big u8": np.array([2**63 + 5, 3, 2**63 + 5], "u8"), "zero and one": np.array([0, 1, 0]),
    "bool": np.array([True, False, True]), "bool and None": np.array([True, False, None], object), "one truth": np.array([True, True]),
    "boolean": pandas.array([True, False, True], "boolean"), "category of bool": pandas.Categorical([True, False]),
    "Int64": pandas.array(WHOLE, "Int64"), "Int64 and NA": pandas.array([3, None, 7], "Int64"),
    "Float32": pandas.array(np.asarray(TENTHS, "f4"), "Float32"), "Float64": pandas.array(TENTHS, "Float64"),
    "floats and NaN": np.array([3, np.nan, 7.5]), "text": np.array(["x", "y", "01", "1", "1.0", "True"], object), "text and None": np.array(["x", None], object),
    "string": pandas.array(["x", "y"], "string"), "category of text": pandas.Categorical(["x", "y"]), "category of int": pandas.Categorical([3, 7]),
    "mixed": np.array([1, 2.5, 3], object), "big and float": np.array([2**53 + 1, 2.5], object), "longdouble": np.array([np.longdouble(1) / 3, 2]),
    "narrow in object": np.array([np.float32(0.1), np.float32(0.7)], object),
    "datetime": pandas.to_datetime(["2024-01-01", "2024-02-01"]), "date": pandas.to_datetime(["2024-01-01", "2024-02-01"]).date,
    "timedelta": pandas.to_timedelta([1, 2]), "interval": pandas.cut([1, 2, 3], 2), "bytes": np.array([b"x", b"y"], object), "complex": np.array([1j, 2], object),
}
MUST_SCORE = {"ordinal": {*(c for c in COLUMNS if c.split()[0] in ("tenths", "drawn", "whole")), "big i8", "bool", "bool and None", "Int64", "Int64 and NA", "Float32",
                          "floats and NaN", "text", "narrow in object", "category of text"},
              "label": {*(c for c in COLUMNS if c.split()[0] in ("tenths", "drawn", "whole")), "big i8", "bool", "text"},
              "bins": {"tenths float16", "tenths float32", "tenths float64", "drawn float32", "drawn float64", "whole i8"},
              "quantile bins": {"drawn float32", "drawn float64"}}
ENCODERS = {"ordinal": lambda: pre.OrdinalEncoder(), "label": lambda: pre.LabelEncoder(),
            "bins": lambda: pre.KBinsDiscretizer(5, encode="ordinal", strategy="uniform"),
            "quantile bins": lambda: pre.KBinsDiscretizer(5, encode="ordinal", strategy="quantile")}


def fitted(kind, frame):
    """(encoder, the ids that it gives), or None where the library does not take the column."""
    encoder = ENCODERS[kind]()
    given = frame["c"] if kind == "label" else frame
    try:
        ids = np.asarray(encoder.fit(given).transform(given), np.float64).ravel()
    except Exception:  # noqa: BLE001  (of the library, of whatever type)
        return None
    return encoder, ids


def written(encoder, dtype, path):
    """A bundle whose score is the id, 900 for a missing value, 901 for an unknown one."""
    made = dpi_export.convert_encoders({"c": encoder}, {"c": np.empty(0, dtype)} if isinstance(dtype, np.dtype) and dtype.kind in "iuf" else None)["c"]
    b = dpi_export.Builder("frame")
    b.categorical("c", 902, missing="default", default_id=900, out_of_range="oov", oov_id=901, encoder=made)
    b.head("id", b.embed(b.input("c"), b.table("c", np.arange(902, dtype="f4")[:, None])), activation="none")
    b.write(path)


def by_program(bundle, frame, tmp_path):
    frame.to_csv(tmp_path / "c.csv", index=False)
    ran = subprocess.run([PROGRAM, "predict", bundle, tmp_path / "c.csv", "--raw"], capture_output=True, text=True)
    if ran.returncode:
        assert ran.returncode == 2 and "feature 'c'" in ran.stderr, ran
        return None
    return [float(x) for x in ran.stdout.split()[1:]]


def by_rows(model, values):
    with model.rows() as rows:
        for v in values:
            rows.begin().set("c", v)
        return rows.predict().ravel()


def ways(bundle, frame, tmp_path):
    """{way: scores, or None where the call refuses}."""
    frame.to_csv(tmp_path / "c.csv", index=False)
    texts = list(pandas.read_csv(tmp_path / "c.csv", dtype=str, keep_default_na=False)["c"])
    out = {"program": by_program(bundle, frame, tmp_path)}
    try:
        records = json.loads(frame.to_json(orient="records"))
    except (OverflowError, TypeError):  # pandas has no JSON for the column
        records = []
    with dpi.Model(bundle, device="cpu") as model:
        calls = {"frame": lambda: model.predict_raw(frame), "texts": lambda: model.predict_raw({"c": texts}),
                 "rows": lambda: by_rows(model, list(frame["c"])), "objects": lambda: model.predict_raw({"c": list(frame["c"].astype(object))}),
                 **({"json": lambda: model.predict_raw(records)} if records else {})}
        for way, call in calls.items():
            try:
                out[way] = np.asarray(call()).ravel().tolist()
            except dpi.InvalidArgument as refusal:
                assert "'c'" in str(refusal)
                out[way] = None
    return out


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ENCODERS)
@pytest.mark.parametrize("column", COLUMNS)
def test_every_way_gives_the_librarys_id_or_refuses(column, kind, tmp_path):
    frame = pandas.DataFrame({"c": COLUMNS[column]})
    made = fitted(kind, frame)
    if made is None:
        assert column not in MUST_SCORE[kind]
        pytest.skip("the library does not take such a column")
    encoder, ids = made
    try:
        written(encoder, frame["c"].dtype, tmp_path / "b.h5")
    except dpi_export.BundleError as refusal:
        assert column not in MUST_SCORE[kind] and "'c'" in str(refusal), refusal
        return
    gone = frame["c"].isna().to_numpy()
    got = ways(tmp_path / "b.h5", frame, tmp_path)
    for way, scores in got.items():
        if scores is None:
            assert column not in MUST_SCORE[kind], (way, "refuses")
            continue
        assert len(scores) == len(ids)
        for score, wanted, missing, cell in zip(scores, ids, gone, frame["c"]):
            assert score == (900 if missing else wanted), (way, cell)


@pytest.mark.filterwarnings("ignore")
def test_a_column_of_integers_with_a_gap_later(tmp_path):
    """Fitted on integers; pandas makes floats of them when a value is missing, and writes 3.0."""
    for encoder in (pre.OrdinalEncoder().fit(pandas.DataFrame({"c": WHOLE})), pre.LabelEncoder().fit(WHOLE), [dpi_export.encoders.vocab_int(sorted(set(WHOLE)), 0)]):
        written(encoder, None, tmp_path / "b.h5")
        frame = pandas.DataFrame({"c": [*WHOLE, np.nan]})
        for way, scores in ways(tmp_path / "b.h5", frame, tmp_path).items():
            assert scores == [*(sorted(set(WHOLE)).index(x) for x in WHOLE), 900], way


def test_integers_that_a_float_does_not_hold_are_refused(tmp_path):
    written([dpi_export.encoders.vocab_int(BIG[:3], 0)], None, tmp_path / "b.h5")
    for frame in (pandas.DataFrame({"c": [BIG[0], np.nan]}), pandas.DataFrame({"c": [float(2**62), np.nan]})):
        assert set(map(str, (scores for way, scores in ways(tmp_path / "b.h5", frame, tmp_path).items() if way != "json"))) == {"None"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize("narrow", [np.float16, np.float32])
def test_bins_whose_column_nobody_names(strategy, narrow, tmp_path):
    """The ends 0 and 1 say nothing about the type: by it 0.3 is in one bin or the other, so the export asks; each answer gives that column's bins."""
    edge = np.array([0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1])
    for dtype in (narrow, np.float64):
        frame = pandas.DataFrame({"c": edge.astype(dtype)})
        bins = pre.KBinsDiscretizer(10, encode="ordinal", strategy=strategy).fit(frame)
        known = [bins] if bins.bin_edges_[0].dtype in (np.float16, np.float32) else []  # numpy 2 keeps the type of some
        if not known:
            with pytest.raises(dpi_export.BundleError, match="encoder of 'c'.*the cell 0.*by the type of the column.*float64 or float16 or float32"):
                dpi_export.convert_encoders({"c": bins})
        wanted = bins.transform(frame).ravel().tolist()
        for told in ((bins, 0, np.dtype(dtype).name), (bins, 0, dtype), *known):
            written(told, None, tmp_path / "b.h5")
            for way, scores in ways(tmp_path / "b.h5", frame, tmp_path).items():
                assert scores == wanted, (way, dtype)
    whole = pre.KBinsDiscretizer(4, encode="ordinal", strategy="uniform").fit(pandas.DataFrame({"c": [0, 1, 2, 8]}))
    assert dpi_export.convert_encoders({"c": whole})["c"].steps[-1]["boundaries"] == [2, 4, 6]  # the same whatever the column was
