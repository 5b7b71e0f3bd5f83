"""User block, digests and hashes of a bundle file (FORMAT.md part 1), shared by writer, reader and signing."""

import collections
import hashlib
import struct

import xxhash

from .content_hash import METADATA, TreeHash
from ..errors import BundleError

MAGIC, DELTA_MAGIC = b"DPIBNDL\0", b"DPIDELT\0"
# magic, major, minor, U, length, E, digest, flags, number of signatures, hash of the metadata, zeros: 128 bytes
HEAD = struct.Struct("<8sIIQQQQQQ32s32s")
SIGNATURE = struct.Struct("<16s64s")
EXTENT = struct.Struct("<QQQ32s")
SIGNATURES, MAX_SIGNATURES = 128, 8
EXTENTS = SIGNATURES + MAX_SIGNATURES * SIGNATURE.size
MAX_EXTENTS, MAX_BLOCK = 1_000_000, 64 << 20
CHUNK = 4 << 20

Block = collections.namedtuple("Block", "u length extents digest metadata_hash signatures minor raw magic")


def user_block_size(n_extents):
    """The least power of two >= 1024 that holds the block."""
    size = 1024
    while size < EXTENTS + EXTENT.size * n_extents:
        size *= 2
    return size


def pack(u, length, extents, digest, metadata_hash, signatures=(), version=(2, 0), magic=MAGIC):
    """The user block's bytes. extents: (offset, length, digest, hash) by rising offset; signatures: (key id, signature)."""
    head = HEAD.pack(magic, *version, u, length, len(extents), digest, 0, len(signatures), metadata_hash, bytes(32))
    room = b"".join(SIGNATURE.pack(*s) for s in signatures).ljust(EXTENTS - SIGNATURES, b"\0")
    return (head + room + b"".join(EXTENT.pack(*e) for e in extents)).ljust(u, b"\0")


def chunks(file, begin, end):
    """File bytes [begin, end) in blocks."""
    file.seek(begin)
    while begin < end:
        data = file.read(min(CHUNK, end - begin))
        if not data:
            raise BundleError(f"file ends at byte {begin}, expected {end}")
        yield data
        begin += len(data)


def metadata_runs(u, length, extents):
    """(begin, end) of what lies outside user block and extents, by rising offset."""
    at = u
    for offset, size, *_ in extents:
        if offset > at:
            yield at, offset
        at = offset + size
    if length > at:
        yield at, length


def metadata_hash(file, u, length, extents):
    """The cryptographic hash of the bytes outside user block and extents."""
    state = TreeHash(METADATA)
    for begin, end in metadata_runs(u, length, extents):
        for data in chunks(file, begin, end):
            state.update(data)
    return state.digest()


def other_digest(file, block, length, extents):
    """The digest of the other bytes: `block` is the user block as it stands in the file."""
    masked = bytearray(block)
    masked[40:48] = bytes(8)
    state = xxhash.xxh3_64(bytes(masked))
    for begin, end in metadata_runs(len(block), length, extents):
        for data in chunks(file, begin, end):
            state.update(data)
    return state.intdigest()


def version_hash(block):
    """The version of the bundle that a Block belongs to: a hash of everything in the file but digest and signatures."""
    head = bytearray(block.raw[:SIGNATURES])
    head[40:48] = head[56:64] = bytes(8)
    end = EXTENTS + EXTENT.size * len(block.extents)
    return hashlib.blake2b(bytes(head) + block.raw[EXTENTS:end], digest_size=32, person=b"DPI 2 user block").digest()


def _check_head(head, actual_length, magic):
    what = "delta" if magic == DELTA_MAGIC else "bundle"
    if len(head) < EXTENTS or head[:8] != magic:
        is_delta = head[:8] == DELTA_MAGIC
        raise BundleError("is a delta, not a bundle" if is_delta else
                          f"not a DPI {what}: the file does not start with {magic[:7].decode()}")
    _, major, minor, u, length, n, digest, flags, n_signatures, hashed, zero = HEAD.unpack_from(head)
    if magic == DELTA_MAGIC and major != 1:
        raise BundleError(f"delta format {major}.{minor}, this reader knows 1.x")
    if magic == MAGIC and major != 2:
        more = "; write it anew: python3 -m dpi_export repack OLD NEW" if major < 2 else ""
        raise BundleError(f"bundle format {major}.{minor}, this reader knows 2.x{more}")
    if length != actual_length:
        raise BundleError(f"the file has {actual_length} bytes, its user block states {length}: truncated or extended")
    if u < 1024 or u & (u - 1) or u > min(actual_length, MAX_BLOCK) or n > MAX_EXTENTS or EXTENTS + EXTENT.size * n > u:
        raise BundleError(f"user block of {u} bytes for {n} extents in a file of {actual_length} bytes")
    if flags or zero != bytes(32):
        raise BundleError("unknown flags in the user block")
    if n_signatures > MAX_SIGNATURES or any(head[SIGNATURES + SIGNATURE.size * n_signatures:EXTENTS]):
        raise BundleError("the user block has signatures that it does not count")
    signatures = [SIGNATURE.unpack_from(head, SIGNATURES + SIGNATURE.size * i) for i in range(n_signatures)]
    if (bytes(16), bytes(64)) in signatures:
        raise BundleError("the user block counts a signature that is not there")
    return u, length, n, digest, hashed, signatures, minor


def unpack(file, actual_length, magic=MAGIC):
    """The Block of a file, after every check that needs nothing of HDF5. `magic`: what the file must be."""
    file.seek(0)
    head = file.read(EXTENTS)
    u, length, n, digest, hashed, signatures, minor = _check_head(head, actual_length, magic)
    file.seek(0)
    block = file.read(u)
    if len(block) != u or block[:EXTENTS] != head:
        raise BundleError("the file changed while it was read")
    extents = [EXTENT.unpack_from(block, EXTENTS + EXTENT.size * i) for i in range(n)]
    at = u
    for i, (offset, size, _, _) in enumerate(extents):
        if offset < at or size == 0 or offset + size > length:
            raise BundleError(f"extent {i} covers bytes {offset} + {size}, expected rising ranges within {at}..{length}")
        at = offset + size
    if any(block[EXTENTS + EXTENT.size * n:]):
        raise BundleError("the user block does not end in zeros")
    if other_digest(file, block, length, extents) != digest:
        raise BundleError("digest of the other bytes: the file is damaged")
    return Block(u, length, extents, digest, hashed, signatures, minor, block, magic)
