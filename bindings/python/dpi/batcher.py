"""Batcher: concurrent small requests in one chunk, blocking or from asyncio."""

import asyncio
import itertools
import json
import os
import threading
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Union

import numpy as np

from . import _native, arrays
from .arrays import Cancel, Shared, deadline_of
from .endpoint import Endpoint
from .errors import Closed, Forked, NotFound, Timeout, make
from .handle import Closing, SharedUse
from .library import text_of
from .model import LAYOUTS, Model, Result, made_options
from .rows import Rows


class Completion(NamedTuple):
    """How a submitted request ended well."""

    scores: Result  #: [rows, heads] float32, or (scores, logits)
    version: int  #: of the model that scored all rows
    queued: float  #: seconds from submit until its chunk ran
    run: float  #: seconds that the chunk took


class _Submitted(asyncio.Future):  # type: ignore[type-arg]
    """The future of one request. It holds the arrays that the library writes to until the completion came."""

    number = ticket = 0
    result_of: Any = None
    held: Any = None
    batcher: Any = None

    def cancel(self, *arguments: Any, **named: Any) -> bool:
        """Takes the request back, too."""
        if not self.done():
            self.batcher._take_back(self.ticket)
        return super().cancel(*arguments, **named)


class _Reader:
    """The completions' descriptor in one event loop, for as long as requests of that loop wait."""

    def __init__(self, loop: asyncio.AbstractEventLoop, fd: int, drain: Callable[[], None]) -> None:
        self.loop, self.fd, self.count = loop, os.dup(fd), 0  # its own: a number that is closed may soon be another file's
        loop.add_reader(self.fd, drain)

    def close(self) -> None:
        """In the loop's thread, or when the loop is closed."""
        if not self.loop.is_closed():
            self.loop.remove_reader(self.fd)
        os.close(self.fd)


class Batcher(Closing):
    """Merges concurrent small requests to a Model or an Endpoint into one chunk, so that a busy service computes more rows a second. A request
    on an idle machine starts at once. All methods may be called from any number of threads at once.

        with dpi.Batcher(endpoint, options={"batch.max_delay_us": 200}) as batcher:
            scores = batcher.predict(ids, dense)               # in threads
            done = await batcher.submit(ids, dense)            # in asyncio: done.scores, done.version

    of        a Model or an Endpoint; an Endpoint that is closed keeps its memory until its batchers are closed
    options   {key: value} of batcher.h: batch.max_rows, batch.max_delay_us, batch.running, batch.queue, batch.threads
    """

    def __init__(self, of: Union[Model, Endpoint], options: Optional[Mapping[str, Any]] = None) -> None:
        self._of, self._sizes, self._heads = of, 0, 0
        self._lock = threading.Lock()  # of what follows
        self._numbers = itertools.count(1)
        self._waiting: Dict[int, _Submitted] = {}
        self._readers: Dict[asyncio.AbstractEventLoop, _Reader] = {}
        held = made_options(None, options or {})
        try:
            if isinstance(of, Endpoint):
                self._use = SharedUse("batcher", of._batcher(held))
            else:
                model = _native.dpi_py_cell_retain(of._cell)
                try:
                    self._use = SharedUse("batcher", _native.dpi_batcher_create(model, held))
                finally:
                    _native.dpi_model_free(model)
        finally:
            _native.dpi_options_free(held)

    def _shape(self) -> int:
        """The address of the sizes of what it scores; NotFound as long as an endpoint has no version."""
        with self._lock:
            if not self._sizes:
                if isinstance(self._of, Endpoint):
                    with self._of.acquire() as model:
                        self._sizes, self._heads = _native.dpi_py_cell_sizes(model._cell), model.info.heads
                else:
                    self._sizes, self._heads = _native.dpi_py_cell_sizes(self._of._cell), self._of.info.heads
            return self._sizes

    # ---- blocking ----
    def predict(self, ids: Any = None, dense: Any = None, *, offsets: Any = None, weights: Any = None, shared: Optional[Shared] = None,
                rows: int = -1, layout: str = "row_major", out: Optional[np.ndarray] = None, logits: Any = None,
                timeout: Optional[float] = None, cancel: Optional[Cancel] = None) -> Result:
        """Model.predict, in one chunk with other threads' requests. QueueFull where too many wait."""
        return self._batch((ids, dense, offsets, weights), shared, (rows, layout), (out, logits, deadline_of(timeout), cancel), None)

    def predict_rows(self, rows: Rows, *, out: Optional[np.ndarray] = None, logits: Any = None, timeout: Optional[float] = None,
                     cancel: Optional[Cancel] = None) -> Result:
        """Rows.predict, in one chunk with other threads' requests. Over an Endpoint the version that the rows were made of scores them."""
        return self._raw(rows, (out, logits, deadline_of(timeout), cancel), None)

    def _batch(self, item: tuple, shared: Optional[Shared], form: tuple, rest: tuple, number: Optional[int]) -> Any:
        sizes = self._shape()
        call = _native.dpi_py_batcher_predict if number is None else _native.dpi_py_batcher_submit
        parts = (None, None, None, None, None)
        if shared is not None:
            parts = (shared.offsets, shared.ids, shared.dense, shared.bag_offsets, shared.weights)
        rows, order = form[0], LAYOUTS.get(form[1], -1)
        end = (*rest[:3], None if rest[3] is None else rest[3].flag) + (() if number is None else (number,))
        with self._use as handle:
            result = call(handle, sizes, rows, *item, order, *parts, *end)
            if result is NotImplemented:
                result = call(handle, sizes, rows, *_converted(item, ""), order, arrays.integers("shared offsets", parts[0]),
                              *_converted(parts[1:], "shared "), *end)
        if result is NotImplemented:
            raise make(_native.DPI_E_INTERNAL, message="arrays stayed of another form")
        return result

    def _raw(self, rows: Rows, rest: tuple, number: Optional[int]) -> Any:
        end = (*rest[:3], None if rest[3] is None else rest[3].flag) + (() if number is None else (number,))
        self._shape()
        with self._use as handle, rows._use as held:
            return _native.dpi_py_batcher_rows(handle, held, self._heads, *end)

    # ---- asyncio ----
    def submit(self, ids: Any = None, dense: Any = None, *, offsets: Any = None, weights: Any = None, shared: Optional[Shared] = None,
               rows: int = -1, layout: str = "row_major", out: Optional[np.ndarray] = None, logits: Any = None,
               timeout: Optional[float] = None, cancel: Optional[Cancel] = None) -> "asyncio.Future[Completion]":
        """Leaves a request with the batcher and returns an awaitable of its Completion, in the running event loop. Arguments as in predict. The
        arrays given may change at once; `out` and `logits` are written until the future is done. Cancelling the future, or the task that
        awaits it, takes the request back."""
        rest = (out, logits, deadline_of(timeout), cancel)
        return self._submit(lambda number: self._batch((ids, dense, offsets, weights), shared, (rows, layout), rest, number))

    def submit_rows(self, rows: Rows, *, out: Optional[np.ndarray] = None, logits: Any = None, timeout: Optional[float] = None,
                    cancel: Optional[Cancel] = None) -> "asyncio.Future[Completion]":
        """submit for raw rows, which may be cleared and filled again at once."""
        return self._submit(lambda number: self._raw(rows, (out, logits, deadline_of(timeout), cancel), number))

    def _submit(self, call: Callable[[int], Any]) -> "asyncio.Future[Completion]":
        future = _Submitted(loop=asyncio.get_running_loop())
        future.batcher, future.number = self, next(self._numbers)
        self._wait_for(future)  # before the submit: another loop's thread may take the completion at once
        try:
            future.ticket, future.result_of, future.held = call(future.number)
        except BaseException:
            with self._lock:
                self._waiting.pop(future.number, None)
            self._unread(future.get_loop())
            raise
        return future

    def _wait_for(self, future: _Submitted) -> None:
        loop = future.get_loop()
        with self._use as handle, self._lock:
            reader = self._readers.get(loop)
            if reader is None:
                reader = self._readers[loop] = _Reader(loop, _native.dpi_batcher_fd(handle), self._drain)
            reader.count += 1
            self._waiting[future.number] = future

    def _unread(self, loop: asyncio.AbstractEventLoop) -> None:
        """One request less of that loop, in its thread."""
        with self._lock:
            reader = self._readers[loop]
            reader.count -= 1
            if reader.count == 0:
                del self._readers[loop]
                reader.close()

    def _take_back(self, ticket: int) -> None:
        try:
            with self._use as handle:
                _native.dpi_batcher_cancel(handle, ticket)
        except (NotFound, Closed):  # it is done
            pass

    def _drain(self) -> int:
        """Takes completions as long as there are some; returns how many."""
        taken = 0
        while True:
            try:
                with self._use as handle:
                    done = _native.dpi_py_batcher_poll(handle, 0)
            except Closed:
                return taken
            for one in done:
                self._hand_on(*one)
            taken += len(done)
            if not done:
                return taken

    def _hand_on(self, number: int, version: int, queued_ns: int, run_ns: int, failed: Optional[Exception]) -> None:
        with self._lock:
            future = self._waiting.pop(number)
        try:
            future.get_loop().call_soon_threadsafe(self._ended, future, version, queued_ns / 1e9, run_ns / 1e9, failed)
        except RuntimeError:  # the loop is closed: nobody asks
            self._unread(future.get_loop())

    def _ended(self, future: _Submitted, version: int, queued: float, run: float, failed: Optional[Exception]) -> None:
        self._unread(future.get_loop())
        if not future.done():
            if failed is not None:
                future.set_exception(failed)
            else:
                future.set_result(Completion(future.result_of, version, queued, run))
        future.held = None

    # ---- its life ----
    def status(self) -> Dict[str, Any]:
        """What it is and counts: dpi_batcher_status_json."""
        with self._use as handle:
            return dict(json.loads(text_of(lambda buf, size: _native.dpi_batcher_status_json(handle, buf, size))))

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._use.address == 0

    def close(self, grace: Optional[float] = 0) -> None:
        """Later calls raise Closed. What waits has `grace` seconds to finish (None: all it takes) and is cancelled then; what runs is finished. Every
        future of submit gets its end, in its own loop. Closing again does nothing."""
        try:
            with self._use as handle:
                try:
                    _native.dpi_batcher_close(handle, deadline_of(grace))
                except Timeout:  # some were cancelled
                    pass
                self._drain()
        except Forked:  # the parent's
            pass
        except Closed:
            return
        handle = self._use.take()
        if handle:
            _native.dpi_batcher_free(handle)
            if self._sizes:
                _native.dpi_py_cell_free(self._sizes)
            if isinstance(self._of, Endpoint):
                self._of._give()

    def __del__(self) -> None:
        if hasattr(self, "_use"):
            self.close()


def _converted(values: Any, prefix: str) -> List[Any]:
    """The arrays of a part, of the library's types."""
    ids, dense, offsets, weights = values
    return [arrays.integers(prefix + "ids", ids), arrays.floats(prefix + "dense", dense), arrays.integers(prefix + "offsets", offsets),
            arrays.floats(prefix + "weights", weights)]
