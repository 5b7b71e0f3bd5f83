"""The demo of a model that is kept fresh (weights/training/fresh_bank.py): its committed files through the engine, a short run of it, and that
no policy sees rows before they come."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from drawn import BIN, ROOT

import dpi

SCRIPT, DEMO = ROOT / "weights/training/fresh_bank.py", ROOT / "weights/demo/fresh"
sys.path[:0] = [str(ROOT / "weights/training"), str(ROOT / "weights/python")]
SHARED = ROOT.parent / "shared/data/bank"


def run(*arguments, status=0):
    """The command; what it printed as JSON, or its message where it should fail."""
    engine = ["--program", BIN / "dpi", "--package", os.path.dirname(dpi.__path__[0])]
    done = subprocess.run([sys.executable, "-B", SCRIPT, *arguments, *engine, "--json"], capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout) if status == 0 else done.stderr


def test_the_committed_chain():
    """Two periods of deltas: every version is the exporter's bit for bit, and serves the AUC that its trainer computed in float64."""
    found = run("check")
    assert found["engine"]["versions"] == 21 and set(found["engine"]["served_auc_by_period"]) == {"2", "3"}
    assert found["engine"]["calls_meanwhile"] > 20
    assert found["seeds"] == 10 and [p["period"] for p in found["periods"]] == list(range(2, 11))


def test_the_table_of_the_readme_is_what_was_found():
    from fresh import report
    assert report.table(json.loads((DEMO / "result.json").read_text())) in (ROOT / "weights/demo/README.md").read_text()


def _bytes_of_a_delta(folder):
    data = bytearray((folder / "v017.delta").read_bytes())
    data[-200] ^= 1
    (folder / "v017.delta").write_bytes(data)


def _missing_delta(folder):
    (folder / "v017.delta").write_bytes((folder / "v018.delta").read_bytes())


def _entry(number, key, value):
    def plant(folder):
        versions = json.loads((folder / "versions.json").read_text())
        next(v for v in versions if v["number"] == number)[key] = value
        (folder / "versions.json").write_text(json.dumps(versions))
    return plant


def _served(folder):
    found = json.loads((folder / "result.json").read_text())
    found["periods"][1]["policies"]["fed"]["by_seed"][0] += 1e-4
    (folder / "result.json").write_text(json.dumps(found))


@pytest.mark.parametrize("plant, text", [
    (_bytes_of_a_delta, "dpi delta apply"), (_missing_delta, "dpi delta apply"),
    (_entry(19, "sha256", "0" * 64), "version 19: now.h5 is not the exporter's bundle"),
    (_entry(12, "next_mean", 0.05), "version 12: the mean score is"), (_entry(25, "next_auc", 0.6), "version 25: AUC of the next tenth is"),
    (_served, "period 3: AUC of what was served is")])
def test_a_fault_in_the_files_is_found(tmp_path, plant, text):
    folder = tmp_path / "fresh"
    shutil.copytree(DEMO, folder)
    plant(folder)
    assert text in run("check", folder, status=1)


def test_a_short_run(tmp_path):
    """A period: trained, written, applied and served here; scores are the trainer's, equal seeds give equal files."""
    found = run("train", "--out", tmp_path / "a", "--periods", "2", "--seeds", "2")
    assert found["engine"]["versions"] == 11 and 0 < found["engine"]["farthest_score"] <= 1e-6
    only = found["periods"][0]
    assert set(only["policies"]) == {"stale", "fed", "retrained", "both"} and only["positives"] == 169
    assert only["policies"]["stale"]["by_seed"] == only["policies"]["retrained"]["by_seed"] != only["policies"]["fed"]["by_seed"]
    assert 0 < only["differences"]["fed - stale"]["se"] < 0.05 and only["differences"]["both - retrained"]["auc"] != 0
    names = {p.name for p in (tmp_path / "a").iterdir()}
    assert names == {"v010.h5", "v020.h5", *(f"v0{n}.delta" for n in range(11, 21)), "versions.json", "result.json", "auc.svg"}
    run("train", "--out", tmp_path / "b", "--periods", "2", "--seeds", "2", "--no-engine")
    assert all((tmp_path / "a" / n).read_bytes() == (tmp_path / "b" / n).read_bytes() for n in names)


def test_a_caller_that_gets_what_no_version_computes_is_found():
    from fresh import engine
    caller = engine.Caller(lambda cells: np.full(3, min(len(caller.answers), 1)), {})
    caller.knows()
    caller.start()
    while len(caller.answers) < 2:
        caller.join(0.01)
    with pytest.raises(RuntimeError, match="calls got scores that no version computes"):
        caller.end()
    failing = engine.Caller(lambda cells: 1 / 0, {})
    failing.start()
    failing.join()
    with pytest.raises(RuntimeError, match="a call failed while versions changed: division by zero"):
        failing.end()


@pytest.fixture(scope="module")
def rows():
    from fresh import stream
    return stream.read(DEMO / "rows.csv.gz")


@pytest.mark.skipif(not SHARED.exists(), reason="the data set as UCI ships it is not here")
def test_the_committed_rows_are_those_of_the_data_set(rows, tmp_path):
    from fresh import stream
    stream.write(stream.read_uci(SHARED), tmp_path / "rows.csv.gz")
    assert (tmp_path / "rows.csv.gz").read_bytes() == (DEMO / "rows.csv.gz").read_bytes()
    assert len(rows.labels) == 45211 and rows.labels.sum() == 5289


def test_ids_are_those_of_the_encoders_of_their_time(rows):
    """Ids come from the longest vocabulary, cut to what was known: as each version's own encoders would have it."""
    from fresh import features, policies
    data = policies.Data(rows, 3)
    for known in (10, 13, 22):
        part = rows.rows(known, known + 1)
        ids = data.encoded(10, known, part)[1]
        for i, f in enumerate(data.vocabularies[known]):
            assert [f["encoder"].encode_for(f, c) for c in rows.columns[f["name"]][part].tolist()] == ids[:, i].tolist()
    assert features.sizes(data.vocabularies[30]) > features.sizes(data.vocabularies[10])


@pytest.mark.parametrize("tenth", [20, 24])  # the first of a period, and one within
def test_no_policy_sees_a_row_before_it_comes(rows, tenth):
    """Other labels from a tenth on, and other rows behind it, change no score up to its end, and many after that."""
    import torch
    from fresh import policies, stream
    torch.set_num_threads(1)
    begin, cut, end = rows.starts[10], rows.starts[tenth], rows.starts[tenth + 1]
    labels, columns = rows.labels.copy(), {name: c.astype("U20") for name, c in rows.columns.items()}
    labels[cut:] = ~labels[cut:]
    columns["job"][end:], columns["age"][end:] = "astronaut", "77"
    was = policies.run(policies.Data(rows, 3), 0)
    now = policies.run(policies.Data(stream.Stream(columns, labels), 3), 0)
    for policy in policies.POLICIES:
        np.testing.assert_array_equal(was[policy][:end - begin], now[policy][:end - begin], err_msg=policy)
    for policy in ("fed", "both"):
        assert np.abs(was[policy] - now[policy])[end - begin:].max() > 0.1


def test_standard_errors_of_auc_are_those_of_the_bootstrap(rows):
    from fresh import auc
    from sklearn.metrics import roc_auc_score
    rng = np.random.default_rng(7)
    labels = rng.random(1500) < 0.1
    one = np.round(rng.normal(size=1500) + labels, 1)  # with ties
    other = np.round(one + rng.normal(size=1500), 1)
    found = auc.summary(one[None], labels)
    assert abs(found["auc"] - roc_auc_score(labels, one)) < 1e-12
    drawn = []
    for _ in range(400):
        at = rng.integers(0, 1500, 1500)
        drawn.append((roc_auc_score(labels[at], one[at]), roc_auc_score(labels[at], other[at])))
    drawn = np.array(drawn)
    assert 0.85 < found["se"] / drawn[:, 0].std() < 1.15
    gap = auc.difference(one[None], other[None], labels)
    assert 0.85 < gap["se"] / (drawn[:, 0] - drawn[:, 1]).std() < 1.15
    half = [(slice(0, 700), labels[:700]), (slice(700, 1500), labels[700:])]
    assert auc.within([(slice(0, 1500), labels)], one[None])["se"] == pytest.approx(found["se"], abs=1e-15)
    assert auc.within([(slice(0, 1500), labels)], one[None], other[None]) == pytest.approx(gap, abs=1e-15)
    pairs = [y.sum() * (~y).sum() for _, y in half]
    want = sum(n * roc_auc_score(y, one[at]) for n, (at, y) in zip(pairs, half)) / sum(pairs)
    shifted = one + np.repeat([0, 100], [700, 800])
    assert auc.within(half, shifted[None])["auc"] == pytest.approx(want, abs=1e-12) != auc.summary(shifted[None], labels)["auc"]
    seeds = np.stack([one, other])
    assert auc.summary(seeds, labels)["se"] > auc.summary(seeds[:1], labels)["se"]  # seeds that differ widen it
