"""Running a PyTorch model as it is, to compare with it: in evaluation mode, in a chosen precision, its tensors as arrays.

Nothing here imports torch before it is called, so `dpi_export` itself needs only numpy and h5py.
"""

import contextlib

import numpy as np

from .errors import UnsupportedModelError

#: Above this many parameters the check runs in float32: a float64 copy of the tables would not fit comfortably.
MAX_DOUBLE_PARAMETERS = 1 << 27


def to_numpy(value):
    """Torch tensor, list or array -> array."""
    if not hasattr(value, "detach"):
        return np.asarray(value)
    tensor = value.detach().cpu()
    return (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy()  # NumPy has no bfloat16


def check_carried(name, vocab_size, dtype):
    """Refuses ids that a model is given as floats of a torch dtype that cannot tell the last of them apart: it reads other rows itself."""
    import torch

    whole = int(2 / torch.finfo(dtype).eps)
    if vocab_size - 1 > whole:
        raise UnsupportedModelError(f"feature '{name}': the model takes its ids as {dtype}, which holds whole numbers up to {whole}, and the "
                                    f"vocabulary has {vocab_size}: beyond, the model itself reads the rows of other ids. Renumber the ids, or hash "
                                    f"them, into {whole + 1}, or train a model that takes them as torch.int64 and export it with from_torch")


@contextlib.contextmanager
def evaluation_mode(model):
    """eval() for every layer, and each layer's own mode back afterwards."""
    modes = [(m, m.training) for m in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


@contextlib.contextmanager
def _cast_state(model, dtype):
    """Float parameters and buffers are copies in `dtype`, each tensor has one, wherever a layer holds it: weights that are shared stay
    shared. Lists and dicts of a layer count too, as nn.LSTM has its weights in one. torch's functional_call takes names: newer releases
    refuse several copies of one tensor, older ones leave out the second name.
    """
    import torch

    layers = list(model.modules())
    copies = {id(t): t.detach().to(dtype) for m in layers for held in (m._parameters, m._buffers) for t in held.values()
              if t is not None and t.is_floating_point()}
    changed = []  # (container, key, what stands there)
    for layer in layers:
        for held in (vars(layer), *(c for c in vars(layer).values() if type(c) is list or isinstance(c, dict))):
            entries = enumerate(held) if isinstance(held, list) else list(held.items())
            changed += [(held, key, t) for key, t in entries if isinstance(t, torch.Tensor) and id(t) in copies]
    try:
        for held, key, t in changed:
            held[key] = copies[id(t)]
        yield
    finally:
        for held, key, t in changed:
            held[key] = t


@contextlib.contextmanager
def _cast_inputs(model, dtype):
    """Layers see their float inputs in `dtype`: FuxiCTR casts numeric columns to float32 on its own."""
    def cast(_module, args):
        return tuple(a.to(dtype) if hasattr(a, "is_floating_point") and a.is_floating_point() else a for a in args)

    import torch.nn as nn

    hooks = [m.register_forward_pre_hook(cast) for m in model.modules() if isinstance(m, nn.Linear)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def run_library(model, forward, dtype=None):
    """`forward(model)` without gradients in evaluation mode, in float32 or the given dtype.

    `forward` is called with a function that runs the model on its arguments. Works on a cast copy of the state and
    leaves the model as it is.
    """
    import torch

    dtype = dtype or torch.float32
    same = all(p.dtype == dtype for p in model.parameters())
    with torch.no_grad(), evaluation_mode(model):
        if same:
            return forward(model)
        with _cast_state(model, dtype), _cast_inputs(model, dtype):
            return forward(model)
