"""Brings lowered ops to the form that the hand-written importers give: pooled lookups, biases inside Linear, Linear without
transposes around it, Dice."""

import numpy as np

from .emit import Graph, swapped


class Normaliser:
    """Rewrites a graph from its outputs. A rule takes an Op whose inputs are done and gives another Op, or None."""

    def __init__(self, graph, outputs):
        self.g, self._done, self._uses = graph, {}, {}
        self._features = graph.features
        for op in reachable(outputs):
            for i in op.ins:
                self._uses[id(i)] = self._uses.get(id(i), 0) + 1

    def run(self, op):
        """The Op that stands for `op`."""
        if id(op) in self._done:
            return self._done[id(op)]
        ins = [self.run(i) for i in op.ins]
        self.g.module = op.module
        new = op if all(a is b for a, b in zip(ins, op.ins)) else self._again(op, ins)
        for rule in RULES:
            better = rule(self, new, op)
            if better is not None:
                new = better
        self._done[id(op)] = new
        return new

    def _again(self, op, ins):
        """The same primitive on other inputs, by way of the Graph calls that simplify."""
        g, a = self.g, op.attrs
        if op.is_a("View", kind="reshape"):
            return g.reshape(ins[0], a["dims"])
        if op.is_a("View", kind="slice"):
            return g.slice(ins[0], a["begin"], a["end"], a["axis"])
        if op.kind == "Concat":
            return g.concat(ins, a.get("axis", -1))
        if op.kind == "Binary":
            return g.binary(a["kind"], *ins)
        if op.kind == "MatMul" and not a:
            return g.matmul(*ins)
        if op.is_a("Unary", kind="affine") and not op.params:
            return g.affine(ins[0], a["a"], a["b"])
        return g.op(op.kind, ins, dict(a), dict(op.params))

    def once(self, op):
        """True when one op only reads this one."""
        return self._uses.get(id(op), 0) <= 1

    def feature(self, x):
        """The feature dict of an Input."""
        return self._features[x.attrs["feature"]]

    def zero_padding(self, embed):
        """True when the table's row of padding is all zeros."""
        return not self.g.tables[embed.attrs["table"]][self.feature(embed.ins[0]).get("pad_id", 0)].any()


def reachable(outputs):
    """Every Op behind some Ops, inputs first."""
    seen, order = set(), []

    def visit(op):
        stack = [(op, iter(op.ins))]
        seen.add(id(op))
        while stack:
            current, rest = stack[-1]
            nxt = next(rest, None)
            if nxt is None:
                order.append(current)
                stack.pop()
            elif id(nxt) not in seen:
                seen.add(id(nxt))
                stack.append((nxt, iter(nxt.ins)))

    for op in outputs:
        if id(op) not in seen:
            visit(op)
    return order


def _under(op):
    """What a reshape or an expand of dims of 1 shows."""
    while op.kind == "View" and op.attrs["kind"] in ("reshape", "expand"):
        op = op.ins[0]
    return op


def _is_positions(op):
    return op.is_a("Embed", pooling="none")


def _mask_of(n, mask, embed):
    """The rule of a Mask over the positions that an Embed looks up: id, length, or nonzero of these very rows."""
    mask = _under(mask)
    if mask.kind != "Mask":
        return None
    rule = mask.attrs["rule"]
    source = mask.ins[0]
    if rule == "nonzero":
        return rule if _is_positions(source) and source.ins[0] is embed.ins[0] and source.attrs["table"] == embed.attrs["table"] else None
    return rule if source is embed.ins[0] else None


def _pooled(n, op, _old):
    """A reduction over the positions of a lookup is the lookup's pooling."""
    if op.kind != "Reduce" or op.attrs["kind"] not in ("sum", "mean", "max") or op.attrs.get("axis", -1) != 0:
        return None
    kind, x = op.attrs["kind"], op.ins[0]
    if len(op.ins) == 2 and _is_positions(x):
        rule = _mask_of(n, op.ins[1], x)
        keys = {"eps": op.attrs.get("eps", 0.0)} if kind == "mean" else {"empty": op.attrs.get("empty", 0.0)} if kind == "max" else {}
        mean_of_none = kind == "mean" and op.attrs.get("empty", 0.0) != 0
        return n.g.embed(x.ins[0], x.attrs["table"], kind, rule, **keys) if rule in ("id", "length") and not mean_of_none else None
    if len(op.ins) == 1 and _is_positions(x):
        rule = "length" if kind == "sum" and n.zero_padding(x) else "none"
        return n.g.embed(x.ins[0], x.attrs["table"], kind, rule)
    if len(op.ins) == 1 and kind == "sum" and x.is_a("Binary", kind="mul"):
        for e, mask in (x.ins, x.ins[::-1]):
            if _is_positions(e) and tuple(mask.shape) in ((e.shape[0], 1), e.shape) and len(_under(mask).shape) == 1:
                rule = _mask_of(n, mask, e)
                if rule in ("id", "length"):
                    return n.g.embed(e.ins[0], e.attrs["table"], "sum", rule)
    return None


def _mean(n, op, _old):
    """A pooled sum over how many positions count is a pooled mean; eps may stand beside the count or as its least value."""
    if not op.is_a("Binary", kind="div") or not op.ins[0].is_a("Embed", pooling="sum"):
        return None
    total, (count, eps, least) = op.ins[0], _count(op.ins[1])
    if count is None or not count.is_a("Reduce", kind="sum") or len(count.ins) != 1:
        return None
    rule = _mask_of(n, count.ins[0], total)
    held = total.attrs.get("mask", "length")
    if rule == "nonzero" and held == "length" and n.zero_padding(total) and not least:
        return n.g.embed(total.ins[0], total.attrs["table"], "mean", "nonzero", eps=eps)
    if rule in ("id", "length") and (held == rule or held in ("none", "length") and n.zero_padding(total)):
        return n.g.embed(total.ins[0], total.attrs["table"], "mean", rule, eps=eps)
    return None


def _count(op):
    """(what is counted, eps, whether 0 counts as more) of count + eps, or of max(count, at most 1). A count of 1 or more is not touched by
    max(), and the sum over no position is 0, so its quotient is too; only of rows that count for nothing may the sum be another."""
    op = _under(op)
    if op.is_a("Unary", kind="affine") and not op.params and op.attrs["a"] == 1 and 0 < op.attrs["b"] <= 1e-3:
        return _under(op.ins[0]), op.attrs["b"], False
    if op.is_a("Binary", kind="max"):
        for x, bound in (op.ins, op.ins[::-1]):
            if bound.kind == "Const" and bound.params["value"].size == 1 and 0 < float(bound.params["value"].reshape(-1)[0]) <= 1:
                bound = float(bound.params["value"].reshape(-1)[0])
                return _under(x), float(str(np.float32(bound))) if bound < 2**-24 else 0.0, True  # no float32 count sees so little
    return None, 0.0, False


def _bias(n, op, old):
    """A constant that is added to a Linear is its bias."""
    if not op.is_a("Binary", kind="add"):
        return None
    for x, bias in (op.ins, op.ins[::-1]):
        if x.kind == "Linear" and "bias" not in x.params and bias.kind == "Const" and "axis" not in x.attrs and n.once(_first(old, x, op)):
            want = x.params["weight"].shape[:-1]
            value = bias.params["value"]
            if value.shape == want or (value.size == want[-1] and value.shape[-1] == want[-1] and len(want) == 1):
                return n.g.linear(x.ins[0], x.params["weight"], value.reshape(want), x.attrs.get("groups", 1))
        if bias.kind == "Const":
            found = _bias_of_groups(n, x, bias.params["value"], _first(old, x, op))
            if found is not None:
                return found
    return None


def _bias_of_groups(n, x, value, old):
    """The same where a reshape that keeps groups and outputs stands between: x W_t + b_t of each token, as torch.einsum makes it."""
    inner = x.ins[0] if x.is_a("View", kind="reshape") and old.is_a("View", kind="reshape") and n.once(old) and n.once(old.ins[0]) else None
    if inner is None or inner.kind != "Linear" or inner.attrs.get("groups", 1) == 1 or "bias" in inner.params:
        return None
    want = inner.params["weight"].shape[:-1]
    if value.shape != want or x.shape[-2:] != want or inner.shape[-2:] != want:
        return None
    return n.g.reshape(n.g.linear(inner.ins[0], inner.params["weight"], value, inner.attrs["groups"]), x.shape)


def _on_rows(n, op, old):
    """A Linear between two transposes of the last two dims is one over the axis before the last: W x."""
    if not _swaps(op) or op.ins[0].kind != "Linear" or op.ins[0].attrs or not _swaps(op.ins[0].ins[0]) or not n.once(old.ins[0]):
        return None
    return n.g.linear(op.ins[0].ins[0].ins[0], op.ins[0].params["weight"], op.ins[0].params.get("bias"), axis="field")


def _swaps(op):
    return op.is_a("View", kind="transpose") and list(op.attrs["perm"]) == swapped(len(op.shape))


def _first(old, x, op):
    """The input of the op before rewriting that became x: its readers are counted."""
    return old.ins[0] if op.ins and op.ins[0] is x else old.ins[-1]


def _dice(n, op, _old):
    """p x + alpha (1 - p) x with p = sigmoid(scale x + shift)."""
    if not op.is_a("Binary", kind="add"):
        return None
    for on, off in (op.ins, op.ins[::-1]):
        if not (on.is_a("Binary", kind="mul") and off.is_a("Binary", kind="mul")):
            continue
        for p, x in (on.ins, on.ins[::-1]):
            alpha = _dice_off(off, p, x)
            inner = p.ins[0] if p.is_a("Unary", kind="sigmoid") else None
            if alpha is None or inner is None or not inner.is_a("Unary", kind="affine") or inner.ins[0] is not x or not inner.params:
                continue
            return n.g.unary("dice", x, alpha=np.broadcast_to(alpha, (x.shape[-1],)), **inner.params)
    return None


def _dice_off(off, p, x):
    """alpha when `off` is a product of alpha, 1 - p and x, in any order; else None."""
    factors = []
    for part in off.ins:
        factors.extend(part.ins if part.is_a("Binary", kind="mul") else [part])
    rest = [f for f in factors if f is not x]
    if len(rest) != 2 or len(factors) != 3:
        return None
    for alpha, away in (rest, rest[::-1]):
        flipped = away.is_a("Unary", kind="affine") and not away.params and (away.attrs["a"], away.attrs["b"]) == (-1.0, 1.0)
        if alpha.kind == "Const" and flipped and away.ins[0] is p and alpha.params["value"].size in (1, x.shape[-1]):
            return alpha.params["value"].reshape(-1)
    return None


def _scaled_sum(n, op, _old):
    """A sum of a x is a times the sum of x; a bias added to the entries is added as often as there are entries."""
    if not op.is_a("Reduce", kind="sum") or len(op.ins) != 1:
        return None
    x = op.ins[0]
    if not x.is_a("Unary", kind="affine") or x.params or x.attrs["b"] != 0:
        return None
    return n.g.affine(n.g.reduce("sum", x.ins[0], op.attrs.get("axis", -1)), x.attrs["a"])


def _flat_sum(n, op, _old):
    """A reduction next to which there are only dims of 1 runs over a flat value."""
    if op.kind != "Reduce" or len(op.ins) != 1 or len(op.ins[0].shape) == 1 or op.attrs.get("keepdim"):
        return None
    x, axis = op.ins[0], op.attrs.get("axis", -1) % len(op.ins[0].shape)
    if any(d != 1 for i, d in enumerate(x.shape) if i != axis):
        return None
    keys = {key: op.attrs[key] for key in ("eps", "empty") if key in op.attrs}
    return n.g.reshape(n.g.reduce(op.attrs["kind"], n.g.reshape(x, [x.shape[axis]]), 0, **keys), op.shape)


RULES = (_pooled, _mean, _bias, _on_rows, _dice, _scaled_sum, _flat_sum)


def normalise(graph, outputs):
    """The outputs in their final form."""
    rewriting = Normaliser(graph, outputs)
    return [rewriting.run(op) for op in outputs]


def from_builder(builder):
    """A Builder's ops as a normalised Graph: the outputs (values, then logits, of all heads). For comparing two imports."""
    g, made = Graph({f["name"]: f for f in builder.features}), {}
    for table in builder.tables:
        g.tables[table["name"]] = builder.gather(table["name"], np.arange(table["rows"]))
    for op in builder.ops:
        g.module = op.get("module", "")
        params = {role: builder.param(name) for role, name in op.get("params", {}).items()}
        a, ins = op.get("attrs", {}), [made[i] for i in op["in"]]
        made[op["name"]] = g.slice(ins[0], a["begin"], a["end"], a["axis"]) if a.get("kind") == "slice" else g.op(op["op"], ins, a, params)
    heads = [made[h[key]] for h in builder.heads for key in ("value", "logit") if key in h]
    return g, normalise(g, heads)
