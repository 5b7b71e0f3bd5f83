"""FuxiCTR (2.3, torch) models -> bundle: LR, FM, WideDeep, DeepFM, DCN, DCNv2.

A model is known by its class name and the attribute names of FuxiCTR's model zoo; its parts are FuxiCTR's own layers.
"""

import numpy as np

from . import ctr_blocks as blocks
from ..bundle.builder import Builder
from .common import FeatureRules, ImportContext, check_global_hooks, check_ids, is_library_class
from ..errors import UnsupportedModelError
from ..library_run import run_library, to_numpy
from ..padding import check_padding, pad_bags, random_bags, strip_padding
from .library_rows import id_rules
from .torch_modules import in_turn, linear, sequential
from .traced_libraries import FuxiTrace, export_or_trace

_LAYERS = "fuxictr.pytorch.layers"


def from_fuxictr(model, feature_map, path, *, rows=None, raw=None, encoders=None, features=None, name=None, metrics=None,
                 table_dtype=None, stats=None, check=True, trace=True):
    """Writes a FuxiCTR model as a bundle.

    model        a model of the zoo (LR, FM, WideDeep, DeepFM, DCN, DCNv2) or one composed like it; float32 or half
    feature_map  the FeatureMap it was built with
    path         the bundle to write
    rows         {feature: ids or floats}, FuxiCTR's own input; become golden rows with the model's outputs
    encoders     {feature: encoder}, scikit-learn objects or FuxiCTR's FeatureProcessor, for raw values
    raw          {feature: cells} as data files hold them, lists, arrays or Series, or a DataFrame, for these rows: checked against the library's transform, and
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
    return export_or_trace(FuxiImport, FuxiTrace, model, feature_map, path,
                  {"rows": rows, "raw": raw, "encoders": encoders, "features": features, "name": name, "metrics": metrics,
                   "table_dtype": table_dtype, "stats": stats, "check": check}, trace)


class FuxiImport:
    """One import of a FuxiCTR model (an Importer)."""

    library = "fuxictr"

    def __init__(self, model, feature_map, encoders=None, table_dtype=None, stats=None, features=None, name=None):
        check_global_hooks()
        self.model, self.map = model, feature_map
        self.b = Builder(name or type(model).__name__.lower())
        self.ctx = ImportContext(model, self.b, table_dtype)
        self.encoders, self.stats = encoders or {}, stats or {}
        self._used = self._used_features()
        self.rules = FeatureRules(self.ctx, features, self._used)

    # -- the model ----------------------------------------------------------------------------------------------------
    def build(self):
        """Fills the builder. Raises UnsupportedModelError."""
        parts = {"LR": self._lr, "FM": self._fm, "WideDeep": self._wide_deep, "DeepFM": self._deepfm, "DCN": self._dcn,
                 "DCNv2": self._dcnv2}
        build = parts.get(type(self.model).__name__)
        if build is None:
            raise UnsupportedModelError(f"model class {type(self.model).__name__} is not supported; known: {', '.join(parts)}")
        self.ctx.take(self.model)
        for name, spec in self.map.features.items():
            if name in self._used:
                self._feature(name, spec)
        logit = build()
        activation = self._part("output_activation")
        self.ctx.take(activation)
        kind = type(activation).__name__
        if not is_library_class(activation, "torch.nn.modules", "Sigmoid", "Identity"):
            self.ctx.refuse(activation, "expected Sigmoid or Identity")
        blocks.head(self.ctx, logit, kind == "Sigmoid")
        self.ctx.check_leftovers()
        return self.b

    def _part(self, name):
        part = getattr(self.model, name, None)
        if part is None:
            self.ctx.refuse(f"layer '{name}'", "is missing")
        return part

    def _lr(self):
        return self._logistic(self._part("lr_layer"))

    def _fm(self):
        return self._factorization(self._stacked())

    def _wide_deep(self):
        x = self._stacked()
        return blocks.add_all(self.ctx, [self._logistic(self._part("lr_layer")), self._mlp(self._part("dnn"), x, "mlp")], "head")

    def _deepfm(self):
        x = self._stacked()
        return blocks.add_all(self.ctx, [self._factorization(x), self._mlp(self._part("mlp"), x, "mlp")], "head")

    def _dcn(self):
        x = self._flat()
        outputs = [self._cross(self._part("crossnet"), x)]
        if self.model.dnn is not None:
            outputs.append(self._mlp(self.model.dnn, x, "mlp"))
        return linear(self.ctx, self._part("fc"), blocks.concat(self.ctx, outputs, "head"), "head")

    def _dcnv2(self):
        structure = getattr(self.model, "model_structure", None)
        if structure not in ("crossnet_only", "stacked", "parallel", "stacked_parallel"):
            self.ctx.refuse("option model_structure", f"is {structure!r}, which is not known")
        x = self._flat()
        cross = self._cross(self._part("crossnet"), x)
        stacked = "stacked" in structure
        outputs = [self._mlp(self._part("stacked_dnn"), cross, "stacked_mlp") if stacked else cross]
        if "parallel" in structure:
            outputs.append(self._mlp(self._part("parallel_dnn"), x, "parallel_mlp"))
        return linear(self.ctx, self._part("fc"), blocks.concat(self.ctx, outputs, "head"), "head")

    # -- layers -------------------------------------------------------------------------------------------------------
    def _expect(self, module, *names):
        if not is_library_class(module, _LAYERS, *names):
            self.ctx.refuse(module, f"expected FuxiCTR's {' or '.join(names)}")
        return self.ctx.take(module)

    def _mlp(self, module, x, label):
        self._expect(module, "MLP_Block")
        return sequential(self.ctx, module.mlp, x, label)

    def _factorization(self, x):
        module = self._expect(self._part("fm"), "FactorizationMachine")
        pairs = self._expect(module.fm_layer, "InnerProductInteraction")
        if pairs._output_type != "product_sum":
            self.ctx.refuse(pairs, f"output='{pairs._output_type}', expected product_sum")
        fields = self._fields
        return blocks.add_all(self.ctx, [blocks.fm(self.ctx, x, fields), self._logistic(module.lr_layer)], "head")

    def _logistic(self, module):
        self._expect(module, "LogisticRegression")
        values = self._embeddings(module.embedding_layer, "linear")
        for name, value in values:
            if self.b.shape(value) != (1,):
                self.ctx.refuse(module, f"feature '{name}' has {self.b.shape(value)[-1]} weights per value, expected 1")
        total = blocks.sum_columns(self.ctx, blocks.concat(self.ctx, [v for _, v in values], "linear"), "linear")
        if module.bias is None:
            return total
        return blocks.add_bias(self.ctx, total, self.ctx.array(module.bias, module, "bias"), "linear")

    def _cross(self, module, x):
        ctx = self.ctx
        self._expect(module, "CrossNet", "CrossNetV2", "CrossNetMix")
        kind = type(module).__name__
        if kind == "CrossNetMix":
            return self._cross_mix(module, x)
        held = module.cross_net if kind == "CrossNet" else module.cross_layers
        ctx.take(held)
        count = module.num_layers
        if count > len(held):
            ctx.refuse(module, f"num_layers is {count}, but there are {len(held)} layers")
        layers = []
        for layer in list(held)[:count]:
            if kind == "CrossNet":
                self._expect(layer, "CrossInteraction")
            inner = ctx.take(layer.weight if kind == "CrossNet" else layer)
            if not is_library_class(inner, "torch.nn.modules", "Linear"):
                ctx.refuse(inner, "expected an nn.Linear")
            if kind == "CrossNet" and inner.bias is not None:
                ctx.refuse(inner, "has a bias, expected none")
            bias = None if layer.bias is None else ctx.array(layer.bias, layer, "bias")
            layers.append((ctx.array(inner.weight, inner, "weight"), bias))
        return (blocks.cross_vector if kind == "CrossNet" else blocks.cross_matrix)(ctx, layers, x)

    def _cross_mix(self, module, x):
        ctx = self.ctx
        for held in (module.U_list, module.V_list, module.C_list, module.bias, module.gating):
            ctx.take(held)
        gate = []
        for g in module.gating:
            ctx.take(g)
            if not is_library_class(g, "torch.nn.modules", "Linear") or g.bias is not None:
                ctx.refuse(g, "expected an nn.Linear without bias")
            gate.append(ctx.array(g.weight, g, "weight")[0])
        layers = []
        for i in range(module.layer_num):
            u, v, c = (ctx.array(held[i], held, str(i)) for held in (module.U_list, module.V_list, module.C_list))
            layers.append((u, v, c, ctx.array(module.bias[i], module.bias, str(i)).reshape(-1)))
        if layers and (module.num_experts != len(gate) or any(len(u) != len(gate) for u, *_ in layers)):
            ctx.refuse(module, f"num_experts={module.num_experts} does not match its weights")
        if not layers:
            ctx.refuse(module, "layer_num=0")
        return blocks.cross_mixture(ctx, layers, np.stack(gate), x)

    # -- embeddings ---------------------------------------------------------------------------------------------------
    def _flat(self):
        """x0: all embeddings in feature-map order."""
        return blocks.concat(self.ctx, [v for _, v in self._embeddings(self._part("embedding_layer"), "embedding")], "embedding")

    def _stacked(self):
        """x0 of models that stack the fields: all dims must be equal."""
        values = self._embeddings(self._part("embedding_layer"), "embedding")
        dims = {name: self.b.shape(v)[-1] for name, v in values}
        if len(set(dims.values())) != 1:
            self.ctx.refuse("layer 'embedding_layer'", f"fields of different dims cannot be stacked: {dims}")
        self._fields = len(values)
        return blocks.concat(self.ctx, [v for _, v in values], "embedding")

    def _embeddings(self, module, label):
        """[(feature, value)] in feature-map order."""
        self._expect(module, "FeatureEmbedding")
        inner = self._expect(module.embedding_layer, "FeatureEmbeddingDict")
        self.ctx.take(inner.embedding_layers)
        self.ctx.take(inner.feature_encoders)
        out = []
        for name, spec in self.map.features.items():
            if name in inner.embedding_layers:
                out.append((name, self._embedding(inner, name, spec, label)))
        extra = set(inner.embedding_layers) - {n for n, _ in out}
        if extra:
            self.ctx.refuse(inner, f"feature '{sorted(extra)[0]}' is not in the feature map")
        return out

    def _embedding(self, inner, name, spec, label):
        ctx, layer = self.ctx, inner.embedding_layers[name]
        encoder = inner.feature_encoders[name] if name in inner.feature_encoders else None
        kind, x = spec["type"], self.b.input(name, module=label)
        steps = self._encoder_steps(encoder)
        if kind == "numeric":
            self._need(layer, "Linear", name)
            value = linear(ctx, layer, x, label)
        elif kind == "embedding":
            self._need(layer, "Identity", name)
            ctx.take(layer)
            value = x
        else:
            self._need(layer, "Embedding", name)
            if layer.num_embeddings < spec["vocab_size"]:
                ctx.refuse(layer, f"has {layer.num_embeddings} rows, feature '{name}' has vocab_size {spec['vocab_size']}")
            table = ctx.table(layer, f"{label}/{name}")
            if kind == "categorical":
                value = self.b.embed(x, table, **ctx.tag(label, name))
            else:
                if not steps or not is_library_class(steps[0], _LAYERS, "MaskedAveragePooling", "MaskedSumPooling"):
                    what = f"'{type(steps[0]).__name__}'" if steps else "none"
                    ctx.refuse(f"feature_encoder of sequence '{name}'", f"is {what}, expected MaskedAveragePooling or "
                                                                        "MaskedSumPooling")
                value = self._pool(ctx.take(steps.pop(0)), layer, table, name, x, label)
        return in_turn(ctx, steps, value, f"{label}/{name}_encoder")

    def _need(self, layer, kind, feature):
        if not is_library_class(layer, "torch.nn.modules", kind):
            pretrained = " (pretrained embeddings are not supported)" if "Pretrained" in type(layer).__name__ else ""
            self.ctx.refuse(layer, f"feature '{feature}' of type '{self.map.features[feature]['type']}' expects nn.{kind}{pretrained}")

    def _encoder_steps(self, encoder):
        if encoder is None:
            return []
        if is_library_class(encoder, "torch.nn.modules", "Sequential"):
            self.ctx.take(encoder)
            return list(encoder)
        return [encoder]

    def _pool(self, pooling, layer, table, name, x, label):
        """FuxiCTR sums over all max_len positions and, for the mean, divides by the number of vectors whose components do not
        add up to 0. With a zero padding row, as training leaves it, padding adds nothing and is skipped."""
        ctx, b = self.ctx, self.b
        zero_padding = not layer.weight.detach()[0].any().item()
        mean = type(pooling).__name__ == "MaskedAveragePooling"
        if not mean:
            return b.embed(x, table, pooling="sum", mask="length" if zero_padding else "none", **ctx.tag(label, name))
        if zero_padding:
            return b.embed(x, table, pooling="mean", mask="nonzero", eps=1e-12, **ctx.tag(label, name))
        e = b.embed(x, table, pooling="none", **ctx.tag(label, name))
        total = b.reduce("sum", e, axis=0, **ctx.tag(label, f"{name}_sum"))
        count = b.reduce("sum", b.mask(e, "nonzero", **ctx.tag(label, f"{name}_mask")), keepdim=True,
                         **ctx.tag(label, f"{name}_count"))
        return b.div(total, b.unary("affine", count, a=1.0, b=1e-12, **ctx.tag(label, f"{name}_eps")),
                     **ctx.tag(label, f"{name}_mean"))

    # -- features and rows --------------------------------------------------------------------------------------------
    def _used_features(self):
        return {name for module in self.model.modules() if type(module).__name__ == "FeatureEmbeddingDict"
                for name in module.embedding_layers}

    def _feature(self, name, spec):
        kind, encoder = spec["type"], self.encoders.get(name)
        if kind == "numeric":
            self.b.numeric(name, encoder=encoder, stats=self.stats.get(name), **self.rules.of(name, self._suggested(name)))
        elif kind == "embedding":
            self.b.dense(name, int(spec["pretrain_dim"]), encoder=encoder, stats=self.stats.get(name), **self.rules.of(name))
        elif kind in ("categorical", "sequence"):
            self._id_feature(name, spec, encoder)
        else:
            self.ctx.refuse(f"feature '{name}'", f"type '{kind}' is not supported")

    def _suggested(self, name):
        """Rules of the schema that come with an encoder: what FuxiCTR's FeatureProcessor did with missing values."""
        return dict(getattr(self.encoders.get(name), "suggested", None) or {})

    def _id_feature(self, name, spec, encoder):
        size = int(spec["vocab_size"])
        rules = id_rules(spec)
        if spec["type"] == "categorical":
            if rules:
                rules.update(missing="default", default_id=rules["oov_id"])
            self.b.categorical(name, size, encoder=encoder, stats=self.stats.get(name),
                               **self.rules.of(name, rules, self._suggested(name)))
            return
        check_padding(self.ctx, name, encoder, 0)
        side = self._side(name)
        keys = {"missing": "pad", "pad_side": side, "keep": "first" if side == "post" else "last",
                "stats": self.stats.get(name), **rules}
        self.b.sequence(name, size, max_len=int(spec["max_len"]), encoder=encoder,
                        **self.rules.of(name, keys, self._suggested(name), is_sequence=True))

    def _side(self, name):
        """Where a sequence is padded and cut: the FeatureProcessor knows, the feature map may, "post" is the library's default."""
        return self._suggested(name).get("pad_side", self.map.features[name].get("padding", "post"))

    def columns(self, rows):
        """FuxiCTR's input dict as columns of the bundle's features."""
        out = {}
        for feature in self.b.features:
            name, spec = feature["name"], self.map.features[feature["name"]]
            if name not in rows:
                raise ValueError(f"rows: feature '{name}' is missing")
            value = to_numpy(rows[name])
            if spec["type"] == "categorical":
                out[name] = check_ids(value.reshape(-1), name, spec["vocab_size"]).tolist()
            elif spec["type"] == "sequence":
                ids = check_ids(value, name, spec["vocab_size"])
                if ids.ndim != 2 or ids.shape[1] != spec["max_len"]:
                    raise ValueError(f"rows: sequence '{name}' has shape {ids.shape}, expected [rows, {spec['max_len']}]")
                out[name] = strip_padding(ids, 0, self._side(feature["name"]))
            else:
                out[name] = value.astype(np.float32)
        return out

    def put(self, rows, name, values):
        """Sets a feature's column of rows: ids, bags or floats."""
        spec = self.map.features[name]
        if spec["type"] == "sequence":
            values = pad_bags(values, spec["max_len"], self._side(name))
        rows[name] = np.asarray(values, np.int64 if spec["type"] in ("categorical", "sequence") else np.float32)

    def join(self, a, b):
        """Rows of `a`, then of `b`."""
        return {f["name"]: np.concatenate([to_numpy(a[f["name"]]).reshape(-1, *np.shape(b[f["name"]])[1:]), b[f["name"]]])
                for f in self.b.features}

    def run(self, rows, dtype=None):
        """(values, logits) [rows, 1] of the library's model."""
        import torch

        inputs, n = {}, None
        for feature in self.b.features:
            value = to_numpy(rows[feature["name"]])
            n = len(value)
            value = np.concatenate([value, value]) if n == 1 else value  # some layers squeeze a batch of one away
            is_id = feature["kind"] in ("categorical", "sequence")
            value = torch.from_numpy(value.astype(np.int64 if is_id else np.float32))
            value = value.reshape(-1) if feature["kind"] == "categorical" else value
            inputs[feature["name"]] = value.to(next(self.model.parameters()).device)
        logits = []
        hook = self.model.output_activation.register_forward_pre_hook(lambda _m, args: logits.append(args[0].clone()))
        try:
            out = run_library(self.model, lambda call: call(inputs), dtype)
        finally:
            hook.remove()
        return to_numpy(out["y_pred"])[:n].reshape(n, -1), to_numpy(logits[-1])[:n].reshape(n, -1)

    def random_rows(self, rng, n):
        """Rows of the library's input: ids over the whole vocabulary, padded and empty bags."""
        out = {}
        for feature in self.b.features:
            spec = self.map.features[feature["name"]]
            if spec["type"] == "categorical":
                out[feature["name"]] = rng.integers(0, spec["vocab_size"], n)
            elif spec["type"] == "sequence":
                out[feature["name"]] = random_bags(rng, n, spec["max_len"], spec["vocab_size"], self._side(feature["name"]))
            else:
                shape = n if spec["type"] == "numeric" else (n, spec["pretrain_dim"])
                out[feature["name"]] = rng.standard_normal(shape).astype(np.float32)
        return out

