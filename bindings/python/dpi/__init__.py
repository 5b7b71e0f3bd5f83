"""Scores bundles of click-through-rate models with libdpi.so.1, the engine that serves them.

    import dpi
    with dpi.Model("ctr.h5") as model:
        scores = model.predict(ids, dense)            # [rows, heads] float32, from arrays of ids and floats
        scores = model.predict_raw(frame)             # from a DataFrame or a dict of columns with raw values

Model, Endpoint, Batcher, Env, Cancel and the functions may be used from any number of threads at once; a Rows by one at a time. The GIL is released while the
library loads and scores. Errors are Error, by status: InvalidArgument, NotFound, Io, BadModel ... with row and feature.
"""

from .arrays import Cancel, Shared
from .batcher import Batcher, Completion
from .endpoint import Endpoint
from .env import Env, Message, default_env
from .errors import (BadModel, Cancelled, Closed, DeviceFailure, Error, Forked, Internal, InvalidArgument, Io, NoDevice, NotFound,
                     OutOfMemory, QueueFull, Timeout, Unsupported, VersionMismatch)
from .library import VERSION, build_info, devices, version
from .model import Model
from .rows import Rows
from .schema import Feature, Info

__version__ = VERSION
__all__ = ["BadModel", "Batcher", "Cancel", "Cancelled", "Closed", "Completion", "DeviceFailure", "Endpoint", "Env", "Error", "Feature", "Forked", "Info", "Internal",
           "InvalidArgument", "Io", "Message", "Model", "NoDevice", "NotFound", "OutOfMemory", "QueueFull", "Rows", "Shared", "Timeout",
           "Unsupported", "VersionMismatch", "build_info", "default_env", "devices", "version"]
