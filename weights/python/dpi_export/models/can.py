"""CAN: embeddings, pooled histories and co-actions in front of an MLP (the model around the unit of co_action.py)."""

import torch
from torch import nn

from .co_action import CoActionNetwork, MicroMlp

HIDDEN = {"prelu": nn.PReLU, "relu": lambda width: nn.ReLU(), "tanh": lambda width: nn.Tanh()}


class CAN(nn.Module):
    """p = sigmoid(MLP([fields | sums of the histories | co-actions])), as in the paper's figure 3 and the authors' graph without its GRU.

    fields         {feature: vocabulary size} of single ids, each with an embedding
    histories      {feature: field} of padded lists of ids; a history is looked up in its field's table and summed over the positions that
                   count
    pairs          (field, history or field) whose co-action is taken; default: (field, its history) for every history
    lengths        {history: input} of inputs that say how many positions count, from the first on; the other histories are padded with id 0
    dim, hidden    width of the embeddings, of the hidden layers
    batch_norm     BatchNorm in front of the MLP. bn_eps: 1e-3 as TensorFlow has it
    activation     of the hidden layers: prelu (a slope for each unit), relu or tanh
    micro, independent: of the co-actions, see CoActionNetwork

    The defaults are the authors' sizes: embeddings of 18, co-actions of 36 a pair, an MLP of 200-80-1 with PReLU. `forward` takes {feature: ids
    [B], history: ids [B, T], ...} and gives [B]; `logit` is the same without the sigmoid.
    """

    def __init__(self, fields, histories, pairs=None, lengths=None, dim=18, hidden=(200, 80), batch_norm=True, bn_eps=1e-3, activation="prelu",
                 micro=MicroMlp(), independent=True):
        super().__init__()
        self.histories, self.lengths = dict(histories), dict(lengths or {})
        pairs = [(field, history) for history, field in self.histories.items()] if pairs is None else pairs
        sizes = {**fields, **{history: fields[field] for history, field in self.histories.items()}}
        self.embedding = nn.ModuleDict({name: nn.Embedding(size, dim) for name, size in fields.items()})
        self.co_action = CoActionNetwork({i: fields[i] for i, _ in pairs}, {f: sizes[f] for _, f in pairs}, pairs, micro, independent)
        width = dim * (len(fields) + len(self.histories)) + self.co_action.output_dim
        self.norm = nn.BatchNorm1d(width, eps=bn_eps) if batch_norm else None
        layers = []
        for w in hidden:
            layers += [nn.Linear(width, w), HIDDEN[activation](w)]
            width = w
        self.mlp = nn.Sequential(*layers, nn.Linear(width, 1))

    def forward(self, batch):
        """{input: tensor} -> probabilities [B]."""
        return torch.sigmoid(self.logit(batch))

    def logit(self, batch):
        """{input: tensor} -> logits [B]."""
        masks = {history: self._mask(batch, history) for history in self.histories}
        x = [table(batch[name]) for name, table in self.embedding.items()]
        for history, field in self.histories.items():
            x.append((self.embedding[field](batch[history]) * masks[history].unsqueeze(2)).sum(dim=1))
        x = torch.cat(x + [self.co_action(batch, batch, masks)], dim=1)
        if self.norm is not None:
            x = self.norm(x)
        return self.mlp(x).squeeze(1)

    def _mask(self, batch, history):
        """[B, T], 1 where a position counts."""
        ids = batch[history]
        if history in self.lengths:
            places = torch.arange(ids.shape[1], device=ids.device)
            mask = places < batch[self.lengths[history]].reshape(-1, 1)
        else:
            mask = ids != 0
        return mask.to(self.mlp[-1].weight.dtype)
