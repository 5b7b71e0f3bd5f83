"""ATen operators become primitives: TABLE has one line for each operator. Layouts are settled before (batch_axis), so a handler sees
values of one row: a Node's `dims` leave out the rows.
"""

import contextlib
import math

import numpy as np

from ..errors import BundleError, UnsupportedModelError
from ..ops.shapes import OPS
from . import lookups
from .cures import replacement
from .emit import Graph
from .jumps import ahead
from .lower_ints import check_input, check_result
from .pair import plain
from .values import Complex, Filled, Floats, Maps, Refs, Whole, expand, reshape


class Lowering:
    """One trace on its way: `g` the primitives so far, `node` what is being lowered."""

    def __init__(self, pair, inputs, feature_dicts):
        self.pair, self.inputs, self.features = pair, inputs, inputs.features
        self.g, self.maps, self.node = Graph(feature_dicts), Maps(inputs.features), None
        self._values, self._part = {}, {}
        self._ahead, self._node_of = ahead(pair.nodes), {}
        self.made_by = {}  #: id(op) -> path of the layer that it came from, for explain

    def run(self):
        """Lowers every node; returns [(output name, Floats)]."""
        from .lower_table import ON_IDS, TABLE  # the table is of handlers that import this file

        for node in self.pair.nodes:
            if not node.varies:
                continue
            self.node, self.g.module = node, node.module.replace(".", "/")
            if _empty(node):
                continue
            try:
                self._values[id(node)] = self._lower(node, TABLE, ON_IDS)
            except BundleError as e:
                raise UnsupportedModelError(f"{node.place()}: {e}") from e
        return [(name, self.floats(node)) for name, node in self.pair.outputs]

    def _lower(self, node, table, on_ids):
        if node.op == "input":
            key = self.inputs.keys[node.name]
            return lookups.input_refs(key, self.inputs.samples[key], self.features, self.maps)
        base = plain(node.base)
        if base in on_ids:
            value = self._on_ids(node)
            if value is not None:
                return value
        handler = table.get(base)
        if handler is None:
            raise UnsupportedModelError(f"{node.place()}: there is no primitive for this operator; {replacement(base)}")
        value = handler(self, node)
        check_result(self, node, value)
        if isinstance(value, Floats):
            self._node_of.setdefault(id(value.op), node)
        return value

    def _on_ids(self, node):
        """An operator on ids and constants alone, as a function of the id."""
        varying = [n for n in node.inputs() if n.varies]
        if not varying or not all(isinstance(self.value(n), Refs) for n in varying):
            return None
        for n in varying:
            lookups.check_described(self.value(n), node.place())
        import torch

        namespace, name, overload = node.op.split(".")
        call = getattr(getattr(getattr(torch.ops, namespace), name), overload)
        parts = []

        def part(held):
            if hasattr(held, "varies"):
                parts.append(self.value(held) if held.varies else self.constant(held))
                return ("part", len(parts) - 1)
            return held

        spec = [part(a) for a in node.args]
        def run(*given):
            return call(*[given[a[1]] if isinstance(a, tuple) and a[:1] == ("part",) else a for a in spec], **node.kwargs)

        return self.maps.apply(run, parts, self.dims(node))

    # -- what handlers ask for ----------------------------------------------------------------------------------------
    def refuse(self, why):
        """Raises with the operator, the layer and the line."""
        raise UnsupportedModelError(f"{self.node.place()}: {why}")

    def value(self, node):
        """The value of a node that depends on the inputs."""
        if _empty(node):
            self.refuse("reads a part that has no entries; a join may have such a part, leave it out elsewhere")
        return self._values[id(node)]

    @property
    def exact(self):
        """True where a jump sees each rounding of what is lowered: operators stay as they are."""
        return id(self.node) in self._ahead

    def node_of(self, op):
        """The node that an op is the value of, or None."""
        return self._node_of.get(id(op))

    def groups(self, node):
        """For each dim of the tensor its dims without the rows: the rows' own dim may have none, or those that it is merged with."""
        layout = node.layout
        return [tuple(d for d in (layout.pre, layout.post) if d > 1) if i == layout.axis else (size,)
                for i, size in enumerate(node.shape)]

    def dims(self, node):
        """All dims without the rows."""
        return tuple(d for group in self.groups(node) for d in group)

    def axis(self, node, dim):
        """The place of a dim of the tensor, which is not the rows', among the dims without the rows."""
        dim %= len(node.shape)
        return sum(len(group) for group in self.groups(node)[:dim])

    def constant(self, node, user=None):
        """A constant as an array whose dims align at the right with the dims of `user`'s value."""
        user = user or self.node
        rank = len(user.shape) if hasattr(user.value, "shape") else None
        array = self.pair.constant(node, user, user.layout if rank is not None else None, rank)
        return self._of_complex(node, array)

    def number(self, held):
        """A Python number for a number or a constant of one entry; None for anything else."""
        if isinstance(held, (int, float, bool)):
            return float(held)
        if hasattr(held, "varies") and not held.varies and len(held.shape) <= len(self.node.shape):
            array = self.constant(held)
            if array.size == 1:
                return _written(array.reshape(-1)[0])
        return None

    def weight(self, node, dtype=np.float32):
        """A parameter, or a constant computed from parameters, as an array of its own dims."""
        if node.varies:
            self.refuse("takes a weight that it computes from the row")
        return self._of_complex(node, self.pair.constant(node, self.node)).astype(dtype, copy=False)

    @contextlib.contextmanager
    def parts(self, which):
        """While it lasts, nodes (by id) are their real or imaginary part ("re", "im")."""
        held, self._part = self._part, which
        try:
            yield
        finally:
            self._part = held

    def _of_complex(self, node, array):
        """The part of a complex constant that is asked for."""
        if array.dtype.kind != "c" and id(node) not in self._part:
            return array
        if id(node) not in self._part:
            self.refuse("computes with complex numbers; of these there are Fourier transforms, products and sums")
        return np.ascontiguousarray(array.real if self._part[id(node)] == "re" else array.imag)

    def floats(self, held, user=None):
        """A node as Floats: ids as numbers, constants as a Const."""
        if not held.varies:
            array = self.constant(held, user).astype(np.float32)
            return Floats(self.g.const(array), array.shape)
        value = self.value(held)
        if isinstance(value, Refs):
            check_input(self, held, value)
        if isinstance(value, Complex) and id(held) in self._part:
            return getattr(value, self._part[id(held)])
        if self._part.get(id(held)) == "im":
            return Floats(self.g.const(np.zeros(value.dims or (1,), np.float32)), value.dims)
        return self.as_floats(value)

    def as_floats(self, value):
        """A value as Floats."""
        if isinstance(value, Refs):
            lookups.check_described(value, self.node.place())
            return lookups.floats(self, value)
        if isinstance(value, Filled):
            return self.filled(value)
        if isinstance(value, Whole):
            raise UnsupportedModelError(value.why)
        if isinstance(value, Complex):
            self.refuse("computes with complex numbers; of these there are Fourier transforms, products and sums")
        return value

    def filled(self, value):
        """x where it is kept, else the number: a choice where the bundle has one, else keep x + fill (1 - keep), which is exact for finite
        numbers. Rows of a table are finite, and their pooling is recognised by the product."""
        if not math.isfinite(value.fill):
            self.refuse("fills masked entries with infinity, which only a softmax or a maximum right behind it can take; fill them with a number such as "
                        "-1e9, or replace what is infinite by the same mask right behind the maximum")
        keep, g = self.as_floats(value.keep), self.g
        x = self.as_floats(value.x).op
        if "Where" in OPS and x.kind != "Embed":
            x = g.op("Where", [keep.op, x, g.const([value.fill])])
            return expand(g, Floats(x, x.shape if value.dims else ()), value.dims)
        x = g.binary("mul", x, keep.op)
        if value.fill:
            x = g.binary("add", x, g.affine(keep.op, -value.fill, value.fill))
        return expand(g, Floats(x, x.shape if value.dims else ()), value.dims)

    def elementwise(self, op, node=None):
        """An op's value under the dims of a node."""
        dims = self.dims(node or self.node)
        return Floats(op if op.shape == (dims or (1,)) else self.g.reshape(op, dims), dims)

    def result(self, op, node, i):
        """An op's value as result i of several."""
        dims = tuple(d for d in node.value[i].shape[1:])
        return Floats(op if op.shape == (dims or (1,)) else self.g.reshape(op, dims), dims)

    def reshaped(self, node, value):
        """A value under the dims of a node."""
        return reshape(self.g, value, self.dims(node))


def _empty(node):
    """True of a tensor without entries, such as x[:, :0]: a bundle has no such value, and a join leaves it out."""
    return hasattr(node.value, "numel") and node.value.numel() == 0


def _written(value):
    """A number as its author wrote it: 1e-8 in float32 is the decimal 1e-08."""
    short = f"{value:.4g}"
    return float(short) if value.dtype == np.float32 and np.float32(short) == value else float(value)
