"""from_torch on the models of user_models/: each scores as the model itself, or is refused with operator, layer and line.

Rows are other than those traced: bags of every length, ids at the ends of their vocabularies, and the numbers at which a formula changes
branch. The oracle is a float64 copy of the model, called here and not by the importer. Where numbers decide (a comparison, a bucket), a
float32 decides the same as its float64 copy: the numbers are floats that both hold.
"""

import copy
import inspect
import pathlib
import re
import sys
from unittest import mock

import numpy as np
import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import user_models  # noqa: E402
from dpi_export import Bundle, Executor, Rows, UnsupportedModelError, from_torch  # noqa: E402
from dpi_export.trace.features import Inputs  # noqa: E402
from program import DEVICES, agrees, verified  # noqa: E402
from user_models import REFUSED, traps  # noqa: E402

EXACT = [name for name in user_models.MODELS if name not in REFUSED]
ROWS = 64
pytestmark = pytest.mark.filterwarnings("ignore:.*output is NaN", "ignore:.*fails on a batch of one row")


def called(model, inputs, arrays, dtype):
    """[rows] for each score of the model itself."""
    model = copy.deepcopy(model).to(dtype)
    tensors = [t.to(dtype) if t.is_floating_point() else t for t in inputs.tensors(arrays)]
    form, names = inputs.joined(tensors), inspect.signature(model.forward).parameters
    with torch.no_grad(), mock.patch.object(torch.Tensor, "float", lambda t: t.to(dtype)):  # .float() means the type that is computed in
        if isinstance(form, tuple):
            out = model(*form)
        elif isinstance(form, dict) and (set(form) & set(names) or any(p.kind is p.VAR_KEYWORD for p in names.values())):
            out = model(**form)
        else:
            out = model(form)
    found = out if isinstance(out, dict) else dict(enumerate(out)) if isinstance(out, tuple) else {0: out}
    return [column for t in found.values() for column in t.reshape(len(t), -1).double().numpy().T]


def rows_of(case, inputs, seed, n=ROWS):
    """{key: array}: random rows; the first ones hold ids at the ends of their vocabularies, all of them edges."""
    rng = np.random.default_rng(seed)
    arrays = inputs.arrays(inputs.random_rows(rng, n))
    for name, f in inputs.features.items():
        if f.kind == "categorical":
            inputs.put(arrays, name, np.where(np.arange(n) < 4, np.arange(n) % 2 * (f.vocab_size - 1), inputs._of(f, arrays[f.input])[:, 0]))
        elif f.kind == "sequence" and f.length is None:
            bags = [[], [f.vocab_size - 1] * f.max_len, [1], [f.vocab_size - 1, 1][:f.max_len]]
            view = inputs._of_view(f, arrays)
            inputs.put(arrays, name, bags + [[i for i in row if i != f.pad_id] for row in view[4:].tolist()])
        if name in case.edges:
            view = inputs._of_view(f, arrays)
            picked = rng.choice(np.array(case.edges[name], np.float32), view.shape)
            view[...] = np.where(rng.random(view.shape) < 0.4, picked, view)
    return arrays


def exported(name, path, seed=1):
    """(case, inputs) of a bundle that was written to path; its golden rows are rows_of()."""
    case = user_models.make(name, seed)
    inputs = Inputs(case.model, case.example, case.features)
    rows = inputs.joined(list(rows_of(case, inputs, 17).values()))
    from_torch(case.model, path, features=case.features, example=case.example, rows=rows, **case.keywords)
    return case, inputs


def worst(bundle, case, inputs, arrays, dtype=torch.float64):
    """The largest error of a score, relative to max(1, |score|), over the heads; and which share of scores the model itself has."""
    want = called(case.model, inputs, arrays, dtype)
    inputs.read_only([f["name"] for f in bundle.features])
    run = Executor(bundle).run(Rows.from_columns(bundle, inputs.columns(inputs.joined(list(arrays.values())))))["value"]
    assert len(want) == len(run)
    error = np.stack([np.abs(got - w) / np.maximum(1, np.abs(w)) for got, w in zip(run.values(), want)])
    known = ~np.isnan(np.stack(want))
    return float(np.max(error[known], initial=0)), known.mean()


@pytest.mark.parametrize("name", EXACT)
def test_exact(name, tmp_path):
    case, inputs = exported(name, tmp_path / "m.h5")
    with Bundle(tmp_path / "m.h5") as bundle:
        for seed, n in ((1, 5), (2, ROWS), (3, 131)):
            arrays = rows_of(case, inputs, seed, n)
            error, known = worst(bundle, case, inputs, arrays)
            assert error <= 1e-6 and known == 1
            assert worst(bundle, case, inputs, arrays, torch.float32)[0] <= 2e-5


@pytest.mark.parametrize("name", EXACT)
def test_rows_stand_alone(name, tmp_path):
    case, inputs = exported(name, tmp_path / "m.h5")
    with Bundle(tmp_path / "m.h5") as bundle:
        arrays = rows_of(case, inputs, 5)
        together = called(case.model, inputs, arrays, torch.float64)
        inputs.read_only([f["name"] for f in bundle.features])
        for i in range(0, ROWS, 9):
            pair = {key: value[[i, i]] for key, value in arrays.items()}  # two, for models that squeeze one row away
            run = Executor(bundle).run(Rows.from_columns(bundle, inputs.columns(inputs.joined(list(pair.values())))))["value"]
            for got, want in zip(run.values(), together):
                assert abs(got[0] - want[i]) <= 1e-6 * max(1, abs(want[i]))


@pytest.mark.parametrize("name", EXACT)
def test_padding_may_be_spelled_out(name, tmp_path):
    """A bag that ends in ids of padding scores as the bag without them: a model that is given no length cannot tell them apart."""
    case, inputs = exported(name, tmp_path / "m.h5")
    with Bundle(tmp_path / "m.h5") as bundle:
        inputs.read_only([f["name"] for f in bundle.features])
        arrays = rows_of(case, inputs, 6)
        columns = inputs.columns(inputs.joined(list(arrays.values())))
        whole = {f.name: inputs._of(f, arrays[f.input]).tolist() for f in inputs.features.values()
                 if f.kind == "sequence" and f.length is None and f.name in columns}
        short, long = (Executor(bundle).run(Rows.from_columns(bundle, c))["value"] for c in (columns, {**columns, **whole}))
        for head in short:
            np.testing.assert_allclose(long[head], short[head], rtol=0, atol=1e-12)


def test_the_front_end_is_named(tmp_path):
    """An unknown one is refused, and so is torch.export where torch has none."""
    case = user_models.make("buckets", 1)
    for front in ["dynamo"] + ([] if hasattr(torch, "export") else ["export"]):
        with pytest.raises(ValueError, match="front"):
            from_torch(case.model, tmp_path / "m.h5", features=case.features, example=case.example, front=front)


def test_without_functionalize_the_trace_is_exported(monkeypatch):
    from dpi_export.trace import capture, exported

    def missing():
        raise ImportError("functionalize")

    assert exported.wanted(None) == "trace"
    monkeypatch.setattr(capture, "functionalizer", missing)
    assert exported.wanted(None) == "export"


def test_a_moved_bucket_shows(tmp_path):
    """test_exact can fail: one boundary that lies elsewhere is seen."""
    case, inputs = exported("buckets", tmp_path / "m.h5")
    case.model.edges[1] += 0.25
    with Bundle(tmp_path / "m.h5") as bundle:
        assert worst(bundle, case, inputs, rows_of(case, inputs, 2))[0] > 1e-2


@pytest.mark.parametrize("name", ["buckets", "crossed_flag", "key_padding"])
def test_positions_and_masks_do_not_loosen_golden_rows(name, tmp_path):
    """What a rounding would be to a position or to a truth value does not happen to whole numbers: no tolerance follows from it."""
    exported(name, tmp_path / "m.h5")
    with Bundle(tmp_path / "m.h5") as bundle:
        assert bundle.golden["tolerances"] is None and bundle.golden["tolerance"] <= 1e-5


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_refused_by_name(name, tmp_path):
    case = user_models.make(name, 1)
    with pytest.raises(UnsupportedModelError, match=rf"layer '.+': aten\.{REFUSED[name]}.* at [a-z]+\.py:\d+: "):
        from_torch(case.model, tmp_path / "m.h5", features=case.features, example=case.example, **case.keywords)
    assert not (tmp_path / "m.h5").exists()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", EXACT)
def test_the_engine_agrees(name, device, tmp_path):
    """`dpi verify` recomputes the golden rows, which hold the model's own float32 scores."""
    exported(name, tmp_path / "m.h5")
    agrees(tmp_path / "m.h5", device)


@pytest.mark.parametrize("precision", ["tf32", "bf16", "fp16"])
@pytest.mark.parametrize("name", [name for name in EXACT if name not in traps.MODELS])
def test_short_products_agree(name, precision, tmp_path):
    """The CUDA backend's products in short floats, by its emulator: a probability within 5e-3, another score within 2e-2 of its size."""
    exported(name, tmp_path / "m.h5")
    done = verified(tmp_path / "m.h5", "cuda_emu", precision)
    with Bundle(tmp_path / "m.h5") as bundle:
        bound = 5e-3 if all(head["activation"] == "sigmoid" for head in bundle.heads) else 2e-2
    found = re.search(r"scores: \d+ of (\d+) agree, largest error ([-+.\de]+)", done.stdout)
    assert found and int(found[1]) >= ROWS and float(found[2]) <= bound, done.stdout + done.stderr
