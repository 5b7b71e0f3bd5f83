"""User block and digests of a bundle file (FORMAT.md part 1), shared by writer and reader."""

import struct

import xxhash

from .errors import BundleError

MAGIC = b"DPIBNDL\0"
HEAD = struct.Struct("<8sIIQQQQQ8s")  # 64 bytes: magic, major, minor, U, length, E, digest, flags, zero
CHUNK = 4 << 20


def user_block_size(n_extents):
    """The least power of two >= 512 that holds the block."""
    size = 512
    while size < 128 + 24 * n_extents:
        size *= 2
    return size


def pack(u, length, extents, digest, minor=0, signature=b"", major=1):
    """The user block's bytes. extents: (offset, length, digest), by rising offset."""
    head = HEAD.pack(MAGIC, major, minor, u, length, len(extents), digest, 1 if signature else 0, bytes(8))
    body = b"".join(struct.pack("<QQQ", *e) for e in extents)
    return (head + signature.ljust(64, b"\0") + body).ljust(u, b"\0")


def digest_range(file, begin, end, state=None):
    """XXH3-64 over file bytes [begin, end), read in chunks."""
    state = state or xxhash.xxh3_64()
    file.seek(begin)
    while begin < end:
        data = file.read(min(CHUNK, end - begin))
        if not data:
            raise BundleError(f"file ends at byte {begin}, expected {end}")
        state.update(data)
        begin += len(data)
    return state


def other_digest(file, block, length, extents):
    """The digest of the other bytes: `block` is the user block as it stands in the file."""
    masked = bytearray(block)
    masked[40:48] = bytes(8)
    masked[64:128] = bytes(64)
    state = xxhash.xxh3_64(bytes(masked))
    at = len(block)
    for offset, size, _ in extents:
        digest_range(file, at, offset, state)
        at = offset + size
    digest_range(file, at, length, state)
    return state.intdigest()


def unpack(file, actual_length):
    """(u, length, extents, digest, block, minor) after every check that needs no libhdf5."""
    file.seek(0)
    head = file.read(HEAD.size)
    if len(head) < HEAD.size or head[:8] != MAGIC:
        raise BundleError("not a DPI bundle: the file does not start with DPIBNDL")
    _, major, minor, u, length, n, digest, flags, zero = HEAD.unpack(head)
    if major != 1:
        raise BundleError(f"format version {major}.{minor}, expected 1.x")
    if u < 512 or u & (u - 1) or u > actual_length or u != user_block_size(n) and u < 128 + 24 * n:
        raise BundleError(f"user block of {u} bytes for {n} extents in a file of {actual_length} bytes")
    if length != actual_length:
        raise BundleError(f"the file has {actual_length} bytes, its user block states {length}: truncated or extended")
    if flags not in (0, 1) or zero != bytes(8):
        raise BundleError("unknown flags in the user block")
    file.seek(0)
    block = file.read(u)
    extents = [struct.unpack_from("<QQQ", block, 128 + 24 * i) for i in range(n)]
    at = u
    for i, (offset, size, _) in enumerate(extents):
        if offset < at or size == 0 or offset + size > length:
            raise BundleError(f"extent {i} covers bytes {offset} + {size}, expected rising ranges within {at}..{length}")
        at = offset + size
    if any(block[128 + 24 * n:]):
        raise BundleError("the user block does not end in zeros")
    if other_digest(file, block, length, extents) != digest:
        raise BundleError("digest of the other bytes: the file is damaged")
    return u, length, extents, digest, block, minor
