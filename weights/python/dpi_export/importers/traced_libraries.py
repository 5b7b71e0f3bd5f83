"""FuxiCTR and DeepCTR-Torch models that the hand-written importers do not know, by tracing: their features are described here."""

import numpy as np

from ..errors import UnsupportedModelError
from ..library_run import to_numpy
from .library_rows import id_rules, matrix_of
from .run import export
from .torch_import import TorchImport


def export_or_trace(importer, tracer, model, feature_map, path, given, trace):
    """export() with the hand-written importer; what that one refuses is traced. A refusal of both says both reasons."""
    try:
        return export(importer, model, feature_map, path, given)
    except UnsupportedModelError as unknown:
        if not trace:
            raise
        try:
            return export(tracer, model, feature_map, path, given)
        except UnsupportedModelError as refused:
            raise UnsupportedModelError(f"{unknown}. By tracing: {refused}") from refused


def _suggested(encoders, name):
    return dict(getattr((encoders or {}).get(name), "suggested", None) or {})


class FuxiTrace(TorchImport):
    """A FuxiCTR model, called with {feature: tensor} as its own loader does."""

    library = "fuxictr"

    def __init__(self, model, feature_map, encoders=None, **options):
        import torch

        features, example = {}, {}
        for name, spec in feature_map.features.items():
            kind, suggested = spec["type"], _suggested(encoders, name)
            if kind == "meta":
                continue
            if kind not in ("numeric", "embedding", "categorical", "sequence"):
                raise UnsupportedModelError(f"feature '{name}': type '{kind}' is not supported")
            if kind in ("categorical", "sequence"):
                rules, size = id_rules(spec), int(spec["vocab_size"])
                if kind == "sequence":
                    rules["pad_side"] = spec.get("padding", "post")
                elif rules:
                    rules.update(missing="default", default_id=rules["oov_id"])
                features[name] = {"kind": kind, "vocab_size": size, **rules, **suggested}
                dims = (2,) if kind == "categorical" else (2, int(spec["max_len"]))
                example[name] = torch.zeros(dims, dtype=torch.int64)
            else:
                features[name] = {"kind": "numeric" if kind == "numeric" else "dense", **(suggested if kind == "numeric" else {})}
                example[name] = torch.zeros((2,) if kind == "numeric" else (2, int(spec["pretrain_dim"])))
        super().__init__(model, {"features": features, "example": example, "outputs": None, "of": "y_pred"}, encoders=encoders, **options)


class DeepctrTrace(TorchImport):
    """A DeepCTR-Torch model, called with its one matrix."""

    library = "deepctr_torch"

    def __init__(self, model, _feature_map, encoders=None, **options):
        import torch

        index = getattr(model, "feature_index", None)
        if index is None:
            raise UnsupportedModelError(f"{type(model).__name__}: has no feature_index, so it is no model of DeepCTR-Torch")
        features = deepctr_features(model, index)
        example = torch.zeros(2, max(end for _, end in index.values()))
        super().__init__(model, {"features": features, "example": example}, encoders=encoders, **options)

    def _name_heads(self):
        """As the model's tasks are called; ESMM forgets their names."""
        names = getattr(self.model, "task_names", None) or {"ESMM": ("ctr", "ctcvr")}.get(type(self.model).__name__, ())
        for head, name in zip(self.heads, names if len(names) == len(self.heads) > 1 else ()):
            head.name = name

    def columns(self, rows):
        """As TorchImport.columns, of rows in any form that the library takes."""
        return super().columns(matrix_of(self.model, rows))

    def put(self, rows, name, values):
        """Sets a feature's part of the matrix."""
        super().put(rows, name, values)

    def join(self, a, b):
        """Rows of `a`, then of `b`."""
        return np.concatenate([matrix_of(self.model, a), to_numpy(b)])

    def run(self, rows, dtype=None, alone=False):
        """(values, logits) of the model itself."""
        return super().run(matrix_of(self.model, rows), dtype, alone)

    def select(self, rows, keep):
        """Some of the rows."""
        return matrix_of(self.model, rows)[keep]


def deepctr_features(model, index):
    """features= of a DeepCTR-Torch model: its columns by their places in the matrix."""
    kinds = [f"{kind}_feature_columns" for kind in ("sparse", "varlen_sparse", "dense")]
    columns = [c for layer in model.modules() for kind in kinds for c in getattr(layer, kind, [])]  # MLR has several linear parts
    known = {c.name: c for c in columns + list(model.dnn_feature_columns)}
    features, lengths = {}, {}
    for column in known.values():
        if getattr(column, "length_name", None) is not None:
            lengths.setdefault(column.length_name, []).append(column.name)
    for name, (lo, hi) in index.items():
        column, place = known.get(name), {"columns": (lo, hi)}
        kind = type(column).__name__
        if kind == "SparseFeat":
            features[name] = {"kind": "categorical", "vocab_size": column.vocabulary_size, **place}
        elif kind == "VarLenSparseFeat":
            features[name] = {"kind": "sequence", "vocab_size": column.vocabulary_size, **place}
        elif kind == "DenseFeat":
            features[name] = {"kind": "numeric" if column.dimension == 1 else "dense", **place}
        elif name in lengths:
            features[name] = {"kind": "length", "of": lengths[name], **place}
    return features
