"""What stands ahead of a jump: a comparison, a bucket, a floor, the place of the largest. There one rounding decides, so it has to be torch's.

Arithmetic ahead of a jump is lowered one operator at a time (`ahead` says which nodes that are). Behind a function such as log, whose last
bits differ between libraries, a jump is moved to the function's argument: torch itself is asked at which float32 the answer changes.
"""

import numpy as np

from .pair import plain
from .values import Refs, reshape

_JUMPS = set("""eq ne lt le gt ge bucketize searchsorted floor trunc sign argmax argmin topk sort argsort floor_divide remainder fmod
 any all logical_not logical_and logical_or logical_xor""".split())
#: Operators that add products up, or pick rows: what stands ahead of them is not ahead of the jump.
_SUMS = set("""sum mean var std cumsum norm linalg_vector_norm logsumexp _softmax _log_softmax _safe_softmax native_layer_norm
 native_batch_norm cudnn_batch_norm mm addmm bmm baddbmm mv _trilinear embedding _embedding_bag _embedding_bag_forward_only convolution
 recurrent rows_kept rows_kept_flat scatter_add _fft_r2c _fft_c2c _fft_c2r""".split())
#: sqrt too: with MKL, as in wheels of PyTorch 2, its last bit is not always the nearest.
_FUNCTIONS = set("""sqrt log log2 log10 log1p exp expm1 sigmoid tanh softplus elu selu celu atan asinh pow rsqrt hardsigmoid log_sigmoid_forward
 """.split())
_STEPS = _FUNCTIONS | set("add sub rsub mul div neg abs relu clamp clamp_min clamp_max hardtanh relu6 leaky_relu reciprocal".split())
_VIEWS = set("view _unsafe_view reshape _reshape_alias unsqueeze squeeze alias clone detach contiguous lift_fresh".split())
_GRID = 1 << 16  #: numbers at which a function is looked at
_MOST_EDGES = 64  #: of one input that rows are made for
_LARGEST = 1e30
_LAST = int(np.float32(np.finfo(np.float32).max).view(np.int32))


def _cuts(node):
    """A float that becomes an integer or a truth value."""
    return plain(node.base) == "_to_copy" and node.args[0].value.dtype.is_floating_point and not node.value.dtype.is_floating_point


def is_jump(node):
    """True for an operator whose result a rounding of its arguments may change by more than a rounding."""
    base = plain(node.base)
    return base in _JUMPS or base in ("max", "min") and not hasattr(node.value, "dim") or _cuts(node) or \
        base == "div" and node.kwargs.get("rounding_mode") is not None


def ahead(nodes):
    """The ids of the nodes whose roundings a jump sees, the sums that they begin with among them."""
    stack = [x for node in nodes if is_jump(node) for x in node.inputs()]
    found = set()
    while stack:
        node = stack.pop()
        if id(node) not in found and node.varies:
            found.add(id(node))
            if plain(node.base) not in _SUMS:
                stack.extend(node.inputs())
    return found


# -- functions of one number --------------------------------------------------------------------------------------------
class Curve:
    """A function of float32 numbers, entry by entry: the steps that torch takes from the value of `base`."""

    def __init__(self, base, steps):
        self.base, self._steps = base, steps

    def __call__(self, x):
        import torch

        full = np.resize(x, max(64, len(x)))  # whole vectors: what torch computes one by one may differ in the last bit
        value = torch.from_numpy(full.astype(np.float32))
        with torch.no_grad():
            for node in self._steps:
                value = _again(node, value)
        return value.numpy()[:len(x)]

    def domain(self):
        """(first, last) place, as _place counts, of the numbers for which there is a result; None where it goes up and down."""
        places = np.linspace(-_LAST, _LAST, _GRID).astype(np.int64)
        places = np.unique(np.concatenate([places, np.arange(-64, 65)]))
        y = self(_number(places)).astype(np.float64)
        known = np.flatnonzero(~np.isnan(y))
        if not len(known) or known[-1] - known[0] + 1 != len(known):
            return None
        steps = np.diff(np.clip(y[known], -1e300, 1e300))
        if (steps < 0).any() and (steps > 0).any():
            return None
        first = self._end(places[known[0]], places[known[0] - 1]) if known[0] else -_LAST
        last = self._end(places[known[-1]], places[known[-1] + 1]) if known[-1] + 1 < len(places) else _LAST
        return first, last

    def _end(self, inside, outside):
        """The last place with a result between one that has one and one that has none."""
        while abs(outside - inside) > 1:
            middle = (inside + outside) // 2
            known = not np.isnan(self(_number(np.array([middle]))))[0]
            inside, outside = (middle, outside) if known else (inside, middle)
        return int(inside)

    def flips(self, holds, count, ends):
        """(places, at_first, at_last): what holds(f(x))[k] is at the ends, and from which place on it is what it is at the last."""
        lo, hi = (np.full(count, end, np.int64) for end in ends)
        at_first, at_last = holds(self(_number(lo))), holds(self(_number(hi)))
        while (hi - lo > 1).any():
            middle = (lo + hi) // 2
            same = holds(self(_number(middle))) == at_last
            lo, hi = np.where(same, lo, middle), np.where(same, middle, hi)
        return hi, at_first, at_last


def _again(node, value):
    """The operator on another tensor in place of what varies."""
    import torch

    if plain(node.base) in _VIEWS or node.base == "getitem":
        return value
    namespace, name, overload = node.op.split(".")
    call = getattr(getattr(getattr(torch.ops, namespace), name), overload)
    args = [value if getattr(a, "varies", False) else a.value.reshape(a.value.shape and (1,)) if hasattr(a, "varies") else a for a in node.args]
    result = call(*args, **node.kwargs)
    return result if hasattr(result, "dim") else result[0]


def _number(places):
    """The float32 numbers at places: in order, neighbours one apart, 0 at 0."""
    bits = np.abs(places).astype(np.int32).view(np.float32)
    return np.where(np.asarray(places) < 0, -bits, bits).astype(np.float32)


def curve(node, functions=True):
    """The Curve that ends in a node: down to what the last function is taken of, or to an input (functions=False). None without one."""
    steps, keep = [], 0
    while node.varies and node.op != "input" and _is_step(node):
        steps.append(node)
        if plain(node.base) in _FUNCTIONS or not functions:
            keep = len(steps)
        node = next(n for n in node.args if getattr(n, "varies", False))
    steps = steps[:keep]
    if not steps:
        return None if functions else Curve(node, [])
    base = next(n for n in steps[-1].args if getattr(n, "varies", False))
    return Curve(base, steps[::-1])


def _is_step(node):
    base, varying = plain(node.base), [n for n in node.inputs() if n.varies]
    if base in _VIEWS or base == "getitem" and node.args[1] == 0 and _is_step(node.args[0]):
        return str(node.value.dtype) == "torch.float32"
    held = node.value if hasattr(node.value, "dtype") else node.value[0]
    single = all(n.varies or n.value.numel() == 1 for n in node.inputs())
    return base in _STEPS and len(varying) == 1 and single and not is_jump(node) and str(held.dtype) == "torch.float32"


_HOLDS = {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}


def compared(lower, node, kind, numbers, dims=None):
    """The comparison of a node, under other dims if they are given, with constant numbers [...] as a comparison of the argument of its
    function; None where it has none."""
    held = curve(node)
    ends = None if held is None else held.domain()
    if ends is None:
        return None
    if kind in ("eq", "ne"):
        equal = lower.g.binary("mul", *(compared(lower, node, k, numbers, dims) for k in ("ge", "le")))
        return equal if kind == "eq" else lower.g.affine(equal, -1.0, 1.0)
    x = reshape(lower.g, lower.floats(held.base), lower.dims(node) if dims is None else dims).op
    flat = np.asarray(numbers, np.float32).reshape(-1)
    with np.errstate(invalid="ignore"):
        flips = held.flips(lambda y: _HOLDS[kind](y, flat), len(flat), ends)
    return _between(lower.g, x, [part.reshape(np.shape(numbers)) for part in flips], ends)


def _between(g, x, flips, ends):
    """1 where x lies at a place or behind it (before it, where the comparison holds there), and within the function's ends."""
    places, at_first, at_last = flips
    rising = (at_last & ~at_first).any()
    never, always = (_LAST, -_LAST) if rising else (-_LAST, _LAST)
    places = np.where(at_first != at_last, places, np.where(at_last, always, never))
    op = g.binary("ge" if rising else "lt", x, g.const(_number(places)))
    for end, limit, kind in ((ends[0], -_LAST, "ge"), (ends[1], _LAST, "le")):
        if end != limit:
            op = g.binary("mul", op, g.binary(kind, x, g.const(_number(np.array([end])))))
    return op


# -- edges of the inputs ------------------------------------------------------------------------------------------------
def edges(lower):
    """{feature: float32 numbers} on each edge that one number of the input decides alone, and one place beside it."""
    out = {}
    for node in lower.pair.nodes:
        for x, kind, numbers in _constant_edges(node) if is_jump(node) else ():
            held = curve(x, functions=False)
            cells = lower.value(held.base) if held.base.varies else None
            names = {name for name, _, _ in cells.flat()} if isinstance(cells, Refs) else {None}
            if all(name is not None and lower.features[name].kind in ("numeric", "dense") for name in names):
                for name in names:
                    out.setdefault(name, []).extend(_edges(held, kind, numbers))
    return {name: np.unique(np.float32(values))[:3 * _MOST_EDGES] for name, values in out.items() if values}


def _constant_edges(node):
    """[(node, comparison, numbers)] of a jump over constants."""
    base, (x, y) = plain(node.base), (*node.args[:2], None, None)[:2]
    if base == "searchsorted":
        x, y = y, x
    if base in ("floor", "trunc", "sign", "_to_copy"):
        return [(x, "ge", np.arange(0 if base == "sign" else -1, 1 if base == "sign" else _MOST_EDGES - 1))]
    if base not in (*_HOLDS, "eq", "ne", "bucketize", "searchsorted"):
        return []
    if getattr(y, "varies", False) and not getattr(x, "varies", False):
        x, y = y, x
    if getattr(y, "varies", False) or not getattr(x, "varies", False):
        return []
    numbers = np.asarray(y.value.detach().cpu() if hasattr(y, "varies") else y, np.float64).reshape(-1)[:_MOST_EDGES]
    return [(x, "ge", numbers), (x, "gt", numbers)]


def _edges(held, kind, numbers):
    ends = held.domain()
    if ends is None:
        return []
    flat = numbers.astype(np.float32)
    with np.errstate(all="ignore"):
        places, at_first, at_last = held.flips(lambda y: _HOLDS[kind](y, flat), len(flat), ends)
    near = (places[at_first != at_last][:, None] + np.arange(-1, 2)).reshape(-1)
    near = _number(near[(near >= ends[0]) & (near <= ends[1])])
    return near[np.abs(near) < _LARGEST].tolist()
