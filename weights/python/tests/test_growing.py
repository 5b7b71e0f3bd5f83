"""grow: entries stay where they are, new ones come behind them, and a delta carries both."""

import numpy as np
import pytest
from delta_models import applied, contents

from dpi_export import Builder, Bundle, BundleError, delta, grow
from dpi_export import encoders as e


def feature_of(encoder, size=2, kind="categorical", **rules):
    """A feature as a Builder has it."""
    b = Builder("m")
    getattr(b, kind)("c", size, **{"out_of_range": "oov", "oov_id": 1, "missing": "pad", **rules}, encoder=encoder)
    return b.features[0]


def ids(feature, cells):
    return [feature["encoder"].encode_for(feature, c) for c in cells]


def test_entries_come_by_frequency_and_stay():
    f = feature_of([e.trim(), e.lower(), e.missing(["?"]), e.vocab_string([], first_id=2)])
    one, new = grow(f, ["b", " a", "A", "?", "", None, "c", "ü", "ü"])
    assert new == ["a", "ü", "b", "c"] and one["vocab_size"] == 6 and f["vocab_size"] == 2 and f["encoder"].entries() == {}
    two, more = grow(one, ["z", "z", "b", "a", "y"])
    assert more == ["z", "y"] and two["vocab_size"] == 8 and one["vocab_size"] == 6
    assert ids(two, ["a", "ü", "b", "c", "z", "y", "x", "?"]) == [2, 3, 4, 5, 6, 7, 1, 0]
    assert ids(one, ["a", "ü", "b", "c", "z"]) == [2, 3, 4, 5, 1]
    again, none = grow(two, ["a", "z", "?"])
    assert none == [] and again["encoder"].entries() == two["encoder"].entries() and again["vocab_size"] == 8


@pytest.mark.parametrize("seed", range(20))
def test_any_cuts_give_each_value_one_id_for_ever(seed):
    """Against a dictionary that is filled in the same order, for texts, integers and floats."""
    rng = np.random.default_rng(seed)
    make, steps = [(e.vocab_string, [e.trim()]), (e.vocab_int, [e.trim()]), (e.vocab_float, [e.to_float()])][seed % 3]
    ids_given = bool(rng.integers(2))
    first = int(rng.integers(2, 9))
    start = make([], ids=[]) if ids_given else make([], first_id=first)
    f, want = feature_of([*steps, start], 9), {}
    for _ in range(6):
        numbers = rng.zipf(1.5, int(rng.integers(1, 60))) % 100 - 30
        cells = [str(c) for c in (numbers / 2 if start["op"] == "vocab_float" else numbers).tolist()]
        counts = {c: cells.count(c) for c in cells if c not in want}
        kind = {"vocab_string": str.encode, "vocab_int": int, "vocab_float": float}[start["op"]]
        if ids_given and not want and counts:  # without entries and first_id the ids begin at 1, which is oov_id
            with pytest.raises(BundleError, match="oov_id is 1, and the vocabulary grows over the ids"):
                grow(f, cells)
            f = {**f, "oov_id": 0}
        for c in sorted(counts, key=lambda c: (-counts[c], kind(c))):
            want[c] = len(want) + (1 if ids_given else first)
        f, _ = grow(f, cells)
        assert ids(f, list(want)) == list(want.values()) and len(f["encoder"].entries()) == len(want)
        assert f["vocab_size"] == max(9, max(want.values()) + 1)


def test_rare_values_wait_until_they_are_frequent():
    f, new = grow(feature_of([e.vocab_int([], first_id=2)]), [5, 5, "5.0", 7, "7e0", 8, 2.5, "2.5", "x", 2**70], least=2)
    assert new == [5, 7] and ids(f, [5, 7, 8]) == [2, 3, 1]
    with pytest.raises(BundleError, match="least is 0"):
        grow(f, [1], least=0)


def test_bags_grow_by_their_elements():
    f = feature_of(e.Encoder([e.trim(), e.vocab_string(["a"], first_id=2)], splitter="^"), 3, "sequence", max_len=4)
    grown, new = grow(f, ["a^b", "c^ b", "", None, ["d", "e^b"]])
    assert new == ["b", "c", "d", "e"] and grown["encoder"].encode_bag(grown, "a^e^q") == [2, 6, 1]


def test_spare_ids_are_used_first():
    f, _ = grow(feature_of([e.vocab_string(["a"], first_id=2)], 100), ["b"])
    assert f["vocab_size"] == 100 and ids(f, ["b"]) == [3]


@pytest.mark.parametrize("encoder, rules, text", [
    ([e.vocab_string(["a"])], {"oov_id": 2}, "oov_id is 2, and the vocabulary grows over the ids 2 to 3"),
    ([e.vocab_string(["a"])], {"oov_id": 0, "missing": "default", "default_id": 2}, "default_id is 2"),
    ([e.vocab_string(["a"])], {"oov_id": 0, "pad_id": 2}, "pad_id is 2"),
    ([e.vocab_string(["a"])], {"oov_id": 0, "missing_id": 2}, "missing_id is 2"),
    ([e.hash_xxh64(3)], {}, "feature 'c': has no vocabulary that could grow"),
    ([e.to_float(), e.buckets([1.0, 2.0])], {}, "feature 'c': has no vocabulary that could grow"),
])
def test_what_cannot_grow_is_named(encoder, rules, text):
    f = feature_of(encoder, 3, **rules)
    with pytest.raises(BundleError, match=text):
        grow(f, ["b", "c"])


def test_a_missing_element_is_no_entry():
    f = feature_of(e.Encoder([e.vocab_string(["a"], first_id=2)], splitter="", missing_element=3), 4, "sequence", max_len=4)
    with pytest.raises(BundleError, match="missing_element is 3"):
        grow(f, ["a b"])


def _paths(path):
    """{feature: path of its vocabulary's data}."""
    with Bundle(path) as bundle:
        return {f["name"]: f["encoder"]["steps"][-1]["offsets"] for f in bundle.manifest["features"]}


def test_equal_vocabularies_grow_apart(tmp_path):
    """Two features begin with the same entries; one of them gets another. Without arrays of their own the delta is refused."""
    b = Builder("m")
    for name in "ab":
        b.categorical(name, 3, out_of_range="oov", oov_id=1, missing="pad", encoder=[e.vocab_string(["x"], first_id=2)])
    plain = _version(tmp_path / "plain.h5", b.features, 0)
    old = _version(tmp_path / "old.h5", [grow(f, [])[0] for f in b.features], 0)
    assert len(set(_paths(plain).values())) == 1 and len(set(_paths(old).values())) == 2
    with Bundle(old) as was:
        a, c = was.features
        new = _version(tmp_path / "new.h5", [grow(a, ["y"])[0], grow(c, ["x"])[0]], 0)
        again = _version(tmp_path / "again.h5", was.features, 0)
    assert again.read_bytes() == old.read_bytes()
    delta(old, new, tmp_path / "d.delta")
    np.testing.assert_array_equal(applied(old, tmp_path / "d.delta", contents(new)[0])["/encoders/a.offsets"], [0, 1, 2])
    with pytest.raises(BundleError, match="feature 'b' is not what it is in the base"):
        delta(plain, new, tmp_path / "d.delta")


def test_features_that_a_bundle_lets_share_a_vocabulary_go_on_sharing_it(tmp_path):
    b = Builder("m")
    for name in "ab":
        b.categorical(name, 3, out_of_range="oov", oov_id=1, missing="pad", encoder=[e.vocab_string(["x"], first_id=2)])
    old = _version(tmp_path / "old.h5", b.features, 0)
    with Bundle(old) as was:
        new = _version(tmp_path / "new.h5", [grow(f, ["y"])[0] for f in was.features], 0)
    assert _paths(new) == _paths(old)
    delta(old, new, tmp_path / "d.delta")


def _version(path, features, seed):
    b = Builder("m")
    for f in features:
        getattr(b, f["kind"])(**{k: v for k, v in f.items() if k != "kind"})
    rng = np.random.default_rng(seed)
    x = b.concat([b.embed(b.input(f["name"]), b.table(f["name"], rng.normal(size=(f["vocab_size"], 2)))) for f in features])
    b.head("ctr", b.linear(x, rng.normal(size=(1, 2 * len(features))), name="logit"), activation="none")
    b.write(path)
    return path


def test_a_chain_of_grown_bundles_is_a_chain_of_deltas(tmp_path):
    """Each version is grown from the bundle before it, as a training that starts anew every day would: by file alone."""
    b = Builder("m")
    b.categorical("word", 2, out_of_range="oov", oov_id=1, missing="pad", encoder=[e.trim(), e.vocab_string([], first_id=2)])
    b.categorical("age", 2, out_of_range="oov", oov_id=1, missing="pad", encoder=[e.vocab_int([], first_id=2)])
    cells = [{"word": ["a", "b", "b"], "age": ["40", 7]}, {"word": ["c"], "age": ["1"]}, {"word": ["b", "çé"], "age": [9, 8, 9]}]
    path = _version(tmp_path / "0.h5", [grow(f, cells[0][f["name"]])[0] for f in b.features], 0)
    for i, day in enumerate(cells[1:], 1):
        with Bundle(path) as old:
            features = [grow(f, day[f["name"]])[0] for f in old.features]
        new = _version(tmp_path / f"{i}.h5", features, i)
        delta(path, new, tmp_path / f"{i}.delta")
        made, (_, sets) = applied(path, tmp_path / f"{i}.delta", contents(new)[0]), contents(new)
        for name, array in sets.items():
            np.testing.assert_array_equal(made[name], array, err_msg=name)
        path = new
    with Bundle(path) as last:
        assert {k.decode(): v for k, v in last.features[0]["encoder"].entries().items()} == {"b": 2, "a": 3, "c": 4, "çé": 5}
        assert last.features[1]["encoder"].entries() == {7: 2, 40: 3, 1: 4, 9: 5, 8: 6}
