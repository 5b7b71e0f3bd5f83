"""A second way to a trace: torch.export makes a graph of the model with a symbolic number of rows, and the graph is run node by node while
it is recorded. What it proves of the number of rows comes beside what the two traces show; the lowering is the same.
"""

import contextlib
import os
import re

from ..errors import UnsupportedModelError
from ..library_run import evaluation_mode
from .composites import written_out
from .recurrent import leaves

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


class Exported:
    """A model's graph; called as Forward is. `at` is (layer, "file:line") of what runs, for the recorder."""

    def __init__(self, model, forward, tensors):
        self.at = self._names = None
        first = {id(m): path for path, m in model.named_modules()}
        self._paths = {path: first[id(m)] for path, m in model.named_modules(remove_duplicate=False)}  # a shared layer has several
        self._graph = self._export(model, forward, tensors)

    def _export(self, model, forward, tensors):
        import torch

        wrapper = _wrapper(model, forward)
        rows = torch.export.Dim("rows", min=2)
        try:
            with evaluation_mode(model), leaves(model), torch.no_grad(), written_out():
                self._names = [name for name, _ in forward(model, [t.clone() for t in tensors])]
                program = torch.export.export(wrapper, tuple(tensors), dynamic_shapes={"tensors": tuple({0: rows} for _ in tensors)}, strict=False)
        except Exception as e:  # noqa: BLE001  (torch.export has many kinds of errors, and their text says where)
            raise UnsupportedModelError(f"{type(model).__name__}: torch.export refuses it: {type(e).__name__}: "
                                        f"{_first_lines(str(e))}") from e
        module = program.module()
        self.tensors = {id(t): name.removeprefix("model.") for name, t in [*module.named_parameters(), *module.named_buffers()]}
        return module

    def __call__(self, _model, tensors):
        """[(name, tensor)] of the model's outputs."""
        import torch

        outer = self

        class Replay(torch.fx.Interpreter):
            """Says which node runs."""

            def run_node(self, n):
                module, line = _place(n)
                outer.at = outer._paths.get(module, module), line
                try:
                    return super().run_node(n)
                finally:
                    outer.at = None

        results = Replay(self._graph).run(*tensors)
        results = list(results) if isinstance(results, (list, tuple)) else [results]
        return list(zip(self._names, results))


def _wrapper(model, forward):
    import torch

    class Wrapper(torch.nn.Module):
        """The model, called with its tensors in order."""

        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, *tensors):
            """The outputs in order."""
            return tuple(t for _, t in forward(self.model, list(tensors)))

    return Wrapper().eval()


def _first_lines(text):
    return " ".join(line.strip() for line in text.splitlines() if line.strip())[:300]


def _place(node):
    """(layer, "file:line") that a node of the graph came from."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    module = (stack[-1][0] if stack else "").removeprefix("L['self'].").removeprefix("model").lstrip(".")
    if not module and stack:
        kind = stack[-1][1]
        module = kind.rsplit(".", 1)[-1] if isinstance(kind, str) else kind.__name__
    frames = [f for f in _FRAME.findall(node.meta.get("stack_trace") or "") if f"{os.sep}torch{os.sep}" not in f[0] and _OURS not in f[0]]
    return module, f"{os.path.basename(frames[-1][0])}:{frames[-1][1]}" if frames else ""


_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def available():
    """True where torch has torch.export with symbolic dims."""
    import torch

    return hasattr(torch, "export") and hasattr(torch.export, "Dim")


def wanted(front):
    """Which way a trace is made: "trace" where torch can make operators functional, else "export", unless one is asked for."""
    if front not in (None, "trace", "export"):
        raise ValueError(f"front is {front!r}, expected 'trace' or 'export'")
    if front == "export" and not available():
        raise ValueError("front='export' needs torch 2.1 or newer")
    if front is None:
        with contextlib.suppress(ImportError):
            from .capture import functionalizer

            functionalizer()
            return "trace"
        return "export"
    return front
