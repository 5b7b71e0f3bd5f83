"""FuxiCTR models for the parity suite: its layers under the attribute names of its model zoo.

PyPI's package holds the layers but no models. What matters for the importer are class name, attribute names and options, so a
model of the real zoo exports the same way. Each forward here is written from the model's formula.
"""

from collections import OrderedDict

import oracles  # noqa: F401  (before fuxictr)
import torch
from fuxictr.features import FeatureMap
from fuxictr.pytorch import layers
from fuxictr.pytorch.models import BaseModel
from torch import nn


def feature_map(specs, dim):
    """A FeatureMap from {feature: spec}; `dim` is the default embedding dim."""
    out = FeatureMap("parity", "")
    out.features = OrderedDict((name, {"source": "", **spec}) for name, spec in specs.items())
    out.labels = ["click"]
    out.default_emb_dim = dim
    out.num_fields = out.get_num_fields()
    out.set_column_index()
    return out


class ZooModel(BaseModel):
    """What all of them share: construction and the way from a logit to the output."""

    def __init__(self, fmap, task="binary_classification", **options):
        super().__init__(fmap, task=task, verbose=0, model_root="", metrics=[])
        self.compose(fmap, **options)

    def forward(self, inputs):
        return {"y_pred": self.output_activation(self.logit(self.get_inputs(inputs)))}


class LR(ZooModel):
    def compose(self, fmap):
        self.lr_layer = layers.LogisticRegression(fmap, use_bias=True)

    def logit(self, x):
        return self.lr_layer(x)


class FM(ZooModel):
    def compose(self, fmap):
        self.embedding_layer = layers.FeatureEmbedding(fmap, fmap.default_emb_dim)
        self.fm = layers.FactorizationMachine(fmap)

    def logit(self, x):
        return self.fm(x, self.embedding_layer(x))


class WideDeep(ZooModel):
    def compose(self, fmap, **mlp):
        self.embedding_layer = layers.FeatureEmbedding(fmap, fmap.default_emb_dim)
        self.lr_layer = layers.LogisticRegression(fmap, use_bias=False)
        self.dnn = layers.MLP_Block(fmap.sum_emb_out_dim(), output_dim=1, **mlp)

    def logit(self, x):
        deep = self.dnn(self.embedding_layer(x).flatten(start_dim=1))
        return self.lr_layer(x) + deep


class DeepFM(ZooModel):
    def compose(self, fmap, **mlp):
        self.embedding_layer = layers.FeatureEmbedding(fmap, fmap.default_emb_dim)
        self.fm = layers.FactorizationMachine(fmap)
        self.mlp = layers.MLP_Block(fmap.sum_emb_out_dim(), output_dim=1, **mlp)

    def logit(self, x):
        fields = self.embedding_layer(x)
        return self.fm(x, fields) + self.mlp(fields.flatten(start_dim=1))


class DCN(ZooModel):
    def compose(self, fmap, cross=3, hidden_units=(), **mlp):
        width = fmap.sum_emb_out_dim()
        self.embedding_layer = layers.FeatureEmbedding(fmap, fmap.default_emb_dim)
        self.dnn = layers.MLP_Block(width, hidden_units=list(hidden_units), **mlp) if hidden_units else None
        self.crossnet = layers.CrossNet(width, cross)
        self.fc = nn.Linear(width + (hidden_units[-1] if hidden_units else 0), 1)

    def logit(self, x):
        x0 = self.embedding_layer(x, flatten_emb=True)
        parts = [self.crossnet(x0)] + ([self.dnn(x0)] if self.dnn is not None else [])
        return self.fc(torch.cat(parts, dim=-1))


class DCNv2(ZooModel):
    def compose(self, fmap, structure="parallel", cross=2, mixture=None, stacked=(), parallel=(), **mlp):
        width = fmap.sum_emb_out_dim()
        self.model_structure = structure
        self.embedding_layer = layers.FeatureEmbedding(fmap, fmap.default_emb_dim)
        if mixture:
            self.crossnet = layers.CrossNetMix(width, cross, low_rank=mixture[0], num_experts=mixture[1])
        else:
            self.crossnet = layers.CrossNetV2(width, cross)
        out = 0
        if "stacked" in structure:
            self.stacked_dnn = layers.MLP_Block(width, hidden_units=list(stacked), **mlp)
            out += stacked[-1] if stacked else width
        else:
            out += width
        if "parallel" in structure:
            self.parallel_dnn = layers.MLP_Block(width, hidden_units=list(parallel), **mlp)
            out += parallel[-1] if parallel else width
        self.fc = nn.Linear(out, 1)

    def logit(self, x):
        x0 = self.embedding_layer(x, flatten_emb=True)
        explicit = self.crossnet(x0)
        if "stacked" in self.model_structure:
            explicit = self.stacked_dnn(explicit)
        if "parallel" in self.model_structure:
            explicit = torch.cat([explicit, self.parallel_dnn(x0)], dim=-1)
        return self.fc(explicit)


def randomise(model, seed, std=None):
    """Random weights, batch-norm statistics and slopes. Rows of padding (id 0 of FuxiCTR's tables) stay zero."""
    g = torch.Generator().manual_seed(seed)

    def rand(t, scale, mean=0.0):
        t.copy_(torch.randn(t.shape, generator=g) * scale + mean)

    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.Embedding):
                rand(module.weight, 0.5)
                if module.padding_idx is not None:
                    module.weight[module.padding_idx] = 0
            elif isinstance(module, nn.Linear):
                rand(module.weight, 1.0 / max(1.0, module.in_features) ** 0.5)
                if module.bias is not None:
                    rand(module.bias, 0.3)
            elif isinstance(module, nn.BatchNorm1d):
                rand(module.running_mean, 0.3)
                module.running_var.copy_(torch.rand(module.running_var.shape, generator=g) * 1.5 + 0.2)
                if module.affine:
                    rand(module.weight, 0.3, 1.0)
                    rand(module.bias, 0.3)
            elif type(module).__name__ == "Dice":
                rand(module.alpha, 0.3)
            elif isinstance(module, nn.PReLU):
                rand(module.weight, 0.2, 0.1)
        for name, p in model.named_parameters():
            leaf = name.split(".")
            if "crossnet" in leaf and leaf[-1] != "weight" or leaf[-1] == "kernels" or leaf[-2:] == ["out", "bias"]:
                rand(p, 0.2 if p.dim() > 1 else 0.3)
            if name in ("lr_layer.bias", "fm.lr_layer.bias", "linear_model.weight"):
                rand(p, 0.3)
    return model.eval()
