"""Makes FuxiCTR's and DeepCTR-Torch's packages importable without their training-time dependencies.

FuxiCTR's preprocessing wants polars and ray, DeepCTR-Torch asks the network for a newer version while it is imported.
Neither matters to a model's forward, so empty modules stand in. Import this file before either library.
"""

import importlib.machinery
import logging
import sys
import types
import warnings

warnings.filterwarnings("ignore")


class _Empty(types.ModuleType):
    """A module whose every attribute is an empty class."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        value = type(name, (), {})
        setattr(self, name, value)
        return value


def _stand_in(name):
    module = _Empty(name)
    module.__path__ = []
    module.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
    sys.modules[name] = module
    parent, _, leaf = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], leaf, module)


def prepare():
    """Puts stand-ins in place for what is not installed."""
    logging.disable(logging.INFO)
    for name in ("polars", "ray", "ray.data", "ray.data.datasource", "ray.data.datasource.filename_provider", "requests"):
        root = name.partition(".")[0]
        if root in sys.modules and not isinstance(sys.modules[root], _Empty):
            continue
        try:
            if root == "requests":  # used for the version question only
                raise ImportError
            __import__(name)
        except ImportError:
            _stand_in(name)
    offline = sys.modules["requests"]
    if isinstance(offline, _Empty):
        offline.codes = types.SimpleNamespace(ok=200)
        offline.get = lambda *_args, **_keywords: types.SimpleNamespace(status_code=0)


prepare()
