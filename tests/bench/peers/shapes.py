"""What is scored: fields and their tables, the layers, weights and rows. numpy alone: every engine's process reads this."""

import numpy as np

CRITEO = [44, 99, 122, 41, 220, 112, 80, 69, 92, 6, 27, 37, 72, 1446, 554, 157339, 117822, 306, 18, 11882, 630, 5, 39530,
          5131, 156656, 3176, 28, 11043, 148913, 12, 4560, 2003, 5, 154564, 18, 17, 53031, 82, 40955]  # Criteo_x4, 910,747 rows
# 24 fields of Avazu's kinds: hour, places, sites, apps, devices, anonymous codes. The three large ones are its device_ip, device_id and site.
AVAZU = [242, 9, 9, 4582, 7338, 28, 8089, 540, 38, 2556028, 6448606 // 8, 8096, 7, 6, 2604, 10, 11, 436, 6, 70, 174, 62, 32, 9]
CACHED = [100] * 39  # tables of 250 KB in all: a lookup that never leaves the second-level cache

SHAPES = {"criteo": CRITEO, "avazu": AVAZU, "cached": CACHED}
HIDDEN = {"64-32": [64, 32], "3x256": [256] * 3, "3x512": [512] * 3, "3x1024": [1024] * 3}
MODELS = ("widedeep", "deepfm", "dcn", "dcnv2")
DIM, CROSS_LAYERS = 16, 3


def make_weights(model, shape, hidden, seed=7):
    """Arrays by name: table [rows, D] of all fields one behind the other, linear [rows], w0.. [in, out], b0.., cross_w0.., out_w, out_b."""
    rng, fields, widths = np.random.default_rng(seed), SHAPES[shape], HIDDEN[hidden]
    n = len(fields) * DIM

    def rand(*size, scale):
        return rng.standard_normal(size, dtype=np.float32) * np.float32(scale)
    found = {"offsets": np.concatenate([[0], np.cumsum(fields)[:-1]]).astype(np.int64), "table": rand(sum(fields), DIM, scale=0.1)}
    if not model.startswith("dcn"):
        found["linear"] = rand(sum(fields), scale=0.1)
    for i, (a, b) in enumerate(zip([n, *widths], widths)):
        found[f"w{i}"], found[f"b{i}"] = rand(a, b, scale=(2 / a) ** 0.5), rand(b, scale=0.1)
    for i in range(CROSS_LAYERS if model.startswith("dcn") else 0):
        found[f"cross_w{i}"] = rand(n, 1 if model == "dcn" else n, scale=n ** -0.5)
        found[f"cross_b{i}"] = rand(n, scale=0.01)
    end = widths[-1] + (n if model.startswith("dcn") else 0)
    found["out_w"], found["out_b"] = rand(end, 1, scale=0.3 * end ** -0.5), rand(1, scale=0.1)
    return found


def make_rows(shape, batch, rng):
    """Ids [batch, fields] with the skew of traffic: Zipf 1.1 over each field's rows, shuffled."""
    columns = [(rng.zipf(1.1, batch) * 2654435761 % v).astype(np.int64) for v in SHAPES[shape]]
    return np.ascontiguousarray(np.stack(columns, axis=1))


def layers(model, weights):
    """Number of hidden layers, number of cross layers."""
    return sum(k.startswith("w") for k in weights), sum(k.startswith("cross_w") for k in weights)


def float64(model, weights, ids):
    """The scores by the papers' formulas in float64."""
    w = {k: v.astype(np.float64) if v.dtype == np.float32 else v for k, v in weights.items() if k not in ("table", "linear")}
    rows = ids + weights["offsets"]
    e = weights["table"][rows].astype(np.float64)
    x0 = e.reshape(len(ids), -1)
    hidden, crosses = layers(model, weights)
    h = x0
    for i in range(hidden):
        h = np.maximum(h @ w[f"w{i}"] + w[f"b{i}"], 0)
    x = x0
    for i in range(crosses):
        product = x @ w[f"cross_w{i}"]
        x = x0 * product + w[f"cross_b{i}"] + x if model == "dcn" else x0 * (product + w[f"cross_b{i}"]) + x
    logit = (np.concatenate([x, h], axis=1) if crosses else h) @ w["out_w"] + w["out_b"]
    logit = logit[:, 0]
    if "linear" in weights:
        logit = logit + weights["linear"][rows].astype(np.float64).sum(axis=1)
    if model == "deepfm":
        logit = logit + 0.5 * (e.sum(axis=1) ** 2 - (e ** 2).sum(axis=1)).sum(axis=1)
    return 1 / (1 + np.exp(-logit))


def work(model, weights, batch):
    """What a call needs at least: multiply-adds as they are counted by the formulas, bytes of dense weights, table rows read."""
    dense = [v for k, v in weights.items() if v.ndim == 2 and k != "table"]
    fields = len(weights["offsets"])
    return {"flops": 2 * batch * sum(v.size for v in dense), "weight_bytes": 4 * sum(v.size for v in dense),
            "table_bytes": weights["table"].nbytes, "lines": batch * fields * (1 + ("linear" in weights))}
