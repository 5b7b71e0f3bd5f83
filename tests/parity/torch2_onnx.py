"""Files of torch.onnx's newer exporter (dynamo=True) as bundles, for torch2.py. Oracles: the torch model in float64, and for files that
compute something else than their model, onnx's own reference evaluator."""

import contextlib
import io
import logging
import warnings
from pathlib import Path

import numpy as np
import onnx_models
import shared_models
import test_onnx_models
import torch
from dpi_export import Bundle, Executor, Rows, UnsupportedModelError, from_onnx
from dpi_export.importers.onnx_import import OnnxImport, Source

#: Models that the exporter itself refuses, and a word of its text.
NOT_EXPORTED = {"autoint": "An error occurred", "evolving": "Failed to export", "from_both_sides": "Failed to export"}
#: Models that from_onnx refuses, and what it says.
REFUSED = {"bags": "begins a loop", "dot_interaction": "begins a loop", "spectral": "(DFT)", "angles": "(Atan)", "marked": "(NonZero)"}
#: Files that compute something else than their model: the exporter takes 1e-8 for 0, and leaves out that it is added.
ANOTHER = {"masked_mean"}
#: What every run has; an export takes seconds.
FEW = ("deepfm", "bags", "masked_mean", "target_attention", "field_transformer", "recurrent", "hashed", "lengths", "top_k", "convolved")
SHARED = ("tied_output", "table_in_every_part")
MORE_SHARED = ("one_tower", "lstm, shared", "rnn_both_ways, shared", "lstmcell, shared", "gru_from_a_state, shared")


def exported(model, example, args):
    """The bytes of the file."""
    logging.disable(logging.WARNING)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        program = torch.onnx.export(model, args, dynamo=True, input_names=list(example), verbose=False,
                                    dynamic_axes={name: {0: "batch"} for name in example})
    return program.model_proto.SerializeToString()


def _rows(view, example, seed, n):
    """Random rows; of inputs that the file has not, as nothing needs them, the example's first row."""
    given = view.random_rows(np.random.default_rng(seed), n)
    return {name: given[name] if name in given else np.repeat(t.numpy()[:1], n, 0) for name, t in example.items()}


def by_reference(data, path, view, rows):
    """The largest difference of a score from the file's own, by onnx's reference evaluator; NaN is equal to NaN."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        want = ReferenceEvaluator(onnx.load_from_string(data)).run(None, rows)[0][:, 0]
        with Bundle(path) as bundle:
            view.inputs.read_only({f["name"] for f in bundle.features})
            got = Executor(bundle).run(Rows.from_columns(bundle, view.columns(rows)))["value"][bundle.heads[0]["name"]]
    return float(np.max(np.abs(got - want), initial=0, where=~(np.isnan(got) & np.isnan(want))))


def _made(name):
    if name not in shared_models.MODELS:
        return onnx_models.make(name)
    model, example, features = shared_models.make(name)
    return model, example, features, tuple(example.values())


def check(name, folder):
    """(problem, whether it is refused) of one model."""
    model, example, features, args = _made(name)
    try:
        data = exported(model, example, args)
    except Exception as e:  # noqa: BLE001  (the exporter has many kinds of errors)
        return "" if name in NOT_EXPORTED and NOT_EXPORTED[name] in str(e) else f"torch.onnx: {type(e).__name__}: {e}", True
    if name in NOT_EXPORTED:
        return "torch.onnx takes it: take it off NOT_EXPORTED", False
    view, path = OnnxImport(Source(data), {"features": features}), Path(folder) / "onnx.h5"
    try:
        from_onnx(data, path, features=features)
    except UnsupportedModelError as e:
        return "" if name in REFUSED and REFUSED[name] in str(e) else str(e), True
    if name in REFUSED:
        return f"was not refused for {REFUSED[name]}", False
    for seed, n in ((1, 5), (2, 64)):
        rows = _rows(view, example, seed, n)
        error = by_reference(data, path, view, rows) if name in ANOTHER else test_onnx_models.worst(path, model, example, args, view, rows)[0]
        if not error <= 1e-6:
            return f"differs by {error:.1e}", False
    return "", False


def checks(folder, full):
    """(name, problem) of every model, and of a planted fault."""
    for name in (*onnx_models.MODELS, *SHARED, *MORE_SHARED) if full else (*FEW, *SHARED):
        try:
            problem, refused = check(name, folder)
        except Exception as e:  # noqa: BLE001  (a crash of one check is its failure, not the suite's)
            problem, refused = f"{type(e).__name__}: {e}", False
        more = "" if name in FEW or name in SHARED else "more of "
        yield f"{more}dynamo's ONNX: {name}" + (", refused" if refused else ""), problem
    yield "a planted fault: a weight of the file moved", _planted(folder)


def _planted(folder):
    model, example, features, args = _made("tied_output")
    data = exported(model, example, args)
    view, path = OnnxImport(Source(data), {"features": features}), Path(folder) / "onnx.h5"
    from_onnx(data, path, features=features)
    with torch.no_grad():
        model.items.weight += 1e-2
    error = test_onnx_models.worst(path, model, example, args, view, _rows(view, example, 1, 64))[0]
    return "" if error > 1e-4 else "was not seen"
