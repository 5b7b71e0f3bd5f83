"""The graph of an ONNX model in plain objects: nodes with their attributes as Python values, the inputs' dims, the weights by name."""

import math

import numpy as np

from ..errors import UnsupportedModelError
from .file import BFLOAT16, element_type, read_tensor

#: Opsets whose operators are known here. What an operator means changes between opsets, so a newer one is not guessed at.
OPSETS = range(11, 24)
_MAX_NODES = 200_000


class OnnxNode:
    """`inputs` and `outputs` are names ("" where an optional one is left out); `attrs` are numbers, texts, lists, arrays and Graphs."""

    def __init__(self, name, op, inputs, outputs, attrs):
        self.name, self.op, self.inputs, self.outputs, self.attrs = name, op, inputs, outputs, attrs

    def place(self):
        """For messages."""
        return f"node '{self.name}' ({self.op})"

    def reads(self):
        """Names of what the node depends on, those that its subgraphs take from outside among them."""
        out = [name for name in self.inputs if name]
        for graph in self.attrs.values():
            if isinstance(graph, Graph):
                out.extend(graph.free())
        return out


class Graph:
    """Nodes in order of execution. `inputs`: [(name, dtype, dims)], where dims hold None for sizes that are left open."""

    def __init__(self, proto, where, inner=False):
        self.where, self.name = where, proto.name
        self.outputs = [o.name for o in proto.output]
        self.tensors = {t.name: t for t in proto.initializer}
        if proto.sparse_initializer:
            raise UnsupportedModelError("the graph has sparse weights; save them dense")
        self._arrays = {}
        self.inputs = [(i.name, None, None) if inner else _input(i) for i in proto.input if i.name not in self.tensors]
        self.nodes = [_node(n, i, where) for i, n in enumerate(proto.node)]
        self._check_order()

    def array(self, name):
        """A weight by its name; read when it is first wanted."""
        if name not in self._arrays:
            self._arrays[name] = read_tensor(self.tensors[name], self.where.folder, f"weight '{name}'")
        return self._arrays[name]

    def free(self):
        """Names that the graph takes from outside."""
        inside = set(self.tensors) | {name for name, _, _ in self.inputs}
        for node in self.nodes:
            inside.update(node.outputs)
        wanted = [name for node in self.nodes for name in node.reads()] + self.outputs
        return [name for name in dict.fromkeys(wanted) if name not in inside]

    def _check_order(self):
        made = set(self.tensors) | {name for name, _, _ in self.inputs}
        for node in self.nodes:
            for name in node.outputs:
                if name and name in made:
                    raise UnsupportedModelError(f"{node.place()}: gives '{name}', which there is already")
            made.update(node.outputs)

    def needed(self, outputs):
        """The nodes that these outputs depend on, in order."""
        maker = {name: node for node in self.nodes for name in node.outputs if name}
        known = set(self.tensors) | {name for name, _, _ in self.inputs}
        wanted, stack = set(), list(outputs)
        while stack:
            name = stack.pop()
            node = maker.get(name)
            if node is not None and id(node) not in wanted:
                wanted.add(id(node))
                stack.extend(node.reads())
            elif node is None and name not in known:
                raise UnsupportedModelError(f"the graph: '{name}' is read, and nothing gives it")
        order = [node for node in self.nodes if id(node) in wanted]
        for node in order:
            late = [name for name in node.reads() if name not in known]
            if late:
                raise UnsupportedModelError(f"{node.place()}: reads '{late[0]}', which no node before it gives")
            known.update(node.outputs)
        return order


class Where:
    """What all graphs of a model share: its folder, its opset."""

    def __init__(self, folder, opset):
        self.folder, self.opset = folder, opset


def graph_of(model, folder):
    """The Graph of a ModelProto."""
    opset = next((int(o.version) for o in model.opset_import if o.domain in ("", "ai.onnx")), None)
    if opset not in OPSETS:
        raise UnsupportedModelError(f"the model: opset {opset}, expected {OPSETS[0]} to {OPSETS[-1]} (torch.onnx.export and tf2onnx take it as "
                                    "an option; onnx.version_converter changes a file)")
    if len(model.graph.node) > _MAX_NODES:
        raise UnsupportedModelError(f"the model: {len(model.graph.node)} nodes, more than {_MAX_NODES}")
    return Graph(model.graph, Where(folder, opset))


def _input(value):
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        raise UnsupportedModelError(f"input '{value.name}': is a {kind or 'value without a type'}, expected a tensor")
    tensor = value.type.tensor_type
    dtype = element_type(tensor.elem_type, f"input '{value.name}'")
    if not tensor.HasField("shape") or not tensor.shape.dim:
        raise UnsupportedModelError(f"input '{value.name}': has no dims, so none of rows")
    dims = [int(d.dim_value) if d.WhichOneof("value") == "dim_value" else None for d in tensor.shape.dim]
    if any(d is not None and d < 1 for d in dims):
        raise UnsupportedModelError(f"input '{value.name}': has dims {dims}")
    return value.name, dtype, dims


def _node(proto, place, where):
    name = proto.name or f"{proto.op_type}_{place}"
    name = name if proto.op_type in name else f"{name}/{proto.op_type}"
    node = OnnxNode(name.lstrip("/"), proto.op_type, list(proto.input), list(proto.output), {})
    if proto.domain not in ("", "ai.onnx"):
        raise_later = f"{node.place()}: is of the domain '{proto.domain}', which only its own runtime knows; export without that " \
                      "runtime's optimisations"
        node.op, node.attrs = "", {"refusal": raise_later}
        return node
    for attribute in proto.attribute:
        node.attrs[attribute.name] = _value(attribute, node, where)
    return node


def _value(attribute, node, where):
    """An attribute's value in Python. The numbers are those of AttributeProto.AttributeType."""
    if attribute.ref_attr_name:
        raise UnsupportedModelError(f"{node.place()}: '{attribute.name}' refers to an attribute of a function")
    what = f"{node.place()}: '{attribute.name}'"
    kind = attribute.type
    if kind == 1:
        return float(attribute.f)
    if kind == 2:
        return int(attribute.i)
    if kind == 3:
        return attribute.s.decode("utf-8", "backslashreplace")
    if kind == 4:
        if attribute.t.data_type == BFLOAT16:
            raise UnsupportedModelError(f"{what}: is of bfloat16, and a bundle computes in float32")
        return read_tensor(attribute.t, where.folder, what)
    if kind == 5:
        return Graph(attribute.g, where, inner=True)
    if kind == 6:
        return [float(f) for f in attribute.floats]
    if kind == 7:
        return [int(i) for i in attribute.ints]
    if kind == 8:
        return [s.decode("utf-8", "backslashreplace") for s in attribute.strings]
    raise UnsupportedModelError(f"{what} is of a kind that has no place here ({kind})")


def constant_of(graph):
    """{name: array} of the weights and Constant nodes that are small enough for a pattern to look at."""
    out = {name: graph.array(name) for name, t in graph.tensors.items() if math.prod(int(d) for d in t.dims) <= 16 and min(t.dims, default=1) >= 0}
    for node in graph.nodes:
        if node.op == "Constant" and isinstance(node.attrs.get("value"), np.ndarray):
            out[node.outputs[0]] = node.attrs["value"]
    return out
