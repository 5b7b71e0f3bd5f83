"""The table tests/e2e/raw_values, which C, Java, Go and the program dpi run too: each case in every Python type that can hold it."""

import datetime
import decimal
import json

import numpy as np
import pytest
from drawn import ADULT, BANK, CAN, MSWEB, ROOT, anywhere, bits

import dpi

pandas = pytest.importorskip("pandas")
DATA = ROOT / "tests/e2e/raw_values/data"
CASES = json.loads((DATA / "cases.json").read_text())
UNFIT = (b"26", bytearray(b"26"), {"a": 1}, {26}, object(), 1j, datetime.date(2020, 1, 1), np.datetime64("2020-01-01"), np.bytes_(b"26"))


class Text(str):
    """A text of a type of its own."""


class Digits(decimal.Decimal):
    """A number that keeps how it was written, as json.loads(parse_float=Digits, parse_int=Digits) makes it."""

    def __new__(cls, raw):
        self = super().__new__(cls, raw)
        self.raw = raw
        return self

    def __str__(self):
        return self.raw


def integer_forms(x):
    forms = [x]
    for kind in (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64):
        if np.iinfo(kind).min <= x <= np.iinfo(kind).max:
            forms.append(kind(x))
    return forms


def forms(value):
    """The Python values that a case's value stands for."""
    (kind, raw), = value.items()
    if kind == "null":
        return [None, pandas.NA, pandas.NaT]
    if kind == "bool":
        return [raw, np.bool_(raw)]
    if kind == "text":
        return [raw, Text(raw), np.str_(raw)]
    if kind == "json":
        whole = [json.loads(raw)] if raw.lstrip("-").isdigit() and str(int(raw)) == raw else []
        plain = [decimal.Decimal(raw)] if str(decimal.Decimal(raw)) == raw else []
        return [json.loads(raw, parse_float=Digits, parse_int=Digits)] + whole + plain
    if kind in ("int", "uint"):
        return integer_forms(int(raw))
    if kind == "double":
        x = float(raw)
        with np.errstate(over="ignore"):
            return [x, np.float64(x)] + ([np.float32(x)] if float(np.float32(x)) == x or x != x else [])
    elements = [forms(e)[0] for e in raw]
    out = [elements, tuple(elements), [forms(e)[-1] for e in raw]]
    if elements and all(type(e) is int and -2**63 <= e < 2**63 for e in elements):
        out += [np.array(elements, np.int64), pandas.Series(elements)]
    return out


def counted(model, feature):
    found = dict(model.counters()["features"][feature.index])
    assert found.pop("name") == feature.name
    return found


def columns_for(value):
    """One-row columns that hold the value: a list, and arrays and Series where their type says the same."""
    columns = [[value]]
    if isinstance(value, (np.ndarray, pandas.Series, tuple, list)):
        if isinstance(value, np.ndarray):
            columns.append((value, [0, len(value)]))
        return columns
    held = np.empty(1, object)
    held[0] = value
    columns += [held, pandas.Series([value], dtype=object)]
    if type(value) in (np.int8, np.int64, np.uint64, np.float32, np.float64) or type(value) is float:
        columns += [np.array([value]), pandas.Series(np.array([value]))]
    return columns


def check(model, case, value, score):
    feature = model.feature(case["feature"])
    what = f"{case} as {type(value)} {value!r}"
    want = counted(model, feature)
    for cause, n in case["counts"].items():
        want[cause] += n
    if "score" in case:
        got = float(score()[0, model.heads.index(feature.name)])
        assert abs(got - case["score"]) <= 1.2e-7 * abs(case["score"]), what
    else:
        with pytest.raises(dpi.InvalidArgument) as caught:
            score()
        e = caught.value
        assert (e.row, e.feature) == (0, feature.index) and all(text in e.message for text in case["error"]), (what, e)
    assert counted(model, feature) == want, what


def test_the_table():
    assert len(CASES) == 1289
    runs = 0
    with dpi.Model(DATA / "raw_values.h5", device="cpu") as model, model.rows() as rows:
        for case in CASES:
            for value in forms(case["value"]):
                check(model, case, value, lambda: rows.clear().begin().set(case["feature"], value).predict())
                for column in columns_for(value):
                    check(model, case, value, lambda: model.predict_raw({case["feature"]: column}))
                    runs += 1
    assert runs > 3 * len(CASES)


def test_integers_by_their_own_setters():
    with dpi.Model(DATA / "raw_values.h5", device="cpu") as model, model.rows() as rows:
        def shows(head):
            score = rows.predict()[0, model.heads.index(head)]
            rows.clear().begin()
            return score

        rows.begin().set("user", 9007199254740993)
        assert shows("user") == 7
        rows.set("user", -2**63)
        assert shows("user") == 10
        rows.set("user", 2**63 - 1)
        assert shows("user") == 9
        rows.add_integers("history", [7, 9007199254740993]).set("history", 26)
        assert shows("history") == 2 + 16 * 7 + 256 * 1
        for bad in (lambda: rows.set("user", 9007199254740993.0), lambda: rows.add_integers("user", [26]),
                    lambda: rows.add_integers("history", [26], [1.0, 2.0]), lambda: rows.add_integers("history", [1.5])):
            with pytest.raises(dpi.InvalidArgument):
                bad()
        rows.set("user", 10**40)  # beyond 64 bits: its digits, which the vocabulary does not hold
        assert shows("user") == 14


def test_weights():
    with dpi.Model(DATA / "more_kinds.h5", device="cpu") as model, model.rows() as rows:
        head = model.heads.index("tags")
        rows.begin().add_integers("tags", [9007199254740993, 26], [0.5, 2])
        assert rows.predict()[0, head] == 0.5 * 3 + 2 * 1
        values, offsets, weights = [9007199254740993, 26, 26], [0, 2, 2, 3], [0.5, 2, 3]
        for form in (values, np.array(values), list(map(str, values)), np.array(values, object)):
            assert model.predict_raw({"tags": (form, offsets, weights)})[:, head].tolist() == [0.5 * 3 + 2 * 1, 0, 3]
        with pytest.raises(dpi.InvalidArgument, match="weight"):
            model.predict_raw({"tags": ([26.5], [0, 1], [1.0])})
        for ids in ([9007199254740993, 26], np.array([9007199254740993, 26])):  # without weights each counts once
            rows.clear().begin().add_integers("tags", ids)
            assert rows.predict()[0, head] == 3 + 1
        rows.clear().begin().set("tags", 26).add_text("tags", "9007199254740993", 0.25)
        assert rows.predict()[0, head] == 1 + 0.25 * 3


def test_what_fits_no_rule():
    self_holding = [None]
    self_holding[0] = self_holding
    deep = 26
    for _ in range(100000):
        deep = [deep]
    with dpi.Model(DATA / "raw_values.h5", device="cpu") as model, model.rows() as rows:
        rows.begin()
        for name in ("user", "word", "age", "history", "vector"):
            for odd in UNFIT:
                with pytest.raises(dpi.InvalidArgument, match=type(odd).__name__) as caught:
                    rows.set(name, odd)
                assert caught.value.row == 0 and caught.value.feature == model.feature(name).index
        for name in ("user", "age", "history", "vector"):
            for nested in (self_holding, deep, [[26]], np.ones((1, 1), int)):
                with pytest.raises(dpi.InvalidArgument) as caught:
                    rows.set(name, nested)
                assert caught.value.message.startswith(f"row 0, feature '{name}': "), caught.value
        with pytest.raises(dpi.InvalidArgument, match="UTF-8"):
            rows.set("word", "\ud800")
        with pytest.raises(dpi.InvalidArgument, match="UTF-8"):
            rows.set("history", ["1", "\ud800"])
        with pytest.raises(dpi.NotFound, match="nobody"):
            rows.set("nobody", 1)
        while type(deep) is list:  # taken apart by hand: the interpreter would do so recursively
            deep = deep[0]


def test_columns_that_fit_no_rule():
    with dpi.Model(DATA / "raw_values.h5", device="cpu") as model:
        cases = [({"user": [1], "age": [1, 2]}, "feature 'age': a column of 2 rows, expected 1, as column 'user' has$"), ({"user": "26"}, "no column"), ({"user": 26}, "one int is no column; a single row is a list of one dict"),
                 ({"user": np.array(26)}, "no column"), ({"history": ([1, 2], [0, 1])}, "rising"), ({"history": ([1],)}, "tuple of 1"),
                 ({"history": ([1, 2], [0, 2, 1, 2])}, "rising"), ({"user": np.array(["2020-01-01"], "M8[D]")}, "datetime64"),
                 ([1, 2], "no columns"), ("text", "no columns"), ({"history": ([1], [0, 1], [1.0, 2.0])}, "2 weights")]
        for data, text in cases:
            with pytest.raises(dpi.InvalidArgument, match=text):
                model.predict_raw(data)
        names = ", ".join(f"'{f.name}'" for f in model.features[:8]) + (f" and {len(model.features) - 8} more" if len(model.features) > 8 else "")
        for name, meant in (("label", ""), ("usr", " (did you mean 'user'?)")):
            with pytest.raises(dpi.NotFound) as caught:
                model.predict_raw({"age": [1], name: [0]})
            assert caught.value.message == (f"the model has no feature '{name}'{meant}; extra='ignore' leaves out columns that are no features; its features "
                                            f"are {names}")
        with pytest.raises(dpi.InvalidArgument, match="extra"):
            model.predict_raw({}, extra="maybe")
        assert len(model.predict_raw({"user": [1], "label": [0]}, extra="ignore")) == 1
        assert model.predict_raw({}).shape == (0, model.info.heads) and len(model.predict_raw([{}, {}])) == 2
        with pytest.raises(dpi.InvalidArgument) as caught:
            model.predict_raw({"age": [1, 2, "lots"]})
        assert (caught.value.row, caught.value.feature) == (2, model.feature("age").index)
        with pytest.raises(dpi.InvalidArgument, match="'user' is there twice"):
            model.predict_raw(pandas.DataFrame([[1, 2]], columns=["user", "user"]))
        with pytest.raises(dpi.InvalidArgument, match="row 1, feature 'user': a bytes"):
            model.predict_raw({"user": [1, b"x", 3]})

        class Clears(decimal.Decimal):
            """Empties the column while it is read."""

            def __str__(self):
                column.clear()
                return "26"

        column = [Clears(26), 1, 2]
        with pytest.raises(dpi.InvalidArgument, match="changed its length"):
            model.predict_raw({"user": column})


def test_shapes_that_fit_no_feature_are_told():
    """What was given, what the feature takes."""
    with dpi.Model(DATA / "raw_values.h5", device="cpu") as model:
        dim = model.feature("vector").dim
        cases = [({"age": np.ones((2, 3))}, "row 0, feature 'age': .*list"), ({"user": [[1, 2]]}, "row 0, feature 'user': .*list"),
                 ({"vector": np.ones((2, dim + 1), np.float32)}, f"feature 'vector': .*{dim + 1}.* expected .*{dim}"),
                 ({"vector": [[1.0] * (dim + 1)]}, f"row 0, feature 'vector': .*{dim + 1}.* expected .*{dim}"),
                 ({"vector": [1.0]}, f"row 0, feature 'vector': a float is no dense vector, which is a list of {dim} numbers")]
        for data, says in cases:
            with pytest.raises(dpi.InvalidArgument, match=says):
                model.predict_raw(data)


def test_vectors_and_shared_rows():
    with dpi.Model(DATA / "more_kinds.h5", device="cpu") as model, model.rows() as rows:
        rows.begin_shared().begin()
        with pytest.raises(dpi.InvalidArgument, match="encoder"):
            rows.set("scaled", [1, 2])
        for odd in ({}, [26]):
            with pytest.raises(dpi.InvalidArgument) as caught:
                rows.set("user", odd)
            assert caught.value.in_shared and caught.value.row == 0 and caught.value.message.startswith("shared row 0, feature 'user'")
        rows.set_floats("scaled", [1, 2])
        assert rows.predict()[0, model.heads.index("scaled")] == 3
        with pytest.raises(dpi.InvalidArgument, match="shared row 1, feature 'user'") as caught:
            model.predict_raw({"tags": [[], []]}, shared={"user": [26, b"x"]}, shared_offsets=[0, 1, 2])
        assert caught.value.in_shared and caught.value.row == 1
        with pytest.raises(dpi.InvalidArgument, match="shared part"):
            model.predict_raw({"user": [26]}, shared={"user": [26]})
        with pytest.raises(dpi.InvalidArgument, match="item part"):
            model.predict_raw({}, shared={"tags": [[26]]})


def test_vectors_by_every_form():
    with dpi.Model(DATA / "raw_values.h5", device="cpu") as model:
        dim = model.feature("vector").dim
        plain = np.arange(3 * dim, dtype=np.float32).reshape(3, dim) / 8
        want = model.predict_raw({"vector": plain})
        for form in (plain.tolist(), plain.astype(float), list(plain), [tuple(map(decimal.Decimal, map(str, row))) for row in plain.tolist()]):
            assert np.array_equal(bits(model.predict_raw({"vector": form})), bits(want))
        assert np.array_equal(bits(model.predict_raw({"vector": [None]})), bits(model.predict_raw([{}])))
        with pytest.raises(dpi.InvalidArgument, match="element 0 is no number but a str"):
            model.predict_raw({"vector": [["1"] * dim]})


def test_columns_in_the_middle_of_bytes():
    with dpi.Model(DATA / "raw_values.h5", device="cpu") as model, model.rows() as rows:
        dim, ends = model.feature("vector").dim, np.array([0, 2, 3, 3])
        columns = {"user": np.array([26, 7, -2**63]), "vector": np.arange(3 * dim, dtype=np.float32).reshape(3, dim)}
        bags, weights = np.array([7, 26, 7]), np.array([1, 1, 1], np.float32)
        want = model.predict_raw({**columns, "history": (bags, ends)})
        moved = {name: anywhere(column) for name, column in columns.items()}
        assert np.array_equal(bits(model.predict_raw({**moved, "history": (anywhere(bags), anywhere(ends))})), bits(want))
        for kind in (np.uint64, np.float64):
            users = np.array([26, 7, 1], kind)
            assert np.array_equal(bits(model.predict_raw({"user": anywhere(users)})), bits(model.predict_raw({"user": users})))
        rows.begin().add_integers("history", anywhere(bags), anywhere(weights)).set_floats("vector", anywhere(columns["vector"][0]))
        row = model.predict_raw({"history": [bags.tolist()], "vector": columns["vector"][:1]})
        assert np.array_equal(bits(rows.predict()), bits(row))


def test_shared_rows_score_as_whole_rows():
    with dpi.Model(DATA / "more_kinds.h5", device="cpu") as model:
        users, tags, starts = [26, 9007199254740993], [["26"], [], ["9007199254740993", "26"]], [0, 2, 3]
        split = model.predict_raw({"tags": tags}, shared={"user": users}, shared_offsets=starts)
        whole = model.predict_raw({"tags": tags, "user": [users[0], users[0], users[1]]})
        assert np.array_equal(bits(split), bits(whole)) and len({x for x in whole[:, model.heads.index("user")]}) == 2
        one = model.predict_raw({"tags": tags}, shared=[{"user": users[0]}])
        assert np.array_equal(bits(one[:2]), bits(whole[:2]))
        for bad in ([0, 3], [1, 2, 3], [0, 2, 2], [0, 3, 2, 3], []):
            with pytest.raises(dpi.InvalidArgument, match="shared_offsets"):
                model.predict_raw({"tags": tags}, shared={"user": users}, shared_offsets=bad)


@pytest.mark.parametrize("bundle, table", [(ADULT, "adult"), (BANK, "bank"), (MSWEB, "msweb"), (CAN, "msweb")])
def test_data_frames(bundle, table):
    """A frame as pandas reads it, numbers as numbers, scores as the texts of the file do."""
    path = ROOT / f"weights/demo/{table}_test.csv"
    with dpi.Model(bundle) as model:
        texts = pandas.read_csv(path, dtype=str, keep_default_na=False, nrows=500)
        frame = pandas.read_csv(path, nrows=500, keep_default_na=False)
        if table == "msweb":
            texts["history"] = texts["history"].str.split("|")
            frame["history"] = [[int(x) for x in h] if h != [""] else [] for h in texts["history"]]
        want = model.predict_raw(texts, extra="ignore")
        assert np.array_equal(bits(model.predict_raw(frame, extra="ignore")), bits(want))
        assert np.array_equal(bits(model.predict_raw(frame.convert_dtypes(), extra="ignore")), bits(want))
        text_columns = [c for c in frame if frame[c].dtype == object and c != "history"]
        assert np.array_equal(bits(model.predict_raw(frame.astype({c: "category" for c in text_columns}), extra="ignore")), bits(want))
        assert np.array_equal(bits(model.predict_raw(frame.iloc[::-1], extra="ignore")), bits(want[::-1].copy()))
        if table == "msweb":
            flat = [int(x) for h in frame["history"] for x in h]
            ends = np.concatenate([[0], np.cumsum([len(h) for h in frame["history"]])])
            bags = {"history": (np.array(flat), ends), "area": frame["area"], "visits": frame["visits"]}
            assert np.array_equal(bits(model.predict_raw(bags)), bits(want))


def test_missing_values_of_pandas():
    with dpi.Model(ADULT) as model:
        want = model.predict_raw({"age": [39, None], "workclass": ["Private", None]})
        for frame in (pandas.DataFrame({"age": [39, np.nan], "workclass": ["Private", np.nan]}),
                      pandas.DataFrame({"age": pandas.array([39, None], "Int64"), "workclass": pandas.array(["Private", None], "string")}),
                      pandas.DataFrame({"age": pandas.Categorical([39, None]), "workclass": pandas.Categorical(["Private", None])})):
            assert np.array_equal(bits(model.predict_raw(frame)), bits(want))
