"""Who says that encoders encode as training did: an export marks it by feature, warns where nobody does, and verify tells both apart."""

import os
import subprocess
import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pre = pytest.importorskip("sklearn.preprocessing")

import dpi_export  # noqa: E402
from dpi_export import encoders as e  # noqa: E402
from dpi_export.bundle.golden import compare_golden  # noqa: E402
from dpi_export.importers.encoder_checks import held_to  # noqa: E402
from dpi_export.bundle.reader import Bundle  # noqa: E402
from dpi_export.bundle.repack import repack  # noqa: E402

CITIES = ["Oslo", "Riga", "Rome", "Lima"]
RIGHT = {"city": [e.vocab_string(CITIES, first_id=1)], "tags": e.Encoder([e.vocab_int([7, 8, 9], first_id=1)], splitter="|"),
         "price": [e.to_float(), e.standard(10.0, 4.0)]}
#: encoders that are not training's: of each kind of step one slip
WRONG = {"city reversed": {"city": [e.vocab_string(CITIES[::-1], first_id=1)]}, "city off by one": {"city": [e.vocab_string(CITIES, first_id=0)]},
         "tags of another vocabulary": {"tags": e.Encoder([e.vocab_int([7, 9, 8], first_id=1)], splitter="|")},
         "price of another mean": {"price": [e.to_float(), e.standard(15.0, 4.0)]}, "price of another scale": {"price": [e.to_float(), e.minmax(0, 10)]},
         "city by a hash": {"city": [e.hash_xxh64(5)]}, "city by its length": {"city": [e.lower(), e.vocab_string([c.lower() for c in CITIES], ids=[4, 4, 4, 4])]}}
RAW = {"city": ["Rome", "Oslo", "Lima"], "tags": ["7|8", "", "9|9|7"], "price": ["10", "12.5", "3"]}
ROWS = {"city": torch.tensor([3, 1, 4]), "tags": torch.tensor([[1, 2, 0], [0, 0, 0], [3, 3, 1]]), "price": torch.tensor([0.0, 0.625, -1.75])}
RULES = {"city": {"table": "city", "missing": "default", "default_id": 0}, "tags": {"table": "tag", "pad_id": 0}, "price": {"missing": "default"}}


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.city, self.tag, self.out = torch.nn.Embedding(5, 3), torch.nn.Embedding(4, 2, padding_idx=0), torch.nn.Linear(6, 1)

    def forward(self, x):
        bag = self.tag(x["tags"]).sum(1)
        return self.out(torch.cat([self.city(x["city"]), bag, x["price"][:, None]], 1)).squeeze(-1)


def export(path, encoders, **given):
    """The warnings of an export about encoders."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        dpi_export.from_torch(Net().eval(), path, example=ROWS, features=RULES, encoders=encoders, **given)
    return [str(w.message) for w in seen if "encode as training did" in str(w.message)]


def verify(path):
    """What the package's own program says."""
    done = subprocess.run([sys.executable, "-m", "dpi_export", "verify", path], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert done.returncode == 0, done
    return done.stdout


def held(path):
    with Bundle(path) as bundle:
        return bundle.manifest_provenance().get("encoders_held_to"), compare_golden(bundle)


@pytest.mark.parametrize("slip", WRONG)
@pytest.mark.parametrize("given", [{}, {"rows": ROWS}], ids=["alone", "rows"])
def test_encoders_that_nobody_confirms_are_told(tmp_path, slip, given):
    """Right or wrong, nothing here knows: so it is said, with the cure, and no golden cell counts as training's."""
    said = export(tmp_path / "a.h5", {**RIGHT, **WRONG[slip]}, **given)
    assert len(said) == 1 and all(t in said[0] for t in ("city, tags, price", "raw={feature: cells", "rows="))
    marks, report = held(tmp_path / "a.h5")
    assert marks == dict.fromkeys(RIGHT, "exporter") and set(report["raw_own"]) == set(RIGHT) and not report["failures"]
    assert "not compared with training" in verify(tmp_path / "a.h5")


@pytest.mark.parametrize("slip", WRONG)
def test_the_cure_finds_every_slip(tmp_path, slip):
    with pytest.raises(dpi_export.UnsupportedModelError, match=f"'{slip.split()[0]}'.*is encoded as .*, but rows holds|cell|outside|expected"):
        export(tmp_path / "a.h5", {**RIGHT, **WRONG[slip]}, rows=ROWS, raw=RAW)
    assert not list(tmp_path.iterdir())


def test_the_cure_of_right_ones(tmp_path):
    assert export(tmp_path / "a.h5", RIGHT, rows=ROWS, raw=RAW) == []
    marks, report = held(tmp_path / "a.h5")
    assert marks == dict.fromkeys(RIGHT, "rows") and report["raw_own"] == [] and report["raw_rows"] == 3 and not report["failures"]
    assert "not compared" not in verify(tmp_path / "a.h5")


def test_a_library_confirms_its_own_objects_only(tmp_path):
    city = pre.OrdinalEncoder().fit([[c] for c in ["", *CITIES]])
    scaler = pre.StandardScaler().fit(np.array([[6.0], [14.0]]))
    said = export(tmp_path / "a.h5", {**RIGHT, "city": city, "price": scaler})
    assert len(said) == 1 and "the encoders of tags encode" in said[0]
    marks, report = held(tmp_path / "a.h5")
    assert marks == {"city": "library", "tags": "exporter", "price": "library"} and report["raw_own"] == ["tags"]
    said = export(tmp_path / "b.h5", {**RIGHT, "city": city, "price": scaler}, rows=ROWS)
    assert len(said) == 1 and held(tmp_path / "b.h5")[0] == marks


@pytest.mark.parametrize("rows", [None, ROWS])
@pytest.mark.parametrize("raw", [None, RAW])
def test_raw_cells_alone_confirm_nothing(rows, raw):
    """from_fuxictr and from_deepctr_torch take raw= without rows=: the rows are then made from the encoders."""
    library = e.Encoder([e.to_float()])
    library.transform = list
    features = [{"name": "own", "kind": "categorical", "encoder": e.Encoder([e.to_id()])}, {"name": "theirs", "kind": "numeric", "encoder": library},
                {"name": "plain", "kind": "numeric"}, {"name": "vector", "kind": "dense", "encoder": library}]
    both = raw is not None and rows is not None
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        marks = held_to(SimpleNamespace(b=SimpleNamespace(features=features)), rows, raw)
    assert marks == ({"own": "rows", "theirs": "rows"} if both else {"own": "exporter", "theirs": "library"}) and len(seen) == (not both)


def test_no_encoders_no_mark(tmp_path):
    assert export(tmp_path / "a.h5", None, rows=ROWS) == [] and held(tmp_path / "a.h5")[0] is None


def test_the_mark_is_kept_and_not_the_callers_to_set(tmp_path):
    export(tmp_path / "a.h5", RIGHT, provenance={"encoders_held_to": {"city": "rows"}})
    repack(tmp_path / "a.h5", tmp_path / "b.h5")
    assert held(tmp_path / "b.h5")[0] == dict.fromkeys(RIGHT, "exporter")
