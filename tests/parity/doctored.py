"""Models that were changed after they were built, and options without a rule: each must be refused by name where tracing is off
(traced.py has what tracing makes of them).

`run_all()` yields (name, problem); the problem is empty when the refusal came and named what it had to name.
"""

import os
import tempfile
import types

import oracles  # noqa: F401  (before the libraries)
import cases
import numpy as np
import torch
import zoo
from deepctr_torch.inputs import DenseFeat, SparseFeat, VarLenSparseFeat
from deepctr_torch.layers.activation import Dice
from deepctr_torch.models import DCN, WDL, DCNMix, DeepFM, xDeepFM
from dpi_export import UnsupportedModelError, from_deepctr_torch, from_fuxictr
from dpi_export.importers.fuxictr import FuxiImport
from fuxictr.pytorch import layers
from torch import nn
from torch.nn.utils import prune


class ShiftedLinear(nn.Linear):
    """A subclass that does something else."""

    def forward(self, x):
        return super().forward(x) + 1


class Swish2(nn.Module):
    """An activation of somebody's own."""

    def forward(self, x):
        return x * torch.sigmoid(2 * x)


def _fx(model="DeepFM", specs=None, **options):
    defaults = {"DeepFM": {"hidden_units": [8, 4], "batch_norm": True}, "DCNv2": {"parallel": [8]}, "DCN": {"hidden_units": [8]}}
    make = cases.fx(model, specs, **{**defaults.get(model, {}), **options})
    _, built, fmap, _ = make(3)
    return built, fmap


def _dt(model=DeepFM, wide=None, **options):
    return cases.dt(model, wide, dnn_hidden_units=(8, 4), **options)(3)[1], None


def _replace(path, make):
    def change(model):
        holder, _, leaf = path.rpartition(".")
        target = model.get_submodule(holder) if holder else model
        new = make(getattr(target, leaf) if not leaf.isdigit() else target[int(leaf)])
        if leaf.isdigit():
            target[int(leaf)] = new
        else:
            setattr(target, leaf, new)
    return change


def _like(old, new):
    new.load_state_dict(old.state_dict())
    return new


def _class_forward(model):
    """Another forward for this class of model."""
    kind = type(model)
    model.__class__ = type(kind.__name__, (kind,), {
        "__module__": kind.__module__, "forward": lambda self, x: {"y_pred": kind.forward(self, x)["y_pred"] * 0.5}})


def _bound_forward(model):
    model.fc.forward = types.MethodType(lambda self, x: nn.functional.linear(x, 2 * self.weight, self.bias), model.fc)


def _same_name_other_forward(model):
    """Class name, attributes and forward's name as in the zoo, but another formula: only the numbers tell."""
    class DeepFM(type(model).__mro__[1]):
        def forward(self, inputs):
            x = self.get_inputs(inputs)
            fields = self.embedding_layer(x)
            z = self.fm(x, fields) * 0.5 + self.mlp(fields.flatten(start_dim=1))
            return {"y_pred": self.output_activation(z)}

    model.__class__ = DeepFM


def _strict_logit(model):
    model.logit = types.MethodType(lambda self, x: type(self).logit(self, x) + self.parallel_dnn.mlp[0].bias.sum() + 1, model)


def _tables(model):
    return model.embedding_layer.embedding_layer.embedding_layers


def _no_stats(model):
    bn = model.mlp.mlp[1]
    bn.running_mean = bn.running_var = None


FUXICTR = [
    # name, factory keywords, change, what the text must contain
    ("FuxiCTR extra layer", {}, lambda m: m.add_module("tower", nn.Linear(4, 4)), "'tower'"),
    ("FuxiCTR extra layer without weights", {}, lambda m: m.add_module("squash", nn.Tanh()), "'squash'"),
    ("FuxiCTR extra parameter", {}, lambda m: m.register_parameter("gain", nn.Parameter(torch.ones(3))), "parameter 'gain'"),
    ("FuxiCTR extra buffer", {}, lambda m: m.fm.register_buffer("mask", torch.ones(3)), "buffer 'fm.mask'"),
    ("FuxiCTR unknown model class", {"model": "DCN"},
     lambda m: setattr(m, "__class__", type("MyNet", (type(m),), {})), "MyNet"),
    ("FuxiCTR forward replaced on an instance", {"model": "DCN"}, _bound_forward, "'fc'"),
    ("FuxiCTR forward of another function", {}, _class_forward, "forward"),
    ("FuxiCTR other formula under the zoo's name", {}, _same_name_other_forward, "forward"),
    ("FuxiCTR logit replaced on the instance", {"model": "DCNv2"}, _strict_logit, "forward"),
    ("FuxiCTR layer of a subclass", {"model": "DCN"},
     _replace("fc", lambda o: _like(o, ShiftedLinear(o.in_features, 1))), "ShiftedLinear"),
    ("FuxiCTR layer of a subclass in the MLP", {},
     _replace("mlp.mlp.0", lambda o: _like(o, ShiftedLinear(o.in_features, o.out_features))), "'mlp.mlp.0'"),
    ("FuxiCTR forward hook", {}, lambda m: m.mlp.mlp[0].register_forward_hook(lambda m, i, o: o * 2), "forward hooks"),
    ("FuxiCTR forward pre-hook", {}, lambda m: m.register_forward_pre_hook(lambda m, i: None), "forward pre hooks"),
    ("FuxiCTR hook on a table", {},
     lambda m: _tables(m)["user"].register_forward_hook(lambda m, i, o: o),
     "'embedding_layer.embedding_layer.embedding_layers.user'"),
    ("FuxiCTR weight norm", {"model": "DCN"}, lambda m: nn.utils.weight_norm(m.fc),
     "'fc' (Linear): 'weight' is under weight_norm"),
    ("FuxiCTR spectral norm in the MLP", {}, lambda m: nn.utils.spectral_norm(m.mlp.mlp[0]),
     "'mlp.mlp.0' (Linear): 'weight' is under spectral_norm"),
    ("FuxiCTR pruned table", {}, lambda m: prune.l1_unstructured(_tables(m)["user"], "weight", 0.2),
     "embedding_layers.user' (Embedding): 'weight' is pruned (L1Unstructured)"),
    ("FuxiCTR parametrised table", {}, lambda m: nn.utils.parametrizations.spectral_norm(_tables(m)["user"]),
     "embedding_layers.user' (ParametrizedEmbedding): 'weight' is parametrised by SpectralNorm"),
    ("FuxiCTR parametrised weight", {"model": "DCN"},
     lambda m: nn.utils.parametrize.register_parametrization(m.fc, "weight", nn.Identity()),
     "'fc' (ParametrizedLinear): 'weight' is parametrised by Identity"),
    ("FuxiCTR table under a number", {}, lambda m: _tables(m).update({"age": nn.Embedding(3, 4)}),
     "feature 'age' of type 'numeric' expects nn.Linear"),
    ("FuxiCTR layer under a dense vector", {"model": "DCN", "specs": cases.ENCODED},
     lambda m: _tables(m).update({"vec": nn.Linear(6, 6)}), "feature 'vec' of type 'embedding' expects nn.Identity"),
    ("FuxiCTR layer instead of a table", {}, lambda m: _tables(m).update({"user": nn.Linear(1, 4)}),
     "feature 'user' of type 'categorical' expects nn.Embedding"),
    ("FuxiCTR activation of one's own", {}, _replace("mlp.mlp.2", lambda o: Swish2()), "Swish2"),
    ("FuxiCTR activation without a rule", {"hidden_activations": "Hardshrink"}, None, "Hardshrink"),
    ("FuxiCTR softmax over the rows", {}, _replace("mlp.mlp.2", lambda o: nn.Softmax(dim=0)), "rows of the batch"),
    ("FuxiCTR batch norm without statistics", {}, _no_stats, "running statistics"),
    ("FuxiCTR group norm", {}, _replace("mlp.mlp.1", lambda o: nn.GroupNorm(2, 8)), "GroupNorm"),
    ("FuxiCTR NaN in a weight", {}, lambda m: m.mlp.mlp[0].weight.data[0, 0].fill_(float("nan")), "NaN"),
    ("FuxiCTR infinity in a buffer", {}, lambda m: m.mlp.mlp[1].running_mean[0].fill_(float("inf")), "running_mean"),
    ("FuxiCTR float64 weights", {}, lambda m: m.double(), "float64"),
    ("FuxiCTR max_norm on a table", {},
     lambda m: setattr(_tables(m)["user"], "max_norm", 1.0), "max_norm"),
    ("FuxiCTR unknown structure", {"model": "DCNv2"}, lambda m: setattr(m, "model_structure", "bridge"), "model_structure"),
    ("FuxiCTR structure with a layer left over", {"model": "DCNv2"},
     lambda m: setattr(m, "model_structure", "crossnet_only"), "head/linear"),
    ("FuxiCTR output activation", {}, _replace("output_activation", lambda o: nn.Tanh()), "output_activation"),
    ("FuxiCTR pairs kept apart", {}, lambda m: setattr(m.fm.fm_layer, "_output_type", "bi_interaction"), "bi_interaction"),
    ("FuxiCTR cross layer count", {"model": "DCNv2"}, lambda m: setattr(m.crossnet, "num_layers", 1), "cross_layers.1"),
    ("FuxiCTR cross net of another kind", {"model": "DCN"},
     _replace("crossnet", lambda o: layers.CompressedInteractionNet(9, [4])), "CompressedInteractionNet"),
    ("FuxiCTR sequence encoder K-max", {"model": "DCN"},
     lambda m: m.embedding_layer.embedding_layer.feature_encoders.update({"tags": layers.KMaxPooling(1, 1)}), "'tags'"),
    ("FuxiCTR sequence without encoder", {"model": "DCN"},
     lambda m: m.embedding_layer.embedding_layer.feature_encoders.pop("tags"), "'tags'"),
    ("FuxiCTR layer set to None", {}, lambda m: setattr(m, "mlp", None), "'mlp'"),
    ("FuxiCTR model class that is not supported", {"model": "DCN"},
     lambda m: setattr(m, "__class__", type("xDeepFM", (type(m),), {})), "xDeepFM"),
]


def _monkeypatched_dnn(model):
    dnn = model.dnn
    dnn.__class__ = type("DNN", (type(dnn),), {"__module__": type(dnn).__module__, "forward": lambda self, x: x[:, :4]})


DEEPCTR = [
    ("DeepCTR cross net without columns", {"model": DCN, "deep": []}, None, "dnn_feature_columns: is empty"),
    ("DeepCTR mixture without columns", {"model": DCNMix, "deep": []}, None, "dnn_feature_columns: is empty"),
    ("DeepCTR no columns at all", {"wide": [], "deep": []}, None, "has no part that reads a feature"),
    ("DeepCTR weight norm", {}, lambda m: nn.utils.weight_norm(m.dnn.linears[0]),
     "'dnn.linears.0' (Linear): 'weight' is under weight_norm"),
    ("DeepCTR pruned weight", {"model": WDL}, lambda m: prune.ln_structured(m.dnn.linears[1], "weight", 0.3, 2, 0),
     "'dnn.linears.1' (Linear): 'weight' is pruned (LnStructured)"),
    ("DeepCTR extra layer", {}, lambda m: m.add_module("extra", nn.Linear(2, 2)), "'extra'"),
    ("DeepCTR unsupported model", {"model": "xDeepFM"}, None, "xDeepFM"),
    ("DeepCTR subclass of a model", {}, lambda m: setattr(m, "__class__", type("Mine", (type(m),), {})), "Mine"),
    ("DeepCTR forward replaced on the instance", {}, lambda m: setattr(m, "forward", lambda x: x[:, :1]), "forward"),
    ("DeepCTR DNN with another forward", {}, _monkeypatched_dnn, "'dnn'"),
    ("DeepCTR hook", {}, lambda m: m.out.register_forward_hook(lambda m, i, o: 1 - o), "'out'"),
    ("DeepCTR activation of one's own", {}, _replace("dnn.activation_layers.0", lambda o: Swish2()), "Swish2"),
    ("DeepCTR Dice for three dimensions", {}, _replace("dnn.activation_layers.0", lambda o: Dice(8, dim=3)), "3-dimensional"),
    ("DeepCTR task multiclass", {}, lambda m: setattr(m.out, "task", "multiclass"), "multiclass"),
    ("DeepCTR max pooling with length_name", {"wide": [SparseFeat("u", 5, 4), VarLenSparseFeat(SparseFeat("h", 9, 4), 3, "max", "n")]},
     None, "combiner 'max'"),
    ("DeepCTR cross parameterization", {"model": DCN}, lambda m: setattr(m.crossnet, "parameterization", "tensor"), "tensor"),
    ("DeepCTR cross layer count", {"model": DCN, "cross_num": 2}, lambda m: setattr(m.crossnet, "layer_num", 1), "layer_num=1"),
    ("DeepCTR experts added", {"model": DCNMix},
     lambda m: m.crossnet.gating.append(nn.Linear(m.dnn_linear.in_features - 4, 1, bias=False)), "num_experts"),
    ("DeepCTR dropout replaced", {"model": WDL}, _replace("dnn.dropout", lambda o: nn.Tanh()), "'dnn.dropout'"),
    ("DeepCTR batch norm switched off", {"dnn_use_bn": True}, lambda m: setattr(m.dnn, "use_bn", False), "dnn.bn"),
    ("DeepCTR columns that disagree", {}, lambda m: m.dnn_feature_columns.__setitem__(0, DenseFeat("user")), "'user'"),
    ("DeepCTR table of another layer", {}, lambda m: m.embedding_dict.update({"user": nn.EmbeddingBag(31, 4)}), "EmbeddingBag"),
    ("DeepCTR one activation layer too many", {}, lambda m: m.dnn.activation_layers.append(nn.ReLU()), "activation_layers"),
    ("DeepCTR quantised Linear", {},
     _replace("dnn_linear", lambda o: torch.nn.quantized.dynamic.Linear(o.in_features, 1)), "dnn_linear"),
]


def _attempt(export, change, model, want):
    """'' when the export is refused with `want` in its text and leaves no file, else what went wrong."""
    if change is not None:
        change(model)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "doctored.h5")
        try:
            export(path)
        except UnsupportedModelError as e:
            left = os.listdir(folder)
            return ("" if want in str(e) else f"the text does not name {want}: {e}") + (f" left {left}" if left else "")
        except Exception as e:  # noqa: BLE001  (any other error is the failure this test looks for)
            return f"{type(e).__name__} instead of UnsupportedModelError: {e}"
        return "was exported"


def _rare_branch():
    """A forward that differs only for rows the caller's sample does not hold: random rows find it."""
    model, fmap = _fx("DeepFM")
    plain = type(model).logit
    model.logit = types.MethodType(lambda self, x: plain(self, x) + (x["hist"] != 0).any(dim=1, keepdim=True).logical_not() * 0.5, model)
    rows = FuxiImport(model, fmap, None, None)
    rows.build()
    sample = rows.random_rows(np.random.default_rng(2), 12)
    sample["hist"][:, 0] = 3
    return _attempt(lambda path: from_fuxictr(model, fmap, path, rows=sample, trace=False), None, model, "another logit")


def run_all():
    """(name, problem) of every doctored model."""
    yield "FuxiCTR another formula for empty bags only", _rare_branch()
    for name, options, change, want in FUXICTR:
        model, fmap = _fx(**options)
        yield name, _attempt(lambda path: from_fuxictr(model, fmap, path, trace=False), change, model, want)
    for name, options, change, want in DEEPCTR:
        options = dict(options)
        if options.get("model") == "xDeepFM":
            wide = [SparseFeat(f"c{i}", 7, 4) for i in range(3)]
            model = xDeepFM(wide, wide, dnn_hidden_units=(8,), cin_layer_size=(4,))
        else:
            model, _ = _dt(**options)
        yield name, _attempt(lambda path: from_deepctr_torch(model, path, trace=False), change, model, want)
    big = [SparseFeat("big", 2**24 + 8, 1), SparseFeat("c", 4, 1)]
    model = WDL(big, big, dnn_hidden_units=(4,)).eval()
    for trace in (False, True):
        yield f"DeepCTR ids beyond a float, trace={trace}", _attempt(
            lambda path: from_deepctr_torch(model, path, trace=trace), None, model, "'big'")  # noqa: B023
    yield "global forward hook", _global_hook()


def _global_hook():
    model, fmap = _fx()
    hook = torch.nn.modules.module.register_module_forward_hook(lambda m, i, o: None)
    try:
        return _attempt(lambda path: from_fuxictr(model, fmap, path, trace=False), None, model, "global forward hooks")
    finally:
        hook.remove()
