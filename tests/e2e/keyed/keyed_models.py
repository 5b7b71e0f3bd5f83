"""Random models over keyed tables, the same with row numbers, and their scores by dicts and loops in float64: none of dpi_export's
executor and nothing of the engine. Planted faults that this has found: absent keys read row 0; padding read the default row where the
pad key is there; mask `id` took absent keys for padding."""

import numpy as np

from dpi_export import Builder, Rows
from dpi_export.bundle.tables import decode, encode

ODD = [-2**63, 2**63 - 1, 0, -1, 1, 2**32, -2**32]


class KeyedFeature:
    """One feature of keys: its rules, and the bags of every row."""

    def __init__(self, rng, name, key_set, shared):
        self.name, self.set, self.shared = name, key_set, shared
        self.kind = ["categorical", "sequence"][rng.integers(2)]
        self.weighted = self.kind == "sequence" and rng.random() < 0.4
        self.max_len = int(rng.integers(1, 7)) if rng.random() < 0.7 else 0
        self.keep, self.side = ["first", "last"][rng.integers(2)], ["post", "pre"][rng.integers(2)]
        self.missing = ["pad", "default"][rng.integers(2)]
        self.pad = int(key_set.some(rng)) if rng.random() < 0.6 or (self.kind == "categorical" and self.missing == "pad") else None
        self.default = int(key_set.some(rng)) if self.missing == "default" else None
        if self.default is not None and self.pad is not None and rng.random() < 0.4:
            self.default = self.pad
        self.missing_id = 424242 if rng.random() < 0.4 else None

    def declare(self, b, keyed):
        """Adds the feature to a Builder, by keys or by row numbers."""
        number = (lambda k: k) if keyed else lambda k: self.number(k, by_rule=True)
        rules = {"missing": self.missing, "space": "shared" if self.shared else "item"}
        if self.pad is not None or not keyed:
            rules["pad_id"] = number(self.pad) if self.pad is not None else self.set.pad_row(None)
        if self.default is not None:
            rules["default_id"] = number(self.default)
        if self.missing_id is not None:
            rules["missing_id"] = self.missing_id if keyed else -1
        rules.update({"keys": self.set.name} if keyed else {"vocab_size": self.set.rows()})
        if self.kind == "categorical":
            return b.categorical(self.name, **rules)
        return b.sequence(self.name, max_len=self.max_len, keep=self.keep, pad_side=self.side, weighted=self.weighted, **rules)

    def number(self, key, by_rule=False):
        """The row number that stands for a key in the model without keys."""
        if not by_rule and key == self.missing_id:
            return -1
        return self.set.pad_row(key) if key == self.pad else self.set.dict.get(key, len(self.set.dict))

    def draw(self, rng, rows):
        """Bags for so many rows, some empty, some longer than max_len."""
        some = lambda: self.missing_id if self.missing_id is not None and rng.random() < 0.1 else self.pad if self.pad is not None and \
            rng.random() < 0.1 else int(self.set.some(rng))  # noqa: E731
        length = lambda: int(rng.random() < 0.9) if self.kind == "categorical" else int(rng.integers(0, 9))  # noqa: E731
        self.bags = [[some() for _ in range(length())] for _ in range(rows)]
        self.weights = [[float(np.float32(rng.uniform(0.25, 2))) for _ in bag] for bag in self.bags] if self.weighted else None

    def resolved(self, row):
        """(keys, weights) after the rules."""
        bag = self.bags[row]
        pairs = list(zip(bag, self.weights[row] if self.weighted else [1.0] * len(bag)))
        if self.max_len and self.kind == "sequence":
            pairs = pairs[:self.max_len] if self.keep == "first" else pairs[max(0, len(pairs) - self.max_len):]
        self.absent += sum(k not in self.set.dict and k not in (self.pad, self.missing_id) for k, _ in pairs)
        pairs = [p for p in pairs if self.missing_id is None or p[0] != self.missing_id]
        if not pairs and self.missing == "default":
            pairs = [(self.default, 1.0)]
        if not pairs and self.kind == "categorical":
            pairs = [(self.pad, 1.0)]
        return pairs


class KeyedSet:
    """Keys with the row each stands for, odd ones among them."""

    def __init__(self, rng, name, n):
        wide = rng.random() < 0.5
        keys = set(ODD[:n]) | {int(k) for k in (rng.integers(-2**63, 2**63 - 1, n) if wide else rng.integers(-50, 50 + n, 3 * n))}
        self.name, self.keys = name, sorted(list(keys)[:n])
        self.dict = {k: i for i, k in enumerate(self.keys)}
        self.near = np.array(self.keys + ODD + [int(k) for k in rng.integers(-60, 60, 20)], dtype=np.int64)
        self.pads = []

    def some(self, rng):
        """A key that may be there."""
        return self.near[rng.integers(len(self.near))]

    def pad_row(self, pad):
        if pad not in self.pads:
            self.pads.append(pad)
        return len(self.keys) + 1 + self.pads.index(pad)

    def rows(self):
        return len(self.keys) + 1 + len(self.pads)


class KeyedTable:
    """Rows of a key set, in any order, and the default row."""

    def __init__(self, rng, name, key_set, dim):
        self.name, self.set, self.dim, n = name, key_set, dim, len(key_set.keys)
        self.dtype = ["f32", "f32", "f16", "bf16", "i8", "i4", "i2", "fp8"][rng.integers(8)]
        values = rng.normal(size=(n, dim)).astype(np.float32)
        values[rng.random(n) < 0.2] = 0  # rows that mask `nonzero` leaves out
        self.default = rng.normal(size=dim).astype(np.float32) if rng.random() < 0.6 else np.zeros(dim, np.float32)
        self.values, self.order = values, rng.permutation(n)
        self.all = np.concatenate([values, self.default[None]])
        stored, scalars = encode(self.all, self.dtype)
        self.seen = decode(stored, self.dtype, scalars, dim).astype(np.float64)

    def declare_external(self, b, digest):
        b.external_table(self.name, self.dim, self.dtype, digest=digest, default=self.default, key_set=self.set.name, count=len(self.set.keys))

    def declare(self, b, keyed, one_pass=False):
        if not keyed:
            rows = [*range(len(self.all)), *(len(self.set.keys) if p is None else self.set.dict.get(p, len(self.set.keys)) for p in self.set.pads)]
            return b.table(self.name, self.all[rows], dtype=self.dtype)
        keys = np.array(self.set.keys, dtype=np.int64)
        if one_pass:
            blocks = ((keys[at:at + 3], self.values[at:at + 3]) for at in range(0, len(keys), 3))
            return b.keyed_table(self.name, None, blocks, self.default, self.dtype, len(keys), self.dim, key_set=self.set.name)
        return b.keyed_table(self.name, keys[self.order], self.values[self.order], self.default, self.dtype, key_set=self.set.name)

    def row(self, key):
        return self.seen[self.set.dict.get(key, len(self.set.keys))]


class Lookup:
    """One Embed of a feature in a table."""

    def __init__(self, rng, feature, table):
        self.feature, self.table, self.eps, self.empty = feature, table, 0.0, 0.0
        self.pooling, self.mask = "single", "length"
        if feature.kind == "categorical":
            return
        fixed = feature.max_len > 0
        self.pooling = rng.choice(["sum", "mean"] + ([] if feature.weighted else ["max"]) + (["none"] if fixed else []))
        masks = ["length", "id"] + (["none"] if fixed and not feature.weighted else [])
        self.mask = rng.choice(masks + (["nonzero"] if self.pooling in ("sum", "mean") else []))
        self.pooling, self.mask = str(self.pooling), "length" if self.pooling == "none" else str(self.mask)
        self.eps = 1e-3 if self.pooling == "mean" and rng.random() < 0.5 else 0.0
        self.empty = 0.25 if self.pooling == "max" else 0.0

    def width(self):
        return self.table.dim * (self.feature.max_len if self.pooling == "none" else 1)

    def declare(self, b):
        y = b.embed(b.input(self.feature.name), self.table.name, self.pooling, self.mask, self.eps, self.empty)
        return b.reshape(y, [self.width()]) if self.pooling == "none" else y

    def value(self, pairs):
        """float64, straight from FORMAT.md part 7. pairs: (key, weight)."""
        f, rows = self.feature, [self.table.row(k) for k, _ in pairs]
        padding = self.table.row(f.pad) if f.pad is not None else self.table.seen[-1]
        gaps = [padding] * max(0, f.max_len - len(rows))
        if self.pooling == "single":
            return rows[0]
        if self.pooling == "none":
            return np.concatenate(rows + gaps if f.side == "post" else gaps + rows)
        counted = [self.mask != "id" or f.pad is None or k != f.pad for k, _ in pairs]
        weights = [w for _, w in pairs]
        if self.mask == "nonzero":
            counted = [_f32_sum(r) != 0 for r in rows]
        if self.mask == "none":
            rows, counted, weights = rows + gaps, [True] * f.max_len, [1.0] * f.max_len
        return self._pool(rows, counted, weights)

    def _pool(self, rows, counted, weights):
        if self.pooling == "max":
            held = [r for r, c in zip(rows, counted) if c]
            return np.max(held, axis=0) if held else np.full(self.table.dim, self.empty)
        adds = [True] * len(rows) if self.mask == "nonzero" else counted
        total = sum((w * r for r, w, a in zip(rows, weights, adds) if a), np.zeros(self.table.dim))
        if self.pooling == "sum":
            return total
        with np.errstate(all="ignore"):
            return total / (sum(w for w, c in zip(weights, counted) if c) + self.eps) if any(counted) else np.zeros(self.table.dim)


def _f32_sum(row):
    total = np.float32(0)
    for x in row.astype(np.float32):
        total = np.float32(total + x)
    return total


class KeyedModel:
    """A model of one seed: bundles with keys and without, rows for both, and what they score."""

    def __init__(self, seed):
        self.rng = rng = np.random.default_rng(seed)
        sets = [KeyedSet(rng, f"set{i}", int(rng.integers(1, 40))) for i in range(rng.integers(1, 4))]
        self.counts = [int(n) for n in rng.integers(0, 5, 6)] + [2] if rng.random() < 0.4 else None
        self.items = sum(self.counts) if self.counts else int(rng.integers(1, 90))
        self.features = [KeyedFeature(rng, f"f{i}", sets[rng.integers(len(sets))], self.counts is not None and rng.random() < 0.5)
                         for i in range(rng.integers(1, 7))]
        self.tables = [KeyedTable(rng, f"t{i}", s, int(d)) for i, (s, d) in
                       enumerate((s, d) for s in sets for d in (1, rng.integers(1, 20), rng.integers(1, 9)))]
        self.lookups = [Lookup(rng, f, t) for f in self.features for t in self.tables if t.set is f.set and rng.random() < 0.8]
        self.lookups = self.lookups or [Lookup(rng, f, t) for f in self.features for t in self.tables if t.set is f.set]
        self.weight = [rng.normal(size=(1, x.width())).astype(np.float32) / 4 for x in self.lookups]
        for f in self.features:
            f.draw(rng, len(self.counts) if f.shared else self.items)
            f.set.pad_row(f.pad)

    def without_nonzero(self):
        """The same, but no mask asks which rows are zero: only rows in memory can be asked."""
        for x in self.lookups:
            x.mask = "length" if x.mask == "nonzero" else x.mask
        return self

    def used(self):
        return [t for t in self.tables if any(x.table is t for x in self.lookups)]

    def builder(self, keyed, external=None):
        """external: digests of the tables, whose rows are then not in the bundle."""
        b = Builder("keyed" if keyed else "numbered")
        for f in self.features:
            f.declare(b, keyed)
        for i, t in enumerate(self.used()):
            if external:
                t.declare_external(b, external[t.name])
            else:
                t.declare(b, *((True, i % 2 == 1) if keyed else (False,)))
        parts = [b.linear(x.declare(b), w) for x, w in zip(self.lookups, self.weight)]
        wide = b.concat([x.declare(b) for x in self.lookups])
        logit = b.add(b.linear(wide, np.concatenate(self.weight, axis=1) / 2), parts[0])
        for p in parts[1:]:
            logit = b.add(logit, p)
        b.head("ctr", b.sigmoid(logit), logit=logit)
        return b

    def rows(self, b, keyed):
        columns = {f.name: f.bags if keyed else [[f.number(k) for k in bag] for bag in f.bags] for f in self.features}
        return Rows.from_columns(b, columns, {f.name: f.weights for f in self.features if f.weighted}, shared_counts=self.counts)

    def flat_rows(self, b):
        """The rows by keys without a shared part: what a user has in common is in each of its rows."""
        users = np.repeat(np.arange(len(self.counts)), self.counts) if self.counts else None

        def spread(f, values):
            return [values[u] for u in users] if f.shared else values

        return Rows.from_columns(b, {f.name: spread(f, f.bags) for f in self.features},
                                 {f.name: spread(f, f.weights) for f in self.features if f.weighted})

    def logits(self):
        """[items] float64; counts absent keys by feature."""
        row_map = np.repeat(np.arange(len(self.counts)), self.counts) if self.counts else np.arange(self.items)
        out = np.zeros(self.items)
        for f in self.features:
            f.absent = 0
            pairs = [f.resolved(r) for r in range(len(f.bags))]
            for x, w in zip(self.lookups, self.weight):
                if x.feature is f:
                    values = np.array([1.5 * (w[0].astype(np.float64) @ x.value(p)) for p in pairs])
                    out += values[row_map] if f.shared else values
        return out
