"""What importers share: the record of what an import has consumed, the check against the library.

Nothing here imports torch before an importer is called, so `dpi_export` itself needs only numpy and h5py.
"""

import numpy as np

from ..errors import UnsupportedModelError, check_name
from .reparametrised import refuse_reparametrised


#: Buffers that never change a score: counters of training.
IGNORED_STATE = ("num_batches_tracked",)

class ImportContext:
    """One import: the builder, the names of the model's layers, and which of its layers and tensors were used so far.

    `label` arguments become op names and the ops' `module`; a label that is taken gets a number.
    """

    def __init__(self, model, builder, table_dtype=None):
        self.b, self.model, self.table_dtype = builder, model, table_dtype
        self._paths = {}
        for path, module in model.named_modules(remove_duplicate=False):
            self._paths.setdefault(id(module), path or type(model).__name__)
        self._seen_modules, self._seen_tensors, self._tables, self._names = set(), set(), {}, set()
        refuse_reparametrised(self, model)

    def path(self, module):
        """The attribute path of a layer, for messages."""
        return self._paths.get(id(module), type(module).__name__)

    def refuse(self, where, why):
        """Raises UnsupportedModelError; `where` is a layer or a text."""
        place = where if isinstance(where, str) else f"layer '{self.path(where)}' ({type(where).__name__})"
        raise UnsupportedModelError(f"{type(self.model).__name__}: {place}: {why}")

    def take(self, module, *tensors):
        """Marks a layer, and those of its tensors that need no carrying, as understood."""
        check_module(self, module)
        self._seen_modules.add(id(module))
        self._seen_tensors.update(id(t) for t in tensors)
        return module

    def _check_tensor(self, tensor, where, name):
        """Marks a tensor as used; refuses one that is not a dense float tensor of up to 32 bits."""
        import torch

        self._seen_tensors.add(id(tensor))
        place = f"'{self.path(where)}.{name}'"
        if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_meta:
            self.refuse(place, "expected a dense tensor with data")
        if tensor.dtype not in (torch.float32, torch.float16, torch.bfloat16):
            self.refuse(place, f"is {tensor.dtype}, expected float32, float16 or bfloat16 (convert with model.float())")
        return place

    def _check_finite(self, value, place):
        step = max(1, (1 << 22) // max(1, value[:1].size))
        for at in range(0, len(value), step):  # in blocks: a table may be large
            if not np.isfinite(value[at:at + step]).all():
                self.refuse(place, "holds NaN or infinity")

    def array(self, tensor, where, name):
        """A parameter or buffer as a finite float32 array."""
        place = self._check_tensor(tensor, where, name)
        value = tensor.detach().to("cpu").float().numpy()
        self._check_finite(value, place)
        return value

    def table(self, module, label):
        """The bundle's table of an nn.Embedding; layers on one storage get one table. `label` names it when it is new.

        float32 and float16 weights are read where they lie.
        """
        import torch

        self.take(module)
        if module.max_norm is not None:
            self.refuse(module, f"max_norm={module.max_norm} rescales rows at lookup")
        weight = module.weight
        place = self._check_tensor(weight, module, "weight")
        key = (weight.data_ptr(), tuple(weight.shape), tuple(weight.stride()))
        if key not in self._tables:
            stored = {torch.float16: "f16", torch.bfloat16: "bf16"}.get(weight.dtype, "f32")
            held = weight.detach().to("cpu")
            value = (held.float() if weight.dtype == torch.bfloat16 else held).numpy()
            self._check_finite(value, place)
            check_name("table", label)
            self._tables[key] = self.b.table(label, value, dtype=self.table_dtype or stored)
        return self._tables[key]

    def name(self, label):
        """`label`, or with a number when it is taken."""
        out, k = label, 1
        while out in self._names:
            k += 1
            out = f"{label}.{k}"
        self._names.add(out)
        return out

    def tag(self, label, kind):
        """The name= and module= keywords of an op."""
        return {"name": self.name(f"{label}/{kind}"), "module": label}

    def check_leftovers(self):
        """Refuses layers, parameters and buffers that no rule of the import has used."""
        for path, module in self.model.named_modules():
            if path and id(module) not in self._seen_modules:
                self.refuse(module, "the importer does not know what this layer does here")
        for kind, named in (("parameter", self.model.named_parameters()), ("buffer", self.model.named_buffers())):
            for path, tensor in named:
                if id(tensor) not in self._seen_tensors and path.rpartition(".")[2] not in IGNORED_STATE:
                    self.refuse(f"{kind} '{path}'", "the importer does not know what it is for")


class FeatureRules:
    """The rules that a caller wants for some features (features= of the importers), over those of the import."""

    KEYS = ("out_of_range", "oov_id", "missing", "default_id", "missing_id", "default", "space")

    def __init__(self, ctx, given, known):
        self._ctx = ctx
        self._given = {name: dict(rules) for name, rules in (given or {}).items()}
        for name, rules in self._given.items():
            if name not in known:
                ctx.refuse("features", f"'{name}' is no feature of the model, which has {', '.join(sorted(known))}")
            wrong = [key for key in rules if key not in self.KEYS]
            if wrong:
                ctx.refuse(f"features of '{name}'", f"'{wrong[0]}' cannot be changed, only {', '.join(self.KEYS)}")

    def of(self, name, *rules, is_sequence=False):
        """Keywords of Builder's feature calls: the later of `rules` go before the earlier, the caller's before all."""
        if is_sequence and "missing" in self._given.get(name, {}):  # the model has its own answer to an empty bag
            self._ctx.refuse(f"features of '{name}'", "'missing' of a sequence cannot be changed")
        out = {}
        for some in (*rules, self._given.get(name, {})):
            out.update(some)
        return out


def check_module(ctx, module):
    """Refuses hooks and replaced forward methods: what runs would not be what the layer's class says."""
    for kind in ("_forward_hooks", "_forward_pre_hooks"):
        if getattr(module, kind, None):
            ctx.refuse(module, f"has {kind.strip('_').replace('_', ' ')}, which may change its output")
    for attribute in ("forward", "_call_impl", "__call__"):
        if attribute in vars(module):
            ctx.refuse(module, f"{attribute} is replaced on this instance")
    owner = next(cls for cls in type(module).__mro__ if "forward" in vars(cls))
    forward = vars(owner)["forward"]
    if owner.__module__ == "torch.nn.modules.module":  # containers, which are never called
        return
    if getattr(forward, "__qualname__", None) != f"{owner.__qualname__}.forward" or forward.__module__ != owner.__module__:
        ctx.refuse(module, "forward is not the one its class was defined with")


def check_global_hooks():
    """Refuses when torch's process-wide forward hooks are set."""
    import torch.nn.modules.module as m

    if m._global_forward_hooks or m._global_forward_pre_hooks:
        raise UnsupportedModelError("torch has global forward hooks, which may change every layer's output")


def is_library_class(module, package, *names):
    """True when the layer's exact class is one of `names` of `package`; subclasses do not count."""
    return type(module).__name__ in names and (type(module).__module__ + ".").startswith(package + ".")


def check_ids(ids, feature, vocab_size):
    """Ids as int64; raises when they are not whole numbers inside the vocabulary (the library would fail too)."""
    out = np.asarray(ids).astype(np.int64)
    if not (out == ids).all():
        raise ValueError(f"rows: feature '{feature}' holds ids that are not whole numbers")
    if out.size and not (0 <= out.min() and out.max() < vocab_size):
        raise ValueError(f"rows: feature '{feature}' holds ids outside 0..{vocab_size - 1}")
    return out


def compare(ctx, got, want, what, tolerance):
    """Refuses when logits or values of the executor and of the library differ. Arrays [rows, heads]."""
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    if got.shape != want.shape:
        ctx.refuse("check", f"the model's {what} has shape {want.shape}, the import's {got.shape}")
    if np.isinf(want).any():
        row = int(np.argmax(np.isinf(want).any(axis=1)))
        ctx.refuse("check", f"the model's own {what} of row {row} is {want[row].tolist()}, and a score is a finite number: clamp what it is made of, "
                            "as log(p.clamp(1e-7, 1 - 1e-7))")
    error = np.abs(got - want)
    bound = tolerance * np.maximum(1.0, np.abs(want))
    bad = ~((error <= bound) | (np.isnan(got) & np.isnan(want)))
    if bad.any():
        row = int(np.argmax(bad.any(axis=1)))
        worst = np.nanmax(error) if np.isfinite(error).any() else float("nan")
        ctx.refuse("check", f"the model's own forward gives another {what} than its layers say: row {row}: "
                            f"{want[row].tolist()} against {got[row].tolist()}, worst difference {worst:.3g}. "
                            "What forward computes is not what was imported: a forward or an option that was changed, or arithmetic that another order of "
                            "roundings changes. explain() shows what each layer became; with from_torch, compute in float32 and report the model")
