"""Module paths from before the folders: `dpi_export.fuxictr` is `dpi_export.importers.fuxictr`, the same module, so code that imports the
shorter path runs on. New modules get no second path."""

import importlib
import sys

_SAME_NAME = {
    "bundle": "builder content_hash digest engine_check golden hdf5_structures hot_keys keyed_tables raw_golden reader repack rows signing tables versions writer",
    "encoding": "cells fitted_numbers fuxictr_encoders growing murmur3 sklearn_encoders vocabularies",
    "importers": "ctr_blocks deepctr_torch fuxictr onnx_import reparametrised torch_compositions torch_import torch_modules torchrec_import traced_libraries wrapped",
    "ops": "batch conditioning executor graph jumps numpy_ops shapes",
}
_RENAMED = {
    "delta_rows": "delta.rows", "delta_schema": "delta.schema", "encoder_sources": "encoding.sources", "import_common": "importers.common",
    "import_encoders": "importers.encoder_checks", "import_run": "importers.run", "ops_api": "ops.api",
}
#: earlier path -> path, both inside the package
MOVED = {**{name: f"{folder}.{name}" for folder, names in _SAME_NAME.items() for name in names.split()}, **_RENAMED}


def keep(package):
    """Makes the earlier paths importable. A function of the package that has a module's name, as `repack` has, stays its attribute."""
    for earlier, path in MOVED.items():
        module = importlib.import_module(f"{package.__name__}.{path}")
        sys.modules[f"{package.__name__}.{earlier}"] = module
        if not hasattr(package, earlier):
            setattr(package, earlier, module)
