"""Runs a model in numpy straight from FORMAT.md: the exporter's check before writing and the oracle of `verify`.

Readable, not fast. float64 by default; `dtype=np.float32` computes every op in float32.
"""

import numpy as np

from . import jumps, numpy_ops
from .batch import ITEM, SHARED, Bags, Batch
from ..schema import is_keyed, pad_of


class Executor:
    """`model` is a Builder (written or not) or a Bundle. What a decision is made by is rounded to float32 in any type (jumps.py)."""

    def __init__(self, model, dtype=np.float64):
        self.model, self.dtype, self._ahead = model, dtype, jumps.ahead(model)

    def run(self, rows, keep=False, block=4096):
        """{"value": {head: [rows]}, "logit": {head: [rows]}, "counts": {feature: {rule: n}}} and, with `keep`, "ops":
        {op: array} of the whole batch."""
        batch = Batch(self.model.features, rows)
        if keep or batch.shared_rows or batch.n <= block:
            return self._run(batch, keep)
        parts = [self._run(batch.part(at, min(at + block, batch.n)), False) for at in range(0, batch.n, block)]
        out = {key: {h: np.concatenate([p[key][h] for p in parts]) for h in parts[0][key]} for key in ("value", "logit")}
        out["counts"] = batch.counts
        return out

    def _run(self, batch, keep):
        n_rows = {"item": batch.n, "shared": batch.shared_rows or batch.n, "constant": 1}
        values, spaces = {}, {}
        with np.errstate(all="ignore"):
            for op in self.model.ops:
                name, space = op["name"], self.model.space(op["name"])
                inputs = [self._repeat(values[i], spaces[i], space, batch) for i in op.get("in", [])]
                value = self._value(op, inputs, n_rows[space], batch)
                values[name], spaces[name] = value, space
        result = {"value": {}, "logit": {}, "counts": batch.counts}
        for head in self.model.heads:
            for key in ("value", "logit"):
                if head.get(key) is not None:
                    v = self._repeat(values[head[key]], spaces[head[key]], "item", batch)
                    result[key][head["name"]] = np.broadcast_to(v.reshape(len(v), -1)[:, 0], (batch.n,)).copy()
        if keep:
            result["ops"] = {k: v for k, v in values.items() if isinstance(v, np.ndarray)}
        return result

    def _value(self, op, inputs, n_rows, batch):
        if op["name"] not in self._ahead:
            return numpy_ops.run(op, inputs, n_rows, _Context(self, batch))
        attrs = {key: float(np.float32(a)) if isinstance(a, float) else a for key, a in op.get("attrs", {}).items()}
        value = numpy_ops.run({**op, "attrs": attrs}, inputs, n_rows, _Context(self, batch))
        return value.astype(np.float32).astype(self.dtype) if isinstance(value, np.ndarray) else value

    @staticmethod
    def _repeat(value, space, target, batch):
        """A shared value for item rows. Constants have one row, which broadcasts."""
        if space == SHARED and target == ITEM and batch.shared_rows:
            return value[batch.row_map]
        return value


class _Context:
    """What an op may ask for besides its inputs."""

    def __init__(self, executor, batch):
        self._executor, self.batch, self.dtype = executor, batch, executor.dtype

    def param(self, op, role):
        """A parameter in the executor's type, or None."""
        name = op.get("params", {}).get(role)
        return None if name is None else np.asarray(self._executor.model.param(name), dtype=self.dtype)

    def in_rows(self, bags):
        """Bags of keys as bags of row numbers, padding with a number of its own; others as they are."""
        if not is_keyed(bags.feature):
            return bags
        keys, pad = self._executor.model.key_set(bags.feature["keys"]), pad_of(bags.feature)
        rows, padding = keys.find(bags.ids), keys.pad_row(pad)
        if pad is not None:
            rows[bags.ids == pad] = padding
        return Bags({**bags.feature, "pad_id": padding}, rows, bags.offsets, bags.weights)

    def gather(self, table, ids):
        """Table rows, float32."""
        model = self._executor.model
        info = next(t for t in model.tables if t["name"] == table)
        if len(ids) == 0:
            return np.zeros((0, info["dim"]), np.float32)
        return model.gather(table, model.key_set(info["keys"]).stored(ids) if "keys" in info else ids)
