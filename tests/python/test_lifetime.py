"""Closing, forking, threads, and memory that does not grow."""

import collections.abc
import gc
import os
import pickle
import signal
import threading
import time
import warnings

import numpy as np
import pytest
from drawn import ADULT, MSWEB, arguments, bits

import dpi


def test_use_after_close():
    model = dpi.Model(ADULT)
    a, rows = arguments(model, 2, 1, "plain"), model.rows().begin()
    assert not model.closed
    model.close()
    model.close()
    assert model.closed and "closed" in repr(model) and model.info.features == len(model.features) == 14
    for call in (lambda: model.predict(**a), lambda: model.predict_raw({}), model.counters, model.schema, model.report, model.rows,
                 lambda: model.warm_up(1), rows.predict):
        with pytest.raises(dpi.Closed):
            call()
    rows.close()
    rows.close()
    for call in (rows.begin, rows.predict, rows.clear, lambda: rows.set("age", 1), lambda: rows.extend({})):
        with pytest.raises(dpi.Closed):
            call()
    assert len(rows) == 0
    with pytest.raises(TypeError, match="process"):
        pickle.dumps(model)


def test_close_while_predicting():
    for turn in range(20):
        model = dpi.Model(ADULT)
        a = arguments(model, 64, 1, "plain")
        want, failures = model.predict(**a), []

        def run():
            try:
                while True:
                    if not np.array_equal(model.predict(**a), want):
                        failures.append("other scores")
            except dpi.Closed:
                pass
            except Exception as error:  # noqa: BLE001
                failures.append(error)

        threads = [threading.Thread(target=run) for _ in range(6)]
        for t in threads:
            t.start()
        time.sleep(turn * 1e-4)
        closers = [threading.Thread(target=model.close) for _ in range(2)]
        for t in closers:
            t.start()
        for t in threads + closers:
            t.join()
        assert not failures


def test_one_rows_from_many_threads():
    """Calls run one after another: the rows that are there afterwards are as many as were begun."""
    with dpi.Model(MSWEB) as model, model.rows() as rows:
        rows.begin().set("visits", 2)

        def run():
            for _ in range(50):
                rows.extend({"visits": [1, 2], "area": ["1034", "1026"], "history": [["1038"], []]})
                rows.predict()

        threads = [threading.Thread(target=run) for _ in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert len(rows) == 1 + 8 * 50 * 2 == len(rows.predict())


def test_fork():
    """The child is refused its parent's model, by name, and loads its own."""
    with dpi.Model(ADULT) as model:
        a, rows = arguments(model, 2, 1, "plain"), model.rows().begin()
        want = model.predict(**a)
        told, tell = os.pipe()
        child = os.fork()
        if child == 0:
            said = []
            for call in (lambda: model.predict(**a), lambda: model.predict_raw({"age": [1]}), rows.predict, model.counters,
                         lambda: model.warm_up(1)):
                try:
                    call()
                    said.append("no error")
                except dpi.Error as error:
                    said.append(type(error).__name__)
            model.close()
            with dpi.Model(ADULT) as own:
                said.append(str(np.array_equal(own.predict(**a), want)))
            os.write(tell, " ".join(said).encode())
            os._exit(0)
        os.close(tell)
        with os.fdopen(told) as answer:
            assert answer.read() == "Forked Forked Forked Forked Forked True"
        assert os.waitpid(child, 0)[1] == 0
        assert np.array_equal(bits(model.predict(**a)), bits(want))
        rows.close()


def test_fork_while_another_thread_has_rows_and_environment():
    """That thread is not in the child, which is refused all the same and does not wait for it (without new locks it would for ever)."""
    with dpi.Model(ADULT) as model, model.rows() as rows, dpi.Env() as env:
        rows.begin()
        inside, leave = threading.Event(), threading.Event()

        def hold():
            with rows._use, env._use:
                inside.set()
                leave.wait()

        holder = threading.Thread(target=hold)
        holder.start()
        inside.wait()
        child = os.fork()
        if child == 0:
            signal.alarm(30)
            try:
                rows.predict()
            except dpi.Forked:
                env.set_log("off")
                rows.close()
                env.close()
                os._exit(7)
            os._exit(1)
        leave.set()
        holder.join()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert len(rows.predict()) == 1


class Closer(collections.abc.Sequence):
    """A list, weights and a text whose own code closes what reads them."""

    def __init__(self, close):
        self.close = close

    def __len__(self):
        return 3

    def __getitem__(self, i):
        self.close()
        return "1038"

    def __array__(self, dtype=None, copy=None):
        self.close()
        return np.ones(1, np.float32)

    def __str__(self):
        self.close()
        return "1"


def test_a_value_cannot_close_what_it_is_set_in():
    """Planted fault: without the count of uses each of these reads freed memory."""
    with dpi.Model(MSWEB) as model, model.rows() as rows, dpi.Env() as env:
        rows.begin()
        for call in (lambda: rows.set("history", Closer(rows.close)), lambda: rows.set_ids("history", [1], Closer(rows.close)),
                     lambda: rows.add_integers("history", [1], Closer(rows.close)),
                     lambda: rows.extend({"history": [Closer(rows.close)]}),
                     lambda: rows.extend({"history": (Closer(rows.close), [0, 3])}),
                     lambda: env.set("threads", Closer(env.close))):
            with pytest.raises(dpi.InvalidArgument, match="cannot be closed by code that runs inside"):
                call()
        env.set("threads", 1)
        assert len(rows.clear().begin().set("visits", 2).predict()) == 1


def test_a_model_that_is_left_is_named_and_freed():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = dpi.Model(ADULT)
        del model
        gc.collect()
    assert any(issubclass(w.category, ResourceWarning) and "was not closed" in str(w.message) for w in caught)


def resident_kib():
    with open("/proc/self/status") as file:
        return int(next(line for line in file if line.startswith("VmRSS:")).split()[1])


def settled():
    for _ in range(3):
        gc.collect()
    return resident_kib()


def test_thousand_loads_do_not_grow():
    bundle = ADULT.read_bytes()
    for turn in range(1000):
        with dpi.Model.from_bytes(bundle, max_rows=64, max_nnz=4096, max_contexts=1) as model:
            model.predict(**arguments(model, 2, 1, "plain"))
            model.predict_raw({"age": [39, None], "workclass": ["Private", "x"]})
            for bad in (lambda: model.predict(), lambda: model.predict_raw({"age": [b""]}), lambda: dpi.Model.from_bytes(b"junk")):
                with pytest.raises(dpi.Error):
                    bad()
        if turn == 300:
            base = settled()
    assert settled() <= base * 1.1 + 8192, (base, settled())


def test_predicts_do_not_grow():
    """Every object that a call makes goes: reference counts of what it was given, and the process's memory."""
    import sys
    with dpi.Model(ADULT) as model:
        a, cancel = arguments(model, 64, 1, "plain"), dpi.Cancel()
        texts, odd = ["Private" + "x" * 1000] * 64, [np.float32(2)] * 64
        out = np.empty((64, 1), np.float32)
        watched = [a["ids"], a["dense"], out, texts, texts[0], odd, odd[0], cancel.flag, None]
        model.predict(**a)

        def turn():
            model.predict(**a, out=out, cancel=cancel, timeout=60)
            model.predict(**a, logits=True)
            model.predict(a["ids"].astype(np.int32), a["dense"])
            model.predict_raw({"age": odd, "workclass": texts})
            for bad in (lambda: model.predict(a["ids"], a["dense"], out=a["ids"]), lambda: model.predict(a["ids"]),
                        lambda: model.predict_raw({"age": texts})):
                try:
                    bad()
                    raise AssertionError("no error")
                except dpi.InvalidArgument:
                    pass

        for _ in range(100):
            turn()
        before, base = [sys.getrefcount(w) for w in watched], settled()
        for _ in range(1000):
            turn()
        after = [sys.getrefcount(w) for w in watched]
        assert all(abs(x - y) < 50 for x, y in zip(before, after)), (before, after)
        assert settled() <= base * 1.05 + 4096
