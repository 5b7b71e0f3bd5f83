"""The stages in order: capture twice, compare the traces, follow the rows, lower, normalise."""

import math

import numpy as np

from ..errors import UnsupportedModelError
from ..ops.shapes import MAX_ELEMENTS
from .attention import recognise
from .build import heads_of
from .capture import capture
from .exported import Exported, wanted
from .kept_rows import check
from .lower import Lowering
from .normalise import normalise, reachable
from .pair import Pair
from .propagate import propagate
from .state import check_first_call, warm_up

#: Two primes, so that no size of a model is a multiple of both by chance. One on each side of the usual batch sizes' lower powers of two.
BATCHES = (37, 41)


def traced(model, forward, inputs, front=None):
    """The Pair of a model's traces on random rows at both batch sizes, with the layouts of all its values. `front`: as from_torch has it."""
    traces, graph = [], None
    for seed, rows in enumerate(BATCHES):
        arrays = inputs.arrays(inputs.random_rows(np.random.default_rng(100 + seed), rows))
        tensors = inputs.tensors(arrays)
        if not traces:
            other = inputs.tensors(inputs.arrays(inputs.random_rows(np.random.default_rng(99), rows)))
            check_first_call(model, lambda given: forward(model, given), tensors, other)
            warm_up(model, lambda given: forward(model, given), tensors)
            graph = Exported(model, forward, tensors) if wanted(front) == "export" else None
        traces.append(capture(model, lambda given: (graph or forward)(model, given), tensors, rows, graph))
    pair = Pair(*traces)
    propagate(pair)
    check(pair)
    for name, node in pair.outputs:
        if node.layout.axis != 0 or node.layout.pre != 1:
            raise UnsupportedModelError(f"output '{name}' of {len(node.value)} entries for {pair.rows[0]} rows (dims {list(node.shape)}): expected the rows in "
                                        "dim 0, once each; transpose it, or leave out what joins rows with themselves")
    return pair


def lowered(model, forward, inputs, feature_dicts, front=None):
    """(Lowering, [Head]) of a model: its primitives in their final form."""
    lowering = Lowering(traced(model, forward, inputs, front), inputs, feature_dicts)
    outputs = lowering.run()
    heads = heads_of(lowering.g, outputs)
    held = [op for head in heads for op in (head.value, head.logit) if op is not None]
    final = recognise(lowering.g, normalise(lowering.g, held))
    for op in reachable(final):
        if op.shape is not None and math.prod(op.shape) > MAX_ELEMENTS:
            raise UnsupportedModelError(f"layer '{op.module}': a value of {list(op.shape)} has more than 2^24 elements a row; attention that is "
                                        "recognised has none (IMPORTERS.md, Attention)")
    done = dict(zip(map(id, held), final))
    for head in heads:
        head.value = done[id(head.value)]
        head.logit = None if head.logit is None else done[id(head.logit)]
    return lowering, heads
