"""The importers with a current torch, run by torch2.sh, which says what is compared. One line for each check.

  python3 torch2.py [--full --older FILE]       FILE: what functions.py printed with an older torch
"""

import argparse
import contextlib
import os
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "weights/python"), str(HERE.parents[1] / "weights/python/tests")]

import oracles  # noqa: E402, F401  (before the libraries)
import deepctr_zoo  # noqa: E402
import fuxictr_models  # noqa: E402
import fuxictr_zoo  # noqa: E402
import numpy as np  # noqa: E402
import shared_models  # noqa: E402
import test_shared_models  # noqa: E402
import test_user_models as users  # noqa: E402
import torch  # noqa: E402
import torch2_onnx  # noqa: E402
import trace_models  # noqa: E402
import traced  # noqa: E402
import user_models  # noqa: E402
from dpi_export import Bundle, Executor, Rows, UnsupportedModelError, from_torch  # noqa: E402
from dpi_export.importers.torchrec_import import _padded, from_torchrec  # noqa: E402
from engine import Engine, find_library  # noqa: E402

#: Models that torch.export itself refuses, and a word of its text.
EXPORT_REFUSES = {"bag_of_one": "Constraints violated", "data_of_a_tensor": "fake tensor", "length_mean": "Constraints violated"}


def of_users(name, front, path):
    """(problem, refused) of one model."""
    case = user_models.make(name, 1)
    inputs = users.Inputs(case.model, case.example, case.features)
    wanted = user_models.REFUSED.get(name) if front == "trace" or name not in EXPORT_REFUSES else EXPORT_REFUSES[name]
    rows = inputs.joined(list(users.rows_of(case, inputs, 17).values()))
    try:
        from_torch(case.model, path, features=case.features, example=case.example, rows=rows, front=front, **case.keywords)
    except UnsupportedModelError as e:
        held = wanted is not None and (wanted in str(e) or front == "export" and "torch.export" in str(e))
        return "" if held else f"refused: {e}", True
    if wanted is not None:
        return f"was not refused for {wanted}", False
    with Bundle(path) as bundle:
        errors = [users.worst(bundle, case, inputs, users.rows_of(case, inputs, seed, n))[0] for seed, n in ((2, 64), (3, 131))]
    return "" if max(errors) <= 1e-6 else f"differs by {max(errors):.1e}", False


def both_fronts(folder):
    """Lines of every model of users; the export's bundle is the trace's to the byte."""
    for name in user_models.MODELS:
        made = {}
        for front, label in (("trace", "make_fx"), ("export", "export")):
            path = Path(folder) / f"{front}.h5"
            path.unlink(missing_ok=True)
            try:
                problem, refused = of_users(name, front, path)
            except Exception as e:  # noqa: BLE001  (a crash of one check is its failure, not the suite's)
                problem, refused = f"{type(e).__name__}: {e}", False
            made[front] = path.read_bytes() if path.exists() else None
            if front == "export" and not problem and not refused and made["export"] != made["trace"]:
                problem = "its bundle is not the one that the other front end makes"
            yield f"{label}: {name}" + (", refused" if refused else ""), problem


#: Models of the tracer's own tests that torch.export refuses, and a word of its text.
EXPORT_REFUSES_TOO = {"fm": "data-dependent", "autoint": "Constraints violated", "experts": "Constraints violated",
                      "evolving": "Constraints violated"}


def of_the_tracer(folder):
    """Lines of the models of the tracer's own tests, recurrent layers among them: the same bytes from both front ends."""
    for name in trace_models.MODELS:
        made, problem = {}, ""
        for front in ("trace", "export"):
            model, example, features, keywords = trace_models.make(name)
            path = Path(folder) / f"{front}.h5"
            try:
                from_torch(model, path, features=features, example=example, front=front, **keywords)
                made[front] = path.read_bytes()
            except Exception as e:  # noqa: BLE001
                wanted = EXPORT_REFUSES_TOO.get(name) if front == "export" else None
                held = wanted and isinstance(e, UnsupportedModelError) and "torch.export refuses it" in str(e) and wanted in str(e)
                problem = problem or ("" if held else f"{front}: {type(e).__name__}: {e}")
        if not problem and len(made) == 2 and name in EXPORT_REFUSES_TOO:
            problem = "was not refused: take it off EXPORT_REFUSES_TOO"
        yield f"make_fx: {name}", "" if "trace" in made else problem
        yield f"export: {name}" + (", refused" if name in EXPORT_REFUSES_TOO else ""), problem or (
            "" if len(made) < 2 or made["trace"] == made["export"] else "its bundle is not the one that the other front end makes")


def of_shared_weights(folder, full):
    """Lines of the models that share weights and of the recurrent layers: exact through both front ends, with the same bytes. torch.export
    takes long for them: it has the ways to share, and one form of each layer, where not all is wanted."""
    for name in shared_models.MODELS:
        made, few = {}, name in shared_models.SHARED or "_" not in name
        for front, label in (("trace", "make_fx"), ("export", "export"))[:1 + (few or full)]:
            path, problem = Path(folder) / f"{front}.h5", ""
            path.unlink(missing_ok=True)
            try:
                model, example, features = shared_models.make(name)
                from_torch(model, path, features=features, example=example, front=front)
                made[front] = path.read_bytes()
                error = test_shared_models.worst(path, model, 64, 6)
                problem = "" if error <= 1e-6 else f"differs by {error:.1e}"
            except Exception as e:  # noqa: BLE001
                problem = f"{type(e).__name__}: {e}"
            if not problem and front == "export" and made["export"] != made.get("trace"):
                problem = "its bundle is not the one that the other front end makes"
            yield f"{'' if front == 'trace' or few else 'more of '}{label}: {name}", problem


def of_the_libraries(full):
    """Lines of the traced classes of DeepCTR-Torch and FuxiCTR: one case of each class and every layer of theirs, or all; a class of FuxiCTR's
    zoo needs a checkout."""
    for name, problem in traced.run_all():
        refused = name.removesuffix(", traced") in traced.REFUSED
        yield (name if name.startswith("a planted") else f"traced: {name}" + (", refused" if refused else "")), problem
    first = {}
    for name, (kind, _) in deepctr_zoo.cases().items():
        first.setdefault(kind, name)
    with tempfile.TemporaryDirectory() as folder:
        for name in deepctr_zoo.cases() if full else first.values():
            more = "" if name in first.values() else "more of "
            try:
                text, problem = deepctr_zoo.check(name, None, (), folder)
            except Exception as e:  # noqa: BLE001
                text, problem = "", f"{type(e).__name__}: {e}"
            yield f"{more}zoo: DeepCTR {name}" + (", refused" if text == "refused" else ""), problem
    if os.environ.get("FUXICTR_ROOT"):
        for name, problem in fuxictr_zoo.checks(os.environ["FUXICTR_ROOT"], None, []):
            yield f"FuxiCTR's zoo: {name}", problem


def of_functions(older):
    """Lines of the functions of torch that an older torch exports."""
    import functions

    lines = [line.split("\t") for line in Path(older).read_text(encoding="utf-8").splitlines()]
    wanted = [function for outcome, function in lines if outcome == "exported"]
    yield "functions: the older torch exports most of them", "" if len(lines) == len(functions.FUNCTIONS) < 2 * len(wanted) else f"{len(wanted)}"
    with tempfile.TemporaryDirectory() as folder:
        for function in wanted:
            try:
                problem = "" if functions.exported(function, folder) else "refused here"
            except Exception as e:  # noqa: BLE001
                problem = f"{type(e).__name__}: {e}"
            yield f"functions: {function}", problem


def _collection(pooling):
    from torchrec import EmbeddingBagCollection
    from torchrec.modules.embedding_configs import EmbeddingBagConfig, PoolingType

    kinds = {"sum": (PoolingType.SUM,) * 2, "mean": (PoolingType.MEAN, PoolingType.SUM)}[pooling]
    tables = [EmbeddingBagConfig(name="t1", embedding_dim=8, num_embeddings=50, feature_names=["f1", "f3"], pooling=kinds[0]),
              EmbeddingBagConfig(name="t2", embedding_dim=8, num_embeddings=30, feature_names=["f2"], pooling=kinds[1])]
    return EmbeddingBagCollection(device=torch.device("cpu"), tables=tables)


def _jagged(rng, n):
    """Bags of every length, empty ones among them, as torchrec has them."""
    from torchrec import KeyedJaggedTensor

    counts = [rng.integers(0, most + 1, n) for most in (4, 3, 1)]
    values = [rng.integers(0, size, c.sum()) for size, c in zip((50, 30, 50), counts)]
    return KeyedJaggedTensor.from_lengths_sync(keys=["f1", "f2", "f3"], values=torch.from_numpy(np.concatenate(values)),
                                               lengths=torch.from_numpy(np.concatenate(counts)).to(torch.int32))


LENGTHS = {"f1": 4, "f2": 3, "f3": 1}


def of_torchrec(make, pooling, path, engine, spoil=False):
    """'' where a model of torchrec scores as its bundle does, on rows that it is given as it takes them."""
    torch.manual_seed(3)
    model = make(_collection(pooling)).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn(p.shape) * 0.3)
    from_torchrec(model, path, dense_features=5, max_len=LENGTHS)
    worst, rng = 0.0, np.random.default_rng(4)
    if spoil:
        with torch.no_grad():
            next(model.parameters()).add_(1e-2)
    for n in (2, 37, 130):
        dense, jagged = torch.from_numpy(rng.normal(size=(n, 5)).astype(np.float32)), _jagged(rng, n)
        with torch.no_grad():
            want = model(dense, jagged).double().numpy()[:, 0]
        columns = _padded(dense, jagged, LENGTHS)
        bags = {name: [row[:k].tolist() for row, k in zip(columns[name], columns[f"{name}.length"])] for name in LENGTHS}
        with Bundle(path) as bundle:
            given = Rows.from_columns(bundle, {"dense": columns["dense"], **bags})
            got = [Executor(bundle).run(given)["value"][bundle.heads[0]["name"]]]
        if engine is not None:
            for device in ("ref", "cpu"):
                with engine.load(path, device=device) as loaded:
                    got.append(loaded.predict(given, n)[0][:, 0])
        worst = max([worst, *(float((np.abs(g - want) / np.maximum(1, np.abs(want))).max()) for g in got)])
    return "" if worst <= 1e-5 else f"differs by {worst:.1e}"


def torchrecs(folder):
    """Lines of torchrec's models."""
    from torchrec.models.dlrm import DLRM, DLRM_DCN, DLRM_Projection

    library = find_library()
    engine, path = Engine(library) if library else None, Path(folder) / "rec.h5"
    models = {"DLRM": lambda bags: DLRM(bags, 5, [16, 8], [16, 1]), "DLRM_DCN": lambda bags: DLRM_DCN(bags, 5, [16, 8], [16, 1], 2, 4),
              "DLRM_Projection": lambda bags: DLRM_Projection(bags, 5, [16, 8], [16, 1], [8, 16], [8, 16])}
    for name, make in models.items():
        for pooling in ("sum", "mean"):
            try:
                problem = of_torchrec(make, pooling, path, engine)
            except Exception as e:  # noqa: BLE001
                problem = f"{type(e).__name__}: {e}"
            yield f"torchrec: {name}, {pooling}", problem
    yield "torchrec: a weight per id, refused", _weighted(models["DLRM"], path)
    yield "a planted fault: a table that moved by 0.01", "" if of_torchrec(models["DLRM"], "sum", path, engine, True) else "was not seen"


def _weighted(make, path):
    from torchrec import EmbeddingBagCollection

    bags = EmbeddingBagCollection(device=torch.device("cpu"), tables=_collection("sum").embedding_bag_configs(), is_weighted=True)
    try:
        from_torchrec(make(bags).eval(), path, dense_features=5, max_len=LENGTHS)
    except UnsupportedModelError as e:
        return "" if "a weight per id (is_weighted)" in str(e) and "from_torch" in str(e) else str(e)
    return "was not refused"


def main():
    """Runs all; exit status 1 when anything failed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--older", help="what functions.py printed with an older torch")
    given = parser.parse_args()
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, torchrec {__import__('torchrec').__version__}, onnx {__import__('onnx').__version__}, "
          f"onnxscript {__import__('onnxscript').__version__}")
    counts, skipped = [0, 0], 0
    with tempfile.TemporaryDirectory() as folder:
        groups = {"users": both_fronts(folder), "tracer": of_the_tracer(folder), "shared": of_shared_weights(folder, given.full),
                  "libraries": of_the_libraries(given.full), "ONNX": torch2_onnx.checks(folder, given.full), "torchrec": torchrecs(folder)}
        if given.older:
            groups["functions"] = of_functions(given.older)
        for about, checks in groups.items():
            started = time.monotonic()
            for name, problem in _quietly(checks):
                counts[bool(problem)] += 1
                print(f"{'FAIL' if problem else 'ok  '} {name:<50} {problem}", flush=True)
            print(f"{about}: {time.monotonic() - started:.1f} s", flush=True)
    if not os.environ.get("FUXICTR_ROOT"):
        skipped = len(fuxictr_models.makers())
        print(f"skipped: {skipped} cases of FuxiCTR's zoo; FUXICTR_ROOT names no checkout")
    print(f"{counts[0]} passed, {counts[1]} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if counts[1] else 0


def _quietly(checks):
    """The same, without what torch.export prints of the graphs that it refuses."""
    with open(os.devnull, "w", encoding="utf-8") as nothing:
        while True:
            with contextlib.redirect_stderr(nothing), contextlib.redirect_stdout(nothing):
                found = next(checks, None)
            if found is None:
                return
            yield found


if __name__ == "__main__":
    sys.exit(main())
