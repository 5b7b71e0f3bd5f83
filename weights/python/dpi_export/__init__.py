"""Writes, reads and checks DPI bundles (weights/FORMAT.md). `Builder` for hand-written models; importers beside it."""

import sys

from . import earlier_paths, encoders
from .errors import BundleError, UnsupportedModelError
from .bundle.rows import Rows
from .bundle.builder import VERSION as __version__, Builder
from .bundle.reader import Bundle
from .ops.executor import Executor
from .encoding.encoder import Encoder
from .encoding.sources import convert_encoders, training_stats
from .importers.fuxictr import from_fuxictr
from .importers.deepctr_torch import from_deepctr_torch
from .importers.explain import explain
from .importers.torch_import import from_torch
from .importers.onnx_import import from_onnx
from .importers.torchrec_import import from_torchrec
from .delta import delta
from .encoding.growing import grow
from .bundle.repack import repack
from .bundle.sign import sign
from .bundle.signing import make_keys
from .bundle.set_hot_keys import set_hot_keys

__all__ = ["BundleError", "Builder", "Bundle", "Encoder", "Executor", "Rows", "UnsupportedModelError", "__version__",
           "convert_encoders", "delta", "explain", "from_deepctr_torch", "from_fuxictr", "from_onnx", "from_torch", "from_torchrec", "grow", "make_keys", "repack",
           "set_hot_keys", "sign", "training_stats"]

earlier_paths.keep(sys.modules[__name__])
