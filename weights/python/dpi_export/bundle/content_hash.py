"""The cryptographic hash of a bundle's bytes (FORMAT.md part 1): BLAKE2b-256 over leaves of 1 MiB and the list of their hashes."""

import hashlib
import struct

LEAF_BYTES = 1 << 20
DATA, METADATA = b"DPI 2 data", b"DPI 2 metadata"


class TreeHash:
    """Takes bytes in any pieces; `domain` is DATA or METADATA."""

    def __init__(self, domain):
        self._root = hashlib.blake2b(digest_size=32, person=domain)
        self._leaf, self._in_leaf, self._total = None, 0, 0

    def update(self, data):
        data = memoryview(data).cast("B")
        self._total += len(data)
        while len(data):
            if self._leaf is None:
                self._leaf = hashlib.blake2b(digest_size=32, person=b"DPI 2 leaf")
            piece = data[:LEAF_BYTES - self._in_leaf]
            self._leaf.update(piece)
            self._in_leaf += len(piece)
            data = data[len(piece):]
            if self._in_leaf == LEAF_BYTES:
                self._end_leaf()

    def _end_leaf(self):
        self._root.update(self._leaf.digest())
        self._leaf, self._in_leaf = None, 0

    def digest(self):
        """Ends the hash; 32 bytes."""
        if self._leaf is not None:
            self._end_leaf()
        self._root.update(struct.pack("<Q", self._total))
        return self._root.digest()
