"""In-place operators that torch's functionalize does not see, as the functional ones that give the same numbers.

From torch 2.0 on, functionalize runs a composed operator (rnn_tanh, lstm, pairwise_distance) whole beneath itself, so what such an operator
writes over its own intermediate results arrives here in place. A Node must keep what its call gave: it gets a copy before the write, and so
does every Node that shares memory with it. Those others have no operator that gives their new numbers, so reading them is refused.
"""

import numpy as np

from ..errors import UnsupportedModelError


class OwnWrites:
    """What one recorder knows of memory: where the results of its Nodes lie, and which of them were written over."""

    def __init__(self):
        self._spans, self._seen, self._stale, self._alive = [], 0, set(), []

    def functional(self, recorder, func, args):
        """The name of the operator that computes what `func` is about to write over its first argument. None where func writes nothing,
        something else, or memory of the model or of its inputs."""
        name = _functional_name(func)
        node = recorder.of.get(id(args[0])) if name else None
        if node is None:
            return None
        sharing = self._sharing(recorder, args[0])
        if any(n.op in ("input", "constant") for n in sharing):
            return None
        self._alive.append(args[0])  # an address stands for one tensor as long as it lives
        for other in sharing:
            _keep(other)
            if other is not node:
                self._stale.add(id(other))
        return name

    def check(self, node):
        """Refuses to read a result that was written over by way of another view of its memory."""
        if id(node) in self._stale:
            raise UnsupportedModelError(f"{node.place()}: its result was written over by way of another view of it, and is read after that; "
                                        "write x = x + y in place of x += y")

    def _sharing(self, recorder, tensor):
        """The Nodes with an entry in the memory of a tensor."""
        for node in recorder.nodes[self._seen:]:
            if hasattr(node.value, "data_ptr"):
                self._spans.append((*_span(node.value), node))
        self._seen = len(recorder.nodes)
        first, end = _span(tensor)
        found = [node for low, high, node in self._spans if low < end and first < high]
        mine = _entries(tensor)
        return [node for node in found if node.value is tensor or np.intersect1d(mine, _entries(node.value)).size]


def _functional_name(func):
    """"aten.add.Tensor" of aten.add_.Tensor: the operator with the same arguments that writes nothing. None of any other operator."""
    import torch

    schema, parts = getattr(func, "_schema", None), str(func).split(".")
    if schema is None or _written(schema) != [0] or not parts[1].endswith("_"):
        return None
    packet = getattr(getattr(torch.ops, parts[0]), parts[1][:-1], None)
    for overload in packet.overloads() if packet is not None else ():
        other = getattr(packet, overload)
        if not _written(other._schema) and [(a.name, str(a.type)) for a in other._schema.arguments] == [
                (a.name, str(a.type)) for a in schema.arguments]:
            return str(other)
    return None


def _written(schema):
    """Which arguments an operator writes over."""
    return [i for i, a in enumerate(schema.arguments) if a.alias_info is not None and a.alias_info.is_write]


def _span(tensor):
    """(first, end) of the addresses between which the entries of a tensor lie."""
    try:
        first = tensor.data_ptr()
    except RuntimeError:  # a tensor without memory
        return 0, 0
    if not tensor.numel():
        return first, first
    return first, first + (1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))) * tensor.element_size()


def _entries(tensor):
    """The addresses of the bytes of a tensor's entries."""
    out = np.array([tensor.data_ptr()], np.int64)
    for dim, stride in zip((*tensor.shape, tensor.element_size()), (*(s * tensor.element_size() for s in tensor.stride()), 1)):
        out = (out[:, None] + np.arange(dim, dtype=np.int64) * stride).reshape(-1)
    return np.unique(out)


def _keep(node):
    """A Node's result as a copy, in the list of its call too."""
    held, node.value = node.value, node.value.detach().clone()
    if node.op == "getitem":
        call, place = node.args
        call.value = type(call.value)(node.value if i == place and item is held else item for i, item in enumerate(call.value))
