"""Run by repack.py as a program of its own: reads the HDF5 file that is open as standard input with HDF5's library, and writes its data
sets to standard output as plain numbers. Confined before it looks at the first byte, because that library's release 1.10.8 can be
made to read and write where it should not.

    python3 -I confined_reader.py MEMORY_BYTES SECONDS <FILE

Output: u32 length, JSON {"confined": bool, "sets": [{"path", "dtype", "shape"}]}, then each set's elements, little-endian, in order.
dtype is numpy's text, "text" for a string (u64 length before its bytes), "other" for what is not sent."""

import io
import json
import os
import struct
import sys

import h5py
import numpy as np

sys.path.append(os.path.dirname(os.path.abspath(__file__)))
import confine  # noqa: E402

BLOCK = 4 << 20
LARGEST_CHUNK = 256 << 20


def entries(file):
    """Data sets of the root and of its groups, /manifest first; what else there is, too."""
    if "manifest" in file:
        yield "/manifest", file["manifest"]
    for name in file:
        if name == "manifest":
            continue
        item = file[name]
        if isinstance(item, h5py.Group):
            yield from ((f"/{name}/{member}", item[member]) for member in item)
        else:
            yield f"/{name}", item


def kind(item):
    if not isinstance(item, h5py.Dataset) or item.shape is None:
        return "other"
    if item.dtype.kind in "biuf":
        return item.dtype.newbyteorder("<").str
    is_text = item.shape == () and (item.dtype.kind == "S" or h5py.check_string_dtype(item.dtype))
    return "text" if is_text else "other"


def send(data):
    data = memoryview(data).cast("B")
    while len(data):
        data = data[os.write(1, data):]


def send_set(item):
    """Blocks of rows; of a chunked set whole chunks, so that none is unpacked twice."""
    row = item.dtype.itemsize * int(np.prod(item.shape[1:], dtype=np.int64))
    step = max(1, BLOCK // max(row, 1))
    if item.chunks and item.chunks[0] * row <= LARGEST_CHUNK:
        step = -(-step // item.chunks[0]) * item.chunks[0]
    for at in range(0, item.shape[0], step):
        block = np.ascontiguousarray(item[at:at + step])
        send(block.astype(block.dtype.newbyteorder("<"), copy=False).view("u1").data if block.size else b"")


def send_all(file, confined):
    items = [(path, item, kind(item)) for path, item in entries(file)]
    index = [{"path": path, "dtype": what, "shape": list(getattr(item, "shape", None) or [])} for path, item, what in items]
    text = json.dumps({"confined": confined, "sets": index}).encode()
    send(struct.pack("<I", len(text)) + text)
    for _, item, what in items:
        if what == "text":
            value = item[()]
            value = value if isinstance(value, bytes) else str(value).encode()
            send(struct.pack("<Q", len(value)) + value)
        elif what != "other" and item.shape:
            send_set(item)
        elif what != "other":
            send(np.asarray(item[()]).astype(item.dtype.newbyteorder("<")).tobytes())


def rehearse():
    """Does all of the above once with a file made here: what Python and HDF5 load when they are first used is then there."""
    made = io.BytesIO()
    with h5py.File(made, "w") as f:
        f.create_dataset("a/b", data=np.arange(8, dtype=">i8"), chunks=(2,), compression="gzip", shuffle=True, fletcher32=True)
        f.create_dataset("a/c", data=np.ones((2, 2), "f2"), chunks=(1, 2), compression="lzf")
        f.create_dataset("manifest", data="text")
    keep, sink = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)
    with h5py.File(made, "r") as f:
        send_all(f, False)
        try:
            f["none"]
        except KeyError as e:
            str(e)
    os.dup2(keep, 1)
    os.close(keep)
    os.close(sink)


def main():
    rehearse()
    source = os.fdopen(0, "rb", buffering=0)
    confine.limit(int(sys.argv[1]), int(sys.argv[2]))
    confined = confine.refuse_system_calls()
    try:
        with h5py.File(source, "r", rdcc_nbytes=LARGEST_CHUNK) as f:
            send_all(f, confined)
    except (OSError, KeyError, ValueError, TypeError, RuntimeError, MemoryError) as e:
        os.write(2, f"{type(e).__name__}: {e}".encode()[:2000])
        os._exit(1)
    os._exit(0)


main()
