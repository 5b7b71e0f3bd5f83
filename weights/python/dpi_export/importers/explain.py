"""explain: what each layer of a model becomes, whichever importer takes it."""

import os

from ..trace.explain import explanation, planned
from .onnx_import import described
from .torch_import import TorchImport
from .traced_libraries import DeepctrTrace, FuxiTrace
from .wrapped import eager, unwrapped


def explain(model, feature_map=None, *, features=None, example=None, outputs=None, call=None, program=None):
    """What each layer of a model becomes in a bundle: its primitives and its floating-point operations per row. `feature_map`: of a FuxiCTR
    model; a DeepCTR-Torch model knows its features; any other model needs features and example, as from_torch takes them. `program`: the
    program dpi, whose plan then says which fused ops of the engine the primitives became.

    Returns an object with `layers` and `flops`; printed, it is a table.
    """
    model = unwrapped(model)
    if isinstance(model, (str, bytes, os.PathLike)) or type(model).__name__ == "ModelProto":
        traced = described(model, features, outputs)
        model = traced.model
    elif feature_map is not None:
        traced = FuxiTrace(model, feature_map)
    elif features is None and hasattr(model, "feature_index"):
        traced = DeepctrTrace(model, None)
    else:
        if features is None or example is None:
            raise ValueError("explain: this model needs features= and example=, as from_torch does")
        traced = TorchImport(model, {"features": features, "example": example, "outputs": outputs, "call": call})
    with eager():
        traced.build()
    return explanation(model, traced.heads, None if program is None else planned(traced.b, program))
