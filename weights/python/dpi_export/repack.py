"""repack: turns an HDF5 file with a bundle's contents (edited with h5py, chunked, compressed, or a bundle of an older format) into a
bundle. HDF5's library reads it in a process that can do nothing else (confined_reader.py); what that process sends is numbers, checked
here like any input from outside."""

import json
import math
import os
import re
import select
import signal
import struct
import subprocess
import sys

import numpy as np

from .errors import DATASET, BundleError, table_path
from .golden import check_golden
from .hdf5_structures import GROUPS, MAX_LINKS, MAX_MANIFEST
from .signing import add_signature, read_signing_key
from .tables import STORED
from .writer import ProfileFile, seal

MEMORY, SILENCE = 4 << 30, 120  # bytes for the reading process; seconds without a byte from it
_NUMBERS = re.compile(r"[<|][biuf][1248]\Z")
_PROFILE = {np.dtype(t) for t in ("u1", "i1", "<u2", "<i8", "<u8", "<f4")}
_ENCODER_TYPES = {"bytes": "u1", "offsets": "<u8", "ids": "<i8", "keys": "<i8"}
_GOLDEN_IDS = ("ids", "offsets", "shared_offsets", "shared_ids", "shared_bag_offsets", "raw_cells", "raw_texts")


class _Reader:
    """The reading process, and what comes from it."""

    def __init__(self, path):
        self.path, self.size = path, os.path.getsize(path)
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "confined_reader.py")
        seconds = 60 + self.size // (4 << 20)
        with open(path, "rb") as source:
            self._process = subprocess.Popen([sys.executable, "-I", script, str(MEMORY), str(seconds)], stdin=source,
                                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={"PATH": os.defpath})
        self._out = self._process.stdout.fileno()
        self.left = 0  # bytes that may still come

    def close(self):
        self._process.kill()
        self._process.communicate()

    def blocks(self, n):
        """`n` bytes, in blocks."""
        self.left -= n
        if self.left < 0:
            raise BundleError(f"{self.path}: unpacks to more than the limit; repack(limit=...) or --limit allows more")
        while n:
            ready, _, _ = select.select([self._out], [], [], SILENCE)
            data = os.read(self._out, min(n, 1 << 20)) if ready else b""
            if not data:
                raise BundleError(f"{self.path}: {self._end() if ready else f'nothing read for {SILENCE} seconds'}")
            n -= len(data)
            yield data

    def take(self, n):
        return b"".join(self.blocks(n))

    def _end(self):
        _, text = self._process.communicate()
        code = self._process.returncode
        if code < 0:
            return f"HDF5's library cannot read it: signal {signal.Signals(-code).name}"
        last = text.decode("utf-8", "replace").strip().splitlines()
        return "cannot be read: " + "".join(c if c.isprintable() else "?" for c in (last or ["the reading process ended"])[-1][:500])


def _check_index(sets):
    """Names and types, before anything is written."""
    for s in sets:
        path, dtype, shape = s["path"], s["dtype"], s["shape"]
        group, _, name = path[1:].rpartition("/")
        if path != "/manifest" and (group not in GROUPS or not DATASET.match(name)):
            raise BundleError(f"{path[:300]!r}: is not part of a bundle (/manifest, /tables, /params, /encoders, /golden)")
        good = _NUMBERS.match(dtype) and 1 <= len(shape) <= 8 or dtype == "text" and path == "/manifest"
        if not good or not all(isinstance(d, int) and 0 <= d < 2**63 for d in shape):
            raise BundleError(f"{path}: {dtype} of shape {shape} is outside the profile, expected an array of integers or floats")
    paths = [s["path"] for s in sets]
    if len(set(paths)) != len(paths) or len(paths) > MAX_LINKS or paths[:1] != ["/manifest"]:
        raise BundleError("has no /manifest, or a data set twice")


def _expected(manifest):
    """path -> the type that the manifest asks for."""
    out = {"/manifest": "u1"}
    for t in manifest.get("tables", []):
        out[table_path(t)] = STORED.get(t.get("dtype"))
        if "scale" in t:
            out[t["scale"]] = "<f4"
    for feature in manifest.get("features", []):
        for step in (feature.get("encoder") or {}).get("steps", []):
            out.update({step[k]: kind for k, kind in _ENCODER_TYPES.items() if isinstance(step.get(k), str)})
    return out


def _target(path, dtype, expected):
    want = expected.get(path)
    if want is None and path.startswith("/params/"):
        want = "<f4"
    if want is None and path.startswith("/golden/"):
        want = "<i8" if path[len("/golden/"):] in _GOLDEN_IDS else "<f4" if dtype.kind == "f" else None
    want = np.dtype(want if want is not None else dtype)
    if want not in _PROFILE:
        raise BundleError(f"{path}: element type {dtype} is outside the profile, and the manifest asks for no other")
    return want


def _converted(path, block, want):
    """The block as `want`, every value kept: floats may be rounded to f32, half floats become their bits."""
    if block.dtype == np.float16 and want == np.uint16:
        return block.view("<u2")
    with np.errstate(all="ignore"):
        out = block.astype(want)
    if want.kind == "f" and block.dtype.kind == "f":
        same = np.isfinite(out) == np.isfinite(block)
    else:
        same = (out.astype(block.dtype) == block) & ((out < 0) == (block < 0))
    if not np.all(same):
        raise BundleError(f"{path}: {block[~same].flat[0]} cannot be stored as {want}")
    return out


def _copy_set(reader, out, s, want):
    dtype, shape = np.dtype(s["dtype"]), s["shape"]
    out.create(s["path"], shape, want)
    row = math.prod(shape[1:]) * dtype.itemsize
    step, at = max(1, (4 << 20) // max(row, 1)), 0
    while row and at < shape[0]:
        n = min(step, shape[0] - at)
        block = np.frombuffer(reader.take(n * row), dtype).reshape(n, *shape[1:])
        out.append(s["path"], _converted(s["path"], block, want))
        at += n


def _manifest_bytes(data):
    """The text as it is, but for the version of a format that came before the first release."""
    try:
        manifest = json.loads(data.decode())
    except (ValueError, RecursionError) as e:
        raise BundleError(f"/manifest: not UTF-8 JSON: {e}") from None
    if not isinstance(manifest, dict):
        raise BundleError("/manifest: not a JSON object")
    if manifest.get("version") == [1, 0]:
        manifest["version"] = [2, 0]
        data = json.dumps(manifest, ensure_ascii=False, separators=(",", ":")).encode()
    return manifest, data


def _read_manifest(reader, s):
    size = struct.unpack("<Q", reader.take(8))[0] if s["dtype"] == "text" else math.prod(s["shape"]) * np.dtype(s["dtype"]).itemsize
    if size > MAX_MANIFEST:
        raise BundleError("/manifest: is larger than 256 MiB")
    return reader.take(size)


def _repack(reader, part, limit):
    reader.left = MAX_MANIFEST
    index = json.loads(reader.take(struct.unpack("<I", reader.take(4))[0]))
    _check_index(index["sets"])
    reader.left = limit
    first, *rest = index["sets"]
    manifest, text = _manifest_bytes(_read_manifest(reader, first))
    expected = _expected(manifest)
    out = ProfileFile(part, sum(1 for s in rest if math.prod(s["shape"])))
    try:
        out.put("/manifest", np.frombuffer(text, "u1"))
        for s in rest:
            _copy_set(reader, out, s, _target(s["path"], np.dtype(s["dtype"]), expected))
    finally:
        extents = out.close()
    seal(part, out.u, extents)
    return index["confined"]


def repack(source, target, limit=None, check=True, sign=None):
    """Writes the contents of the HDF5 file `source` as a bundle to `target`; returns whether the reading process was confined by a
    filter of system calls (limits of memory and time it always has). `limit`: bytes that the data may unpack to, by default
    64 times the file and 1 GiB. `check`: recompute the golden rows. `sign`: a key file."""
    source, target = os.fspath(source), os.fspath(target)
    key, part = None if sign is None else read_signing_key(sign), target + ".part"
    try:
        reader = _Reader(source)
    except OSError as e:
        raise BundleError(f"{source}: {e.strerror}") from None
    try:
        confined = _repack(reader, part, 64 * reader.size + (1 << 30) if limit is None else limit)
        check_golden(part, rows=check)
        if key:
            add_signature(part, key)
        os.replace(part, target)
    except BundleError as e:
        raise BundleError(str(e) if str(e).startswith(source) else f"{source}: {e}") from None
    except (KeyError, TypeError, AttributeError, ValueError, IndexError, OverflowError) as e:
        raise BundleError(f"{source}: its contents are malformed: {type(e).__name__}: {e}") from None
    finally:
        reader.close()
        if os.path.exists(part):
            os.remove(part)
    return confined
