"""The parts that CTR models are made of, in the many forms that the plan's rewrites look for: embeddings of one feature under
several rules, tables of one column, FM, cross networks, layers."""

import numpy as np

from dpi_export.ops.shapes import MASKS

DTYPES = ("f32", "f16", "bf16", "i8", "i4", "i2", "fp8")
ACTIVATIONS = ("relu", "sigmoid", "tanh", "silu", "selu", "gelu_erf", "gelu_tanh", "softplus", "identity")


class Parts:
    """What the features gave: `vectors` of one width, `columns` of one float, `sequences` as (value [T, d], masks)."""

    def __init__(self, m, names):
        self.m, self.b, self.names = m, m.b, names
        self.dim = int(m.one(2, 3, 4, 5, 8))
        self.vectors, self.columns, self.sequences, self.tables = [], [], [], []
        self.sums = []  # FM and the like: whole numbers that a head adds as they are
        self.by_name = {f["name"]: f for f in self.b.features}
        for name in names["categorical"]:
            self._categorical(name)
        for name in names["sequence"]:
            self._sequence(name)
        for name in names["numeric"]:
            self._numeric(name)
        for name in names["dense"]:
            m.keep(self.b.input(name))

    # -- lookups ------------------------------------------------------------------------------------------------------
    def _table(self, least_rows, dim):
        """A table of this width: one that is there, or a new one. Some rows are zero, some cancel to zero."""
        m = self.m
        fitting = [n for n, rows, d in self.tables if rows >= least_rows and d == dim]
        if fitting and m.chance(0.35):
            return m.one(*fitting)
        rows = least_rows + m.one(0, 0, 3)
        x = m.noise(rows, dim, scale=0.4)
        x[m.rng.random(rows) < 0.15] = 0
        if dim > 1:
            x[-1] = 0
            x[-1, :2] = (0.5, -0.5)
        name = f"table{len(self.tables)}"
        self.b.table(name, x, dtype=m.one(*DTYPES, "f32"))
        self.tables.append((name, rows, dim))
        return name

    def _categorical(self, name):
        m, x = self.m, self.b.input(name)
        vocab = self.by_name[name]["vocab_size"]
        for _ in range(m.one(1, 1, 2)):
            self._vector(self.b.embed(x, self._table(vocab, self.dim)))
        for _ in range(m.one(0, 1, 1, 2)):
            self._column(self.b.embed(x, self._table(vocab, 1)))

    def _pooling(self, feature, kind=None):
        """Attributes of one pooled Embed, of this kind if one is given."""
        m = self.m
        weighted, fixed = feature.get("weighted", False), feature.get("max_len", 0) > 0
        pooling = kind or m.one("sum", "mean", *(() if weighted else ("max",)))
        masks = [k for k in MASKS if (k != "none" or (fixed and not weighted)) and (k != "nonzero" or pooling != "max")]
        eps = m.one(0.0, 0.0, 0.5, 1.0) if pooling == "mean" or m.chance(0.2) else 0.0
        empty = m.one(0.0, -0.5, 1.25) if pooling == "max" or m.chance(0.2) else 0.0
        return {"pooling": pooling, "mask": m.one(*masks), "eps": eps, "empty": empty}

    def _sequence(self, name):
        m, x, feature = self.m, self.b.input(name), self.by_name[name]
        vocab, table, kind = feature["vocab_size"], None, None
        for _ in range(m.one(1, 2, 3, 4)):
            table = table if table and m.chance(0.7) else self._table(vocab, self.dim)
            rule = self._pooling(feature, kind if m.chance(0.7) else None)
            kind = rule["pooling"]
            self._vector(self.b.embed(x, table, **rule))
        for _ in range(m.one(0, 1, 1, 2)):
            self._column(self.b.embed(x, self._table(vocab, 1), **self._pooling(feature)))
        if feature.get("max_len", 0):
            e = m.keep(self.b.embed(x, self._table(vocab, self.dim), pooling="none", mask=m.one("length", "id", *(() if feature.get("weighted") else ("none",)))))
            masks = [self.b.mask(x, "length"), self.b.mask(x, "id"), self.b.mask(e, "nonzero")]
            self.sequences.append((e, m.some(masks)))

    def _numeric(self, name):
        m, x = self.m, self.b.input(name)
        if m.chance(0.5):
            m.keep(x)
        for _ in range(m.one(0, 1, 1, 2)):
            bias = m.noise(self.dim, scale=0.2) if m.chance(0.25) else None
            self._vector(self.b.linear(x, m.noise(self.dim, 1, scale=0.5), bias))
        for _ in range(m.one(0, 1, 2)):
            self._column(self.b.linear(x, m.noise(1, 1), m.noise(1) if m.chance(0.25) else None))

    def _vector(self, x):
        self.vectors.append(self.m.keep(x))

    def _column(self, x):
        self.columns.append(self.m.keep(x))

    # -- interactions -------------------------------------------------------------------------------------------------
    def fm(self):
        """FM over some vectors, as different people write it."""
        m, b = self.m, self.b
        chosen = m.some(self.vectors, 2)
        if len(chosen) < 2:
            return
        n, form = len(chosen), int(m.rng.integers(6))
        x = b.concat(chosen)
        e = b.reshape(x, [n, self.dim])
        keep = form == 1
        s = b.reduce("sum", e, axis=0, keepdim=keep)
        square = b.unary("pow", s, a=2.0) if form == 2 else b.mul(s, s)
        squares = b.reduce("sumsq", e, axis=0, keepdim=keep)
        if form == 3:
            squares = b.reduce("sum", b.mul(e, e), axis=0)
        if form == 4:
            pairs = b.sub(b.reduce("sumsq", s, axis=0, keepdim=True), b.reduce("sumsq", x, axis=0, keepdim=True))
            y = b.unary("affine", pairs, a=0.5, b=0.0)
        else:
            pairs = b.sub(square, squares)
            pairs = b.reshape(pairs, [self.dim]) if keep else pairs
            half_first = form == 5
            pairs = b.unary("affine", pairs, a=0.5, b=0.0) if half_first else pairs
            y = b.reduce("sum", pairs, axis=0, keepdim=True)
            y = y if half_first else b.unary("affine", y, a=0.5, b=0.0)
        self.sums.append(m.tame(y, 16.0))

    def cross(self):
        """A cross network of one to three layers, with a weight vector or a weight matrix a layer."""
        m, b = self.m, self.b
        x0 = b.concat(m.some(self.vectors + self.columns, 2)[:4])
        n, x, matrix = m.size(x0), x0, m.chance(0.5)
        for _ in range(m.one(1, 2, 3)):
            bias = m.noise(n, scale=0.1)
            if matrix:
                product = b.mul(x0, b.linear(x, m.noise(n, n, scale=0.5 / n), bias))
            else:
                product = b.mul(x0, b.linear(x, m.noise(1, n, scale=0.5 / np.sqrt(n))))
                product = b.add(product, b.const(bias))
            x = b.add(product, x)
        m.marks.add("cross with a weight " + ("matrix" if matrix else "vector"))
        if m.chance(0.5):
            self.sums.append(m.tame(b.linear(x, m.weight(1, n))))
        else:
            m.keep(x)

    def towers(self):
        """The dot product of a vector and a layer, and what may come before them: two towers when one is the user's."""
        m, b, n = self.m, self.b, self.m.one(3, 4, 8, 9)
        u, h = (m.one(*self.vectors) for _ in range(2))
        if m.chance(0.7):
            u = m.tame(b.unary(m.one("identity", "tanh", "relu"), b.linear(u, m.weight(n, self.dim), m.noise(n, scale=0.2))))
        n = m.size(u)
        h = m.tame(b.unary(m.one(*ACTIVATIONS), b.linear(h, m.weight(7, self.dim), m.noise(7)))) if m.chance(0.7) else h
        i = b.linear(h, m.weight(n, m.size(h)), m.noise(n, scale=0.3) if m.chance(0.6) else None)
        y = b.reduce("sum", b.mul(u, i) if m.chance(0.5) else b.mul(i, u), keepdim=True)
        if m.chance(0.2):
            m.keep(i)  # others read the layer
        self.sums.append(m.tame(y, 16.0))

    def attention(self):
        """A layer over what a target and each place of a history give, in any order and choice, and the sum of the places by its scores."""
        m, b = self.m, self.b
        if not self.sequences:
            return
        k, _ = m.one(*self.sequences)
        t = m.one(*self.vectors)
        places = b.shape(k)[0]
        q = b.expand(b.reshape(t, [1, self.dim]), [places, self.dim])
        forms = {"q": lambda: q, "k": lambda: k, "q-k": lambda: b.sub(q, k), "k-q": lambda: b.sub(k, q), "qk": lambda: b.mul(q, k)}
        chosen = m.some(list(forms), 2) if m.chance(0.5) else ["q", "k", "q-k", "qk"]
        x = b.concat([forms[f]() for f in chosen])
        out = int(m.one(1, 5, 17))
        h = b.linear(x, m.weight(out, m.size(x) // places), m.noise(out, scale=0.2) if m.chance(0.7) else None)
        h = m.tame(b.unary(m.one(*ACTIVATIONS), h))
        scores = b.reshape(b.linear(h, m.weight(1, out)), [1, places])
        self._vector(m.tame(b.reshape(b.matmul(scores, k), [self.dim])))

    def layers(self, x=None):
        """One to three layers, some with what BatchNorm is exported as."""
        m, b = self.m, self.b
        x = m.flat(x or (b.concat(m.some(self.vectors)) if m.chance(0.6) else m.one(*m.pool)))
        for _ in range(m.one(1, 1, 2, 3)):
            out = int(m.one(1, 3, 8, 9))
            x = b.linear(x, m.weight(out, m.size(x)), m.noise(out, scale=0.2) if m.chance(0.7) else None)
            if m.chance(0.3):
                x = b.unary("affine", x, scale=1 + m.noise(out, scale=0.2), shift=m.noise(out, scale=0.2))
            x = m.tame(b.unary(m.one(*ACTIVATIONS), x))
        return m.keep(x)

    def logistic(self):
        """Columns of one float, added or joined and summed."""
        m, b = self.m, self.b
        chosen = m.some(self.columns, 2)
        if len(chosen) < 2:
            return
        if m.chance(0.5):
            y = b.reduce("sum", b.concat(chosen), axis=0, keepdim=True)
        else:
            y = chosen[0]
            for x in chosen[1:]:
                y = b.binary(m.one("add", "add", "sub"), y, x)
        self.sums.append(m.tame(y, 16.0))
