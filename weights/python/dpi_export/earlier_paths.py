"""Import paths from before the folders: `dpi_export.fuxictr` is `dpi_export.importers.fuxictr`, the same module, so code that imports the
shorter path runs on. A name that moved into another module is an attribute of its earlier one too. New modules and names get no second path."""

import importlib
import os
import sys

_SAME_NAME = {
    "bundle": "builder confine content_hash digest engine_check golden hdf5_structures hot_keys keyed_tables raw_golden reader repack rows signing tables versions writer",
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
#: earlier module, inside the package: {name: module that it is in now}
MOVED_NAMES = {
    "delta": {"VERSION": "delta.make"},
    "encoders": {"ARRAY_TYPES": "encoding.step_table", "STEPS": "encoding.step_table", "apply_rules": "encoding.rules"},
    "golden": {"check_golden": "bundle.golden_check"},
    "hot_keys": {"set_hot_keys": "bundle.set_hot_keys"},
    "import_common": {"MAX_DOUBLE_PARAMETERS": "library_run", "check_carried": "library_run", "evaluation_mode": "library_run", "run_library": "library_run",
                      "to_numpy": "library_run", "pad_bags": "padding", "random_bags": "padding", "strip_padding": "padding"},
    "import_encoders": {"check_padding": "padding"},
    "keyed_tables": {"check_key_encoder": "encoding.step_table"},
    "signing": {"sign": "bundle.sign"},
    "torch_import": {"explain": "importers.explain"},
    "trace.batch_axis": {"propagate": "trace.propagate"},
}


def keep(package):
    """Makes the earlier paths importable. A function of the package that has a module's name, as `repack` has, stays its attribute."""
    for earlier, path in MOVED.items():
        if earlier == "confine" and os.name != "posix":
            continue  # it imports `resource`
        module = importlib.import_module(f"{package.__name__}.{path}")
        sys.modules[f"{package.__name__}.{earlier}"] = module
        if not hasattr(package, earlier):
            setattr(package, earlier, module)
    for earlier, names in MOVED_NAMES.items():
        module = importlib.import_module(f"{package.__name__}.{earlier}")
        for name, path in names.items():
            setattr(module, name, getattr(importlib.import_module(f"{package.__name__}.{path}"), name))
