"""Signs a bundle that is written (signing.py has the keys and the signatures)."""

from .reader import Bundle
from .signing import add_signature, read_signing_key


def sign(path, key_file):
    """Checks every digest and hash of a bundle and signs it; returns the key's id in hex."""
    key = read_signing_key(key_file)
    with Bundle(path) as bundle:
        bundle.verify_digests()
    return add_signature(path, key)
