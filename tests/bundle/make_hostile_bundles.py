"""Bundles whose HDF5 structures lie, made by changing single fields of a sound one. FOLDER/cases.json lists {file, status, text}
as make_raw_bundles.py does, whose sound bundle and seal these start from.

    python3 tests/bundle/make_hostile_bundles.py FOLDER

All digests are right: an author can write them. HDF5's library 1.10.8 reads past its buffers on
datatype_enum, name_without_end and free_list_last_byte (valgrind h5dump -H shows it).
"""

import json
import os
import struct
import sys

import make_raw_bundles as raw

BAD = raw.BAD
BASE = raw.U
ALL_ONES = 2**64 - 1


class Structures:
    """Where the structures of a bundle stand: offsets in the file."""

    def __init__(self, data):
        self.data = data
        self.messages = {}  # path -> {message type: offset of the message's head}
        self.headers, self.trees, self.heaps, self.nodes, self.entries = {}, {}, {}, {}, {}
        self.object("/", BASE + self.u64(BASE + 64))

    def u64(self, at):
        return struct.unpack_from("<Q", self.data, at)[0]

    def object(self, path, at):
        self.headers[path] = at
        self.messages[path] = {}
        size, at = struct.unpack_from("<I", self.data, at + 8)[0], at + 16
        end = at + size
        while at < end:
            kind, length = struct.unpack_from("<HH", self.data, at)
            self.messages[path].setdefault(kind, at)
            if kind == 0x11:
                self.group(path, BASE + self.u64(at + 8), BASE + self.u64(at + 16))
            at += 8 + length

    def group(self, path, tree, heap):
        self.trees[path], self.heaps[path] = tree, heap
        names = BASE + self.u64(heap + 24)
        self.nodes[path] = node = BASE + self.u64(tree + 32)
        for i in range(struct.unpack_from("<H", self.data, node + 6)[0]):
            entry = node + 8 + 40 * i
            name = names + self.u64(entry)
            text = bytes(self.data[name:self.data.index(0, name)]).decode()
            full = path.rstrip("/") + "/" + text
            self.entries[full] = entry
            self.object(full, BASE + self.u64(entry + 8))


def extents_of(data):
    return [struct.unpack_from("<QQ", data, 768 + 56 * i) for i in range(struct.unpack_from("<Q", data, 32)[0])]


def hostile(name, text, change, code=BAD):
    """`change(data, structures)` spoils a sound bundle."""
    path = raw.write(name + ".h5")
    with open(path, "rb") as f:
        data = bytearray(f.read())
    extents = extents_of(data)
    change(data, Structures(data))
    with open(path, "wb") as f:
        f.write(data)
    raw.seal(path, extents)
    raw.expect(name + ".h5", code, text)


def put(fmt, where, *values):
    """A change that overwrites one place: `where(structures)` gives its offset."""
    return lambda data, s: struct.pack_into(fmt, data, where(s), *values)


def message(path, kind, offset=8):
    """The body of a message, or with `offset` 0 its head."""
    return lambda s: s.messages[path][kind] + offset


def superblock_cases():
    def at(offset):
        return lambda s: BASE + offset
    hostile("signature", "no HDF5 superblock", put("<B", at(1), 0x49))
    for version in range(5):
        hostile(f"version_{version}", "earliest file format", put("<B", at(8 + version), 2))
    hostile("addresses_of_4", "earliest file format", put("<BB", at(13), 4, 4))
    hostile("no_leaf_places", "nodes without places", put("<H", at(16), 0))
    hostile("huge_leaf", "symbol table node lies outside", put("<H", at(16), 65535))
    hostile("huge_tree_node", "B-tree node lies outside", put("<H", at(18), 65535))
    hostile("base_address", "base address", put("<Q", at(24), 512))
    hostile("free_space", "free-space", put("<Q", at(32), 96))
    hostile("end_of_file", "HDF5 says the file ends", put("<Q", at(40), ALL_ONES))
    hostile("driver", "driver", put("<Q", at(48), 96))
    for address in (ALL_ONES, ALL_ONES - BASE, 2**63, 2**40):
        hostile(f"root_{address:x}", "/: its object header lies outside", put("<Q", at(64), address))
    hostile("root_is_superblock", "/: its object header lies where another", put("<Q", at(64), 0))


def header_cases():
    c, head = "/tables/c", lambda s: s.headers["/tables/c"]
    hostile("header_version", "/tables/c: not a version 1", lambda d, s: put("<B", head, 2)(d, s))
    hostile("header_messages", "/tables/c: 65535 messages", lambda d, s: struct.pack_into("<H", d, head(s) + 2, 65535))
    hostile("header_count", "/tables/c: its object header says", lambda d, s: struct.pack_into("<H", d, head(s) + 2, 1))
    hostile("header_bytes", "/tables/c: object header of 4294967295", lambda d, s: struct.pack_into("<I", d, head(s) + 8, 2**32 - 1))
    hostile("header_short", "/tables/c: a message is longer", lambda d, s: struct.pack_into("<I", d, head(s) + 8, 20))
    hostile("header_empty", "/tables/c: its object header says", lambda d, s: struct.pack_into("<I", d, head(s) + 8, 0))
    hostile("message_bytes", "/tables/c: a message is longer", put("<H", message(c, 1, 2), 65535))
    hostile("message_odd", "/tables/c: a message is longer", put("<H", message(c, 1, 2), 23))
    hostile("message_shared", "/tables/c: a shared message", put("<B", message(c, 3, 4), 3))
    for kind in (2, 4, 6, 7, 10, 11, 12, 14, 15, 19, 20, 23, 65535):
        hostile(f"message_{kind}", f"/tables/c: message type {kind} has no place", put("<H", message(c, 0, 0), kind))
    hostile("message_twice", "/tables/c: message type 5 twice", put("<H", message(c, 0, 0), 5))
    hostile("message_gone", "/tables/c: is not a data set", put("<H", message(c, 8, 0), 0))
    hostile("group_as_data_set", "/tables: is not a group", put("<H", message("/tables", 17, 0), 0))
    hostile("data_set_as_group", "/tables/c: is a group", put("<H", message(c, 0, 0), 17))


def continuation_cases():
    c = "/tables/c"

    def to(address, size):
        def change(data, s):
            at = s.messages[c][0]
            struct.pack_into("<H", data, at, 16)
            struct.pack_into("<QQ", data, at + 8, address(s) if callable(address) else address, size)
        return change

    def sound(data, s):
        """The header goes on behind the end of the file, with one more message of no meaning."""
        to(len(data) - BASE, 24)(data, s)
        data += struct.pack("<HHB3x", 0, 16, 0) + bytes(16)
        struct.pack_into("<Q", data, BASE + 40, len(data))
        at = s.headers[c] + 2
        struct.pack_into("<H", data, at, struct.unpack_from("<H", data, at)[0] + 1)
    hostile("continuation_sound", "", sound, "DPI_OK")
    hostile("continuation_itself", "/tables/c: its object header lies where another", to(lambda s: s.messages[c][0] - BASE, 24))
    hostile("continuation_back", "/tables/c: its object header lies where another", to(lambda s: s.headers[c] - BASE + 16, 64))
    hostile("continuation_root", "/tables/c: its object header lies where another", to(lambda s: s.headers["/"] - BASE, 40))
    hostile("continuation_nowhere", "/tables/c: its object header lies outside", to(ALL_ONES, 24))
    hostile("continuation_wraps", "/tables/c: its object header lies outside", to(ALL_ONES - BASE + 1, 24))
    hostile("continuation_huge", "/tables/c: object header of 18446744073709551615", to(96, ALL_ONES))
    hostile("continuation_empty", "/tables/c: a continuation without", to(96, 0))


def data_set_cases():
    c = "/tables/c"
    integer = (0x10, 8, 0, 0, 4, 0, 32)
    hostile("datatype_enum", "/tables/c: element type", put("<BHBIBBBBIHH", message(c, 3), 0x18, 0xffff, 0, 4, *integer))
    for kind in range(2, 11):
        hostile(f"datatype_class_{kind}", "/tables/c: element type", put("<B", message(c, 3), 0x10 | kind))
    hostile("datatype_precision", "/tables/c: element type", put("<H", message(c, 3, 18), 31))
    hostile("datatype_short", "/tables/c: ", put("<H", message(c, 3, 2), 8))
    hostile("dataspace_version", "/tables/c: not a version 1 dataspace", put("<B", message(c, 1), 2))
    hostile("dataspace_rank", "/tables/c: has 255 dims", put("<B", message(c, 1, 9), 255))
    hostile("dataspace_cut", "/tables/c: its dataspace is cut off", put("<BB", message(c, 1, 9), 8, 0))
    hostile("dataspace_flags", "/tables/c: unknown dataspace flags", put("<B", message(c, 1, 10), 2))
    hostile("dims_huge", "/tables/c: its shape has too many", put("<QQQQ", message(c, 1, 16), *[ALL_ONES] * 4))
    hostile("dims_product", "/tables/c: its shape has too many", put("<QQQQ", message(c, 1, 16), *[2**32] * 4))
    hostile("dims_bytes", "/tables/c: has no data of its size", put("<QQQQ", message(c, 1, 16), *[2**31, 2**30] * 2))
    hostile("dims_grow", "/tables/c: can be extended", put("<Q", message(c, 1, 32), ALL_ONES))
    hostile("fill_version", "/tables/c: not a version 2 fill", put("<B", message(c, 5), 3))
    hostile("fill_value", "/tables/c: has a fill value", put("<I", message(c, 5, 12), 2**32 - 1))
    hostile("layout_version", "/tables/c: is chunked, compact or virtual", put("<B", message(c, 8), 4))
    hostile("layout_compact", "/tables/c: is chunked, compact or virtual", put("<B", message(c, 8, 9), 0))
    for value in (ALL_ONES, ALL_ONES - BASE, ALL_ONES - 31, 0, 2**62):
        hostile(f"data_address_{value:x}", "/tables/c: ", put("<Q", message(c, 8, 10), value))
        hostile(f"data_bytes_{value:x}", "/tables/c: has no data of its size", put("<Q", message(c, 8, 18), value))
        hostile(f"manifest_address_{value:x}", "/manifest: ", put("<Q", message("/manifest", 8, 10), value))


def heap_cases():
    t = "/tables"
    hostile("heap_magic", "/tables: not a version 0 local heap", lambda d, s: put("<B", lambda s: s.heaps[t], 0)(d, s))
    hostile("heap_version", "/tables: not a version 0 local heap", lambda d, s: struct.pack_into("<B", d, s.heaps[t] + 4, 1))
    for value in (ALL_ONES, ALL_ONES - BASE, 2**63, 2**40):
        hostile(f"heap_bytes_{value:x}", "/tables: the names in its local heap lies outside",
                lambda d, s, v=value: struct.pack_into("<Q", d, s.heaps[t] + 8, v))
        hostile(f"heap_at_{value:x}", "/tables: the names in its local heap lies outside",
                lambda d, s, v=value: struct.pack_into("<Q", d, s.heaps[t] + 24, v))
        hostile(f"name_at_{value:x}", "/tables: a link's name",
                lambda d, s, v=value: struct.pack_into("<Q", d, s.entries["/tables/c"], v))
    hostile("heap_is_header", "/tables: the names in its local heap lies where another",
            lambda d, s: struct.pack_into("<Q", d, s.heaps[t] + 24, s.heaps[t] - BASE))
    hostile("heap_empty", "/tables: a link's name", lambda d, s: struct.pack_into("<QQ", d, s.heaps[t] + 8, 0, 1))

    def name_without_end(data, s):
        """The heap ends with the last character of "c"."""
        struct.pack_into("<QQ", data, s.heaps[t] + 8, struct.unpack_from("<Q", data, s.entries["/tables/c"])[0] + 1, 1)
    hostile("name_without_end", "/tables: a link's name", name_without_end)

    def free_list(offset, following=1, size=16):
        def change(data, s):
            heap = s.heaps[t]
            at = s.u64(heap + 8) + offset if offset < 0 else offset
            struct.pack_into("<Q", data, heap + 16, at)
            if at + 16 <= s.u64(heap + 8):
                struct.pack_into("<QQ", data, BASE + s.u64(heap + 24) + at, following, size)
        return change
    hostile("free_list_last_byte", "/tables: its heap's free list", free_list(-1))
    hostile("free_list_outside", "/tables: its heap's free list", free_list(ALL_ONES))
    hostile("free_list_itself", "/tables: its heap's free list", free_list(16, 16))
    hostile("free_list_no_bytes", "/tables: its heap's free list", free_list(16, 16, 0))
    hostile("free_list_too_long", "/tables: its heap's free list", free_list(16, 1, ALL_ONES))


def tree_cases():
    t, tree, node = "/tables", lambda s: s.trees["/tables"], lambda s: s.nodes["/tables"]
    hostile("tree_magic", "/tables: not a group's B-tree", lambda d, s: struct.pack_into("<B", d, tree(s), 0))
    hostile("tree_of_chunks", "/tables: not a group's B-tree", lambda d, s: struct.pack_into("<B", d, tree(s) + 4, 1))
    hostile("tree_level_17", "/tables: a B-tree level", lambda d, s: struct.pack_into("<B", d, tree(s) + 5, 17))
    hostile("tree_used", "/tables: a B-tree node of 65535 entries", lambda d, s: struct.pack_into("<H", d, tree(s) + 6, 65535))

    def itself(data, s):
        struct.pack_into("<B", data, tree(s) + 5, 1)
        struct.pack_into("<Q", data, tree(s) + 32, tree(s) - BASE)
    hostile("tree_itself", "/tables: a B-tree node lies where another", itself)

    def same_child(data, s):
        struct.pack_into("<H", data, tree(s) + 6, 32)
        for i in range(32):
            struct.pack_into("<Q", data, tree(s) + 32 + 16 * i, s.u64(tree(s) + 32))
    hostile("tree_same_child", "/tables: a symbol table node lies where another", same_child)
    hostile("tree_of_other_group", "/tables: ", lambda d, s: struct.pack_into("<Q", d, s.messages[t][17] + 8, s.trees["/params"] - BASE))
    hostile("heap_of_other_group", "/tables: its local heap lies where another",
            lambda d, s: struct.pack_into("<Q", d, s.messages[t][17] + 16, s.heaps["/params"] - BASE))
    hostile("node_magic", "/tables: not a version 1 symbol", lambda d, s: struct.pack_into("<B", d, node(s), 0))
    hostile("node_used", "/tables: a symbol table node of 65535 links", lambda d, s: struct.pack_into("<H", d, node(s) + 6, 65535))
    hostile("node_is_tree", "/tables: a symbol table node lies where another", lambda d, s: struct.pack_into("<Q", d, tree(s) + 32, tree(s) - BASE))
    hostile("link_cache_3", "/tables/c: is a soft", lambda d, s: struct.pack_into("<I", d, s.entries["/tables/c"] + 16, 3))
    for name, value in (("root", "/"), ("own_group", "/tables"), ("other_set", "/params/w")):
        hostile("link_to_" + name, "/tables/c: its object header lies where another",
                lambda d, s, v=value: struct.pack_into("<Q", d, s.entries["/tables/c"] + 8, s.headers[v] - BASE))
    hostile("link_to_nothing", "/tables/c: is a soft", lambda d, s: struct.pack_into("<Q", d, s.entries["/tables/c"] + 8, ALL_ONES))

    def rename(text):
        def change(data, s):
            at = BASE + s.u64(s.heaps["/"] + 24) + s.u64(s.entries["/tables"])
            data[at:at + len(text)] = text
        return change
    hostile("names_fall", "/aables: its name is out of order", rename(b"a"))
    hostile("name_with_slash", "/ta/les: its name is not of the form", rename(b"ta/"))
    hostile("name_not_ascii", "its name is not of the form", rename(b"ta\xff"))
    hostile("name_empty", "its name is not of the form", rename(b"\0"))


def main():
    os.makedirs(raw.FOLDER, exist_ok=True)
    raw.write("sound.h5")
    raw.expect("sound.h5", "DPI_OK", "")
    for cases in (superblock_cases, header_cases, continuation_cases, data_set_cases, heap_cases, tree_cases):
        cases()
    with open(os.path.join(raw.FOLDER, "cases.json"), "w", encoding="utf-8") as f:
        json.dump(raw.EXPECTED, f, indent=1)


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    main()
