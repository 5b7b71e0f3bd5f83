"""A bundle with another hot-key list (hot_keys.py)."""

import os

from ..errors import BundleError
from .hot_keys import unpack
from .reader import Bundle
from .writer import write_bundle


class _WithLists:
    """A Bundle with other hot-key lists; everything else passes through."""

    def __init__(self, bundle, lists):
        self._bundle, self.hot_lists = bundle, lists

    def __getattr__(self, key):
        return getattr(self._bundle, key)


def set_hot_keys(bundle, target, path, sign=None):
    """Writes the bundle to `target` with the hot-key list of the file `path`, which `dpi store hot-keys` made for it, in place of any that
    it has; None: without one. Signatures do not go with it: `sign` is a key file."""
    with Bundle(bundle) as source:
        source.verify_digests()
        lists = {}
        if path is not None:
            try:
                with open(path, "rb") as f:
                    data = f.read()
            except OSError as e:
                raise BundleError(f"{path}: {e.strerror}") from None
            lists = unpack(data, source.identities(), os.fspath(path))
        return write_bundle(_WithLists(source, lists), target, check=False, sign=sign)
