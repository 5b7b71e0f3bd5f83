"""Scores: the same bits as the C program's, by every way in; golden rows as the bundles record them."""

import csv
import json
import subprocess
import threading

import h5py
import numpy as np
import pytest
from drawn import ADULT, BANK, BIN, CAN, GOLDEN, MSWEB, OPERATORS, ROOT, anywhere, arguments, bits, reference

import dpi

CSV = {ADULT: "adult_test.csv", BANK: "bank_test.csv", MSWEB: "msweb_test.csv", CAN: "msweb_test.csv"}


@pytest.mark.parametrize("bundle", [*GOLDEN, ADULT, BANK, MSWEB, CAN, *OPERATORS], ids=lambda p: p.stem)
def test_same_bits_as_c(bundle):
    with dpi.Model(bundle, nonfinite="return") as model:
        modes = ["plain", "bags"] + (["shared"] if model.info.shared_slots + model.info.shared_dense_dim else [])
        for n, mode in enumerate(modes):
            for rows in (1, 33):
                seed = 100 * n + rows
                got = model.predict(**arguments(model, rows, seed, mode))
                assert got.dtype == np.float32 and got.shape == (rows, model.info.heads)
                assert np.array_equal(bits(got), reference(bundle, rows, seed, mode)), mode
                late = model.predict(**arguments(model, rows, seed, mode), timeout=60)  # handed over another way
                assert np.array_equal(bits(late), bits(got)), mode
                if bundle not in OPERATORS:
                    assert not np.isnan(got).any()


def test_the_bundles_have_what_is_compared():
    kinds = {"sequence": 0, "shared": 0, "weighted": 0}
    for bundle in [*GOLDEN, MSWEB, *OPERATORS]:
        with dpi.Model(bundle) as model:
            kinds["sequence"] += any(f.kind == "sequence" for f in model.features)
            kinds["shared"] += model.info.shared_slots > 0
            kinds["weighted"] += any(f.weighted for f in model.features)
    assert all(kinds.values()), kinds


@pytest.mark.parametrize("bundle", [*GOLDEN, ADULT, BANK, MSWEB, CAN], ids=lambda p: p.stem)
def test_golden_rows_of_the_file(bundle):
    """What the training library got, read by h5py and not by anything of this project."""
    with h5py.File(bundle) as file, dpi.Model(bundle) as model:
        g = {name: data[()] for name, data in file["golden"].items()}
        manifest = json.loads(file["manifest"][()].tobytes())
        shared = None
        if "shared_offsets" in g:
            shared = dpi.Shared(g["shared_offsets"], *(g.get("shared_" + k) for k in ("ids", "dense", "bag_offsets", "weights")))
        value, logit = model.predict(g.get("ids"), g.get("dense"), offsets=g.get("offsets"), weights=g.get("weights"), shared=shared,
                                     rows=len(g["value"]), logits=True)
        tolerance = g.get("value_tolerance", np.float64(manifest["golden"].get("tolerance", 1e-5)))
        error = np.abs(value.astype(float) - g["value"]) / np.maximum(1, np.abs(g["value"].astype(float)))
        assert value.shape == g["value"].shape and (error <= tolerance).all()
        if "logit" in g:
            known = ~np.isnan(g["logit"])
            error = np.abs(logit.astype(float) - g["logit"]) / np.maximum(1, np.abs(g["logit"].astype(float)))
            assert (error[known] <= np.broadcast_to(g.get("logit_tolerance", tolerance), error.shape)[known]).all()
            assert np.array_equal(known, ~np.isnan(logit))


def columns_of(model, path, limit):
    """{feature: cells} of a demo file: text, and for sequences lists that were split at |."""
    with open(path, newline="") as file:
        rows = [row for _, row in zip(range(limit), csv.DictReader(file))]
    cut = {f.name: f.kind == "sequence" for f in model.features}
    return {n: [r[n].split("|") if cut[n] else r[n] for r in rows] for n in cut if n in rows[0]}


@pytest.mark.parametrize("bundle", CSV, ids=lambda p: p.stem)
def test_raw_rows_as_score_csv(bundle):
    table = ROOT / "weights/demo" / CSV[bundle]
    out = subprocess.run([BIN / "score_csv", bundle, table], capture_output=True, text=True, check=True)
    want = np.array(out.stdout.split()[:2000], np.float32)
    with dpi.Model(bundle) as model:
        columns = columns_of(model, table, 2000)
        got = model.predict_raw(columns)
        assert np.array_equal(bits(got[:, 0]), bits(want))
        records = [dict(zip(columns, row)) for row in zip(*columns.values())]
        assert np.array_equal(bits(model.predict_raw(records)), bits(got))
        with model.rows() as rows:
            for record in records[:100]:
                rows.begin().set_all(record)
            assert len(rows) == 100 and np.array_equal(bits(rows.predict()), bits(got[:100]))
            assert len(rows.clear()) == 0


def test_layouts_types_and_strides():
    with dpi.Model(ADULT) as model:
        a = arguments(model, 17, 3, "plain")
        ids, dense = a["ids"], a["dense"]
        want = model.predict(ids, dense)
        wide = np.full((17, dense.shape[1] + 3), np.nan, np.float32)
        wide[:, : dense.shape[1]] = dense
        ways = {
            "slot-major": lambda: model.predict(ids.T.copy(), dense, layout="slot_major"),
            "a stride between rows": lambda: model.predict(ids, wide[:, : dense.shape[1]]),
            "transposed": lambda: model.predict(np.asfortranarray(ids), np.asfortranarray(dense)),
            "other types": lambda: model.predict(ids.astype(np.int32), dense.astype(np.float64)),
            "unsigned": lambda: model.predict(ids.astype(np.uint64), dense),
            "lists": lambda: model.predict(ids.tolist(), dense.tolist()),
            "one dimension": lambda: model.predict(ids.ravel(), dense.ravel()),
            "every other": lambda: model.predict(np.repeat(ids, 2, 0)[::2], np.repeat(dense, 2, 0)[::2]),
            "backwards": lambda: model.predict(ids[::-1].copy()[::-1], dense[::-1].copy()[::-1]),
            "anywhere": lambda: model.predict(anywhere(ids), anywhere(dense)),
            "big-endian": lambda: model.predict(ids.astype(">i8"), dense.astype(">f4")),
            "weights of 1": lambda: model.predict(ids, dense, weights=np.ones(ids.size)),
            "offsets": lambda: model.predict(ids.ravel(), dense, offsets=np.arange(ids.size + 1)),
            "read-only": lambda: model.predict(np.frombuffer(ids.tobytes(), np.int64).reshape(ids.shape), dense),
        }
        for name, way in ways.items():
            assert np.array_equal(bits(way()), bits(want)), name
        assert model.predict(ids[:0], dense[:0]).shape == (0, 1)


def test_out_and_logits():
    with dpi.Model(ADULT) as model:
        a = arguments(model, 9, 3, "plain")
        want, logits = model.predict(**a, logits=True)
        assert np.array_equal(model.predict(**a, logits=False), want)
        np.testing.assert_allclose(want, 1 / (1 + np.exp(-logits.astype(float))), rtol=1e-6)
        guarded, second = np.full((11, 1), np.nan, np.float32), np.full((9, 1), np.nan, np.float32)
        got = model.predict(**a, out=guarded[1:10], logits=second)
        assert got[0].base is guarded and got[1] is second and np.isnan(guarded[[0, 10]]).all()
        assert np.array_equal(guarded[1:10], want) and np.array_equal(second, logits)
        assert np.array_equal(model.predict(**a, out=np.empty(9, np.float32)), want.ravel())
        for bad in (np.empty((8, 1), np.float32), np.empty((1, 9), np.float32), np.empty((3, 3), np.float32), np.empty((9, 1)), np.empty((9, 2), np.float32)[:, :1], want.tolist()):
            with pytest.raises(dpi.InvalidArgument, match="out: expected"):
                model.predict(**a, out=bad)
        want.flags.writeable = False
        with pytest.raises(dpi.InvalidArgument, match="out: expected"):
            model.predict(**a, out=want)


def test_nothing_is_copied():
    """The library writes where out lies and reads where ids lie: memory that nothing else could have reached."""
    with dpi.Model(ADULT) as model:
        a = arguments(model, 5, 3, "plain")
        view = memoryview(bytearray(5 * 4)).cast("f")
        assert np.array_equal(np.asarray(model.predict(**a, out=view)).ravel(), model.predict(**a).ravel())
        assert list(view) == model.predict(**a).ravel().tolist()


def test_from_bytes_and_sixteen_threads():
    with dpi.Model.from_bytes(ADULT.read_bytes(), max_contexts=4, warm_up=32) as model, dpi.Model(ADULT) as other:
        assert model.info.content_digest == other.info.content_digest
        batches = [arguments(model, 1 + n, n, "plain") for n in range(16)]
        wants, failures = [other.predict(**b) for b in batches], []

        def run(n):
            try:
                out = np.empty_like(wants[n])
                for turn in range(100):
                    got = model.predict(**batches[n], out=out if turn % 2 else None)
                    if not np.array_equal(bits(got), bits(wants[n])):
                        failures.append((n, turn))
                    if turn % 25 == 0:
                        model.predict_raw({"age": list(range(20, 20 + n))})
            except Exception as error:  # noqa: BLE001
                failures.append(error)

        threads = [threading.Thread(target=run, args=(n,)) for n in range(16)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not failures
        counters = model.counters()
        assert counters["calls"] >= 1600 and counters["errors"] == {}


def test_the_gil_is_released():
    """A thread of Python's own gets on while a long call runs in another."""
    with dpi.Model(ADULT, device="ref") as model:
        a = arguments(model, 64, 1, "plain")
        big = dict(ids=np.tile(a["ids"], (400, 1)), dense=np.tile(a["dense"], (400, 1)))
        seen, done = [], threading.Event()

        def call():
            model.predict(**big)
            done.set()

        thread = threading.Thread(target=call)
        thread.start()
        while not done.wait(0.001):  # only who holds the GIL comes back from here
            seen.append(1)
        thread.join()
        assert len(seen) >= 5


def test_what_a_model_tells():
    with dpi.Model(MSWEB, device="cpu", max_rows=64, options={"debug.fuse": False}) as model:
        history, area, visits = model.features
        assert (history.name, history.kind, history.max_len, area.vocab_size, visits.has_encoder) == ("history", "sequence", 32, 286, True)
        assert model.heads == ("visits_area",) and model.info.device == "cpu" and model.info.max_rows == 64
        assert model.feature("visits") == visits and [f["name"] for f in model.schema()["features"]] == ["history", "area", "visits"]
        assert model.options()["debug.fuse"] == "off" and model.plan() == model.report()["plan"] and model.plan()
        assert model.info.version == 1 and len(model.counters()["features"]) == 3
        model.warm_up(16)
        assert dpi.version() == dpi.__version__ == dpi.build_info()["version"]
        assert {"ref", "cpu"} <= {d["backend"] for d in dpi.devices()}
        assert "3 features" in repr(model)
