"""The one table from ONNX operators to handlers, and what is said of those that have none."""

import torch
import torch.nn.functional as F

from . import ops_axis as x
from . import ops_math as m
from . import ops_recurrent as r
from . import ops_shape as s

TABLE = {
    # element by element
    **{name: m.unary(getattr(torch, call)) for name, call in (
        ("Relu", "relu"), ("Sigmoid", "sigmoid"), ("Tanh", "tanh"), ("Exp", "exp"), ("Log", "log"), ("Abs", "abs"), ("Sqrt", "sqrt"),
        ("Neg", "neg"), ("Reciprocal", "reciprocal"), ("Sin", "sin"), ("Cos", "cos"), ("Sign", "sign"), ("Erf", "erf"),
        ("Floor", "floor"), ("Ceil", "ceil"), ("Round", "round"), ("Not", "logical_not"), ("IsNaN", "isnan"))},
    "Softplus": m.unary(F.softplus), "Mish": m.unary(F.mish), "Swish": m.unary(F.silu),
    "Add": m.binary(torch.add), "Sub": m.binary(torch.sub), "Mul": m.mul, "Div": m.div, "Mod": m.mod, "Pow": m.power,
    "Sum": m.several(torch.add), "Max": m.several(torch.maximum), "Min": m.several(torch.minimum), "Mean": m.mean, "Clip": m.clip,
    "LeakyRelu": m.leaky, "PRelu": m.prelu, "Elu": m.elu, "Selu": m.selu, "Celu": m.celu, "Gelu": m.gelu, "HardSigmoid": m.hard_sigmoid,
    "HardSwish": m.hard_swish, "Softsign": m.softsign, "ThresholdedRelu": m.thresholded, "Shrink": m.shrink,
    "Equal": m.compare(torch.eq, torch.eq), "Greater": m.compare(torch.gt, torch.lt), "Less": m.compare(torch.lt, torch.gt),
    "GreaterOrEqual": m.compare(torch.ge, torch.le), "LessOrEqual": m.compare(torch.le, torch.ge),
    "And": m.binary(torch.logical_and), "Or": m.binary(torch.logical_or), "Xor": m.binary(torch.logical_xor), "Where": m.where,
    "Cast": m.cast, "CastLike": m.cast_like, "IsInf": m.is_inf, "Dropout": m.dropout, "NanToNum": m.nan_to_num,
    # views and constants
    "Constant": s.constant, "Identity": s.identity, "Reshape": s.reshape, "Flatten": s.flatten, "Transpose": s.transpose,
    "Squeeze": s.squeeze, "Unsqueeze": s.unsqueeze, "Concat": s.concat, "Split": s.split, "Slice": s.sliced, "Expand": s.expand,
    "Tile": s.tile, "Pad": s.pad, "Shape": s.shape, "Size": s.size, "ConstantOfShape": s.constant_of_shape, "Range": s.ranged,
    "ScatterND": s.scatter_nd, "ScatterElements": s.scatter_elements, "Trilu": s.trilu, "NonZero": s.non_zero,
    "SplitToSequence": s.split_to_sequence, "SequenceAt": s.sequence_at,
    "SequenceConstruct": s.sequence_of, "ConcatFromSequence": s.concat_sequence,
    # over an axis
    "ReduceSum": x.reduction(x.total), "ReduceMean": x.reduction(x.mean), "ReduceMax": x.reduction(x.largest),
    "ReduceMin": x.reduction(x.smallest), "ReduceProd": x.reduction(x.product), "ReduceL1": x.reduction(x.norm(1), False),
    "ReduceL2": x.reduction(x.norm(2), False), "ReduceSumSquare": x.reduction(x.sum_square, False),
    "ReduceLogSum": x.reduction(x.log_sum, False), "ReduceLogSumExp": x.reduction(x.log_sum_exp, False),
    "Softmax": x.softmax, "LogSoftmax": x.log_softmax, "CumSum": x.cumsum, "TopK": x.top_k, "ArgMax": x.arg(torch.argmax),
    "ArgMin": x.arg(torch.argmin),
    # products, norms, lookups
    "MatMul": x.matmul, "Gemm": x.gemm, "Einsum": x.einsum, "Conv": x.conv, "MaxPool": x.max_pool,
    "BatchNormalization": x.batch_norm, "LayerNormalization": x.layer_norm, "RMSNormalization": x.rms_norm, "EmbeddingBag": x.embedding_bag, "Gather": x.gather,
    "GatherElements": x.gather_elements, "GatherND": x.gather_nd, "OneHot": x.one_hot, "GRU": r.gru, "LSTM": r.lstm,
}

#: What to write in place of operators that no bundle can hold.
_INSTEAD = {
    "Loop": "it runs a subgraph as often as the data says; write the loop out, or pool with Gather and ReduceSum in place of "
            "nn.EmbeddingBag",
    "Scan": "it runs a subgraph for every position; write the steps out",
    "InstanceNormalization": "write LayerNormalization over the last axis", "GroupNormalization": "write Reshape and LayerNormalization",
    "RNN": "write its steps out",
    "SequenceEmpty": "it begins a loop, as that of nn.EmbeddingBag by torch's newer exporter: write nn.Embedding and a sum, or export with "
                     "dynamo=False",
    
    "Unique": "it looks at all rows at once", "Compress": "how many entries it gives depends on the rows; multiply by a mask",
    "RandomNormal": "it is random", "RandomUniform": "it is random", "RandomNormalLike": "it is random", "Bernoulli": "it is random",
    "RandomUniformLike": "it is random", "Multinomial": "it is random", "StringNormalizer": "encode texts before the model",
    "QuantizeLinear": "give the model that was quantized", "DequantizeLinear": "give the model that was quantized",
    "Hardmax": "write ArgMax and OneHot", "AveragePool": "write Slice and Mean",
    "GlobalAveragePool": "write ReduceMean", "GlobalMaxPool": "write ReduceMax", "LpNormalization": "write ReduceL2 and Div",
    "MeanVarianceNormalization": "it normalises over the rows",
}


def refusal(node):
    """Why a node without a handler is refused, and what may stand in its place."""
    if "refusal" in node.attrs:
        return node.attrs["refusal"].split(": ", 1)[1]
    return f"there is no rule for this operator; {_INSTEAD.get(node.op, 'dpi_export/onnx/ops_table.py lists what there is')}"
