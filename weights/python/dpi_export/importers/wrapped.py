"""Models inside what training wraps around them: torch.compile, DataParallel, DistributedDataParallel."""

import contextlib

_PARALLEL = ("torch.nn.parallel.data_parallel.DataParallel", "torch.nn.parallel.distributed.DistributedDataParallel")


def unwrapped(model):
    """The model itself; paths of layers are those inside."""
    while True:
        name = f"{type(model).__module__}.{type(model).__qualname__}"
        inner = model.module if name in _PARALLEL else getattr(model, "_orig_mod", None) if name.startswith("torch._dynamo.") else None
        if inner is None:
            return model
        model = inner


@contextlib.contextmanager
def eager():
    """While it lasts, what a model compiled itself (a layer, a function) runs as it is written, so that its operators are seen. torch 2.6 or
    newer; older ones have no call for it."""
    import torch

    stance = getattr(getattr(torch, "compiler", None), "set_stance", None)
    with contextlib.nullcontext() if stance is None else stance("force_eager"):
        yield
