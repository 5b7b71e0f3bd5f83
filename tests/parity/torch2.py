"""The models of users with a current torch through both front ends, and torchrec's models; run by torch2.sh. One line for each check."""

import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "weights/python"), str(HERE.parents[1] / "weights/python/tests")]

import numpy as np  # noqa: E402
import test_user_models as users  # noqa: E402
import torch  # noqa: E402
import trace_models  # noqa: E402
import user_models  # noqa: E402
from dpi_export import Bundle, Executor, Rows, UnsupportedModelError, from_torch  # noqa: E402
from dpi_export.torchrec_import import _padded, from_torchrec  # noqa: E402
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
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, torchrec {__import__('torchrec').__version__}")
    started, counts = time.monotonic(), [0, 0]
    with tempfile.TemporaryDirectory() as folder:
        for checks in (both_fronts(folder), of_the_tracer(folder), torchrecs(folder)):
            for name, problem in checks:
                counts[bool(problem)] += 1
                print(f"{'FAIL' if problem else 'ok  '} {name:<50} {problem}", flush=True)
    print(f"{time.monotonic() - started:.1f} s")
    print(f"{counts[0]} passed, {counts[1]} failed")
    return 1 if counts[1] else 0


if __name__ == "__main__":
    sys.exit(main())
