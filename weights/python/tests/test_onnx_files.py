"""from_onnx: forms of inputs and outputs, files that lie, weights in files of their own, the command, explain."""

import json
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import onnx_models  # noqa: E402
import onnx_numpy  # noqa: E402
from dpi_export import Bundle, Executor, Rows, UnsupportedModelError, explain, from_onnx  # noqa: E402
from dpi_export.onnx import graph as onnx_graph  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

NAN, INF = float("nan"), float("inf")
ROWS = {"item": np.array([3, 7, 0, 8]), "price": np.array([[0.5], [-1.0], [2.0], [0.0]], np.float32)}


def small(table=None, weight=None, opset=13, price=("n", 1), item=("n",)):
    """One id, one number: sigmoid(table[item], price . weight)."""
    rng = np.random.default_rng(2)
    made = [numpy_helper.from_array(rng.normal(size=dims).astype(np.float32), name) for dims, name in (((9, 3), "item.weight"), ((4, 1), "head"))]
    table, weight = table or made[0], weight or made[1]
    nodes = [helper.make_node("Gather", ["item.weight", "item"], ["e"]), helper.make_node("Concat", ["e", "price"], ["x"], axis=1),
             helper.make_node("MatMul", ["x", "head"], ["z"], name="score"), helper.make_node("Sigmoid", ["z"], ["p"])]
    inputs = [helper.make_tensor_value_info("item", TensorProto.INT64, item), helper.make_tensor_value_info("price", TensorProto.FLOAT, price)]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("p", "z")]
    return helper.make_model(helper.make_graph(nodes, "small", inputs, outputs, [table, weight]),
                             opset_imports=[helper.make_opsetid("", opset)])


def want():
    rng = np.random.default_rng(2)
    table, weight = (rng.normal(size=s).astype(np.float32).astype(np.float64) for s in ((9, 3), (4, 1)))
    return np.concatenate([table[ROWS["item"]], ROWS["price"]], 1) @ weight


def scored(path):
    """{head: scores} of the rows."""
    with Bundle(path) as bundle:
        return Executor(bundle).run(Rows.from_columns(bundle, {"item": ROWS["item"].tolist(), "price": ROWS["price"][:, 0]}))["value"]


@pytest.mark.parametrize("form", ["path", "bytes", "proto"])
def test_forms_of_models(form, tmp_path):
    onnx.save(small(), tmp_path / "shop.onnx")
    given = {"path": tmp_path / "shop.onnx", "bytes": small().SerializeToString(), "proto": small()}[form]
    from_onnx(given, tmp_path / "m.h5", rows=ROWS)
    run = scored(tmp_path / "m.h5")
    assert sorted(run) == ["p", "z"] and np.abs(run["z"] - want()[:, 0]).max() <= 1e-6
    assert np.abs(run["p"] - 1 / (1 + np.exp(-want()[:, 0]))).max() <= 1e-6
    with Bundle(tmp_path / "m.h5") as bundle:
        assert bundle.manifest["name"] == ("shop" if form == "path" else "small") and bundle.golden["n"] == 4
        assert [t["name"] for t in bundle.tables] == ["item"]


@pytest.mark.parametrize("outputs, names", [(["p"], ["p"]), ({"p": "click", "z": "raw"}, ["click", "raw"]), (["z", "p"], ["z", "p"])])
def test_outputs(outputs, names, tmp_path):
    from_onnx(small(), tmp_path / "m.h5", outputs=outputs)
    run = scored(tmp_path / "m.h5")
    assert list(run) == names
    with pytest.raises(ValueError, match="the model has no 'q', only 'p', 'z'"):
        from_onnx(small(), tmp_path / "m.h5", outputs=["q"])


def test_a_fixed_number_of_rows_that_nothing_depends_on(tmp_path):
    """An export without dynamic_axes says one row; the graph is right for any number."""
    from_onnx(small(item=(1,), price=(1, 1)), tmp_path / "m.h5")
    assert np.abs(scored(tmp_path / "m.h5")["z"] - want()[:, 0]).max() <= 1e-6


def test_open_dims_need_a_number(tmp_path):
    with pytest.raises(ValueError, match="input 'price' leaves its dims open"):
        from_onnx(small(price=("n", "d")), tmp_path / "m.h5")
    from_onnx(small(price=("n", "d")), tmp_path / "m.h5", shapes={"price": (1,)})
    assert np.abs(scored(tmp_path / "m.h5")["z"] - want()[:, 0]).max() <= 1e-6


def test_one_matrix_with_columns(tmp_path):
    """Vocabulary sizes come from the tables that the columns are looked up in."""
    tables = [numpy_helper.from_array(np.random.default_rng(i).normal(size=(n, 2)).astype(np.float32), f"t{i}") for i, n in ((0, 5), (1, 8))]
    nodes, parts = [], []
    for i in range(2):
        nodes += [helper.make_node("Constant", [], [f"k{i}"], value=numpy_helper.from_array(np.array(i))),
                  helper.make_node("Gather", ["X", f"k{i}"], [f"c{i}"], axis=1), helper.make_node("Cast", [f"c{i}"], [f"i{i}"], to=7),
                  helper.make_node("Gather", [f"t{i}", f"i{i}"], [f"e{i}"])]
        parts.append(f"e{i}")
    nodes += [helper.make_node("Add", parts, ["s"]), helper.make_node("ReduceSum", ["s", "a"], ["y"], keepdims=1)]
    model = helper.make_model(helper.make_graph(nodes, "m", [helper.make_tensor_value_info("X", TensorProto.FLOAT, ["n", 2])],
                                                [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                                                [*tables, numpy_helper.from_array(np.array([1]), "a")]),
                              opset_imports=[helper.make_opsetid("", 13)])
    from_onnx(model, tmp_path / "m.h5", features={"user": {"columns": 0, "kind": "categorical"}, "item": {"columns": 1, "kind": "categorical"}})
    with Bundle(tmp_path / "m.h5") as bundle:
        assert [(f["name"], f["vocab_size"]) for f in bundle.features] == [("user", 5), ("item", 8)]
        got = Executor(bundle).run(Rows.from_columns(bundle, {"user": [1, 4], "item": [7, 0]}))["value"]["ctr"]
    t0, t1 = (numpy_helper.to_array(t).astype(np.float64) for t in tables)
    assert np.abs(got - (t0[[1, 4]] + t1[[7, 0]]).sum(1)).max() <= 1e-6


# -- weights in files of their own ------------------------------------------------------------------------------------
def external(location, dims=(9, 3), **more):
    """A weight that lies in a file of its own."""
    tensor = TensorProto(name="item.weight", data_type=TensorProto.FLOAT, dims=dims, data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **more}.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def test_external_data(tmp_path):
    data = np.random.default_rng(2).normal(size=(9, 3)).astype("<f4").tobytes()
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "w.bin").write_bytes(b"\0" * 64 + data)
    onnx.save(small(external("sub/w.bin", offset=64, length=108)), tmp_path / "m.onnx")
    from_onnx(tmp_path / "m.onnx", tmp_path / "m.h5")
    assert np.abs(scored(tmp_path / "m.h5")["z"] - want()[:, 0]).max() <= 1e-6
    with pytest.raises(UnsupportedModelError, match="give the path of the model"):
        from_onnx(small(external("sub/w.bin", offset=64)), tmp_path / "n.h5")


ESCAPES = ["../w.bin", "/etc/hostname", "sub/../../w.bin", "", "..\\w.bin", "C:\\w.bin", "link", "down/w.bin"]


@pytest.mark.parametrize("location", ESCAPES)
def test_external_data_outside_the_folder(location, tmp_path):
    (tmp_path / "w.bin").write_bytes(b"\0" * 108)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "link").symlink_to(tmp_path / "w.bin")
    (tmp_path / "in" / "down").symlink_to(tmp_path)
    onnx.save(small(external(location)), tmp_path / "in" / "m.onnx")
    with pytest.raises(UnsupportedModelError, match="weight 'item.weight': its file .* is not in the model's folder"):
        from_onnx(tmp_path / "in" / "m.onnx", tmp_path / "m.h5")


@pytest.mark.parametrize("keys, text", [
    ({"offset": 1}, "wants bytes 1 to 109 of 'w.bin', which has 108"), ({"length": 104}, "holds 104 bytes, its dims [9, 3] want 108"),
    ({"offset": -4}, "its offset is '-4'"), ({"offset": "9" * 30}, "its offset is '999"), ({"dims": (1 << 40, 3)}, "which has 108"),
    ({"dims": (-9, -3)}, "has dims [-9, -3]"), ({"location": "none.bin"}, "is missing"), ({"location": "."}, "is missing, or no regular file")])
def test_external_data_that_lies(keys, text, tmp_path):
    (tmp_path / "w.bin").write_bytes(b"\0" * 108)
    onnx.save(small(external(**{"location": "w.bin", **keys})), tmp_path / "m.onnx")
    with pytest.raises(UnsupportedModelError, match=re.escape(text)):
        from_onnx(tmp_path / "m.onnx", tmp_path / "m.h5")


# -- files that lie ---------------------------------------------------------------------------------------------------
def lying(**fields):
    tensor = numpy_helper.from_array(np.random.default_rng(2).normal(size=(9, 3)).astype(np.float32), "item.weight")
    for key, value in fields.items():
        if key == "dims":
            del tensor.dims[:]
            tensor.dims.extend(value)
        else:
            setattr(tensor, key, value)
    return tensor


LIES = [
    (lambda: small(lying(dims=(9, 4))), "weight 'item.weight': holds 108 bytes, its dims [9, 4] want 144"),
    (lambda: small(lying(dims=(1 << 62, 1 << 62))), "want"), (lambda: small(lying(dims=(-1, -27))), "has dims [-1, -27]"),
    (lambda: small(lying(data_type=8)), "elements of type 8 (strings"), (lambda: small(lying(data_type=99)), "elements of type 99"),
    (lambda: small(lying(data_type=1, raw_data=b"")), "holds 0 bytes"),
    (lambda: small(helper.make_tensor("item.weight", 11, (9, 3), np.zeros(27))), "is of double precision"),
    (lambda: small(numpy_helper.from_array(np.full((9, 3), np.nan, np.float32), "item.weight")), "'item.weight': holds NaN"),
    (lambda: small(weight=numpy_helper.from_array(np.full((4, 1), np.inf, np.float32), "head")), "(NaN|inf|finite)"),
    (lambda: small(opset=99), "opset 99, expected 11 to 23"), (lambda: b"", "is no ONNX model"), (lambda: b"\x0a\xff\xff\xff\xff", "is no ONNX model"),
    (lambda: small().SerializeToString()[:300], "is no ONNX model|ends|holds|gives"), (lambda: b"PK\x03\x04" * 99, "is no ONNX model")]


@pytest.mark.parametrize("make, text", LIES, ids=[t for _, t in LIES])
def test_a_file_that_lies(make, text, tmp_path):
    pattern = text if any(c in text for c in "|") else re.escape(text)
    with pytest.raises(ValueError, match=pattern):
        from_onnx(make(), tmp_path / "m.h5")
    assert not (tmp_path / "m.h5").exists()


def test_bytes_changed_at_random_never_crash(tmp_path):
    """Whatever a file's bytes are, a bundle or a ValueError comes of it."""
    data, rng, refused = small().SerializeToString(), np.random.default_rng(0), 0
    for _ in range(60):
        held = bytearray(data)
        for at in rng.integers(0, len(held), rng.integers(1, 6)):
            held[at] = rng.integers(0, 256)
        try:
            from_onnx(bytes(held), tmp_path / "m.h5")
        except (ValueError, TypeError):
            refused += 1
    assert refused > 10


def test_too_large_files_and_folders_are_refused(tmp_path, monkeypatch):
    with open(tmp_path / "large.onnx", "wb") as file:
        file.truncate(1 << 31)
    with pytest.raises(UnsupportedModelError, match="an ONNX file ends at"):
        from_onnx(tmp_path / "large.onnx", tmp_path / "m.h5")
    monkeypatch.setattr(onnx_graph, "_MAX_NODES", 3)
    with pytest.raises(UnsupportedModelError, match="4 nodes, more than 3"):
        from_onnx(small(), tmp_path / "m.h5")


def test_float16_tables_stay_so(tmp_path):
    model, half = small(), np.random.default_rng(2).normal(size=(9, 3)).astype(np.float16)
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(half, "item.weight"))
    model.graph.node.insert(1, helper.make_node("Cast", ["e"], ["f"], to=1))
    model.graph.node[2].input[0] = "f"
    from_onnx(model, tmp_path / "m.h5", rows=ROWS)
    exact = np.concatenate([half.astype(np.float64)[ROWS["item"]], ROWS["price"]], 1) @ numpy_helper.to_array(
        model.graph.initializer[1]).astype(np.float64)
    assert np.abs(scored(tmp_path / "m.h5")["z"] - exact[:, 0]).max() <= 1e-6


def test_features_are_named_where_they_are_wrong(tmp_path):
    for features, text in (({"item": {"vocab_size": 12}, "price": {}}, "fails on rows within the vocabularies.*Gather_0"),
                           ({"item": {"table": "nothing"}, "price": {}}, "'nothing' is no weight of the model"),
                           ({"item": {}}, "reads entry 0 of input 'price', which features= does not describe"),
                           ({"item": {}, "cost": {}}, "the example has no input 'cost'")):
        with pytest.raises(ValueError, match=text):
            from_onnx(small(), tmp_path / "m.h5", features=features)
    from_onnx(small(), tmp_path / "m.h5", features={"item": {"table": "item.weight", "out_of_range": "oov", "oov_id": 0}, "price": {}})
    with Bundle(tmp_path / "m.h5") as bundle:
        assert bundle.features[0]["vocab_size"] == 9 and bundle.features[0]["oov_id"] == 0


def test_bfloat16(tmp_path):
    """A table of bfloat16 is looked up and cast; arithmetic in bfloat16 is refused."""
    bits = (np.random.default_rng(2).normal(size=(9, 3)).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    model = small(TensorProto(name="item.weight", data_type=TensorProto.BFLOAT16, dims=(9, 3), raw_data=bits.astype("<u2").tobytes()))
    model.graph.node.insert(1, helper.make_node("Cast", ["e"], ["f"], to=1))
    model.graph.node[2].input[0] = "f"
    from_onnx(model, tmp_path / "m.h5")
    table = (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    exact = np.concatenate([table[ROWS["item"]], ROWS["price"]], 1) @ numpy_helper.to_array(model.graph.initializer[1]).astype(np.float64)
    assert np.abs(scored(tmp_path / "m.h5")["z"] - exact[:, 0]).max() <= 1e-6
    model.graph.node.insert(1, helper.make_node("Add", ["e", "e"], ["twice"]))
    model.graph.node[2].input[0] = "twice"
    with pytest.raises(UnsupportedModelError, match="Add_1.*computes in torch.bfloat16"):
        from_onnx(model, tmp_path / "m.h5")


# -- ONNX Runtime, where there is one ---------------------------------------------------------------------------------
class Runtime:
    """Stands in for the module onnxruntime, which Debian does not have: scores of the oracle, off by `off`."""

    __version__, off, fails, rows = "0", 0.0, False, []

    class SessionOptions:
        """Holds options."""

    class InferenceSession:
        """One model."""

        def __init__(self, model, _options, providers):
            if Runtime.fails:
                raise RuntimeError("no such opset")
            self.model = onnx.load_model_from_string(model) if isinstance(model, bytes) else onnx.load(model)

        def run(self, outputs, feed):
            Runtime.rows.append(len(feed["item"]))
            out = onnx_numpy.run(self.model, feed)
            return [(out[name] + Runtime.off).astype(np.float32) for name in outputs]


def test_onnx_runtime_is_asked_too(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", Runtime)
    monkeypatch.setattr(Runtime, "rows", [])
    from_onnx(small(), tmp_path / "m.h5")
    from_onnx(small(item=(7,), price=(7, 1)), tmp_path / "m.h5", outputs=["p"])  # a fixed number of rows: 24 are asked in blocks
    assert Runtime.rows == [24, 7, 7, 7, 7]
    monkeypatch.setattr(Runtime, "off", 1e-3)
    with pytest.raises(UnsupportedModelError, match="ONNX Runtime 0 gives other scores for this file"):
        from_onnx(small(), tmp_path / "n.h5")
    from_onnx(small(), tmp_path / "n.h5", check=False)
    monkeypatch.setattr(Runtime, "fails", True)
    with pytest.warns(UserWarning, match="does not run this file, so it was not compared"):
        from_onnx(small(), tmp_path / "n.h5")


# -- explain, the command ---------------------------------------------------------------------------------------------
def test_explain(tmp_path):
    model, example, features, args = onnx_models.make("deepfm")
    (tmp_path / "m.onnx").write_bytes(onnx_models.export(model, example, args, 13))
    told = explain(tmp_path / "m.onnx", features=features)
    rows = {row["layer"]: row for row in told.layers}
    gemm = next(row for row in told.layers if row["class"] == "Gemm" and "mlp.0" in row["layer"])
    assert gemm["primitives"] == {"Linear": 1} and gemm["flops"] == 16 * (2 * 15 + 1)
    assert told.flops == explain(model, features=features, example=example).flops and "(inputs)" not in str(rows)


def command(*arguments):
    root = pathlib.Path(__file__).resolve().parents[1]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    return subprocess.run([sys.executable, "-m", "dpi_export", *map(str, arguments)], capture_output=True, text=True, check=False, env=environment)


def test_the_command(tmp_path):
    onnx.save(small(), tmp_path / "shop.onnx")
    np.savez(tmp_path / "rows.npz", **ROWS)
    told = command("onnx", tmp_path / "shop.onnx", "--inputs")
    assert json.loads(told.stdout) == {"item": {"vocab_size": 9}, "price": {}}
    (tmp_path / "f.json").write_text(told.stdout)
    done = command("onnx", tmp_path / "shop.onnx", tmp_path / "shop.h5", "--features", tmp_path / "f.json", "--rows", tmp_path / "rows.npz",
                   "--output", "p", "--table-dtype", "f16", "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["ok"], done.stderr
    with Bundle(tmp_path / "shop.h5") as bundle:
        assert bundle.tables[0]["dtype"] == "f16" and bundle.golden["n"] == 4 and [h["name"] for h in bundle.heads] == ["p"]
    (tmp_path / "bad.onnx").write_bytes(b"no")
    failed = command("onnx", tmp_path / "bad.onnx", tmp_path / "bad.h5")
    assert failed.returncode == 1 and "is no ONNX model" in failed.stderr and "Traceback" not in failed.stderr
    assert "examples:" in command("onnx", "--help").stdout and command("onnx", tmp_path / "shop.onnx").returncode == 1


def test_the_example_of_importers_md_runs(tmp_path, monkeypatch, capsys):
    """The code under "ONNX models", on a small model."""
    class Small(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.city, self.item, self.head = torch.nn.Embedding(9, 2), torch.nn.Embedding(7, 2), torch.nn.Linear(5, 1)

        def forward(self, city, visits, price):
            return torch.sigmoid(self.head(torch.cat([self.city(city), self.item(visits).mean(1), price], 1)))

    text = (pathlib.Path(__file__).resolve().parents[1] / "IMPORTERS.md").read_text(encoding="utf-8")
    code = re.search(r"## ONNX models\n\n```python\n(.*?)```", text, re.S)[1]
    monkeypatch.chdir(tmp_path)
    export = torch.onnx.export
    monkeypatch.setattr(torch.onnx, "export", lambda *a, **k: export(*a, **k, output_names=["prob"]))
    city, visits, price = torch.randint(0, 9, (5,)), torch.randint(0, 7, (5, 3)), torch.randn(5, 1)
    exec(code, {"torch": torch, "model": Small().eval(), "city": city, "visits": visits, "price": price})  # noqa: S102
    assert "Gemm" in capsys.readouterr().out
    with Bundle(tmp_path / "ctr.h5") as bundle:
        assert [(f["name"], f.get("vocab_size")) for f in bundle.features] == [("city", 9), ("visits", 7), ("price", None)]
        assert bundle.golden["n"] == 5 and [h["name"] for h in bundle.heads] == ["prob"]
