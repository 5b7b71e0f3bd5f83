"""Random small ONNX graphs over the operators that from_onnx knows, all attributes varied, with what they give by onnx_numpy.

Each value is computed as soon as its node is there, so its dims are known without a second source. A graph may hold one operator that mixes
rows (`mixes`, its result), which the importer has to refuse.
"""

import numpy as np
import onnx_numpy
from onnx import TensorProto, helper, numpy_helper

ROWS, VOCAB, T, D, X = 5, 11, 4, 3, 6
FEATURES = {"ids": {"vocab_size": VOCAB}, "hist": {"vocab_size": VOCAB}, "x": {}}
_TABLES = (("ids", [VOCAB, D]), ("hist", [VOCAB, D]), ("ids", [VOCAB, 2, 3]))


class Rejected(Exception):
    """The step would make a value that says nothing: not finite, huge, empty, of too many dims."""


class Maker:
    """A graph in the making; `values` by name, `pool` the names of floats with the rows in dim 0."""

    def __init__(self, seed, opset):
        self.rng, self.opset = np.random.default_rng([seed, opset]), opset
        self.nodes, self.weights, self.values, self.pool, self.mixes = [], [], {}, [], None
        self.inputs = sample(self.rng, ROWS)
        self.values.update((name, onnx_numpy._wide(array)) for name, array in self.inputs.items())
        for source, dims in _TABLES:
            self.pool.append(self.node("Gather", [self.weight(self.rng.normal(size=dims)), source]))
        self.pool.append("x")

    def weight(self, array, dtype=np.float32):
        """The name of a new weight, as an initializer or a Constant node."""
        name, array = f"w{len(self.weights) + len(self.nodes)}", np.asarray(array, dtype)
        if self.rng.random() < 0.3:
            self.nodes.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array)))
            self.weights.append(None)
        else:
            self.weights.append(numpy_helper.from_array(array, name))
        self.values[name] = onnx_numpy._wide(array)
        return name

    def ints(self, *numbers):
        """The name of a list of whole numbers."""
        return self.weight(numbers, np.int64)

    def node(self, op, inputs, count=1, **attrs):
        """The name of a new node's (first) output."""
        names = [f"v{len(self.nodes)}_{i}" for i in range(count)]
        node = helper.make_node(op, inputs, names, **attrs)
        onnx_numpy.step(node, self.values, self.opset)
        self.nodes.append(node)
        return names[0] if count == 1 else names

    def pick(self, low=2, high=4):
        """A float value with that many dims."""
        names = [name for name in self.pool if low <= self.values[name].ndim <= high]
        if not names:
            raise Rejected
        return names[int(self.rng.integers(len(names)))] if self.rng.random() < 0.5 else names[-1]

    def dims(self, name):
        """Dims of a value."""
        return self.values[name].shape

    def choice(self, *options):
        """One of them."""
        return options[int(self.rng.integers(len(options)))]

    def axis(self, name, first=1):
        """An axis, from either end."""
        rank = len(self.dims(name))
        at = int(self.rng.integers(first, rank))
        return at - rank if self.rng.random() < 0.5 else at

    def model(self):
        """The finished ModelProto: a weighted sum of the last values."""
        parts = [self.node("Flatten", [name], axis=1) for name in dict.fromkeys(self.pool[-3:] + [self.mixes] * bool(self.mixes))]
        joined = self.node("Concat", parts, axis=1)
        scale = self.rng.normal(size=(self.dims(joined)[1], 1)) / np.sqrt(self.dims(joined)[1])
        out = self.node("Add", [self.node("MatMul", [joined, self.weight(scale)]), self.weight([0.2])])
        kinds = {"ids": TensorProto.INT64, "hist": TensorProto.INT64, "x": TensorProto.FLOAT}
        ends = [helper.make_tensor_value_info(n, kinds[n], ["batch", *a.shape[1:]]) for n, a in self.inputs.items()]
        graph = helper.make_graph(self.nodes, "random", ends, [helper.make_tensor_value_info(out, TensorProto.FLOAT, ["batch", 1])],
                                  [w for w in self.weights if w is not None])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)])
        model.ir_version = 7 if self.opset < 17 else 8 if self.opset < 21 else 10
        return model


def sample(rng, n):
    """Random rows."""
    hist = rng.integers(1, VOCAB, (n, T))
    for row, length in zip(hist, rng.integers(0, T + 1, n)):
        row[length:] = 0
    return {"ids": rng.integers(0, VOCAB, n), "hist": hist, "x": rng.normal(size=(n, X)).astype(np.float32)}


def make(seed, opset, steps=7):
    """(ModelProto, mixes rows) of a random graph."""
    m = Maker(seed, opset)
    while steps:
        held = len(m.nodes), len(m.weights), m.mixes
        try:
            name = STEPS[int(m.rng.integers(len(STEPS)))](m)
            value = m.values[name]
            if value.ndim < 2 or value.ndim > 4 or value.size > 3000 or not value.size or value.dtype.kind != "f" or \
                    value.shape[0] != ROWS or not np.isfinite(value).all() or np.abs(value).max() > 200:
                raise Rejected
        except Rejected:
            del m.nodes[held[0]:], m.weights[held[1]:]
            m.mixes = held[2]
            continue
        m.pool.append(name)
        steps -= 1
    return m.model(), m.mixes is not None


# -- steps ------------------------------------------------------------------------------------------------------------
def _activation(m):
    x, u = m.pick(), lambda a, b: float(m.rng.uniform(a, b))
    op, attrs = m.choice(("Relu", {}), ("Sigmoid", {}), ("Tanh", {}), ("Softplus", {}), ("Softsign", {}), ("Abs", {}), ("Neg", {}),
                         ("LeakyRelu", {"alpha": u(0, 0.5)}), ("LeakyRelu", {}), ("Elu", {"alpha": u(0.2, 2)}), ("Elu", {}), ("Selu", {}),
                         ("Selu", {"alpha": u(0.5, 2), "gamma": u(0.5, 2)}), ("HardSigmoid", {}), ("Identity", {}), ("Dropout", {}),
                         ("HardSigmoid", {"alpha": u(0.1, 0.4), "beta": u(0.2, 0.8)}), ("ThresholdedRelu", {"alpha": u(-1, 1)}),
                         ("Shrink", {"lambd": u(0.1, 0.5), "bias": u(-0.5, 0.5)}), ("Sin", {}), ("Cos", {}),
                         ("Celu", {"alpha": u(0.5, 2)}) if m.opset >= 12 else ("Relu", {}), ("HardSwish", {}) if m.opset >= 14 else ("Tanh", {}),
                         ("Gelu", {"approximate": m.choice("none", "tanh")}) if m.opset >= 20 else ("Elu", {}),
                         ("Mish", {}) if m.opset >= 18 else ("Softplus", {}))
    return m.node(op, [x], **attrs)


def _root(m):
    x = m.node("Abs", [m.pick()])
    x = m.node("Add", [x, m.weight(m.rng.uniform(0.5, 1, m.choice((1,), ())))])
    return m.node(m.choice("Sqrt", "Log", "Reciprocal"), [x])


def _exp(m):
    return m.node("Exp", [m.node("Clip", [m.pick(), *_bounds(m)])])


def _bounds(m):
    low, high = sorted(m.rng.uniform(-2, 2, 2))
    given = [m.weight(low), m.weight(high)]
    kind = m.rng.integers(3)
    return given if kind == 0 else given[:1] if kind == 1 else ["", given[1]]


def _clip(m):
    return m.node("Clip", [m.pick(), *_bounds(m)])


def _power(m):
    x, exponent = m.pick(), m.choice(2.0, 3.0, 1.0, 2.0, 0.5, -1.0)
    if exponent in (0.5, -1.0):
        x = m.node("Add", [m.node("Abs", [x]), m.weight([0.3])])
    return m.node("Pow", [x, m.weight(exponent if m.rng.random() < 0.5 else [exponent])])


def _constant_operand(m):
    x, dims = m.pick(), None
    dims = m.dims(x)
    kind = m.rng.integers(5)
    shape = ((), (1,), dims[-1:], (1, *dims[1:]), tuple(d if m.rng.random() < 0.5 else 1 for d in dims[1:]))[kind]
    op = m.choice("Add", "Sub", "Mul", "Div", "Max", "Min")
    held = m.rng.normal(size=shape)
    held = np.where(np.abs(held) < 0.3, 0.7, held) if op == "Div" else held
    if op == "Mul" and m.rng.random() < 0.2:
        held = np.ones(shape)
    if m.rng.random() < 0.6:
        return m.node(op, [x, m.weight(held)])
    return m.node(op, [m.weight(held), m.node("Add", [m.node("Abs", [x]), m.weight([0.5])]) if op == "Div" else x])


def _pair(m):
    """Two values whose dims broadcast, made so where they do not."""
    a, b = m.pick(), m.pick()
    fits = len(m.dims(a)) == len(m.dims(b)) and all(p == q or 1 in (p, q) for p, q in zip(m.dims(a), m.dims(b)))
    if not fits:
        b = _reduced(m, "ReduceMean", b, list(range(1, len(m.dims(b)))), 1)
        while len(m.dims(b)) < len(m.dims(a)):
            b = m.node("Unsqueeze", [b, m.ints(-1)]) if m.opset >= 13 else m.node("Unsqueeze", [b], axes=[len(m.dims(b))])
        while len(m.dims(a)) < len(m.dims(b)):
            a = m.node("Unsqueeze", [a, m.ints(1)]) if m.opset >= 13 else m.node("Unsqueeze", [a], axes=[1])
    return a, b


def _two(m):
    a, b = _pair(m)
    op = m.choice("Add", "Sub", "Mul", "Max", "Min", "Sum", "Mean", "Div")
    if op == "Div":
        b = m.node("Add", [m.node("Abs", [b]), m.weight(0.5)])
    return m.node(op, [a, b] + ([m.choice(a, b)] if op in ("Max", "Min", "Sum", "Mean") and m.rng.random() < 0.4 else []))


def _choose(m):
    a, b = _pair(m)
    condition = m.node(m.choice("Greater", "Less") if m.opset < 12 else m.choice("Greater", "Less", "GreaterOrEqual", "LessOrEqual"),
                       [a, b] if m.rng.random() < 0.5 else [a, m.weight(m.rng.normal())] if m.rng.random() < 0.5 else [m.weight([0.1]), a])
    condition = m.node("Not", [condition]) if m.rng.random() < 0.3 else condition
    if m.rng.random() < 0.3:
        other = m.node("Less", [b, m.weight([0.3])])
        condition = m.node(m.choice("And", "Or"), [condition, other])
    if m.rng.random() < 0.3:
        return m.node("Mul", [a, m.node("Cast", [condition], to=1)])
    return m.node("Where", [condition, *m.choice((a, b), (b, a), (a, m.weight(-0.4)), (m.weight([0.6]), a))])


def _masked(m):
    """Pooling and attention over the history, with masks by id."""
    e = m.node("Gather", [m.weight(m.rng.normal(size=(VOCAB, D))), "hist"])
    known = m.choice(lambda: m.node("Not", [m.node("Equal", ["hist", m.ints(0)])]), lambda: m.node("Greater", ["hist", m.weight(0, np.int64)]),
                     lambda: m.node("Less", [m.ints(0), "hist"]))()
    mask = m.node("Cast", [known], to=1)
    axes = [2]
    wide = m.node("Unsqueeze", [mask, m.ints(*axes)]) if m.opset >= 13 else m.node("Unsqueeze", [mask], axes=axes)
    kind = m.rng.integers(4)
    if kind == 0:
        total = _reduced(m, "ReduceSum", m.node("Mul", [e, wide]), [1], 0)
        return m.node("Div", [total, m.node("Add", [_reduced(m, "ReduceSum", wide, [1], 0), m.weight(m.choice(1e-8, 1.0))])])
    if kind == 1:
        low = m.node("Where", [m.node("Cast", [wide], to=9), e, m.weight(m.choice(-1e9, -5.0))])
        return m.node("Tanh", [_reduced(m, "ReduceMax", low, [1], 0)])
    score = m.node("MatMul", [e, m.weight(m.rng.normal(size=(D, 1)))])
    if kind == 2:
        score = m.node("Where", [m.node("Cast", [wide], to=9), score, m.weight(-1e9)])
    share = m.node("Softmax", [score], axis=1)
    return _reduced(m, "ReduceSum", m.node("Mul", [share, e]), [1], 0)


def _of_ids(m):
    """Arithmetic on ids in front of a lookup."""
    source = m.choice("ids", "hist")
    ids = m.node(m.choice("Add", "Mul"), [source, m.ints(3)])
    ids = m.node(m.choice("Mod", "Div"), [ids, m.ints(m.choice(5, 7))])
    ids = m.node("Clip", [ids, m.weight(0, np.int64), m.weight(m.choice(4, (1 << 63) - 1), np.int64)]) if m.opset >= 12 else ids
    ids = m.node("Cast", [ids], to=6) if m.rng.random() < 0.3 else ids
    return m.node("Gather", [m.weight(m.rng.normal(size=(40, D))), ids], axis=0)


def _reduced(m, op, x, axes, keep):
    if m.opset >= 18 or op == "ReduceSum" and m.opset >= 13:
        return m.node(op, [x, m.ints(*axes)], keepdims=keep)
    return m.node(op, [x], axes=axes, keepdims=keep)


def _reduce(m):
    x = m.pick(3, 4)
    op = m.choice("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp",
                  "ReduceLogSum")
    if op == "ReduceLogSum":
        x = m.node("Add", [m.node("Abs", [x]), m.weight([0.2])])
    rank = len(m.dims(x))
    count = int(m.rng.integers(1, rank))
    axes = sorted(m.rng.choice(np.arange(1, rank), count, replace=False).tolist())
    axes = [a - rank if m.rng.random() < 0.5 else a for a in axes]
    if op in ("ReduceLogSum", "ReduceLogSumExp") and len(axes) > 1:
        axes = axes[:1]
    return _reduced(m, op, x, axes, int(m.rng.integers(2)) if count < rank - 1 else 1)


def _along(m):
    x = m.pick()
    kind = m.rng.integers(3)
    if kind == 2:
        return m.node("CumSum", [x, m.weight(m.axis(x), np.int64)], exclusive=int(m.rng.integers(2)), reverse=int(m.rng.integers(2)))
    op = ("Softmax", "LogSoftmax")[kind]
    return m.node(op, [x], axis=m.axis(x)) if m.rng.random() < 0.7 else m.node(op, [x])


def _moved(m):
    x = m.pick()
    rank = len(m.dims(x))
    kind = m.rng.integers(6)
    if kind == 0 and rank > 2:
        return m.node("Transpose", [x], perm=[0, *(1 + m.rng.permutation(rank - 1)).tolist()])
    if kind == 1:
        dims = list(m.dims(x)[1:])
        return m.node("Reshape", [x, m.ints(*m.choice((0, -1), (-1, *dims[::-1]), (0, 1, -1), (-1, int(np.prod(dims)), 1)))])
    if kind == 2 and rank < 4:
        axis = int(m.rng.integers(1, rank + 1))
        axis = axis - rank - 1 if m.rng.random() < 0.5 else axis
        return m.node("Unsqueeze", [x, m.ints(axis)]) if m.opset >= 13 else m.node("Unsqueeze", [x], axes=[axis])
    if kind == 3 and 1 in m.dims(x)[1:] and rank > 2:
        axis = m.dims(x).index(1, 1) - (rank if m.rng.random() < 0.5 else 0)
        return m.node("Squeeze", [x, m.ints(axis)]) if m.opset >= 13 else m.node("Squeeze", [x], axes=[axis])
    if kind == 4:
        return m.node("Flatten", [x], axis=m.choice(1, 1 - rank))
    shape = m.node("Shape", [x])
    first = m.node("Gather", [shape, m.ints(0)], axis=0)
    return m.node("Reshape", [x, m.node("Concat", [first, m.ints(-1)], axis=0)])


def _cut(m):
    x = m.pick()
    axis = m.axis(x)
    size = m.dims(x)[axis]
    kind = m.rng.integers(4)
    if kind == 0:
        begin, end = (int(v) for v in m.rng.integers(-size - 1, size + 2, 2))
        step = m.choice(1, 1, 2, -1, -2)
        end = m.choice(end, (1 << 63) - 1) if step > 0 else m.choice(end, -(1 << 63))
        if not len(range(size)[slice(begin, end, step)]):
            raise Rejected
        return m.node("Slice", [x, m.ints(begin), m.ints(end), m.ints(axis), m.ints(step)])
    if kind == 1 and size > 1:
        cut = int(m.rng.integers(1, size))
        if m.opset >= 13:
            a, b = m.node("Split", [x, m.ints(cut, size - cut)], 2, axis=axis)
        else:
            a, b = m.node("Split", [x], 2, axis=axis, split=[cut, size - cut])
        return m.node("Concat", [b, a], axis=axis)
    if kind == 2:
        places = m.rng.integers(-size, size, m.choice((), (2,), (2, 2)))
        return m.node("Gather", [x, m.weight(places, np.int64)], axis=axis)
    if m.opset >= 18 or size % 2 or m.rng.random() < 0.5:
        return m.node("Concat", [x, x], axis=axis)
    return m.node("Split", [x], 2, axis=axis)[1]


def _grown(m):
    x = m.pick(2, 3)
    dims = m.dims(x)
    kind = m.rng.integers(4)
    if kind == 0:
        pads = [0] + m.rng.integers(0, 3, len(dims) - 1).tolist() + [0] + m.rng.integers(0, 3, len(dims) - 1).tolist()
        return m.node("Pad", [x, m.ints(*pads)] + ([m.weight(m.rng.normal())] if m.rng.random() < 0.6 else []))
    if kind == 1:
        return m.node("Tile", [x, m.ints(1, *m.rng.integers(1, 4, len(dims) - 1).tolist())])
    wide = m.node("Unsqueeze", [x, m.ints(1)]) if m.opset >= 13 else m.node("Unsqueeze", [x], axes=[1])
    if kind == 2:
        return m.node("Expand", [wide, m.ints(1, 3, *[1] * (len(dims) - 1))])
    filled = m.node("ConstantOfShape", [m.node("Shape", [x])], value=numpy_helper.from_array(np.array([0.7], np.float32)))
    return m.node("Sub", [filled, x])


def _product(m):
    x = m.pick()
    dims = m.dims(x)
    kind = m.rng.integers(6)
    if kind == 0 and len(dims) == 2:
        n, flip = int(m.rng.integers(1, 6)), int(m.rng.integers(2))
        weight = m.rng.normal(size=(n, dims[1]) if flip else (dims[1], n)) / np.sqrt(dims[1])
        bias = [m.weight(m.rng.normal(size=m.choice((n,), (1, n), (1,), ())))] if m.rng.random() < 0.8 else []
        more = {} if m.rng.random() < 0.5 else {"alpha": float(m.rng.uniform(0.5, 2)), "beta": float(m.rng.uniform(0, 2))}
        return m.node("Gemm", [x, m.weight(weight), *bias], transB=flip, **more)
    if kind == 1:
        return m.node("MatMul", [x, m.weight(m.rng.normal(size=(dims[-1], 3)) / np.sqrt(dims[-1]))])
    if kind == 2 and len(dims) > 2:
        return m.node("MatMul", [m.weight(m.rng.normal(size=(2, dims[-2])) / np.sqrt(dims[-2])), x])
    if kind == 3 and len(dims) == 3:
        flipped = m.node("Transpose", [x], perm=[0, 2, 1])
        return m.node("MatMul", m.choice([x, flipped], [flipped, x]))
    if kind == 4 and m.opset >= 12 and len(dims) == 3:
        return _einsum(m, x)
    if len(dims) > 2:
        return m.node("MatMul", [x, m.weight(m.rng.normal(size=dims[-1]) / np.sqrt(dims[-1]))])
    raise Rejected


def _einsum(m, x):
    dims = m.dims(x)
    equation, others = m.choice(("btd,dk->bkt", [m.weight(m.rng.normal(size=(dims[2], 2)))]), ("btd,bsd->bts", [x]),
                                ("bij, bij -> bj", [x]), ("...d,d->...", [m.weight(m.rng.normal(size=dims[2]))]))
    return m.node("Einsum", [x, *others], equation=equation)


def _normed(m):
    x = m.pick()
    dims = m.dims(x)
    if m.rng.random() < 0.5:
        n, w = dims[1], lambda low, high: m.weight(m.rng.uniform(low, high, dims[1]))
        return m.node("BatchNormalization", [x, w(0.5, 1.5), w(-1, 1), w(-1, 1), w(0.5, 2)],
                      **({"epsilon": float(m.rng.uniform(1e-5, 0.1))} if n else {}))
    if m.opset < 17:
        raise Rejected
    axis = m.axis(x)
    shape = dims[axis:]
    more = [m.weight(m.rng.normal(size=shape))] if m.rng.random() < 0.7 else []
    return m.node("LayerNormalization", [x, m.weight(m.rng.normal(size=shape)), *more], axis=axis, epsilon=0.01)


def _prelu(m):
    x = m.pick()
    dims = m.dims(x)
    shape = m.choice((1,), dims[-1:], (dims[1],) + (1,) * (len(dims) - 2), (1,) + (1,) * (len(dims) - 2), dims[1:])
    return m.node("PRelu", [x, m.weight(m.rng.normal(size=shape))])


def _counts(m):
    """Whole numbers made of comparisons, counted and turned back into floats."""
    mask = m.node(m.choice("Greater", "Less"), ["hist", m.ints(int(m.rng.integers(1, VOCAB)))])
    count = _reduced(m, "ReduceSum", m.node("Cast", [mask], to=m.choice(6, 7)), [1], 1)
    if m.opset >= 12 and m.rng.random() < 0.5:
        count = m.node("Clip", [count, m.weight(1, np.int32 if m.values[count].dtype == np.int32 else np.int64)])
    count = m.node("Cast", [count], to=1)
    return m.node("Div", [m.node("ReduceSum", ["x", m.ints(1)], keepdims=1), m.node("Add", [count, m.weight(1.0)])]) if m.opset >= 13 else count


def _flat(m):
    """Values of one number for each row without another dim, as squeeze(-1) and sums leave them."""
    x = m.pick(2, 4)
    x = _reduced(m, m.choice("ReduceSum", "ReduceMean", "ReduceMax"), x, list(range(1, len(m.dims(x)))), 0)
    x = m.node(*m.choice(("Tanh", [x]), ("Mul", [x, x]), ("Add", [x, m.weight(0.3)]), ("Sub", [m.weight([1.0]), x])))
    return m.node("Unsqueeze", [x, m.ints(1)]) if m.opset >= 13 else m.node("Unsqueeze", [x], axes=[-1])


def _chunks(m):
    """Equal pieces by number, joined again by several parts."""
    x = m.pick()
    axis = m.axis(x)
    size = m.dims(x)[axis]
    if size < 2 or m.opset < 18 and size % 2:
        raise Rejected
    a, b = m.node("Split", [x], 2, axis=axis, **({"num_outputs": 2} if m.opset >= 18 else {}))
    return m.node("Concat", [b, a, b], axis=axis)


def _hot(m):
    return m.node("OneHot", [m.choice("ids", "hist"), m.ints(VOCAB + int(m.rng.integers(2))), m.weight([0.1, 1.3])],
                  axis=m.choice(-1, 1))


def _mixing(m):
    """What makes a row's value depend on other rows; once in a while."""
    if m.rng.random() < 0.9:
        raise Rejected
    x = m.pick()
    kind = m.rng.integers(4)
    if kind == 0:
        m.mixes = m.node("Sub", [x, _reduced(m, "ReduceMean", x, [0], 1)])
    elif kind == 1:
        m.mixes = m.node("CumSum", [x, m.weight(0, np.int64)])
    elif kind == 2:
        m.mixes = m.node("Softmax", [x], axis=0)
    else:
        m.mixes = m.node("Mul", [x, m.node("Cast", [m.node("Gather", [m.node("Shape", [x]), m.ints(0)])], to=1)])
    return m.mixes


STEPS = (_activation, _activation, _root, _exp, _clip, _power, _constant_operand, _constant_operand, _two, _two, _choose, _masked, _of_ids,
         _reduce, _reduce, _along, _moved, _moved, _cut, _cut, _grown, _product, _product, _normed, _prelu, _hot, _counts, _flat, _chunks,
         _mixing)
