"""The classes of FuxiCTR's model zoo with their important options: class or class with options -> how it is made.

The zoo's sources lie in a checkout that FUXICTR_ROOT names (model_zoo/<folder>/src/<Class>.py); nothing of them is kept here. Widths are
small, so that a case runs in a second.
"""

import importlib.util
import sys
from pathlib import Path

import oracles  # noqa: F401  (before fuxictr)
import torch
from fuxictr.pytorch.layers import FeatureEmbedding
from torch import nn
from zoo import feature_map

MEAN, SUM = "layers.MaskedAveragePooling()", "layers.MaskedSumPooling()"
DIM = 4
_BASE = {"task": "binary_classification", "verbose": 0, "model_root": "", "metrics": [], "optimizer": "adam",
         "loss": "binary_crossentropy", "embedding_dim": DIM}


def _cat(size, source="", **more):
    return {"type": "categorical", "vocab_size": size, "padding_idx": 0, "source": source, **more}


def _seq(size, max_len, encoder=MEAN, source="", **more):
    return {"type": "sequence", "vocab_size": size, "max_len": max_len, "padding_idx": 0, "feature_encoder": encoder, "source": source,
            **more}


_AGE = {"type": "numeric", "source": "user"}
#: Fields of every kind, each with a vector of DIM.
FIELDS = {"user": _cat(11, "user"), "age": _AGE, "item": _cat(13, "item"), "hist": _seq(13, 5, source="user", share_embedding="item"),
          "tags": _seq(7, 4, SUM, "item"), "hour": _cat(5, "context")}
#: As FIELDS, for models that read ids only.
IDS = {f"c{i}": _cat(6 + i, ("user", "item", "context")[i % 3]) for i in range(6)}
_HISTORY = {"click_history": _seq(13, 6, None, share_embedding="item_id"), "cate_history": _seq(7, 6, None, share_embedding="cate_id")}
_PRE = {name: {**spec, "padding": "pre"} for name, spec in _HISTORY.items()}
_TARGET = {"user": _cat(11, "user"), "age": _AGE, "item_id": _cat(13, "item"), "cate_id": _cat(7, "item")}
#: A target and its history, padded behind or in front.
SEQUENCE, SEQUENCE_PRE = {**_TARGET, **_HISTORY}, {**_TARGET, **_PRE}
#: With the negative samples that some losses read.
_NEGATIVE = {"neg_click_history": _seq(13, 6, None, share_embedding="item_id"),
             "neg_cate_history": _seq(7, 6, None, share_embedding="cate_id")}
NEGATIVE, NEGATIVE_PRE = {**SEQUENCE, **_NEGATIVE}, {**SEQUENCE_PRE, **_NEGATIVE}
#: LongCTR's: a user, and items of which the last is the target.
LONG = {"user": _cat(11, "user"), "item_id": _cat(13, "item"), "cate_id": _cat(7, "item")}
LONG_LENGTH = 9


class Maker:
    """One class with options. `path` below model_zoo; `long`: LongCTR's way of calling."""

    def __init__(self, path, specs=None, **options):
        self.path, self.name, self.specs, self.options = path, path.rpartition("/")[2], specs or FIELDS, options
        self.name = options.pop("name_in_file", self.name)
        self.long = options.pop("long", False)
        self.labels = options.pop("labels", ["click"])

    def __call__(self, root, seed):
        """(model in evaluation mode with random weights, feature map)"""
        torch.manual_seed(seed)
        fmap = feature_map(self.specs, DIM)
        fmap.labels = list(self.labels)
        model = getattr(_module(Path(root) / "model_zoo" / f"{self.path}.py"), self.name)(fmap, **{**_BASE, **self.options})
        return randomise(model, seed), fmap


class _FlatEmbedding(FeatureEmbedding):
    """QNN calls it with a keyword that flatten_emb had in releases before 2.0."""

    def forward(self, X, dynamic_emb_dim=False):
        return super().forward(X, flatten_emb=dynamic_emb_dim)


def _module(path):
    """A file of the zoo as a module of a package of its folder, for files that import their neighbours."""
    package = "zoo_" + "_".join(path.parts[-4:-1])
    if package not in sys.modules:
        held = type(sys)(package)
        held.__path__ = [str(path.parent)]
        sys.modules[package] = held
    name = f"{package}.{path.stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
        if path.parts[-3] == "QNN":
            sys.modules[name].FeatureEmbedding = _FlatEmbedding
    return sys.modules[name]


def randomise(model, seed):
    """Random weights, biases, slopes and statistics of batch norms; rows of padding stay zero."""
    g = torch.Generator().manual_seed(seed)
    embeddings = {id(m.weight): m for m in model.modules() if isinstance(m, nn.Embedding)}
    with torch.no_grad():
        for p in model.parameters():
            noise = torch.randn(p.shape, generator=g)
            if id(p) in embeddings:
                p.copy_(noise * 0.5)
                if embeddings[id(p)].padding_idx is not None:
                    p[embeddings[id(p)].padding_idx] = 0
            elif p.requires_grad:
                p.copy_(p + noise * 0.2 if p.dim() == 1 else noise / max(1, p.shape[-1]) ** 0.5)
        for module in model.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.running_mean.copy_(torch.randn(module.running_mean.shape, generator=g) * 0.3)
                module.running_var.copy_(torch.rand(module.running_var.shape, generator=g) * 1.5 + 0.2)
    return model.eval()


_DNN = {"hidden_units": [8, 6]}
_DNN2 = {"dnn_hidden_units": [8, 6]}
_BN = {"batch_norm": True}
_TASKS = {"task": ["binary_classification"] * 2, "num_tasks": 2, "labels": ["click", "like"],
          "loss": ["binary_crossentropy"] * 2}
_TARGETS = {"target_item_field": [("item_id", "cate_id")], "sequence_item_field": [("click_history", "cate_history")]}


def _options(path, variants, specs=None, **common):
    name = path.rpartition("/")[2]
    return {f"{name}, {text}" if text else name: Maker(path, **{"specs": specs, **common, **options}) for text, options in variants.items()}


def _shallow():
    """Fields that interact, and a DNN beside them."""
    out = {"LR": Maker("LR/src/LR"), "FM": Maker("FM/src/FM"), "LorentzFM": Maker("LorentzFM/src/LorentzFM"),
           "FFM": Maker("FFM/src/FFM", IDS, embedding_dim=2), "FFMv2": Maker("FFM/src/FFMv2", IDS, embedding_dim=2),
           "DNN": Maker("DNN/DNN_torch/src/DNN", **_DNN, **_BN), "DeepFM": Maker("DeepFM/DeepFM_torch/src/DeepFM", **_DNN, **_BN),
           "WideDeep": Maker("WideDeep/WideDeep_torch/src/WideDeep", **_DNN, hidden_activations="Dice"),
           "NFM": Maker("NFM/src/NFM", **_DNN), "ONN": Maker("ONN/ONN_torch/src/ONN", IDS, **_DNN, embedding_dim=2),
           "ONNv2": Maker("ONN/ONN_torch/src/ONNv2", IDS, **_DNN, embedding_dim=2), "DSSM": Maker(
               "DSSM/src/DSSM", user_tower_units=[8, 6], item_tower_units=[8, 6], **_BN),
           "FLEN": Maker("FLEN/src/FLEN", **_DNN2, **_BN)}
    out.update(_options("AFM/src/AFM", {"": {}, "no attention": {"use_attention": False}}, attention_dim=5))
    out.update(_options("AFN/src/AFN", {"": {}, "no DNN": {"ensemble_dnn": False}, "no batch norm": {"batch_norm": False}},
                        dnn_hidden_units=[8], afn_hidden_units=[8], logarithmic_neurons=3))
    out.update(_options("HOFM/src/HOFM", {"": {}, "order 2": {"order": 2}, "reused": {"reuse_embedding": True}}))
    out.update(_options("FwFM/src/FwFM", {t: {"linear_type": t} for t in ("LW", "FeLV", "FiLV")}))
    out.update(_options("FmFM/src/FmFM", {t: {"field_interaction_type": t} for t in ("vectorized", "matrixed")}))
    out.update(_options("HFM/src/HFM", {t: {"interaction_type": t} for t in (
        "circular_convolution", "circular_correlation", "hadamard_product")}, hidden_units=[8], hidden_activations=["relu"]))
    out.update(_options("CCPM/src/CCPM", {"": {}}, channels=[3, 3], kernel_heights=[4, 3]))
    out.update(_options("FGCNN/src/FGCNN", {"": {}, "shared": {"share_embedding": True}, "no batch norm": {"conv_batch_norm": False}},
                        IDS, channels=[3, 4], kernel_heights=[3, 3], pooling_sizes=[2, 2], recombined_channels=[2, 2], **_DNN2))
    return out


def _crossed():
    """Cross layers and their kin."""
    out = _options("DCN/DCN_torch/src/DCN", {"": {}, "batch norm": _BN}, **_DNN2)
    for folder in ("DCNv2/src", "LongCTR/DCNv2"):
        variants = {f"{s}{', mixture' if mix else ''}": {"model_structure": s, **mix} for s in (
            "crossnet_only", "stacked", "parallel", "stacked_parallel")
            for mix in ({}, {"use_low_rank_mixture": True, "low_rank": 3, "num_experts": 2})}
        here = folder == "DCNv2/src"
        made = _options(f"{folder}/DCNv2", variants if here else {"parallel": {"long": True}}, FIELDS if here else LONG,
                        stacked_dnn_hidden_units=[8], parallel_dnn_hidden_units=[8, 6])
        out.update({("LongCTR " if "Long" in folder else "") + name: maker for name, maker in made.items()})
    out["GDCN"] = Maker("GDCN/src/GDCN", **_DNN2)
    out["GDCNP"] = Maker("GDCN/src/GDCN", name_in_file="GDCNP", **_DNN2)
    out.update(_options("EDCN/src/EDCN", {t: {"bridge_type": t} for t in (
        "hadamard_product", "pointwise_addition", "concatenation", "attention_pooling")}, **_BN))
    out.update(_options("xDeepFM/src/xDeepFM", {"": {}}, **_DNN2, cin_hidden_units=[3, 4]))
    out.update(_options("PNN/src/PNN", {t: {"product_type": t} for t in ("inner",)}, **_DNN))
    out.update(_options("DeepIM/src/DeepIM", {f"order {k}": {"im_order": k} for k in (2, 3, 4)} | {"batch norms": {
        "im_batch_norm": True, "net_batch_norm": True}}, **_DNN))
    out.update(_options("DeepCrossing/src/DeepCrossing", {"": {}, "no residual": {"use_residual": False}, "batch norm": _BN},
                        residual_blocks=[8, 6]))
    out.update(_options("QNN/src/QNN", {t: {"neuron_type": t, "batch_norm": t in ("T3", "T4")} for t in ("T1", "T2", "T3", "T4")},
                        num_cross_layers=2))  # with batch norm the zoo's own T1 and T2 fail
    out["QNN_alpha"] = Maker("QNN/src/QNN_alpha", num_layers=2, num_row=2)
    out.update(_options("EulerNet/src/EulerNet", {"": {}, "layer norm": {"layer_norm": True}}, shape=[3]))
    out.update(_options("WuKong/src/WuKong", {"": {}, "no norms": {"layer_norm": False, "mlp_batch_norm": False}}, num_wukong_layers=2,
                        lcb_features=3, fmb_features=3, fmb_mlp_units=[8], fmp_rank_k=2, mlp_hidden_units=[8]))
    return out


def _gated():
    """Attention over the fields, gates, masks, experts."""
    out = _options("AutoInt/src/AutoInt", {"": {}, "all options": {
        "layer_norm": True, "use_scale": True, "use_wide": True, "batch_norm": True}, "no residual": {"use_residual": False}},
        **_DNN2, attention_dim=4, num_heads=2)
    out.update(_options("DESTINE/src/DESTINE", {f"residual {m}": {"residual_mode": m} for m in ("each_layer", "last_layer")} | {
        "other options": {"relu_before_att": True, "use_scale": True, "use_wide": False, "residual_mode": None}},
        **_DNN2, attention_dim=4))
    out.update(_options("InterHAt/src/InterHAt", {"": {}, "order 3": {"order": 3, "num_heads": 2, "hidden_dim": 6}, "other options": {
        "layer_norm": False, "use_residual": False, "batch_norm": True}}, attention_dim=4, hidden_units=[8]))
    out.update(_options("FiBiNET/src/FiBiNET", {t: {"bilinear_type": t} for t in (
        "field_all", "field_each", "field_interaction")}, **_DNN))
    out.update(_options("FiGNN/src/FiGNN", {"": {}, "no GRU": {"use_gru": False}, "other options": {
        "use_residual": False, "reuse_graph_layer": True}}, gnn_layers=2))
    out.update(_options("AOANet/src/AOANet", {"": _BN}, dnn_hidden_units=[8], num_interaction_layers=2, num_subspaces=2))
    out.update(_options("SAM/src/SAM", {f"{t} {a}": {"interaction_type": t, "aggregation": a} for t in (
        "SAM2A", "SAM2E", "SAM3A", "SAM3E") for a in ("concat", "weighted_pooling", "mean_pooling", "sum_pooling")
        if not (t.startswith("SAM2") and a != "concat")} | {"residual": {"interaction_type": "SAM3A", "use_residual": True}},
        num_interaction_layers=2))
    out.update(_options("MaskNet/src/MaskNet", {t: {"model_type": t} for t in ("SerialMaskNet", "ParallelMaskNet")} | {
        "no norms": {"emb_layernorm": False, "net_layernorm": False}}, dnn_hidden_units=[8, 6], parallel_num_blocks=2,
        parallel_block_dim=5))
    context = {"fs1_context": ["user"], "fs2_context": ["item"]}
    towers = {"mlp1_hidden_units": [8], "mlp2_hidden_units": [6, 8], "mlp1_batch_norm": True}
    out.update(_options("FinalMLP/src/FinalMLP", {"": {}, "context": context, "no selection": {"use_fs": False}, "heads": {
        "num_heads": 2}}, fs_hidden_units=[6], **towers))
    out["LongCTR FinalMLP"] = Maker("LongCTR/FinalMLP/FinalMLP", LONG, long=True, **towers)
    out["DualMLP"] = Maker("FinalMLP/src/DualMLP", mlp1_hidden_units=[8], mlp2_hidden_units=[6])
    out.update(_options("FinalNet/src/FinalNet", {f"{b} {r}": {"block_type": b, "residual_type": r} for b in ("1B", "2B")
                                                  for r in ("concat", "sum")} | {"gated": {"use_feature_gating": True}},
                        block1_hidden_units=[8, 6], block2_hidden_units=[8, 6], block1_hidden_activations="ReLU"))
    out.update(_options("DLRM/src/DLRM", {t: {"interaction_op": t} for t in ("dot", "cat")}, IDS, top_mlp_units=[8],
                        bottom_mlp_units=[6]))  # with numeric features the zoo's own forward fails
    out.update(_options("PEPNet/src/PPNet", {"": _BN}, gate_emb_dim=3, gate_priors=["user", "item"], gate_hidden_dim=5, **_DNN))
    hyper = {"hypernet_config": {"hidden_units": [6], "hidden_activations": "relu"}, "rank_k": 2, "overparam_p": 5}
    modes = {"self-wise": {}, "group-wise": {"condition_mode": "group-wise", "condition_features": ["user"]},
             "own condition": {"condition_mode": "group-wise", "condition_features": ["user"], "new_condition_emb": True},
             "mix-wise": {"condition_mode": "mix-wise", "condition_features": ["user"]}, "plain": {"overparam_p": None,
                                                                                                  "generate_bias": False}}
    for text, options in modes.items():
        out[f"APG_DeepFM, {text}"] = Maker("APG/src/APG_DeepFM", **{**hyper, **_DNN, **options})
    out["APG_DCNv2"] = Maker("APG/src/APG_DCNv2", **hyper, stacked_dnn_hidden_units=[8], parallel_dnn_hidden_units=[8])
    return out


def _histories():
    """Behaviour sequences."""
    out = {}
    din = {"": {}, "softmax": {"din_use_softmax": True}, "ReLU": {"attention_hidden_activations": "ReLU"}}
    out.update(_options("DIN/src/DIN", din, SEQUENCE, **_DNN2, attention_hidden_units=[6]))
    out.update({f"LongCTR {name}": maker for name, maker in _options("LongCTR/DIN/DIN", din, LONG, long=True, **_DNN2,
                                                                     attention_hidden_units=[6]).items()})
    dien = {t: {"gru_type": t} for t in ("GRU", "AGRU", "AUGRU")} | {  # the zoo's own forward fails with AIGRU
        "dot": {"attention_type": "dot_attention"}, "din": {"attention_type": "din_attention"},
        "sums": {"enable_sum_pooling": True, "use_attention_softmax": False}}
    out.update(_options("DIEN/src/DIEN", dien | {"pre": {"specs": NEGATIVE_PRE}}, NEGATIVE, **_DNN2, attention_hidden_units=[6]))
    out.update({f"LongCTR {name}": maker for name, maker in _options("LongCTR/DIEN/DIEN", dien, LONG, long=True, **_DNN2,
                                                                     attention_hidden_units=[6]).items()})
    out.update(_options("BST/src/BST", {"": {}, "pre": {"specs": SEQUENCE_PRE}, "causal": {"use_causal_mask": True}, "sum": {
        "seq_pooling_type": "sum"}, "target": {"seq_pooling_type": "target"}, "concat": {"seq_pooling_type": "concat"}, "plain": {
            "layer_norm": False, "use_residual": False, "use_position_emb": False}, "two layers": {
                "stacked_transformer_layers": 2, "batch_norm": True}}, SEQUENCE, **_DNN2))
    out.update(_options("DMIN/src/DMIN", {"": {}, "sums": {"enable_sum_pooling": True}, "plain": {
        "use_pos_emb": False, "use_behavior_refiner": False, "layer_norm": False}}, NEGATIVE, **_DNN2, num_heads=2,
        attention_hidden_units=[6], aux_hidden_units=[5], pos_emb_dim=3))
    out.update(_options("DMR/src/DMR", {"": {}, "sums": {"enable_sum_pooling": True, "enable_i2i_rel": True}, "no u2i": {
        "enable_u2i_rel": False}}, SEQUENCE, **_DNN2, attention_hidden_units=[6], pos_emb_dim=3, context_field=None, neg_seq_field=None))
    out.update(_options("TransAct/src/TransAct", {"": {}, "pre": {"specs": SEQUENCE_PRE}, "no max": {"concat_max_pool": False}, "wide": {
        "first_k_cols": 3, "num_heads": 2, "transformer_layers": 2}}, SEQUENCE, dcn_hidden_units=[8], dcn_cross_layers=2,
        mlp_hidden_units=[6], dim_feedforward=8, **_TARGETS))
    long = {"long": True, "dnn_hidden_units": [8], "attention_dim": 4, "short_seq_len": 4}
    out.update(_options("LongCTR/SIM/SIM", {"": {}, "heads": {"num_heads": 2}}, LONG, **long, topk=3))
    out.update(_options("LongCTR/ETA/ETA", {"": {}, "few": {"topk": 3}}, LONG, **{"topk": 20, **long}, hash_bits=8))
    out.update(_options("LongCTR/SDIM/SDIM", {"": {}, "norms": {"l2_norm": True, "num_hashes": 2}, "no projections": {
        "use_qkvo": False}}, LONG, **long, hash_bits=3))
    out.update(_options("LongCTR/TWIN/TWIN", {"": {}}, LONG, **long, topk=3))
    out.update(_options("LongCTR/MIRRN/MIRRN", {"": {}, "few": {"topk": 3}}, LONG, **{"topk": 20, **long}, hash_bits=8, max_len=20))
    out.update({f"LongCTR {name}": maker for name, maker in _options("LongCTR/TransAct/TransAct", {"": {}, "no max": {
        "concat_max_pool": False}}, LONG, long=True, dcn_hidden_units=[8], dcn_cross_layers=2, mlp_hidden_units=[6],
        dim_feedforward=8).items()})
    return out


def _tasks():
    """Several scores."""
    return {"MMoE": Maker("multitask/MMoE/src/MMoE", num_experts=3, expert_hidden_units=[8], gate_hidden_units=[5],
                          tower_hidden_units=[4], **_TASKS, **_BN),
            "PLE": Maker("multitask/PLE/src/PLE", expert_hidden_units=[8], gate_hidden_units=[5], tower_hidden_units=[4], num_layers=2,
                         **_TASKS),
            "SharedBottom": Maker("multitask/ShareBottom/src/ShareBottom", bottom_hidden_units=[8], tower_hidden_units=[4],
                                  name_in_file="ShareBottom", **_TASKS)}


def makers():
    """name -> Maker of every case."""
    return {**_shallow(), **_crossed(), **_gated(), **_histories(), **_tasks()}
