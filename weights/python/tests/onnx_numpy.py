"""What ONNX operators mean, in float64 numpy, written from ONNX's own text and nothing else: the oracle of the tests of from_onnx.

tests/parity/onnx_oracle.py holds it to ONNX Runtime.
"""

import math

import numpy as np
import onnx
from onnx import numpy_helper

_TYPES = {1: np.float64, 6: np.int32, 7: np.int64, 9: np.bool_, 11: np.float64}


def run(model, inputs):
    """{output: array} of a ModelProto on {input: array}."""
    opset = next(o.version for o in model.opset_import if o.domain == "")
    values = {t.name: _wide(numpy_helper.to_array(t)) for t in model.graph.initializer}
    values.update((name, _wide(np.asarray(array))) for name, array in inputs.items())
    with np.errstate(all="ignore"):
        for node in model.graph.node:
            step(node, values, opset)
    return {o.name: values[o.name] for o in model.graph.output}


def step(node, values, opset):
    """Adds the outputs of a node to values."""
    attrs = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    given = [values[name] if name else None for name in node.input]
    out = OPS[node.op_type](given, attrs, opset, len(node.output))
    for name, value in zip(node.output, out if isinstance(out, (tuple, list)) else (out,)):
        values[name] = np.asarray(value)


def _wide(array):
    return array.astype(np.float64) if array.dtype in (np.float32, np.float16) else array


def _axes(given, attrs, at=1):
    if len(given) > at and given[at] is not None:
        return tuple(int(a) for a in given[at])
    return tuple(attrs["axes"]) if "axes" in attrs else None


def _reduce(call):
    def op(given, attrs, opset, count):
        axes, keep = _axes(given, attrs), bool(attrs.get("keepdims", 1))
        if axes == () or axes is None:
            if attrs.get("noop_with_empty_axes", 0):
                return given[0]
            axes = tuple(range(given[0].ndim))
        return np.asarray(call(given[0], axis=axes, keepdims=keep)).astype(given[0].dtype)
    return op


def _log_sum_exp(x, axis, keepdims):
    top = x.max(axis=axis, keepdims=True)
    out = np.log(np.exp(x - top).sum(axis=axis, keepdims=True)) + top
    return out if keepdims else out.squeeze(axis)


def _softmax(given, attrs, opset, count, log=False):
    x = given[0]
    axis = attrs.get("axis", 1 if opset < 13 else -1) % x.ndim
    flat = x.reshape(math.prod(x.shape[:axis]), -1) if opset < 13 else x
    along = -1 if opset < 13 else axis
    e = np.exp(flat - flat.max(axis=along, keepdims=True))
    total = e.sum(axis=along, keepdims=True)
    out = flat - flat.max(axis=along, keepdims=True) - np.log(total) if log else e / total
    return out.reshape(x.shape)


def _gemm(given, attrs, opset, count):
    a, b = (g.T if attrs.get(key, 0) else g for g, key in zip(given, ("transA", "transB")))
    out = attrs.get("alpha", 1.0) * (a @ b)
    return out if len(given) < 3 or given[2] is None else out + attrs.get("beta", 1.0) * given[2]


def _slice(given, attrs, opset, count):
    x, starts, ends = given[:3]
    axes = given[3] if len(given) > 3 and given[3] is not None else range(len(starts))
    steps = given[4] if len(given) > 4 and given[4] is not None else [1] * len(starts)
    for begin, end, axis, by in zip(starts, ends, axes, steps):
        size = x.shape[axis]
        begin, end, by = int(begin), int(end), int(by)
        begin, end = (v + size if v < 0 else v for v in (begin, end))
        low, high = (0, size) if by > 0 else (-1, size - 1)
        begin, end = min(max(begin, 0 if by > 0 else 0), high), min(max(end, low), high)
        x = np.take(x, np.arange(begin, end, by, dtype=np.int64), axis=int(axis))
    return x


def _reshape(given, attrs, opset, count):
    x, dims = given[0], [int(d) for d in given[1]]
    return x.reshape([x.shape[i] if d == 0 and not attrs.get("allowzero", 0) else d for i, d in enumerate(dims)])


def _flatten(given, attrs, opset, count):
    axis = attrs.get("axis", 1)
    axis += given[0].ndim if axis < 0 else 0
    return given[0].reshape(math.prod(given[0].shape[:axis]), -1)


def _squeeze(given, attrs, opset, count):
    axes = _axes(given, attrs)
    return np.squeeze(given[0], None if axes is None else axes)


def _unsqueeze(given, attrs, opset, count):
    axes, x = _axes(given, attrs), given[0]
    rank = x.ndim + len(axes)
    for axis in sorted(a % rank for a in axes):
        x = np.expand_dims(x, axis)
    return x


def _split(given, attrs, opset, count):
    axis = attrs.get("axis", 0)
    sizes = given[1] if len(given) > 1 and given[1] is not None else attrs.get("split")
    if sizes is None:
        step = -(-given[0].shape[axis] // count)
        sizes = [step] * (count - 1)
    return np.split(given[0], np.cumsum(sizes)[: count - 1], axis=axis)


def _pad(given, attrs, opset, count):
    x, pads = given[0], [int(p) for p in given[1]]
    number = 0 if len(given) < 3 or given[2] is None else given[2].reshape(-1)[0]
    half = len(pads) // 2
    return np.pad(x, list(zip(pads[:half], pads[half:])), constant_values=number)


def _gather(given, attrs, opset, count):
    x, indices = given
    axis = attrs.get("axis", 0)
    return np.take(x, np.where(indices < 0, indices + x.shape[axis], indices), axis=axis)


def _batch_norm(given, attrs, opset, count):
    x, scale, bias, mean, var = given
    dims = (1, -1) + (1,) * (x.ndim - 2)
    scale, bias, mean, var = (v.reshape(dims) for v in (scale, bias, mean, var))
    return (x - mean) / np.sqrt(var + attrs.get("epsilon", 1e-5)) * scale + bias


def _layer_norm(given, attrs, opset, count):
    x, scale = given[:2]
    axes = tuple(range(attrs.get("axis", -1) % x.ndim, x.ndim))
    mean = x.mean(axis=axes, keepdims=True)
    var = ((x - mean) ** 2).mean(axis=axes, keepdims=True)
    out = (x - mean) / np.sqrt(var + attrs.get("epsilon", 1e-5)) * scale
    return out if len(given) < 3 or given[2] is None else out + given[2]


def _cumsum(given, attrs, opset, count):
    x, axis = given[0], int(given[1])
    x = np.flip(x, axis) if attrs.get("reverse", 0) else x
    out = np.cumsum(x, axis)
    out = out - x if attrs.get("exclusive", 0) else out
    return np.flip(out, axis) if attrs.get("reverse", 0) else out


def _one_hot(given, attrs, opset, count):
    ids, depth, (off, on) = given[0].astype(np.int64), int(given[1].reshape(-1)[0]), given[2]
    hot = np.where(ids < 0, ids + depth, ids)[..., None] == np.arange(depth)
    return np.moveaxis(np.where(hot, on, off), -1, attrs.get("axis", -1))


def _scatter(given, attrs, opset, count):
    out = given[0].copy()
    np.put_along_axis(out, given[1], given[2], attrs.get("axis", 0))
    return out


def _clip(given, attrs, opset, count):
    low, high = ((given[i] if len(given) > i else None) for i in (1, 2))
    x = given[0] if low is None else np.maximum(given[0], low)
    return x if high is None else np.minimum(x, high)


def _div(given, attrs, opset, count):
    a, b = given
    return a / b if a.dtype.kind == "f" else (np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))).astype(a.dtype)


def _range(given, attrs, opset, count):
    return np.arange(*(g.reshape(-1)[0] for g in given), dtype=given[0].dtype)


def _where_above(x, alpha, below):
    return np.where(x < 0, below(x), x) if alpha is None else np.where(x > alpha, x, below(x))


def _fold(call):
    def op(given, attrs, opset, count):
        out = given[0]
        for g in given[1:]:
            out = call(out, g)
        return out
    return op


def _one(call):
    return lambda given, attrs, opset, count: call(given[0])


def _two(call):
    return lambda given, attrs, opset, count: call(given[0], given[1])


def _with(call, **defaults):
    """call(x, **attributes)"""
    return lambda given, attrs, opset, count: call(given[0], **{key: attrs.get(key, value) for key, value in defaults.items()})


def _expm1(x):
    return np.exp(np.minimum(x, 0)) - 1


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _hard_sigmoid(x, alpha, beta):
    return np.maximum(0, np.minimum(1, alpha * x + beta))


def _gelu(x, approximate):
    if approximate in (b"tanh", "tanh"):
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))
    return 0.5 * x * (1 + np.vectorize(math.erf, otypes=[float])(x / math.sqrt(2)))


_SELU = {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875}
OPS = {
    "Relu": _one(lambda x: np.maximum(x, 0)), "Sigmoid": _one(_sigmoid), "Tanh": _one(np.tanh), "Exp": _one(np.exp), "Log": _one(np.log),
    "Abs": _one(np.abs), "Sqrt": _one(np.sqrt), "Neg": _one(np.negative), "Reciprocal": _one(lambda x: 1 / x), "Sin": _one(np.sin),
    "Cos": _one(np.cos), "Sign": _one(np.sign), "Erf": _one(np.vectorize(math.erf, otypes=[float])), "Not": _one(np.logical_not),
    "Softplus": _one(lambda x: np.logaddexp(x, 0)), "Softsign": _one(lambda x: x / (1 + np.abs(x))),
    "Mish": _one(lambda x: x * np.tanh(np.logaddexp(x, 0))), "HardSwish": _one(lambda x: x * _hard_sigmoid(x, 1 / 6, 0.5)),
    "LeakyRelu": _with(lambda x, alpha: np.where(x < 0, alpha * x, x), alpha=0.01),
    "Elu": _with(lambda x, alpha: np.where(x < 0, alpha * _expm1(x), x), alpha=1.0),
    "Selu": _with(lambda x, alpha, gamma: gamma * np.where(x > 0, x, alpha * _expm1(x)), **_SELU),
    "Celu": _with(lambda x, alpha: np.maximum(0, x) + np.minimum(0, alpha * (np.exp(np.minimum(x, 0) / alpha) - 1)), alpha=1.0),
    "Gelu": _with(_gelu, approximate=b"none"), "HardSigmoid": _with(_hard_sigmoid, alpha=0.2, beta=0.5),
    "ThresholdedRelu": _with(lambda x, alpha: np.where(x > alpha, x, 0.0), alpha=1.0),
    "Shrink": _with(lambda x, lambd, bias: np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, 0.0)), lambd=0.5, bias=0.0),
    "PRelu": _two(lambda x, slope: np.where(x < 0, slope * x, x)),
    "Add": _two(np.add), "Sub": _two(np.subtract), "Mul": _two(np.multiply), "Div": _div, "Pow": _two(lambda x, y: np.power(x, y).astype(x.dtype)),
    "Mod": lambda given, attrs, opset, count: (np.fmod if attrs.get("fmod", 0) else np.mod)(*given),
    "Sum": _fold(np.add), "Max": _fold(np.maximum), "Min": _fold(np.minimum),
    "Mean": lambda given, attrs, opset, count: _fold(np.add)(given, attrs, opset, count) / len(given), "Clip": _clip,
    "Equal": _two(np.equal), "Greater": _two(np.greater), "Less": _two(np.less), "GreaterOrEqual": _two(np.greater_equal),
    "LessOrEqual": _two(np.less_equal), "And": _two(np.logical_and), "Or": _two(np.logical_or), "Xor": _two(np.logical_xor),
    "Where": lambda given, attrs, opset, count: np.where(*given),
    "Cast": lambda given, attrs, opset, count: given[0].astype(_TYPES[attrs["to"]]),
    "Dropout": _one(lambda x: x), "Identity": _one(lambda x: x),
    "Constant": lambda given, attrs, opset, count: _wide(numpy_helper.to_array(attrs["value"])),
    "Reshape": _reshape, "Flatten": _flatten, "Squeeze": _squeeze, "Unsqueeze": _unsqueeze, "Split": _split, "Slice": _slice, "Pad": _pad,
    "Transpose": lambda given, attrs, opset, count: np.transpose(given[0], attrs.get("perm")),
    "Concat": lambda given, attrs, opset, count: np.concatenate(given, axis=attrs["axis"]),
    "Expand": lambda given, attrs, opset, count: given[0] * np.ones(given[1].astype(int), given[0].dtype),
    "Tile": lambda given, attrs, opset, count: np.tile(given[0], given[1].astype(int)),
    "Shape": lambda given, attrs, opset, count: np.array(given[0].shape[attrs.get("start", 0):attrs.get("end")], np.int64),
    "Size": _one(lambda x: np.int64(x.size)), "Range": _range,
    "ConstantOfShape": lambda given, attrs, opset, count: np.full(
        given[0].astype(int), _wide(numpy_helper.to_array(attrs["value"])).reshape(-1)[0] if "value" in attrs else 0.0),
    "ReduceSum": _reduce(np.sum), "ReduceMean": _reduce(np.mean), "ReduceMax": _reduce(np.max), "ReduceMin": _reduce(np.min),
    "ReduceProd": _reduce(np.prod), "ReduceL1": _reduce(lambda x, **k: np.abs(x).sum(**k)),
    "ReduceL2": _reduce(lambda x, **k: np.sqrt((x * x).sum(**k))), "ReduceSumSquare": _reduce(lambda x, **k: (x * x).sum(**k)),
    "ReduceLogSum": _reduce(lambda x, **k: np.log(x.sum(**k))), "ReduceLogSumExp": _reduce(_log_sum_exp),
    "Softmax": _softmax, "LogSoftmax": lambda *a: _softmax(*a, log=True), "CumSum": _cumsum,
    "MatMul": _two(np.matmul), "Gemm": _gemm, "BatchNormalization": _batch_norm, "LayerNormalization": _layer_norm,
    "Einsum": lambda given, attrs, opset, count: np.einsum(attrs["equation"].decode(), *given), "Gather": _gather, "OneHot": _one_hot,
    "ScatterElements": _scatter, "Floor": _one(np.floor),
}
