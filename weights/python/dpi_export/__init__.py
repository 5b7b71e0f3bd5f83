"""Writes, reads and checks DPI bundles (weights/FORMAT.md). `Builder` for hand-written models; importers beside it."""

from .errors import BundleError
from .rows import Rows
from .builder import VERSION as __version__, Builder
from .reader import Bundle
from .executor import Executor
from .encoders import Encoder
from .encoder_sources import convert_encoders, training_stats
from .import_common import UnsupportedModelError
from .fuxictr import from_fuxictr
from .deepctr_torch import from_deepctr_torch
from .torch_import import explain, from_torch
from .onnx_import import from_onnx
from .torchrec_import import from_torchrec
from .delta import delta
from .growing import grow
from .repack import repack
from .signing import make_keys, sign
from .hot_keys import set_hot_keys

__all__ = ["BundleError", "Builder", "Bundle", "Encoder", "Executor", "Rows", "UnsupportedModelError", "__version__",
           "convert_encoders", "delta", "explain", "from_deepctr_torch", "from_fuxictr", "from_onnx", "from_torch", "from_torchrec", "grow", "make_keys", "repack",
           "set_hot_keys", "sign", "training_stats"]
