"""A batch of rows as FORMAT.md part 10 arranges it (and of dpi_batch)."""

from dataclasses import dataclass
from typing import Optional

import numpy as np

from ..errors import BundleError
from ..schema import Schema, get, is_slot

_TYPES = {"dense": "<f4", "ids": "<i8", "offsets": "<i8", "weights": "<f4", "shared_offsets": "<i8",
          "shared_dense": "<f4", "shared_ids": "<i8", "shared_bag_offsets": "<i8", "shared_weights": "<f4"}


@dataclass
class Rows:
    """dense [rows, columns]; ids [nnz], offsets [rows * slots + 1], weights [nnz] or None. With a shared part these hold
    item features only; shared_offsets [shared_rows + 1] maps consecutive item rows to shared rows and shared_* hold the rest.
    """

    dense: Optional[np.ndarray] = None
    ids: Optional[np.ndarray] = None
    offsets: Optional[np.ndarray] = None
    weights: Optional[np.ndarray] = None
    shared_offsets: Optional[np.ndarray] = None
    shared_dense: Optional[np.ndarray] = None
    shared_ids: Optional[np.ndarray] = None
    shared_bag_offsets: Optional[np.ndarray] = None
    shared_weights: Optional[np.ndarray] = None
    n: Optional[int] = None  #: item rows; worked out when the arrays tell

    def __post_init__(self):
        for key, dtype in _TYPES.items():
            value = getattr(self, key)
            if value is not None:
                value = value.detach().cpu().numpy() if hasattr(value, "detach") else np.asarray(value)
                setattr(self, key, np.ascontiguousarray(value, dtype=dtype))

    @property
    def shared_rows(self):
        """Number of shared rows, 0 without a shared part."""
        return 0 if self.shared_offsets is None else len(self.shared_offsets) - 1

    def count(self, schema):
        """Number of item rows."""
        if self.n is not None:
            return self.n
        if self.shared_offsets is not None:
            return int(self.shared_offsets[-1])
        if self.dense is not None:
            return len(self.dense)
        slots = len(schema.slots())
        if self.offsets is not None and slots:
            return (len(self.offsets) - 1) // slots
        raise BundleError("these rows state no number: give n=")

    @classmethod
    def from_columns(cls, features, columns, weights=None, shared_counts=None):
        """Rows from {feature: column}. `features`: a list of feature dicts, a Builder or a Bundle.

        A categorical column is a list of ids (None = no id); a sequence column a list of lists, or an array [rows, T];
        numeric [rows] or dense [rows, dim] floats (None = NaN). `weights`: {sequence: list of lists} beside the ids.
        `shared_counts` makes a shared part: item rows of each shared row; shared features then have one entry per shared row.
        """
        schema = Schema(getattr(features, "features", features))
        unknown = set(columns) - set(schema.by_name)
        if unknown:
            raise BundleError(f"column '{sorted(unknown)[0]}' is not a feature")
        if shared_counts is None:
            dense, ids, offsets, w, n = _pack(schema, "all", columns, weights or {}, None)
            return cls(dense, ids, offsets, w, n=n)
        shared_offsets = np.concatenate([[0], np.cumsum(np.asarray(shared_counts, dtype=np.int64))])
        dense, ids, offsets, w, _ = _pack(schema, "item", columns, weights or {}, int(shared_offsets[-1]))
        s_dense, s_ids, s_bags, s_w, _ = _pack(schema, "shared", columns, weights or {}, len(shared_counts))
        return cls(dense, ids, offsets, w, shared_offsets, s_dense, s_ids, s_bags, s_w, n=int(shared_offsets[-1]))


def _bag(value):
    if value is None or (isinstance(value, float) and value != value):
        return ()
    if hasattr(value, "tolist"):
        value = value.tolist()
    return value if isinstance(value, (list, tuple)) else (value,)


def _float_column(name, column, n_rows, width):
    if isinstance(column, (list, tuple)):
        column = [np.nan if v is None else v for v in column]
    out = np.asarray(column, dtype=np.float64)
    if out.size != n_rows * width:
        raise BundleError(f"column '{name}': {out.size} values, expected {n_rows} rows of {width}")
    return out.reshape(n_rows, width)


def _pack(schema, part, columns, weights, n_rows):
    members = [f for f in schema.features if part == "all" or get(f, "space") == part]
    for f in members:
        if f["name"] not in columns:
            raise BundleError(f"feature '{f['name']}' has no column")
        have = len(columns[f["name"]])
        n_rows = have if n_rows is None else n_rows
        if have != n_rows:
            raise BundleError(f"column '{f['name']}' has {have} rows, expected {n_rows}")
    if n_rows is None:
        raise BundleError("there are no features to take rows from")
    dense = None
    if schema.n_columns(part):
        dense = np.empty((n_rows, schema.n_columns(part)), dtype=np.float32)
        for name, (at, width) in schema.columns(part).items():
            dense[:, at:at + width] = _float_column(name, columns[name], n_rows, width)
    slots = [f for f in members if is_slot(f)]
    if not slots:
        return dense, None, None, None, n_rows
    bags = [[_bag(v) for v in columns[f["name"]]] for f in slots]
    lengths = np.array([[len(b) for b in column] for column in bags], dtype=np.int64).reshape(len(slots), n_rows)
    offsets = np.concatenate([[0], np.cumsum(lengths.T.reshape(-1))])
    ids = np.array([i for row in zip(*bags) for bag in row for i in bag], dtype=np.int64)
    return dense, ids, offsets, _pack_weights(slots, bags, weights, n_rows), n_rows


def _pack_weights(slots, bags, weights, n_rows):
    if not any(f["name"] in weights for f in slots):
        return None
    flat = []
    for row in range(n_rows):
        for f, column in zip(slots, bags):
            given = weights.get(f["name"])
            bag = column[row]
            w = [1.0] * len(bag) if given is None else list(given[row])
            if len(w) != len(bag):
                raise BundleError(f"weights of '{f['name']}', row {row}: {len(w)} weights for {len(bag)} ids")
            flat += w
    return np.array(flat, dtype=np.float32)
