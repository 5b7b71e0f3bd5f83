"""x[mask] with a mask over the rows, and y[mask] = f(x[mask]): how many rows there are depends on what they hold.

Where f treats each row on its own, that is where(mask, f(x), y) on all rows. So while a model is traced x[mask] gives all rows, the
layouts of batch_axis show that f mixes none of them, and check() shows that only y[mask] = ... with the same mask takes the result.
"""

import contextlib

from ..errors import UnsupportedModelError
from .batch_axis import ROWS, Layout
from .pair import plain

KEPT, KEPT_FLAT = "dpi.rows_kept.default", "dpi.rows_kept_flat.default"


def instead(recorder, op, args, rows):
    """(name, value) that stands in for an operator that takes or writes some of the rows, or None."""
    base = op.split(".")[1]
    if base == "index" and len(args[1]) == 1 and _over_rows(recorder, args[1][0], rows) and args[0].shape[:1] == (rows,):
        return KEPT, args[0].clone()
    if base == "masked_select" and args[0].shape[:1] == (rows,) and args[1].dim() <= args[0].dim() and _over_rows(recorder, args[1], rows):
        return KEPT_FLAT, args[0].reshape(-1).clone()
    if base == "index_put" and len(args[1]) == 1 and _over_rows(recorder, args[1][0], rows) and args[2].dim() == args[0].dim() and \
            args[2].shape == args[0].shape and not (len(args) > 3 and args[3]):
        import torch

        return op, torch.where(args[1][0].reshape((-1,) + (1,) * (args[0].dim() - 1)), args[2], args[0])
    return None


def _over_rows(recorder, mask, rows):
    """True for truth values that depend on the row, one for each."""
    node = None if mask is None else recorder.of.get(id(mask))
    return node is not None and node.varies and str(mask.dtype) == "torch.bool" and mask.dim() >= 1 and mask.shape[0] == rows == mask.numel()


class RowCount(int):
    """How many rows a mask keeps, where all stand for them: good as a size, but Python must not compute with it or ask for it."""

    def _read(self, *_):
        raise UnsupportedModelError(f"{self.place}: Python reads how many rows a mask keeps: how many entries it gives depends on what the "
                                    "rows hold")

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __float__ = __truediv__ = __rtruediv__ = __floordiv__ = _read
    __rfloordiv__ = __add__ = __radd__ = __sub__ = __rsub__ = __mod__ = __pow__ = __repr__ = __str__ = _read
    __hash__ = int.__hash__


@contextlib.contextmanager
def counted(recorder, place):
    """While it lasts, the number of kept rows is a RowCount. `place(text)`: where the model is, for messages."""
    import torch

    own = {name: vars(torch.Tensor).get(name) for name in ("size", "shape", "__len__")}
    size, length, shape = torch.Tensor.size, torch.Tensor.__len__, torch.Tensor.shape.__get__

    def count(number):
        made = RowCount(number)
        made.place = place("Tensor.shape")
        return made

    def dims(self):
        out = shape(self)
        return (count(out[0]), *out[1:]) if _is_kept(recorder, self) else out

    def sizes(self, *dim, **key):
        return dims(self) if not dim and not key else dims(self)[next(iter((*dim, *key.values())))] if _is_kept(recorder, self) else \
            size(self, *dim, **key)

    def rows(self):
        return count(length(self))._read() if _is_kept(recorder, self) else length(self)

    try:
        torch.Tensor.size, torch.Tensor.shape, torch.Tensor.__len__ = sizes, property(dims), rows
        yield
    finally:
        for name, held in own.items():
            if held is None:
                delattr(torch.Tensor, name)
            else:
                setattr(torch.Tensor, name, held)


def _is_kept(recorder, tensor):
    """True for what the model holds of kept rows: while it is traced, that are wrappers."""
    import torch

    if not torch._is_functional_tensor(tensor):
        return False
    torch._sync(tensor)
    node = recorder.of.get(id(torch._from_functional_tensor(tensor)))
    return node is not None and node.varies and id(node) in recorder.kept


def remember(recorder, node):
    """Notes that a node is of kept rows."""
    if node.op in (KEPT, KEPT_FLAT) or node.base != "index_put" and any(id(n) in recorder.kept for n in node.inputs()):
        recorder.kept.add(id(node))


def rule(pair, node):
    """The layout of kept rows."""
    x, mask = node.args[0], node.args[1] if node.op == KEPT_FLAT else node.args[1][0]
    if x.layout != ROWS or mask.layout != ROWS:
        raise UnsupportedModelError(f"{node.place()}: picks entries by a mask whose rows are not those of the value")
    return ROWS if node.op == KEPT else Layout(0, 1, node.shape[0] // pair.rows[0])


def source(node):
    """The mask that views show."""
    while plain(node.base) in ("view", "unsqueeze", "reshape", "_reshape_alias", "alias", "squeeze"):
        node = node.args[0]
    return node


def check(pair):
    """Refuses kept rows that meet all rows, rows kept by another mask, or an output."""
    kept = {}  # id(node) -> the mask's node
    for node in pair.nodes:
        if not node.varies or node.op == "input":
            continue
        found = {id(kept[id(n)]): kept[id(n)] for n in node.inputs() if id(n) in kept}
        if node.op in (KEPT, KEPT_FLAT):
            if found:
                raise UnsupportedModelError(f"{node.place()}: picks some of rows that are picked already")
            kept[id(node)] = source(node.args[1] if node.op == KEPT_FLAT else node.args[1][0])
        elif node.base == "index_put" and hasattr(node.args[2], "varies") and node.args[2].varies:
            if id(node.args[2]) not in kept or kept[id(node.args[2])] is not source(node.args[1][0]) or id(node.args[0]) in kept:
                raise UnsupportedModelError(f"{node.place()}: writes rows that were not picked by the mask that they are written by")
        elif found:
            if len(found) > 1 or any(n.varies and id(n) not in kept for n in node.inputs()):
                raise UnsupportedModelError(f"{node.place()}: joins rows that were picked by a mask with other rows")
            kept[id(node)] = next(iter(found.values()))
    for name, node in pair.outputs:
        if id(node) in kept:
            raise UnsupportedModelError(f"{node.place()}: output '{name}': how many rows it has depends on what they hold")


def lower_kept(lower, node):
    """All rows."""
    return lower.reshaped(node, lower.value(node.args[0]))
