"""Shapes and row spaces of the primitives (FORMAT.md parts 7 and 8). Used by Builder and Bundle alike."""

import math

from ..errors import BundleError
from ..schema import get, is_keyed
from . import attention

MAX_ELEMENTS = 2**24
MASKS = ("length", "id", "none", "nonzero")
UNARY_PLAIN = ("relu", "sigmoid", "tanh", "exp", "log", "abs", "sqrt", "rsqrt", "silu", "selu", "gelu_erf", "gelu_tanh",
               "softplus", "identity", "sin", "cos", "sign")
UNARY_A = ("leaky", "elu", "pow")
UNARY = UNARY_PLAIN + UNARY_A + ("clamp", "affine", "prelu", "dice")
COMPARE = ("lt", "le", "gt", "ge", "eq", "ne")
BINARY = ("add", "sub", "mul", "div", "max", "min") + COMPARE + ("atan2",)
REDUCE = ("sum", "mean", "max", "sumsq")
RECURRENT = ("gru", "agru", "augru", "vecatt")
VIEW_KEYS = {"reshape": ("dims",), "transpose": ("perm",), "slice": ("axis", "begin", "end"),
             "index_select": ("axis", "indices"), "expand": ("dims",)}

#: op -> (least inputs, most inputs, attribute keys, parameter roles)
OPS = {
    "Input": (0, 0, ("feature",), ()),
    "Const": (0, 0, (), ("value",)),
    "Embed": (1, 1, ("table", "pooling", "mask", "eps", "empty"), ()),
    "Mask": (1, 1, ("rule",), ()),
    "Linear": (1, 1, ("groups", "axis"), ("weight", "bias")),
    "MatMul": (2, 2, ("trans_a", "trans_b", "alpha"), ()),
    "Binary": (2, 2, ("kind",), ()),
    "Unary": (1, 1, ("kind", "a", "b"), ("scale", "shift", "slope", "alpha")),
    "LayerNorm": (1, 1, ("eps",), ("gamma", "beta")),
    "Softmax": (1, 2, ("axis", "mask_mode", "value"), ()),
    "Reduce": (1, 2, ("kind", "axis", "keepdim", "eps", "empty"), ()),
    "Concat": (1, 65536, ("axis",), ()),
    "View": (1, 1, ("kind", "dims", "perm", "axis", "begin", "end", "indices"), ()),
    "Recurrent": (2, 3, ("kind", "reset", "output"), ("w_input", "w_hidden", "b_input", "b_hidden")),
    "Where": (3, 3, (), ()),
    "TopK": (1, 1, ("k", "axis", "largest"), ()),
    "Gather": (2, 2, ("axis",), ()),
    "Attention": (3, 5, attention.ATTRS, ()),
}
OPTIONAL_PARAMS = {"bias", "gamma", "beta", "b_input", "b_hidden", "scale", "shift", "slope", "alpha"}


class Call:
    """One op under inference: its dict, the shapes of its inputs and parameters."""

    def __init__(self, op, graph):
        self.op, self.graph = op, graph
        self.attrs = op.get("attrs", {})
        self.inputs = [graph.shape(i) for i in op.get("in", [])]
        self.params = {role: graph.param_shape(name) for role, name in op.get("params", {}).items()}

    def fail(self, text):
        raise BundleError(f"op '{self.op.get('name')}' ({self.op.get('op')}): {text}")

    def need(self, ok, text):
        if not ok:
            self.fail(text)

    def attr(self, key, default=None, choices=None):
        value = self.attrs.get(key, default)
        self.need(value is not None, f"attribute {key} is missing")
        if choices:
            self.need(isinstance(value, str) and value in choices,
                      f"{key} is {value!r}, expected one of {', '.join(choices)}")
        return value

    def number(self, key, default=None):
        value = self.attr(key, default)
        self.need(isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value),
                  f"{key} is {value!r}, expected a finite number")
        return value

    def integer(self, value, what):
        self.need(isinstance(value, int) and not isinstance(value, bool), f"{what} is {value!r}, expected an integer")
        return value

    def flag(self, key, default=False):
        value = self.attr(key, default)
        self.need(isinstance(value, bool), f"{key} is {value!r}, expected true or false")
        return value

    def floats(self, i=0):
        self.need(self.inputs[i] is not None, f"input {i} ('{self.op['in'][i]}') holds ids, expected floats")
        return self.inputs[i]

    def axis(self, rank, default=-1):
        axis = self.integer(self.attr("axis", default), "axis")
        self.need(-rank <= axis < rank, f"axis {axis} is outside a value of {rank} dims")
        return axis % rank

    def dims(self, key):
        dims = self.attr(key)
        self.need(isinstance(dims, list) and 1 <= len(dims) <= 5, f"{key} is {dims!r}, expected 1 to 5 integers")
        for d in dims:
            self.integer(d, f"an entry of {key}")
        return dims

    def param(self, role, shape):
        if role in self.params:
            self.need(tuple(self.params[role]) == tuple(shape),
                      f"parameter {role} has shape {list(self.params[role])}, expected {list(shape)}")


def broadcast(c, x, y, what="inputs"):
    """Dims of x and y aligned at the right, 1 broadcasting."""
    n = max(len(x), len(y))
    px, py = (1,) * (n - len(x)) + tuple(x), (1,) * (n - len(y)) + tuple(y)
    for a, b in zip(px, py):
        c.need(a == b or a == 1 or b == 1, f"{what} {list(x)} and {list(y)} do not broadcast")
    return tuple(max(a, b) for a, b in zip(px, py))


def _input(c):
    feature = c.graph.feature(c.attr("feature"))
    c.need(feature is not None, f"feature '{c.attrs['feature']}' is not in the schema")
    if feature["kind"] in ("categorical", "sequence"):
        return None
    return (feature.get("dim", 1),)


def _const(c):
    return tuple(c.params["value"])


def _ids_text(entry):
    return f"keys of '{entry['keys']}'" if "keys" in entry else "row numbers"


def _embed(c):
    f = c.graph.source_feature(c.op["in"][0])
    c.need(c.inputs[0] is None and f is not None, f"input '{c.op['in'][0]}' holds floats, expected ids")
    table = c.graph.table_info(c.attr("table"))
    c.need(table is not None, f"table '{c.attrs['table']}' does not exist")
    c.need(f.get("keys") == table.get("keys"),
           f"feature '{f['name']}' has {_ids_text(f)}, the rows of table '{table['name']}' are found by {_ids_text(table)}")
    if not is_keyed(f) and "rows" in table:
        c.need(f["vocab_size"] <= table["rows"],
               f"feature '{f['name']}' has vocab_size {f['vocab_size']}, table '{table['name']}' only {table['rows']} rows")
    pooling = c.attr("pooling", "single", ("single", "none", "sum", "mean", "max"))
    mask = c.attr("mask", "length", MASKS)
    c.number("eps", 0.0), c.number("empty", 0.0)
    kind = "categorical" if pooling == "single" else "sequence"
    c.need(f["kind"] == kind, f"pooling {pooling} needs a {kind} feature, '{f['name']}' is {f['kind']}")
    if pooling == "single":
        return (table["dim"],)
    max_len, weighted = get(f, "max_len"), get(f, "weighted")
    if pooling == "none" or mask == "none":
        c.need(max_len > 0, f"pooling {pooling} with mask {mask} needs max_len > 0 on feature '{f['name']}'")
    c.need(mask != "nonzero" or pooling in ("mean", "sum"), "mask nonzero goes with pooling mean or sum only")
    c.need(not (pooling == "max" and weighted), f"pooling max does not take weighted feature '{f['name']}'")
    c.need(not (mask == "none" and weighted), f"mask none does not take weighted feature '{f['name']}'")
    return (max_len, table["dim"]) if pooling == "none" else (table["dim"],)


def _mask(c):
    rule = c.attr("rule", None, ("id", "length", "nonzero"))
    if rule == "nonzero":
        x = c.floats()
        c.need(len(x) == 2, f"rule nonzero needs x [T, D], got {list(x)}")
        return (x[0],)
    f = c.graph.source_feature(c.op["in"][0])
    c.need(c.inputs[0] is None and f is not None, f"rule {rule} needs ids")
    c.need(get(f, "max_len") > 0, f"rule {rule} needs a sequence with max_len > 0, feature '{f['name']}' has none")
    return (f["max_len"],)


def _linear(c):
    x = c.floats()
    groups = c.integer(c.attr("groups", 1), "groups")
    axis = c.attr("axis", "last", ("last", "field"))
    c.need(groups >= 1, f"groups is {groups}, expected at least 1")
    w = tuple(c.params["weight"])
    if groups > 1:
        c.need(axis == "last", "axis field takes no groups")
        c.need(len(w) == 3 and w[0] == groups, f"weight has shape {list(w)}, expected [{groups}, out, in]")
        c.need(len(x) >= 2 and x[-2] in (1, groups) and x[-1] == w[2],
               f"x has dims {list(x)}, expected [.., {groups} or 1, {w[2]}]")
        c.param("bias", (groups, w[1]))
        return x[:-2] + (groups, w[1])
    c.need(len(w) == 2, f"weight has shape {list(w)}, expected [out, in]")
    c.param("bias", (w[0],))
    if axis == "field":
        c.need(len(x) >= 2 and x[-2] == w[1], f"x has dims {list(x)}, expected [.., {w[1]}, d] for weight {list(w)}")
        return x[:-2] + (w[0], x[-1])
    c.need(x[-1] == w[1], f"x has dims {list(x)}, weight {list(w)} expects [.., {w[1]}]")
    return x[:-1] + (w[0],)


def _matmul(c):
    a, b = c.floats(0), c.floats(1)
    c.need(len(a) >= 2 and len(b) >= 2, f"inputs {list(a)} and {list(b)}: expected at least 2 dims each")
    c.number("alpha", 1.0)
    m, k = (a[-1], a[-2]) if c.flag("trans_a") else (a[-2], a[-1])
    k2, n = (b[-1], b[-2]) if c.flag("trans_b") else (b[-2], b[-1])
    c.need(k == k2, f"inputs {list(a)} and {list(b)}: inner sizes {k} and {k2} differ")
    return broadcast(c, a[:-2], b[:-2], "leading dims") + (m, n)


def _binary(c):
    c.attr("kind", None, BINARY)
    return broadcast(c, c.floats(0), c.floats(1))


def _unary(c):
    x, kind = c.floats(), c.attr("kind", None, UNARY)
    d, given = x[-1], set(c.params)
    want = {"prelu": {"slope"}, "dice": {"alpha", "scale", "shift"}}.get(kind, set())
    scalars = {"clamp": {"a", "b"}, "leaky": {"a"}, "elu": {"a"}, "pow": {"a"}}.get(kind, set())
    if kind == "affine":
        want, scalars = ({"scale", "shift"}, set()) if given else (set(), {"a", "b"})
    c.need(given == want, f"kind {kind} takes parameters {sorted(want)}, got {sorted(given)}")
    have = {k for k in ("a", "b") if k in c.attrs}
    c.need(have == scalars, f"kind {kind} takes scalars {sorted(scalars)}, got {sorted(have)}")
    for key in scalars:
        c.number(key)
    for role in want:
        shape = tuple(c.params[role])
        c.need(shape == (d,) or (kind == "prelu" and shape == (1,)),
               f"parameter {role} has shape {list(shape)}, expected [{d}]")
    if kind == "clamp":
        c.need(c.attrs["a"] <= c.attrs["b"], f"clamp from {c.attrs['a']} to {c.attrs['b']} is empty")
    return x


def _layer_norm(c):
    x = c.floats()
    eps = c.number("eps", 1e-5)
    c.need(eps >= 0, f"eps is {eps}, expected >= 0")
    for role in c.params:
        shape = tuple(c.params[role])
        c.need(shape == x[-1:] or (len(x) >= 2 and shape == x[-2:]),
               f"parameter {role} has shape {list(shape)}, expected {list(x[-1:])}"
               + (f" or {list(x[-2:])}" if len(x) >= 2 else ""))
    return x


def _softmax(c):
    x = c.floats()
    c.axis(len(x))
    mode = c.attr("mask_mode", "none", ("none", "ninf", "add", "replace"))
    c.number("value", -1e9)
    c.need((mode != "none") == (len(c.inputs) == 2), f"mask_mode {mode} with {len(c.inputs)} inputs")
    if mode != "none" and not mask_is_prefix(x, c.floats(1), c.attr("axis", -1)):
        c.need(broadcast(c, x, c.floats(1), "x and mask") == x,
               f"mask {list(c.inputs[1])} does not broadcast to x {list(x)}")
    return x


def mask_is_prefix(x, mask, axis):
    """True when a softmax mask has the dims of x up to and including the axis; otherwise it broadcasts at the right."""
    return tuple(mask) == tuple(x[:axis % len(x) + 1])


def _reduce(c):
    x = c.floats()
    c.attr("kind", None, REDUCE)
    axis, keep = c.axis(len(x)), c.flag("keepdim")
    c.number("eps", 0.0), c.number("empty", 0.0)
    c.need(keep or len(x) > 1, "a value of one dim needs keepdim")
    if len(c.inputs) == 2:
        c.need(c.floats(1) == x[:axis + 1],
               f"mask has dims {list(c.inputs[1])}, expected {list(x[:axis + 1])} (x up to and including the axis)")
    return x[:axis] + ((1,) if keep else ()) + x[axis + 1:]


def _concat(c):
    shapes = [c.floats(i) for i in range(len(c.inputs))]
    axis = c.axis(len(shapes[0]))
    for i, s in enumerate(shapes):
        same = len(s) == len(shapes[0]) and all(a == b for k, (a, b) in enumerate(zip(s, shapes[0])) if k != axis)
        c.need(same, f"input {i} has dims {list(s)}, input 0 has {list(shapes[0])}: only axis {axis} may differ")
    return shapes[0][:axis] + (sum(s[axis] for s in shapes),) + shapes[0][axis + 1:]


def _view(c):
    x, kind = c.floats(), c.attr("kind", None, tuple(VIEW_KEYS))
    for key in c.attrs:
        c.need(key == "kind" or key in VIEW_KEYS[kind], f"attribute {key} does not belong to view {kind}")
    if kind in ("reshape", "expand"):
        dims = tuple(c.dims("dims"))
        c.need(all(d >= 1 for d in dims), f"dims {list(dims)}: each is at least 1")
        if kind == "reshape":
            c.need(math.prod(dims) == math.prod(x), f"{list(x)} cannot become {list(dims)}")
        else:
            c.need(len(dims) >= len(x) and broadcast(c, x, dims) == dims, f"{list(x)} does not expand to {list(dims)}")
        return dims
    if kind == "transpose":
        perm = c.dims("perm")
        c.need(sorted(perm) == list(range(len(x))), f"perm {perm} is not a permutation of {len(x)} dims")
        return tuple(x[p] for p in perm)
    axis = c.axis(len(x), None)
    if kind == "slice":
        begin, end = c.integer(c.attr("begin"), "begin"), c.integer(c.attr("end"), "end")
        c.need(0 <= begin < end <= x[axis], f"slice {begin}..{end} of {x[axis]} entries")
        return x[:axis] + (end - begin,) + x[axis + 1:]
    indices = c.attr("indices")
    c.need(isinstance(indices, list) and indices, "indices: expected a list of integers")
    for i in indices:
        c.need(0 <= c.integer(i, "an index") < x[axis], f"index {i} of {x[axis]} entries")
    return x[:axis] + (len(indices),) + x[axis + 1:]


def _recurrent(c):
    kind = c.attr("kind", None, RECURRENT)
    c.attr("reset", None, ("after", "before"))
    output = c.attr("output", None, ("last", "all"))
    x = c.floats(0)
    c.need(len(x) == 2, f"x has dims {list(x)}, expected [T, i]")
    c.need(c.floats(1) == x[:1], f"mask has dims {list(c.inputs[1])}, expected {list(x[:1])}")
    c.need((kind == "gru") == (len(c.inputs) == 2), f"kind {kind} with {len(c.inputs)} inputs")
    if len(c.inputs) == 3:
        c.need(c.floats(2) == x[:1], f"attention has dims {list(c.inputs[2])}, expected {list(x[:1])}")
    w = tuple(c.params["w_hidden"])
    c.need(len(w) == 2 and w[0] == 3 * w[1], f"w_hidden has shape {list(w)}, expected [3 m, m]")
    c.param("w_input", (w[0], x[1]))
    c.param("b_input", (w[0],))
    c.param("b_hidden", (w[0],))
    return (x[0], w[1]) if output == "all" else (w[1],)


def _where(c):
    return broadcast(c, c.floats(0), broadcast(c, c.floats(1), c.floats(2), "x and y"), "cond and the values")


def _top_k(c):
    x = c.floats()
    axis, k = c.axis(len(x)), c.integer(c.attr("k"), "k")
    c.flag("largest", True)
    c.need(1 <= k <= x[axis], f"k is {k}, expected 1 to {x[axis]}, the entries of axis {axis}")
    return x[:axis] + (k,) + x[axis + 1:]


def _gather(c):
    x, index = c.floats(0), c.floats(1)
    axis = c.axis(len(x))
    c.need(len(x) == len(index), f"x has dims {list(x)}, index {list(index)}: expected as many")
    return broadcast(c, x[:axis] + (index[axis],) + x[axis + 1:], index, f"but for axis {axis}, x and index")


_INFER = {"Input": _input, "Const": _const, "Embed": _embed, "Mask": _mask, "Linear": _linear, "MatMul": _matmul,
          "Binary": _binary, "Unary": _unary, "LayerNorm": _layer_norm, "Softmax": _softmax, "Reduce": _reduce,
          "Concat": _concat, "View": _view, "Recurrent": _recurrent, "Where": _where,
          "TopK": _top_k, "Gather": _gather, "Attention": attention.infer}


def check_form(op):
    """Raises unless op kind, version, number of inputs, attribute and parameter keys are known."""
    c_name = f"op '{op.get('name')}' ({op.get('op')})"
    for key in op:
        if key not in ("name", "op", "v", "in", "attrs", "params", "module"):
            raise BundleError(f"{c_name}: key '{key}' is not known")
    if op.get("op") not in OPS:
        raise BundleError(f"{c_name}: this op is not known")
    if op.get("v", 1) != 1:
        raise BundleError(f"{c_name}: version {op['v']} is not known")
    least, most, attrs, params = OPS[op["op"]]
    n = len(op.get("in", []))
    if not least <= n <= most:
        raise BundleError(f"{c_name}: {n} inputs, expected {least}" + (f" to {most}" if most != least else ""))
    for kind, have, known in (("attribute", op.get("attrs", {}), attrs), ("parameter", op.get("params", {}), params)):
        for key in have:
            if key not in known:
                raise BundleError(f"{c_name}: {kind} '{key}' is not known")
    for role in params:
        if role not in OPTIONAL_PARAMS and role not in op.get("params", {}):
            raise BundleError(f"{c_name}: parameter '{role}' is missing")


def infer_shape(op, graph):
    """Dims of the op's value without the row axis; None for ids."""
    call = Call(op, graph)
    shape = _INFER[op["op"]](call)
    if shape is not None:
        shape = tuple(int(d) for d in shape)
        call.need(1 <= len(shape) <= 5, f"the value would have dims {list(shape)}, expected 1 to 5")
        call.need(all(d >= 1 for d in shape), f"the value would have dims {list(shape)}: each is at least 1")
        most = getattr(graph, "most_elements", MAX_ELEMENTS)
        call.need(math.prod(shape) <= most, f"the value would have {math.prod(shape)} elements a row")
    return shape


def infer_space(op, graph):
    """Row space of the op's value: item, shared or constant."""
    if op["op"] == "Input":
        return get(graph.feature(op["attrs"]["feature"]), "space")
    spaces = {graph.space(i) for i in op.get("in", [])}
    return "item" if "item" in spaces else "shared" if "shared" in spaces else "constant"
