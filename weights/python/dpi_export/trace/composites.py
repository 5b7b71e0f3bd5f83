"""What torch computes by a look at the rows, or by an operator for one kind of processor, written out while a model is traced."""

import contextlib


@contextlib.contextmanager
def written_out():
    """one_hot with a given number of classes reads its ids to check them; attention has operators that join all its steps."""
    import torch
    from torch.overrides import TorchFunctionMode

    class Composites(TorchFunctionMode):
        """Stands before the functions of torch."""

        def __torch_function__(self, func, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            if func is torch.nn.functional.one_hot:
                ids, classes = _one_hot_arguments(*args, **kwargs)
                if classes > 0:
                    return (ids.unsqueeze(-1) == torch.arange(classes, device=ids.device)).long()
            if func is torch.cosine_similarity:
                return _cosine(*args, **kwargs)
            return func(*args, **kwargs)

    with Composites(), _plain_attention():
        yield


def _one_hot_arguments(tensor, num_classes=-1):
    return tensor, num_classes


def _cosine(x1, x2, dim=1, eps=1e-8):
    """Newer torch writes into its own norms, past what is traced."""
    a, b = ((x * x).sum(dim, keepdim=True).sqrt().clamp_min(eps) for x in (x1, x2))
    return (x1 / a * (x2 / b)).sum(dim)


def _plain_attention():
    """From torch 2.3 on: scaled_dot_product_attention by its formula."""
    try:
        from torch.nn.attention import SDPBackend, sdpa_kernel
    except ImportError:
        return contextlib.nullcontext()
    return sdpa_kernel(SDPBackend.MATH)
