"""ONNX models -> bundles. The graph becomes a module of torch calls (onnx/module.py), and that is traced like any other (torch_import.py)."""

import os

import numpy as np

from ..errors import UnsupportedModelError
from .run import export
from .torch_import import TorchImport

#: Rows that the file itself is run on by ONNX Runtime, where that is installed.
_RUNTIME_ROWS = 24
#: What a graph is refused with that was made for one number of rows.
_ROWS_FIXED = ("own forward fails", "tears rows apart", "not one entry per row", "takes some of the rows", "differs between")
_RUNTIME_TOLERANCE = 1e-4  #: of float32 beside float64; what was misread differs by more


def from_onnx(model, path, *, features=None, rows=None, raw=None, encoders=None, outputs=None, shapes=None, name=None, metrics=None,
              table_dtype=None, stats=None, check=True):
    """Writes an ONNX model (opset 11 to 23) as a bundle. Needs torch and onnx.

    model        the path of a .onnx file, its bytes, or an onnx.ModelProto
    path         the bundle to write
    features     {feature: description} as in from_torch; `input` is the name of the graph's input (default: the feature's name, or the
                 only input), and table= names a weight of the graph. Ids that are looked up in tables of one size need no vocab_size.
                 Left out: every input is a feature
    rows         {input: array}; become golden rows with the model's outputs. Default: none but those of `raw`
    outputs      names of the graph's outputs that are scores, or {output: name of the head}; what only other outputs need is not read.
                 Default: all of them; a single one is called "ctr"
    shapes       {input: dims without the rows}, where the graph leaves them open
    raw, encoders, name, metrics, table_dtype, stats, check: as in from_fuxictr. With check=True, and ONNX Runtime installed, the file is
                 also run by it, and compared

    Raises UnsupportedModelError, naming node and operator, when the model cannot be carried over exactly.
    """
    described = {"features": features, "outputs": outputs, "shapes": shapes}
    source = Source(model, outputs)
    given = {"rows": rows, "raw": raw, "encoders": encoders, "features": None, "name": name or source.name, "metrics": metrics,
             "table_dtype": table_dtype, "stats": stats, "check": check}
    return export(OnnxImport, source, described, path, given)


def described(model, features=None, outputs=None):
    """The import of a model before it is built."""
    return OnnxImport(Source(model, outputs), {"features": features, "outputs": outputs})


class Source:
    """A model as read, and what it is called in messages."""

    def __init__(self, model, outputs=None):
        from ..onnx.file import read_model
        from ..onnx.graph import graph_of
        from ..onnx.rewrite import rewritten
        from ..trace.build import clean

        self.proto, self.folder = read_model(model)
        self.path = os.fspath(model) if isinstance(model, (str, os.PathLike)) else None
        self.graph = rewritten(graph_of(self.proto, self.folder))
        self.outputs = list(outputs or self.graph.outputs)
        wrong = [name for name in self.outputs if name not in self.graph.outputs]
        if wrong:
            raise ValueError(f"outputs: the model has no '{wrong[0]}', only {', '.join(map(repr, self.graph.outputs))}")
        self.title = os.path.basename(self.path) if self.path else self.graph.name or "the ONNX model"
        self.name = clean(os.path.splitext(self.title)[0] if self.path else self.graph.name) or None

    def module(self, dtype=None):
        """The model as a torch.nn.Module."""
        import torch

        from ..onnx.module import model_class

        return model_class()(self.graph, self.outputs, self.title, dtype or torch.float32)


class OnnxImport(TorchImport):
    """One import of an ONNX model by tracing."""

    library = "onnx"

    def __init__(self, source, described, **options):
        self.source, self._double = source, None
        model = source.module()
        needed = [entry for entry in source.graph.inputs if entry[0] in model.read]
        if not needed:
            raise UnsupportedModelError(f"{source.title}: its outputs depend on no input")
        features = _features(source, described.get("features"), needed)
        outputs = described.get("outputs")
        heads = list(outputs.values()) if isinstance(outputs, dict) else outputs
        super().__init__(model, {"features": features, "example": _example(source, needed, features, described.get("shapes")),
                                 "outputs": heads, "call": lambda call, given: _named(call(given), heads)}, **options)

    def _check_weights(self):
        for name, t in self.model.named_parameters():
            if bool(t.isnan().any()):
                self.ctx.refuse(f"weight '{name}'", "holds NaN")
            if str(t.dtype) == "torch.float64" and t.numel() > 1:
                self.ctx.refuse(f"weight '{name}'", "is of double precision, expected float32, float16 or bfloat16")

    def build(self):
        """As TorchImport.build; where the number of rows seems to be fixed in the graph, the refusal says what to do."""
        try:
            return super().build()
        except UnsupportedModelError as e:
            if not any(text in str(e) for text in _ROWS_FIXED):
                raise
            raise UnsupportedModelError(f"{e}. Where the number of rows is fixed in the graph: export it with that dim left open (dynamic_axes= "
                                        "of torch.onnx.export; and no len(x) or x.shape[0] in forward, which become numbers)") from e

    def library_scores(self, forward, dtype):
        """forward(model) in float32, or in float64 on a copy of the weights."""
        import torch

        if dtype is not None and self._double is None:
            self._double = self.source.module(dtype)
        with torch.no_grad():
            return forward(self.model if dtype is None else self._double)

    def check_batch_sizes(self):
        """Other batch sizes, and the file itself by another runtime."""
        super().check_batch_sizes()
        from ..onnx.runtime import check_with_runtime

        check_with_runtime(self, _RUNTIME_ROWS, _RUNTIME_TOLERANCE)


def _named(out, heads):
    """The outputs under the names of their heads."""
    return out if heads is None else dict(zip(heads, out.values()))


def _features(source, given, needed):
    """features= with what the graph itself tells filled in."""
    from ..onnx.vocabulary import table_sizes

    names, sizes = [name for name, _, _ in needed], table_sizes(source.graph, source.outputs)
    given = {name: {} for name in names} if given is None else given
    everything, out = {name for name, _, _ in source.graph.inputs}, {}
    for name, description in given.items():
        held = dict(description)
        if len(names) == 1 and name not in everything:
            held.setdefault("input", names[0])
        if held.get("table") is not None:
            held["vocab_size"] = _rows_of(source, name, held.pop("table"))
        place = held.get("input", name)
        found = sizes.get((place, _first_column(held)), sizes.get((place, None)))
        if "vocab_size" not in held and found and held.get("kind") in (None, "categorical", "sequence"):
            held["vocab_size"] = found
        out[name] = held
    return {name: held for name, held in out.items() if held.get("input", name) in names or held.get("input", name) not in everything}


def _first_column(held):
    columns = held.get("columns")
    return columns[0] if isinstance(columns, (tuple, list)) else columns


def _rows_of(source, feature, table):
    tensor = source.graph.tensors.get(table)
    if tensor is None or not tensor.dims:
        raise ValueError(f"feature '{feature}': '{table}' is no weight of the model")
    return int(tensor.dims[0])


def _example(source, needed, features, shapes):
    """A batch of zeros in the form that the graph's inputs say."""
    import torch

    out, shapes = {}, shapes or {}
    for name, dtype, dims in needed:
        rest = list(shapes.get(name, dims[1:]))
        mine = [f for key, f in features.items() if f.get("input", key) == name and "columns" not in f]
        if rest.count(None) == 1 and len(mine) == 1 and (mine[0].get("max_len") or mine[0].get("dim")):
            rest = [mine[0].get("max_len") or mine[0].get("dim") if d is None else d for d in rest]
        if None in rest:
            raise ValueError(f"{source.title}: input '{name}' leaves its dims open ({dims}): give shapes={{'{name}': dims without the rows}}")
        if dtype in (np.uint16, np.uint32, np.uint64):
            raise UnsupportedModelError(f"{source.title}: input '{name}': is of {dtype}, expected int64, int32 or float")
        out[name] = torch.zeros((2, *rest), dtype=torch.from_numpy(np.zeros(1, dtype)).dtype)
    return out
