"""What Builder refuses, and what it says."""

import numpy as np
import pytest

from dpi_export import Builder, BundleError, Executor, Rows


@pytest.fixture
def b():
    b = Builder("m")
    b.categorical("c", 10)
    b.sequence("s", 10)
    b.sequence("p", 10, max_len=4)
    b.sequence("w", 10, max_len=4, weighted=True)
    b.dense("x", 6)
    b.dense("u", 6, space="shared")
    b.table("t", np.zeros((10, 3)))
    b.table("few", np.zeros((9, 3)))
    for f in "cspwxu":
        b.input(f)
    b.reshape("x", [2, 3], name="x23")
    return b


OPS = {
    "vocabulary beyond table": (lambda b: b.embed("c", "few"), "vocab_size 10, table 'few' only 9 rows"),
    "no table": (lambda b: b.embed("c", "nowhere"), "table 'nowhere' does not exist"),
    "pooling of a categorical": (lambda b: b.embed("c", "t", "sum"), "needs a sequence feature"),
    "single of a sequence": (lambda b: b.embed("s", "t"), "needs a categorical feature"),
    "layout without length": (lambda b: b.embed("s", "t", "none"), "needs max_len > 0"),
    "padding without length": (lambda b: b.embed("s", "t", "sum", mask="none"), "needs max_len > 0"),
    "max nonzero": (lambda b: b.embed("p", "t", "max", mask="nonzero"), "mean or sum only"),
    "weighted max": (lambda b: b.embed("w", "t", "max"), "does not take weighted"),
    "floats as ids": (lambda b: b.embed("x", "t"), "holds floats"),
    "ids as floats": (lambda b: b.relu("c"), "holds ids"),
    "mask without length": (lambda b: b.mask("s", "id"), "max_len > 0"),
    "mask rule": (lambda b: b.mask("p", "odd"), "expected one of"),
    "weight": (lambda b: b.linear("x", np.ones((2, 5))), r"x has dims \[6\]"),
    "bias": (lambda b: b.linear("x", np.ones((2, 6)), np.ones(3)), r"bias has shape \[3\], expected \[2\]"),
    "groups": (lambda b: b.linear("x23", np.ones((5, 1, 3)), groups=5), r"expected \[.., 5 or 1, 3\]"),
    "field": (lambda b: b.linear("x", np.ones((5, 6)), axis="field"), r"\[.., 6, d\]"),
    "matmul": (lambda b: b.matmul("x23", "x23"), "inner sizes 3 and 2"),
    "matmul rank": (lambda b: b.matmul("x", "x23"), "at least 2 dims"),
    "broadcast": (lambda b: b.add("x", "x23"), "do not broadcast"),
    "unary kind": (lambda b: b.unary("cube", "x"), "expected one of"),
    "scalars": (lambda b: b.unary("leaky", "x"), "takes scalars"),
    "channel parameters": (lambda b: b.unary("prelu", "x", slope=np.ones(5)), r"expected \[6\]"),
    "dice": (lambda b: b.unary("dice", "x", alpha=np.ones(6)), "takes parameters"),
    "gamma": (lambda b: b.layer_norm("x23", np.ones(2)), r"expected \[3\] or \[2, 3\]"),
    "softmax mask": (lambda b: b.softmax("x23", "x"), "do not broadcast|does not broadcast"),
    "reduce mask": (lambda b: b.reduce("sum", "x23", "x"), "up to and including"),
    "reduce rank 1": (lambda b: b.reduce("sum", "x"), "needs keepdim"),
    "axis": (lambda b: b.reduce("sum", "x23", axis=2), "axis 2 is outside"),
    "concat": (lambda b: b.concat(["x", "x23"]), "may differ"),
    "reshape": (lambda b: b.reshape("x", [4, 2]), "cannot become"),
    "reshape -1": (lambda b: b.reshape("x", [4, -1]), "cannot become"),
    "transpose": (lambda b: b.transpose("x23", [0, 0]), "not a permutation"),
    "slice": (lambda b: b.slice("x", 2, 7), r"slice 2..7 of 6"),
    "select": (lambda b: b.index_select("x", [6]), "index 6 of 6"),
    "expand": (lambda b: b.expand("x23", [4, 2, 2]), "do not broadcast|does not expand"),
    "six dims": (lambda b: b.reshape("x", [1, 1, 1, 1, 1, 6]), "1 to 5"),
    "recurrent": (lambda b: b.recurrent("x23", b.const(np.ones(2)), np.ones((9, 3)), np.ones((6, 2))), "w_input has shape"),
    "attention": (lambda b: b.recurrent("x23", b.const(np.ones(2)), np.ones((6, 3)), np.ones((6, 2)), kind="agru"), "2 inputs"),
    "no such value": (lambda b: b.relu("nowhere"), "is not an op before it"),
    "same name": (lambda b: b.relu("x", name="x23"), "defined twice"),
    "feature": (lambda b: b.input("nowhere"), "not in the schema"),
    "unknown op": (lambda b: b.op("Conv", ["x"]), "not known"),
    "unknown attribute": (lambda b: b.op("Concat", ["x"], {"stride": 1}), "attribute 'stride' is not known"),
    "not finite": (lambda b: b.linear("x", np.full((1, 6), np.nan)), "not finite"),
    "wide head": (lambda b: b.head("h", "x"), "one element per row"),
    "ids as head": (lambda b: b.head("h", "c"), "one element per row"),
}


@pytest.mark.parametrize("name", OPS)
def test_ops_refused(b, name):
    call, text = OPS[name]
    n = len(b.ops)
    with pytest.raises(BundleError, match=text):
        call(b)
    assert len(b.ops) <= n + 1  # a helper constant may stand, the refused op does not


@pytest.mark.parametrize("keys, text", [
    ({"vocab_size": 0}, "vocab_size is 0"), ({"out_of_range": "oov"}, "oov_id is not given"),
    ({"missing": "default"}, "default_id is not given"), ({"oov_id": 10}, "oov_id is 10"), ({"pad_id": -1}, "pad_id is -1"),
    ({"space": "user"}, "space is 'user'"), ({"missing": "skip"}, "missing is 'skip'")])
def test_features_refused(keys, text):
    with pytest.raises(BundleError, match=text):
        Builder("m").categorical("f", **{"vocab_size": 10, **keys})


def test_more_features_refused():
    b = Builder("m")
    b.numeric("f")
    for call, text in ((lambda: b.numeric("f"), "twice"), (lambda: b.numeric("a\nb"), "name"), (lambda: b.dense("d", 0), "dim"),
                       (lambda: b.numeric("n", default=float("inf")), "finite"),
                       (lambda: b.numeric("n", default=3.5e38), "float32"), (lambda: b.dense("n", 2, default=True), "default is True"),
                       (lambda: b.sequence("q", 5, max_len=70000), "max_len"), (lambda: b.sequence("q", 5, keep="middle"), "keep")):
        with pytest.raises(BundleError, match=text):
            call()


@pytest.mark.parametrize("values, keys, text", [
    (np.zeros(3), {}, "expected floats"), (np.zeros((3, 2)), {"dtype": "f8"}, "dtype"), (np.zeros((0, 2)), {}, "expected 1 to"),
    (iter([]), {"rows": 3}, "both rows and dim")])
def test_tables_refused(values, keys, text):
    with pytest.raises(BundleError, match=text):
        Builder("m").table("t", values, **keys)


@pytest.mark.parametrize("value, dtype, text", [(np.nan, "f32", "not finite"), (1e30, "f16", "range of f16"), (3.4e38, "bf16", "bf16")])
def test_table_values_refused(tmp_path, value, dtype, text):
    b = Builder("m")
    b.categorical("f", 2)
    b.table("t", np.array([[0.0], [value]]), dtype=dtype)
    b.head("h", b.embed(b.input("f"), "t"))
    with pytest.raises(BundleError, match=f"table 't', rows 0..1: .*{text}"):
        b.write(tmp_path / "a.h5")


def test_spaces_and_names(b):
    assert b.space("x") == "item" and b.space("u") == "shared" and b.space(b.const([1.0])) == "constant"
    assert b.space(b.add("u", b.const(np.ones(6)))) == "shared" and b.space(b.add("x", "u")) == "item"
    assert b.input("x") == "x" and b.relu("x", module="tower") == "tower/unary_0" and b.relu("x", module="tower") == "tower/unary_1"
    w = np.ones((2, 6))
    b.linear("x", w), b.linear("x", w.copy())
    assert len({op["params"]["weight"] for op in b.ops if op["op"] == "Linear"}) == 1


def test_no_heads(b, tmp_path):
    with pytest.raises(BundleError, match="0 heads"):
        b.write(tmp_path / "a.h5")


def rows_of(**columns):
    b = Builder("m")
    b.categorical("c", 5, missing="error")
    b.numeric("n")
    b.table("t", np.arange(5.0)[:, None])
    b.head("h", b.add(b.embed(b.input("c"), "t"), b.input("n")), activation="none")
    return Executor(b).run(Rows.from_columns(b, {"c": [1], "n": [0.5], **columns}))["value"]["h"]


@pytest.mark.parametrize("columns, text", [
    ({"c": [5]}, "feature 'c', row 0: id 5"), ({"c": [-1]}, "id -1"), ({"c": [None]}, "there is no id"), ({"c": [[1, 2]]}, "2 ids"),
    ({"n": [None]}, "feature 'n', row 0: the value is missing"), ({"n": [float("inf")]}, "infinite"), ({"z": [1]}, "not a feature"),
    ({"n": [1.0, 2.0]}, "has 2 rows, expected 1")])
def test_rows_refused(columns, text):
    with pytest.raises(BundleError, match=text):
        rows_of(**columns)


def test_rows_accepted_and_counts():
    assert rows_of().tolist() == [1.5]
    b = Builder("m")
    b.sequence("s", 5, max_len=2, out_of_range="oov", oov_id=4, missing="pad")
    b.table("t", np.arange(5.0)[:, None])
    b.head("h", b.embed(b.input("s"), "t", "sum"), activation="none")
    run = Executor(b).run(Rows.from_columns(b, {"s": [[1, 2, 3], [], [9]]}))
    assert run["value"]["h"].tolist() == [3, 0, 4]
    assert run["counts"] == {"s": {"truncated": 1, "out_of_range": 1}}


def test_shared_rows_equal_repeated_rows():
    rng = np.random.default_rng(5)
    b = Builder("m")
    b.dense("u", 4, space="shared")
    b.sequence("h", 9, space="shared", missing="pad")
    b.dense("i", 4)
    b.table("t", rng.normal(size=(9, 4)))
    x = b.concat([b.mul("u", "i") if "u" in b.graph else b.mul(b.input("u"), b.input("i")), b.embed(b.input("h"), "t", "mean")])
    b.head("s", b.sigmoid(b.linear(x, rng.normal(size=(1, 8)))))
    u, h, i, counts = rng.normal(size=(3, 4)), [[1, 2], [], [3]], rng.normal(size=(6, 4)), [4, 0, 2]
    shared = Executor(b).run(Rows.from_columns(b, {"u": u, "h": h, "i": i}, shared_counts=counts))
    repeat = np.repeat(np.arange(3), counts)
    flat = Executor(b).run(Rows.from_columns(b, {"u": u[repeat], "h": [h[k] for k in repeat], "i": i}))
    np.testing.assert_array_equal(shared["value"]["s"], flat["value"]["s"])
    blocks = Executor(b).run(Rows.from_columns(b, {"u": u[repeat], "h": [h[k] for k in repeat], "i": i}), block=2)
    np.testing.assert_array_equal(blocks["value"]["s"], flat["value"]["s"])
