"""repack: turns an HDF5 file with a bundle's contents (edited with h5py, chunked, compressed, or a bundle of an older format) into a
bundle. HDF5's library reads it in a process that can do nothing else (confined_reader.py); what that process sends is numbers, checked
here like any input from outside. The result is written in a process of its own too: after a write that failed, as on a full disk,
HDF5's library ends its process by a crash."""

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

from ..errors import DATASET, BundleError, table_path
from .engine_check import ENGINE, check_engine, check_kind
from .golden_check import check_golden
from .hdf5_structures import GROUPS, MAX_LINKS, MAX_MANIFEST
from .signing import add_signature, read_signing_key
from .row_types import ROW_TYPES
from .tables import STORED
from .writer import ProfileFile, seal

_TOO_MUCH = "more than the limit; repack(limit=...) or --limit allows more"
# What the writing process runs. It ends without a word of HDF5's library.
_PROCESS = """
import json, os, sys
sys.path[:], *call = json.loads(sys.argv[1])
from dpi_export.errors import BundleError
from dpi_export.bundle.repack import unpack
try:
    answer = {"confined": unpack(*call)}
except BundleError as e:
    answer = {"error": str(e)}
os.write(1, json.dumps(answer).encode())
os._exit(0)
"""
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
            self._process = subprocess.Popen([sys.executable, "-I", "-B", script, str(MEMORY), str(seconds)], stdin=source,
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
            raise BundleError(f"{self.path}: unpacks to {_TOO_MUCH}")
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
    """path -> the type that the manifest asks for; the paths of float keys, which are stored as their bit patterns."""
    out, floats = {"/manifest": "u1"}, set()
    for s in manifest.get("key_sets", []):
        out[s.get("data")] = "<i8"
    for t in manifest.get("tables", []):
        if t.get("external"):
            continue
        out[table_path(t)] = STORED.get(t.get("dtype"))
        if t.get("dtype") in ROW_TYPES:
            out.update({t.get(role): stored for role, stored in ROW_TYPES[t["dtype"]].scalars.items()})
    for feature in manifest.get("features", []):
        for step in (feature.get("encoder") or {}).get("steps", []):
            out.update({step[k]: kind for k, kind in _ENCODER_TYPES.items() if isinstance(step.get(k), str)})
            if step.get("op") == "vocab_float":
                floats.add(step.get("keys"))
    return out, floats


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


def _float_bits(path, block):
    """Keys of vocab_float: the bit patterns of float64, from floats of any width or from the patterns themselves."""
    if block.dtype.kind == "f":
        return (block.astype("<f8") + 0.0).view("<i8")  # -0 becomes 0
    if block.dtype.itemsize != 8:
        raise BundleError(f"{path}: keys of vocab_float are {block.dtype}, expected floats or the bit patterns of float64")
    return block.view("<i8")


def _copy_set(reader, out, s, want, floats):
    dtype, shape = np.dtype(s["dtype"]), s["shape"]
    out.create(s["path"], shape, want)
    row = math.prod(shape[1:]) * dtype.itemsize
    step, at = max(1, (4 << 20) // max(row, 1)), 0
    while row and at < shape[0]:
        n = min(step, shape[0] - at)
        block = np.frombuffer(reader.take(n * row), dtype).reshape(n, *shape[1:])
        out.append(s["path"], _float_bits(s["path"], block) if s["path"] in floats else _converted(s["path"], block, want))
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


def _minor(manifest):
    """What the manifest says, which the reader compares; 0 where it says nothing that could be."""
    version = manifest.get("version")
    good = isinstance(version, list) and len(version) == 2 and isinstance(version[1], int) and 0 <= version[1] < 2**32
    return version[1] if good else 0


def _read_manifest(reader, s):
    size = struct.unpack("<Q", reader.take(8))[0] if s["dtype"] == "text" else math.prod(s["shape"]) * np.dtype(s["dtype"]).itemsize
    if size > MAX_MANIFEST:
        raise BundleError("/manifest: is larger than 256 MiB")
    return reader.take(size)


def _check_size(sets, wants, limit):
    """Before a byte of room is taken: a file may declare what it does not hold."""
    sizes = [math.prod(s["shape"]) * max(np.dtype(s["dtype"]).itemsize, want.itemsize) for s, want in zip(sets, wants)]
    if sum(sizes) > limit:
        largest = max(zip(sizes, (s["path"] for s in sets)))
        raise BundleError(f"{largest[1]}: {largest[0]} bytes, and {sum(sizes)} in all, {_TOO_MUCH}")


def _write(reader, part, limit):
    reader.left = MAX_MANIFEST
    index = json.loads(reader.take(struct.unpack("<I", reader.take(4))[0]))
    _check_index(index["sets"])
    reader.left = limit
    first, *rest = index["sets"]
    manifest, text = _manifest_bytes(_read_manifest(reader, first))
    expected, floats = _expected(manifest)
    wants = [_target(s["path"], np.dtype(s["dtype"]), expected) for s in rest]
    _check_size(rest, wants, limit)
    out = ProfileFile(part, sum(1 for s in rest if math.prod(s["shape"])))
    out.put("/manifest", np.frombuffer(text, "u1"))
    for s, want in zip(rest, wants):
        _copy_set(reader, out, s, want, floats)
    seal(part, out.u, out.close(), _minor(manifest))
    return index["confined"]


def unpack(source, part, limit):
    """Writes the contents of `source` to `part`, golden rows unchecked; returns whether the reading process was confined. After an
    error HDF5's library is not fit for use in this process."""
    try:
        reader = _Reader(source)
    except OSError as e:
        raise BundleError(f"{source}: {e.strerror}") from None
    try:
        return _write(reader, part, 64 * reader.size + (1 << 30) if limit is None else limit)
    except BundleError as e:
        raise BundleError(str(e) if str(e).startswith(source) else f"{source}: {e}") from None
    except (OSError, RuntimeError) as e:  # of the result: what comes from the source is in a BundleError
        told = re.search(r"error message = '([^']*)'", str(e))
        raise BundleError(f"{part}: cannot be written: {told[1] if told else e}") from None
    except (KeyError, TypeError, AttributeError, ValueError, IndexError, OverflowError) as e:
        raise BundleError(f"{source}: its contents are malformed: {type(e).__name__}: {e}") from None
    finally:
        reader.close()


def _unpack_in_a_process(source, part, limit):
    """unpack() where its end does no harm."""
    path = [p for p in sys.path if isinstance(p, str)]
    ran = subprocess.run([sys.executable, "-I", "-B", "-c", _PROCESS, json.dumps([path, source, part, limit])], stdin=subprocess.DEVNULL,
                         capture_output=True, text=True)
    try:
        answer = json.loads(ran.stdout)
    except ValueError:
        last = (ran.stderr.strip().splitlines() or [f"status {ran.returncode}"])[-1]
        raise BundleError(f"{part}: cannot be written: {last}") from None
    if "error" in answer:
        raise BundleError(answer["error"])
    return answer["confined"]


def repack(source, target, limit=None, check=True, sign=None):
    """Writes the contents of the HDF5 file `source` as a bundle to `target`; returns whether the reading process was confined by a
    filter of system calls (limits of memory and time it always has). `limit`: bytes that the data may unpack to, by default
    64 times the file and 1 GiB. `check`: as in Builder.write. `sign`: a key file."""
    source, target = os.fsdecode(source), os.fsdecode(target)
    key, part, check = None if sign is None else read_signing_key(sign), target + ".part", check_kind(check)
    if os.path.exists(source) and os.path.exists(part) and os.path.samefile(source, part):
        raise BundleError(f"{part}: is the file that is read, and would be written over; name another bundle than {target}")
    try:
        confined = _unpack_in_a_process(source, part, limit)
        check_golden(part, rows=check is not None)
        if check == ENGINE:
            check_engine(part)
        if key:
            add_signature(part, key)
        os.replace(part, target)
    except BundleError as e:
        raise BundleError(str(e) if str(e).startswith((source, part)) else f"{source}: {e}") from None
    except OSError as e:
        raise BundleError(f"{target}: cannot be written: {e.strerror}") from None
    finally:
        if os.path.exists(part):
            os.remove(part)
    return confined
