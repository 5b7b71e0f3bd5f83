"""The loaded libdpi.so.1: version, build, devices, texts."""

import json
import os
from typing import Any, Callable, Dict, List, Optional

import numpy as np

from . import _native
from .errors import make

#: Version of this package, that of the header that it was compiled with.
VERSION = f"{_native.DPI_VERSION_MAJOR}.{_native.DPI_VERSION_MINOR}.{_native.DPI_VERSION_PATCH}"


def version() -> str:
    """Version of the library that is loaded: "1.2.0"."""
    number = _native.dpi_version()
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def build_info() -> Dict[str, Any]:
    """Of the loaded library: version, compiler, backends, what is linked in, path of the file."""
    return json.loads(_native.dpi_build_info_json())


def devices(backend_dir: Optional[str] = None) -> List[Dict[str, Any]]:
    """The backends ref, cpu, cuda, each usable or refused with its reason. backend_dir: absolute folder where plugins are looked for
    first."""
    folder = None if backend_dir is None else os.fspath(backend_dir)
    return json.loads(text_of(lambda buf, cap: _native.dpi_devices_json(folder, buf, cap)))


def text_of(call: Callable[[Any, int], int]) -> str:
    """The text of a function that returns the bytes it needs; it may grow between two calls."""
    buf = bytearray(4096)
    while True:
        needed = call(buf, len(buf))
        if needed <= len(buf):
            return buf[: max(needed - 1, 0)].decode()
        buf = bytearray(needed + 1024)


def check_version() -> None:
    """Raises VersionMismatch unless the library has what this package was compiled against."""
    major, minor = divmod(_native.dpi_version() // 100, 100)
    if major != _native.DPI_VERSION_MAJOR or minor < _native.DPI_VERSION_MINOR:
        raise make(_native.DPI_E_VERSION, message=f"package {VERSION} with library {version()}, {build_info().get('path')}")


def _empty(rows: int, heads: int) -> np.ndarray:
    return np.empty((rows, heads), np.float32)


_native.dpi_py_setup(make, _empty)
check_version()
