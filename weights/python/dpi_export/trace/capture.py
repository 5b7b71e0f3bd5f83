"""Runs a model once and records every ATen operator that it calls, with the layer and the source line that called it.

Operators that write in place and views come out as functional ones (`functionalize`), so a recorded value never changes.
"""

import contextlib
import os
import sys

from ..errors import UnsupportedModelError
from ..library_run import evaluation_mode
from .composites import written_out
from .ir import Node, Trace
from .kept_rows import counted, instead, remember
from .own_writes import OwnWrites
from .reads import check_read, guarded
from .recurrent import leaves
from .state import check_not_read, kept

#: Operators that ask a tensor for its dims and type only.
_BLANK = ("new_zeros", "new_ones", "new_full", "zeros_like", "ones_like", "full_like")
_FAILURES = (RuntimeError, TypeError, AttributeError, IndexError, KeyError, AssertionError)
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def _recorder_class():
    """The dispatch mode; made here because torch is imported only where an importer is called."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Recorder(TorchDispatchMode):
        """Appends a Node for each call."""

        def __init__(self, paths, names, rows, graph):
            super().__init__()
            self.nodes, self.of, self.paths, self.names, self.rows, self.graph = [], {}, paths, names, rows, graph
            self.kept = set()  #: id(node) of those that hold rows kept by a mask
            self.writes = OwnWrites()

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            op, value = instead(self, str(func), args, self.rows) or (self.writes.functional(self, func, args) or str(func), None)
            value = func(*args, **kwargs) if value is None else value
            record(self, op, args, kwargs, value)
            return value

    return Recorder


def record(recorder, op, args, kwargs, value):
    """One call as a Node, and its results as Nodes of their own where they are several."""
    module, line = recorder.graph.at if recorder.graph is not None and recorder.graph.at else _place(recorder.paths)
    held, held_kwargs = _nodes(recorder, args), _nodes(recorder, kwargs)
    node = Node(op, held, held_kwargs, value, module, line)
    node.varies = any(n.varies for n in node.inputs()) and node.base not in _BLANK
    check_read(node)
    remember(recorder, node)
    recorder.nodes.append(node)
    _own(recorder, value, node)


def _own(recorder, value, node):
    """Remembers which Node each tensor is of. The Nodes keep the tensors alive, so an id stands for one tensor."""
    import torch

    if isinstance(value, torch.Tensor):
        recorder.of[id(value)] = node
        return
    if isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            if isinstance(item, torch.Tensor):
                part = Node("getitem", (node, i), {}, item, node.module, node.line, node.varies)
                remember(recorder, part)
                recorder.nodes.append(part)
                recorder.of[id(item)] = part


def _nodes(recorder, held):
    """Arguments with Nodes in place of tensors; a tensor that no call gave is a constant of the model."""
    import torch

    if isinstance(held, torch.Tensor):
        node = recorder.of.get(id(held))
        if node is None:
            node = recorder.of[id(held)] = Node("constant", value=held, name=recorder.names.get(id(held)))
            recorder.nodes.append(node)
        recorder.writes.check(node)
        return node
    if isinstance(held, (list, tuple)):
        return tuple(_nodes(recorder, item) for item in held)
    if isinstance(held, dict):
        return {key: _nodes(recorder, item) for key, item in held.items()}
    return held


def _place(paths):
    """(path of the innermost layer, "file:line" of the innermost line outside torch) that called the operator."""
    import torch

    libraries = (os.path.dirname(torch.__file__) + os.sep, os.sep + "functorch" + os.sep)
    module = line = None
    frame = sys._getframe(2)
    while frame is not None and (module is None or line is None):
        file = frame.f_code.co_filename
        if line is None and libraries[0] not in file and libraries[1] not in file and not file.startswith((_OURS, "<")):
            line = f"{os.path.basename(file)}:{frame.f_lineno}"
        if module is None:
            module = paths.get(id(frame.f_locals.get("self")))
            if module is not None and file.startswith(_OURS):
                break  # a node of a graph, which no line of a program made
        frame = frame.f_back
    return module or "", line or ""


def functionalizer():
    """torch's functionalize; ImportError where it has none."""
    try:
        from torch.func import functionalize
    except ImportError:  # torch 1.13
        from functorch import functionalize
    return functionalize


@contextlib.contextmanager
def _slow_paths(model):
    """torch.nn's transformer layers run as one fused operator unless gradients are wanted; with gradients they run by their formulas."""
    import torch

    frozen = [p for p in model.parameters() if not p.requires_grad and p.is_floating_point()]
    for p in frozen:
        p.requires_grad_(True)
    try:
        with torch.enable_grad():
            yield
    finally:
        for p in frozen:
            p.requires_grad_(False)


@contextlib.contextmanager
def _new_tensor():
    """Tensor.new_tensor under functionalize: torch 1.13 asks the wrapper for a device, which it does not have."""
    import torch

    def new_tensor(self, data, *, dtype=None, device=None, requires_grad=False):
        return torch.tensor(data, dtype=dtype or self.dtype, device=device or self.device, requires_grad=requires_grad)

    torch.Tensor.new_tensor = new_tensor
    try:
        yield
    finally:
        del torch.Tensor.new_tensor


class _Context:
    """What a torch.autograd.Function's forward writes for its backward, which nobody runs."""

    def __getattr__(self, name):
        return lambda *_, **_keywords: None


@contextlib.contextmanager
def _own_functions():
    """torch.autograd.Function under functionalize: its forward runs as it is."""
    import torch

    def apply(cls, *args, **keywords):
        late = getattr(cls, "setup_context", None) is not getattr(torch.autograd.Function, "setup_context", None)
        context = _Context()
        context.needs_input_grad = (False,) * len(args)
        return cls.forward(*args, **keywords) if late else cls.forward(context, *args, **keywords)

    held = vars(torch.autograd.Function).get("apply")
    torch.autograd.Function.apply = classmethod(apply)
    try:
        yield
    finally:
        if held is None:
            del torch.autograd.Function.apply
        else:
            torch.autograd.Function.apply = held


def capture(model, call, tensors, rows, graph=None):
    """The Trace of call(tensors): `tensors` are the inputs in a fixed order, `call` runs the model on them and gives [(name, tensor)].
    `graph`: the Exported that stands for the model."""
    import torch

    try:
        with _slow_paths(model):
            return _watched(model, call, tensors, rows, graph)
    except _FAILURES:  # as an operator that torch cannot differentiate in this form does
        try:
            with torch.no_grad():
                return _watched(model, call, tensors, rows, graph)
        except _FAILURES as e:
            raise UnsupportedModelError(f"{type(model).__name__}: the model's own forward fails on rows within the vocabularies: "
                                        f"{type(e).__name__}: {e}{_cure(e)}") from e


def _cure(error):
    """What to do about a failure that random numbers cause."""
    if isinstance(error, IndexError) and "out of range" in str(error):
        return "; a number may be anything where its feature says no more: clamp(low, high) what an id is computed from"
    return ""


def _watched(model, call, tensors, rows, graph):
    """_captured, once more with a watch over the number of kept rows where there are such."""
    trace = _captured(model, call, tensors, rows, graph)
    return _captured(model, call, tensors, rows, graph, watched=True) if trace.counts else trace


def _captured(model, call, tensors, rows, graph, watched=False):
    paths = {id(m): path or type(model).__name__ for path, m in model.named_modules()}
    names = {id(t): name for named in (model.named_parameters(), model.named_buffers()) for name, t in named}
    names.update(graph.tensors if graph is not None else {})
    recorder, outputs = _recorder_class()(paths, names, rows, graph), []

    def run(*given):
        out = call(list(given))
        outputs.extend(name for name, _ in out)
        return tuple(t for _, t in out)

    with evaluation_mode(model), leaves(model), kept(model) as replaced, _new_tensor(), _own_functions():
        for i, tensor in enumerate(tensors):
            node = Node("input", value=tensor, varies=True, name=i)
            recorder.nodes.append(node)
            recorder.of[id(tensor)] = node
        def here(text):
            return Node(text, (), None, None, *_place(paths)).place()

        with guarded(recorder, here), written_out(), counted(recorder, here) if watched else contextlib.nullcontext(), UnsupportedModelError.kept(), \
                recorder:
            results = functionalizer()(run, remove="mutations_and_views")(*tensors)
    check_not_read(recorder, replaced, model)
    found = [recorder.of.get(id(t)) for t in results]
    for i, node in enumerate(found):
        if node is None or not node.varies:
            raise UnsupportedModelError(f"output '{outputs[i]}' does not depend on any input")
    return Trace(recorder.nodes, list(zip(outputs, found)), rows, bool(recorder.kept))
