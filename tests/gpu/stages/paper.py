"""Numbers that measured ones are put beside: the DPIFrame paper's speed-up over PyTorch per cell (read off its figures, +-0.03; its averages,
3.55 overall, are stated), our own predictions before any measurement (computed, +-40 %), and the targets."""

# model -> [dim_hidden in the order of SIZES]; RTX 3090, batch 2048, over PyTorch with one copy per field.
SIZES = ((16, 256), (16, 512), (16, 1024), (32, 256), (32, 512), (32, 1024))
PAPER = {
    "avazu": {"dcn": [3.31, 3.26, 2.33, 3.26, 3.04, 2.22], "dcnv2": [3.12, 2.75, 2.33, 2.49, 2.43, 2.04],
              "widedeep": [4.93, 4.29, 2.91, 4.56, 4.19, 2.70], "deepfm": [4.74, 4.34, 2.96, 4.34, 3.89, 2.88]},
    "criteo": {"dcn": [4.11, 3.83, 2.79, 3.67, 3.26, 2.57], "dcnv2": [3.42, 3.39, 2.66, 2.48, 2.48, 2.10],
               "widedeep": [5.83, 5.17, 3.64, 5.21, 4.89, 3.42], "deepfm": [5.83, 5.05, 3.70, 4.20, 3.98, 3.07]},
}
# The same of TorchRec, HugeCTR and OneFlow over PyTorch, from the same figures: the paper's ratio over one of them is PAPER's over its own.
RELATIVES = {
    "avazu": {
        "dcn": [(1.21, 2.14, 1.96), (1.27, 2.09, 2.12), (1.27, 1.80, 1.58), (1.21, 1.85, 2.06), (1.21, 1.85, 2.14), (1.16, 1.58, 1.48)],
        "dcnv2": [(1.29, 1.82, 1.98), (1.32, 1.82, 2.17), (1.27, 1.56, 1.48), (1.32, 1.32, 1.48), (1.29, 1.32, 1.61), (1.24, 1.21, 1.37)],
        "widedeep": [(1.37, 2.75, 2.49), (1.34, 2.65, 2.51), (1.37, 2.17, 2.12), (1.32, 2.46, 2.46), (1.43, 2.49, 2.75), (1.29, 1.96, 1.85)],
        "deepfm": [(1.21, 2.65, 2.43), (1.27, 2.59, 2.62), (1.24, 2.12, 2.01), (1.21, 2.27, 2.49), (1.24, 2.27, 2.67), (1.27, 1.93, 1.88)],
    },
    "criteo": {
        "dcn": [(1.47, 2.16, 2.63), (1.47, 2.22, 2.66), (1.35, 1.79, 1.79), (1.35, 1.97, 2.60), (1.31, 1.88, 2.54), (1.28, 1.69, 1.72)],
        "dcnv2": [(1.60, 1.91, 2.48), (1.53, 1.88, 2.51), (1.41, 1.66, 1.72), (1.41, 1.28, 1.79), (1.35, 1.28, 1.82), (1.28, 1.22, 1.63)],
        "widedeep": [(1.47, 2.73, 3.32), (1.53, 2.73, 3.48), (1.47, 2.35, 2.48), (1.47, 2.54, 3.35), (1.53, 2.60, 3.64), (1.47, 2.16, 2.26)],
        "deepfm": [(1.38, 2.73, 3.35), (1.38, 2.66, 3.42), (1.38, 2.22, 2.35), (1.38, 2.35, 3.29), (1.38, 2.35, 3.67), (1.35, 2.00, 2.22)],
    },
}
BASELINES = ("PyTorch", "TorchRec", "HugeCTR", "OneFlow")
PUBLISHED_ON = "published by its authors, on an RTX 3090 and an i9-10980XE: other hardware than anything measured here"
# Predicted device time, us: fp32 on plain units, fp32 by three TF32 products, tf32, fp16. "mlp": Wide&Deep, DeepFM, DCN after folding.
PREDICTED = {
    "criteo": {"mlp": ["38/25/17/15", "83/43/23/18", "244/110/45/28", "49/30/20/16", "105/53/28/19", "284/127/52/31"],
               "dcnv2": ["209/99/45/30", "285/130/56/35", "445/197/78/46", "620/273/106/60", "692/303/116/65", "927/401/149/81"]},
    "avazu": {"mlp": ["35/23/17/14", "80/42/22/17", "238/107/44/28", "46/28/19/15", "99/51/27/19", "275/123/51/30"],
              "dcnv2": ["102/54/29/22", "138/69/34/24", "304/138/57/36", "246/115/52/32", "330/150/63/38", "494/218/86/49"]},
}
PREDICTED_RATIO = {"fp32": 9.2, "tf32": 16, "fp16": 22}  # geometric mean over stock eager fp32; fp32 on plain units alone: 5.2
CEILINGS = {"copy TB/s": 4.3, "gather 64 B, share of copy": 0.50, "gather 128 B": 0.65, "gather 256 B": 0.80, "fp32 TF": 55, "tf32 TF": 395,
            "16-bit TF": 788, "H2D GB/s": 53}
# Geometric means over stock eager fp32: of device times with the rows on the GPU already, and host to host, where packing and copying count too.
DEVICE_TARGET = {"fp32": 9.0, "tf32": 15.0, "fp16": 20.0}
HOST_TARGET = {"fp32": 6.0, "tf32": 9.0, "fp16": 10.5}
FIELD_TARGET = 6.0  # geometric mean over eager PyTorch with a table per field and one copy of the ids, fp32
STRONGEST_TARGET = 1.5  # geometric mean
EMBEDDING_TARGET = 40.0
GATHER_TARGET = 0.70  # of lookup_ceiling_us() in analysis.py
SMALL_TARGET_US = 20.0


def published(dataset, model, dim, hidden):
    """{baseline: the paper's own ratio over it}"""
    at = SIZES.index((dim, hidden))
    over = PAPER[dataset][model][at]
    return {name: over / other for name, other in zip(BASELINES, (1.0, *RELATIVES[dataset][model][at]))}


def cell(dataset, model, dim, hidden):
    return PAPER[dataset][model][SIZES.index((dim, hidden))]


def predicted(dataset, model, dim, hidden, precision):
    """Microseconds; fp32: the faster of the two ways."""
    text = PREDICTED[dataset]["dcnv2" if model == "dcnv2" else "mlp"][SIZES.index((dim, hidden))]
    return float(text.split("/")[{"fp32": 1, "tf32": 2, "fp16": 3}[precision]])
