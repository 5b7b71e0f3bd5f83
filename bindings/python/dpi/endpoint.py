"""Endpoint: a named place that always answers with its current version."""

import json
import os
import threading
from typing import Any, Dict, List, Mapping, Optional, Union

from . import _native
from .arrays import deadline_of
from .env import Env
from .errors import Closed, Timeout, closed
from .handle import Closing, SharedUse
from .library import text_of
from .model import Model, Result, made_options

_SLICE = 0.02  # seconds of a wait, after which others may close


class Endpoint(Closing):
    """A named place that always answers with its current version: load() builds the next one beside it and switches when it has passed every
    check, while predict() goes on. All methods may be called from any number of threads at once.

        with dpi.Endpoint("ctr", device="cpu") as ctr:
            ctr.follow("/srv/models/ctr")        # v0001.h5, v0002.h5 ..., each put there by rename
            ctr.wait(1)
            scores = ctr.predict(ids, dense)

    name      one endpoint of a name in each environment
    env       an Env; None = the process's
    options   those of all its models, as Model takes them, and as keywords: device="cpu"

    The version that scored last stays until the next call or close().
    """

    def __init__(self, name: str, *, env: Optional[Env] = None, options: Optional[Mapping[str, Any]] = None, **more: Any) -> None:
        held = made_options(env, {**(options or {}), **more})
        try:
            self._use = SharedUse("endpoint", _native.dpi_endpoint_create(name, held))
        finally:
            _native.dpi_options_free(held)
        self._lock = threading.Lock()  # of the next
        self._batchers, self._left = 0, 0  # batchers over it, and the handle that the last of them frees after close()
        self._model: Optional[Model] = None  # the version that scored last

    def set(self, key: str, value: object) -> None:
        """Sets a key that endpoint.h lists under dpi_endpoint_set: keep_seconds, golden, warm_up_rows, follow_ms, back_off_ms,
        update.bytes_per_second, update.spare_rows, record.path, record.share, record.bytes, record.bytes_per_second."""
        with self._use as handle:
            _native.dpi_endpoint_set(handle, key, str(value))

    def load(self, path: Union[str, "os.PathLike[str]"], number: int = 0) -> None:
        """Loads a bundle beside the version that serves and switches to it. What fails leaves everything as it was. number: what the version
        is called, 0 = one more than any that served."""
        with self._use as handle:
            _native.dpi_endpoint_load(handle, os.fsencode(path), number)

    def rollback(self) -> None:
        """The version before the current one serves again; NotFound when none is kept."""
        with self._use as handle:
            _native.dpi_endpoint_rollback(handle)

    def follow(self, folder: Union[str, "os.PathLike[str]"]) -> None:
        """Loads the newest v<number>.h5 of a folder from now on, soon after it comes there by rename."""
        with self._use as handle:
            _native.dpi_endpoint_follow(handle, os.fsencode(folder))

    def unfollow(self) -> None:
        """Ends that; a load that runs is finished."""
        with self._use as handle:
            _native.dpi_endpoint_unfollow(handle)

    def subscribe(self, source: str, folder: Union[str, "os.PathLike[str]"]) -> None:
        """Follows a folder and brings deltas there from a stream, kafka://host:port/topic; package libdpi1-kafka. What dpi_endpoint_subscribe says."""
        with self._use as handle:
            _native.dpi_endpoint_subscribe(handle, os.fsencode(source), os.fsencode(folder))

    def unsubscribe(self) -> None:
        """Ends that; the folder is followed on."""
        with self._use as handle:
            _native.dpi_endpoint_unsubscribe(handle)

    @property
    def version(self) -> int:
        """Number of the current version, 0 = none."""
        with self._use as handle:
            return int(_native.dpi_endpoint_version(handle))

    def wait(self, number: int, timeout: Optional[float] = None) -> None:
        """Returns when a version of this number or a higher one serves; Timeout after so many seconds."""
        end = deadline_of(timeout)
        while True:
            until = deadline_of(_SLICE)
            last = end != 0 and end <= until
            try:
                with self._use as handle:
                    _native.dpi_endpoint_wait(handle, number, end if last else until)
                return
            except Timeout:
                if last:
                    raise

    def acquire(self) -> Model:
        """The current version as a Model, which works until it is closed, whatever the endpoint loads. Its number is info.version."""
        with self._use as handle:
            return Model._of(_native.dpi_endpoint_acquire(handle))

    def _current(self) -> Model:
        with self._lock:
            if self._model is None or self._model.info.version != self.version:
                model, old = self.acquire(), self._model
                self._model = model
                if old is not None:
                    old.close()
            return self._model

    def _scored(self, call: Any) -> Result:
        while True:
            model = self._current()
            try:
                return call(model)
            except Closed:  # by another thread, which found a newer version
                if self._use.address == 0:
                    raise closed("endpoint") from None

    def predict(self, *arguments: Any, **named: Any) -> Result:
        """Model.predict on the current version; NotFound as long as there is none."""
        return self._scored(lambda model: model.predict(*arguments, **named))

    def predict_raw(self, *arguments: Any, **named: Any) -> Result:
        """Model.predict_raw on the current version, read by its own encoders."""
        return self._scored(lambda model: model.predict_raw(*arguments, **named))

    def _batcher(self, options: int) -> int:
        """The handle of a batcher, which keeps this endpoint's memory until _give()."""
        with self._use as handle:
            made = _native.dpi_batcher_create_endpoint(handle, options)
            with self._lock:
                self._batchers += 1
            return int(made)

    def _give(self) -> None:
        with self._lock:
            self._batchers -= 1
            handle = 0 if self._batchers else self._left
        if handle:
            _native.dpi_endpoint_free(handle)

    def status(self) -> Dict[str, Any]:
        """The endpoint's versions, what was loaded and refused, and the folder that it follows: dpi_endpoint_status_json."""
        with self._use as handle:
            return dict(json.loads(text_of(lambda buf, size: _native.dpi_endpoint_status_json(handle, buf, size))))

    def slow(self) -> List[Dict[str, Any]]:
        """Model.slow over all versions."""
        with self._use as handle:
            return list(json.loads(text_of(lambda buf, size: _native.dpi_endpoint_slow_json(handle, buf, size))))

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._use.address == 0

    def close(self) -> None:
        """Later calls raise Closed. Waits for calls that run, a load among them. Acquired models stay. Batchers
        work on, and the endpoint's memory goes with the last of them. Closing again does nothing."""
        handle = self._use.take()
        if handle:
            with self._lock:
                self._left = handle if self._batchers else 0
                if self._model is not None:
                    self._model.close()
            if not self._left:
                _native.dpi_endpoint_free(handle)

    def __del__(self) -> None:
        if hasattr(self, "_use") and hasattr(self, "_model"):
            self.close()
