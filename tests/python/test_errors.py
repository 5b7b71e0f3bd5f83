"""Errors: their class, code, row and feature; what is refused leaves no trace in the result."""

import errno
import os
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest
from drawn import ADULT, BIN, MSWEB, arguments

import dpi

EMULATED = BIN.parent / "lib/dpi/backends-1/libdpi_cuda_emu.so"


def test_loads_that_fail(tmp_path):
    with pytest.raises(dpi.NotFound) as caught:
        dpi.Model(tmp_path / "none.h5")
    e = caught.value
    assert (e.code, e.status, e.row, e.feature, e.in_shared) == (2, "DPI_E_NOT_FOUND", -1, -1, False) and "none.h5" in e.message
    assert str(e) == "DPI_E_NOT_FOUND: " + e.message
    junk = tmp_path / "junk.h5"
    junk.write_bytes(b"not a bundle at all")
    damaged = bytearray(ADULT.read_bytes())
    damaged[len(damaged) * 4 // 5] ^= 1  # among the weights: golden rows are read by verify only
    for error, call in ((dpi.BadModel, lambda: dpi.Model(junk)), (dpi.Io, lambda: dpi.Model(tmp_path)),
                        (dpi.BadModel, lambda: dpi.Model.from_bytes(damaged)), (dpi.Error, lambda: dpi.Model.from_bytes(b"")),
                        (dpi.InvalidArgument, lambda: dpi.Model("a\0b"))):
        with pytest.raises(error):
            call()
    with pytest.raises(dpi.Io) as caught:
        dpi.Model(tmp_path / ("a" * 300))
    assert caught.value.native_code == errno.ENAMETOOLONG


@pytest.mark.parametrize("options, error", [
    ({"no_such_option": 1}, dpi.NotFound), ({"threads": "many"}, dpi.InvalidArgument), ({"threads": "1\0"}, dpi.InvalidArgument),
    ({"device": "cuda"}, dpi.NoDevice), ({"precision": "fp16"}, dpi.Unsupported), ({"memory_limit": 1000}, dpi.OutOfMemory),
    ({"require_signature": ["00" * 32]}, dpi.Error)])
def test_options_that_are_refused(options, error):
    if options.get("device") == "cuda" and any(d["backend"] == "cuda" and d["usable"] for d in dpi.devices()):
        pytest.skip("this machine has a device")
    with pytest.raises(error):
        dpi.Model(ADULT, **options)


def test_batches_that_are_refused():
    with dpi.Model(ADULT) as model:
        a = arguments(model, 3, 1, "plain")
        ids, dense = a["ids"], a["dense"]
        out = np.full((3, 1), np.nan, np.float32)
        flat = dict(ids=ids.ravel(), dense=dense)
        cases = [
            dict(ids=ids[:, 1:], dense=dense), dict(dense=dense), dict(ids=ids), dict(ids=ids, dense=dense[1:]), dict(ids=ids.T, dense=dense),
            dict(ids=ids, dense=dense[:, 1:]), dict(ids=ids, dense=dense.T), dict(**flat, offsets=[0, 1]), dict(ids=ids, dense=dense, weights=[1.0]),
            dict(**flat, offsets=np.r_[0, np.arange(2, ids.size + 2)]), dict(**flat, offsets=np.arange(ids.size + 1)[::-1]),
            dict(**flat, offsets=np.r_[np.arange(ids.size), 10**9]), dict(ids=ids, dense=dense, rows=4), dict(ids=ids, dense=dense, rows=2**60),
            dict(ids=ids, dense=dense, layout="diagonal"), dict(ids=ids.astype(float), dense=dense), dict(ids=ids, dense=dense.astype(str)),
            dict(ids=ids.astype(np.uint64) + np.uint64(2**63), dense=dense), dict(ids=ids, dense=dense, weights=np.full(ids.size, 2.0)),
            dict(ids=ids, dense=dense, shared=dpi.Shared([0, 9])), dict(ids=ids, dense=dense, shared=dpi.Shared([])), dict(ids=ids.reshape(3, 2, -1), dense=dense),
            dict(ids=np.array(7), dense=dense), dict(ids=ids, dense=dense, cancel=None, shared=dpi.Shared([[0, 3]], ids=[[1]])), dict(),
        ]
        for case in cases:
            with pytest.raises(dpi.InvalidArgument):
                model.predict(**case, out=out)
            assert np.isnan(out).all(), case
        for bad in (out[:1], out[:, :0], np.full((4, 1), np.nan, np.float32)):
            with pytest.raises(dpi.InvalidArgument, match="out"):
                model.predict(ids, dense, out=bad)


def test_columns_by_name_are_no_arrays():
    """predict takes arrays; what it is given instead is named, and the call that takes it."""
    with dpi.Model(MSWEB) as model:
        names = [f.name for f in model.features]
        with pytest.raises(dpi.NotFound, match=r"no feature 'histroy' \(did you mean 'history'\?\); ids is an array, columns by feature go to predict_raw; its features are 'h"):
            model.predict({"histroy": [[1]]})
        ids = ", ".join(f"'{f.name}'" for f in model.features if f.slot >= 0)
        with pytest.raises(dpi.InvalidArgument) as caught:
            model.predict({names[0]: [1], names[1]: [2]})
        assert caught.value.message == (f"ids: a dict with '{names[0]}', '{names[1]}', expected an array [rows, {model.info.slots}] of int64 for {ids}; columns by "
                                        "feature go to predict_raw")
        with pytest.raises(dpi.InvalidArgument, match=r"^DPI_E_INVALID_ARGUMENT: dense: a dict with .*, expected an array \[rows, 0\] of float32 for no feature; "):
            model.predict(np.zeros((1, model.info.slots), int), {names[0]: [1]})


def test_shapes_are_told_as_they_are():
    with dpi.Model(ADULT) as model:
        slots, columns = model.info.slots, model.info.dense_dim
        ids, dense = np.zeros((3, slots), int), np.zeros((3, columns), np.float32)
        hint = ", one id per row and slot without offsets"
        cases = [(dict(ids=ids[:, 1:], dense=dense), f"ids: [3, {slots - 1}], expected [rows, {slots}]{hint}"),
                 (dict(ids=ids[:, 1:].copy(), dense=dense, rows=3), f"ids: [3, {slots - 1}], expected [3, {slots}]{hint}"),
                 (dict(ids=ids, dense=dense, layout="slot_major"), f"ids: [3, {slots}], expected [{slots}, rows]{hint}"),
                 (dict(dense=dense), f"ids: none, expected [rows, {slots}]{hint}"), (dict(ids=ids), f"dense: none, expected [3, {columns}]"),
                 (dict(ids=ids, dense=dense[:, 1:]), f"dense: [3, {columns - 1}], expected [3, {columns}]"), (dict(ids=np.array(7)), f"ids: [], expected [rows, {slots}]{hint}"),
                 (dict(ids=ids.reshape(3, 1, 1, slots)), f"ids: [3, 1, 1, ...], expected [rows, {slots}]{hint}")]
        for given, says in cases:
            with pytest.raises(dpi.InvalidArgument) as caught:
                model.predict(**given)
            assert caught.value.message == says


def test_row_and_feature():
    with dpi.Model(MSWEB) as model:
        visits = model.feature("visits")  # its rule for ids outside the vocabulary is an error
        a = arguments(model, 5, 1, "plain")
        a["ids"][3, visits.slot] = 7
        with pytest.raises(dpi.InvalidArgument) as caught:
            model.predict(**a)
        e = caught.value
        assert (e.row, e.feature, e.in_shared) == (3, visits.index, False) and isinstance(e, ValueError)
        assert model.counters()["errors"] == {"1": 1}
        again = pickle.loads(pickle.dumps(e))
        assert type(again) is dpi.InvalidArgument and vars(again) == vars(e) and str(again) == str(e)


def test_timeouts_and_cancels():
    with dpi.Model(ADULT, device="ref", max_rows=8) as model:
        a = arguments(model, 40, 1, "plain")
        big = dict(ids=np.tile(a["ids"], (500, 1)), dense=np.tile(a["dense"], (500, 1)))
        want, cancel = model.predict(**big), dpi.Cancel()
        for timeout in (0, -1, 1e-9, 0.0005):
            with pytest.raises(dpi.Timeout):
                model.predict(**big, timeout=timeout)
        for turn in range(3):
            timer = threading.Timer(0.001, cancel.set)
            timer.start()
            with pytest.raises(dpi.Cancelled):
                while True:
                    model.predict(**big, cancel=cancel)
            timer.join()
            assert cancel.is_set()
            with pytest.raises(dpi.Cancelled):
                model.predict_raw({"age": [1]}, cancel=cancel)
            with pytest.raises(dpi.Cancelled):
                dpi.Model(ADULT, cancel=cancel)
            cancel.clear()
        assert np.array_equal(model.predict(**big, cancel=cancel, timeout=float("inf")), want)
        with pytest.raises(dpi.Timeout):
            model.predict_raw({"age": [1]}, timeout=0)


DEVICE_ERROR = """
import sys, numpy as np, dpi
with dpi.Model(sys.argv[1], device="cuda_emu", backend_dir=sys.argv[2]) as m:
    ids, dense = np.zeros((5, m.info.slots), int), np.zeros((5, m.info.dense_dim), np.float32)
    try:
        for _ in range(1000):
            m.predict(ids, dense)
    except dpi.DeviceFailure as e:
        print(e.native_code)
"""


@pytest.mark.skipif(not EMULATED.exists(), reason="the emulated GPU was not built")
def test_device_error():
    run = subprocess.run([sys.executable, "-c", DEVICE_ERROR, ADULT, EMULATED.parent], capture_output=True, text=True,
                         env={**os.environ, "DPI_EMU_FAIL": "sync:40:719", "PYTHONPATH": f"{dpi.__path__[0]}/.."})
    assert run.stdout == "719\n", run.stderr


def test_every_status_has_its_class():
    from dpi import _native, errors
    codes = {value: name for name, value in vars(_native).items() if name.startswith("DPI_E_")}
    assert len(codes) == 15
    for code, name in codes.items():
        e = errors.make(code, message="text")
        assert type(e) is not dpi.Error and e.status == name and getattr(dpi, type(e).__name__) is type(e)
    assert type(errors.make(99)) is dpi.Error


def test_environments_and_their_log():
    list(dpi.default_env.messages())  # of tests before
    with dpi.Env(threads=2, log="debug") as env:
        with dpi.Model(ADULT, env=env, device="cpu", threads=2) as model:
            told = list(env.messages())
            assert any(m.level == "debug" and m.component == "load" and "stage tables took" in m.text for m in told)
            assert any(m.level == "info" and "ready on cpu" in m.text for m in told) and not list(env.messages())
            assert not list(dpi.default_env.messages())
            env.close()
            a = arguments(model, 40, 1, "plain")
            model.predict(np.tile(a["ids"], (100, 1)), np.tile(a["dense"], (100, 1)))
        for call in (lambda: env.set("threads", 1), lambda: dpi.Model(ADULT, env=env)):
            with pytest.raises(dpi.Closed):
                call()
        assert not list(env.messages())
    with dpi.Env() as env:
        for error, call in ((dpi.InvalidArgument, lambda: env.set("threads", -1)), (dpi.NotFound, lambda: env.set("colour", "red")),
                            (dpi.InvalidArgument, lambda: env.set("a\0", "b")), (dpi.InvalidArgument, lambda: env.set_log("loud"))):
            with pytest.raises(error):
                call()
        env.set_log("off")
    dpi.default_env.close()
    with dpi.Model(ADULT, env=dpi.default_env):
        pass
    with pytest.raises(dpi.InvalidArgument):
        dpi.Env(threads=-1)


def test_fallback_and_refused_plugins_are_told_of(tmp_path):
    (tmp_path / "libdpi_cuda.so").write_bytes(b"not a library")
    with dpi.Env(log="info") as env, dpi.Model(ADULT, env=env, backend_dir=tmp_path) as model:
        told = list(env.messages())
        assert any(m.level == "warn" and m.component == "plugin" and "is not used" in m.text for m in told)
        if model.info.device == "cpu":
            assert any(m.level == "info" and m.component == "device" and "runs on cpu" in m.text for m in told)


@pytest.mark.parametrize("bad", [0, 1500])
def test_a_refused_call_on_several_threads_writes_no_row_behind_the_failing_one(bad):
    with dpi.Model(ADULT, device="cpu", threads=4, max_rows=64) as m:
        ids, dense = np.zeros((3000, m.info.slots), np.int64), np.zeros((3000, m.info.dense_dim), np.float32)
        m.predict(ids, dense)
        dense[[bad, 2900], 0] = np.inf
        for _ in range(50):
            out = np.full((3000, m.info.heads), 7, np.float32)
            with pytest.raises(dpi.InvalidArgument) as caught:
                m.predict(ids, dense, out=out)
            assert caught.value.row == bad and (out[bad:] == 7).all()
