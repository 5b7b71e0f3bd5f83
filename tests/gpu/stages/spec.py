"""The benchmark's models as data: a bundle's manifest and, for each array, its shape and the size of its random values. gpu_make_bundle
turns a spec into a bundle, peers/model.py into torch modules on the same numbers. Needs nothing but Python.

Shapes are those of the DPIFrame paper (arXiv 2606.21101): Criteo as FuxiCTR's Criteo_x4 has it (39 categorical fields) and Avazu_x4 (24);
`criteo_numeric` is Criteo_x1's form with 13 numeric and 26 categorical fields; `large` has 33.8 million rows, far beyond any cache; `huge` has
one table above 4 GiB at 16 dimensions, for checks only; `tiered` is what call C asks for with less device memory than its tables take: ten times
an H200's second-level cache."""

import dataclasses

CRITEO = [44, 99, 122, 41, 220, 112, 80, 69, 92, 6, 27, 37, 72, 1446, 554, 157339, 117822, 306, 18, 11882, 630, 5, 39530, 5131, 156656,
          3176, 28, 11043, 148913, 12, 4560, 2003, 5, 154564, 18, 17, 53031, 82, 40955]
AVAZU = [26, 9, 4, 9, 9, 4051, 5461, 27, 6545, 400, 33, 820509, 2903322, 7259, 7, 6, 2556, 10, 11, 434, 6, 70, 173, 62]
CRITEO_NUMERIC = [1462, 560, 413424, 248543, 307, 23, 12192, 635, 5, 54712, 5350, 409749, 3182, 29, 12500, 365811, 12, 4934, 2096, 6,
                  397981, 20, 17, 88608, 98, 64073]
DATASETS = {"criteo": (0, CRITEO), "avazu": (0, AVAZU), "criteo_numeric": (13, CRITEO_NUMERIC), "large": (13, [1_300_000] * 26),
            "huge": (0, [70_000_000, 1000]), "tiered": (13, [500_000] * 26), "tiered_dry": (1, [70_000] + [10_000] * 3)}
KINDS = ("widedeep", "deepfm", "dcn", "dcnv2")
CROSS_LAYERS = 3


@dataclasses.dataclass(frozen=True)
class Shape:
    """One model of the comparison. dry: vocabularies of at most 50 rows."""
    kind: str
    dataset: str = "criteo"
    dim: int = 16
    hidden: tuple = (256, 256, 256)
    dry: bool = False

    @property
    def name(self):
        widths = str(self.hidden[0]) if len(set(self.hidden)) == 1 else "-".join(map(str, self.hidden))
        return f"{self.kind}_{self.dataset}_d{self.dim}_{widths}"

    @property
    def numerics(self):
        return DATASETS[self.dataset][0]

    @property
    def vocabs(self):
        return [min(v, 50) if self.dry else v for v in DATASETS[self.dataset][1]]

    @property
    def fields(self):
        return self.numerics + len(self.vocabs)

    @property
    def width(self):
        return self.fields * self.dim

    def flops_per_row(self):
        """Multiply-adds of the GEMMs, counted twice; the closed form of DCN's cross part and FM have none."""
        widths = [self.width, *self.hidden, 1]
        flops = 2 * sum(a * b for a, b in zip(widths, widths[1:]))
        return flops + (2 * CROSS_LAYERS * self.width ** 2 if self.kind == "dcnv2" else 0)

    def row_bytes(self, element=4):
        return len(self.vocabs) * self.dim * element


def paper_grid(dry=False):
    """The 48 cells: dataset, model, dim, hidden."""
    if dry:
        return [Shape("deepfm", "criteo", 4, (8, 8, 8), True), Shape("dcnv2", "avazu", 4, (8, 8, 8), True)]
    return [Shape(kind, dataset, dim, (hidden,) * 3)
            for dataset in ("criteo", "avazu") for dim in (16, 32) for hidden in (256, 512, 1024) for kind in KINDS]


class Spec:
    """Collects ops and arrays; names follow what peers/model.py looks up."""

    def __init__(self, shape):
        self.shape, self.ops, self.features, self.tables, self.arrays = shape, [], [], [], []

    def op(self, name, kind, inputs=(), attrs=None, params=None, module=""):
        entry = {"name": name, "op": kind, "in": list(inputs), "attrs": attrs or {}, "params": params or {}}
        if module:
            entry["module"] = module
        self.ops.append(entry)
        return name

    def array(self, path, shape, scale):
        self.arrays.append({"path": path, "shape": list(shape), "scale": scale})
        return path.rpartition("/")[2]

    def linear(self, name, x, n_in, n_out, bias=True, scale=None, module=""):
        scale = (2.0 / n_in) ** 0.5 if scale is None else scale
        params = {"weight": self.array(f"/params/{name}.w", (n_out, n_in), scale)}
        if bias:
            params["bias"] = self.array(f"/params/{name}.b", (n_out,), 0.05)
        return self.op(name, "Linear", [x], {}, params, module)

    def embed(self, name, x, rows, dim, scale):
        self.tables.append({"name": name, "rows": rows, "dim": dim, "dtype": "f32"})
        self.array(f"/tables/{name}", (rows, dim), scale)
        return self.op(f"e.{name}", "Embed", [x], {"table": name, "pooling": "single"})

    def binary(self, name, kind, x, y, module=""):
        return self.op(name, "Binary", [x, y], {"kind": kind}, module=module)

    def inputs(self):
        names = [f"n{i}" for i in range(self.shape.numerics)] + [f"c{i}" for i in range(len(self.shape.vocabs))]
        for i, name in enumerate(names):
            kind = {"kind": "numeric"} if i < self.shape.numerics else {"kind": "categorical",
                                                                        "vocab_size": self.shape.vocabs[i - self.shape.numerics]}
            self.features.append({"name": name, **kind})
            self.op(f"in.{name}", "Input", [], {"feature": name})
        return names

    def vectors(self, names, suffix, dim, scale):
        """One vector of `dim` per field, side by side."""
        parts = []
        for i, name in enumerate(names):
            if i < self.shape.numerics:
                parts.append(self.linear(f"{name}{suffix}", f"in.{name}", 1, dim, bias=False, scale=scale))
            else:
                parts.append(self.embed(f"{name}{suffix}", f"in.{name}", self.shape.vocabs[i - self.shape.numerics], dim, scale))
        return self.op(f"x{suffix}", "Concat", parts, {"axis": -1})


def _wide(spec, names, logit):
    wide = spec.op("wide", "Reduce", [spec.vectors(names, ".w", 1, 0.05)], {"kind": "sum", "axis": -1, "keepdim": True}, module="wide")
    return spec.binary("deep_wide", "add", logit, wide)


def _fm(spec, x0, logit):
    fields = spec.op("fm.fields", "View", [x0], {"kind": "reshape", "dims": [spec.shape.fields, spec.shape.dim]}, module="fm")
    total = spec.op("fm.sum", "Reduce", [fields], {"kind": "sum", "axis": 0}, module="fm")
    square = spec.op("fm.square", "Reduce", [total], {"kind": "sumsq", "axis": -1, "keepdim": True}, module="fm")
    squares = spec.op("fm.squares", "Reduce", [x0], {"kind": "sumsq", "axis": -1, "keepdim": True}, module="fm")
    pairs = spec.op("fm.pairs", "Unary", [spec.binary("fm.sub", "sub", square, squares, "fm")], {"kind": "affine", "a": 0.5, "b": 0.0},
                    module="fm")
    return spec.binary("with_fm", "add", logit, pairs)


def _cross(spec, x0):
    n, x = spec.shape.width, x0
    for i in range(CROSS_LAYERS):
        label = f"cross.{i}"
        if spec.shape.kind == "dcn":
            product = spec.binary(f"{label}.mul", "mul", x0, spec.linear(label, x, n, 1, bias=False, scale=n ** -0.5, module="cross"), "cross")
            bias = spec.op(f"{label}.bias", "Const", [], {}, {"value": spec.array(f"/params/{label}.b", (n,), 0.01)}, "cross")
            x = spec.binary(f"{label}.add", "add", spec.binary(f"{label}.plus", "add", product, bias, "cross"), x, "cross")
        else:
            product = spec.binary(f"{label}.mul", "mul", x0, spec.linear(label, x, n, n, scale=n ** -0.5, module="cross"), "cross")
            x = spec.binary(f"{label}.add", "add", product, x, "cross")
    return x


def make(shape):
    """Scales are such that logits spread over some units: an error relative to 1 + |logit| is then an error of the model.
    {"manifest": ..., "arrays": [{"path", "shape", "scale"}]} of a Shape."""
    spec = Spec(shape)
    names = spec.inputs()
    x0 = spec.vectors(names, "", shape.dim, 0.2)
    h, width = x0, shape.width
    for i, n in enumerate(shape.hidden):
        h = spec.op(f"relu.{i}", "Unary", [spec.linear(f"mlp.{i}", h, width, n, module="mlp")], {"kind": "relu"}, module="mlp")
        width = n
    if shape.kind.startswith("dcn"):
        h, width = spec.op("stack", "Concat", [_cross(spec, x0), h], {"axis": -1}), width + shape.width
    logit = spec.linear("out", h, width, 1, scale=3.0 * width ** -0.5)
    if not shape.kind.startswith("dcn"):
        logit = _wide(spec, names, logit)
    if shape.kind == "deepfm":
        logit = _fm(spec, x0, logit)
    spec.op("ctr", "Unary", [logit], {"kind": "sigmoid"})
    manifest = {"format": "dpi-bundle", "version": [2, 0], "name": shape.name, "provenance": {"exporter": "tests/gpu", "data": "random"},
                "features": spec.features, "tables": spec.tables, "ops": spec.ops,
                "heads": [{"name": "ctr", "value": "ctr", "logit": logit, "activation": "sigmoid"}]}
    return {"manifest": manifest, "arrays": spec.arrays}
