"""samples/torch_tables does what its README.md says: the command there, and each of its sentences."""

import re
import subprocess
import sys

import numpy as np
import pytest
from drawn import ROOT

import dpi

torch = pytest.importorskip("torch")
SAMPLE = ROOT / "samples/torch_tables"
sys.path[:0] = [str(ROOT / "weights/python"), str(SAMPLE)]
import dpi_tables  # noqa: E402
import score  # noqa: E402
from dpi_export import Builder  # noqa: E402


class Nested(torch.nn.Module):
    """Tables at two depths, one of them used twice, beside what stays."""

    def __init__(self):
        super().__init__()
        self.user = torch.nn.Embedding(300, 4)
        self.tower = torch.nn.Sequential(torch.nn.Embedding(50, 8), torch.nn.Linear(8, 4))
        self.bag = torch.nn.EmbeddingBag(10, 4, mode="sum")

    def forward(self, user, item, bag):
        return (self.user(user) * self.tower(item)).sum(-1) + (self.tower(item[:, :1])[:, 0] * self.bag(bag)).sum(-1, keepdim=True)


@pytest.fixture
def nested(tmp_path):
    torch.manual_seed(1)
    model, path = Nested(), tmp_path / "nested.h5"
    dpi_tables.export_tables(model, path)
    return model, path


def test_the_command(tmp_path):
    command = re.search(r"```sh\n(.*)\n```", (SAMPLE / "README.md").read_text())[1]
    assert command in (ROOT / "samples/README.md").read_text()
    bundle = tmp_path / "tables.h5"
    command = command.replace("python3", sys.executable).replace("build/release/python:", f"{dpi.__path__[0]}/..:").replace("build/tables.h5", str(bundle))
    run = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=ROOT, env={"PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"})
    assert run.returncode == 0, run.stderr
    tables, kept = map(int, re.search(r"^(\d+) bytes of tables in .*, (\d+) bytes in PyTorch$", run.stdout, re.M).groups())
    assert 400_000 <= tables / 4 <= 402_000 < bundle.stat().st_size and kept == 4 * (4 * 16 * 17 + 57 * 32 + 33)
    hits, late = map(int, re.search(r": (\d+) ids were in the host tier, (\d+) waited", run.stdout).groups())
    assert hits + late == 50 * 64 * 13 and late > 1000
    difference = re.search(r"^rows: the same bits; scores: largest difference (\S+)$", run.stdout, re.M)
    assert float(difference[1]) <= 1e-6


def test_another_row_is_found(tmp_path):
    torch.manual_seed(7)
    full = score.Net().eval()
    dpi_tables.export_tables(full, tmp_path / "t.h5")
    with dpi.Model(tmp_path / "t.h5", device="cpu") as engine, torch.no_grad():
        assert score.same_rows(full, engine)
        full.city.weight[199, 7] = torch.nextafter(full.city.weight[199, 7], torch.tensor(9.0))
        assert not score.same_rows(full, engine)


def test_modules(nested):
    model, path = nested
    generator = np.random.default_rng(2)
    user, item, bag = (torch.from_numpy(generator.integers(n, size=(6, k))) for n, k in ((300, 3), (50, 3), (10, 2)))
    with torch.no_grad():
        want = model(user, item, bag)
    with pytest.raises(IndexError):
        model.user(torch.tensor([300]))
    with dpi.Model(path, device="cpu", options={"store.host_bytes": 9000, "store.resident_bytes": 0}) as engine:
        served = dpi_tables.take_tables(model, engine)
        assert served is model and not dpi_tables.tables_of(model)
        assert sorted(name for name, _ in model.named_parameters()) == ["bag.weight", "tower.1.bias", "tower.1.weight"]
        assert not model.user(user).requires_grad and model.user(user).shape == (6, 3, 4)
        assert (model(user, item, bag) - want).abs().max() <= 1e-6
        assert model.user(user.t()).equal(model.user(user).transpose(0, 1)) and model.user(user[:0]).shape == (0, 3, 4)
        assert model.user(user.int()).equal(model.user(user))
        with pytest.raises(dpi.InvalidArgument):
            model.user(torch.tensor([300]))
        with pytest.raises(dpi.OutOfMemory):
            model.user(torch.arange(300))


def test_ids_are_not_copied(nested, monkeypatch):
    model, path = nested
    with dpi.Model(path, device="cpu") as engine:
        seen = []
        monkeypatch.setattr(engine, "table_lookup", lambda table, keys: seen.append(keys) or np.zeros((len(keys), 4), np.float32))
        ids = torch.arange(20).view(4, 5)
        dpi_tables.TableRows(engine, "user")(ids)
        assert seen[0].ctypes.data == ids.data_ptr() and seen[0].dtype == np.int64


def test_keys_of_64_bits(tmp_path):
    keys, rows = np.array([-2**63, -5, 7, 2**63 - 1]), np.arange(8, dtype=np.float32).reshape(4, 2)
    b = Builder("keyed")
    b.categorical("user", keys="user")
    b.keyed_table("user", keys, rows, default=[9, 9])
    b.head("unused", b.linear(b.relu(b.embed(b.input("user"), "user")), [[1.0, 1.0]]), activation="none")
    b.write(tmp_path / "keyed.h5")
    with dpi.Model(tmp_path / "keyed.h5", device="cpu") as engine:
        got = dpi_tables.TableRows(engine, "user")(torch.tensor([[7, -2**63], [2**63 - 1, 8]]))
        assert got.tolist() == [[[4, 5], [0, 1]], [[6, 7], [9, 9]]]


def test_rows_that_are_scaled_are_refused(tmp_path):
    with pytest.raises(ValueError, match="max_norm"):
        dpi_tables.export_tables(torch.nn.Sequential(torch.nn.Embedding(4, 2, max_norm=1.0)), tmp_path / "t.h5")
