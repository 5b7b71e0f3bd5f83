"""What torch computes by a look at the rows, or by an operator for one kind of processor, written out while a model is traced."""

import contextlib
import math

from .formulas import table


@contextlib.contextmanager
def written_out():
    """one_hot with a given number of classes reads its ids to check them; attention, and nn.LSTM by oneDNN, have operators that join all their
    steps; group norm is told the number of rows as a number."""
    import torch
    from torch.overrides import TorchFunctionMode

    formulas = table()

    class Composites(TorchFunctionMode):
        """Stands before the functions of torch."""

        def __torch_function__(self, func, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            formula = formulas.get(func)
            made = NotImplemented if formula is None or "out" in kwargs else formula(*args, **kwargs)
            if made is not NotImplemented:
                return made
            if func is torch.nn.functional.one_hot:
                ids, classes = _one_hot_arguments(*args, **kwargs)
                if classes > 0:
                    return (ids.unsqueeze(-1) == torch.arange(classes, device=ids.device)).long()
            if func is torch.cosine_similarity:
                return _cosine(*args, **kwargs)
            if func in (torch.ldexp, torch.Tensor.ldexp):
                return _ldexp(*args, **kwargs)
            if func in (torch.group_norm, torch.nn.functional.group_norm):
                return _group_norm(*args, **kwargs)
            if func in (torch.instance_norm, torch.nn.functional.instance_norm) and _of_the_row(*args, **kwargs):
                return _instance_norm(*args, **kwargs)
            return func(*args, **kwargs)

    with Composites(), _plain_attention(), torch.backends.mkldnn.flags(enabled=False):
        yield


def _one_hot_arguments(tensor, num_classes=-1):
    return tensor, num_classes


def _cosine(x1, x2, dim=1, eps=1e-8):
    """Newer torch writes into its own norms, past what is traced."""
    a, b = ((x * x).sum(dim, keepdim=True).sqrt().clamp_min(eps) for x in (x1, x2))
    return (x1 / a * (x2 / b)).sum(dim)


def _ldexp(input, other):  # noqa: A002  (torch's own name)
    """From torch 2.14 on an operator of its own."""
    import torch

    return input * torch.pow(2.0, other)


def _group_norm(input, num_groups, weight=None, bias=None, eps=1e-5, cudnn_enabled=True):  # noqa: A002  (torch's own name)
    from torch.nn.functional import layer_norm

    size = math.prod(input.shape[1:]) // num_groups
    out = layer_norm(input.reshape(-1, num_groups, size), (size,), eps=eps).reshape(input.shape)
    channels = (-1,) + (1,) * (input.dim() - 2)
    out = out if weight is None else out * weight.reshape(channels)
    return out if bias is None else out + bias.reshape(channels)


def _of_the_row(input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, *_, **__):  # noqa: A002
    return use_input_stats


def _instance_norm(input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True,  # noqa: A002
                   momentum=0.1, eps=1e-5, cudnn_enabled=True):
    return _group_norm(input, input.shape[1], weight, bias, eps)


def _plain_attention():
    """From torch 2.3 on: scaled_dot_product_attention by its formula."""
    try:
        from torch.nn.attention import SDPBackend, sdpa_kernel
    except ImportError:
        return contextlib.nullcontext()
    return sdpa_kernel(SDPBackend.MATH)
