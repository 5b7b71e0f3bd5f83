"""Two traces of one model at two batch sizes, side by side: what is the same, and what follows the number of rows.

Both batch sizes are primes, so a size that is k times one in one trace and k times the other in the other is k rows and nothing else.
"""

import numpy as np

from ..errors import UnsupportedModelError
from ..library_run import to_numpy
from .ir import Node

#: Operators whose arguments are sizes: a multiple of the number of rows may stand there. Everywhere else it would be arithmetic on it.
SIZES = {"view", "_unsafe_view", "reshape", "_reshape_alias", "expand", "repeat", "slice", "split", "unsafe_split", "split_with_sizes",
         "narrow", "slice_scatter", "new_zeros", "new_ones", "new_empty", "new_full", "zeros_like", "as_strided", "chunk"}


def plain(base):
    """An operator's name without the marks that functionalize gives it: view_copy and _reshape_alias_copy are views."""
    return base[:-5] if base.endswith("_copy") and base != "_to_copy" else base


class Pair:
    """`nodes`: the live nodes of the first trace. `other(node)`: the node of the second trace at the same place."""

    def __init__(self, first, second):
        self.rows = (first.rows, second.rows)
        self.nodes, self.outputs = first.live(), first.outputs
        twins = second.live()
        self._other = {}
        for node, twin in zip(self.nodes, twins):
            self._match(node, twin)
        if len(self.nodes) != len(twins):
            at = (self.nodes + twins)[min(len(self.nodes), len(twins)) - 1]
            raise UnsupportedModelError(f"{at.place()}: with {self.rows[0]} rows the model runs {len(self.nodes)} operators, with "
                                        f"{self.rows[1]} rows {len(twins)}: what it computes depends on the number of rows")

    def other(self, node):
        """The same node in the second trace."""
        return self._other[id(node)]

    def shapes(self, node):
        """Dims of the node's value in both traces."""
        return node.shape, self.other(node).shape

    def factor(self, size, twin):
        """k where the sizes are k times the number of rows, else None; sizes that are equal belong to the model."""
        k, rest = divmod(size, self.rows[0])
        return k if not rest and k and twin == k * self.rows[1] else None

    def _match(self, node, twin):
        if node.op != twin.op or node.varies != twin.varies or node.name != twin.name:
            at = node if node.line else twin
            raise UnsupportedModelError(f"{at.place()}: the model runs {node.op} with {self.rows[0]} rows and {twin.op} with "
                                        f"{self.rows[1]}: what it computes depends on the number or the content of the rows")
        self._other[id(node)] = twin
        if node.varies:
            self._same(node, (node.args, node.kwargs), (twin.args, twin.kwargs))

    def _same(self, node, a, b):
        if isinstance(a, Node) or isinstance(b, Node):
            if self._other.get(id(a)) is not b:
                raise UnsupportedModelError(f"{node.place()}: reads other values when the number of rows differs")
        elif isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)) and len(a) == len(b):
            for x, y in zip(a, b):
                self._same(node, x, y)
        elif isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
            for key in a:
                self._same(node, a[key], b[key])
        elif a != b and not (a != a and b != b) and not (plain(node.base) in SIZES and _int(a) and _int(b) and self.factor(a, b)):
            raise UnsupportedModelError(f"{node.place()}: computes with {a} where there are {self.rows[0]} rows and with {b} where there "
                                        f"are {self.rows[1]}: a row's score would depend on the number of rows")

    # -- constants ----------------------------------------------------------------------------------------------------
    def constant(self, node, user, layout=None, rank=None):
        """The value of a node that no input reaches, as an array without the rows: `layout` and `rank` are those of the value that it
        meets in `user`. Refuses a value that differs between the traces or from row to row."""
        a, b = to_numpy(node.value), to_numpy(self.other(node).value)
        if a.shape != b.shape:
            a, b = self._without_rows(a, user, self.rows[0], layout, rank), self._without_rows(b, user, self.rows[1], layout, rank)
        elif layout is not None and a.ndim >= rank - layout.axis:  # a dim of 1 stands where the other value has its rows
            at = a.ndim - (rank - layout.axis)
            a, b = (_split_one(v, at, layout) for v in (a, b))
        if a.shape != b.shape or not np.array_equal(a, b, equal_nan=a.dtype.kind == "f"):
            raise UnsupportedModelError(f"{user.place()}: meets a constant that differs between {self.rows[0]} and {self.rows[1]} rows: a "
                                        "row's score would depend on the number of rows, or on chance")
        return a

    def _without_rows(self, value, user, rows, layout, rank):
        """Row 0 of a constant that has an axis of rows, when all its rows are the same."""
        at = value.ndim - (rank - layout.axis) if layout is not None else next(i for i, d in enumerate(value.shape) if d % rows == 0)
        pre, post = (layout.pre, layout.post) if layout is not None else (1, value.shape[at] // rows)
        if at < 0 or value.shape[at] != pre * rows * post:
            raise UnsupportedModelError(f"{user.place()}: meets a constant of dims {list(value.shape)} whose rows are not the model's rows")
        split = value.reshape(value.shape[:at] + (pre, rows, post) + value.shape[at + 1:])
        first = np.take(split, 0, axis=at + 1)
        if not np.array_equal(split, np.broadcast_to(np.expand_dims(first, at + 1), split.shape), equal_nan=value.dtype.kind == "f"):
            raise UnsupportedModelError(f"{user.place()}: meets a constant that has another value for every row (as torch.arange over the "
                                        "rows has): a row's score would depend on where it stands in the batch")
        return _merge_ones(first, at, layout)


def _split_one(value, at, layout):
    """A dim of 1 where the other value has pre * rows * post: dims of 1 for pre and post where those are more than 1."""
    if value.shape[at] != 1:
        return value
    return value.reshape(value.shape[:at] + (1,) * ((layout.pre > 1) + (layout.post > 1)) + value.shape[at + 1:])


def _merge_ones(value, at, layout):
    """Takes away the dims of 1 that pre and post have where they are 1."""
    pre, post = value.shape[at], value.shape[at + 1]
    keep = tuple(d for d in (pre, post) if d > 1)
    return value.reshape(value.shape[:at] + keep + value.shape[at + 2:])


def _int(value):
    return isinstance(value, int) and not isinstance(value, bool)
