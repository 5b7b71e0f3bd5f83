"""An ONNX graph as a torch.nn.Module: each node is a layer that calls torch, so that the tracer sees ATen operators and nothing else.

What ONNX computes from sizes (Shape, Gather, Concat in front of a Reshape) is computed here too, and becomes constants of the trace;
where such a constant depends on the number of rows in another way than a size does, the tracer refuses it (trace/pair.py).
"""

import math

import numpy as np

from ..errors import UnsupportedModelError
from .file import BFLOAT16, TYPES
from .graph import Graph
from .sequence import Sequence

#: Entries that one value may have while a model is traced: graphs of a few bytes may ask for any number.
MAX_ENTRIES = 1 << 28
_NOT_IN_TORCH = (np.uint16, np.uint32, np.uint64)
#: Nodes whose result depends on the form of their first input only.
_OF_FORM = ("Shape", "Size")


class Layer:
    """One node, as a torch.nn.Module. Handlers get it as `op`: attributes, opset, what is known of the inputs, refusals."""

    def __init__(self, owner, node, varies):
        super().__init__()
        self.node, self.known, self.kind = node, [name not in varies for name in node.inputs], node.op
        self.__dict__["owner"] = owner  # as an attribute it would be a layer of its layer

    @property
    def opset(self):
        """The opset of the model."""
        return self.owner.opset

    def attr(self, name, default=None):
        """An attribute, or its default."""
        return self.node.attrs.get(name, default)

    def refuse(self, why):
        """Raises with the node's name and operator."""
        raise UnsupportedModelError(f"{self.owner.title}: {self.node.place()}: {why}")

    def wants(self, output):
        """True when something reads this output."""
        return output < len(self.node.outputs) and self.node.outputs[output] in self.owner.read

    def ints(self, at, values, what):
        """A known input as Python integers."""
        if not self.known[at]:
            self.refuse(f"its {what} depend on what the rows hold, and a bundle's shapes are fixed")
        return [int(v) for v in values[at].reshape(-1).tolist()]

    def number(self, at, values):
        """A known input of one entry as a Python number, else None."""
        if at >= len(values) or values[at] is None or not self.known[at] or values[at].numel() != 1:
            return None
        return values[at].reshape(-1).tolist()[0]

    def dtype(self, number):
        """torch's type of an ONNX element type; single floats follow the precision that the model runs in."""
        import torch

        if number not in TYPES:
            self.refuse(f"makes elements of type {number}, which have no place in a bundle")
        if number == 1:
            return self.owner.dtype
        if number == BFLOAT16:
            return torch.bfloat16
        if TYPES[number] in _NOT_IN_TORCH:
            self.refuse("makes unsigned integers of more than 8 bits, which torch does not have")
        return torch.from_numpy(np.zeros(1, TYPES[number])).dtype

    def room(self, dims):
        """Refuses a value that is too large, before there is one."""
        if math.prod(int(d) for d in dims) > MAX_ENTRIES:
            self.refuse(f"gives dims {list(dims)}, more than {MAX_ENTRIES} entries")
        return dims

    def forward(self, *values):
        """The node's outputs as a tuple or list."""
        handler = self.table.get(self.node.op)
        if handler is None:
            self.refuse(self.refusal(self.node))
        try:
            out = handler(self, *values)
        except (RuntimeError, IndexError) as e:  # as a batch of another size than the graph was made for; trace/capture.py goes on from here
            beyond = "; is the vocab_size of a feature larger than the table that its ids are looked up in?" if "out of range in self" in str(e) else ""
            raise type(e)(f"{self.node.place()}: {e}{beyond}") from e
        return out if isinstance(out, (tuple, list)) and not isinstance(out, Sequence) else (out,)

    def inner(self, values, condition):
        """If: the branch that a known condition chooses."""
        if not self.known[0]:
            self.refuse("chooses between subgraphs by what the rows hold; write the choice with Where (torch.where)")
        branch = self.attr("then_branch" if bool(condition.reshape(-1).tolist()[0]) else "else_branch")
        scope = dict(values)
        self.owner.run(branch.nodes, scope)
        return [self.owner.value(scope, name, self.node) for name in branch.outputs]


class Model:
    """`graph` from its inputs to `outputs`, in float32 or float64. Called with {input: tensor}, gives {output: tensor}."""

    def __init__(self, graph, outputs, title, dtype=None):
        import torch

        super().__init__()
        self.graph, self.title, self.dtype, self.opset = graph, title, dtype or torch.float32, graph.where.opset
        self.names, self.order = list(outputs), graph.needed(outputs)
        self.read = set(outputs).union(*(node.reads() for node in self.order))
        self.layers, self.weights, self.owners = {}, {}, {}
        self._prepare(graph, self.order, {name for name, _, _ in graph.inputs})

    def _prepare(self, graph, nodes, varies):
        """Layers for nodes and for those of their subgraphs; weights; what depends on the inputs."""
        for name in (name for node in nodes for name in node.inputs if name in graph.tensors):
            self._weight(graph, name)
        for name in graph.outputs:
            if name in graph.tensors:
                self._weight(graph, name)
        for node in nodes:
            self.layers[id(node)] = self.layer(self, node, varies)
            for inner in (g for g in node.attrs.values() if isinstance(g, Graph)):
                self._prepare(inner, inner.nodes, varies)
                self.read.update(inner.outputs, *(n.reads() for n in inner.nodes))
                for name in inner.free():
                    if name in graph.tensors:
                        self._weight(graph, name)
            if node.op not in _OF_FORM and any(name in varies for name in node.reads()):
                varies.update(node.outputs)

    def _weight(self, graph, name):
        import torch

        if self.owners.setdefault(name, graph) is not graph:
            raise UnsupportedModelError(f"{self.title}: weight '{name}': a subgraph has another one of this name")
        if name not in self.weights:
            array = graph.array(name)
            if array.dtype in _NOT_IN_TORCH:
                raise UnsupportedModelError(f"{self.title}: weight '{name}': torch has no {array.dtype}")
            tensor = torch.from_numpy(array if array.flags.writeable else array.copy())
            half = graph.tensors[name].data_type == BFLOAT16  # read as float32, and a bfloat16 again, so that sums of it are refused
            self.weights[name] = tensor.to(torch.bfloat16) if half else self.cast(tensor)

    def cast(self, tensor):
        """A float32 tensor in the precision that the model runs in; others as they are."""
        import torch

        return tensor.to(self.dtype) if tensor.dtype == torch.float32 else tensor

    # -- what the tracer asks a module for ------------------------------------------------------------------------
    def named_parameters(self, *_args, **_keywords):
        """Weights of floats by ONNX's own names."""
        return iter([(name, t) for name, t in self.weights.items() if t.is_floating_point()])

    def named_buffers(self, *_args, **_keywords):
        """Other weights."""
        return iter([(name, t) for name, t in self.weights.items() if not t.is_floating_point()])

    def named_modules(self, *_args, **_keywords):
        """The model and those nodes that depend on the rows."""
        return iter([("", self)] + [(layer.node.name, layer) for layer in self.layers.values() if not all(layer.known)])

    def parameters(self, *_args, **_keywords):
        """Weights of floats."""
        return iter([t for _, t in self.named_parameters()])

    # -- running --------------------------------------------------------------------------------------------------
    def forward(self, given):
        """Runs the nodes in order."""
        values = {name: self.cast(given[name]) for name, _, _ in self.graph.inputs if name in given}
        self.run(self.order, values)
        return {name: self.value(values, name) for name in self.names}

    def run(self, nodes, values):
        """Adds the results of nodes to `values`."""
        for node in nodes:
            layer = self.layers[id(node)]
            inputs = [self.value(values, name, node) if name else None for name in node.inputs]
            while inputs and inputs[-1] is None:
                inputs.pop()
            results = layer.inner(values, *inputs) if node.op == "If" else layer(*inputs)
            values.update((name, value) for name, value in zip(node.outputs, results) if name)

    def value(self, values, name, node=None):
        """A value by its name: what a node gave, or a weight."""
        if name in values:
            return values[name]
        if name in self.weights:
            return self.weights[name]
        place = node.place() if node is not None else f"output '{name}'"
        raise UnsupportedModelError(f"{self.title}: {place}: input '{name}' of the model is not given" if any(
            name == i for i, _, _ in self.graph.inputs) else f"{self.title}: {place}: there is no '{name}'")


def model_class():
    """The classes over torch.nn.Module, made here because torch is imported only where an importer is called."""
    import torch

    from . import ops_table

    class OnnxLayer(Layer, torch.nn.Module):
        table, refusal = ops_table.TABLE, staticmethod(ops_table.refusal)

    class OnnxModel(Model, torch.nn.Module):
        layer = OnnxLayer

    return OnnxModel
