"""Every importer has what the protocol says: methods with its parameters, and the attributes that export() reads."""

import inspect

import pytest

from dpi_export.importers.deepctr_torch import DeepctrImport
from dpi_export.importers.fuxictr import FuxiImport
from dpi_export.importers.importer import Importer, ImporterKind, TracedImporter
from dpi_export.importers.onnx_import import OnnxImport
from dpi_export.importers.torch_import import TorchImport
from dpi_export.importers.traced_libraries import DeepctrTrace, FuxiTrace

BY_HAND, TRACED = [FuxiImport, DeepctrImport], [TorchImport, OnnxImport, FuxiTrace, DeepctrTrace]


def methods(protocol):
    return {name: member for name, member in inspect.getmembers(protocol, inspect.isfunction) if not name.startswith("_")}


def differences(kind, protocol):
    """Names of what `kind` lacks, and methods that cannot be called as the protocol says."""
    found = [name for name in ("library",) if not isinstance(getattr(kind, name, None), str)]
    for name, member in methods(protocol).items():
        own = getattr(kind, name, None)
        if own is None:
            found.append(name)
            continue
        given, wanted = (list(inspect.signature(f).parameters.values())[1:] for f in (own, member))
        more = [p for p in given[len(wanted):] if p.default is p.empty]
        if [(p.name, p.default) for p in given[:len(wanted)]] != [(p.name, p.default) for p in wanted] or more:
            found.append(name)
    return found


@pytest.mark.parametrize("kind, protocol", [(k, Importer) for k in BY_HAND] + [(k, TracedImporter) for k in TRACED])
def test_an_importer_has_what_the_protocol_says(kind, protocol):
    assert len(methods(protocol)) >= 6
    assert differences(kind, protocol) == []


@pytest.mark.parametrize("kind", BY_HAND + TRACED)
def test_it_is_made_as_export_makes_it(kind):
    wanted = [p.name for p in inspect.signature(ImporterKind.__call__).parameters.values() if p.kind is p.KEYWORD_ONLY]
    given = inspect.signature(kind.__init__).parameters
    takes_all = any(p.kind is p.VAR_KEYWORD for p in given.values())
    assert len(wanted) == 5 and (takes_all or set(wanted) <= set(given))


def test_what_differs_is_found():
    class Short(FuxiImport):
        library = None
        put = None

        def run(self, rows):
            """Without a type."""

        def columns(self, rows, more):
            """One that the course does not give."""

    assert differences(Short, Importer) == ["library", "columns", "put", "run"]
