"""encoders= of the importers: scikit-learn objects and a FeatureProcessor's parts, against their own transform."""

from types import SimpleNamespace

import numpy as np
import pytest

from dpi_export import BundleError, Encoder
from dpi_export.encoder_sources import convert_encoders, from_sklearn
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


@pytest.mark.parametrize("bad, text", [(pre.RobustScaler(), "RobustScaler"), (pre.StandardScaler(), "not fitted"),
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
    with pytest.raises(BundleError, match="not StandardScaler"):
        convert_encoders(custom)
