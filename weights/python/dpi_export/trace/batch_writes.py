"""The layout of x[mask] = y: which dims of what is written hold the rows."""

from ..errors import UnsupportedModelError
from .batch_axis import argument, refuse
from .cures import replacement


def rule(pair, node):
    """x[mask] = number has rows where x or the mask has them; what else is written, the mask's rows must stand in front."""
    number = len(node.args[1]) == 1 and not node.args[2].varies and node.args[2].value.numel() == 1
    return (_number if number else _value)(pair, node)


def _value(pair, node):
    """x[mask] = y and x[mask, 3] = 0, with a mask of truth values from dim 0 on."""
    x, indices, part = node.args[:3]
    mask = indices[0]
    rest = [i for i in indices[1:] if i is not None]
    if mask is None or not mask.varies or str(mask.value.dtype) != "torch.bool" or argument(node, 3, "accumulate", False) or any(
            i.varies or i.value.numel() != 1 for i in rest) or rest and part.varies or not part.varies and part.value.numel() != 1:
        raise UnsupportedModelError(f"{node.place()}: writes to places that it computes from the row; {replacement('index_put')}")
    layout = x.layout if x.varies else mask.layout
    if mask.layout != layout or layout.axis != 0:
        refuse(node, "writes by a mask whose rows are not those of the value")
    return layout


def _number(pair, node):
    """x[mask] = y: the mask's dims are the first ones of x, rows meet rows."""
    x, indices, held = node.args[:3]
    if len(indices) != 1 or indices[0] is None or "bool" not in str(indices[0].value.dtype) or held.varies:
        raise UnsupportedModelError(f"{node.place()}: writes where indices say; {replacement('index_put')}")
    layouts = {n.layout for n in (x, indices[0]) if n.varies}
    if len(layouts) != 1:
        refuse(node, "joins values whose rows stand in different dims")
    return layouts.pop()
