"""Models as the users of PyTorch write them, for test_user_models: MODELS {name: a function that makes a Case}. They were written before
anything was known of what tracing takes, and know nothing of it."""

import torch
from torch import nn

from . import attention, interactions, numerics, pooling, traps

MODELS = {**pooling.MODELS, **numerics.MODELS, **interactions.MODELS, **attention.MODELS, **traps.MODELS}

#: Models that no bundle can hold so far, and the operator that is named.
REFUSED = {"missing_values": "isnan", "nan_to_num": "nan_to_num", "thresholds": "floor",
           **traps.REFUSED}


def make(name, seed):
    """The Case with random weights, in evaluation mode: logits of a few units."""
    torch.manual_seed(seed)
    case = MODELS[name]()
    with torch.no_grad():
        for p in case.model.parameters():
            p.copy_(torch.randn(p.shape) * (0.4 if p.dim() else 0.2))
        for m in case.model.modules():
            if isinstance(m, nn.BatchNorm1d):
                m.running_mean.normal_()
                m.running_var.uniform_(0.5, 2)
            if isinstance(m, (nn.Embedding, nn.EmbeddingBag)) and m.padding_idx is not None:
                m.weight[m.padding_idx] = 0
    case.model.eval()
    return case
