"""Batchers: the scores of direct calls from threads and from asyncio, one end for each submitted request, and what is refused."""

import asyncio
import gc
import os
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import pytest
from drawn import ADULT, BANK, CAN, MSWEB, ROOT, arguments, bits

import dpi

WAITING = {"batch.max_delay_us": 1000000}  # a request waits for others for a second, even on an idle machine
MINUTE = 60


@pytest.fixture(scope="module")
def adult():
    with dpi.Model(ADULT, device="cpu", determinism="strict") as model:
        yield model


def in_threads(count, work):
    """Runs it in so many threads and raises what they raise."""
    wrong = []

    def run(number):
        try:
            work(number)
        except Exception as error:  # noqa: BLE001
            wrong.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if wrong:
        raise wrong[0]


def one_row(model, seed=1):
    return arguments(model, 1, seed, "plain")


@pytest.mark.parametrize("bundle, mode", [(ADULT, "plain"), (MSWEB, "bags"), (CAN, "shared")])
def test_the_bits_of_direct_calls(bundle, mode):
    with dpi.Model(bundle, device="cpu", determinism="strict") as model, dpi.Batcher(model, {"batch.max_delay_us": 500, "batch.queue": 16}) as batcher:

        def ask(number):
            for turn in range(6):
                named = arguments(model, 3 + 3 * (turn % 2), 10 * number + turn, mode)
                want = model.predict(**named)
                assert np.array_equal(bits(batcher.predict(**named)), bits(want))
                scores, logits = batcher.predict(**named, logits=True, timeout=MINUTE, cancel=dpi.Cancel())
                assert np.array_equal(bits(scores), bits(want)) and np.array_equal(bits(logits), bits(model.predict(**named, logits=True)[1]))

        in_threads(8, ask)

        async def submits():
            asked = [arguments(model, 3, seed, mode) for seed in range(60)]
            wanted = [model.predict(**named) for named in asked]
            waiting = [batcher.submit(**named) for named in asked]
            for named in asked:  # they were read
                named["ids"][:] = -1
            for want, done in zip(wanted, await asyncio.wait_for(asyncio.gather(*waiting), MINUTE)):
                assert np.array_equal(bits(done.scores), bits(want))
                assert done.version == model.info.version and done.run > 0 and done.queued >= 0

        asyncio.run(submits())
        counts = batcher.status()
        assert counts["submitted"] == counts["completed"] == 60 and counts["chunk_requests"] > counts["chunks"]


def test_arrays_of_other_types_are_converted(adult):
    named = arguments(adult, 4, 5, "plain")
    want = adult.predict(**named)
    lists = {"ids": named["ids"].tolist(), "dense": named["dense"].astype(np.float64)}
    with dpi.Batcher(adult) as batcher:
        out = np.zeros((4, 1), np.float32)
        assert batcher.predict(**lists, out=out) is out and np.array_equal(bits(out), bits(want))

        async def submits():
            later, logits = np.zeros((4, 1), np.float32), np.zeros((4, 1), np.float32)
            done = await batcher.submit(**lists, out=later, logits=logits)
            assert done.scores[0] is later and done.scores[1] is logits and np.array_equal(bits(later), bits(want))

        asyncio.run(submits())
    with dpi.Model(CAN, device="cpu", determinism="strict") as model, dpi.Batcher(model) as batcher:
        named = arguments(model, 6, 5, "shared")
        want = model.predict(**named)
        named["shared"].ids = named["shared"].ids.tolist()
        assert np.array_equal(bits(batcher.predict(**named)), bits(want))


def test_raw_rows(adult):
    with dpi.Batcher(adult) as batcher, adult.rows() as rows:
        rows.begin().set("age", 39)
        want = rows.predict()
        assert np.array_equal(bits(batcher.predict_rows(rows)), bits(want))

        async def submits():
            future = batcher.submit_rows(rows)
            rows.clear().begin().set("age", 80)  # they are free again
            assert np.array_equal(bits((await future).scores), bits(want))

        asyncio.run(submits())
        with dpi.Model(BANK, device="cpu") as other, dpi.Batcher(other) as another, pytest.raises(dpi.InvalidArgument):
            another.predict_rows(rows)


def test_errors_are_the_requests_own(adult):
    with dpi.Model(MSWEB, device="cpu") as model, dpi.Batcher(model) as batcher:
        named = arguments(model, 3, 1, "plain")
        named["ids"][2, model.feature("visits").slot] = 7  # its rule for ids outside the vocabulary is an error
        with pytest.raises(dpi.InvalidArgument) as direct:
            model.predict(**named)
        with pytest.raises(dpi.InvalidArgument) as blocking:
            batcher.predict(**named)
        assert (blocking.value.row, blocking.value.message) == (2, direct.value.message)

        async def submits():
            with pytest.raises(dpi.InvalidArgument) as refused:
                batcher.submit(**named)
            assert refused.value.row == 2
            for wrong in ({"ids": [[1]]}, {"rows": 0}, {"ids": np.zeros((1, 3), np.int64), "dense": None, "out": np.zeros(3, np.float32)}):
                with pytest.raises(dpi.InvalidArgument):
                    batcher.submit(**wrong)
            assert batcher._waiting == {} and batcher._readers == {}

        asyncio.run(submits())
        with pytest.raises(RuntimeError):  # no event loop runs
            batcher.submit(**one_row(model))
    with pytest.raises(dpi.InvalidArgument):
        dpi.Batcher(adult, {"batch.max_rows": 0})
    with pytest.raises(dpi.NotFound):
        dpi.Batcher(adult, {"batch.max_row": 1})


def test_cancellation(adult):
    with dpi.Batcher(adult, WAITING) as batcher:

        async def submits():
            out = np.full((1, 1), np.nan, np.float32)
            future = batcher.submit(**one_row(adult), out=out)
            assert future.cancel() and future.cancelled()
            with pytest.raises(asyncio.CancelledError):
                await future
            task = asyncio.ensure_future(asyncio.wait_for(batcher.submit(**one_row(adult), out=out), 0.02))
            with pytest.raises(asyncio.TimeoutError):
                await task
            assert np.isnan(out).all()
            with pytest.raises(dpi.Timeout):
                await batcher.submit(**one_row(adult), out=out, timeout=0.03)
            flag = dpi.Cancel()
            future = batcher.submit(**one_row(adult), out=out, cancel=flag)
            flag.set()
            del flag  # the future holds it
            with pytest.raises(dpi.Cancelled):
                await future
            assert np.isnan(out).all()
            while batcher._waiting:  # completions of the cancelled ones
                await asyncio.sleep(0.001)

        asyncio.run(submits())
        assert batcher.status()["cancelled"] >= 2 and batcher._readers == {}


def test_arrays_live_until_the_completion(adult):
    """`out` cannot be resized meanwhile, and is freed afterwards."""
    with dpi.Batcher(adult, WAITING) as batcher:

        async def submits():
            out = np.zeros((1, 1), np.float32)
            gone = weakref.ref(out)
            future = batcher.submit(**one_row(adult), out=out)
            with pytest.raises(ValueError):
                out.resize((100000, 1))
            del out
            future.cancel()
            del future
            gc.collect()
            while batcher._waiting:
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.01)
            gc.collect()
            assert gone() is None

        asyncio.run(submits())


@pytest.mark.parametrize("delay", [0, 300, 1000000])
def test_close_over_work(adult, delay):
    """Each submitted request ends once, whatever overlaps."""
    named = arguments(adult, 2, 7, "plain")
    want = adult.predict(**named)
    for turn in range(4):
        batcher = dpi.Batcher(adult, {"batch.max_delay_us": delay})
        ends = []

        async def submits(number, batcher=batcher, ends=ends):
            random = np.random.default_rng(10 * turn + number)
            while True:
                try:
                    futures = [batcher.submit(**named) for _ in range(5)]
                except dpi.QueueFull:
                    await asyncio.sleep(0.001)
                    continue
                except dpi.Closed:
                    return
                for f in futures:
                    if random.integers(3) == 0:
                        f.cancel()
                for done in await asyncio.wait_for(asyncio.gather(*futures, return_exceptions=True), MINUTE):
                    ends.append(done)
                    if isinstance(done, dpi.Completion):
                        assert np.array_equal(bits(done.scores), bits(want))
                    else:
                        assert isinstance(done, (dpi.Cancelled, asyncio.CancelledError)), done

        def work(number, batcher=batcher):
            if number < 2:
                try:
                    while True:
                        assert np.array_equal(bits(batcher.predict(**named)), bits(want))
                except (dpi.Closed, dpi.Cancelled):
                    return
            elif number < 5:
                asyncio.run(submits(number))
            else:
                time.sleep(0.003 * turn)
                batcher.close(0.002 * (turn % 2))

        in_threads(6, work)
        assert batcher.closed and batcher._waiting == {}


def test_use_after_close(adult):
    batcher = dpi.Batcher(adult, WAITING)

    async def submits():
        future = batcher.submit(**one_row(adult))
        batcher.close()
        with pytest.raises(dpi.Cancelled):
            await asyncio.wait_for(future, MINUTE)
        with pytest.raises(dpi.Closed):
            batcher.submit(**one_row(adult))
        other = dpi.Batcher(adult, {"batch.max_delay_us": 20000})
        futures = [other.submit(**one_row(adult)) for _ in range(20)]
        other.close(None)  # all of them finish
        assert len(await asyncio.wait_for(asyncio.gather(*futures), MINUTE)) == 20

    asyncio.run(submits())
    batcher.close()
    with adult.rows() as rows:
        for call in (lambda: batcher.predict(**one_row(adult)), lambda: batcher.predict_rows(rows), batcher.status):
            with pytest.raises(dpi.Closed):
                call()
    lost = dpi.Batcher(adult, WAITING)

    async def leaves():
        lost.submit(**one_row(adult))

    asyncio.run(leaves())  # its loop is closed before the completion
    lost.close()
    assert lost._waiting == {} and lost._readers == {}
    with dpi.Model(ADULT) as closed:
        pass
    with pytest.raises(dpi.Closed):
        dpi.Batcher(closed)


def test_over_an_endpoint(tmp_path):
    subprocess.run([sys.executable, "-B", ROOT / "tests/capi/make_versions.py", tmp_path], check=True)
    with dpi.Env() as env:
        e = dpi.Endpoint("batched", env=env, device="cpu")
        batcher = dpi.Batcher(e)
        with pytest.raises(dpi.NotFound):
            batcher.predict([[1, 2]])
        e.load(tmp_path / "1.h5", 1)
        stop = threading.Event()

        def work(number):
            if number == 0:
                for n in range(2, 30):
                    e.load(tmp_path / f"{n % 16}.h5", n)
                stop.set()
                return

            async def submits():
                while not stop.is_set():
                    done = await asyncio.wait_for(batcher.submit([[number, 2]]), MINUTE)
                    assert done.scores[0, 0] == np.float32(33 * (done.version % 16 + 1) + (number + 2) / 1024)

            asyncio.run(submits())

        in_threads(4, work)
        e.close()  # its memory stays until the batcher goes
        assert batcher.predict([[1, 2]])[0, 0] == np.float32(33 * (29 % 16 + 1) + 3 / 1024)
        batcher.close()
        with pytest.raises(dpi.Closed):
            dpi.Batcher(e)


def test_fork(adult):
    with dpi.Batcher(adult) as batcher:
        told, tell = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                batcher.predict(**one_row(adult))
                said = "no error"
            except dpi.Error as error:
                said = type(error).__name__
            batcher.close()
            os.write(tell, said.encode())
            os._exit(0)
        os.close(tell)
        with os.fdopen(told) as answer:
            assert answer.read() == "Forked"
        assert os.waitpid(child, 0)[1] == 0
        assert batcher.predict(**one_row(adult)).shape == (1, 1)
