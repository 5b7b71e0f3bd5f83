"""Attention in a lowered graph becomes the op Attention (FORMAT.md part 7) where the engine does not recognise its products: over long
sequences, and where weights are SiLU of scores in place of a softmax (HSTU).

    MatMul(Softmax(scores [, mask]), v)                               scores: scale MatMul(q, k^T) [+ bias]
    MatMul(silu(scores) [/ n] [* mask], v)                            in any order of / and *
"""

import math

import numpy as np

from ..ops.attention import MOST_HEADS, MOST_POSITIONS, reach
from .emit import is_mask, swapped
from .normalise import Normaliser, reachable

#: What the engine recognises by itself: keys, numbers of a value, and the fewest queries (sdk/src/plan/passes/recognise_attention.cpp).
ENGINE_KEYS, ENGINE_NUMBERS, ENGINE_QUERIES = 512, 1 << 17, 4
_FAR_BELOW = -1e4  #: a fill that leaves a softmax nothing of what it is put over
_MOST = 1 << 24  #: numbers of a value in a bundle


class _Found:
    """The parts of an attention: operands [.., positions, dim], what masks are a product of, and attributes."""

    def __init__(self, v):
        self.q = self.k = self.bias = None
        self.v, self.masks, self.attrs, self.scale = v, [], {}, 1.0


class _Rewriting(Normaliser):
    """Rebuilds a graph with Attention in place of its products."""

    def run(self, op):
        """The Op that stands for `op`."""
        if id(op) not in self._done:
            for each in reachable([op]):
                if id(each) not in self._done:
                    self._done[id(each)] = self._one(each)
        return self._done[id(op)]

    def _one(self, op):
        self.g.module = op.module
        found = self._attention(op) if op.kind == "MatMul" else None
        if found is not None:
            return found
        ins = [self._done[id(i)] for i in op.ins]
        if all(a is b for a, b in zip(ins, op.ins)):
            return op
        return self.g.transpose(ins[0], op.attrs["perm"]) if op.is_a("View", kind="transpose") else self._again(op, ins)

    # -- finding ------------------------------------------------------------------------------------------------------
    def _attention(self, op):
        """The value of Attention, or None."""
        if op.attrs.get("trans_a"):
            return None
        f = _Found(op.ins[1] if not op.attrs.get("trans_b") else self.g.transpose(op.ins[1], swapped(len(op.ins[1].shape))))
        weights = self._bare(op.ins[0])
        scores = self._softmax(f, weights) or self._silu(f, weights)
        if scores is None or not self._scores(f, scores) or op.shape[:-2] != f.v.shape[:-2]:
            return None
        return self._written(f, op)

    def _bare(self, op):
        """Under reshapes that keep the last two dims, of a value that nothing else reads."""
        while op.is_a("View", kind="reshape") and self.once(op) and len(op.ins[0].shape) >= 2 and op.ins[0].shape[-2:] == op.shape[-2:]:
            op = op.ins[0]
        return op

    def _softmax(self, f, op):
        if op.kind != "Softmax" or not self.once(op) or op.attrs.get("axis", -1) not in (-1, len(op.shape) - 1):
            return None
        mode = op.attrs.get("mask_mode", "none")
        if mode == "add" or mode == "replace" and op.attrs.get("value", -1e9) > _FAR_BELOW:
            return None
        if mode != "none":
            f.masks.append(op.ins[1])
            f.attrs["empty"] = "mean" if mode == "replace" else None
        return op.ins[0]

    def _silu(self, f, op):
        factor = 1.0
        while self.once(op):
            op = self._bare(op)
            inner = _silu_of(op)
            if inner is not None and self._uses[id(inner)] <= (1 if op.kind == "Unary" else 2):
                self._uses[id(inner)] = 1  # x sigmoid(x) is one reader
                f.attrs.update(form="silu", divisor=_divisor(factor))
                return inner
            times, rest = _factor(op)
            if rest is not None:
                factor, op = factor * times, rest
                continue
            masked = _masked(op)
            if masked is None:
                return None
            f.masks.append(masked[0])
            op = masked[1]
        return None

    def _scores(self, f, op):
        """Takes scale, bias and operands of the scores."""
        while self.once(op):
            op = self._bare(op)
            if op.kind == "MatMul":
                return self._operands(f, op)
            times, rest = _factor(op)
            if rest is not None:
                f.scale, op = f.scale * times, rest
                continue
            if not op.is_a("Binary", kind="add") or f.bias is not None or f.scale != 1:
                return False
            made = [self._leads_to_product(x) and x.shape == op.shape for x in op.ins]
            if sum(made) != 1:
                return False
            op, f.bias = op.ins if made[0] else op.ins[::-1]
        return False

    def _leads_to_product(self, op):
        while self.once(op):
            op = self._bare(op)
            times, rest = _factor(op)
            if rest is None:
                return op.kind == "MatMul"
            op = rest
        return False

    def _operands(self, f, op):
        f.q, f.k = op.ins
        if op.attrs.get("trans_a"):
            f.q = self.g.transpose(f.q, swapped(len(f.q.shape)))
        if not op.attrs.get("trans_b"):
            f.k = self.g.transpose(f.k, swapped(len(f.k.shape)))
        for which in ("q", "k"):
            times, rest = _factor(getattr(f, which))
            if rest is not None:  # before the product as behind it
                f.scale *= times
                setattr(f, which, rest)
        lead = [math.prod(x.shape[:-2]) for x in (op, f.q, f.k, f.v)]
        return len(set(lead)) == 1

    # -- writing ------------------------------------------------------------------------------------------------------
    def _written(self, f, op):
        heads, (queries, dim), keys = math.prod(f.q.shape[:-2]), f.q.shape[-2:], f.k.shape[-2]
        if heads > MOST_HEADS or max(queries, keys) > MOST_POSITIONS or not _needed(f, heads, queries, keys, dim):
            return None
        causal, candidates, masks = _static(_factors(self.g, f.masks), heads, queries, keys)
        mask, kind = self._mask(masks, queries, keys)
        bias, of_bias = self._bias(f.bias, heads, queries, keys)
        if kind is None or of_bias is None:
            return None
        ins = [self._by_position(x, heads) for x in (f.q, f.k, f.v)] + [x for x in (mask, bias) if x is not None]
        given = {"heads": (heads, 1), "scale": (float(np.float32(f.scale)), 1.0), "form": (f.attrs.get("form", "softmax"), "softmax"),
                 "divisor": (f.attrs.get("divisor", 1.0), 1.0), "causal": (causal, False), "candidates": (candidates, 0), "mask": (kind, "none"),
                 "bias": (of_bias, "none"), "empty": (f.attrs.get("empty") if mask is not None else None, None)}
        y = self.g.op("Attention", ins, {key: value for key, (value, default) in given.items() if value != default})
        width = f.v.shape[-1]
        return self.g.reshape(self.g.transpose(self.g.reshape(y, [queries, heads, width]), [1, 0, 2]), op.shape)

    def _by_position(self, x, heads):
        """[.., positions, dim] as [positions, heads x dim]."""
        positions, dim = x.shape[-2:]
        x = self.g.reshape(self.run(x), [heads, positions, dim])
        return self.g.reshape(self.g.transpose(x, [1, 0, 2]), [positions, heads * dim])

    def _mask(self, masks, queries, keys):
        """(the product of masks, its kind); kind None where they differ from head to head."""
        product, kind = None, "none"
        for mask in masks:
            mask = self._of_all_heads(mask)
            if mask is None or mask.shape[0] not in (1, queries) or mask.shape[1] not in (1, keys):
                return None, None
            product = mask if product is None else self.g.binary("mul", product, mask)
        if product is None:
            return None, kind
        if product.shape[0] == 1 and queries != 1:
            return self.g.reshape(self.g.expand(product, [1, keys]), [keys]), "keys"
        return self.g.expand(product, [queries, keys]), "pairs"

    def _of_all_heads(self, op):
        """A mask [.., a, b] as [a, b] (dims of 1 may stand for any) where it is the same for all heads, else None."""
        if math.prod(op.shape[:-2]) == 1:
            return self.g.reshape(self.run(op), _tail(op))
        if op.kind == "View" and op.attrs["kind"] in ("reshape", "expand") and all(a in (1, b) for a, b in zip(_tail(op.ins[0]), _tail(op))):
            return self._of_all_heads(op.ins[0])
        if op.is_a("Unary", kind="affine") and not op.params:
            x = self._of_all_heads(op.ins[0])
            return None if x is None else self.g.affine(x, op.attrs["a"], op.attrs["b"])
        if op.kind == "Binary":
            ins = [self._of_all_heads(x) for x in op.ins]
            return None if None in ins else self.g.binary(op.attrs["kind"], *ins)
        return None

    def _bias(self, bias, heads, queries, keys):
        """(the bias, its kind): relative where each of its diagonals is one number."""
        if bias is None:
            return None, "none"
        lead = math.prod(bias.shape[:-2]) if len(bias.shape) > 2 else 1
        if lead not in (1, heads) or len(bias.shape) < 2:
            return None, None
        tail = bias.shape[-2:]
        if tail[0] not in (1, queries) or tail[1] not in (1, keys):
            return None, None
        dims = ([heads] if lead > 1 else []) + [queries, keys]
        if bias.kind == "Const":
            array = np.broadcast_to(bias.params["value"].reshape(dims[:-2] + list(tail)), dims)
            line = np.concatenate([array[..., ::-1, 0], array[..., 0, 1:]], axis=-1)
            at = np.arange(keys) - np.arange(queries)[:, None] + queries - 1
            if np.array_equal(line[..., at], array):
                return self.g.const(line), "relative"
            return self.g.const(array), "pairs"
        return self.g.expand(self.g.reshape(self.run(bias), dims[:-2] + list(tail)), dims), "pairs"


def _needed(f, heads, queries, keys, dim):
    """True where the engine would keep the products."""
    if f.attrs.get("form") == "silu":
        return True
    scores, largest = heads * queries * keys, max(queries, keys) * heads * max(dim, f.v.shape[-1])
    if scores > _MOST:
        return True
    return queries >= ENGINE_QUERIES and (keys > ENGINE_KEYS or max(scores, largest) > ENGINE_NUMBERS)


def _number(op):
    """The number that a constant is, or None."""
    return float(op.params["value"].reshape(-1)[0]) if op.kind == "Const" and op.params["value"].size == 1 else None


def _factor(op):
    """(number, x) of number x, else (1, None)."""
    if op.is_a("Unary", kind="affine") and not op.params and op.attrs["b"] == 0:
        return op.attrs["a"], op.ins[0]
    if op.kind == "Binary" and op.attrs["kind"] in ("mul", "div"):
        number = _number(op.ins[1])
        if number and op.ins[0].shape == op.shape:
            return (number if op.attrs["kind"] == "mul" else 1 / number), op.ins[0]
        number = _number(op.ins[0]) if op.attrs["kind"] == "mul" else None
        if number and op.ins[1].shape == op.shape:
            return number, op.ins[1]
    return 1.0, None


def _divisor(factor):
    """The number that weights are divided by: whole where it was before its reciprocal was rounded."""
    by = 1 / factor
    return float(round(by)) if abs(by - round(by)) < 1e-6 * abs(by) else by


def _silu_of(op):
    """x of silu(x) or x sigmoid(x)."""
    if op.is_a("Unary", kind="silu"):
        return op.ins[0]
    if op.is_a("Binary", kind="mul"):
        for x, gate in (op.ins, op.ins[::-1]):
            if gate.is_a("Unary", kind="sigmoid") and gate.ins[0] is x:
                return x
    return None


def _holds_ones(op):
    """True for values that are 0 or 1."""
    if op.kind == "Const":
        return bool(np.isin(op.params["value"], (0, 1)).all())
    if op.kind == "View":
        return _holds_ones(op.ins[0])
    if op.kind == "Concat" or op.kind == "Binary" and op.attrs["kind"] in ("mul", "max", "min"):
        return all(_holds_ones(x) for x in op.ins)
    if op.is_a("Unary", kind="affine") and not op.params and (op.attrs["a"], op.attrs["b"]) == (-1.0, 1.0):
        return _holds_ones(op.ins[0])
    return is_mask(op)


def _masked(op):
    """(mask, x) of x where a mask is 1 and 0 elsewhere, or None."""
    if op.is_a("Binary", kind="mul"):
        for mask, x in (op.ins, op.ins[::-1]):
            if _holds_ones(mask) and x.shape == op.shape:
                return mask, x
    if op.kind == "Where" and _number(op.ins[2]) == 0 and _holds_ones(op.ins[0]) and op.ins[1].shape == op.shape:
        return op.ins[0], op.ins[1]
    return None


def _factors(g, masks):
    """Masks whose product is the product of these: products and negated maxima taken apart."""
    out, stack = [], list(masks)
    while stack:
        op = stack.pop()
        inner = op
        while inner.kind == "View" and inner.attrs["kind"] in ("reshape", "expand") and _tail(inner.ins[0]) in (_tail(inner), (1, _tail(inner)[1])):
            inner = inner.ins[0]
        negated = inner.ins[0] if inner.is_a("Unary", kind="affine") and not inner.params and \
            (inner.attrs["a"], inner.attrs["b"]) == (-1.0, 1.0) else None
        if inner.kind == "Binary" and inner.attrs["kind"] in ("mul", "min"):
            stack.extend(inner.ins)
        elif negated is not None and negated.is_a("Binary", kind="max"):
            stack.extend(_negated(g, x) for x in negated.ins)
        elif _by_columns(g, inner) is not None:
            out.extend(_by_columns(g, inner))
        else:
            out.append(_negated(g, negated) if negated is not None and negated.kind == "Const" else inner)
    return out


def _by_columns(g, op):
    """[which keys are looked at, the mask of the keys] of a mask [queries, keys] that is joined of parts of them, or None: so `valid & causal` comes
    out, a function of each id."""
    if not op.is_a("View", kind="reshape") or not op.ins[0].is_a("Concat") or len(op.ins[0].shape) != 1 or math.prod(op.shape[:-2]) != 1:
        return None
    queries, keys = _tail(op)
    held, at = np.zeros(queries * keys, bool), 0
    source = None
    for part in op.ins[0].ins:
        begin, whole = (part.attrs["begin"], part.ins[0]) if part.is_a("View", kind="slice") else (0, part)
        size, number = part.shape[0], _same_for_all(g, whole)
        if number is None:
            if source not in (None, whole) or whole.shape != (keys,) or any((at + i) % keys != begin + i for i in (0, size - 1)) or not is_mask(whole):
                return None
            source = whole
            held[at:at + size] = True
        elif number != 0:
            return None
        at += size
    return None if source is None else [g.const(held.reshape(queries, keys)), source]


def _same_for_all(g, op):
    """The number that all entries are, of a constant or of a table that has it in each row; else None."""
    while op.is_a("View", kind="reshape"):
        op = op.ins[0]
    values = op.params["value"] if op.kind == "Const" else g.tables[op.attrs["table"]] if op.is_a("Embed", pooling="none") else np.arange(2)
    first = float(values.reshape(-1)[0])
    return first if (values == first).all() else None


def _tail(op):
    """The last two dims."""
    return ((1, 1) + tuple(op.shape))[-2:]


def _negated(g, op):
    return g.const(1 - op.params["value"]) if op.kind == "Const" else g.affine(op, -1.0, 1.0)


def _static(masks, heads, queries, keys):
    """(causal, candidates, the other masks): constants that say which keys a query reads."""
    fixed = [m for m in masks if m.kind == "Const" and math.prod(m.shape[:-2]) in (1, heads)]
    array = np.ones((queries, keys), bool)
    for mask in fixed:
        value = np.broadcast_to(mask.params["value"].reshape((-1,) + _tail(mask)), (math.prod(mask.shape[:-2]), queries, keys)) != 0
        if not (value == value[0]).all():
            return False, 0, masks
        array = array & value[0]
    rest = [m for m in masks if all(m is not f for f in fixed)]
    for causal in (False, True):
        for candidates in (0, _candidates(array)) if queries == keys else (0,):
            if np.array_equal(array, reach(np.arange(queries), keys, causal, candidates)):
                return causal, candidates, rest
    return False, 0, masks


def _candidates(array):
    """How many keys at the end are read by the query of their own position alone."""
    own = (array.sum(0) == 1) & np.diagonal(array)
    return int(np.argmin(own[::-1])) if not own.all() else len(own)


def recognise(graph, outputs):
    """The outputs with Attention where it is needed."""
    rewriting = _Rewriting(graph, outputs)
    return [rewriting.run(op) for op in outputs]
