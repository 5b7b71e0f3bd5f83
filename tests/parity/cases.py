"""Every model x option of the parity suite: name -> a function that returns (importer kind, model, feature map, keywords)."""

import oracles  # noqa: F401  (before the libraries)
import torch
import zoo
from deepctr_torch.inputs import DenseFeat, SparseFeat, VarLenSparseFeat
from deepctr_torch.layers.activation import Dice
from deepctr_torch.models import DCN, WDL, DCNMix, DeepFM
from torch import nn

MEAN, SUM = "layers.MaskedAveragePooling()", "layers.MaskedSumPooling()"


# -- FuxiCTR -----------------------------------------------------------------------------------------------------------
def cat(size, **more):
    return {"type": "categorical", "vocab_size": size, "padding_idx": 0, **more}


def seq(size, max_len, encoder=MEAN, **more):
    return {"type": "sequence", "vocab_size": size, "max_len": max_len, "padding_idx": 0, "feature_encoder": encoder, **more}


NUM = {"type": "numeric"}
META = {"type": "meta"}
MIXED = {"user": cat(31), "age": NUM, "group": META, "item": cat(97), "hist": seq(97, 7, share_embedding="item"),
         "price": NUM, "tags": seq(13, 5, SUM), "city": cat(2), "recent": seq(33, 3, MEAN, padding="pre")}
DIMS = {"user": cat(31, embedding_dim=3), "age": {**NUM, "embedding_dim": 1}, "item": cat(17, embedding_dim=9),
        "tags": seq(13, 5, SUM, embedding_dim=2), "hist": seq(11, 4, MEAN, embedding_dim=5)}
IDS = {f"c{i}": cat(7 + 5 * i) for i in range(5)}
WIDE = {**{f"c{i}": cat(100 + 37 * i) for i in range(20)}, "age": NUM, "hist": seq(500, 20), "tags": seq(50, 9, SUM)}
NUMBERS = {f"n{i}": NUM for i in range(3)}
ENCODED = {"user": cat(31), "vec": {"type": "embedding", "pretrain_dim": 6},
           "hist": seq(19, 4, [MEAN, "nn.Linear(4, 4, bias=False)"]),
           "item": cat(11, feature_encoder="nn.Linear(4, 4)"), "age": {**NUM, "feature_encoder": "nn.Tanh()"}}
SCRIPTS = {"城市": cat(31), "возраст": NUM, "café": seq(31, 5, share_embedding="城市"), "מחיר": NUM, "タグ 😀": seq(13, 4, SUM)}
GATED = {"user": cat(31, feature_encoder=["nn.Linear(4, 8)", "nn.GLU()"]), "age": {**NUM, "feature_encoder": "nn.RReLU(0.1, 0.9)"},
         "item": cat(11, feature_encoder=["nn.Linear(4, 6)", "nn.GLU(dim=1)", "nn.Linear(3, 4)", "nn.CELU(0.3)"]),
         "hist": seq(19, 4, [MEAN, "nn.Softshrink(0.07)", "nn.Linear(4, 8)", "nn.GLU(dim=-1)"])}
NO_PAD_ROW = {"user": {"type": "categorical", "vocab_size": 9}, "item": {"type": "categorical", "vocab_size": 21},
              "hist": {"type": "sequence", "vocab_size": 21, "max_len": 6, "feature_encoder": MEAN},
              "tags": {"type": "sequence", "vocab_size": 8, "max_len": 3, "feature_encoder": SUM}}
BUCKETS = {"age": {"type": "categorical", "vocab_size": 10, "category_processor": "quantile_bucket"},
           "site": {"type": "categorical", "vocab_size": 64, "category_processor": "hash_bucket"}, "item": cat(12)}


def fx(model, specs=None, dim=4, half=None, task="binary_classification", table_dtype=None, **options):
    """A factory of one FuxiCTR case."""
    def make(seed):
        fmap = zoo.feature_map(specs or MIXED, dim)
        torch.manual_seed(seed)
        built = zoo.randomise(getattr(zoo, model)(fmap, task=task, **options), seed)
        return "fuxictr", built, fmap, {"table_dtype": table_dtype, "half": half}
    return make


ACTIVATIONS = ["ReLU", "Sigmoid", "Tanh", "Softmax", "PReLU", "Dice", "LeakyReLU", "ELU", "SELU", "GELU", "SiLU", "ReLU6",
               "Hardtanh", "Softplus", "Mish", "LogSigmoid", "Identity", "CELU", "Hardswish", "Softsign", "Tanhshrink", "Hardsigmoid",
               "Softshrink", "RReLU"]


def fuxictr_cases():
    """name -> factory"""
    out = {}
    for name, specs in (("mixed", MIXED), ("ids only", IDS), ("numeric only", NUMBERS), ("one field", {"c": cat(5)}),
                        ("buckets", BUCKETS), ("padding row in use", NO_PAD_ROW)):
        for model in ("LR", "FM"):
            out[f"{model}, {name}"] = fx(model, specs)
    out["LR, regression"] = fx("LR", task="regression")
    for model in ("WideDeep", "DeepFM"):
        out.update(_mlp_cases(model))
        out[f"{model}, names in many scripts"] = fx(model, SCRIPTS, hidden_units=[8])
    out.update(_dcn_cases())
    out.update(_dcnv2_cases())
    for dtype in (torch.float16, torch.bfloat16):
        for model, options in (("DeepFM", {"hidden_units": [8]}), ("DCNv2", {"parallel": [8], "batch_norm": True})):
            out[f"{model}, weights {str(dtype)[6:]}"] = fx(model, half=dtype, **options)
    for model, options in (("DeepFM", {"hidden_units": [256, 131]}), ("DCN", {"hidden_units": [256, 131], "cross": 4}),
                           ("DCNv2", {"parallel": [256, 131], "stacked": [67], "structure": "stacked_parallel"}),
                           ("DCNv2", {"parallel": [256], "mixture": (32, 4)})):
        kind = " mixture" if "mixture" in options else ""
        out[f"{model}{kind}, 23 fields of 16, wide layers"] = fx(model, WIDE, dim=16, batch_norm=True, **options)
    for stored in ("f16", "bf16", "i8"):
        out[f"DeepFM, table_dtype {stored}"] = fx("DeepFM", table_dtype=stored, hidden_units=[16, 8])
    return {f"FuxiCTR {k}": v for k, v in out.items()}


def _mlp_cases(model):
    hidden = [16, 8]
    out = {f"{model}, hidden {h}": fx(model, hidden_units=list(h)) for h in ((), (1,), (16, 8), (33, 17, 5))}
    for name in ACTIVATIONS if model == "DeepFM" else ("ReLU", "Dice", "PReLU"):
        out[f"{model}, {name}"] = fx(model, hidden_units=hidden, hidden_activations=name)
        out[f"{model}, {name}, batch norm"] = fx(model, hidden_units=hidden, hidden_activations=name, batch_norm=True)
    out[f"{model}, an activation per layer"] = fx(model, hidden_units=hidden, hidden_activations=["PReLU", "Dice"])
    out[f"{model}, no activation"] = fx(model, hidden_units=hidden, hidden_activations=[None, "ReLU"])
    out[f"{model}, bn_only_once"] = fx(model, hidden_units=hidden, batch_norm=True, bn_only_once=True)
    out[f"{model}, bn_only_once, no hidden"] = fx(model, hidden_units=[], batch_norm=True, bn_only_once=True)
    out[f"{model}, dropout"] = fx(model, hidden_units=hidden, dropout_rates=[0.5, 0.0], batch_norm=True)
    out[f"{model}, without bias"] = fx(model, hidden_units=hidden, use_bias=False)
    out[f"{model}, output activation"] = fx(model, hidden_units=hidden, output_activation="Tanh")
    out[f"{model}, padding row in use"] = fx(model, NO_PAD_ROW, hidden_units=hidden)
    out[f"{model}, dim 1"] = fx(model, IDS, dim=1, hidden_units=hidden)
    return out


def _dcn_cases():
    out = {}
    for cross in (1, 2, 5):
        out[f"DCN, {cross} cross layers"] = fx("DCN", cross=cross, hidden_units=[8])
    out["DCN, no hidden"] = fx("DCN", hidden_units=[])
    out["DCN, no cross layer"] = fx("DCN", cross=0, hidden_units=[8])
    for name, specs in (("dims per feature", DIMS), ("feature encoders", ENCODED), ("gated encoders", GATED),
                        ("numeric only", NUMBERS)):
        out[f"DCN, {name}"] = fx("DCN", specs, hidden_units=[16, 8])
    for name in ("Dice", "PReLU", "SiLU"):
        out[f"DCN, {name}, batch norm, dropout"] = fx("DCN", hidden_units=[16, 8], hidden_activations=name, batch_norm=True,
                                                      dropout_rates=0.2)
    return out


def _dcnv2_cases():
    out = {}
    sizes = {"crossnet_only": {}, "stacked": {"stacked": [16, 8]}, "parallel": {"parallel": [16, 8]},
             "stacked_parallel": {"stacked": [8], "parallel": [16, 8]}}
    for structure, mlp in sizes.items():
        for kind, mixture in (("matrix", None), ("mixture r3 x 4", (3, 4)), ("mixture r2 x 1", (2, 1))):
            name = f"DCNv2, {structure}, {kind}"
            out[name] = fx("DCNv2", structure=structure, mixture=mixture, **mlp)
            out[f"{name}, dims per feature"] = fx("DCNv2", DIMS, structure=structure, mixture=mixture, **mlp)
            if mlp:
                out[f"{name}, batch norm, Dice"] = fx("DCNv2", structure=structure, mixture=mixture, batch_norm=True,
                                                      hidden_activations="Dice", dropout_rates=0.1, **mlp)
    out["DCNv2, no cross layer"] = fx("DCNv2", cross=0, parallel=[8])
    out["DCNv2, 4 cross layers"] = fx("DCNv2", cross=4, parallel=[8])
    out["DCNv2, feature encoders"] = fx("DCNv2", ENCODED, parallel=[8])
    out["DCNv2, stacked without hidden"] = fx("DCNv2", structure="stacked", stacked=[])
    out["DCNv2, regression"] = fx("DCNv2", parallel=[8], task="regression")
    return out


# -- DeepCTR-Torch -----------------------------------------------------------------------------------------------------
def sparse(name, size, dim=4, **more):
    return SparseFeat(name, size, embedding_dim=dim, **more)


def bag(name, size, max_len, combiner, dim=4, length=None, **more):
    return VarLenSparseFeat(SparseFeat(name, size, embedding_dim=dim, **more), max_len, combiner, length)


def columns(dim=4):
    """Sparse, dense and shared sequences with every pooling but max."""
    return [sparse("user", 31, dim), DenseFeat("age"), sparse("item", 97, dim), DenseFeat("vec", 3),
            bag("hist", 97, 7, "mean", dim, embedding_name="item"), bag("tags", 13, 5, "sum", dim), sparse("city", 2, dim),
            bag("cart", 33, 4, "mean", dim, length="cart_len"), bag("seen", 97, 3, "sum", dim, "seen_len", embedding_name="item")]


def scripts_columns():
    return [sparse("城市", 31), DenseFeat("возраст"), DenseFeat("מחיר", 2), bag("café", 31, 5, "mean", embedding_name="城市"),
            bag("タグ 😀", 13, 4, "sum", length="длина")]


def dims_columns():
    return [sparse("user", 31, 3), DenseFeat("age"), sparse("item", 17, 9), bag("tags", 13, 5, "sum", 2),
            bag("hist", 11, 4, "mean", 5)]


def max_columns():
    return [sparse("user", 31), DenseFeat("age"), bag("hist", 19, 7, "max"), bag("tags", 13, 5, "max"), sparse("city", 3)]


def dt(model, linear=None, deep=None, half=None, table_dtype=None, dice=False, empty_max=False, **options):
    """A factory of one DeepCTR-Torch case; `dice` puts its 2-D Dice into the DNN, which no constructor option can do."""
    def make(seed):
        wide = columns() if linear is None else linear
        built = model(wide, wide if deep is None else deep, **options)
        if dice:
            for i, layer in enumerate(built.dnn.linears):
                built.dnn.activation_layers[i] = Dice(layer.out_features, dim=2)
        zoo.randomise(built, seed)
        return "deepctr_torch", built, None, {"table_dtype": table_dtype, "half": half, "empty_max": empty_max}
    return make


def deepctr_cases():
    """name -> factory"""
    hidden = (16, 8)
    out = {"LR (WDL without DNN)": dt(WDL, deep=[]), "LR with unused dnn columns": dt(WDL, dnn_hidden_units=()),
           "FM (DeepFM without DNN)": dt(DeepFM, dnn_hidden_units=()),
           "LR (DeepFM without dnn columns)": dt(DeepFM, deep=[]),
           "LR of numbers (DeepFM)": dt(DeepFM, [DenseFeat("a"), DenseFeat("b", 5)], []),
           "DeepFM without DNN, dense dnn columns": dt(DeepFM, deep=[DenseFeat("age")], dnn_hidden_units=()),
           "DeepFM, use_fm off": dt(DeepFM, use_fm=False),
           "DeepFM, names in many scripts": dt(DeepFM, scripts_columns(), dnn_hidden_units=hidden),
           "WDL, no linear columns": dt(WDL, linear=[], deep=columns(), dnn_hidden_units=hidden),
           "WDL, linear and dnn columns differ": dt(WDL, columns()[:3], columns()[2:], dnn_hidden_units=hidden),
           "WDL, dims per feature": dt(WDL, dims_columns(), dnn_hidden_units=hidden),
           "WDL, dense only": dt(WDL, [DenseFeat("a"), DenseFeat("b", 5)], dnn_hidden_units=hidden),
           "DeepFM, ids only": dt(DeepFM, [sparse(f"c{i}", 7 + i) for i in range(4)], dnn_hidden_units=hidden)}
    for model in (WDL, DeepFM, DCN, DCNMix):
        out.update(_dnn_cases(model, hidden))
    for name in ("vector", "matrix"):
        for cross in (0, 1, 3):
            out[f"DCN {name}, {cross} cross layers"] = dt(DCN, cross_num=cross, cross_parameterization=name,
                                                          dnn_hidden_units=hidden)
        out[f"DCN {name}, dims per feature"] = dt(DCN, dims_columns(), cross_parameterization=name, dnn_hidden_units=hidden)
    for rank, experts in ((3, 4), (2, 1), (8, 2)):
        out[f"DCNMix r{rank} x {experts}"] = dt(DCNMix, low_rank=rank, num_experts=experts, dnn_hidden_units=hidden)
    for dtype in (torch.float16, torch.bfloat16):
        out[f"DCN, weights {str(dtype)[6:]}"] = dt(DCN, half=dtype, dnn_hidden_units=hidden)
    many = [sparse(f"c{i}", 100 + 37 * i, 16) for i in range(20)] + [DenseFeat("vec", 13), bag("hist", 500, 20, "mean", 16)]
    for model in (DeepFM, DCN, DCNMix):
        out[f"{model.__name__}, 21 fields of 16, wide layers"] = dt(model, many, dnn_hidden_units=(256, 131), dnn_use_bn=True)
    for stored in ("f16", "bf16", "i8"):
        out[f"WDL, table_dtype {stored}"] = dt(WDL, table_dtype=stored, dnn_hidden_units=hidden)
    return {f"DeepCTR {k}": v for k, v in out.items()}


def _dnn_cases(model, hidden):
    name = model.__name__
    out = {f"{name}, hidden (1,)": dt(model, dnn_hidden_units=(1,)),
           f"{name}, hidden (33, 17, 5)": dt(model, dnn_hidden_units=(33, 17, 5)),
           f"{name}, batch norm, dropout": dt(model, dnn_hidden_units=hidden, dnn_use_bn=True, dnn_dropout=0.3),
           f"{name}, Dice": dt(model, dnn_hidden_units=hidden, dice=True),
           f"{name}, Dice, batch norm": dt(model, dnn_hidden_units=hidden, dice=True, dnn_use_bn=True),
           f"{name}, regression": dt(model, dnn_hidden_units=hidden, task="regression"),
           f"{name}, max pooling": dt(model, max_columns(), dnn_hidden_units=hidden),
           f"{name}, max pooling, empty bags": dt(model, max_columns(), dnn_hidden_units=hidden, empty_max=True)}
    if model is DeepFM:  # FM squares an empty bag's -1e9, and float32 keeps not even the sign of the difference
        del out[f"{name}, max pooling, empty bags"]
    kinds = ["relu", "sigmoid", "linear", "prelu"] + ([nn.Tanh, nn.LeakyReLU, nn.ELU, nn.SELU, nn.GELU, nn.SiLU, nn.Softplus,
                                                       nn.CELU, nn.Hardswish, nn.Softsign, nn.Hardsigmoid, nn.RReLU]
                                                      if model is DeepFM else [])
    for kind in kinds:
        label = kind if isinstance(kind, str) else kind.__name__
        out[f"{name}, {label}"] = dt(model, dnn_hidden_units=hidden, dnn_activation=kind)
        out[f"{name}, {label}, batch norm"] = dt(model, dnn_hidden_units=hidden, dnn_activation=kind, dnn_use_bn=True)
    return out
