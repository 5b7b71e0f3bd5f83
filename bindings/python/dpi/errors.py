"""What the library refuses, as one exception class per status."""

from . import _native


class Error(Exception):
    """A call that failed. Every status has its subclass; a status of a newer library is an Error itself.

    code         int, the C API's number of the status (DPI_E_...)
    row          int, offending row of the batch, -1 if none; a row of the shared part when in_shared; of table_lookup the key's number
    feature      int, index of the feature in Model.features, -1 if none
    native_code  int, errno or the device's own error, 0 if none
    in_shared    bool, row counts shared rows
    message      str, one line
    """

    def __init__(self, code: int, row: int = -1, feature: int = -1, native_code: int = 0, in_shared: bool = False, message: str = ""):
        super().__init__(message)
        self.code, self.row, self.feature = code, row, feature
        self.native_code, self.in_shared, self.message = native_code, bool(in_shared), message

    def __reduce__(self):  # across processes
        return make, (self.code, self.row, self.feature, self.native_code, self.in_shared, self.message)

    @property
    def status(self) -> str:
        """The status's name in the C API: "DPI_E_IO"."""
        return _native.dpi_status_name(self.code)

    def __str__(self) -> str:
        return f"{self.status}: {self.message}"


class InvalidArgument(Error, ValueError):
    """The caller's input: length, offset, id, NaN; names row and feature where it can."""


class NotFound(Error):
    """No such file, feature, table or option; a row that is not in the host tier yet (table.NAME.miss=fail)."""


class Io(Error):
    """The file exists but cannot be read; native_code is errno."""


class BadModel(Error):
    """Not a bundle, damaged, or inconsistent."""


class Unsupported(Error):
    """Well-formed, but of a newer format or an option that this build lacks."""


class OutOfMemory(Error, MemoryError):
    """Host or device memory; models are forecast before their tables are read."""


class DeviceFailure(Error):
    """The device failed; native_code is its error."""


class NoDevice(Error):
    """The device asked for cannot be used; the text says why."""


class Timeout(Error):
    """The timeout passed."""


class Cancelled(Error):
    """The Cancel was set."""


class QueueFull(Error):
    """The host tier fetches as many rows as it may (options store.*), or as many requests wait in a batcher (batch.queue): try again."""


class Closed(Error):
    """The object was closed before the call."""


class Forked(Error):
    """The model was loaded by the parent process; load it in the child instead."""


class VersionMismatch(Error):
    """Package and library do not fit; the text has both versions and the library's path."""


class Internal(Error):
    """A defect of the library; please report the text."""


_CLASSES = {_native.DPI_E_INVALID_ARGUMENT: InvalidArgument, _native.DPI_E_NOT_FOUND: NotFound, _native.DPI_E_IO: Io,
            _native.DPI_E_BAD_MODEL: BadModel, _native.DPI_E_UNSUPPORTED: Unsupported, _native.DPI_E_OUT_OF_MEMORY: OutOfMemory,
            _native.DPI_E_DEVICE: DeviceFailure, _native.DPI_E_NO_DEVICE: NoDevice, _native.DPI_E_TIMEOUT: Timeout,
            _native.DPI_E_CANCELLED: Cancelled, _native.DPI_E_QUEUE_FULL: QueueFull, _native.DPI_E_CLOSED: Closed,
            _native.DPI_E_FORKED: Forked, _native.DPI_E_VERSION: VersionMismatch, _native.DPI_E_INTERNAL: Internal}


def make(code: int, row: int = -1, feature: int = -1, native_code: int = 0, in_shared: bool = False, message: str = "") -> Error:
    """The exception of a status, of its own class."""
    return _CLASSES.get(code, Error)(code, row, feature, native_code, in_shared, message)


def invalid(message: str, row: int = -1, feature: int = -1, in_shared: bool = False) -> Error:
    """A refusal of this package, in the library's words."""
    return make(_native.DPI_E_INVALID_ARGUMENT, row, feature, 0, in_shared, message)


def closed(what: str) -> Error:
    """Use of a closed object."""
    return make(_native.DPI_E_CLOSED, message=f"the {what} is closed")
