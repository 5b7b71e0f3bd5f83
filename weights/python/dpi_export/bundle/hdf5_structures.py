"""The structures of HDF5 that a bundle may have (FORMAT.md part 2), read without HDF5's library: its release 1.10.8 reads past its
buffers on some damaged files. The rules are those of sdk/src/bundle/hdf5: every structure lies in the metadata, each byte belongs to
one structure, and what is not in the profile is refused."""

import bisect
import struct

import numpy as np

from ..errors import DATASET, BundleError

UNDEFINED = 2**64 - 1
MAX_LINKS, MAX_NAME, MAX_MESSAGES, MAX_HEADER, MAX_MANIFEST = 1_100_000, 200, 64, 65536, 256 << 20
GROUPS = ("tables", "params", "encoders", "golden")
_NIL, _SPACE, _TYPE, _FILL, _LAYOUT, _CONTINUATION, _SYMBOLS, _MODIFIED = 0, 1, 3, 5, 8, 16, 17, 18
_TYPES = [(bytes([0x10, sign, 0, 0, size, 0, 0, 0, 0, 0, 8 * size, 0]), np.dtype(name)) for name, size, sign in
          (("u1", 1, 0), ("i1", 1, 8), ("<u2", 2, 0), ("<i8", 8, 8), ("<u8", 8, 0))]
_TYPES.append((bytes([0x11, 0x20, 31, 0, 4, 0, 0, 0, 0, 0, 32, 0, 23, 8, 0, 23, 127, 0, 0, 0]), np.dtype("<f4")))


class Metadata:
    """The bytes outside user block and extents, by their place in the file."""

    def __init__(self, file, u, length, runs):
        self.u, self.length, self._starts, self._runs = u, length, [], []
        for begin, end in runs:
            file.seek(begin)
            data = file.read(end - begin)
            if len(data) != end - begin:
                raise BundleError("the file became shorter while it was read")
            self._starts.append(begin)
            self._runs.append(data)

    def find(self, offset, n):
        """Bytes [offset, offset + n) of the file, or None when not all of them are metadata."""
        i = bisect.bisect_right(self._starts, offset) - 1
        if i < 0:
            return None
        skip = offset - self._starts[i]
        return self._runs[i][skip:skip + n] if skip + n <= len(self._runs[i]) else None


class _Claims:
    """Ranges that are taken; those that touch are kept as one."""

    def __init__(self):
        self._starts, self._ends = [], {}

    def take(self, begin, n):
        if n == 0:
            return True
        end, i = begin + n, bisect.bisect_left(self._starts, begin)
        if i < len(self._starts) and self._starts[i] < end:
            return False
        if i > 0:
            before = self._starts[i - 1]
            if self._ends[before] > begin:
                return False
            if self._ends[before] == begin:
                begin, i = before, i - 1
                del self._starts[i]
        if i < len(self._starts) and self._starts[i] == end:
            end = self._ends.pop(self._starts.pop(i))
        self._starts.insert(i, begin)
        self._ends[begin] = end
        return True


class _Fields:
    """Little-endian fields one after another; too short is a fault of the structure."""

    def __init__(self, data, fail):
        self.data, self.at, self._fail = data, 0, fail

    def take(self, fmt):
        size = struct.calcsize(fmt)
        if self.at + size > len(self.data):
            self._fail("is cut off")
        values = struct.unpack_from(fmt, self.data, self.at)
        self.at += size
        return values if len(values) != 1 else values[0]


class Structures:
    """Walks the HDF5 part. `contents` gives {path: {shape, dtype, offset, bytes}} with /manifest, and its bytes."""

    def __init__(self, metadata):
        self._meta, self._claims = metadata, _Claims()

    def contents(self, extents):
        self._superblock()
        left = {e[0]: e[1] for e in extents}
        out, manifest = {}, None
        for name, address in self._group("", self._root):
            if name == "manifest":
                manifest, info = self._manifest(address)
                out["/manifest"] = info
            elif name in GROUPS:
                for member, where in self._group("/" + name, address):
                    path = f"/{name}/{member}"
                    out[path] = info = self._data_set(path, where)
                    if info["bytes"] and left.pop(info["offset"], None) != info["bytes"]:
                        raise BundleError(f"{path}: its data is not an extent of the user block, or another data set's too")
            else:
                raise BundleError(f"/{name}: is not part of a bundle")
        if not manifest:
            raise BundleError("/manifest is missing or empty")
        if left:
            raise BundleError(f"the extent at {min(left)} belongs to no data set")
        return out, manifest

    def _fail(self, path, address, text):
        raise BundleError(f"{path or '/'}: {text} (HDF5 structure at byte {address + self._meta.u})")

    def _claim(self, path, address, n, what):
        found = self._meta.find(self._meta.u + address, n) if address <= self._meta.length - self._meta.u else None
        if found is None:
            self._fail(path, address, f"{what} lies outside the file or inside an extent")
        if not self._claims.take(address, n):
            self._fail(path, address, f"{what} lies where another structure lies")
        return found

    def _fields(self, path, address, data):
        return _Fields(data, lambda text: self._fail(path, address, text))

    def _superblock(self):
        c = self._fields("", 0, self._claim("", 0, 96, "the HDF5 superblock"))
        if c.take("8s") != b"\x89HDF\r\n\x1a\n":
            self._fail("", 0, "no HDF5 superblock")
        if c.take("8s") != bytes([0, 0, 0, 0, 0, 8, 8, 0]):
            self._fail("", 8, "not HDF5's earliest file format")
        leaf, node, flags, base, free, end, driver, _, self._root = c.take("<HHIQQQQQQ")
        self._leaf_links, self._node_entries = 2 * leaf, 2 * node
        if not leaf or not node or flags or base != self._meta.u or free != UNDEFINED or end != self._meta.length \
                or driver != UNDEFINED:
            self._fail("", 16, "a superblock outside the profile")

    # -- object headers -----------------------------------------------------------------------------------------------
    def _header(self, path, address):
        """{message type: (address, body)}; each kind once."""
        version, _, said, _, size = self._fields(path, address, self._claim(path, address, 16, "its object header")).take("<BBHII4x")
        if version != 1 or said > MAX_MESSAGES:
            self._fail(path, address, "not a version 1 object header, or too many messages")
        pieces, out, count = [(address + 16, size)], {}, 0
        for where, n in pieces:  # a piece may add another
            if n > MAX_HEADER:
                self._fail(path, where, f"object header of {n} bytes")
            data, at = self._claim(path, where, n, "its object header"), 0
            while at < n:
                if at + 8 > n:
                    self._fail(path, where + at, "a message is longer than its object header")
                kind, length, flags = struct.unpack_from("<HHB", data, at)
                body, count = data[at + 8:at + 8 + length], count + 1
                if len(body) != length or length % 8 or count > MAX_MESSAGES or flags & 2:
                    self._fail(path, where + at, "a message of wrong length, shared, or one too many")
                self._keep(path, where + at, kind, body, out, pieces)
                at += 8 + length
        if count != said:
            self._fail(path, address, f"its object header says {said} messages and has {count}")
        return out

    def _keep(self, path, address, kind, body, out, pieces):
        if kind in (_NIL, _MODIFIED):
            return
        if kind == _CONTINUATION:
            where, n = self._fields(path, address, body).take("<QQ")
            if n < 8:
                self._fail(path, address, "a continuation without messages")
            pieces.append((where, n))
        elif kind not in (_SPACE, _TYPE, _FILL, _LAYOUT, _SYMBOLS):
            self._fail(path, address, f"message type {kind} has no place in a bundle")
        elif kind in out:
            self._fail(path, address, f"message type {kind} twice")
        else:
            out[kind] = (address, body)

    # -- data sets ----------------------------------------------------------------------------------------------------
    def _manifest(self, address):
        info = self._data_set("/manifest", address)
        if info["dtype"] != np.uint8 or len(info["shape"]) != 1 or info["bytes"] > MAX_MANIFEST:
            self._fail("/manifest", address, "not one dimension of u8, or larger than 256 MiB")
        if not info["bytes"]:
            return b"", info
        return self._claim("/manifest", info["offset"] - self._meta.u, info["bytes"], "its data"), info

    def _data_set(self, path, address):
        header = self._header(path, address)
        if _SYMBOLS in header or not {_TYPE, _SPACE, _LAYOUT} <= set(header):
            self._fail(path, address, "is not a data set")
        dtype = next((t for form, t in _TYPES if header[_TYPE][1].startswith(form)), None)
        if dtype is None:
            self._fail(path, header[_TYPE][0], "element type outside the profile")
        shape = self._shape(path, *header[_SPACE])
        if _FILL in header:
            self._fill(path, *header[_FILL])
        c = self._fields(path, header[_LAYOUT][0], header[_LAYOUT][1])
        version, layout, at, size = c.take("<BBQQ")
        if (version, layout) != (3, 1):
            self._fail(path, address, "is chunked, compact or virtual, expected contiguous")
        elements = 1
        for d in shape:
            elements *= d
            if elements >= 2**63:
                self._fail(path, address, "its shape has too many elements")
        if size != elements * dtype.itemsize or (size and (at == UNDEFINED or at + self._meta.u >= 2**64)):
            self._fail(path, address, "has no data of its size in the file")
        return {"shape": shape, "dtype": dtype, "offset": at + self._meta.u if size else None, "bytes": size}

    def _shape(self, path, address, body):
        c = self._fields(path, address, body)
        version, rank, flags = c.take("<BBB5x")
        if version != 1 or not 1 <= rank <= 8 or flags & ~1:
            self._fail(path, address, "not a version 1 dataspace of 1 to 8 dims")
        shape = struct.unpack(f"<{rank}Q", c.take(f"{8 * rank}s"))
        if flags and c.take(f"{8 * rank}s") != struct.pack(f"<{rank}Q", *shape):
            self._fail(path, address, "can be extended, expected a fixed shape")
        if any(d >= 2**63 for d in shape):
            self._fail(path, address, "its shape has too many elements")
        return shape

    def _fill(self, path, address, body):
        c = self._fields(path, address, body)
        version, _, defined = c.take("<BHB")
        if version != 2 or defined > 1 or (defined and c.take("<I")):
            self._fail(path, address, "has a fill value, expected none")

    # -- groups -------------------------------------------------------------------------------------------------------
    def _group(self, path, address):
        """[(name, address)] by rising name."""
        header = self._header(path, address)
        if set(header) != {_SYMBOLS}:
            self._fail(path, address, "is not a group")
        tree, heap = self._fields(path, header[_SYMBOLS][0], header[_SYMBOLS][1]).take("<QQ")
        names, links = self._heap(path, heap), []
        self._tree(path, tree, None, names, links)
        return links

    def _heap(self, path, address):
        magic, size, free, where = self._fields(path, address, self._claim(path, address, 32, "its local heap")).take("<8sQQQ")
        if magic != b"HEAP\0\0\0\0":
            self._fail(path, address, "not a version 0 local heap")
        names, left = self._claim(path, where, size, "the names in its local heap"), size
        while free != 1:  # HDF5 tools follow the free list
            if free + 16 > size:
                self._fail(path, address, "its heap's free list leaves the heap")
            following, n = struct.unpack_from("<QQ", names, free)
            if n < 16 or free + n > size or n > left:
                self._fail(path, address, "its heap's free list leaves the heap or does not end")
            left, free = left - n, following
        return names

    def _tree(self, path, address, level, names, links):
        room = 24 + 16 * self._node_entries + 8
        data = self._claim(path, address, room, "a B-tree node")
        magic, own, used = struct.unpack_from("<5sBH", data)
        if magic != b"TREE\0" or own > 16 or level not in (None, own) or used > self._node_entries:
            self._fail(path, address, "not a group's B-tree, or its level or size is out of order")
        for i in range(used):
            child = struct.unpack_from("<Q", data, 32 + 16 * i)[0]
            if own:
                self._tree(path, child, own - 1, names, links)
            else:
                self._node(path, child, names, links)

    def _node(self, path, address, names, links):
        data = self._claim(path, address, 8 + 40 * self._leaf_links, "a symbol table node")
        magic, _, used = struct.unpack_from("<5sBH", data)
        if magic != b"SNOD\1" or used > self._leaf_links:
            self._fail(path, address, "not a version 1 symbol table node")
        for i in range(used):
            at, where, cached = struct.unpack_from("<QQI", data, 8 + 40 * i)
            end = names.find(b"\0", at, at + MAX_NAME + 1) if at < len(names) else -1
            if end < 0:
                self._fail(path, address, "a link's name does not end inside its heap, or is too long")
            name = names[at:end].decode("latin-1")
            if cached > 1 or where == UNDEFINED:
                self._fail(f"{path}/{name}", address, "is a soft, external or user-defined link")
            if not DATASET.match(name) or (links and links[-1][0] >= name) or len(links) >= MAX_LINKS:
                self._fail(f"{path}/{name}", address, "its name is outside the profile, out of order or there twice")
            links.append((name, where))
