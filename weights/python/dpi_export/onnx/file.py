"""Reads ONNX files that nobody vouches for: every size is checked before it is believed, and weights that lie in files of their own are
read from the model's folder only."""

import math
import os
import stat

import numpy as np

from ..errors import UnsupportedModelError

#: Protocol buffers end here; larger models keep their weights in files of their own.
MAX_FILE_BYTES = 1 << 31
#: Element types by ONNX's number. bfloat16 is read as its bits.
TYPES = {1: np.float32, 2: np.uint8, 3: np.int8, 4: np.uint16, 5: np.int16, 6: np.int32, 7: np.int64, 9: np.bool_, 10: np.float16,
         11: np.float64, 12: np.uint32, 13: np.uint64, 16: np.uint16}
BFLOAT16 = 16
#: Which repeated field of a TensorProto holds the entries where there are no raw bytes.
_FIELDS = {1: "float_data", 7: "int64_data", 11: "double_data", 12: "uint64_data", 13: "uint64_data"}


def read_model(source):
    """(ModelProto, its folder or None) of a path, of bytes, or of a ModelProto itself."""
    import onnx

    if isinstance(source, onnx.ModelProto):
        return _checked(source, "the ONNX model"), None
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _parsed(bytes(source), "the ONNX model"), None
    path = os.fspath(source)
    with open(path, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise UnsupportedModelError(f"{path}: is no regular file")
        if status.st_size >= MAX_FILE_BYTES:
            raise UnsupportedModelError(f"{path}: has {status.st_size} bytes, and an ONNX file ends at {MAX_FILE_BYTES}: save it with its "
                                        "weights as external data")
        return _parsed(file.read(MAX_FILE_BYTES), path), os.path.dirname(os.path.abspath(path))


def _parsed(data, what):
    import onnx

    try:
        model = onnx.load_model_from_string(data)
    except Exception as e:  # protobuf's own classes differ from version to version
        raise UnsupportedModelError(f"{what}: is no ONNX model: {type(e).__name__}") from e
    return _checked(model, what)


def _checked(model, what):
    if not model.HasField("graph") or not model.graph.output:
        raise UnsupportedModelError(f"{what}: is no ONNX model: it has no graph with outputs")
    return model


def element_type(number, what):
    """NumPy's type of an ONNX element type."""
    if number not in TYPES:
        raise UnsupportedModelError(f"{what}: elements of type {number} (strings, complex numbers, 8-bit floats and 4-bit integers are "
                                    "among those) have no place in a bundle")
    return np.dtype(TYPES[number])


def read_tensor(tensor, folder, what):
    """A TensorProto as an array; `what` names it in messages. bfloat16 becomes float32, which holds it exactly."""
    dtype, dims = element_type(tensor.data_type, what), [int(d) for d in tensor.dims]
    if any(d < 0 for d in dims):
        raise UnsupportedModelError(f"{what}: has dims {dims}")
    if tensor.HasField("segment"):
        raise UnsupportedModelError(f"{what}: is cut into segments")
    count = math.prod(dims)
    if tensor.data_location == 1:
        flat = _external(tensor, folder, dtype, count, what)
    elif tensor.HasField("raw_data"):
        _check_size(len(tensor.raw_data), count * dtype.itemsize, dims, what)
        flat = np.frombuffer(tensor.raw_data, dtype.newbyteorder("<")).astype(dtype)
    else:
        flat = _entries(tensor, dtype, count, dims, what)
    if tensor.data_type == BFLOAT16:
        flat = (flat.astype(np.uint32) << 16).view(np.float32)
    return flat.reshape(dims)


def _check_size(have, want, dims, what):
    if have != want:
        raise UnsupportedModelError(f"{what}: holds {have} bytes, its dims {dims} want {want}")


def _entries(tensor, dtype, count, dims, what):
    field = getattr(tensor, _FIELDS.get(tensor.data_type, "int32_data"))
    if len(field) != count:
        raise UnsupportedModelError(f"{what}: holds {len(field)} entries, its dims {dims} want {count}")
    if tensor.data_type == 10:  # the bits of half floats
        return np.array(field, np.int64).astype(np.uint16).view(np.float16)
    return np.array(field, np.int64 if field and isinstance(field[0], int) and dtype != np.uint64 else dtype).astype(dtype)


def _external(tensor, folder, dtype, count, what):
    """Entries in a file beside the model, mapped and not copied."""
    given = {entry.key: entry.value for entry in tensor.external_data}
    path = external_path(tensor, folder, what)
    offset, length = (_number(given.get(key), what, key) for key in ("offset", "length"))
    offset = offset or 0
    if not os.path.isfile(path):
        raise UnsupportedModelError(f"{what}: its file '{given['location']}' is missing, or no regular file")
    size, want = os.path.getsize(path), count * dtype.itemsize
    if length is not None:
        _check_size(length, want, list(tensor.dims), what)
    if offset + want > size:
        raise UnsupportedModelError(f"{what}: wants bytes {offset} to {offset + want} of '{given['location']}', which has {size}")
    if not want:
        return np.zeros(0, dtype)
    return np.memmap(path, dtype.newbyteorder("<"), "c", offset, (count,)).view(np.ndarray).astype(dtype, copy=False)


def external_path(tensor, folder, what):
    """The path of a weight's own file, which must lie in the model's folder or below it, after links are followed."""
    location = next((entry.value for entry in tensor.external_data if entry.key == "location"), "")
    if folder is None:
        raise UnsupportedModelError(f"{what}: lies in a file of its own: give the path of the model, not its bytes")
    parts = location.replace("\\", "/").split("/")
    if not location or "\0" in location or os.path.isabs(location) or ".." in parts or ":" in parts[0]:
        raise UnsupportedModelError(f"{what}: its file '{location}' is not in the model's folder")
    root = os.path.realpath(folder)
    path = os.path.realpath(os.path.join(root, location))
    if os.path.commonpath([root, path]) != root:
        raise UnsupportedModelError(f"{what}: its file '{location}' is not in the model's folder")
    return path


def _number(text, what, key):
    if text is None or text == "":
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise UnsupportedModelError(f"{what}: its {key} is '{text[:40]}'")
    return int(text)
