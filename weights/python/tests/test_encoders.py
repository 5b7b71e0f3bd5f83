"""Encoder steps against numpy, xxhash, scikit-learn and published hash values; conversion; statistics."""

import math

import numpy as np
import pytest
import xxhash

from dpi_export import Bundle, Builder, BundleError, Encoder, convert_encoders, training_stats
from dpi_export import encoders as e
from dpi_export.encoders import MISSING, OOV
from dpi_export.encoding.murmur3 import murmur3_32

preprocessing = pytest.importorskip("sklearn.preprocessing")


def encode(steps, raw):
    return Encoder(steps).encode(raw)


def test_text_steps():
    assert encode([e.trim(), e.lower(), e.vocab_string(["ab"])], "  AB\t") == 1
    assert encode([e.upper(), e.vocab_string(["Ä", "Ab", "AB"])], "ab") == 3
    assert encode([e.upper(), e.vocab_string(["ä"])], "ä") == 1  # ASCII case only
    assert encode([e.trim(), e.vocab_string(["x"])], "   ") is MISSING
    assert encode([e.trim(), e.missing(["?", "NA"]), e.to_float()], " ? ") is MISSING
    assert encode([e.vocab_string(["a", "b"], ids=[7, 3])], "b") == 3
    assert encode([e.vocab_string(["a"])], "z") is OOV
    for raw in ("", None, float("nan")):
        assert encode([e.vocab_string(["a"])], raw) is MISSING


def test_integers():
    steps = [e.vocab_int([5, -3], first_id=0)]
    assert [encode(steps, r) for r in ("5", "-3", 5, -3.0, np.int64(5))] == [0, 1, 0, 1, 0]
    assert encode(steps, "6") is OOV and encode(steps, "x") is OOV and encode(steps, 5.5) is OOV
    assert encode([e.vocab_string(["17", "2.5"])], 17.0) == 1 and encode([e.vocab_string(["17", "2.5"])], 2.5) == 2
    assert encode([e.to_id()], "12") == 12
    for raw in ("1.5", "x", 1.5, " 1"):
        with pytest.raises(BundleError, match="not an integer"):
            encode([e.to_id()], raw)


def test_hashes():
    # Published values of MurmurHash3_x86_32.
    for data, seed, want in ((b"", 0, 0), (b"", 1, 0x514E28B7), (b"test", 0, 0xBA6BD213), (b"test", 0x9747B28C, 0x704B81DC),
                             (b"Hello, world!", 0, 0xC0363E43), (b"The quick brown fox jumps over the lazy dog", 0, 0x2E4FF723)):
        assert murmur3_32(data, seed) == want
    assert encode([e.hash_xxh64(1000, seed=7, offset=1)], "köln") == 1 + xxhash.xxh64_intdigest("köln".encode(), 7) % 1000
    assert encode([e.hash_murmur3(97)], "test") == 0xBA6BD213 % 97


def test_numbers():
    for raw in ("1.5", " 1.5"[1:], "+1.5", "15e-1", "1.5E0"):
        assert encode([e.to_float()], raw) == 1.5
    for raw in ("1,5", "0x10", "nan", "inf", "1e999", "1_0", " 1"):
        with pytest.raises(BundleError, match="not a decimal number"):
            encode([e.to_float()], raw)
    assert encode([e.to_float(), e.log1p()], "3") == math.log1p(3)
    assert encode([e.to_float(), e.signed_log1p()], "-3") == -math.log1p(3)
    assert encode([e.to_float(), e.clip(-1, 2)], "7") == 2
    x = np.linspace(-2, 5, 43)
    for right in (False, True):
        got = [encode([e.to_float(), e.buckets([-1, 0, 0, 2.5], right, 3)], repr(float(v))) for v in x]
        assert got == (3 + np.digitize(x, [-1, 0, 0, 2.5], right)).tolist()


def test_scikit_learn():
    rng = np.random.default_rng(2)
    x = rng.normal(3, 2, (200, 2))
    x[:, 1] = 4
    for scaler in (preprocessing.StandardScaler(), preprocessing.StandardScaler(with_mean=False), preprocessing.MinMaxScaler((-1, 3)),
                   preprocessing.MinMaxScaler(clip=True), preprocessing.StandardScaler(with_std=False)):
        want = scaler.fit(x).transform(x)
        for c in range(2):
            encoder = convert_encoders({"f": (scaler, c)})["f"]
            np.testing.assert_allclose([encoder.encode(repr(float(v))) for v in x[:, c]], want[:, c], atol=1e-12)
    for strategy in ("uniform", "quantile"):
        bins = preprocessing.KBinsDiscretizer(7, encode="ordinal", strategy=strategy).fit(x[:, :1])
        probe = np.concatenate([x[:, :1], bins.bin_edges_[0][:, None], [[-99], [99]]])
        encoder = convert_encoders({"f": bins})["f"]
        assert [encoder.encode(float(v)) for v in probe[:, 0]] == bins.transform(probe)[:, 0].astype(int).tolist()
    words = np.array(["red", "blue", "green", "blue"])
    label = preprocessing.LabelEncoder().fit(words)
    encoder = convert_encoders({"f": label})["f"]
    assert [encoder.encode(str(w)) for w in words] == label.transform(words).tolist() and encoder.encode("pink") is OOV
    ordinal = preprocessing.OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=9).fit([[3, 1], [7, 2], [5, 2]])
    encoder = convert_encoders({"f": (ordinal, 0)})["f"]
    assert [encoder.encode(v) for v in ("3", 5, 7.0)] == [0, 1, 2] and encoder.suggested == {"out_of_range": "oov", "oov_id": 9}


def test_conversion_refusals():
    for value, text in ((preprocessing.LabelEncoder(), "not fitted"), (preprocessing.QuantileTransformer(), "give no encoder"),
                        (preprocessing.KBinsDiscretizer(3).fit([[1], [2], [3], [4]]), "ordinal"),
                        (preprocessing.StandardScaler().fit([[1, 2], [3, 4]]), "2 columns")):
        with pytest.raises(BundleError, match=f"encoder of 'f'.*{text}"):
            convert_encoders({"f": value})


@pytest.mark.parametrize("feature, steps, text", [
    ({"kind": "categorical", "vocab_size": 3}, [e.vocab_string(["a", "b", "c"])], "ids 1 to 3"),
    ({"kind": "categorical", "vocab_size": 9}, [e.to_float()], "needs an id"),
    ({"kind": "numeric"}, [e.log1p()], "reads number"), ({"kind": "numeric"}, [e.to_float(), e.trim()], "reads text"),
    ({"kind": "categorical", "vocab_size": 9}, [e.hash_xxh64(10)], "ids 0 to 9")])
def test_encoders_must_fit(feature, steps, text):
    with pytest.raises(BundleError, match=text):
        Encoder(steps).check({"name": "f", **feature})


@pytest.mark.parametrize("step, text", [
    ({"op": "stem"}, "not known"), ({"op": "trim", "side": 1}, "'side'"), ({"op": "clip", "lo": 2.0, "hi": 1.0}, "no sense"),
    ({"op": "standard", "mean": 0.0, "std": 0.0}, "no sense"), ({"op": "standard", "mean": 0.0}, "missing"),
    ({"op": "hash", "algorithm": "md5", "seed": 0, "modulus": 5, "offset": 0}, "no sense")])
def test_steps_refused(step, text):
    with pytest.raises(BundleError, match=text):
        Encoder([step])


def test_rules_after_encoding(tmp_path):
    b = Builder("m")
    b.categorical("f", 9, out_of_range="oov", oov_id=8, missing="default", default_id=7, encoder=[e.vocab_string(["a", "ü"])])
    b.numeric("n", missing="default", default=0.25, encoder=[e.to_float(), e.standard(2.0, 4.0)])
    b.table("t", np.zeros((9, 1)))
    b.head("h", b.add(b.embed(b.input("f"), "t"), b.input("n")))
    b.write(tmp_path / "a.h5")
    with Bundle(tmp_path / "a.h5") as q:
        f, n = q.features
        assert [f["encoder"].encode_for(f, raw) for raw in ("ü", "z", "")] == [2, 8, 7]
        assert [float(n["encoder"].encode_for(n, raw)) for raw in ("4", "")] == [0.5, 0.25]


def test_training_stats():
    b = Builder("m")
    b.categorical("f", 9, out_of_range="oov", oov_id=8, encoder=[e.vocab_string(["a"])])
    b.numeric("n", encoder=[e.to_float()])
    f, n = b.features
    assert training_stats(f, ["a", "b", "", "a"]) == {"missing_rate": 0.25, "oov_rate": 0.25}
    stats = training_stats(n, [str(k) for k in range(101)] + [""], quantiles=(0.5,))
    assert stats["quantiles"] == {"0.5": 50.0} and abs(stats["missing_rate"] - 1 / 102) < 1e-12


def test_a_float_that_may_stand_for_another_integer_is_refused():
    names = [[e.vocab_int([2**53, 2**53 + 1])], [e.hash_xxh64(100)], [e.vocab_string([str(2**53)])], [e.to_id()]]
    for steps in names:
        for raw in (2.0**53, float(2**53 + 1), -2.0**60, np.float64(1e300), float("inf")):
            with pytest.raises(BundleError, match="2\\*\\*53"):
                encode(steps, raw)
        encode(steps, 2.0**53 - 1)
    assert [encode(names[0], v) for v in (2**53, 2**53 + 1, str(2**53 + 1))] == [1, 2, 2]
    assert encode([e.to_float(), e.buckets([0.0, 1e20])], 1e30) == 2
