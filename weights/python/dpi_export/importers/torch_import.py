"""Any torch.nn.Module in evaluation mode -> bundle, by tracing what it computes.

The model runs twice, at two batch sizes, and every operator that it calls is recorded (trace/). What mixes rows, depends on their number
or has no primitive is refused with the operator, the layer and the source line.
"""

import warnings

import numpy as np

from ..bundle.builder import Builder
from .common import FeatureRules
from ..errors import UnsupportedModelError
from ..library_run import run_library, to_numpy
from .run import export

#: Batches that a model is run on besides those that it is traced with.
_OTHER_SIZES = (257, 2, 1)
_SIZE_TOLERANCE = 1e-3  #: of float32 beside float64: rounding is compared elsewhere, here a branch that was not taken
_FAILURES = (RuntimeError, ValueError, TypeError, AttributeError, IndexError, KeyError, AssertionError)


def from_torch(model, path, *, features, example, rows=None, raw=None, encoders=None, outputs=None, call=None, name=None, metrics=None,
               table_dtype=None, stats=None, check=True, front=None, provenance=None):
    """Writes a PyTorch model as a bundle.

    model        any torch.nn.Module; it is traced in evaluation mode, and left as it is
    path         the bundle to write
    example      what the model is called with, a batch of any size: a dict of tensors, a tuple of positional tensors, or one tensor.
                 Only its form and types matter
    features     {feature: description}. kind: "categorical", "sequence", "numeric", "dense", or "length" with of=<sequence>; where it
                 is left out, integers are ids and more than one column a sequence or a dense vector. input: the entry of the dict or
                 the number of the argument (default: the feature's name, or its place); columns: (first, end) of it. Ids need vocab_size,
                 or table=<path of their nn.Embedding>; sequences may say pad_id (0) and pad_side ("post"). Every other key is a rule of
                 the bundle's feature (FORMAT.md part 4): out_of_range, oov_id, missing, space ... What the model does not read is left out
    rows         rows in the example's form; become golden rows with the model's outputs. Default: the example
    outputs      names of the outputs, or of the entries of the only one; None leaves one of several out, as a loss; default: the keys of a
                 dict, the fields of a dataclass, "ctr" for a single one
    call         call(model, inputs) -> outputs, where the model is not simply called with the example
    front        "trace": the model runs and its operators are recorded; "export": torch.export makes a graph of it first (torch 2.1 or newer).
                 Default: trace, and export where torch cannot make operators functional
    provenance   {"data": "...", "notes": "..."}: what else the bundle says of where it came from
    raw, encoders, name, metrics, table_dtype, stats, check: as in from_fuxictr

    Raises UnsupportedModelError, naming operator, layer and source line, when the model cannot be carried over exactly.
    """
    given = {"rows": example if rows is None else rows, "raw": raw, "encoders": encoders, "features": None, "name": name,
             "metrics": metrics, "table_dtype": table_dtype, "stats": stats, "check": check, "provenance": provenance}
    return export(TorchImport, model, {"features": features, "example": example, "outputs": outputs, "call": call, "front": front}, path, given)


class TraceContext:
    """Refusals that name the model."""

    def __init__(self, model, builder):
        self.model, self.b = model, builder

    def refuse(self, where, why):
        """Raises UnsupportedModelError."""
        raise UnsupportedModelError(f"{type(self.model).__name__}: {where}: {why}")


class TorchImport:
    """One import by tracing (a TracedImporter)."""

    library = "torch"

    def __init__(self, model, described, encoders=None, table_dtype=None, stats=None, features=None, name=None):
        from ..trace.features import Inputs
        from ..trace.forward import Forward

        self.model, self.table_dtype, self.front = model, table_dtype, described.get("front")
        self.inputs = Inputs(model, described["example"], described["features"])
        self.forward = Forward(model, self.inputs, described.get("call"), described.get("outputs"), described.get("of"))
        self.b = self._builder = Builder(name or type(model).__name__.lower())
        self.ctx = TraceContext(model, self.b)
        self._options = encoders or {}, stats or {}, FeatureRules(self.ctx, features, self.inputs.features)
        self.inputs.declare(self.ctx, self.b, *self._options)
        self.lowering = self.heads = self.names = None

    def build(self):
        """Traces, lowers and fills the builder. Raises UnsupportedModelError."""
        from ..trace.build import emit, features_read, short_types
        from ..trace.pipeline import lowered

        self._check_weights()
        self.lowering, self.heads = lowered(self.model, self.forward, self.inputs, {f["name"]: f for f in self.b.features}, self.front)
        self._name_heads()
        self.b = self.ctx.b = Builder(self._builder.name)
        self.inputs.read_only(features_read(self.heads))
        self.inputs.declare(self.ctx, self.b, *self._options)
        self.names = emit(self.lowering.g, self.heads, self.b, self.table_dtype, short_types(self.model))
        return self.b

    def _name_heads(self):
        """Scores that are entries of one output have the names that were given for them."""
        names = self.forward.entries
        if names is not None and len(names) != len(self.heads):
            raise ValueError(f"outputs: {len(names)} names for {len(self.heads)} scores")
        for head, name in zip(self.heads, names or ()):
            head.name = name

    def _check_weights(self):
        import torch

        for path, module in self.model.named_modules():
            if isinstance(module, torch.jit.ScriptModule):
                self.ctx.refuse(f"layer '{path}'" if path else "the model", "is TorchScript, which runs where its operators cannot be seen; "
                                "give the nn.Module that it was made of")
            if ".quantized" in type(module).__module__:
                self.ctx.refuse(f"layer '{path}'", "is quantized; give the model that it was made of")
            if getattr(module, "max_norm", None) is not None:
                self.ctx.refuse(f"layer '{path}'", f"max_norm={module.max_norm} scales rows of the table when they are looked up; scale them "
                                                   "once and set max_norm=None")
        for name, p in self.model.named_parameters():
            if p.is_floating_point() and not bool(p.isfinite().all()):
                self.ctx.refuse(f"'{name}'", "holds NaN or infinity")
            if str(p.dtype) == "torch.float64":
                self.ctx.refuse(f"'{name}'", "is torch.float64, expected float32, float16 or bfloat16 (convert with model.float())")

    # -- rows ---------------------------------------------------------------------------------------------------------
    def columns(self, rows):
        """Rows in the model's form as columns of the bundle's features."""
        return self.inputs.columns(rows)

    def random_rows(self, rng, n):
        """Rows in the model's form, empty bags among them."""
        return self.inputs.random_rows(rng, n)

    def edge_rows(self, rng):
        """Rows with numbers on and beside the edges at which the model decides otherwise, or None."""
        from ..trace.jumps import edges

        found = edges(self.lowering)
        total = sum(map(len, found.values()))
        if not total:
            return None
        arrays, at = self.inputs.arrays(self.random_rows(rng, total)), 0
        for name, values in found.items():
            part = {key: array[at:at + len(values)] for key, array in arrays.items()}
            self.inputs.put(part, name, np.repeat(values[:, None], self.inputs.features[name].width, axis=1))
            at += len(values)
        return self.inputs.joined([arrays[key] for key in self.inputs.keys])

    def put(self, rows, name, values):
        """Sets a feature's part of rows."""
        self.inputs.put(dict(zip(self.inputs.keys, self.inputs.split(rows))), name, values)

    def join(self, a, b):
        """Rows of `a`, then of `b`."""
        a, b = self.inputs.arrays(a), self.inputs.arrays(b)
        return self.inputs.joined([np.concatenate([a[key], b[key].astype(a[key].dtype)]) for key in self.inputs.keys])

    def check_batch_sizes(self):
        """Runs the model as it is on batches of other sizes than it was traced with: Python's own branches on the size leave no trace."""
        from ..ops.executor import Executor
        from .run import to_rows
        from ..trace.sizes import LARGEST, branches

        few = self.random_rows(np.random.default_rng(11), max(_OTHER_SIZES))
        sizes = branches(lambda: self.run(few, alone=True), max(_OTHER_SIZES)).difference(_OTHER_SIZES)
        if max(sizes, default=0) > LARGEST:
            self.ctx.refuse("check", f"the model compares its number of rows with {max(sizes) - 1}, and batches of up to {LARGEST} can be tried to "
                                     "see whether that changes a score: leave the comparison out")
        rows = self.random_rows(np.random.default_rng(11), max(*_OTHER_SIZES, *sizes))
        run = Executor(self.b).run(to_rows(self, rows))["value"]
        want = np.stack([run[head["name"]] for head in self.b.heads], axis=1)
        for n in (*_OTHER_SIZES, *sorted(sizes)):
            some = self.select(rows, np.arange(len(want)) < n)
            try:
                value, _ = self.run(some, alone=True)
            except _FAILURES as e:
                if n in sizes:  # a batch that the model itself does not take
                    continue
                if n > 2:
                    raise UnsupportedModelError(f"{type(self.model).__name__}: the model's own forward fails on {n} rows: "
                                                f"{type(e).__name__}: {e}") from e
                warnings.warn(f"{type(self.model).__name__}: the model's own forward fails on a batch of {n} ({type(e).__name__}: {e}), so a "
                              f"batch of {n} was not compared; the bundle scores it as a larger one", stacklevel=4)
                continue
            error = np.abs(value - want[:n]) / np.maximum(1, np.abs(want[:n]))
            bad = ~((error <= _SIZE_TOLERANCE) | (value == want[:n]) | np.isnan(value))
            if bad.any():
                at = int(np.argmax(bad.any(axis=1)))
                self.ctx.refuse("check", f"with a batch of {n} the model gives {value[at].tolist()} for row {at}, in the traced batches "
                                         f"{want[at].tolist()}: what its Python code computes depends on the number of rows, or on the "
                                         "other rows")

    def run(self, rows, dtype=None, alone=False):
        """(values, logits) [rows, heads] of the model itself, a head without sigmoid with its value as logit. `alone`: one row is
        given as it is."""
        arrays = self.inputs.arrays(rows)
        n = len(next(iter(arrays.values())))
        if n == 1 and not alone:  # some layers squeeze a batch of one away
            arrays = {key: np.concatenate([value, value]) for key, value in arrays.items()}
        tensors = [t.to(dtype) if dtype is not None and t.is_floating_point() else t for t in self.inputs.tensors(arrays)]
        try:
            values, logits = self.library_scores(lambda call: self.forward.scored(call, tensors), dtype)
        except RuntimeError as e:
            if dtype is None or "dtype" not in str(e) and "scalar type" not in str(e):
                raise
            return self.run(rows)  # the model fixes float32 somewhere
        values, logits = (to_numpy(t)[:n].astype(np.float64) for t in (values, logits))
        plain = [i for i, head in enumerate(self.b.heads) if head["activation"] == "identity"]
        logits[:, plain] = values[:, plain]  # a clamped sigmoid looks like the sigmoid itself
        return values, logits

    def library_scores(self, forward, dtype):
        """forward(model) in float32 or in a given type."""
        return run_library(self.model, forward, dtype)

    def known(self, value, logit, rows, made=0):
        """True for rows that the model has a score for: of a softmax over no entry, and of a missing number, torch makes NaN. The exporter made the
        last `made` rows, the others are the caller's."""
        known = ~(np.isnan(value).any(axis=1) | np.isnan(logit).any(axis=1))
        if not known.any():
            self.ctx.refuse("check", "the model's own outputs are NaN for every row")
        if not known.all():
            warnings.warn(f"{type(self.model).__name__}: the model's own output is NaN for {self._without_score(rows, ~known, len(known) - made)}; the bundle "
                          "gives such rows a number, which nothing is compared with", stacklevel=4)
        return known

    def _without_score(self, rows, unknown, given):
        """How many of the first `given` rows have no score, how many of the others, and which columns hold NaN there."""
        gone = {name: np.isnan(np.reshape(column, (len(unknown), -1))).any(axis=1)
                for name, column in self.columns(rows).items() if isinstance(column, np.ndarray)}
        parts = ((slice(0, given), "rows given"), (slice(given, None), "rows made for the check"))
        return " and ".join(_why_nan(unknown[part], {name: where[part] for name, where in gone.items()}, whose)
                            for part, whose in parts if unknown[part].any())

    def select(self, rows, keep):
        """Some of the rows."""
        arrays = self.inputs.arrays(rows)
        return self.inputs.joined([arrays[key][keep] for key in self.inputs.keys])


def _why_nan(unknown, gone, whose):
    """'2 of 4 rows given (...)': which columns hold NaN in how many of these rows; else what torch itself makes NaN."""
    n, missing = len(unknown), np.zeros(len(unknown), bool)
    told = []
    for name, where in gone.items():
        if (where & unknown).any():
            told.append(f"'{name}' in {int(where.sum())} of {n}")
            missing |= where
    other = int((unknown & ~missing).sum())
    why = f"a number is missing, that is NaN: {', '.join(told)}; to compare these rows too, put into rows= what the feature's rule 'missing' makes of it"
    if not told:
        why = "as a softmax over an empty bag is"
    elif other:
        why += f"; {other} of them for another reason, as a softmax over an empty bag"
    return f"{int(unknown.sum())} of {n} {whose} ({why})"
