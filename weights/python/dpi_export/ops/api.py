"""The named op calls of Builder, one per primitive of FORMAT.md part 7. Attributes equal to their default are left out."""

import numpy as np

from ..errors import BundleError


def _given(**attrs):
    """Attributes that differ from their default: key=(value, default)."""
    return {k: v for k, (v, default) in attrs.items() if v != default}


class OpsApi:
    """Mixin of Builder. Each method returns the op's name, which stands for its value."""

    def input(self, feature, name=None, module=None):
        """The ids or floats of a feature. Asking twice for one feature gives the same op."""
        for op in self.ops:
            if op["op"] == "Input" and op["attrs"]["feature"] == feature and name in (None, op["name"]):
                return op["name"]
        if name is None and feature not in self.graph:
            name = feature
        return self.op("Input", attrs={"feature": feature}, name=name, module=module)

    def const(self, array, name=None, module=None):
        """The same value for all rows; a scalar becomes [1]."""
        return self.op("Const", params={"value": np.atleast_1d(np.asarray(array))}, name=name, module=module)

    def embed(self, x, table, pooling="single", mask="length", eps=0.0, empty=0.0, name=None, module=None):
        """Embedding lookup of the ids `x`, pooled for sequences."""
        attrs = {"table": table, **_given(pooling=(pooling, "single"), mask=(mask, "length"), eps=(eps, 0.0),
                                          empty=(empty, 0.0))}
        return self.op("Embed", [x], attrs, name=name, module=module)

    def mask(self, x, rule, name=None, module=None):
        """1 where a position counts, else 0: [max_len]."""
        return self.op("Mask", [x], {"rule": rule}, name=name, module=module)

    def linear(self, x, weight, bias=None, groups=1, axis="last", name=None, module=None):
        """y = W x + b; weight [out, in] (groups: [G, out, in]; axis 'field': contracts the axis before the last)."""
        return self.op("Linear", [x], _given(groups=(groups, 1), axis=(axis, "last")), {"weight": weight, "bias": bias},
                       name, module)

    def matmul(self, a, b, trans_a=False, trans_b=False, alpha=1.0, name=None, module=None):
        """alpha a b per row; leading dims broadcast."""
        attrs = _given(trans_a=(trans_a, False), trans_b=(trans_b, False), alpha=(alpha, 1.0))
        return self.op("MatMul", [a, b], attrs, name=name, module=module)

    def binary(self, kind, x, y, name=None, module=None):
        """Element-wise add, sub, mul, div, max, min with broadcasting; lt, le, gt, ge, eq, ne (1 or 0), atan2."""
        return self.op("Binary", [x, y], {"kind": kind}, name=name, module=module)

    def add(self, x, y, name=None, module=None):
        """x + y"""
        return self.binary("add", x, y, name, module)

    def sub(self, x, y, name=None, module=None):
        """x - y"""
        return self.binary("sub", x, y, name, module)

    def mul(self, x, y, name=None, module=None):
        """x * y"""
        return self.binary("mul", x, y, name, module)

    def div(self, x, y, name=None, module=None):
        """x / y"""
        return self.binary("div", x, y, name, module)

    def where(self, cond, x, y, name=None, module=None):
        """x where cond is not 0, else y; what is not chosen leaves no trace. And, or, not of conditions are mul, max, 1 - c."""
        return self.op("Where", [cond, x, y], name=name, module=module)

    def top_k(self, x, k, axis=-1, largest=True, name=None, module=None):
        """Positions of the k largest (smallest) entries along an axis, in order; of equal ones the first comes first. Their values:
        take(x, positions, axis). k = 1: argmax; k = all: argsort."""
        return self.op("TopK", [x], {"k": k, **_given(axis=(axis, -1), largest=(largest, True))}, name=name, module=module)

    def take(self, x, index, axis=-1, name=None, module=None):
        """The entries of x at computed positions along an axis; as many dims as x, which broadcast but for the axis."""
        return self.op("Gather", [x, index], _given(axis=(axis, -1)), name=name, module=module)

    def length_mask(self, length, max_len, pad_side="post", name=None, module=None):
        """1 at the positions that a length [.., 1] reaches, else 0: [.., max_len]. pad_side 'pre': the last positions count."""
        if pad_side == "post":
            return self.binary("lt", self.const(np.arange(max_len)), length, name, module)
        return self.binary("lt", self.const(np.arange(max_len)[::-1]), length, name, module)

    def unary(self, kind, x, a=None, b=None, name=None, module=None, **params):
        """Element-wise function; `params` by kind: scale, shift, slope, alpha."""
        return self.op("Unary", [x], {"kind": kind, "a": a, "b": b}, params, name, module)

    def relu(self, x, name=None, module=None):
        """max(x, 0)"""
        return self.unary("relu", x, name=name, module=module)

    def sigmoid(self, x, name=None, module=None):
        """1 / (1 + exp(-x))"""
        return self.unary("sigmoid", x, name=name, module=module)

    def layer_norm(self, x, gamma=None, beta=None, eps=1e-5, name=None, module=None):
        """Layer norm over the last axis, biased variance."""
        return self.op("LayerNorm", [x], {"eps": eps}, {"gamma": gamma, "beta": beta}, name, module)

    def softmax(self, x, mask=None, axis=-1, mask_mode=None, value=-1e9, name=None, module=None):
        """Softmax along an axis; with a mask, mask_mode defaults to 'ninf'."""
        mode = mask_mode or ("none" if mask is None else "ninf")
        attrs = _given(axis=(axis, -1), mask_mode=(mode, "none"), value=(value, -1e9))
        return self.op("Softmax", [x] if mask is None else [x, mask], attrs, name=name, module=module)

    def attention(self, q, k, v, mask=None, bias=None, heads=1, scale=1.0, form="softmax", divisor=1.0, causal=False, candidates=0,
                  relative=False, empty="zeros", name=None, module=None):
        """Attention of `heads` heads over q, k, v [T, heads x dim], up to 16,384 positions each (format 2.2). form "silu": weights are
        silu(score) / divisor. mask: [Tk], or [Tq, Tk], 1 where a key counts. bias: added to scores, [Tq, Tk] or [heads, Tq, Tk]; with
        `relative` [Tq + Tk - 1] or [heads, Tq + Tk - 1], entry j - i + Tq - 1. candidates: of the last so many keys a query reads its own."""
        masked = "none" if mask is None else "keys" if len(self.shape(mask)) == 1 else "pairs"
        biased = "none" if bias is None else "relative" if relative else "pairs"
        attrs = _given(heads=(heads, 1), scale=(float(scale), 1.0), form=(form, "softmax"), divisor=(float(divisor), 1.0), causal=(causal, False),
                       candidates=(candidates, 0), mask=(masked, "none"), bias=(biased, "none"), empty=(empty, "zeros"))
        return self.op("Attention", [q, k, v] + [x for x in (mask, bias) if x is not None], attrs, name=name, module=module)

    def reduce(self, kind, x, mask=None, axis=-1, keepdim=False, eps=0.0, empty=0.0, name=None, module=None):
        """sum, mean, max or sumsq along an axis; mask has the dims of x up to and including the axis."""
        attrs = {"kind": kind, **_given(axis=(axis, -1), keepdim=(keepdim, False), eps=(eps, 0.0), empty=(empty, 0.0))}
        return self.op("Reduce", [x] if mask is None else [x, mask], attrs, name=name, module=module)

    def concat(self, values, axis=-1, name=None, module=None):
        """Joins values along an axis."""
        return self.op("Concat", list(values), _given(axis=(axis, -1)), name=name, module=module)

    def reshape(self, x, dims, name=None, module=None):
        """New dims of the same size (row axis not counted); one -1 is worked out here."""
        dims = [int(d) for d in dims]
        if dims.count(-1) == 1 and self.shape(x) is not None:
            rest = -int(np.prod(dims, dtype=np.int64))
            total = int(np.prod(self.shape(x), dtype=np.int64))
            if rest <= 0 or total % rest:
                raise BundleError(f"reshape of '{x}': {list(self.shape(x))} cannot become {dims}")
            dims[dims.index(-1)] = total // rest
        return self.op("View", [x], {"kind": "reshape", "dims": dims}, name=name, module=module)

    def transpose(self, x, perm, name=None, module=None):
        """Dims in another order: output dim i is input dim perm[i]."""
        return self.op("View", [x], {"kind": "transpose", "perm": perm}, name=name, module=module)

    def slice(self, x, begin, end, axis=-1, name=None, module=None):
        """Entries begin .. end-1 along an axis."""
        return self.op("View", [x], {"kind": "slice", "axis": axis, "begin": begin, "end": end}, name=name, module=module)

    def index_select(self, x, indices, axis=-1, name=None, module=None):
        """The entries with these indices along an axis."""
        return self.op("View", [x], {"kind": "index_select", "axis": axis, "indices": indices}, name=name, module=module)

    def expand(self, x, dims, name=None, module=None):
        """Repeats dims of size 1 (aligned at the right)."""
        return self.op("View", [x], {"kind": "expand", "dims": dims}, name=name, module=module)

    def recurrent(self, x, mask, w_input, w_hidden, b_input=None, b_hidden=None, att=None, kind="gru", reset="after",
                  output="last", name=None, module=None):
        """GRU and its attention forms over [T, i]; gate rows r, z, n."""
        params = {"w_input": w_input, "w_hidden": w_hidden, "b_input": b_input, "b_hidden": b_hidden}
        return self.op("Recurrent", [x, mask] if att is None else [x, mask, att],
                       {"kind": kind, "reset": reset, "output": output}, params, name, module)
