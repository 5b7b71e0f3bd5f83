"""Endpoints over the bundles of tests/capi/make_versions.py: bundle n scores 33 (n + 1) + (a + b) / 1024 for ids a and b."""

import os
import shutil
import subprocess
import sys
import threading

import numpy as np
import pytest
from drawn import ADULT, ROOT

import dpi

TAGS = 16


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    folder = tmp_path_factory.mktemp("versions")
    subprocess.run([sys.executable, "-B", ROOT / "tests/capi/make_versions.py", folder], check=True)
    return folder


@pytest.fixture()
def endpoint():
    with dpi.Env() as env, dpi.Endpoint("python", env=env, device="cpu", max_contexts=2) as e:
        yield e


def tag(scores, ids):
    """Which bundle computed all scores; -1: none did or several."""
    found = np.unique((scores[:, 0].astype(np.float64) - ids.sum(axis=1) / 1024) / 33 - 1)
    return int(found[0]) if len(found) == 1 and found[0] == int(found[0]) else -1


IDS = np.array([[1, 2], [3, 4], [15, 0]])


def test_loads_refuses_and_rolls_back(endpoint, bundles):
    with pytest.raises(dpi.NotFound, match="has no version yet"):
        endpoint.predict(IDS)
    assert endpoint.version == 0
    endpoint.load(bundles / "3.h5")
    assert tag(endpoint.predict(IDS), IDS) == 3
    endpoint.load(bundles / "4.h5", 40)
    assert tag(endpoint.predict(IDS), IDS) == 4 and endpoint.version == 40
    with pytest.raises(dpi.Unsupported, match="feature 1 is 'c', was 'b'"):
        endpoint.load(bundles / "renamed.h5")
    with pytest.raises(dpi.BadModel):
        endpoint.load(bundles / "truncated.h5")
    status = endpoint.status()
    assert (status["version"], status["loads"], status["failed_loads"], status["kept"]["version"]) == (40, 2, 2, 1)
    assert status["last_load"]["code"] == 4 and "truncated" in status["last_load"]["error"]
    with endpoint.acquire() as held:
        endpoint.rollback()
        assert tag(endpoint.predict(IDS), IDS) == 3 and endpoint.version == 1
        assert tag(held.predict(IDS), IDS) == 4 and held.info.version == 40
    with pytest.raises(dpi.NotFound):
        endpoint.rollback()
    with pytest.raises(dpi.NotFound, match="keep_seconds"):
        endpoint.set("keep", 1)
    with pytest.raises(dpi.InvalidArgument):
        endpoint.set("golden", "perhaps")


def test_raw_values_are_read_by_the_current_version():
    with dpi.Env() as env, dpi.Endpoint("raw", env=env) as e, dpi.Model(ADULT) as model:
        e.load(ADULT)
        rows = {"age": [39, 50], "workclass": ["Private", None]}
        assert np.array_equal(e.predict_raw(rows), model.predict_raw(rows))


def test_threads_during_swaps(endpoint, bundles):
    endpoint.set("keep_seconds", 0)
    endpoint.set("warm_up_rows", 1)
    endpoint.load(bundles / "1.h5", 1)
    wrong, asked, stop = [], [], threading.Event()

    def run():
        while not stop.is_set() and not wrong:
            try:
                before = endpoint.version
                found = tag(endpoint.predict(IDS), IDS)
                if found not in {n % TAGS for n in range(before, endpoint.version + 1)}:
                    wrong.append(f"bundle {found} after version {before}")
                asked.append(found)
            except Exception as error:  # noqa: BLE001
                wrong.append(error)

    threads = [threading.Thread(target=run) for _ in range(8)]
    for t in threads:
        t.start()
    for n in range(2, 80):
        endpoint.load(bundles / f"{n % TAGS}.h5", n)
    stop.set()
    for t in threads:
        t.join()
    assert wrong == [] and len(asked) > 50


def test_follows_a_folder(endpoint, bundles, tmp_path):
    endpoint.set("follow_ms", 5)
    endpoint.follow(tmp_path)
    with pytest.raises(dpi.Timeout):
        endpoint.wait(1, timeout=0.05)
    for n, name in enumerate(["1", "truncated", "5"], 1):
        shutil.copy(bundles / f"{name}.h5", tmp_path / "part")
        os.rename(tmp_path / "part", tmp_path / f"v{n:04}.h5")
        if name != "truncated":
            endpoint.wait(n, timeout=30)
    assert endpoint.version == 3 and endpoint.status()["follows"]["folder"] == str(tmp_path)
    endpoint.unfollow()
    assert "follows" not in endpoint.status()


def test_subscribes(endpoint, tmp_path):
    with pytest.raises(dpi.InvalidArgument, match="topic '' is none"):
        endpoint.subscribe("kafka://127.0.0.1:1", tmp_path)
    with pytest.raises(dpi.NotFound, match="no_such_stream"):
        endpoint.subscribe("no_such_stream://127.0.0.1:1/deltas", tmp_path)
    try:
        endpoint.subscribe("kafka://127.0.0.1:1/deltas?group=python", tmp_path)
    except dpi.NotFound as missing:
        pytest.skip(str(missing))
    stream = endpoint.status()["stream"]
    assert (stream["source"], stream["group"], stream["applied"]) == ("kafka://127.0.0.1:1/deltas/0", "python", 0)
    endpoint.unsubscribe()
    assert "stream" not in endpoint.status() and endpoint.status()["follows"]["folder"] == str(tmp_path)


def test_use_after_close(bundles):
    with dpi.Env() as env:
        e = dpi.Endpoint("closes", env=env)
        e.load(bundles / "0.h5")
        e.predict(IDS)
        failures = []

        def run():
            try:
                while True:
                    e.predict(IDS)
            except dpi.Closed:
                pass
            except Exception as error:  # noqa: BLE001
                failures.append(error)

        threads = [threading.Thread(target=run) for _ in range(4)]
        for t in threads:
            t.start()
        e.close()
        e.close()
        for t in threads:
            t.join()
        assert e.closed and not failures
        for call in (lambda: e.predict(IDS), lambda: e.load("x"), e.rollback, lambda: e.version, e.acquire, e.status, e.unfollow,
                     lambda: e.wait(1), lambda: e.follow("x"), lambda: e.set("golden", "on")):
            with pytest.raises(dpi.Closed):
                call()


def test_fork(bundles):
    """The child is refused its parent's endpoint, by name, and makes its own."""
    with dpi.Env() as env, dpi.Endpoint("fork", env=env) as e:
        e.load(bundles / "2.h5")
        told, tell = os.pipe()
        child = os.fork()
        if child == 0:
            said = []
            for call in (lambda: e.load(bundles / "2.h5"), e.rollback, e.acquire, lambda: e.wait(1)):
                try:
                    call()
                    said.append("no error")
                except dpi.Error as error:
                    said.append(type(error).__name__)
            e.close()
            with dpi.Endpoint("fork", env=env) as own:
                own.load(bundles / "2.h5")
                said.append(str(tag(own.predict(IDS), IDS)))
            os.write(tell, " ".join(said).encode())
            os._exit(0)
        os.close(tell)
        with os.fdopen(told) as answer:
            assert answer.read() == "Forked Forked Forked Forked 2"
        assert os.waitpid(child, 0)[1] == 0
        assert tag(e.predict(IDS), IDS) == 2
