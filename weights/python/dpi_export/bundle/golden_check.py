"""The check of a written file by the package itself: its digests, and its golden rows by the executor."""

from ..errors import BundleError
from .golden import compare_golden
from .reader import Bundle


def check_golden(path, rows=True):
    """Opens a written file, checks every digest and hash and, when there are golden rows, runs them (not if `rows` is false); raises
    on any mismatch."""
    with Bundle(path) as bundle:
        bundle.verify_digests()
        if rows and bundle.golden is not None:
            failures = compare_golden(bundle)["failures"]
            if failures:
                raise BundleError("golden rows: the model as built does not compute what the training framework did: "
                                  + "; ".join(failures))
