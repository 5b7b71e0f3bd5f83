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
GRID_TARGET = {"fp32": 9.0, "tf32": 15.0, "fp16": 20.0}
STRONGEST_TARGET = 1.5
EMBEDDING_TARGET = 40.0
GATHER_TARGET = 0.70
SMALL_TARGET_US = 20.0


def cell(dataset, model, dim, hidden):
    return PAPER[dataset][model][SIZES.index((dim, hidden))]


def predicted(dataset, model, dim, hidden, precision):
    """Microseconds; fp32: the faster of the two ways."""
    text = PREDICTED[dataset]["dcnv2" if model == "dcnv2" else "mlp"][SIZES.index((dim, hidden))]
    return float(text.split("/")[{"fp32": 1, "tf32": 2, "fp16": 3}[precision]])
