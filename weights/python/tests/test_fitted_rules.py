"""Fitted objects of scikit-learn under a rule for unknown and missing values: what the object knows has its id, the rest has the rule's.

The oracle is the object's own transform, asked here, of each value that it knows."""

import datetime

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pre = pytest.importorskip("sklearn.preprocessing")
from sklearn.impute import SimpleImputer  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402

from dpi_export import Bundle, BundleError, UnsupportedModelError, encoders, from_torch  # noqa: E402
from dpi_export.bundle.raw_golden import encode_column, settled  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:nothing shows")
nn = torch.nn
SIZE, UNKNOWN, MISSING = 6, 4, 5
RULES = {"none": {}, "unknown": {"out_of_range": "oov", "oov_id": UNKNOWN}, "missing": {"missing": "default", "default_id": MISSING},
         "both": {"out_of_range": "oov", "oov_id": UNKNOWN, "missing": "default", "default_id": MISSING}}


class Net(nn.Module):
    """One feature: an id, a bag of ids, or a number."""

    def __init__(self, kind="categorical"):
        super().__init__()
        self.kind, self.table, self.out = kind, nn.Embedding(SIZE, 3), nn.Linear(1 if kind == "numeric" else 3, 1)

    def forward(self, c):
        x = c[:, None] if self.kind == "numeric" else self.table(c)
        return self.out(x.sum(1) if self.kind == "sequence" else x).squeeze(-1)


def column(values, dtype=None):
    return np.array(values, dtype)[:, None]


def exported(path, encoder, kind="categorical", raw=None, **rules):
    """The feature of a written bundle."""
    example = torch.randn(4) if kind == "numeric" else torch.zeros((4, 3) if kind == "sequence" else 4, dtype=torch.int64)
    size = {} if kind == "numeric" else {"vocab_size": SIZE}
    from_torch(Net(kind), path, example={"c": example}, rows=None if raw is None else {"c": example}, raw=raw,
               features={"c": {"kind": kind, **size, **rules}}, encoders={"c": encoder})
    with Bundle(path) as bundle:
        return bundle.features[0]


#: texts, numbers and truth values, each with values that are unknown; "Romeo" and "R" are cut of and from "Rome"
VALUES = {"texts": (["Oslo", "Riga", "Rome"], ["never seen", "Romeo", "R", "oslo"]), "one letter": (["n", "o"], ["never seen", "", "oo"]),
          "integers": ([3, 5, 9], [4, 10**12]), "beyond 2^53": ([2**53 + 1, 2**60 + 1, 5], [2**53, 2**60]), "floats": ([0.5, 1.5], [2.5, 1e300]),
          "uint64": (np.array([2**62 + 1, 7], np.uint64), [8, 2**62]), "truths": ([True, False], [])}


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
@pytest.mark.parametrize("kind", ["label", "ordinal", "one hot"])
@pytest.mark.parametrize("name", VALUES)
def test_a_strict_object_under_a_rule(name, kind, rules, tmp_path):
    known, unknown = VALUES[name]
    make = {"label": lambda v: pre.LabelEncoder().fit(v), "ordinal": lambda v: pre.OrdinalEncoder().fit(column(v)),
            "one hot": lambda v: pre.OneHotEncoder(categories=[sorted(v)]).fit(column(v))}[kind]
    feature = exported(tmp_path / "m.h5", make(known), **rules)
    want = {v: k for k, v in enumerate(sorted(known))}  # what all three of them give
    assert [feature["encoder"].encode_for(feature, v) for v in known] == [want[v] for v in known]
    assert pre.LabelEncoder().fit(known).transform(known).tolist() == [want[v] for v in known]
    for cells, key, at in ((unknown, "out_of_range", UNKNOWN), ([None, "", np.nan], "missing", MISSING)):
        for cell in cells:
            if cell == "" and key == "out_of_range":
                continue
            if key in rules:
                assert encode_column(feature, [cell]) == [at]
            else:
                with pytest.raises(BundleError):
                    encode_column(feature, [cell])


@pytest.mark.parametrize("given", [-1, UNKNOWN, np.nan], ids=["-1", "the rule's", "NaN"])
@pytest.mark.parametrize("what", ["unknown", "missing"])
def test_an_id_that_no_model_looks_up_is_the_rules(what, given, tmp_path):
    """unknown_value and encoded_missing_value of -1 or NaN stand for no row."""
    keys = {"handle_unknown": "use_encoded_value", "unknown_value": given} if what == "unknown" else {"encoded_missing_value": given}
    fitted = pre.OrdinalEncoder(**keys).fit(column(["a", "b", np.nan], object))
    rules = {"out_of_range": "oov", "oov_id": UNKNOWN, "missing": "default", "default_id": 2 if what == "unknown" and given == -1 else UNKNOWN}
    if what == "unknown":
        rules["default_id"] = MISSING  # the default of encoded_missing_value is NaN
    feature = exported(tmp_path / "m.h5", fitted, **rules)
    assert encode_column(feature, ["a", "b", "zz", ""]) == [0, 1, UNKNOWN, MISSING if what == "unknown" else UNKNOWN]


@pytest.mark.parametrize("kind", ["categorical", "sequence"])
def test_an_encoders_own_rule_is_the_features(kind, tmp_path):
    fitted = pre.OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=UNKNOWN, encoded_missing_value=3)
    feature = exported(tmp_path / "m.h5", fitted.fit(column(["a", "b", np.nan], object)), kind, **({"pad_id": 5} if kind == "sequence" else {}))
    told = {key: feature.get(key) for key in ("out_of_range", "oov_id", "missing", "default_id")}
    assert told == {"out_of_range": "oov", "oov_id": UNKNOWN, **({"missing": "default", "default_id": 3} if kind == "categorical" else
                                                                   {"missing": "pad", "default_id": None})}
    again = exported(tmp_path / "n.h5", fitted, out_of_range="error", missing="error")  # the caller's rules come before
    assert "out_of_range" not in again and "missing" not in again


def test_another_row_than_the_librarys_is_refused(tmp_path):
    fitted = pre.OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=2).fit(column(["a", "b"], object))
    with pytest.raises(UnsupportedModelError, match="'c'.*never seen.*the library's transform gives \\[2\\]"):
        exported(tmp_path / "m.h5", fitted, **RULES["unknown"])
    label = pre.LabelEncoder().fit(np.array(["a", "b"], object))
    encoder = encoders.Encoder([encoders.vocab_string(["a", "b", "zz"], first_id=0)])
    encoder.transform = lambda cells: label.transform(cells).tolist()
    with pytest.raises(UnsupportedModelError, match="'c'.*transform fails.*zz"):
        exported(tmp_path / "m.h5", encoder, **RULES["both"])


NUMBERS = np.random.default_rng(3).normal(50, 7, (60, 1))
HOLES = np.where(np.arange(60)[:, None] % 7 == 0, np.nan, NUMBERS)
ROWS_OF_NUMBERS = {
    "robust": (pre.RobustScaler(), NUMBERS), "robust, no centre": (pre.RobustScaler(with_centering=False), NUMBERS),
    "robust, no scale": (pre.RobustScaler(with_scaling=False), NUMBERS), "greatest magnitude": (pre.MaxAbsScaler(), NUMBERS),
    "logarithm": (pre.FunctionTransformer(np.log1p), NUMBERS), "mean": (SimpleImputer(), HOLES),
    "mean, standard": (make_pipeline(SimpleImputer(), pre.StandardScaler()), HOLES),
    "median, logarithm, range": (make_pipeline(SimpleImputer(strategy="median"), pre.FunctionTransformer(np.log1p), pre.MinMaxScaler()), HOLES),
    "logarithm, standard, range": (make_pipeline(pre.FunctionTransformer(np.log1p), pre.StandardScaler(), "passthrough", pre.MinMaxScaler()), NUMBERS),
}


@pytest.mark.parametrize("name", ROWS_OF_NUMBERS)
def test_scalers_and_pipelines_of_numbers(name, tmp_path):
    fitted, values = ROWS_OF_NUMBERS[name]
    fitted.fit(values)
    feature = exported(tmp_path / "m.h5", fitted, "numeric")
    cells = ["" if v != v else repr(float(v)) for v in values[:, 0]]
    got, want = settled(feature, encode_column(feature, cells)), fitted.transform(values)[:, 0]
    assert np.all(np.abs(np.array(got) - want) <= 1e-6 * np.maximum(1, np.abs(want)))


@pytest.mark.parametrize("last", [pre.OrdinalEncoder(), pre.OneHotEncoder(handle_unknown="ignore")], ids=["ordinal", "one hot"])
@pytest.mark.parametrize("how", [{"strategy": "most_frequent"}, {"strategy": "constant", "fill_value": "none"}], ids=["frequent", "constant"])
def test_pipelines_of_texts(last, how, tmp_path):
    values = column(["a", "b", "b", np.nan], object)
    fitted = make_pipeline(SimpleImputer(**how), last).fit(values)
    feature = exported(tmp_path / "m.h5", fitted, **RULES["unknown"])
    out = fitted.transform(values)
    want = out[:, 0].tolist() if out.shape[1] == 1 else out.toarray().argmax(axis=1).tolist()
    assert encode_column(feature, ["a", "b", "b", "", "zz"]) == want + [UNKNOWN]


def test_one_hot_of_the_second_column():
    values = np.array([["x", 1.0], ["y", 2.0], ["z", 4.0]], object)
    fitted = pre.OneHotEncoder().fit(values)
    from dpi_export.encoding.sources import from_sklearn

    encoder = from_sklearn(fitted, 1)
    assert encoder.transform(["4", "1"]) == [encoder.encode("4"), encoder.encode("1")] == [2, 0]
    assert (fitted.transform(values).toarray()[:, 3:] == np.eye(3)).all()


REFUSED = {
    "OneHotEncoder: drop": pre.OneHotEncoder(drop="first"), "OneHotEncoder.*rare": pre.OneHotEncoder(min_frequency=2),
    "FunctionTransformer: sin is Python code": pre.FunctionTransformer(np.sin), "PowerTransformer.*give no encoder": pre.PowerTransformer(),
    "SimpleImputer as the first": make_pipeline(pre.StandardScaler(), SimpleImputer()),
    "add_indicator": make_pipeline(SimpleImputer(add_indicator=True), pre.StandardScaler()),
    "SimpleImputer: missing_values=": make_pipeline(SimpleImputer(missing_values=-1), pre.StandardScaler()),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_no_step_holds_is_refused_by_feature(text, tmp_path):
    with pytest.raises(BundleError, match=f"'c': .*{text}"):
        exported(tmp_path / "m.h5", REFUSED[text].fit(np.abs(NUMBERS)), "numeric")


def test_columns_of_one_hot_have_their_cure(tmp_path):
    fitted = pre.OneHotEncoder().fit(column(["a", "b"]))
    with pytest.raises(BundleError, match="'c': .*nn.Embedding"):
        exported(tmp_path / "m.h5", fitted, "numeric")


ODD = {"dates": np.array(["2020-01-01"] * 4, "M8[D]"), "date": [datetime.date(2020, 1, 1)] * 4, "times": [datetime.datetime(2020, 1, 1)] * 4,
       "bytes": [b"a"] * 4, "complex": [1j] * 4, "beyond 2^53": [2.0**60] * 4}


@pytest.mark.parametrize("rows", [True, False], ids=["rows", "no rows"])
@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("encoder", [pre.LabelEncoder().fit([3, 5]), pre.LabelEncoder().fit(["a"]), [encoders.vocab_int([3])],
                                     [encoders.hash_xxh64(3)]], ids=["integers", "texts", "steps", "hash"])
def test_cells_of_no_text_and_no_number_are_told_by_row_and_feature(encoder, name, rows, tmp_path):
    ids = torch.zeros(4, dtype=torch.int64)
    with pytest.raises((UnsupportedModelError, BundleError), match="row 0, feature 'c': .*give"):
        from_torch(Net(), tmp_path / "m.h5", example={"c": ids}, rows={"c": ids} if rows else None, raw={"c": ODD[name]},
                   features={"c": {"vocab_size": SIZE, **RULES["both"]}}, encoders={"c": encoder})
