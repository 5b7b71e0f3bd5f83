"""What a model tells of itself: the library's structs as immutable Python objects."""

import struct
from typing import Any, NamedTuple, Tuple

from . import _native

CATEGORICAL, SEQUENCE, NUMERIC, DENSE = "categorical", "sequence", "numeric", "dense"
_KINDS = {_native.DPI_FEATURE_CATEGORICAL: CATEGORICAL, _native.DPI_FEATURE_SEQUENCE: SEQUENCE,
          _native.DPI_FEATURE_NUMERIC: NUMERIC, _native.DPI_FEATURE_DENSE: DENSE}
_DEVICES = {_native.DPI_DEVICE_REF: "ref", _native.DPI_DEVICE_CPU: "cpu", _native.DPI_DEVICE_CUDA: "cuda"}


class Feature(NamedTuple):
    """One input of a model."""

    name: str
    index: int  #: in the schema
    kind: str  #: "categorical", "sequence", "numeric" or "dense"
    shared: bool  #: belongs to the shared (user) part
    slot: int  #: of a batch without shared part; -1 for numeric and dense
    part_slot: int  #: within its own part of a batch that has a shared part
    dense_column: int  #: first column; -1 for categorical and sequence
    part_column: int  #: likewise within its part
    dim: int  #: floats of a dense feature, else 1
    vocab_size: int  #: valid ids are 0 .. vocab_size-1; 0 of an id feature: ids are keys, any int64
    max_len: int  #: of a sequence: longer bags are cut; 0 = unlimited
    has_encoder: bool  #: raw values can be given
    weighted: bool


class Info(NamedTuple):
    """Sizes of a model. slots and dense_dim are of a batch without shared part, item_* and shared_* of one with it."""

    features: int
    slots: int  #: id features
    dense_dim: int  #: floats per row
    item_slots: int
    shared_slots: int
    item_dense_dim: int
    shared_dense_dim: int
    heads: int  #: scores per row
    device: str  #: what runs, after any fallback: "ref", "cpu", "cuda", "other"
    device_index: int
    max_rows: int  #: rows per internal chunk
    host_bytes: int  #: tables and weights
    device_bytes: int
    content_digest: int  #: changes with any byte of the bundle
    version: int  #: of the content as it is served: 1 after loading


class Struct:
    """A struct of the C API in memory of our own, read by the offsets that the compiler gave."""

    def __init__(self, name: str) -> None:
        self._name, self.memory = name, bytearray(getattr(_native, f"SIZEOF_{name}"))
        struct.pack_into("=I", self.memory, 0, len(self.memory))

    def get(self, field: str, code: str = "i") -> Any:
        """A field of the struct-module type `code`."""
        return struct.unpack_from("=" + code, self.memory, getattr(_native, f"OFFSET_{self._name}_{field}"))[0]


def read_info(model: int) -> Info:
    """Info of the model at this address."""
    s = Struct("dpi_model_info")
    _native.dpi_model_get_info(model, s.memory)
    ints = ("num_features", "num_slots", "dense_dim", "num_item_slots", "num_shared_slots", "item_dense_dim", "shared_dense_dim",
            "num_heads")
    return Info(*(s.get(f) for f in ints), _DEVICES.get(s.get("device_kind"), "other"), s.get("device_index"), s.get("max_rows", "q"),
                *(s.get(f, "Q") for f in ("host_bytes", "device_bytes", "content_digest", "version")))


def read_features(model: int, count: int) -> Tuple[Feature, ...]:
    """All features of the model at this address."""
    s, found = Struct("dpi_feature_info"), []
    for i in range(count):
        _native.dpi_model_get_feature(model, i, s.memory)
        found.append(Feature(_native.dpi_model_feature_name(model, i), i, _KINDS.get(s.get("kind"), "unknown"), bool(s.get("shared")),
                             *(s.get(f) for f in ("slot", "part_slot", "dense_column", "part_column", "dim")),
                             s.get("vocab_size", "q"), s.get("max_len", "q"), bool(s.get("has_encoder")), bool(s.get("weighted"))))
    return tuple(found)
