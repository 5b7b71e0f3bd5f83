"""The layout of every value of a trace: each operator's rule in turn, of batch_axis.py and of the files beside it that have rules of their own."""

from ..errors import UnsupportedModelError
from . import batch_axis, batch_writes, kept_rows, row_picks
from .batch_axis import ROWS, refuse
from .cures import RANDOM, replacement
from .pair import plain


def propagate(pair):
    """Sets `layout` of every node of a Pair. Raises UnsupportedModelError with operator, layer and line."""
    rules = {**batch_axis.RULES, "index": row_picks.rule, "index_put": batch_writes.rule, "rows_kept": kept_rows.rule, "rows_kept_flat": kept_rows.rule}
    for node in pair.nodes:
        if plain(node.base).startswith(RANDOM):
            raise UnsupportedModelError(f"{node.place()}: {replacement('bernoulli')}")
        if not node.varies:
            continue
        if node.op == "input":
            node.layout = ROWS
            continue
        rule = rules.get(plain(node.base))
        if rule is None:
            raise UnsupportedModelError(f"{node.place()}: this operator has no rule; {replacement(node.base)}")
        node.layout = rule(pair, node)
        if hasattr(node.value, "shape"):
            _check(pair, node)


def _check(pair, node):
    layout, (a, b) = node.layout, pair.shapes(node)
    size = layout.pre * layout.post
    if not (layout.axis < len(a) and a[layout.axis] == size * pair.rows[0] and b[layout.axis] == size * pair.rows[1]) or \
            any(x != y for i, (x, y) in enumerate(zip(a, b)) if i != layout.axis):
        refuse(node, f"gives dims {list(a)} for {pair.rows[0]} rows and {list(b)} for {pair.rows[1]}, which is not one entry per row")
