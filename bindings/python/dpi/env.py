"""What models share: worker threads, and where the library's messages go."""

import struct
from typing import Iterator, NamedTuple

from . import _native
from .errors import Closed
from .handle import Closing, Use
from .library import text_of

DEBUG, INFO, WARN, ERROR, OFF = "debug", "info", "warn", "error", "off"
_LEVELS = {DEBUG: _native.DPI_LOG_DEBUG, INFO: _native.DPI_LOG_INFO, WARN: _native.DPI_LOG_WARN, ERROR: _native.DPI_LOG_ERROR,
           OFF: _native.DPI_LOG_OFF}
_NAMES = {number: name for name, number in _LEVELS.items()}


class Message(NamedTuple):
    """A message of the library."""

    level: str  #: "debug", "info", "warn" or "error"
    component: str  #: "load", "device", "plugin", "tuning", "graphs", "contexts" or "log"
    text: str


class Env(Closing):
    """Worker threads and messages that models share. A model keeps the environment it was loaded in, also past close(). All methods
    may be called from any number of threads at once.

    threads  int, threads that one call may use at most, the caller's included; 0 = what its model's option asks for
    log      str, the least level of messages that are kept for messages(): "debug", "info", "warn", "error" or "off"
    """

    def __init__(self, threads: int = 0, log: str = WARN) -> None:
        self._use = Use("environment", _native.dpi_env_create())
        try:
            self.set("threads", str(threads))
            self.set_log(log)
        except BaseException:
            self.close()
            raise

    @classmethod
    def _of_process(cls) -> "Env":
        env = cls.__new__(cls)
        env._use = Use("environment", None)  # as the library calls it
        return env

    def set(self, key: str, value: object) -> None:
        """Sets a key that dpi.h lists under dpi_env_set: threads, spin_us."""
        with self._use as handle:
            _native.dpi_env_set(handle, key, str(value))

    def set_log(self, level: str) -> None:
        """Sets the least level of messages that are kept."""
        with self._use as handle:
            _native.dpi_env_set_log(handle, None, None, _LEVELS.get(level, -1))

    def give_to(self, options: int) -> None:
        """Makes this the environment of the options at that address."""
        with self._use as handle:
            _native.dpi_options_set_env(options, handle)

    def messages(self) -> Iterator[Message]:
        """Takes the messages that there are, the oldest first; the library keeps the last 256."""
        buf, level = bytearray(4096), bytearray(4)  # no text of the library is longer
        while True:
            try:
                with self._use as handle:
                    n = _native.dpi_env_poll_log(handle, buf, len(buf), level)
                    text, number = buf[: max(n - 1, 0)].decode(errors="replace"), struct.unpack("=i", level)[0]
            except Closed:
                return
            if n == 0:
                return
            component, _, rest = text.partition(": ")
            yield Message(_NAMES.get(number, str(number)), component, rest)

    def metrics(self, *, openmetrics: bool = False, fine: bool = False) -> str:
        """Counters, latencies and sizes of all models and endpoints of the environment, for a monitoring system: Prometheus' text format 0.0.4,
        or OpenMetrics 1.0. metrics.h lists the families. fine: every bound of the histograms, 16 to an octave instead of 4."""
        flags = (_native.DPI_METRICS_OPENMETRICS if openmetrics else 0) | (_native.DPI_METRICS_FINE if fine else 0)
        with self._use as handle:
            return text_of(lambda buf, cap: _native.dpi_metrics(handle, flags, buf, cap))

    def close(self) -> None:
        """Drops this handle; models loaded in the environment keep it. Closing again does nothing, and the process's stays."""
        if self._use.address is None:
            return
        handle = self._use.take()
        if handle:
            _native.dpi_env_free(handle)

    def __del__(self) -> None:
        if hasattr(self, "_use"):
            self.close()


#: The environment of models that are loaded without one.
default_env = Env._of_process()
