"""Rows after the feature rules of FORMAT.md part 4: what Input ops see."""

import numpy as np

from ..errors import BundleError
from ..schema import Schema, get, is_keyed, pad_of

ITEM, SHARED = "item", "shared"


class Bags:
    """Ids of one feature: row r has ids[offsets[r]:offsets[r + 1]], each in 0 .. vocab_size - 1, or a key."""

    def __init__(self, feature, ids, offsets, weights):
        self.feature, self.ids, self.offsets, self.weights = feature, ids, offsets, weights

    def __len__(self):
        return len(self.offsets) - 1

    def __getitem__(self, row_map):
        """The bags of these rows, in order."""
        rows = np.asarray(row_map)
        begin, length = self.offsets[rows], self.offsets[rows + 1] - self.offsets[rows]
        offsets = np.concatenate([[0], np.cumsum(length)])
        take = np.repeat(begin - offsets[:-1], length) + np.arange(offsets[-1])
        return Bags(self.feature, self.ids[take], offsets, None if self.weights is None else self.weights[take])

    def padded(self):
        """(ids [rows, max_len] with pad_id at padding, valid [rows, max_len])."""
        n, length = get(self.feature, "max_len"), np.diff(self.offsets)
        at = np.arange(n)[None, :]
        if get(self.feature, "pad_side") == "pre":
            at = at - (n - length)[:, None]
        valid = (at >= 0) & (at < length[:, None])
        pad = pad_of(self.feature)
        out = np.full((len(self), n), 0 if pad is None else pad, dtype=np.int64)
        out[valid] = self.ids
        return out, valid


class Batch:
    """Checked rows. `values`: feature -> Bags or float32 [rows, width]; `counts`: what the rules changed."""

    def __init__(self, features, rows):
        self.schema = Schema(features)
        self.n = rows.count(self.schema)
        self.counts, self.values = {}, {}
        self.shared_rows = rows.shared_rows
        self.row_map = None
        if rows.shared_offsets is None:
            self._take("all", self.n, rows.dense, rows.ids, rows.offsets, rows.weights)
            return
        steps = np.diff(rows.shared_offsets)
        if len(rows.shared_offsets) < 1 or rows.shared_offsets[0] != 0 or (steps < 0).any() \
                or rows.shared_offsets[-1] != self.n:
            raise BundleError(f"shared_offsets: expected rising offsets from 0 to {self.n}")
        self.row_map = np.repeat(np.arange(self.shared_rows), steps)
        self._take(ITEM, self.n, rows.dense, rows.ids, rows.offsets, rows.weights)
        self._take(SHARED, self.shared_rows, rows.shared_dense, rows.shared_ids, rows.shared_bag_offsets,
                   rows.shared_weights)

    def part(self, begin, end):
        """Rows begin .. end-1 of a batch without a shared part."""
        out = object.__new__(Batch)
        out.schema, out.n, out.counts, out.shared_rows, out.row_map = self.schema, end - begin, self.counts, 0, None
        rows = np.arange(begin, end)
        out.values = {k: v[rows] for k, v in self.values.items()}
        return out

    def _count(self, name, rule, n):
        if n:
            entry = self.counts.setdefault(name, {})
            entry[rule] = entry.get(rule, 0) + int(n)

    def _take(self, part, n, dense, ids, offsets, weights):
        columns, slots = self.schema.columns(part), self.schema.slots(part)
        have = 0 if dense is None else dense.size
        if have != n * self.schema.n_columns(part):
            raise BundleError(f"{part} dense: {have} values, expected {n} rows of {self.schema.n_columns(part)}")
        for name, (at, width) in columns.items():
            self.values[name] = self._floats(self.schema.by_name[name], dense.reshape(n, -1)[:, at:at + width])
        if not slots:
            return
        if offsets is None:
            raise BundleError(f"{part} offsets are missing: the schema has {len(slots)} id features")
        ids = np.zeros(0, np.int64) if ids is None else ids
        if len(offsets) != n * len(slots) + 1 or offsets[0] != 0 or (np.diff(offsets) < 0).any() or offsets[-1] != len(ids):
            raise BundleError(f"{part} offsets: expected {n * len(slots) + 1} rising offsets from 0 to {len(ids)}")
        if weights is not None and len(weights) != len(ids):
            raise BundleError(f"{part} weights: {len(weights)} for {len(ids)} ids")
        whole = Bags(None, ids, offsets, weights)
        for k, name in enumerate(slots):
            bags = whole[np.arange(n) * len(slots) + k]
            self.values[name] = self._bags(self.schema.by_name[name], bags)

    def _fail(self, feature, rows, text):
        raise BundleError(f"feature '{feature['name']}', row {int(rows[0])}: {text}")

    def _floats(self, feature, x):
        x = np.array(x, dtype=np.float32)
        infinite = np.isinf(x).any(axis=1)
        if infinite.any():
            self._fail(feature, np.flatnonzero(infinite), "an infinite value")
        gone = np.isnan(x)
        if gone.any():
            rule = get(feature, "missing")
            if rule == "error":
                self._fail(feature, np.flatnonzero(gone.any(axis=1)), "the value is missing")
            x[gone] = np.float32(0 if rule == "pad" else get(feature, "default"))
            self._count(feature["name"], "missing", gone.sum())
        return x

    def _bags(self, feature, bags):
        bags = self._cut(feature, bags)
        self._check_weights(feature, bags)
        name, length = feature["name"], np.diff(bags.offsets)
        if feature["kind"] == "categorical" and (length > 1).any():
            self._fail(feature, np.flatnonzero(length > 1), f"{int(length.max())} ids, expected one")
        if "missing_id" in feature:
            bags = self._drop(bags, bags.ids != feature["missing_id"])
            if feature["kind"] == "sequence":
                self._count(name, "missing", length.sum() - len(bags.ids))
            length = np.diff(bags.offsets)
        ids, row_of = bags.ids.copy(), np.repeat(np.arange(len(bags)), length)
        outside = np.zeros(len(ids), bool) if is_keyed(feature) else (ids < 0) | (ids >= feature["vocab_size"])
        if outside.any():
            how = get(feature, "out_of_range")
            if how == "error":
                self._fail(feature, row_of[outside], f"id {int(ids[outside][0])}, expected 0 to {feature['vocab_size'] - 1}")
            ids[outside] = get(feature, "oov_id" if how == "oov" else "default_id")
        self._count(name, "out_of_range", outside.sum())
        weights = bags.weights if get(feature, "weighted") else None
        if get(feature, "weighted") and weights is None:
            weights = np.ones(len(ids), np.float32)
        return self._fill_empty(feature, Bags(feature, ids, bags.offsets, weights), length == 0)

    def _check_weights(self, feature, bags):
        if bags.weights is None:
            return
        row_of = np.repeat(np.arange(len(bags)), np.diff(bags.offsets))
        infinite = ~np.isfinite(bags.weights)
        if infinite.any():
            self._fail(feature, row_of[infinite], "a weight that is not finite")
        if not get(feature, "weighted") and (bags.weights != 1).any():
            self._fail(feature, row_of[bags.weights != 1], "a weight other than 1 on a feature that is not weighted")

    @staticmethod
    def _drop(bags, keep):
        """The bags without the ids that are missing values."""
        kept = np.concatenate([[0], np.cumsum(keep)])
        weights = None if bags.weights is None else bags.weights[keep]
        return Bags(bags.feature, bags.ids[keep], kept[bags.offsets], weights)

    def _fill_empty(self, feature, bags, empty):
        """Empty bags under the missing rule. A sequence under `pad` stays empty."""
        rule = get(feature, "missing")
        if not empty.any():
            return bags
        if feature["kind"] == "sequence" and rule == "pad":
            return bags
        self._count(feature["name"], "missing", empty.sum())
        if rule == "error":
            self._fail(feature, np.flatnonzero(empty), "there is no id")
        ids = np.insert(bags.ids, bags.offsets[:-1][empty], get(feature, "pad_id" if rule == "pad" else "default_id"))
        weights = None
        if bags.weights is not None:
            weights = np.insert(bags.weights, bags.offsets[:-1][empty], np.float32(1))
        return Bags(feature, ids, bags.offsets + np.concatenate([[0], np.cumsum(empty)]), weights)

    def _cut(self, feature, bags):
        limit, length = get(feature, "max_len"), np.diff(bags.offsets)
        if not limit or not (length > limit).any():
            return Bags(feature, bags.ids, bags.offsets, bags.weights)
        self._count(feature["name"], "truncated", (length > limit).sum())
        row_of = np.repeat(np.arange(len(bags)), length)
        at = np.arange(len(bags.ids)) - bags.offsets[row_of]
        first = length[row_of] - limit if get(feature, "keep") == "last" else 0
        keep = (at >= first) & (at < np.maximum(first, 0) + limit)
        offsets = np.concatenate([[0], np.cumsum(np.minimum(length, limit))])
        return Bags(feature, bags.ids[keep], offsets, None if bags.weights is None else bags.weights[keep])
