"""What the importers' arguments do: features=, name=, metrics=, encoders= and raw= of both, and what each refuses by name.

`run_all()` yields (name, problem); the problem is empty when the check passed.
"""

import os
import tempfile

import oracles  # noqa: F401  (before the libraries)
import cases
import numpy as np
from deepctr_torch.inputs import DenseFeat, SparseFeat, VarLenSparseFeat
from deepctr_torch.models import DeepFM
from dpi_export import Bundle, BundleError, Encoder, Executor, Rows, UnsupportedModelError, from_deepctr_torch, from_fuxictr
from dpi_export import encoders as e
from dpi_export.bundle.golden import compare_golden
from sklearn import preprocessing

METRICS = {"auc": 0.75, "logloss": 0.5, "rows": 100}
COLUMNS = [SparseFeat("user", 12, 4), SparseFeat("size", 5, 4), SparseFeat("kind", 6, 4), VarLenSparseFeat(SparseFeat("hist", 9, 4), 5, "mean"),
           VarLenSparseFeat(SparseFeat("seen", 7, 4), 4, "sum", "seen_len"), DenseFeat("price"), DenseFeat("vector", 3)]


def _deepctr():
    return cases.dt(DeepFM, COLUMNS, dnn_hidden_units=(8, 4))(5)[1]


def _encoders():
    return {"size": preprocessing.LabelEncoder().fit([0.5, 1.0, 2.0, 37.0]),
            "kind": (preprocessing.OrdinalEncoder(encoded_missing_value=4).fit(np.array([["x", 1.0], ["y", np.nan], ["z", 7.0]], dtype=object)), 1),
            "hist": Encoder([e.vocab_string(["a", "b", "c"], first_id=1)], splitter="|"),
            "seen": preprocessing.LabelEncoder().fit(["p", "q"]),
            "price": preprocessing.StandardScaler().fit([[1.0], [5.0], [7.5]])}


def _written(export, check):
    """The problem that `check(bundle)` finds in what `export(path)` wrote."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.h5")
        try:
            export(path)
        except (BundleError, UnsupportedModelError, ValueError) as error:
            return f"{type(error).__name__}: {error}"
        with Bundle(path) as bundle:
            return check(bundle)


def _refused(export, *names):
    """'' when the export is refused with all of `names` in the text."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            export(os.path.join(folder, "model.h5"))
        except (BundleError, UnsupportedModelError, ValueError) as error:
            missing = [n for n in names if n not in str(error)]
            return f"does not name {missing}: {error}" if missing else ""
        return "was exported"


def _labels(bundle):
    """name= and metrics=."""
    found = bundle.name, bundle.manifest["provenance"].get("metrics")
    return "" if found == ("ours", METRICS) else f"{found}"


def _unseen(bundle):
    """An id outside the vocabulary scores as oov_id does."""
    head = bundle.heads[0]["name"]
    rng = np.random.default_rng(3)
    columns = {f["name"]: [1, 1] if f["kind"] == "categorical" else [[1], [1]] if f["kind"] == "sequence"
               else rng.normal(size=(1, f.get("dim", 1))).repeat(2, axis=0) for f in bundle.features}
    columns["user"] = [10**12, 7]
    got = Executor(bundle).run(Rows.from_columns(bundle, columns))["value"][head]
    return "" if got[0] == got[1] else f"{got}"


def _raw(bundle):
    """Cells made for the encoders stand in the bundle and agree; vectors and bare ids have none."""
    golden = compare_golden(bundle)
    if golden["failures"] or golden["raw_rows"] < 8 or set(bundle.golden["raw"]) != set(_encoders()):
        return f"{golden} {list(bundle.golden['raw'] or {})}"
    sizes = {cell[0] for cell in bundle.golden["raw"]["size"]}
    return "" if sizes & {"1.0", "1", "2.0", "2"} and {"0.5", "37.0", "37"} & sizes else f"{sizes}"


def _deepctr_checks():
    model = _deepctr()
    rules = {"user": {"out_of_range": "oov", "oov_id": 7}}

    def export(path, **keywords):
        return from_deepctr_torch(model, path, **keywords)

    yield "features= lets unseen ids in", _written(lambda p: export(p, features=rules), _unseen)
    yield "without features= unseen ids are errors", _written(
        lambda p: export(p), lambda b: "" if "id 1000000000000" in _error(_unseen, b) else "an unseen id was scored")
    yield "name= and metrics=", _written(lambda p: export(p, name="ours", metrics=METRICS), _labels)
    yield "features= of no feature", _refused(lambda p: export(p, features={"usr": rules["user"]}), "'usr'", "user")
    yield "features= of another key", _refused(lambda p: export(p, features={"user": {"vocab_size": 3}}), "'user'", "vocab_size")
    yield "features= beyond the vocabulary", _refused(
        lambda p: export(p, features={"user": {"out_of_range": "oov", "oov_id": 12}}), "'user'", "oov_id", "11")
    yield "encoders make raw golden cells", _written(lambda p: export(p, encoders=_encoders()), _raw)
    yield "encoder of no feature", _refused(lambda p: export(p, encoders={"usr": [e.to_id()]}), "encoders", "'usr'")
    padded = preprocessing.LabelEncoder().fit(["a", "b"])
    yield "LabelEncoder on a padded history", _refused(lambda p: export(p, encoders={"hist": padded}), "'hist'", "'a'", "id 0", "padding")
    yield "hash onto padding", _refused(lambda p: export(p, encoders={"hist": [e.hash_xxh64(9)]}), "'hist'", "0", "padding")
    yield "LabelEncoder wider than the model", _refused(
        lambda p: export(p, encoders={"size": preprocessing.LabelEncoder().fit(range(9))}), "'size'", "vocab_size")
    yield from _raw_checks(model, export)


def _raw_checks(model, export):
    """raw= beside rows."""
    scaler = preprocessing.StandardScaler().fit([[1.0], [5.0], [7.5]])
    index = model.feature_index
    rows = np.zeros((3, max(end for _, end in index.values())), np.float32)
    rows[:, index["seen_len"][0]] = 1
    cells = ["2.5", "-1", "7.50"]
    rows[:, index["price"][0]] = scaler.transform([[float(c)] for c in cells])[:, 0]
    keywords = {"rows": rows, "encoders": {"price": scaler}}
    yield "raw= of the given rows", _written(
        lambda p: export(p, raw={"price": cells}, **keywords),
        lambda b: "" if b.golden["raw"] == {"price": [[c] for c in cells]} and b.golden["n"] == 3 else f"{b.golden['raw']}")
    yield "raw= of other rows", _refused(lambda p: export(p, raw={"price": cells[::-1]}, **keywords), "'price'", "row 0", "'7.50'")
    yield "raw= without a feature's cells", _refused(lambda p: export(p, raw={}, **keywords), "raw", "'price'")
    yield "raw= of another length", _refused(lambda p: export(p, raw={"price": cells[:2]}, **keywords), "'price'", "2 cells")
    yield "raw= of text that is no number", _refused(lambda p: export(p, raw={"price": ["2.5", "many", "7.5"]}, **keywords), "'price'", "many")


def _error(function, *arguments):
    try:
        function(*arguments)
    except BundleError as error:
        return str(error)
    return ""


def _fuxictr_checks():
    _, model, fmap, _ = cases.fx("DeepFM", None, hidden_units=[8])(5)
    name = next(n for n, s in fmap.features.items() if s["type"] == "sequence")

    def export(path, **keywords):
        return from_fuxictr(model, fmap, path, **keywords)

    yield "name= and metrics=", _written(lambda p: export(p, name="ours", metrics=METRICS), _labels)
    yield "features= of one feature", _written(
        lambda p: export(p, features={"user": {"missing": "pad"}}),
        lambda b: "" if {f["name"]: f.get("missing") for f in b.features}["user"] == "pad" else "not taken over")
    yield "features= of an empty bag", _refused(lambda p: export(p, features={name: {"missing": "default"}}), name, "missing")
    yield "features= of another key", _refused(lambda p: export(p, features={name: {"max_len": 3}}), name, "max_len")
    yield "encoder that hides a value behind padding", _refused(
        lambda p: export(p, encoders={name: [e.vocab_string(["a", "b"], first_id=0)]}), name, "'a'", "padding")


def run_all():
    """(name, problem)"""
    for library, checks in (("DeepCTR", _deepctr_checks()), ("FuxiCTR", _fuxictr_checks())):
        for name, problem in checks:
            yield f"{library} {name}", problem
