"""CAN by its formulas in float64 numpy: one row, one pair, one order and one position at a time. Nothing here knows dpi_export or torch.

From Bian et al., WSDM 2022 (arXiv 2011.05625), part 4: the induction row is cut into W_1, b_1, W_2 ..., h_0 = feed^order, h_l = act(h_{l-1} W_l
+ b_l), outputs gathered over orders and levels, summed over the history. The shapes that the authors released: released_graph.
"""

import numpy as np

SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805
ACT = {"tanh": np.tanh, "relu": lambda x: np.where(x > 0, x, 0.0), "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "none": lambda x: x,
       "selu": lambda x: SELU_SCALE * np.where(x > 0, x, SELU_ALPHA * (np.exp(np.minimum(x, 0)) - 1))}

#: What the options mean where they are left out.
DEFAULTS = {"widths": (16, 8, 4), "bias": False, "orders": 3, "order_weights": "shared", "order_join": "concat", "activation": "tanh",
            "act_on_last": False, "collect": "all", "pool": "sum"}


def cut(numbers, first, widths, bias):
    """[(W, b)] of consecutive numbers: W row by row, then b if the level has one. Returns the numbers that are left over too."""
    found, inputs = [], first
    for outputs, has_bias in zip(widths, bias):
        weight = [[numbers[i * outputs + o] for o in range(outputs)] for i in range(inputs)]
        numbers = numbers[inputs * outputs:]
        found.append((np.array(weight), numbers[:outputs] if has_bias else np.zeros(outputs)))
        numbers = numbers[outputs:] if has_bias else numbers
        inputs = outputs
    return found, numbers


def micro_mlp(levels, x, act, act_on_last):
    """The outputs of every level, a list of vectors."""
    outputs = []
    for place, (weight, bias) in enumerate(levels):
        x = np.array([sum(x[i] * weight[i, o] for i in range(len(x))) + bias[o] for o in range(len(bias))])
        if act_on_last or place < len(levels) - 1:
            x = ACT[act](x)
        outputs.append(x)
    return outputs


def at_position(m, induction, feed):
    """What one feed vector gives with one induction row."""
    bias = [m["bias"]] * (len(m["widths"]) - 1) if isinstance(m["bias"], bool) else m["bias"]
    powers = [np.array([v ** o for v in feed]) for o in range(1, m["orders"] + 1)]
    if m["order_join"] == "input":
        powers = [np.concatenate(powers)]
    found, rest = [], induction
    for place, x in enumerate(powers):
        if place == 0 or m["order_weights"] == "independent":
            levels, rest = cut(rest, len(x), m["widths"][1:], bias)
        outputs = micro_mlp(levels, x, m["activation"], m["act_on_last"])
        found.append(np.concatenate(outputs) if m["collect"] == "all" else outputs[-1])
    assert len(rest) == 0, "the induction row holds more numbers than the micro-MLPs take"
    return sum(found) if m["order_join"] == "sum" else np.concatenate(found)


def co_action(options, induction, feeds, counts):
    """One row's pair: induction [P], feeds [T, m], counts [T] (which positions are there) -> [outputs], with pool "none" [T, outputs]."""
    m = {**DEFAULTS, **options}
    each = [at_position(m, induction, feed) for feed in feeds]
    there = [out for out, counted in zip(each, counts) if counted]
    if m["pool"] == "none":
        return np.array([out if counted else 0 * out for out, counted in zip(each, counts)])
    total = sum(there) if there else np.zeros_like(each[0])
    return total / max(1, len(there)) if m["pool"] == "mean" else total


def dense_part(w, x):
    """Batch normalisation if there is one, hidden layers with PReLU, ReLU or tanh, the last layer; w: a dict of arrays by torch's names."""
    if "norm.weight" in w:
        x = w["norm.weight"] * (x - w["norm.running_mean"]) / np.sqrt(w["norm.running_var"] + w["eps"]) + w["norm.bias"]
    last = max(int(name.split(".")[1]) for name in w if name.startswith("mlp."))
    for layer in range(0, last + 1, 2):
        x = w[f"mlp.{layer}.weight"] @ x + w[f"mlp.{layer}.bias"]
        if layer < last:
            x = np.where(x > 0, x, w[f"mlp.{layer + 1}.weight"] * x) if f"mlp.{layer + 1}.weight" in w else ACT[w["hidden"]](x)
    return x[0]


def can(w, described, row):
    """One row's logit. described: {"fields": names, "histories": {history: field}, "pairs", "micro": options, "independent"}; row: {input: id
    or ids, "counts": {history: which positions are there}}."""
    parts = [w[f"embedding.{f}.weight"][row[f]] for f in described["fields"]]
    for history, field in described["histories"].items():
        table = w[f"embedding.{field}.weight"]
        parts.append(sum((table[i] for i, counted in zip(row[history], row["counts"][history]) if counted), np.zeros(table.shape[1])))
    seen = {}
    for induction, feed in described["pairs"]:
        weights = w[f"co_action.induction.{induction}.weight"][row[induction]]
        single = np.ndim(row[feed]) == 0
        ids, counts = ([row[feed]], [True]) if single else (row[feed], row["counts"][feed])
        feeds = np.array([w[f"co_action.feed.{feed}.weight"][i] for i in ids])
        if described["independent"]:  # the pair's own slice: as many equal ones as pairs that the feature is in
            mine = [p for p in described["pairs"] if p[0] == induction].index((induction, feed))
            theirs = [p for p in described["pairs"] if p[1] == feed].index((induction, feed))
            weights = np.split(weights, sum(p[0] == induction for p in described["pairs"]))[mine]
            feeds = np.split(feeds, sum(p[1] == feed for p in described["pairs"]), axis=1)[theirs]
        seen[induction, feed] = co_action(described["micro"], weights, feeds, counts)
    return dense_part(w, np.concatenate(parts + [seen[tuple(p)] for p in described["pairs"]]))


def released_graph(tables, mid, cate, mid_his, cate_his):
    """The co-action part of the authors' TensorFlow graph with its sizes written out, for one row without padding: item_mlp_embedding_var and
    cate_mlp_embedding_var [., 160], item_input_embedding_var and cate_input_embedding_var [., 16] -> 72 numbers, 36 a pair."""
    out = np.zeros(72)
    for pair, (name, one, many) in enumerate((("item", mid, mid_his), ("cate", cate, cate_his))):
        row = tables[f"{name}_mlp_embedding_var"][one]
        first, second = row[:128].reshape(16, 8), row[128:160].reshape(8, 4)
        for item in many:
            x = tables[f"{name}_input_embedding_var"][item]
            for order in range(3):
                hidden = np.tanh(np.einsum("i,io->o", x ** (order + 1), first))
                start = 36 * pair + 12 * order
                out[start:start + 8] += hidden
                out[start + 8:start + 12] += np.einsum("i,io->o", hidden, second)
    return out
