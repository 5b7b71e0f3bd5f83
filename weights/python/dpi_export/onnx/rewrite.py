"""What exporters take apart and a bundle has as one: GELU, LayerNorm, nn.EmbeddingBag, nan_to_num. Nodes that nothing reads any more go
later (Graph.needed)."""

import math

import numpy as np

from .graph import Graph, OnnxNode, constant_of


def rewritten(graph):
    """The graph with these put together again; other nodes are left as they are."""
    found = _Finder(graph)
    for i, node in enumerate(graph.nodes):
        for rule in _RULES.get(node.op, ()):
            better = rule(found, node)
            if better is not None:
                op, inputs, attrs = better
                graph.nodes[i] = node = OnnxNode(node.name, op, inputs, node.outputs, attrs)
                found.made(node)
    return graph


class _Finder:
    """Who makes a value, and what small constants hold."""

    def __init__(self, graph, outer=None):
        self.graph, self._outer = graph, outer
        self._maker = {name: node for node in graph.nodes for name in node.outputs if name}
        self._constants = constant_of(graph)

    def made(self, node):
        """A node was replaced."""
        self._maker.update((name, node) for name in node.outputs if name)

    def node(self, name, *ops):
        """The node that gives a value, if it is one of these operators and gives nothing else."""
        node = self._maker.get(name)
        return node if node is not None and (not ops or node.op in ops) else None

    def array(self, name):
        """A small constant, or None."""
        held = self._constants.get(name)
        return held if held is not None or self._outer is None else self._outer.array(name)

    def number(self, name):
        """A constant of one entry, which adds no dims to what it meets."""
        array = self.array(name)
        return float(array.reshape(-1)[0]) if array is not None and array.size == 1 and array.ndim <= 1 else None

    def with_number(self, node, value):
        """The other input of a node of two, when one is this number."""
        if node is None or len(node.inputs) != 2:
            return None
        for number, other in (node.inputs, node.inputs[::-1]):
            held = self.number(number)
            if held is not None and math.isclose(held, value, rel_tol=1e-6):
                return other
        return None


# -- GELU -------------------------------------------------------------------------------------------------------------
def _gelu(found, node):
    """x / 2 (1 + erf(x / sqrt(2))), the factors in any order."""
    factors, pending = [], list(node.inputs)
    while pending and len(factors) < 8:
        name = pending.pop()
        inner = found.node(name, "Mul")
        if inner is not None and found.number(name) is None:
            pending.extend(inner.inputs)
        else:
            factors.append(name)
    numbers = [found.number(name) for name in factors]
    rest = [name for name, number in zip(factors, numbers) if number is None]
    scale = math.prod(n for n in numbers if n is not None)
    if len(rest) != 2 or not math.isclose(scale, 0.5, rel_tol=1e-6):
        return None
    for x, gate in (rest, rest[::-1]):
        erf = found.node(found.with_number(found.node(gate, "Add"), 1.0), "Erf")
        if erf is not None and _over_root_two(found, erf.inputs[0]) == x:
            return "Gelu", [x], {}
    return None


def _over_root_two(found, name):
    node = found.node(name, "Div", "Mul")
    if node is None:
        return None
    if node.op == "Mul":
        return found.with_number(node, math.sqrt(0.5))
    number = found.number(node.inputs[1])
    return node.inputs[0] if number is not None and math.isclose(number, math.sqrt(2), rel_tol=1e-6) else None


# -- LayerNorm --------------------------------------------------------------------------------------------------------
def _layer_norm(found, node):
    """(x - mean) / sqrt(var + eps) scale + shift over the last axes."""
    for product, shift in (node.inputs, node.inputs[::-1]):
        mul = found.node(product, "Mul")
        if mul is None or shift not in found.graph.tensors:
            continue
        for quotient, scale in (mul.inputs, mul.inputs[::-1]):
            held = _normalised(found, found.node(quotient, "Div"))
            if held is not None and scale in found.graph.tensors:
                x, count, eps = held
                if all(len(found.graph.tensors[name].dims) == count for name in (scale, shift)):
                    return "LayerNormalization", [x, scale, shift], {"axis": -count, "epsilon": eps}
    return None


def _normalised(found, div):
    """(x, number of axes, eps) of a quotient that is normalised over its last axes."""
    if div is None:
        return None
    sub, root = found.node(div.inputs[0], "Sub"), found.node(div.inputs[1], "Sqrt")
    if sub is None or root is None:
        return None
    mean = found.node(sub.inputs[1], "ReduceMean")
    added = found.node(root.inputs[0], "Add")
    if mean is None or added is None or mean.inputs[0] != sub.inputs[0]:
        return None
    for variance, eps in (added.inputs, added.inputs[::-1]):
        var, eps = found.node(variance, "ReduceMean"), found.number(eps)
        if var is None or eps is None or not _is_square(found, var.inputs[0], div.inputs[0]):
            continue
        axes = _last_axes(found, mean)
        if axes and axes == _last_axes(found, var):
            return sub.inputs[0], axes, float(str(np.float32(eps)))
    return None


def _is_square(found, name, of):
    node = found.node(name, "Pow", "Mul")
    if node is None:
        return False
    return node.inputs == [of, of] if node.op == "Mul" else node.inputs[0] == of and found.number(node.inputs[1]) == 2


def _last_axes(found, node):
    """How many of the last axes a reduction goes over, or None."""
    axes = node.attrs.get("axes")
    if len(node.inputs) > 1:
        array = found.array(node.inputs[1])
        axes = None if array is None else array.reshape(-1).tolist()
    if not axes or not node.attrs.get("keepdims", 1) or sorted(axes) != list(range(-len(axes), 0)):
        return None
    return len(axes)


# -- nn.EmbeddingBag --------------------------------------------------------------------------------------------------
def _embedding_bag(found, node):
    """A loop over the rows, each of which slices its ids out of all ids, looks them up and reduces them."""
    body = node.attrs.get("body")
    if not isinstance(body, Graph) or len(node.inputs) != 2 or len(body.inputs) != 2 or len(body.outputs) != 2:
        return None
    inner, step = _Finder(body, found), body.inputs[0][0]
    goes_on = inner.node(body.outputs[0], "Cast", "Identity")
    reduce = inner.node(body.outputs[1], "ReduceSum", "ReduceMean", "ReduceMax")
    if goes_on is None or found.number(goes_on.inputs[0]) not in (1.0, True) or reduce is None or reduce.attrs.get("keepdims", 1):
        return None
    axes = reduce.attrs.get("axes") if len(reduce.inputs) == 1 else inner.array(reduce.inputs[1])
    rows = inner.node(reduce.inputs[0], "Gather")
    if axes is None or list(axes) != [0] or rows is None or rows.attrs.get("axis", 0):
        return None
    ids = inner.node(rows.inputs[1], "Slice")
    if ids is None or len(ids.inputs) < 3 or any(name in inner._maker for name in (rows.inputs[0], ids.inputs[0])):
        return None
    ends = [_picked(inner, name, step) for name in ids.inputs[1:3]]
    more = [inner.array(name) for name in ids.inputs[3:]]
    if None in ends or any(a is None or a.reshape(-1).tolist() != [want] for a, want in zip(more, (0, 1))):
        return None
    return "EmbeddingBag", [rows.inputs[0], ids.inputs[0], *ends, node.inputs[0]], {"mode": reduce.op[6:].lower()}


def _picked(inner, name, step):
    """The outer list of which a value is the entry number `step`."""
    spread = inner.node(name, "Unsqueeze")
    pick = inner.node(spread.inputs[0], "Gather") if spread is not None else None
    if pick is None or pick.inputs[1] != step or pick.attrs.get("axis", 0) or pick.inputs[0] in inner._maker:
        return None
    return pick.inputs[0]


# -- nan_to_num -------------------------------------------------------------------------------------------------------
def _nan_to_num(found, node):
    """Where(IsNaN(x), number, x); and of its result, the choices between infinities and numbers that torch.nan_to_num adds."""
    condition, number, x = node.inputs
    test = found.node(condition, "IsNaN")
    if test is not None and test.inputs[0] == x and found.number(number) is not None:
        return "NanToNum", [x], {"nan": found.number(number)}
    both = found.node(condition, "And")
    if both is None or found.number(number) is None or found.node(x, "NanToNum") is None:
        return None
    tests = [found.node(_uncast(found, name), "IsInf", "Greater", "Less") for name in both.inputs]
    if None not in tests and sorted(t.op == "IsInf" for t in tests) == [False, True] and all(
            _same_but_nan(found, t.inputs[0], x) for t in tests):
        return "NanToNum", [x], {"nan": 0.0}
    return None


def _uncast(found, name):
    while (cast := found.node(name, "Cast")) is not None:
        name = cast.inputs[0]
    return name


def _same_but_nan(found, name, x):
    """True where x is this value, or what nan_to_num made of it."""
    name = _uncast(found, name)
    while x != name:
        inner = found.node(x, "NanToNum")
        if inner is None:
            return False
        x = inner.inputs[0]
    return True


_RULES = {"Mul": (_gelu,), "Add": (_layer_norm,), "Loop": (_embedding_bag,), "Where": (_nan_to_num,)}
