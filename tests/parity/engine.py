"""The engine through its C API (capi/include/dpi/dpi.h) with ctypes: load a bundle, score Rows."""

import ctypes as c
import os
from pathlib import Path

import numpy as np

_P = c.c_void_p


class Error(c.Structure):
    _fields_ = [("struct_size", c.c_uint32), ("code", c.c_int32), ("row", c.c_int64), ("feature", c.c_int64),
                ("native_code", c.c_int32), ("in_shared", c.c_uint32), ("message", c.c_char * 480)]


class Batch(c.Structure):
    _fields_ = [("struct_size", c.c_uint32), ("flags", c.c_uint32), ("rows", c.c_int64), ("dense", _P),
                ("dense_stride", c.c_int64), ("ids", _P), ("offsets", _P), ("weights", _P), ("nnz", c.c_int64),
                ("layout", c.c_int32), ("memory", c.c_int32), ("shared_rows", c.c_int64), ("shared_offsets", _P),
                ("shared_dense", _P), ("shared_dense_stride", c.c_int64), ("shared_ids", _P), ("shared_bag_offsets", _P),
                ("shared_weights", _P), ("shared_nnz", c.c_int64)]


class RunOptions(c.Structure):
    _fields_ = [("struct_size", c.c_uint32), ("flags", c.c_uint32), ("deadline_ns", c.c_uint64), ("cancel", _P),
                ("logits", _P), ("logits_len", c.c_size_t), ("version", _P)]


class EngineError(RuntimeError):
    """What the engine answered: code, row and text."""

    def __init__(self, error):
        super().__init__(f"status {error.code}: {error.message.decode(errors='replace')}")
        self.code, self.row, self.feature = error.code, error.row, error.feature


def find_library():
    """DPI_LIBRARY, or libdpi.so.1 of the release build; None when there is none."""
    if os.environ.get("DPI_LIBRARY"):
        return os.environ["DPI_LIBRARY"]
    built = Path(__file__).resolve().parents[2] / "build" / "release" / "lib" / "libdpi.so.1"
    return str(built) if built.exists() else None


class Engine:
    """The loaded library."""

    def __init__(self, path):
        self.lib = c.CDLL(path)
        for name, result, arguments in (
                ("dpi_options_create", _P, []), ("dpi_options_free", None, [_P]), ("dpi_model_free", None, [_P]),
                ("dpi_options_set", c.c_int32, [_P, c.c_char_p, c.c_char_p, _P]),
                ("dpi_model_load", c.c_int32, [c.c_char_p, _P, _P, _P]),
                ("dpi_predict", c.c_int32, [_P, _P, _P, c.c_size_t, _P, _P]),
                ("dpi_model_feature_index", c.c_int32, [_P, c.c_char_p]), ("dpi_rows_free", None, [_P]),
                ("dpi_rows_create", c.c_int32, [_P, _P, _P]), ("dpi_rows_begin", c.c_int32, [_P, _P]),
                ("dpi_rows_set_text", c.c_int32, [_P, c.c_int32, c.c_char_p, c.c_int64, _P]),
                ("dpi_rows_predict", c.c_int32, [_P, _P, c.c_size_t, _P, _P])):
            function = getattr(self.lib, name)
            function.restype, function.argtypes = result, arguments

    def load(self, path, **options):
        """A Model; options as in the header (device="ref")."""
        return Model(self.lib, str(path), options)


class Model:
    """A loaded bundle. Use as a context manager."""

    def __init__(self, lib, path, options):
        self.lib, self.handle = lib, _P()
        held = lib.dpi_options_create()
        try:
            for key, value in options.items():
                self._call(lib.dpi_options_set, held, key.encode(), str(value).encode())
            self._call(lib.dpi_model_load, path.encode(), held, c.byref(self.handle))
        finally:
            lib.dpi_options_free(held)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.lib.dpi_model_free(self.handle)
        self.handle = _P()

    def _call(self, function, *arguments):
        error = Error(struct_size=c.sizeof(Error))
        if function(*arguments, c.byref(error)) != 0:
            raise EngineError(error)

    def predict(self, rows, n, heads=1):
        """(values, logits) [n, heads] of a Rows, with its shared part if it has one. Outputs are NaN-prefilled."""
        held = {key: getattr(rows, key) for key in ("dense", "ids", "offsets", "weights", "shared_offsets", "shared_dense",
                                                    "shared_ids", "shared_bag_offsets", "shared_weights")}
        sizes = {"nnz": 0 if rows.ids is None else rows.ids.size, "shared_rows": rows.shared_rows,
                 "shared_nnz": 0 if rows.shared_ids is None else rows.shared_ids.size}
        for key in ("ids", "shared_ids"):
            if held[key] is not None and not held[key].size:  # an empty array's address may be anything, but not null
                held[key] = np.zeros(1, np.int64)
        pointers = {k: None if v is None else v.ctypes.data for k, v in held.items()}
        batch = Batch(struct_size=c.sizeof(Batch), rows=n, **sizes, **pointers)
        values, logits = (np.full((n, heads), np.nan, np.float32) for _ in range(2))
        run = RunOptions(struct_size=c.sizeof(RunOptions), logits=logits.ctypes.data, logits_len=logits.size)
        self._call(self.lib.dpi_predict, self.handle, c.byref(batch), values.ctypes.data, values.size, c.byref(run))
        return values.astype(np.float64), logits.astype(np.float64)

    def predict_texts(self, columns, heads=1):
        """Values [n, heads] of raw cells {feature: texts, or lists of texts}: the bundle's encoders read them."""
        rows, n = _P(), len(next(iter(columns.values())))
        self._call(self.lib.dpi_rows_create, self.handle, c.byref(rows))
        try:
            for row in range(n):
                self._call(self.lib.dpi_rows_begin, rows)
                for name, cells in columns.items():
                    feature = self.lib.dpi_model_feature_index(self.handle, name.encode())
                    for text in cells[row] if isinstance(cells[row], list) else [cells[row]]:
                        self._call(self.lib.dpi_rows_set_text, rows, feature, text.encode(), -1)
            values = np.full((n, heads), np.nan, np.float32)
            self._call(self.lib.dpi_rows_predict, rows, values.ctypes.data, values.size, None)
        finally:
            self.lib.dpi_rows_free(rows)
        return values.astype(np.float64)
