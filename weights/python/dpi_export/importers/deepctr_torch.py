"""DeepCTR-Torch (0.2.9, 0.3.0) models -> bundle: WDL, DeepFM, DCN, DCNMix; LR and FM are WDL and DeepFM without a DNN."""

import numpy as np

from . import ctr_blocks as blocks
from ..bundle.builder import Builder
from .common import FeatureRules, ImportContext, check_global_hooks, check_ids, is_library_class
from ..errors import UnsupportedModelError
from ..library_run import check_carried, run_library, to_numpy
from ..padding import check_padding, pad_bags, random_bags, strip_padding
from .library_rows import matrix_of
from .torch_modules import in_turn, linear
from .traced_libraries import DeepctrTrace, export_or_trace

_MODELS, _LAYERS = "deepctr_torch.models", "deepctr_torch.layers"
#: What a pooled bag without ids gives with combiner max: the library subtracts this from masked positions.
_EMPTY_MAX = -1e9


def from_deepctr_torch(model, path, *, rows=None, raw=None, encoders=None, features=None, name=None, metrics=None,
                       table_dtype=None, stats=None, check=True, trace=True):
    """Writes a DeepCTR-Torch model as a bundle.

    model        WDL, DeepFM, DCN or DCNMix; float32 or half
    path         the bundle to write
    rows         the library's own input: {feature: array}, a list in feature order, or the matrix; become golden rows
    encoders     {feature: encoder} or scikit-learn objects, for raw values
    raw          {feature: cells} as data files hold them, for these rows: checked against the library's transform, and
                 `dpi verify` encodes them. Without it, cells made for the encoders become golden rows of their own
    features     {feature: rules} where the bundle's rules should differ: out_of_range, oov_id, missing, default_id, missing_id,
                 default, space (FORMAT.md part 4)
    name         the model's name in the bundle; default: its class
    metrics      {"auc": ..., "logloss": ..., "rows": ...} of the training framework, kept in the bundle
    table_dtype  storage of the tables: f32, f16, bf16, i8, fp8, i4, i2; default: the weights' own type
    stats        {feature: training-time statistics}, as dpi_export.training_stats makes them; recorded, not used for scoring
    check        "numpy" (True): compare the import with the model on `rows` and on random rows, and the encoders with the library's
                 transform, before writing. "engine": then also score the golden rows with the engine that will serve the bundle
                 (package dpi). None (False): neither
    trace        a model that is none of these, or was changed (a subclass, a hook, a layer of one's own), is imported by tracing what
                 it computes, as from_torch does; False: it is refused

    Raises UnsupportedModelError, naming the layer or option, when the model cannot be carried over exactly.
    """
    return export_or_trace(DeepctrImport, DeepctrTrace, model, None, path,
                  {"rows": rows, "raw": raw, "encoders": encoders, "features": features, "name": name, "metrics": metrics,
                   "table_dtype": table_dtype, "stats": stats, "check": check}, trace)


def _kind(column):
    return type(column).__name__


class DeepctrImport:
    """One import of a DeepCTR-Torch model (an Importer)."""

    library = "deepctr_torch"

    def __init__(self, model, _feature_map, encoders=None, table_dtype=None, stats=None, features=None, name=None):
        check_global_hooks()
        self.model, self.encoders, self.stats = model, encoders or {}, stats or {}
        self.b = Builder(name or type(model).__name__.lower())
        self.ctx = ImportContext(model, self.b, table_dtype)
        self.rules = FeatureRules(self.ctx, features, getattr(model, "feature_index", {}))
        self.columns_of = {}

    # -- the model ----------------------------------------------------------------------------------------------------
    def build(self):
        """Fills the builder. Raises UnsupportedModelError."""
        known = ("WDL", "DeepFM", "DCN", "DCNMix")
        if not is_library_class(self.model, _MODELS, *known):
            raise UnsupportedModelError(f"model class {type(self.model).__module__}.{type(self.model).__name__} is not "
                                        f"supported; known: deepctr_torch's {', '.join(known)}")
        self.ctx.take(self.model)
        self._declare_features()
        terms = self._linear_model()
        terms += self._cross_terms() if type(self.model).__name__ in ("DCN", "DCNMix") else self._deep_terms()
        self._skip_unused_embeddings()
        if not terms:
            self.ctx.refuse("model", "has no part that reads a feature")
        self._head(blocks.add_all(self.ctx, terms, "head"))
        self.ctx.check_leftovers()
        return self.b

    def _deep_terms(self):
        terms, uses_fm = [], hasattr(self.model, "fm")
        if uses_fm:
            self._expect(self.model.fm, _LAYERS, "FM")
        if uses_fm and self._embedded(self._dnn_columns):
            terms.append(self._fm())
        if self.model.use_dnn:
            terms.append(self._deep(self._dnn_input()))
        return terms

    def _cross_terms(self):
        if not self.model.cross_num > 0:
            self.ctx.take(self.model.crossnet, *self.model.crossnet.parameters())
            for module in self.model.crossnet.modules():
                self.ctx.take(module)
            return [self._deep(self._dnn_input())]
        x = self._dnn_input()
        parts = [self._cross(self.model.crossnet, x)]
        if len(self.model.dnn_hidden_units) > 0:
            parts.append(self._dnn(self.model.dnn, x))
        joined = blocks.concat(self.ctx, parts, "head")
        return [linear(self.ctx, self.model.dnn_linear, joined, "head")]

    def _head(self, logit):
        out = self._expect(self.model.out, _LAYERS, "PredictionLayer")
        if out.task not in ("binary", "regression"):
            self.ctx.refuse(out, f"task '{out.task}' is not supported")
        if out.use_bias:
            logit = blocks.add_bias(self.ctx, logit, self.ctx.array(out.bias, out, "bias"), "head")
        blocks.head(self.ctx, logit, out.task == "binary")

    # -- layers -------------------------------------------------------------------------------------------------------
    def _expect(self, module, package, *names):
        if not is_library_class(module, package, *names):
            self.ctx.refuse(module, f"expected DeepCTR-Torch's {' or '.join(names)}")
        return self.ctx.take(module)

    def _fm(self):
        values = self._embeddings(self._embedded(self._dnn_columns), self.model.embedding_dict, "embedding")
        dims = {self.b.shape(v)[-1] for v in values}
        if len(dims) != 1:
            self.ctx.refuse(self.model.fm, f"fields of different dims {sorted(dims)} cannot be joined")
        return blocks.fm(self.ctx, blocks.concat(self.ctx, values, "embedding"), len(values))

    def _deep(self, x):
        return linear(self.ctx, self.model.dnn_linear, self._dnn(self.model.dnn, x), "head")

    def _dnn(self, dnn, x):
        self._expect(dnn, _LAYERS, "DNN")
        lists = [dnn.linears] + ([dnn.bn] if dnn.use_bn else []) + [dnn.activation_layers]
        for held in lists:
            self.ctx.take(held)
            if len(held) != len(dnn.linears):
                self.ctx.refuse(held, f"has {len(held)} layers, expected {len(dnn.linears)}")
        if not is_library_class(dnn.dropout, "torch.nn.modules", "Dropout"):
            self.ctx.refuse(dnn.dropout, "expected nn.Dropout")
        self.ctx.take(dnn.dropout)
        return in_turn(self.ctx, [layer for group in zip(*lists) for layer in group], x, "mlp")

    def _cross(self, net, x):
        ctx = self.ctx
        self._expect(net, _LAYERS, "CrossNet", "CrossNetMix")
        bias = ctx.array(net.bias, net, "bias")
        count = net.layer_num
        if type(net).__name__ == "CrossNetMix":
            return self._cross_mix(net, bias, x)
        kernels = ctx.array(net.kernels, net, "kernels")
        if not count == len(kernels) == len(bias):
            ctx.refuse(net, f"layer_num={count} does not match its {len(kernels)} kernels")
        if net.parameterization == "vector":
            return blocks.cross_vector(ctx, [(kernels[i].reshape(1, -1), bias[i].reshape(-1)) for i in range(count)], x)
        if net.parameterization == "matrix":
            return blocks.cross_matrix(ctx, [(kernels[i], bias[i].reshape(-1)) for i in range(count)], x)
        return ctx.refuse(net, f"parameterization '{net.parameterization}' is not known")

    def _cross_mix(self, net, bias, x):
        ctx = self.ctx
        u, v, c = (ctx.array(getattr(net, n), net, n) for n in ("U_list", "V_list", "C_list"))
        ctx.take(net.gating)
        gate = []
        for g in net.gating:
            ctx.take(g)
            if not is_library_class(g, "torch.nn.modules", "Linear") or g.bias is not None:
                ctx.refuse(g, "expected an nn.Linear without bias")
            gate.append(ctx.array(g.weight, g, "weight")[0])
        if not 0 < net.layer_num == len(u) == len(v) == len(c) == len(bias) or not net.num_experts == len(gate) == u.shape[1]:
            ctx.refuse(net, f"layer_num={net.layer_num}, num_experts={net.num_experts} do not match its weights")
        layers = [(u[i], v[i], c[i], bias[i].reshape(-1)) for i in range(net.layer_num)]
        return blocks.cross_mixture(ctx, layers, np.stack(gate), x)

    # -- inputs -------------------------------------------------------------------------------------------------------
    @property
    def _dnn_columns(self):
        return list(self.model.dnn_feature_columns)

    def _embedded(self, columns):
        """Sparse columns, then sequences: the library's order."""
        return [c for c in columns if _kind(c) == "SparseFeat"] + [c for c in columns if _kind(c) == "VarLenSparseFeat"]

    def _dnn_input(self):
        values = self._embeddings(self._embedded(self._dnn_columns), self.model.embedding_dict, "embedding")
        values += [self.b.input(c.name, module="embedding") for c in self._dnn_columns if _kind(c) == "DenseFeat"]
        if not values:
            self.ctx.refuse("option dnn_feature_columns", "is empty, so the cross net and the DNN have no input")
        return blocks.concat(self.ctx, values, "embedding")

    def _embeddings(self, columns, tables, label):
        self.ctx.take(tables)
        return [self._embedding(c, tables, label) for c in columns]

    def _embedding(self, column, tables, label):
        ctx, layer = self.ctx, tables[column.embedding_name]
        if not is_library_class(layer, "torch.nn.modules", "Embedding"):
            ctx.refuse(layer, "expected nn.Embedding")
        if layer.num_embeddings < column.vocabulary_size:
            ctx.refuse(layer, f"has {layer.num_embeddings} rows, feature '{column.name}' has {column.vocabulary_size} values")
        table = ctx.table(layer, f"{label}/{column.embedding_name}")
        x = self.b.input(column.name, module=label)
        if _kind(column) == "SparseFeat":
            return self.b.embed(x, table, **ctx.tag(label, column.name))
        if column.combiner not in ("sum", "mean", "max"):
            ctx.refuse(f"feature '{column.name}'", f"combiner '{column.combiner}' is not known")
        if column.combiner == "max" and column.length_name is not None:
            ctx.refuse(f"feature '{column.name}'", "combiner 'max' with length_name cannot run in DeepCTR-Torch")
        extra = {"mean": {"eps": 1e-8}, "max": {"empty": _EMPTY_MAX}}.get(column.combiner, {})
        mask = "id" if column.length_name is None else "length"
        return self.b.embed(x, table, pooling=column.combiner, mask=mask, **extra, **ctx.tag(label, column.name))

    def _linear_model(self):
        part = self._expect(self.model.linear_model, _MODELS, "Linear")
        values = self._embeddings(part.sparse_feature_columns + part.varlen_sparse_feature_columns, part.embedding_dict, "linear")
        terms = []
        for value, column in zip(values, part.sparse_feature_columns + part.varlen_sparse_feature_columns):
            if self.b.shape(value) != (1,):
                self.ctx.refuse(part, f"feature '{column.name}' has {self.b.shape(value)[-1]} weights per value, expected 1")
        if values:
            terms.append(blocks.sum_columns(self.ctx, blocks.concat(self.ctx, values, "linear"), "linear"))
        dense = [self.b.input(c.name, module="linear") for c in part.dense_feature_columns]
        if dense:
            weight = self.ctx.array(part.weight, part, "weight").T
            terms.append(self.b.linear(blocks.concat(self.ctx, dense, "linear"), weight, **self.ctx.tag("linear", "dense")))
        return terms

    def _skip_unused_embeddings(self):
        """Tables, or an empty dict of them, that the model holds but its forward never reads (no DNN, and no FM with fields)."""
        held = self.model.embedding_dict
        if not self.model_reads_embeddings():
            self.ctx.take(held)
            for layer in held.values():
                self.ctx.take(layer, layer.weight)

    def model_reads_embeddings(self):
        """True when the DNN, the cross net or FM reads the embeddings."""
        m = self.model
        has_fm = hasattr(m, "fm") and bool(self._embedded(self._dnn_columns))
        return type(m).__name__ in ("DCN", "DCNMix") or m.use_dnn or has_fm

    # -- features and rows --------------------------------------------------------------------------------------------
    def _declare_features(self):
        part, used = self.model.linear_model, {}
        columns = part.sparse_feature_columns + part.varlen_sparse_feature_columns + part.dense_feature_columns
        if self.model_reads_embeddings():
            reads_dense = type(self.model).__name__ in ("DCN", "DCNMix") or self.model.use_dnn
            columns = columns + [c for c in self._dnn_columns if reads_dense or _kind(c) != "DenseFeat"]
        for column in columns:
            first = used.setdefault(column.name, column)
            if self._feature_keys(first) != self._feature_keys(column):
                self.ctx.refuse(f"feature '{column.name}'", "has two columns that disagree on kind, size or length")
        for name in self.model.feature_index:
            if name in used:
                self.columns_of[name] = used[name]
                self._feature(used[name])

    @staticmethod
    def _feature_keys(column):
        if _kind(column) == "DenseFeat":
            return ("DenseFeat", column.dimension)
        if _kind(column) == "SparseFeat":
            return ("SparseFeat", column.vocabulary_size)
        return ("VarLenSparseFeat", column.vocabulary_size, column.maxlen, column.length_name)

    def _feature(self, column):
        name, encoder = column.name, self.encoders.get(column.name)
        if _kind(column) != "DenseFeat":
            import torch

            check_carried(name, column.vocabulary_size, torch.float32)  # all columns are one matrix
        suggested = dict(getattr(encoder, "suggested", None) or {})
        stats = self.stats.get(name)
        if _kind(column) == "DenseFeat":
            if column.dimension == 1:
                self.b.numeric(name, encoder=encoder, stats=stats, **self.rules.of(name, suggested))
            else:
                self.b.dense(name, column.dimension, encoder=encoder, stats=stats, **self.rules.of(name))
        elif _kind(column) == "SparseFeat":
            self.b.categorical(name, column.vocabulary_size, encoder=encoder, stats=stats, **self.rules.of(name, suggested))
        else:
            if column.length_name is None:
                check_padding(self.ctx, name, encoder, 0)
            unknown = {k: v for k, v in suggested.items() if k in ("out_of_range", "oov_id")}
            self.b.sequence(name, column.vocabulary_size, max_len=column.maxlen, encoder=encoder, stats=stats,
                            **self.rules.of(name, {"missing": "pad"}, unknown, is_sequence=True))

    def _matrix(self, rows):
        return matrix_of(self.model, rows)

    def columns(self, rows):
        """The library's input as columns of the bundle's features."""
        matrix, index, out = self._matrix(rows), self.model.feature_index, {}
        for name, column in self.columns_of.items():
            value = matrix[:, index[name][0]:index[name][1]]
            if _kind(column) == "DenseFeat":
                out[name] = value if column.dimension > 1 else value[:, 0]
                continue
            ids = check_ids(value, name, column.vocabulary_size)
            if _kind(column) == "SparseFeat":
                out[name] = ids[:, 0].tolist()
            elif column.length_name is None:
                out[name] = strip_padding(ids)
            else:
                lengths = check_ids(matrix[:, index[column.length_name][0]], column.length_name, column.maxlen + 1)
                out[name] = [row[:n].tolist() for row, n in zip(ids, lengths)]
        return out

    def put(self, rows, name, values):
        """Sets a feature's column of the matrix, and its lengths: ids, bags or floats."""
        (lo, hi), column = self.model.feature_index[name], self.columns_of[name]
        if _kind(column) == "VarLenSparseFeat":
            if column.length_name is not None:
                rows[:, self.model.feature_index[column.length_name][0]] = [min(len(b), column.maxlen) for b in values]
            values = pad_bags(values, column.maxlen)
        rows[:, lo:hi] = np.asarray(values, np.float64).reshape(len(rows), hi - lo)

    def join(self, a, b):
        """Rows of `a`, then of `b`."""
        return np.concatenate([self._matrix(a), b])

    def run(self, rows, dtype=None):
        """(values, logits) [rows, 1] of the library's model."""
        import torch

        matrix = self._matrix(rows)
        n = len(matrix)
        x = torch.from_numpy(np.concatenate([matrix, matrix]) if n == 1 else matrix).to(dtype or torch.float32)
        x = x.to(next(self.model.parameters()).device)
        logits, out = [], self.model.out
        hook = out.register_forward_pre_hook(
            lambda m, args: logits.append(args[0] + m.bias if m.use_bias else args[0].clone()))
        try:
            value = run_library(self.model, lambda call: call(x), dtype)
        finally:
            hook.remove()
        return to_numpy(value)[:n].reshape(n, -1), to_numpy(logits[-1])[:n].reshape(n, -1)

    def random_rows(self, rng, n):
        """Rows of the library's input: ids over the whole vocabulary, padded and empty bags."""
        index = self.model.feature_index
        matrix = np.zeros((n, max(end for _, end in index.values())), np.float32)
        for name, column in self.columns_of.items():
            lo, hi = index[name]
            if _kind(column) == "DenseFeat":
                matrix[:, lo:hi] = rng.standard_normal((n, hi - lo))
            elif _kind(column) == "SparseFeat":
                matrix[:, lo] = rng.integers(0, column.vocabulary_size, n)
            else:
                bags = random_bags(rng, n, column.maxlen, column.vocabulary_size)
                if column.combiner == "max":  # an empty bag's -1e9 would drown every other difference
                    bags[:, 0] = np.maximum(bags[:, 0], 1)
                matrix[:, lo:hi] = bags
                if column.length_name is not None:
                    matrix[:, index[column.length_name][0]] = (bags != 0).sum(axis=1)
        return matrix
