"""What objects with something to close have in common."""

import os
import threading
from typing import Any, TypeVar

from .errors import closed, invalid

_Self = TypeVar("_Self", bound="Closing")
_forks = 0  #: from the first process to this one


def _count_fork() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_count_fork)


class Closing:
    """Closed at the end of a `with` statement."""

    def close(self) -> None:
        """Overridden."""

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Use:
    """`with use as address`: one thread at a time has the address of an object of the library, and nobody frees it meanwhile. The
    thread that has it may ask again: values that are set run code of their own."""

    __slots__ = ("address", "_name", "_lock", "_count", "_forks")

    def __init__(self, name: str, address: Any) -> None:
        self.address, self._name = address, name  # 0 = closed
        self._lock, self._count, self._forks = threading.RLock(), 0, _forks

    def __enter__(self) -> Any:
        self._acquire()
        if self.address == 0:
            self._lock.release()
            raise closed(self._name)
        self._count += 1
        return self.address

    def __exit__(self, *_: object) -> None:
        self._count -= 1
        self._lock.release()

    def take(self) -> Any:
        """The address, for whoever frees it; 0 from the second time on."""
        self._acquire()
        try:
            if self._count:
                raise invalid(f"the {self._name} cannot be closed by code that runs inside one of its calls")
            address, self.address = self.address, 0
            return address
        finally:
            self._lock.release()

    def _acquire(self) -> None:
        if self._forks != _forks:  # the threads of the parent are not here to give its lock back
            self._lock, self._count, self._forks = threading.RLock(), 0, _forks
        self._lock.acquire()


class SharedUse:
    """`with use as address`: any number of threads have the address at once; who frees it waits for them."""

    __slots__ = ("address", "_name", "_changed", "_count", "_forks")

    def __init__(self, name: str, address: Any) -> None:
        self.address, self._name = address, name  # 0 = closed
        self._changed, self._count, self._forks = threading.Condition(), 0, _forks

    def _current(self) -> threading.Condition:
        if self._forks != _forks:  # as in Use
            self._changed, self._count, self._forks = threading.Condition(), 0, _forks
        return self._changed

    def __enter__(self) -> Any:
        with self._current():
            if self.address == 0:
                raise closed(self._name)
            self._count += 1
            return self.address

    def __exit__(self, *_: object) -> None:
        with self._current():
            self._count -= 1
            self._changed.notify_all()

    def take(self) -> Any:
        """The address, for whoever frees it, once no thread has it; 0 from the second time on."""
        with self._current():
            address, self.address = self.address, 0
            while self._count:
                self._changed.wait()
            return address
