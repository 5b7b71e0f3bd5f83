"""Which rows of a table, and which keys of a set, two bundles have otherwise (weights/DELTA.md part 3): counted in a first pass over
both, written in a second one. Both go block by block."""

import numpy as np

from ..bundle.row_types import ROW_TYPES
from ..bundle.tables import BLOCK_BYTES


def _bits(rows):
    """Rows as bytes: what is compared are bits, so that a NaN equals itself and 0 is not -0."""
    rows = np.ascontiguousarray(rows)
    return rows.reshape(len(rows), -1).view("u1").reshape(len(rows), -1)


def _row_bytes(t):
    return ROW_TYPES[t["dtype"]].element_bytes(t["dim"])


class _Table:
    """One table's rows of two bundles."""

    def __init__(self, changes, number, info):
        self.base, self.after, self.number, self.info = changes.base, changes.after, number, info
        self.before, self.kind = changes.base._table_info[info["name"]], ROW_TYPES[info["dtype"]]
        self.n_set = self.n_gone = 0
        self.n_default = 0  # 1: of a keyed table, where its default row differs
        self.all = False

    def rows(self, bundle, first, n):
        """(elements, *scalars) of rows."""
        return tuple(bundle.read_rows(self.info[role], first, n) for role in ("data", *self.kind.scalars))

    @staticmethod
    def differ(a, b):
        """Which rows of two blocks are not the same bits."""
        return np.logical_or.reduce([(_bits(x) != _bits(y)).any(axis=1) for x, y in zip(a, b)])

    @staticmethod
    def zeros(block):
        """Which rows have no bit set."""
        return ~np.logical_or.reduce([_bits(x).any(axis=1) for x in block])

    def path(self, part):
        return f"/tables/{self.number}.{part}"

    def decide(self):
        """All rows where a list of some would be longer."""
        row = _row_bytes(self.info) + sum(np.dtype(d).itemsize for d in self.kind.scalars.values())
        self.all = self.n_set * (row + 8) + 8 * self.n_gone >= self.info["rows"] * row

    def sets(self):
        """(path, shape, dtype) of what is written."""
        t, n = self.info, self.info["rows"] if self.all else self.n_set + self.n_default
        out = [(self.path("rows"), (n, self.kind.columns(t["dim"])), self.kind.stored)]
        out += [(self.path(role), (n,), stored) for role, stored in self.kind.scalars.items()]
        return out if self.all else out + [(self.path("at"), (self.n_set,), "<i8"), (self.path("gone"), (self.n_gone,), "<i8")]

    def block(self, rows, which=slice(None)):
        """(path, block) of rows."""
        if len(rows[0][which]):
            for part, values in zip(("rows", *self.kind.scalars), rows):
                yield self.path(part), values[which]

    def all_blocks(self):
        """Every row."""
        step = max(1, BLOCK_BYTES // _row_bytes(self.info))
        for at in range(0, self.info["rows"], step):
            yield from self.block(self.rows(self.after, at, min(step, self.info["rows"] - at)))

    def entry(self):
        """Of the summary."""
        return {"name": self.info["name"], "rows": self.info["rows"], "rows_before": self.before["rows"], "all": self.all,
                "set": self.info["rows"] if self.all else self.n_set + self.n_default, "gone": 0 if self.all else self.n_gone}


class RowChanges(_Table):
    """A table of row numbers."""

    def _blocks(self):
        """(first row, the new block, which rows are set, which are gone)."""
        step, have = max(1, BLOCK_BYTES // _row_bytes(self.info)), self.before["rows"]
        for at in range(0, self.info["rows"], step):
            n = min(step, self.info["rows"] - at)
            block = self.rows(self.after, at, n)
            changed = np.ones(n, bool)
            old = min(n, max(0, have - at))
            if old:
                changed[:old] = self.differ([part[:old] for part in block], self.rows(self.base, at, old))
            zeros = self.zeros(block)
            yield at, block, changed & ~zeros, changed & zeros

    def count(self, progress):
        for at, block, is_set, gone in self._blocks():
            self.n_set += int(is_set.sum())
            self.n_gone += int(gone.sum())
            if progress:
                progress(at + len(is_set), self.info["rows"], f"comparing {self.info['name']}")
        self.decide()

    def blocks(self, progress):
        """(path, block) in order."""
        if self.all:
            yield from self.all_blocks()
            return
        for at, block, is_set, gone in self._blocks():
            yield from self.block(block, is_set)
            for part, which in (("at", is_set), ("gone", gone)):
                if which.any():
                    yield self.path(part), (at + np.flatnonzero(which)).astype("<i8")
            if progress:
                progress(at + len(is_set), self.info["rows"], f"writing {self.info['name']}")

    def summary(self):
        return [self.entry()]


class KeyChanges:
    """A key set and the tables that have it."""

    def __init__(self, changes, number, entry, tables):
        self.base, self.after, self.number, self.path = changes.base, changes.after, number, entry["data"]
        before = next(s for s in changes.base._key_entries if s["name"] == entry["name"])
        self.counts = (before["keys"], entry["keys"])
        self.name, self.tables = entry["name"], [_Table(changes, i, t) for i, t in tables]
        widest = max([8] + [_row_bytes(t.info) for t in self.tables])
        self._step = max(1, BLOCK_BYTES // widest)
        self.n_added = self.n_gone = 0

    def _windows(self):
        """(first, keys) of the base and of the new bundle, block by block: both of the same range of keys."""
        at, held = [0, 0], [np.empty(0, "<i8"), np.empty(0, "<i8")]
        while True:
            for i, bundle in enumerate((self.base, self.after)):
                more = min(self._step - len(held[i]), self.counts[i] - at[i] - len(held[i]))
                if more > 0:
                    held[i] = np.concatenate([held[i], bundle.read_rows(self.path, at[i] + len(held[i]), more)])
            if not len(held[0]) and not len(held[1]):
                return
            ends = [h[-1] for i, h in enumerate(held) if at[i] + len(h) < self.counts[i]]
            cuts = [len(h) if not ends else int(np.searchsorted(h, min(ends), side="right")) for h in held]
            yield at[0], held[0][:cuts[0]], at[1], held[1][:cuts[1]]
            for i in (0, 1):
                at[i] += cuts[i]
                held[i] = held[i][cuts[i]:]

    @staticmethod
    def _match(old, new):
        """Of each new key its place among the old ones, and whether it is there; which old keys are gone."""
        if not len(old):
            return np.zeros(len(new), int), np.zeros(len(new), bool), np.zeros(0, bool)
        at = np.minimum(np.searchsorted(old, new), len(old) - 1)
        there = old[at] == new
        gone = np.ones(len(old), bool)
        gone[at[there]] = False
        return at, there, gone

    def _changed(self, table, window, match):
        """(the new rows of a window, which of them differ)."""
        old_at, old, new_at, new = window
        at, there, _ = match
        rows = table.rows(self.after, new_at, len(new))
        changed = ~there
        if there.any():
            before = table.rows(self.base, old_at, len(old))
            pick = at[there]
            changed[there] = table.differ([part[there] for part in rows], [part[pick] for part in before])
        return rows, changed

    def _default(self, table):
        """(the default row, whether it differs)."""
        row = table.rows(self.after, self.counts[1], 1)
        return row, bool(table.differ(row, table.rows(self.base, self.counts[0], 1))[0])

    def count(self, progress):
        """The first pass."""
        for window in self._windows():
            match = self._match(window[1], window[3])
            self.n_added += int((~match[1]).sum())
            self.n_gone += int(match[2].sum())
            for table in self.tables:
                table.n_set += int(self._changed(table, window, match)[1].sum())
            if progress:
                progress(window[2] + len(window[3]), self.counts[1], f"comparing {self.name}")
        for table in self.tables:
            table.n_default = int(self._default(table)[1])
            table.decide()

    def _set_path(self, part):
        return f"/tables/set{self.number}.{part}"

    def sets(self):
        """(path, shape, dtype) of what is written."""
        out = [(self._set_path("added"), (self.n_added,), "<i8"), (self._set_path("gone"), (self.n_gone,), "<i8")]
        return out + [s for t in self.tables for s in t.sets()]

    def blocks(self, progress):
        """(path, block), in order of each path: the second pass."""
        for window in self._windows():
            match = self._match(window[1], window[3])
            for part, keys in (("added", window[3][~match[1]]), ("gone", window[1][match[2]])):
                if len(keys):
                    yield self._set_path(part), keys
            for table in self.tables:
                if not table.all:
                    rows, changed = self._changed(table, window, match)
                    yield from table.block(rows, changed)
                    if changed.any():
                        yield table.path("at"), window[3][changed]
            if progress:
                progress(window[2] + len(window[3]), self.counts[1], f"writing {self.name}")
        for table in self.tables:
            if table.all:
                yield from table.all_blocks()
            elif table.n_default:
                yield from table.block(self._default(table)[0])

    def summary(self):
        """Of the set's tables."""
        return [{**t.entry(), "keys": self.name, "keys_added": self.n_added, "keys_gone": self.n_gone} for t in self.tables]
