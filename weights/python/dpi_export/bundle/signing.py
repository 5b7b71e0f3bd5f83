"""Keys and Ed25519 signatures of bundles (FORMAT.md part 1). Needs the package `cryptography`, for this alone. Key files are those of
`dpi keygen`: one line, `dpi-signing-key-1 <64 hex digits>` (secret) or `dpi-public-key-1 <64 hex digits>`."""

import hashlib
import os
import re

from . import digest
from ..errors import BundleError

_SECRET, _PUBLIC = "dpi-signing-key-1", "dpi-public-key-1"
_HEX = re.compile(r"[0-9a-fA-F]{64}\Z")


def _ed25519():
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise BundleError("signatures need the Python package `cryptography` (python3-cryptography on Debian)") from None
    return ed25519


def _public_bytes(private):
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
    return private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def key_id(public_key):
    """The id of a public key (32 bytes): 16 bytes."""
    return hashlib.blake2b(public_key, digest_size=16, person=b"DPI 2 key id").digest()


def message(block, key):
    """What a key of this id signs of a user block (a digest.Block)."""
    return b"DPI bundle signature" + key + digest.version_hash(block)


def make_keys(path):
    """Writes `path` (secret, its owner's alone) and `path`.pub, neither of which may exist; returns the public key in hex."""
    private = _ed25519().Ed25519PrivateKey.generate()
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    seed, public = private.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption()), _public_bytes(private)
    made = []
    for name, kind, value, mode in ((path, _SECRET, seed, 0o600), (f"{path}.pub", _PUBLIC, public, 0o644)):
        try:
            with os.fdopen(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="ascii") as f:
                made.append(name)
                f.write(f"{kind} {value.hex()}\n")
        except OSError as e:
            for half in made:  # no secret without its public key
                os.unlink(half)
            raise BundleError(f"{name}: {e.strerror}") from None
    return public.hex()


def read_signing_key(path):
    """The secret key of a file."""
    try:
        with open(path, encoding="ascii") as f:
            kind, _, value = f.read(4096).strip().partition(" ")
    except (OSError, UnicodeDecodeError) as e:
        raise BundleError(f"{path}: cannot be read: {e}") from None
    if kind != _SECRET or not _HEX.match(value):
        raise BundleError(f"{path}: is no signing key (dpi keygen makes one)")
    return _ed25519().Ed25519PrivateKey.from_private_bytes(bytes.fromhex(value))


def add_signature(path, key, magic=digest.MAGIC):
    """Signs the bundle (or delta) as its user block states it, in place of an older signature by the same key. The caller has checked
    its hashes."""
    with open(path, "r+b") as f:
        block = digest.unpack(f, os.fstat(f.fileno()).st_size, magic)
        mine = key_id(_public_bytes(key))
        signatures = [s for s in block.signatures if s[0] != mine] + [(mine, key.sign(message(block, mine)))]
        if len(signatures) > digest.MAX_SIGNATURES:
            raise BundleError(f"{path}: has {digest.MAX_SIGNATURES} signatures by other keys, and room for no more")
        parts, version = (block.u, block.length, block.extents), digest.HEAD.unpack_from(block.raw)[1:3]
        value = digest.other_digest(f, digest.pack(*parts, 0, block.metadata_hash, signatures, version, magic), *parts[1:])
        raw = digest.pack(*parts, value, block.metadata_hash, signatures, version, magic)
        f.seek(0)
        f.write(raw[:digest.EXTENTS])
    return mine.hex()


def check_signature(block, public_keys):
    """Raises unless one of the keys (hex, separated by commas) has signed the block."""
    ed25519 = _ed25519()
    from cryptography.exceptions import InvalidSignature
    keys = public_keys.split(",")
    if not all(_HEX.match(k) for k in keys):
        raise BundleError("require_signature: expected Ed25519 public keys of 64 hex digits, separated by commas")
    wanted = {key_id(bytes.fromhex(k)): ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(k)) for k in keys}
    if not block.signatures:
        raise BundleError("is not signed, and a signature is required")
    known = False
    for key, signature in block.signatures:
        if key in wanted:
            known = True
            try:
                wanted[key].verify(signature, message(block, key))
                return
            except InvalidSignature:
                pass
    raise BundleError("its signature does not verify under the required public key" if known else
                      f"is signed by key {', '.join(k.hex() for k, _ in block.signatures)}, and a signature by "
                      f"{', '.join(k.hex() for k in wanted)} is required")
