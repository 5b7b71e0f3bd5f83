"""What single ONNX operators mean, where they are easily misread: by opset, by sign of an axis, by type. The oracle is numpy in float64."""

import pathlib
import sys

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import onnx_numpy  # noqa: E402
from dpi_export import Executor, Rows, UnsupportedModelError, from_onnx  # noqa: E402
from dpi_export.importers.onnx_import import OnnxImport, Source  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

F, I64, BOOL = np.float32, np.int64, np.bool_
RNG = np.random.default_rng(4)
#: x [6], e [3, 4] of floats; i one id below 9; h four ids below 9.
X, E = RNG.normal(size=(5, 6)).astype(F), RNG.normal(size=(5, 3, 4)).astype(F)
IDS, HIST = RNG.integers(0, 9, 5), RNG.integers(0, 9, (5, 4))
INPUTS = {"x": X, "e": E, "i": IDS, "h": HIST}
FEATURES = {"x": {}, "e": {}, "i": {"vocab_size": 9}, "h": {"vocab_size": 9}}


def graph(nodes, weights, opset, out="y", outputs=None):
    """A ModelProto of (operator, inputs, output or outputs, attributes) and {name: array}."""
    made = [helper.make_node(op, list(ins), [outs] if isinstance(outs, str) else list(outs), **attrs) for op, ins, outs, attrs in nodes]
    used = {name for node in made for name in node.input}
    ends = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype) if hasattr(helper, "np_dtype_to_tensor_dtype") else
                                          (TensorProto.FLOAT if a.dtype == F else TensorProto.INT64), ["n", *a.shape[1:]])
            for n, a in INPUTS.items() if n in used]
    outs = outputs or [helper.make_tensor_value_info(out, TensorProto.FLOAT, None)]
    held = [numpy_helper.from_array(np.asarray(a), n) for n, a in weights.items()]
    return helper.make_model(helper.make_graph(made, "g", ends, outs, held), opset_imports=[helper.make_opsetid("", opset)])


def error_of(model):
    """The largest error of the import beside the oracle; refusals and NaN pass through."""
    needed = [i.name for i in model.graph.input]
    rows = {name: INPUTS[name] for name in needed}
    want = np.concatenate([w.reshape(5, -1) for w in onnx_numpy.run(model, rows).values()], 1)
    imported = OnnxImport(Source(model), {"features": {name: FEATURES[name] for name in needed}})
    imported.build()
    run = Executor(imported.b).run(Rows.from_columns(imported.b, imported.columns(rows)))["value"]
    got = np.stack([run[head["name"]] for head in imported.b.heads], 1)
    error = np.abs(got - want) / np.maximum(1, np.abs(want))
    assert error.shape == want.shape and np.isfinite(error).all()
    return error.max()


def w(*dims):
    return np.random.default_rng(dims).normal(size=dims).astype(F)


#: name -> (nodes, weights, opset)
EXACT = {
    "softmax 11 flattens": ([("Softmax", ["e"], "y", {"axis": 1})], {}, 11),
    "softmax 11 by default": ([("Softmax", ["e"], "y", {})], {}, 11),
    "softmax 13 along one axis": ([("Softmax", ["e"], "y", {"axis": 1})], {}, 13),
    "softmax 13 by default": ([("Softmax", ["e"], "y", {})], {}, 13),
    "log softmax 11": ([("LogSoftmax", ["e"], "y", {"axis": -2})], {}, 11),
    "reduce all but rows": ([("ReduceSum", ["e", "a"], "y", {"keepdims": 0})], {"a": np.array([-1, 1])}, 13),
    "reduce by attribute": ([("ReduceMax", ["e"], "y", {"axes": [-1], "keepdims": 1})], {}, 11),
    "reduce nothing": ([("ReduceSum", ["e", "a"], "y", {"noop_with_empty_axes": 1})], {"a": np.array([], I64)}, 13),
    "gemm all attributes": ([("Gemm", ["x", "w", "c"], "y", {"transB": 1, "alpha": 0.5, "beta": 3.0})], {"w": w(4, 6), "c": w(1, 4)}, 13),
    "gemm without c": ([("Gemm", ["x", "w"], "y", {"alpha": 2.0})], {"w": w(6, 2)}, 11),
    "gemm a scalar c": ([("Gemm", ["x", "w", "c"], "y", {})], {"w": w(6, 2), "c": np.float32(0.3)}, 11),
    "clip only above": ([("Clip", ["x", "", "b"], "y", {})], {"b": np.float32(0.2)}, 11),
    "clip only below": ([("Clip", ["x", "a"], "y", {})], {"a": np.float32(-0.1)}, 12),
    "clip at the ends of float32": ([("Clip", ["x", "a", "b"], "y", {})], {"a": np.float32(0), "b": np.finfo(F).max}, 13),
    "clip of ids at the ends of int64": ([("Clip", ["h", "a", "b"], "c", {}), ("Gather", ["t", "c"], "y", {})],
                                         {"a": np.array(3), "b": np.array((1 << 63) - 1), "t": w(9, 2)}, 13),
    "slice from the end, backwards": ([("Slice", ["x", "s", "e_", "a", "d"], "y", {})], {
        "s": np.array([-1]), "e_": np.array([-(1 << 63)]), "a": np.array([-1]), "d": np.array([-2])}, 13),
    "slice beyond the end": ([("Slice", ["x", "s", "e_", "a"], "y", {})],
                             {"s": np.array([2]), "e_": np.array([(1 << 63) - 1]), "a": np.array([1])}, 11),
    "slice two axes": ([("Slice", ["e", "s", "e_", "a"], "y", {})], {"s": np.array([1, -3]), "e_": np.array([3, -1]), "a": np.array([1, 2])}, 13),
    "squeeze and unsqueeze by attribute": ([("Unsqueeze", ["x"], "u", {"axes": [-1, 1]}), ("Squeeze", ["u"], "y", {"axes": [3]})], {}, 11),
    "unsqueeze by input": ([("Unsqueeze", ["x", "a"], "y", {})], {"a": np.array([-1, 1])}, 13),
    "reshape keeps and works out": ([("Reshape", ["e", "s"], "y", {})], {"s": np.array([0, -1, 6])}, 14),
    "flatten from behind": ([("Flatten", ["e"], "y", {"axis": -2})], {}, 13),
    "transpose without perm": ([("Transpose", ["x"], "t", {}), ("Transpose", ["t"], "y", {})], {}, 13),
    "expand both ways": ([("Unsqueeze", ["x", "a"], "u", {}), ("Expand", ["u", "s"], "y", {})], {"a": np.array([1]), "s": np.array([1, 3, 1])}, 13),
    "tile": ([("Tile", ["e", "s"], "y", {})], {"s": np.array([1, 2, 3])}, 13),
    "pad behind": ([("Pad", ["x", "p", "v"], "y", {})], {"p": np.array([0, 1, 0, 2]), "v": np.float32(7)}, 13),
    "gather from the end": ([("Gather", ["e", "p"], "y", {"axis": -1})], {"p": np.array([-1, 0, -4])}, 13),
    "gather one": ([("Gather", ["e", "p"], "y", {"axis": 1})], {"p": np.array(-2)}, 13),
    "gather by a matrix": ([("Gather", ["e", "p"], "y", {"axis": 1})], {"p": np.array([[0, 2], [1, 1]])}, 13),
    "a table of matrices": ([("Gather", ["t", "h"], "y", {})], {"t": w(9, 2, 3)}, 13),
    "a table along axis 1": ([("Gather", ["t", "i"], "g", {"axis": 1}), ("Transpose", ["g"], "y", {"perm": [1, 0]})], {"t": w(4, 9)}, 13),
    "a table of numbers": ([("Gather", ["t", "h"], "y", {})], {"t": w(9)}, 13),
    "one hot": ([("OneHot", ["i", "d", "v"], "y", {})], {"d": np.array(9), "v": np.array([0.1, 2.0], F)}, 13),
    "one hot in the middle": ([("OneHot", ["h", "d", "v"], "y", {"axis": 1})], {"d": np.array([9]), "v": np.array([0, 1], F)}, 13),
    "prelu along the last axis": ([("PRelu", ["e", "s"], "y", {})], {"s": w(4)}, 13),
    "prelu along channels": ([("PRelu", ["e", "s"], "y", {})], {"s": w(3, 1)}, 13),
    "prelu by entry": ([("PRelu", ["e", "s"], "y", {})], {"s": w(3, 4)}, 13),
    "batch norm of channels": ([("BatchNormalization", ["e", "s", "b", "m", "v"], "y", {"epsilon": 0.01})],
                               {"s": w(3), "b": w(3), "m": w(3), "v": np.abs(w(3))}, 13),
    "layer norm over two axes": ([("LayerNormalization", ["e", "s"], "y", {"axis": 1})], {"s": w(3, 4)}, 17),
    "layer norm with one scale": ([("LayerNormalization", ["e", "s", "b"], "y", {"axis": -2})], {"s": w(1, 4), "b": w(4)}, 17),
    "whole numbers are cut": ([("Sub", ["h", "k"], "a", {}), ("Div", ["a", "k"], "d", {}), ("Add", ["d", "k"], "s", {}),
                               ("Gather", ["t", "s"], "y", {})], {"k": np.array(5), "t": w(15, 2)}, 13),
    "mod takes the divisor's sign": ([("Sub", ["h", "k"], "a", {}), ("Mod", ["a", "m"], "d", {}), ("Gather", ["t", "d"], "y", {})],
                                     {"k": np.array(20), "m": np.array(7), "t": w(7, 2)}, 13),
    "cumsum backwards without itself": ([("CumSum", ["e", "a"], "y", {"reverse": 1, "exclusive": 1})], {"a": np.array(-1)}, 14),
    "split into unequal": ([("Split", ["x", "s"], ["a", "b"], {"axis": -1}), ("Concat", ["b", "a"], "y", {"axis": 1})], {"s": np.array([4, 2])}, 13),
    "split by attribute": ([("Split", ["x"], ["a", "b"], {"axis": 1, "split": [1, 5]}), ("Concat", ["b", "a"], "y", {"axis": -1})], {}, 11),
    "hard sigmoid by default": ([("HardSigmoid", ["x"], "y", {})], {}, 13),
    "xor of two ids": ([("Equal", ["i", "k"], "p", {}), ("Less", ["i", "l"], "q", {}), ("Xor", ["p", "q"], "r", {}),
                        ("Cast", ["r"], "y", {"to": 1})], {"k": np.array(3), "l": np.array(5)}, 13),
    "a mask times minus infinity": ([("Equal", ["h", "k"], "p", {}), ("Where", ["p", "low", "zero"], "m", {}), ("Gather", ["t", "h"], "g", {}),
                                     ("Add", ["g", "m"], "s", {}), ("Softmax", ["s"], "y", {"axis": 1})],
                                    {"k": np.array(0), "low": np.float32(-1e9), "zero": np.float32(0), "t": w(9)}, 13),
    "shape with ends": ([("Shape", ["e"], "s", {"start": 1, "end": 2}), ("Concat", ["m", "s", "k"], "d", {"axis": 0}),
                         ("Reshape", ["e", "d"], "y", {})], {"m": np.array([-1]), "k": np.array([4])}, 15),
    "a vector on the right": ([("MatMul", ["e", "v"], "y", {})], {"v": w(4)}, 13),
    "einsum with spaces and dots": ([("Einsum", ["e", "v"], "y", {"equation": "...d , d -> ..."})], {"v": w(4)}, 13),
    "mean of three": ([("Mean", ["x", "c", "x"], "y", {})], {"c": w(6)}, 13),
    "a block written by elements": ([("Shape", ["x"], "s", {"end": 1}), ("Concat", ["s", "two"], "d", {"axis": 0}), ("Expand", ["p", "d"], "i_", {}),
                                     ("Slice", ["x", "zero", "two", "one"], "u", {}), ("Mul", ["u", "f"], "v", {}),
                                     ("ScatterElements", ["x", "i_", "v"], "y", {"axis": 1})],
                                    {"two": np.array([2]), "p": np.array([[3, 5]]), "zero": np.array([0]), "one": np.array([1]), "f": np.float32(2)}, 15),
    "an id rounded down": ([("Cast", ["h"], "c", {"to": 1}), ("Div", ["c", "k"], "q", {}), ("Floor", ["q"], "r", {}), ("Cast", ["r"], "j", {"to": 7}),
                            ("Gather", ["t", "j"], "y", {})], {"k": np.float32(4), "t": w(3, 2)}, 13),
    "erf": ([("Erf", ["x"], "y", {})], {}, 13),
    "ids less one, 0 counts from the end": ([("Sub", ["h", "one"], "j", {}), ("Gather", ["t", "j"], "y", {})], {"one": np.array(1), "t": w(8, 2)}, 13),
    "ids less one, cast": ([("Sub", ["h", "one"], "j", {}), ("Cast", ["j"], "c", {"to": 6}), ("Gather", ["t", "c"], "y", {})],
                           {"one": np.array(1), "t": w(9, 2, 3)}, 13),
    "gelu by erf": ([("Div", ["x", "r"], "d", {}), ("Erf", ["d"], "f", {}), ("Add", ["f", "one"], "g", {}), ("Mul", ["half", "x"], "h_", {}),
                     ("Mul", ["h_", "g"], "y", {})], {"r": np.float32(2 ** 0.5), "one": np.float32(1), "half": np.float32(0.5)}, 13),
}


@pytest.mark.parametrize("name", EXACT)
def test_exact(name):
    nodes, weights, opset = EXACT[name]
    assert error_of(graph(nodes, weights, opset)) <= 1e-6


def test_infinite_masks():
    """Where(mask, -inf, score) in front of a softmax, and rows that keep nothing, which the oracle calls NaN and nothing is said of."""
    nodes = [("Equal", ["h", "k"], "p", {}), ("Gather", ["t", "h"], "g", {}), ("Where", ["p", "low", "g"], "s", {}), ("Softmax", ["s"], "y", {})]
    assert error_of(graph(nodes, {"k": np.array(0), "low": np.float32(-np.inf), "t": w(9)}, 13)) <= 1e-6


def branch(name, op, inputs):
    return helper.make_graph([helper.make_node(op, inputs, [name])], name, [], [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)])


def test_if_by_a_size():
    """A choice by sizes alone, as torch.onnx writes squeeze(1), is made while the graph is read; a choice by content is refused."""
    parts = {"then_branch": branch("t", "Relu", ["x"]), "else_branch": branch("f", "Neg", ["x"])}
    for limit, op in ((7, "Neg"), (6, "Relu")):
        sized = graph([("Shape", ["x"], "s", {}), ("Gather", ["s", "one"], "d", {}), ("Equal", ["d", "k"], "c", {}), ("If", ["c"], "y", parts)],
                      {"one": np.array(1), "k": np.array(limit)}, 13)
        imported = OnnxImport(Source(sized), {"features": {"x": {}}})
        imported.build()
        run = Executor(imported.b).run(Rows.from_columns(imported.b, imported.columns({"x": X})))["value"]
        want = np.maximum(X, 0) if op == "Relu" else -X
        assert np.abs(np.stack(list(run.values()), 1) - want).max() <= 1e-7
    chosen = graph([("ReduceMax", ["x"], "m", {"keepdims": 0}), ("Greater", ["m", "k"], "c", {}), ("If", ["c"], "y", parts)], {"k": np.float32(0)}, 13)
    with pytest.raises(UnsupportedModelError, match=r"node 'If_2' \(If\): chooses between subgraphs by what the rows hold"):
        OnnxImport(Source(chosen), {"features": {"x": {}}}).build()


def test_a_subgraph_must_not_have_another_weight_of_the_same_name():
    parts = {name: branch(name[0], "Add", ["x", "k"]) for name in ("then_branch", "else_branch")}
    parts["then_branch"].initializer.append(numpy_helper.from_array(np.float32(2), "k"))
    model = graph([("If", ["c"], "z", parts), ("Add", ["z", "k"], "y", {}), ("Add", ["x", "k"], "n", {})],
                  {"c": np.array(True), "k": np.float32(1)}, 13)
    with pytest.raises(UnsupportedModelError, match="weight 'k': a subgraph has another one of this name"):
        OnnxImport(Source(model), {"features": {"x": {}}}).build()


LOOP = helper.make_graph([helper.make_node("Identity", ["c"], ["go"]), helper.make_node("Relu", ["v"], ["out"])], "body", [
    helper.make_tensor_value_info("n", TensorProto.INT64, []), helper.make_tensor_value_info("c", TensorProto.BOOL, []),
    helper.make_tensor_value_info("v", TensorProto.FLOAT, None)], [helper.make_tensor_value_info("go", TensorProto.BOOL, []),
                                                                   helper.make_tensor_value_info("out", TensorProto.FLOAT, None)])
#: name -> (nodes, weights, opset, what the refusal says)
REFUSED = {
    "loop": ([("Loop", ["k", "c", "x"], "y", {"body": LOOP})], {"k": np.array(3), "c": np.array(True)}, 13, r"'Loop_0' \(Loop\): .*write the loop"),
    "instance norm": ([("InstanceNormalization", ["e", "s", "b"], "y", {})], {"s": w(3), "b": w(3)}, 13, r"InstanceNorm.*write LayerNormal"),
    "rnn": ([("RNN", ["e", "v", "r"], ["y"], {"hidden_size": 2})], {"v": w(1, 2, 4), "r": w(1, 2, 2)}, 13, r"'RNN_0' \(RNN\): .*write its steps out"),
    "scan": ([("Scan", ["x"], "y", {"body": LOOP, "num_scan_inputs": 1})], {}, 13, r"'Scan_0' \(Scan\): .*write the steps out"),
    "gru of another kind": ([("GRU", ["e", "v", "r"], ["y"], {"hidden_size": 2})], {"v": w(1, 6, 4), "r": w(1, 6, 2)}, 13,
                            "GRU_0.*linear_before_reset=0"),
    "quantized": ([("DequantizeLinear", ["i", "k"], "y", {})], {"k": np.float32(1)}, 13, "DequantizeLinear_0.*give the model that was quantized"),
    "ids beyond their table": ([("Gather", ["t", "h"], "y", {})], {"t": w(8, 2)}, 13, "Gather_0.*is the vocab_size of a feature larger than the table"),
    "floor": ([("Floor", ["x"], "y", {})], {}, 13, "Floor_0.*(no primitive|rounds numbers)"),
    "a shape of the rows": ([("Cast", ["h"], "c", {"to": 7}), ("Gather", ["c", "k"], "g", {"axis": 1}), ("Range", ["k", "g", "one"], "r", {}),
                             ("Cast", ["r"], "y", {"to": 1})], {"k": np.array(0), "one": np.array(1)}, 13, "Range_2.*depends on the rows"),
    "dropout in training": ([("Dropout", ["x", "r", "t"], "y", {})], {"r": np.float32(0.5), "t": np.array(True)}, 13, "training"),
    "pad by reflection": ([("Pad", ["x", "p"], "y", {"mode": "reflect"})], {"p": np.array([0, 1, 0, 1])}, 13, "mode 'reflect'"),
    "softmax 11 over the rows": ([("Softmax", ["e"], "y", {"axis": 0})], {}, 11, "rows"),
    "sum of everything": ([("ReduceSum", ["e"], "s", {"keepdims": 0}), ("Add", ["x", "s"], "y", {})], {}, 13, "where the rows are"),
    "random": ([("RandomNormalLike", ["x"], "y", {})], {}, 13, r"RandomNormalLike\): .*it is random"),
    "unknown": ([("Fancy", ["x"], "y", {})], {}, 13, r"node 'Fancy_0' \(Fancy\): there is no rule for this operator; dpi_export/onnx/ops_table"),
    "half floats": ([("Cast", ["x"], "c", {"to": 10}), ("Mul", ["c", "k"], "m", {}), ("Cast", ["m"], "y", {"to": 1})],
                    {"k": np.float16(1.5)}, 13, "float16"),
    "loose ends": ([("Relu", ["nothing"], "y", {})], {}, 13, "'nothing' is read, and nothing gives it"),
    "an input of another domain": ([("Gelu", ["x"], "y", {"domain": "com.microsoft"})], {}, 13, "domain 'com.microsoft'"),
    "a huge value": ([("Unsqueeze", ["x", "a"], "u", {}), ("Expand", ["u", "s"], "y", {})],
                     {"a": np.array([1]), "s": np.array([1, 1 << 40, 1])}, 13, "Expand_1.*more than"),
    "a huge constant": ([("ConstantOfShape", ["s"], "c", {}), ("Add", ["x", "c"], "y", {})], {"s": np.array([1 << 20, 1 << 20])}, 13, "more than"),
    "a huge product": ([("Unsqueeze", ["x", "a"], "u", {}), ("Add", ["u", "v"], "y", {})],
                       {"a": np.array([2]), "v": np.broadcast_to(np.float32(1), (1, 1, 1 << 21))}, 13, "more than"),
    "a huge sum of products": ([("Einsum", ["x", "v", "v"], "y", {"equation": "ni,...j,...k->n...jk"})], {"v": w(1, 3000)}, 13, "more than"),
    "a value that doubles": ([("Concat", ["x" if i == 0 else f"c{i}"] * 2, f"c{i + 1}", {"axis": 1}) for i in range(30)] + [
        ("Identity", ["c30"], "y", {})], {}, 13, "Concat_.*more than"),
    "old": ([("Relu", ["x"], "y", {})], {}, 9, "opset 9, expected 11 to 23"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name, tmp_path):
    nodes, weights, opset, text = REFUSED[name]
    model = graph(nodes, weights, opset)
    needed = [i.name for i in model.graph.input]
    with pytest.raises(UnsupportedModelError, match=text):
        from_onnx(model, tmp_path / "m.h5", features={name: FEATURES[name] for name in needed})
    assert not (tmp_path / "m.h5").exists()
