"""One random call of each primitive over values that are there: every attribute of FORMAT.md part 7, on shapes as they come."""

import itertools

import numpy as np

from dpi_export.ops.shapes import BINARY, COMPARE, RECURRENT, REDUCE, UNARY, VIEW_KEYS

MASK_MODES = ("ninf", "add", "replace")
SOFTMAX_FORMS = tuple(itertools.product(MASK_MODES, ("prefix", "broadcast")))
REDUCE_FORMS = tuple(itertools.product(REDUCE, (False, True)))
RECURRENT_FORMS = tuple(itertools.product(RECURRENT, ("after", "before"), ("last", "all")))
STREAM_FORMS = tuple(itertools.product(("softmax", "silu"), ("none", "keys", "pairs"), ("none", "pairs", "relative")))


class Ops:
    """Each method adds one op (and what it needs) and keeps its value."""

    def __init__(self, m, parts):
        self.m, self.b, self.parts = m, m.b, parts

    def any(self):
        """One op of a random kind."""
        kind = self.m.one(self.linear, self.matmul, self.binary, self.unary, self.layer_norm, self.softmax, self.reduce,
                          self.concat, self.view, self.where, self.order, self.attention, self.recurrent, self.constant)
        kind()

    # -- helpers ------------------------------------------------------------------------------------------------------
    def positive(self, x):
        """A value well above zero."""
        return self.b.unary("affine", self.b.unary(self.m.one("sigmoid", "abs", "softplus"), x), a=1.0, b=0.5)

    def fixed_mask(self, dims):
        """Zeros and ones, the same for all rows; sometimes a slice without any one."""
        mask = (self.m.rng.random(dims) < 0.6).astype(np.float32)
        if self.m.chance(0.2):
            mask[...] = 0
        return self.b.const(mask)

    def sequence(self):
        """(value [T, d], its mask [T])."""
        if self.parts.sequences and self.m.chance(0.8):
            x, masks = self.m.one(*self.parts.sequences)
            return x, self.m.one(*masks)
        x = self.m.matrix()
        dims = self.b.shape(x)
        x = x if len(dims) == 2 else self.b.reshape(x, [dims[0], int(np.prod(dims[1:]))])
        return x, self.fixed_mask(self.b.shape(x)[:1])

    # -- one op each --------------------------------------------------------------------------------------------------
    def linear(self):
        m, b = self.m, self.b
        x, out, with_bias = m.matrix(), int(m.one(1, 2, 5)), m.chance(0.5)
        dims, form = b.shape(x), m.one("last", "field", "groups")
        if form == "last":
            y = b.linear(x, m.weight(out, dims[-1]), m.noise(out, scale=0.2) if with_bias else None)
        elif form == "field":
            y = b.linear(x, m.weight(out, dims[-2]), m.noise(out, scale=0.2) if with_bias else None, axis="field")
        else:
            g = dims[-2] if dims[-2] > 1 else int(m.one(2, 3))
            w = m.noise(g, out, dims[-1], scale=1 / np.sqrt(dims[-1]))
            y = b.linear(x, w, m.noise(g, out, scale=0.2) if with_bias else None, groups=g)
        m.keep(y)

    def matmul(self):
        m, b = self.m, self.b
        x, trans_a, trans_b = m.matrix(), m.chance(0.5), m.chance(0.5)
        k, other = b.shape(x)[-2 if trans_a else -1], m.pick(lambda dims: len(dims) >= 2)
        lead = b.shape(x)[:-2] if m.chance(0.5) else ()
        if other and m.chance(0.5) and b.shape(other)[:-2] in ((), lead) and b.shape(other)[-1 if trans_b else -2] == k:
            y = other
        elif m.chance(0.5):
            y, trans_b = x, not trans_a  # x x^T or x^T x
        else:
            n = int(m.one(1, 2, 4))
            y = b.const(m.noise(*lead, *((n, k) if trans_b else (k, n)), scale=1 / np.sqrt(k)))
        m.keep(b.matmul(x, y, trans_a=trans_a, trans_b=trans_b, alpha=m.one(1.0, 0.5, -0.25)))

    def _partner(self, x):
        """A value that broadcasts with x: the same dims, the last of them, a column of them, or one float."""
        m, b = self.m, self.b
        dims = b.shape(x)
        fitting = [v for v in m.pool if b.shape(v) in (dims, dims[-1:], (1,))]
        if fitting and m.chance(0.7):
            return m.one(*fitting)
        return b.const(m.noise(*m.one(dims, dims[-1:], (1,), dims[:-1] + (1,))))

    def condition(self, x, kind=None):
        """Zeros and ones that a comparison makes of x. Float32 must not see it otherwise: the threshold lies in the widest gap of x's
        values; what is asked to be equal are zeros and ones."""
        m, b = self.m, self.b
        kind = kind or m.one(*COMPARE)
        if kind in ("eq", "ne"):
            other = self.fixed_mask(b.shape(x)) if m.chance(0.5) else self.condition(self._partner(x), m.one("lt", "ge"))
            return b.binary(kind, self.condition(x, m.one("lt", "le", "gt", "ge")), other)
        y = self.threshold(x)
        return b.binary(kind, *((x, y) if m.chance(0.5) else (y, x)))

    def threshold(self, x):
        """A constant in the widest gap of x's values."""
        values = np.unique(self.m.value(x))
        gap = int(np.argmax(np.diff(values))) if len(values) > 1 else 0
        middle = (values[gap] + values[gap + 1]) / 2 if len(values) > 1 else float(np.sum(values)) + self.m.one(-1, 1)
        return self.b.const(np.float32(middle))

    def order(self, largest=None):
        """The entries of an axis by size, or those of another value. Float32 must see the same order: values that lie apart, or
        zeros and ones, of which the first comes first."""
        m, b = self.m, self.b
        x = m.matrix() if m.chance(0.5) else m.one(*m.pool)
        dims = b.shape(x)
        axis = int(m.rng.integers(-len(dims), len(dims)))
        near = np.diff(np.sort(m.value(x), axis=axis % len(dims) + 1), axis=axis % len(dims) + 1)
        keys = x if m.chance(0.7) and near.min(initial=1.0) > 1e-3 else self.condition(x)
        k = int(m.one(1, dims[axis], *range(1, dims[axis] + 1)))
        at = b.top_k(keys, k, axis=axis, largest=m.chance(0.5) if largest is None else largest)
        if m.chance(0.3):
            m.keep(b.unary("affine", at, a=0.125, b=-0.5))
        if m.chance(0.3):  # one order for all entries beside the axis, and positions past the ends
            at = b.reduce("max", at, axis=0, keepdim=True) if axis % len(dims) else at
            at = b.unary("affine", at, a=1.0, b=m.one(-1.0, 1.0))
        m.keep(b.take(x, at, axis=axis))

    def where(self):
        m, b = self.m, self.b
        x = m.one(*m.pool)
        y, other = self._partner(x), self._partner(x)
        cond = self.condition(other) if m.chance(0.7) else self.fixed_mask(b.shape(other))
        if m.chance(0.3):  # what is not chosen may be anything: a logarithm of what is not positive
            up = self.condition(x, "gt")
            positive = b.unary("log", b.binary("max", x, b.const(0.25)))
            x = b.where(up, b.where(up, positive, b.unary("log", b.mul(up, b.const(-1.0)))), y)
        m.keep(b.where(cond, x, y) if m.chance(0.5) else b.where(cond, y, x))

    def binary(self, kind=None):
        m, b = self.m, self.b
        kind, x = kind or m.one(*BINARY), m.one(*m.pool)
        if kind in COMPARE:
            m.keep(self.condition(x, kind))
            return
        y = self._partner(x)
        if kind in ("div", "atan2"):  # the angle jumps where y is below 0
            y = self.positive(y)
        elif m.chance(0.4):
            x, y = y, x
        m.keep(b.binary(kind, x, y))

    def unary(self, kind=None):
        m, b = self.m, self.b
        kind, x = kind or m.one(*UNARY), m.one(*m.pool)
        d = b.shape(x)[-1]
        if kind in ("log", "sqrt", "rsqrt"):
            y = b.unary(kind, self.positive(x))
        elif kind == "sign":
            y = b.unary(kind, b.sub(x, self.threshold(x)))
        elif kind == "pow":
            a = m.one(2.0, 3.0, 0.5, -1.0, 1.5)
            y = b.unary(kind, x if a in (2.0, 3.0) else self.positive(x), a=a)
        elif kind in ("leaky", "elu"):
            y = b.unary(kind, x, a=m.one(0.01, 0.25, 1.0, -0.5))
        elif kind == "clamp":
            y = b.unary(kind, x, a=m.one(-0.5, -0.25), b=m.one(-0.25, 0.5))
        elif kind == "affine":
            given = {"scale": m.noise(d), "shift": m.noise(d, scale=0.3)} if m.chance(0.5) else {"a": 0.75, "b": m.one(0.0, -0.5)}
            y = b.unary(kind, x, **given)
        elif kind == "prelu":
            y = b.unary(kind, x, slope=m.noise((1, d)[m.seed // 32 % 2], scale=0.3))
        elif kind == "dice":
            y = b.unary(kind, x, alpha=m.noise(d, scale=0.3), scale=1 + m.noise(d, scale=0.3), shift=m.noise(d, scale=0.3))
        else:
            y = b.unary(kind, x)
        m.keep(y)

    def layer_norm(self):
        m, b = self.m, self.b
        x = m.matrix() if m.chance(0.5) else m.one(*m.pool)
        dims = b.shape(x)
        choices = [dims[-1:]] + ([dims[-2:]] if len(dims) >= 2 else [])
        gamma = 1 + m.noise(*m.one(*choices), scale=0.3) if m.chance(0.6) else None
        beta = m.noise(*m.one(*choices), scale=0.3) if m.chance(0.6) else None
        m.keep(b.layer_norm(x, gamma, beta, eps=m.one(1e-5, 1e-5, 1e-3, 0.125)))

    def softmax(self, form=None):
        m, b = self.m, self.b
        x = m.matrix() if m.chance(0.6) else m.one(*m.pool)
        dims = b.shape(x)
        axis = int(m.rng.integers(-len(dims), len(dims)))
        if form is None and m.chance(0.4):
            m.keep(b.softmax(x, axis=axis))
            return
        mode, how = form or m.one(*SOFTMAX_FORMS)
        mask = self.fixed_mask(dims[:axis % len(dims) + 1] if how == "prefix" else m.one(dims, dims[-1:], dims[:-1] + (1,)))
        m.keep(b.softmax(x, mask, axis=axis, mask_mode=mode, value=m.one(-1e9, -2.0, -4294967295.0)))

    def reduce(self, form=None):
        m, b = self.m, self.b
        kind, masked = form or m.one(*REDUCE_FORMS)
        more = {"eps": m.one(0.0, 0.5), "empty": m.one(0.0, -1.5)}
        if masked and m.chance(0.6):
            x, mask = self.sequence()
            m.keep(b.reduce(kind, x, mask, axis=m.one(0, -2), keepdim=m.chance(0.4), **more))
            return
        x = m.matrix() if m.chance(0.6) else m.one(*m.pool)
        dims = b.shape(x)
        axis = int(m.rng.integers(-len(dims), len(dims)))
        mask = self.fixed_mask(dims[:axis % len(dims) + 1]) if masked else None
        m.keep(b.reduce(kind, x, mask, axis=axis, keepdim=len(dims) == 1 or m.chance(0.4), **more))

    def concat(self):
        m, b = self.m, self.b
        x = m.matrix() if m.chance(0.5) else m.one(*m.pool)
        dims = b.shape(x)
        axis = int(m.rng.integers(-len(dims), len(dims)))
        rest = [k for k in range(len(dims)) if k != axis % len(dims)]
        fitting = [v for v in m.pool if len(b.shape(v)) == len(dims) and all(b.shape(v)[k] == dims[k] for k in rest)]
        values = [x] + [m.one(*fitting) for _ in range(m.one(0, 1, 2, 3)) if fitting]
        if m.chance(0.3):
            values.insert(int(m.rng.integers(len(values) + 1)), b.const(m.noise(*dims)))
        m.keep(b.concat(values, axis=axis))

    def view(self):
        m, b = self.m, self.b
        kind = m.one(*VIEW_KEYS)
        x = m.matrix() if m.chance(0.6) else m.one(*m.pool)
        dims = b.shape(x)
        axis = int(m.rng.integers(-len(dims), len(dims)))
        n = dims[axis]
        if kind == "reshape":
            y = b.reshape(x, m.one([m.size(x)], [1, m.size(x)], list(dims[::-1])))
        elif kind == "transpose":
            y = b.transpose(x, [int(k) for k in m.rng.permutation(len(dims))])
        elif kind == "slice":
            begin = int(m.rng.integers(n))
            y = b.slice(x, begin, int(m.rng.integers(begin + 1, n + 1)), axis=axis)
        elif kind == "index_select":
            y = b.index_select(x, [int(k) for k in m.rng.integers(0, n, m.one(1, 2, 4))], axis=axis)
        else:
            grown = [int(m.one(1, 3)) if k == 1 else k for k in dims]
            y = b.expand(x, ([2] if m.chance(0.5) and len(dims) < 4 else []) + grown)
        if m.size(y) > 96 or len(b.shape(y)) > 4:
            y = b.reduce("mean", m.flat(y), keepdim=True)
        m.keep(y)

    def attention(self):
        """Scores of positions against a vector, a masked softmax, and the weighted sum."""
        m, b = self.m, self.b
        x, mask = self.sequence()
        t, d = b.shape(x)
        query = m.pick(lambda dims: dims == (d,)) or b.const(m.noise(d))
        scores = b.matmul(x, b.reshape(query, [d, 1]), alpha=m.one(1.0, 0.5))
        weights = b.softmax(b.reshape(scores, [t]), mask, mask_mode=m.one(*MASK_MODES), value=m.one(-1e9, -2.0))
        m.keep(b.reshape(b.matmul(b.reshape(weights, [1, t]), x), [d]))

    def history(self, form=None):
        """The format's Attention over a sequence, with numbers of its own: models drawn without it stay the same."""
        held, self.m.rng = self.m.rng, np.random.default_rng(self.m.seed + 1_000_000)
        self._history(*(form or self.m.one(*STREAM_FORMS)))
        self.m.rng = held

    def _history(self, form, masked, biased):
        m, b = self.m, self.b
        x, mask = self.sequence()
        t, d = b.shape(x)
        heads, dim = int(m.one(1, 2, 4)), int(m.one(1, 3))
        q, k, v = (b.linear(x, m.weight(heads * n, d)) for n in (dim, dim, int(m.one(1, 2))))
        if masked == "pairs":
            mask = self.fixed_mask((t, t))
        line = b.const(m.noise(*((heads,) if m.chance(0.5) else ()), *((t, t) if biased == "pairs" else (2 * t - 1,))))
        own = {"divisor": float(m.one(1, t))} if form == "silu" else {"empty": m.one("zeros", "mean")}
        y = b.attention(q, k, v, None if masked == "none" else mask, None if biased == "none" else line, heads=heads, relative=biased == "relative",
                        scale=m.one(1.0, 0.5), form=form, causal=m.chance(0.5), candidates=int(m.one(0, 0, 1, min(3, t))), **own)
        m.keep(b.reduce("sum", y, axis=0) if t > 1 or len(b.shape(y)) > 1 else y)

    def recurrent(self, form=None):
        m, b = self.m, self.b
        x, mask = self.sequence()
        t, n_in = b.shape(x)
        kind, reset, output = form or m.one(*RECURRENT_FORMS)
        width, att = int(m.one(1, 2, 4)), None
        if kind != "gru":
            att = b.sigmoid(b.reshape(b.linear(x, m.weight(1, n_in)), [t]))
        both = [m.noise(3 * width, scale=0.2) if m.chance(0.6) else None for _ in range(2)]
        m.keep(b.recurrent(x, mask, m.weight(3 * width, n_in), m.weight(3 * width, width), *both, att=att, kind=kind,
                           reset=reset, output=output))

    def constant(self):
        """A value that no row changes."""
        m, b = self.m, self.b
        x = b.const(m.noise(*m.one((1,), (3,), (2, 3))))
        m.keep(b.unary(m.one("tanh", "relu"), x) if m.chance(0.5) else x)
