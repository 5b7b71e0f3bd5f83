"""CAN with its options, for test_can: MODELS {name: a function that makes a Described}."""

import dataclasses

import torch
from dpi_export.models import CAN, MicroMlp

N, T = 8, 7
SIZES = {"uid": 11, "mid": 23, "cate": 6}
HISTORIES = {"mid_his": "mid", "cate_his": "cate"}
ITEMS = [("mid", "mid_his"), ("cate", "cate_his")]
ALL = [(i, f) for i in ("mid", "cate") for f in ("mid_his", "cate_his")]


@dataclasses.dataclass
class Described:
    """A model, what from_torch is told of it, and what can_numpy is told of it."""

    model: CAN
    example: dict
    features: dict
    said: dict


def described(micro, pairs, histories=HISTORIES, independent=True, lengths=None, **keywords):
    """A CAN over uid, mid, cate and their histories of T positions."""
    lengths = lengths or {}
    model = CAN(SIZES, histories, pairs, lengths, micro=MicroMlp(**micro), independent=independent, **keywords)
    example = {name: torch.randint(0, size, (N,)) for name, size in SIZES.items()}
    example.update({history: torch.randint(0, SIZES[field], (N, T)) for history, field in histories.items()})
    example.update({name: torch.full((N,), T) for name in lengths.values()})
    features = {name: {"vocab_size": SIZES[histories.get(name, name)]} for name in example if name not in lengths.values()}
    features.update({name: {"kind": "length", "of": history} for history, name in lengths.items()})
    said = {"fields": list(SIZES), "histories": histories, "pairs": pairs, "micro": micro, "independent": independent, "lengths": lengths,
            "hidden": keywords.get("activation")}
    return Described(model, example, features, said)


MODELS = {
    # the authors' graph: its sizes, and all four combinations of features
    "released": lambda: described({}, ITEMS),
    "released_all_pairs": lambda: described({}, ALL),
    # their graph for single values: 256 numbers, five orders summed
    "single_values": lambda: described({"widths": (16, 16), "orders": 5, "order_join": "sum", "act_on_last": True}, [("mid", "uid"), ("uid", "cate")]),
    # as ReChorus has it: orders joined at the input, biases, the activation everywhere, a mean
    "orders_at_the_input": lambda: described({"widths": (6, 5, 3), "bias": True, "order_join": "input", "act_on_last": True, "pool": "mean"}, ITEMS),
    # as gbiz_torch has it: SELU, one order, the last level
    "one_order": lambda: described({"widths": (8, 5, 3), "bias": True, "orders": 1, "activation": "selu", "collect": "last"}, ITEMS),
    "independent_orders": lambda: described({"widths": (5, 4, 3), "bias": (True, False), "orders": 2, "order_weights": "independent"}, ITEMS),
    "independent_orders_summed": lambda: described(
        {"widths": (5, 4), "orders": 3, "order_weights": "independent", "order_join": "sum", "act_on_last": True, "activation": "sigmoid",
         "pool": "mean"}, ITEMS),
    "rows_of_all_pairs": lambda: described({"widths": (4, 3, 2)}, ALL + [("uid", "mid_his"), ("mid", "cate")], independent=False, batch_norm=False),
    "by_length": lambda: described({"widths": (4, 6, 5, 2), "orders": 4, "activation": "relu", "collect": "last"}, ITEMS,
                                   lengths={"mid_his": "mid_len"}, activation="relu"),
    "one_level": lambda: described({"widths": (3, 4), "orders": 2, "activation": "none", "bias": True}, ITEMS[:1], activation="tanh",
                                   hidden=(9,), dim=5),
}

REFUSED = {}


def make(name, seed=1):
    """The Described with random weights, in evaluation mode: logits of a few units, rows of padding as random as all others."""
    torch.manual_seed(seed)
    found = MODELS[name]()
    with torch.no_grad():
        for path, p in found.model.named_parameters():
            p.normal_(std=0.5 if path.startswith(("embedding", "co_action")) else (p.shape[-1] ** -0.5 if p.dim() > 1 else 0.3))
        norm = found.model.norm
        if norm is not None:
            norm.running_mean.normal_(std=0.5)
            norm.running_var.uniform_(0.5, 2)
            norm.weight.uniform_(0.5, 1.5)
    found.model.eval()
    return found
