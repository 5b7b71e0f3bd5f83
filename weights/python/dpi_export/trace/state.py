"""What a model keeps between calls: caches are filled before it is traced, and a state that one call leaves to the next is refused.

A trace shows one call. While it runs, tensors are wrappers that are dead afterwards, so nothing of it may stay in the model.
"""

import contextlib

from ..errors import UnsupportedModelError
from ..library_run import MAX_DOUBLE_PARAMETERS, evaluation_mode

_FAILURES = (RuntimeError, TypeError, AttributeError, IndexError, KeyError, AssertionError)


def warm_up(model, call, tensors):
    """Runs the model twice as it is, so that what it makes lazily is there. Refuses, and puts back, parameters, buffers and numbers that
    a call changes."""
    import torch

    held = _Tensors(model)
    try:
        with torch.no_grad(), evaluation_mode(model):
            call(tensors)
            numbers = _numbers(model)
            call(tensors)
    except _FAILURES:
        return  # the trace fails likewise, and says so with its layer
    finally:
        changed = held.restore()
    if changed:
        raise UnsupportedModelError(f"{type(model).__name__}: forward changes '{changed[0]}', so a row's score would depend on the calls "
                                    "before it; update it outside forward, or in training only")
    for name, value in _numbers(model).items():
        if name in numbers and not (numbers[name] == value or value != value):
            raise UnsupportedModelError(f"{type(model).__name__}: forward changes self.{name} from {numbers[name]} to {value} with every "
                                        "call, so a row's score may depend on the calls before it; count outside forward, or in training "
                                        "only")


def check_first_call(model, call, first, second):
    """Refuses what a model keeps of the first rows that it sees: first and second are as many rows with other numbers."""
    import torch

    held = _Tensors(model)
    try:
        with torch.no_grad(), evaluation_mode(model):
            with kept(model):
                call(first)
                one = _made(model)
                call(second)
                stays = _made(model)
            held.restore()
            with kept(model):
                call(second)
                two = _made(model)
    except _FAILURES:
        return
    finally:
        held.restore()
    for name, value in one.items():
        if name in stays and name in two and _alike(value, stays[name]) and not _alike(value, two[name]):
            raise UnsupportedModelError(f"{type(model).__name__}: forward keeps '{name}' of the first rows that it is called with, so a row's score "
                                        "would depend on them; compute it in __init__, or as a buffer that training sets")


def _made(model):
    """{path: value} of the numbers and tensors that the model's layers hold beside parameters, those in lists and dicts among them."""
    import torch

    out = {}
    for path, module in model.named_modules():
        for key, held in vars(module).items():
            if key == "_parameters":
                continue
            items = held.items() if isinstance(held, dict) else enumerate(held) if isinstance(held, (list, tuple)) else [("", held)]
            for at, value in list(items):
                if isinstance(value, torch.Tensor) and value.numel() <= MAX_DOUBLE_PARAMETERS:
                    out[f"{path}.{key}.{at}".strip(".")] = value.detach().clone()
                elif isinstance(value, (bool, int, float)):
                    out[f"{path}.{key}.{at}".strip(".")] = value
    return out


def _alike(a, b):
    """The same numbers."""
    import torch

    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return a.shape == b.shape and a.dtype == b.dtype and torch.equal(torch.nan_to_num(a), torch.nan_to_num(b))
    return a is b or type(a) is type(b) and (a == b or a != a)


class _Tensors:
    """Parameters and buffers as they are: copies where they are small, else the count of their changes."""

    def __init__(self, model):
        import torch

        named = dict(list(model.named_parameters()) + list(model.named_buffers()))
        named.update({f"{path}.{key}".strip("."): t for path, m in model.named_modules() for key, t in vars(m).items()
                      if isinstance(t, torch.Tensor)})
        copied = sum(t.numel() for t in named.values()) <= MAX_DOUBLE_PARAMETERS
        buffers = {name for name, _ in model.named_buffers()}
        self._model = model
        self._held = [(name, t, t._version, t.detach().clone() if copied or name in buffers else None) for name, t in named.items()]
        self._owners = [(module, key, value) for module in model.modules() for held in (module._parameters, module._buffers)
                        if isinstance(held, dict) for key, value in held.items()]  # a ScriptModule has views of its own

    def restore(self):
        """Puts back what changed; the names."""
        import torch

        paths = {id(m): f"{path}." if path else "" for path, m in self._model.named_modules()}
        changed = []
        for module, key, value in self._owners:
            held = module._parameters if key in module._parameters else module._buffers
            if held.get(key) is not value and value is not None:
                changed.append(paths[id(module)] + key)
                held[key] = value
        for name, t, version, copy in self._held:
            if copy is not None and not torch.equal(torch.nan_to_num(t.detach()), torch.nan_to_num(copy)):
                changed.append(name)
                with torch.no_grad():
                    t.copy_(copy)
            elif copy is None and t._version != version:
                changed.append(name)
        return changed


def _numbers(model):
    """{path of an attribute: value} of the numbers that the model's layers hold."""
    return {(f"{path}." if path else "") + key: value for path, module in model.named_modules() for key, value in vars(module).items()
            if isinstance(value, (bool, int, float)) and key != "training"}


@contextlib.contextmanager
def kept(model):
    """Leaves the attributes of the model's layers, the tensors in their dicts and lists, and its buffers as they were. Gives a list that
    holds, at the end, (attribute, the tensor that was there) of those that the model replaced."""
    before = [(path, module, dict(vars(module)), _containers(module)) for path, module in model.named_modules()]
    replaced = []
    try:
        yield replaced
    finally:
        for path, module, held, containers in before:
            now, prefix = vars(module), f"{path}." if path else ""
            for key in [key for key in now if key not in held]:
                del now[key]
            for key, value in held.items():
                if now.get(key) is not value:
                    replaced.append((prefix + key, value))
                    now[key] = value
            for key, container, copy in containers:
                old, new = (list(c.items()) if isinstance(c, dict) else list(enumerate(c)) for c in (copy, container))
                replaced.extend((f"{prefix}{key}[{k!r}]", value) for k, value in old if dict(new).get(k) is not value)
                if isinstance(container, dict):
                    container.clear()
                    container.update(copy)
                else:
                    container[:] = copy


def _containers(module):
    """Dicts and lists of a layer, its buffers among them, with copies."""
    return [(key, value, value.copy()) for key, value in vars(module).items() if type(value) in (dict, list)
            or key in ("_buffers", "_parameters", "_modules") and isinstance(value, dict)]


def check_not_read(recorder, replaced, model):
    """Refuses a trace that reads what an earlier call left in the model, and that this call replaced."""
    import torch

    for name, value in replaced:
        node = recorder.of.get(id(value)) if isinstance(value, torch.Tensor) else None
        if node is not None and node.op == "constant":
            raise UnsupportedModelError(f"{type(model).__name__}: forward reads '{name}', which the call before it left there, so a row's "
                                        "score would depend on the calls before it")
