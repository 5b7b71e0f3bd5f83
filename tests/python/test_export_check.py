"""check="engine": the exporter lets the engine that will serve a bundle score its golden rows, and fails with numbers."""

import json
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest
from drawn import ADULT, GOLDEN, ROOT

import dpi

sys.path.append(str(ROOT / "weights/python"))
import dpi_export  # noqa: E402
from dpi_export.bundle.engine_check import check_engine, compare_engine  # noqa: E402
from dpi_export.bundle.raw_golden import encode_column  # noqa: E402
from dpi_export.bundle.repack import repack  # noqa: E402


def small(tolerance=None, **golden):
    rng = np.random.default_rng(5)
    b = dpi_export.Builder("small")
    b.categorical("user", 30, space="shared")
    b.sequence("items", 20, max_len=4, missing="pad")
    b.numeric("age")
    b.table("u", rng.normal(size=(30, 4)))
    b.table("i", rng.normal(size=(20, 4)))
    x = b.concat([b.embed(b.input("user"), "u"), b.embed(b.input("items"), "i", "mean"), b.input("age")])
    logit = b.linear(b.relu(b.linear(x, rng.normal(size=(16, 9)), rng.normal(size=16))), rng.normal(size=(1, 16)))
    b.head("ctr", b.sigmoid(logit), logit=logit)
    columns = {"user": [7, 3], "items": [[int(i) for i in rng.integers(20, size=n)] for n in (4, 0, 2, 3, 1)], "age": rng.normal(size=5)}
    b.golden(dpi_export.Rows.from_columns(b, columns, shared_counts=[2, 3]), tolerance=tolerance, **golden)
    return b


def test_a_bundle_that_the_engine_computes(tmp_path):
    small().write(tmp_path / "a.h5", check="engine")
    report = compare_engine(tmp_path / "a.h5")
    assert report["rows"] == 5 and not report["failures"] and report["engine"] == f"{dpi.version()} on cpu"
    assert 0 <= report["heads"]["ctr"]["value"] <= 1e-6 and 0 < report["heads"]["ctr"]["logit"] <= 1e-5
    repack(tmp_path / "a.h5", tmp_path / "b.h5", check="engine")
    assert not compare_engine(tmp_path / "b.h5")["failures"]


def test_ids_that_are_keys(tmp_path):
    b = dpi_export.Builder("keys")
    b.categorical("user", keys="user", encoder=[dpi_export.encoders.to_id()])
    b.keyed_table("user", [-2**63, 12], np.array([[1.0], [2.0]]), default=[100])
    b.head("z", b.embed(b.input("user"), "user"), activation="none")
    b.write(tmp_path / "keys.h5")
    with dpi.Model(tmp_path / "keys.h5") as model:
        assert model.features[0].vocab_size == 0 and model.features[0].slot == 0
        assert model.predict([12, 7, -2**63], rows=3).tolist() == [[2], [100], [1]]
        assert model.predict_raw({"user": [12, "7", -2**63]}).tolist() == [[2], [100], [1]]
        assert model.counters()["features"][0]["absent"] == 2
    told = subprocess.run([sys.executable, "-m", "dpi", tmp_path / "keys.h5"], capture_output=True, text=True,
                          env={"PYTHONPATH": str(pathlib.Path(dpi.__file__).parents[1])})
    assert told.returncode == 0 and "categorical  keys " in told.stdout, told


@pytest.mark.parametrize("bundle", [*GOLDEN, ADULT], ids=lambda p: p.stem)
def test_every_golden_bundle(bundle):
    check_engine(bundle)


def test_scores_that_differ_fail_with_numbers(tmp_path, monkeypatch):
    """The engine adds in float32, which a tolerance of half a step of float32 does not bear; the exporter's own float64 does."""
    small(tolerance=6e-8).write(tmp_path / "numpy.h5", check="numpy")
    with pytest.raises(dpi_export.BundleError, match=r"the engine \(1\.2\.0 on cpu\) does not compute .*head 'ctr' logit: \d of 5 golden rows "
                       r"differ, first row \d: the engine computed -?\d+\.\d+, golden -?\d+\.\d+, tolerance 6e-08"):
        small(tolerance=6e-8).write(tmp_path / "engine.h5", check="engine")
    assert [p.name for p in tmp_path.iterdir()] == ["numpy.h5"]
    real = dpi.Model.predict
    monkeypatch.setattr(dpi.Model, "predict", lambda self, *a, **k: tuple(x * np.nan for x in real(self, *a, **k)))
    with pytest.raises(dpi_export.BundleError, match="5 of 5 golden rows differ, first row 0: the engine computed nan"):
        small().write(tmp_path / "engine.h5", check="engine")


def with_raw_cells():
    b = dpi_export.Builder("raw")
    b.categorical("job", 4, out_of_range="oov", oov_id=3, encoder=[dpi_export.encoders.vocab_string(["clerk", "cook"])])
    b.numeric("age", encoder=[dpi_export.encoders.to_float(), dpi_export.encoders.standard(40, 10)])
    b.table("t", np.arange(8.0).reshape(4, 2) / 8)
    logit = b.linear(b.concat([b.embed(b.input("job"), "t"), b.input("age")]), [[1.0, -0.5, 0.25]])
    b.head("ctr", b.sigmoid(logit), logit=logit)
    cells = {"job": ["clerk", "cook", "king"], "age": ["39", "50.5", "12"]}
    columns = {f["name"]: encode_column(f, cells[f["name"]]) for f in b.features}
    b.golden(dpi_export.Rows.from_columns(b, columns), raw=cells)
    return b


def test_raw_cells_that_differ_fail_with_numbers(tmp_path, monkeypatch):
    bundle = tmp_path / "raw.h5"
    with_raw_cells().write(bundle, check="engine")
    assert compare_engine(bundle)["raw_rows"] == 3
    real = dpi.Model.predict_raw
    monkeypatch.setattr(dpi.Model, "predict_raw", lambda self, *a, **k: real(self, *a, **k) + np.float32(0.1))
    with pytest.raises(dpi_export.BundleError, match="from raw cells: .* rows differ, first row"):
        check_engine(bundle)


def test_nothing_to_hold_it_to_and_a_bundle_that_is_refused(tmp_path):
    b = small()
    b._golden = None
    with pytest.raises(dpi_export.BundleError, match="no golden rows"):
        b.write(tmp_path / "a.h5", check="engine")
    with pytest.raises(dpi_export.BundleError, match="the engine .* refuses .*DPI_E_OUT_OF_MEMORY"):
        compare_engine(ADULT, memory_limit=1000)


def test_from_torch(tmp_path):
    torch = pytest.importorskip("torch")

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.nn.Embedding(20, 4)
            self.out = torch.nn.Linear(5, 1)

        def forward(self, x):
            return torch.sigmoid(self.out(torch.cat([self.table(x["id"].long()), x["age"].unsqueeze(1)], dim=1)))

    torch.manual_seed(1)
    example = {"id": torch.randint(20, (8,)), "age": torch.randn(8)}
    features = {"id": {"kind": "categorical", "vocab_size": 20}, "age": {"kind": "numeric"}}
    dpi_export.from_torch(Net(), tmp_path / "t.h5", features=features, example=example, check="engine")
    with pytest.raises(dpi_export.BundleError, match="check is 'engines'"):
        dpi_export.from_torch(Net(), tmp_path / "u.h5", features=features, example=example, check="engines")


def test_the_command(tmp_path):
    command = [sys.executable, "-m", "dpi_export", "verify", ADULT, "--engine"]
    environment = {"PYTHONPATH": f"{ROOT / 'weights/python'}:{sys.modules['dpi'].__path__[0]}/..", "PATH": "/usr/bin"}
    run = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert run.returncode == 0 and f"golden rows with the engine {dpi.version()} on cpu" in run.stdout, run
    run = subprocess.run([*command, "--json"], capture_output=True, text=True, env=environment)
    assert json.loads(run.stdout)["engine"]["failures"] == [], run
    broken = tmp_path / "broken.h5"
    shutil.copy(ADULT, broken)
    with open(broken, "r+b") as file:
        file.seek(broken.stat().st_size * 4 // 5)
        byte = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte[0] ^ 1]))
    assert subprocess.run([*command[:4], broken, "--engine"], capture_output=True, env=environment).returncode == 1
