"""encoders= of the importers: scikit-learn objects and a FeatureProcessor's parts, against their own transform."""

from types import SimpleNamespace

import numpy as np
import pytest

from dpi_export import BundleError, Encoder
from dpi_export.encoding.sources import convert_encoders, from_sklearn
from dpi_export.encoders import MISSING, OOV, to_float, trim

pre = pytest.importorskip("sklearn.preprocessing")

RNG = np.random.default_rng(5)
NUMBERS = (RNG.standard_normal(50) * 7 + 3)


@pytest.mark.parametrize("values", [["b", "a", "ä", "a"], [7, -3, 12, 7]], ids=["texts", "integers"])
def test_label_encoder(values):
    fitted = pre.LabelEncoder().fit(values)
    encoder = from_sklearn(fitted)
    assert [encoder.encode(str(v)) for v in values] == fitted.transform(values).tolist()
    assert encoder.encode("unseen") is OOV and encoder.encode("") is MISSING


def test_ordinal_encoder_by_column_name():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"city": ["x", "y", "x"], "age": [3, 1, 2]})
    fitted = pre.OrdinalEncoder().fit(frame)
    sources = convert_encoders(fitted)
    assert list(sources) == ["city", "age"]
    for name in frame:
        got = [sources[name].encode(str(v)) for v in frame[name]]
        assert got == fitted.transform(frame)[:, list(frame).index(name)].tolist()
    assert convert_encoders({"age": fitted})["age"].encode("2") == 1
    assert convert_encoders({"years": (fitted, 1)})["years"].encode("2") == 1
    with pytest.raises(BundleError, match="'other'.*2 columns"):
        convert_encoders({"other": fitted})


def _missing_categories():
    return pre.OrdinalEncoder().fit(np.array([["a"], [None], ["b"]], dtype=object))


def test_missing_category_is_left_out():
    fitted = _missing_categories()
    encoder = from_sklearn(fitted)
    assert [encoder.encode(v) for v in ("a", "b", "")] == [0, 1, MISSING]


SCALERS = [pre.StandardScaler(), pre.StandardScaler(with_mean=False), pre.StandardScaler(with_std=False), pre.MinMaxScaler(),
           pre.MinMaxScaler(feature_range=(-1, 3)), pre.MinMaxScaler(clip=True)]


@pytest.mark.parametrize("scaler", SCALERS, ids=str)
def test_scalers(scaler):
    scaler.fit(NUMBERS[:30, None])
    encoder = from_sklearn(scaler)
    got = [encoder.encode(repr(float(v))) for v in NUMBERS]
    assert np.abs(np.array(got) - scaler.transform(NUMBERS[:, None])[:, 0]).max() <= 1e-12


def test_scalers_of_a_constant_column():
    for scaler in (pre.StandardScaler(), pre.MinMaxScaler()):
        scaler.fit(np.full((4, 1), 2.5))
        assert from_sklearn(scaler).encode("4.5") == pytest.approx(scaler.transform([[4.5]])[0, 0], abs=1e-12)


def test_bins_on_and_beside_their_edges():
    fitted = pre.KBinsDiscretizer(n_bins=5, encode="ordinal", strategy="uniform").fit(NUMBERS[:, None])
    encoder, edges = from_sklearn(fitted), fitted.bin_edges_[0]
    values = np.concatenate([NUMBERS, edges, np.nextafter(edges, -1e9), [-1e6, 1e6]])
    assert [encoder.encode(repr(float(v))) for v in values] == fitted.transform(values[:, None])[:, 0].tolist()
    with pytest.raises(BundleError, match="onehot"):
        from_sklearn(pre.KBinsDiscretizer(n_bins=2).fit(NUMBERS[:, None]))


@pytest.mark.parametrize("bad, text", [(pre.QuantileTransformer(), "QuantileTransformer.*give no encoder"), (pre.RobustScaler(), "not fitted"), (pre.StandardScaler(), "not fitted"),
                                       (object(), "object")])
def test_refused(bad, text):
    with pytest.raises(BundleError, match=text):
        convert_encoders({"f": bad})


def test_no_encoders():
    assert convert_encoders(None) == {} and convert_encoders({}) == {}
    given = Encoder([trim(), to_float()])
    assert convert_encoders({"f": given})["f"] is given


def _processor(columns, specs, parts):
    return SimpleNamespace(feature_cols=columns, processor_dict=parts, feature_map=SimpleNamespace(features=specs))


def test_processor_preprocess_is_refused():
    bad = _processor([{"name": "f", "preprocess": "convert(x)"}], {"f": {"type": "numeric"}}, {})
    with pytest.raises(BundleError, match="f.*convert"):
        convert_encoders(bad)


def test_processor_fills_missing_numbers_before_scaling():
    scaler = pre.StandardScaler().fit(NUMBERS[:, None])
    part = SimpleNamespace(normalizer=scaler.transform)
    made = convert_encoders(_processor([{"name": "f", "fill_na": 4.0}], {"f": {"type": "numeric"}}, {"f::normalizer": part}))
    assert made["f"].suggested["default"] == pytest.approx(scaler.transform([[4.0]])[0, 0], rel=1e-6)
    custom = _processor([], {"f": {"type": "numeric"}}, {"f::normalizer": SimpleNamespace(normalizer=lambda x: x)})
    with pytest.raises(BundleError, match="feature .f.*lambda.*StandardScaler"):
        convert_encoders(custom)


@pytest.mark.parametrize("values, cells", [
    ([0.5, 1.0, 2.0, 37.0], ["0.5", "1", "1.0", "2e0", "37.00"]),
    ([1.0, 2.0, 3.0], ["1.0", "2", "3.0"]),
    ([7, -3, 12], ["7", "-3", "+12"]),
    (["1.0", "1", "x"], ["1.0", "1", "x"]),
], ids=["floats", "whole floats", "integers", "texts"])
def test_categories_are_read_as_they_were_fitted(values, cells):
    label = pre.LabelEncoder().fit(values)
    kind = {"f": float, "i": int, "U": str}[label.classes_.dtype.kind]
    want = label.transform([kind(c) for c in cells]).tolist()
    encoder = from_sklearn(label)
    assert [encoder.encode(c) for c in cells] == want == encoder.transform(cells)
    ordinal = pre.OrdinalEncoder().fit(np.array(values)[:, None])
    encoder = from_sklearn(ordinal)
    assert [encoder.encode(c) for c in cells] == want == encoder.transform(cells)


@pytest.mark.parametrize("code, suggested", [(np.nan, {}), (-1, {}), (9, {"missing": "default", "default_id": 9})])
def test_a_missing_float_has_the_code_that_the_library_gives(code, suggested):
    fitted = pre.OrdinalEncoder(encoded_missing_value=code).fit(np.array([[1.5], [np.nan], [4.0]]))
    encoder = from_sklearn(fitted)
    assert encoder.suggested == suggested
    assert [encoder.encode(c) for c in ("1.5", "4", "")] == [0, 1, MISSING]
    assert np.array_equal(encoder.transform(["1.5", "4", ""]), fitted.transform([[1.5], [4.0], [np.nan]])[:, 0], equal_nan=True)


def test_transform_of_one_column_beside_others():
    frame = np.array([["x", 3.0], ["y", 1.0], ["x", 2.5]], dtype=object)
    fitted = pre.OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=7).fit(frame)
    encoder = from_sklearn(fitted, 1)
    assert encoder.transform(["2.5", "99", "3.0"]) == [1, 7, 2]
    assert encoder.suggested == {"out_of_range": "oov", "oov_id": 7}
    scaler = pre.StandardScaler().fit(np.stack([NUMBERS, NUMBERS * 5 + 1], axis=1))
    encoder = from_sklearn(scaler, 1)
    assert encoder.transform(["2.5"]) == pytest.approx([encoder.encode("2.5")], rel=1e-12)


@pytest.mark.parametrize("scaler", [pre.StandardScaler(), pre.MinMaxScaler()], ids=str)
@pytest.mark.parametrize("held", [lambda s: s, lambda s: s.transform], ids=["the scaler, until 2.3.9", "its transform, since 2.3.10"])
def test_processor_normalizers_of_every_release(scaler, held):
    scaler.fit(NUMBERS[:, None])
    part = SimpleNamespace(normalizer=held(scaler))
    made = convert_encoders(_processor([{"name": "f"}], {"f": {"type": "numeric"}}, {"f::normalizer": part}))["f"]
    got = [made.encode(repr(float(v))) for v in NUMBERS]
    assert np.abs(np.array(got) - scaler.transform(NUMBERS[:, None])[:, 0]).max() <= 1e-12


def _tokenizer(vocab, **keys):
    return SimpleNamespace(vocab={**vocab, "__PAD__": 0, "__OOV__": 9}, **{"_na_value": "", "_splitter": "^", "padding": "post", **keys})


def _one_column(column, tokenizer):
    spec = {"type": column["type"]}
    return convert_encoders(_processor([{"name": "f", **column}], {"f": spec}, {"f::tokenizer": tokenizer}))["f"]


@pytest.mark.parametrize("dtype, cells, want", [
    ("float", ["1", "1.0", "2.50", "3", ""], [1, 1, 2, OOV, MISSING]), (float, ["1.0"], [1]),
    ("int", ["1", "3", "1.0", "1.5"], [1, OOV, 1, OOV]), ("str", ["a", "1", "__PAD__", "1.0"], [5, OOV, 0, OOV]),
])
def test_tokenizer_keys_by_the_columns_dtype(dtype, cells, want):
    """A shared vocabulary: FuxiCTR looks a cell up as its column's dtype makes it."""
    encoder = _one_column({"type": "categorical", "dtype": dtype}, _tokenizer({1.0: 1, 2.5: 2, "a": 5}))
    assert [encoder.encode(c) for c in cells] == want


@pytest.mark.parametrize("fill, want", [({}, 4), ({"fill_na": 2.5}, 2), ({"fill_na": 8.0}, 9)])
def test_float_columns_fill_missing_cells(fill, want):
    encoder = _one_column({"type": "categorical", "dtype": "float", **fill}, _tokenizer({1.0: 1, 2.5: 2, 0.0: 4}))
    assert encoder.suggested["default_id"] == want


@pytest.mark.parametrize("column", [{"type": "categorical", "dtype": "str"}, {"type": "sequence", "dtype": "str"}])
def test_numbers_that_texts_never_equal_are_refused(column):
    with pytest.raises(BundleError, match="'f'.*numbers.*unknown"):
        _one_column(column, _tokenizer({1: 1, 2: 2}))


@pytest.mark.parametrize("keys, cells", [
    ({}, ["a^b", "", "a^^b", "^a", "a^^", "zz^b"]), ({"_na_value": "NA"}, ["a^NA^b", "NA", "a^^b"]),
    ({"_na_value": "NA", "vocab": {"a": 1, "b": 2, "": 3}}, ["a^^b", "NA^^"]), ({"_splitter": None}, ["a b", " a\u2003b ", "", "\t"]),
    ({"_splitter": ", ", "padding": "pre"}, ["a, b", "a,b", ", a, ", ""]),
])
def test_sequences_split_as_the_tokenizer_does(keys, cells):
    tokenizer = _tokenizer(keys.get("vocab", {"a": 1, "b": 2}), **{k: v for k, v in keys.items() if k != "vocab"})
    encoder = _one_column({"type": "sequence"}, tokenizer)
    feature = {"name": "f", "kind": "sequence", "vocab_size": 10, **encoder.suggested, "encoder": encoder}
    for cell in cells:
        # Tokenizer.encode_sequence: an element that is the fill value is padding in its place.
        want = [tokenizer.vocab.get(x, 9) if x != tokenizer._na_value else 0 for x in cell.split(tokenizer._splitter)] if cell else []
        assert encoder.encode_bag(feature, cell) == want, cell
    side = tokenizer.padding
    assert encoder.suggested["pad_side"] == side and encoder.suggested["keep"] == ("last" if side == "pre" else "first")
