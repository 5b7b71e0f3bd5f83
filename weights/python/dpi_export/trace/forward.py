"""Calls a model with rows in its own form and names what it gives."""

import dataclasses
import inspect

import numpy as np

from ..errors import UnsupportedModelError


class Forward:
    """How a model is called; `names` of its outputs are known after the first call."""

    def __init__(self, model, inputs, call=None, names=None, only=None):
        self._inputs, self._call, self._given, self._only = inputs, call, names, only
        self.entries = None  #: names of the entries of the only output
        self._by_name = isinstance(inputs.form, dict) and call is None and _takes(model, inputs.keys)

    def __call__(self, model, tensors):
        """[(name, tensor)] of the model's outputs."""
        joined = self._inputs.joined(tensors)
        if self._call is not None:
            out = self._call(model, joined)
        elif self._by_name:
            out = model(**joined)
        elif isinstance(self._inputs.form, (list, tuple)):
            out = model(*joined)
        else:
            out = model(joined)
        return self._named(out)

    def _named(self, out):
        if dataclasses.is_dataclass(out) and not isinstance(out, type):
            out = {f.name: getattr(out, f.name) for f in dataclasses.fields(out)}
        chosen = self._chosen(out)
        for name, tensor in chosen:
            if tensor.dim() == 0:
                others = [key for key, t in _outputs(out, "") if t.dim()] if isinstance(out, dict) else [
                    key if t.dim() else None for key, t in _outputs(out, "")]
                raise UnsupportedModelError(f"output '{name}' is one number for all rows, as a loss is; name the scores, outputs={others}"
                                            if any(others) else f"output '{name}' is one number for all rows, and there is no score beside it")
        return chosen

    def _chosen(self, out):
        if self._only is not None and isinstance(out, dict) and self._only in out:  # FuxiCTR's dict holds the score and other things
            out = out[self._only]
        found = list(_outputs(out, ""))
        if not found:
            raise UnsupportedModelError("the model gives no tensor")
        if self._given is None:
            return found if len(found) > 1 else [("ctr", found[0][1])]
        if isinstance(out, dict):
            absent = [name for name in self._given if name not in dict(found)]
            if absent:
                raise ValueError(f"outputs: the model gives no tensor {absent[0]!r}, only {', '.join(repr(name) for name, _ in found)}")
            return [(name, dict(found)[name]) for name in self._given]
        if len(found) == 1 and len(self._given) > 1 and None not in self._given:
            self.entries = self._given
            return found
        if len(self._given) != len(found):
            raise ValueError(f"outputs: {len(self._given)} names for {len(found)} outputs; None in the place of a name leaves one out")
        return [(name, t) for name, (_, t) in zip(self._given, found) if name is not None]

    def scored(self, model, tensors):
        """(values, logits) [rows, heads] of a call: logits are what the last sigmoid was taken of, else the value."""
        import torch

        with _spy() as spy:
            found = self(model, tensors)
        rows = len(tensors[0])
        values = [t.reshape(rows, -1) for _, t in found]
        logits = [spy.logit(t).reshape(rows, -1) for _, t in found]
        return torch.cat(values, dim=1), torch.cat(logits, dim=1)


def _takes(model, keys):
    """True when forward has the keys of the dict as its parameters, or takes them as **keywords and needs no other."""
    parameters = inspect.signature(model.forward).parameters
    if set(keys) <= set(parameters):
        return True
    kinds = {p.kind for p in parameters.values()}
    needed = {name for name, p in parameters.items() if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD}
    return inspect.Parameter.VAR_KEYWORD in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds and needed <= set(keys)


def _outputs(out, name):
    import torch

    if isinstance(out, torch.Tensor):
        yield name or "ctr", out
    elif isinstance(out, dict):
        for key, value in out.items():
            yield from _outputs(value, str(key))
    elif isinstance(out, (list, tuple)):
        for i, value in enumerate(out):
            yield from _outputs(value, f"{name or 'output'}_{i}")


#: In-place operators that write no number.
_VIEWS = ("squeeze_", "unsqueeze_", "t_", "transpose_", "detach_", "as_strided_", "swapdims_", "swapaxes_")
def first_of_equals(x, k, dim=-1, largest=True, sorted=True):  # noqa: A002  (torch's own name)
    """torch.topk, which leaves open which of equal entries it takes: the first ones, as a bundle does."""
    values, places = x.sort(dim=dim, descending=largest, stable=True)
    return values.narrow(dim, 0, k), places.narrow(dim, 0, k)


def _spy():
    """A mode that remembers what every sigmoid was taken of."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Spy(TorchDispatchMode):
        """Results by where they lie in memory, so that a view of a result is found too."""

        def __init__(self):
            super().__init__()
            self._inputs, self._alive = {}, []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            name = str(func)
            inner = args[0].clone() if name.startswith("aten.sigmoid") else None
            out = first_of_equals(*args, **(kwargs or {})) if name.startswith("aten.topk") else func(*args, **(kwargs or {}))
            if inner is None and name.split(".")[1].endswith("_") and name.split(".")[1] not in _VIEWS and isinstance(out, torch.Tensor):
                self._inputs.pop(out.data_ptr(), None)  # written over: it is no sigmoid any more
            if inner is not None:
                self._alive.append(out)
                self._inputs[out.data_ptr()] = (out, inner)
            return out

        def logit(self, tensor):
            """What a sigmoid was taken of, or the tensor itself; columns that are copies of sigmoids by their inverse."""
            held = self._inputs.get(tensor.data_ptr())
            if held is not None and held[0].numel() == tensor.numel():
                return held[1]
            values = tensor.detach().double().cpu().numpy()
            parts = [o.detach().double().cpu().numpy().reshape(-1) for o, _ in self._inputs.values()]
            out = values.reshape(len(values), -1).copy() if values.size else values
            for column in out.T if values.size else ():
                if any(np.isin(column, o).all() for o in parts):
                    column[:] = np.log(column) - np.log1p(-column)
            return torch.from_numpy(out.reshape(values.shape))

    return Spy()
