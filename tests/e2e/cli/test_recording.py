"""What endpoints record: read by a second reader (record_files.py) and compared with the requests that they were given."""

import ctypes
import os
import pathlib
import signal
import stat
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from record_files import Completion, Endpoint, ask, draw, flat, made, model, read_file, record, same


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return made(tmp_path_factory)


def wide_request(rows):
    return {"flags": 0, "rows": rows, "item_ids": np.ones(3 * rows, "i8"), "item_offsets": np.arange(3 * rows + 1), "users": 0, "stride": 6,
            "wide": np.zeros((rows, 6), np.float32)}


def test_a_file_holds_the_requests_as_they_were_given(tmp_path, bundle):
    path, asked = record(tmp_path, bundle, 60)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    bundles, requests, end, whole = read_file(path.read_bytes())
    assert end == (60, 0) and whole == path.stat().st_size
    (b,) = bundles
    assert b["version"] == 7 and b["info"]["model"] == "recorded" and b["info"]["backend"] == "cpu"
    assert [f["name"] for f in b["schema"]["features"]] == ["job", "tags", "seen", "age", "vec"]
    assert [f["shared"] for f in b["schema"]["features"]] == [False, False, True, True, False]
    assert b["schema"]["heads"] == ["click", "raw"]
    for recorded, given in zip(requests, asked, strict=True):
        same(recorded, given, given["scores"])
        assert 0 < recorded["took_ns"] < 60e9 and abs(recorded["ended_ms"] / 1e3 - time.time()) < 600


def test_versions_are_named(tmp_path, bundle):
    other = model(tmp_path / "other.h5", seed=5)
    rng = np.random.default_rng(2)
    with Endpoint(share=1, path=tmp_path / "r") as e:
        scores = []
        for number, path in ((1, bundle), (2, other), (3, bundle)):
            e.load(path, number)
            scores += [ask(e, draw(rng)) for _ in range(3)]
    bundles, requests, _, _ = read_file((tmp_path / "r").read_bytes())
    assert [b["version"] for b in bundles] == [1, 2, 3] and bundles[0]["bundle"] == bundles[2]["bundle"] != bundles[1]["bundle"]
    assert bundles[0]["text"] == bundles[1]["text"]
    assert [r["bundle"] for r in requests] == [0] * 3 + [1] * 3 + [2] * 3
    assert all(r["scores"].tobytes() == s.tobytes() for r, s in zip(requests, scores, strict=True))


def test_a_share_is_drawn(tmp_path, bundle):
    rng = np.random.default_rng(3)
    request = draw(rng)
    with Endpoint(share=0.25, bytes_per_second=0, path=tmp_path / "r") as e:
        e.load(bundle)
        for _ in range(4000):
            ask(e, request)
    n = len(read_file((tmp_path / "r").read_bytes())[1])
    assert 850 < n < 1150, n  # 5.5 standard deviations


def test_files_rotate_and_none_is_larger(tmp_path, bundle):
    path, asked = record(tmp_path, bundle, 400, bytes=65536)
    older = pathlib.Path(f"{path}.1")
    assert {p.name for p in tmp_path.iterdir()} == {path.name, older.name}
    assert max(path.stat().st_size, older.stat().st_size) <= 65536 and stat.S_IMODE(older.stat().st_mode) == 0o600
    (_, first, end, _), (_, last, _, _) = read_file(older.read_bytes()), read_file(path.read_bytes())
    assert end is not None and len(first) > 50
    kept = first + last
    for recorded, given in zip(kept, asked[-len(kept):], strict=True):
        same(recorded, given, given["scores"])


def test_bytes_per_second_bound_what_is_written(tmp_path, bundle):
    request = draw(np.random.default_rng(4))
    with Endpoint(share=1, bytes_per_second=20000, path=tmp_path / "r") as e:
        e.load(bundle)
        begin = time.monotonic()
        while time.monotonic() < begin + 1.5:
            ask(e, request)
        took = time.monotonic() - begin
        deadline = time.monotonic() + 30
        while e.status()["recording"]["dropped"]["rate"] == 0 and time.monotonic() < deadline:
            ask(e, request)
        told = e.status()["recording"]
    assert (tmp_path / "r").stat().st_size <= 20000 * (took + 2) + 8192
    assert told["dropped"]["rate"] > 0 and told["recorded"] > 5 and told["dropped"]["full"] == 0


def test_what_cannot_be_recorded_is_said(tmp_path, bundle):
    rows = tmp_path / "rows.csv"
    rows.write_text("a,b\n1,2\n")
    with Endpoint() as e:
        for path, text in ((tmp_path / "no" / "r", "No such file"), (rows, "is no record file"), (tmp_path, "is no record file")):
            with pytest.raises(RuntimeError, match=text):
                e.set("record.path", path)
        for key, value in (("share", "2"), ("share", "nan"), ("share", "x"), ("bytes", "1"), ("bytes_per_second", "-1")):
            with pytest.raises(RuntimeError, match=f"record.{key} of an endpoint is '{value}', expected"):
                e.set("record." + key, value)
        with pytest.raises(RuntimeError, match="known: record.path"):
            e.set("record.paht", "x")
        assert rows.read_text() == "a,b\n1,2\n"
        e.set("record.path", tmp_path / "r")
        with Endpoint("second") as other, pytest.raises(RuntimeError, match="another recorder"):
            other.set("record.path", tmp_path / "r")
        e.set("record.path", "off")
        e.load(bundle)
        ask(e, draw(np.random.default_rng(1)))
        assert e.status()["recording"]["path"] == "" and e.status()["recording"]["recorded"] == 0


CHILD = """
import sys
sys.path[:0] = [{cli!r}, {tests!r}]
import numpy as np
import record_files as t
e = t.Endpoint(share=1, bytes_per_second=0, path={path!r})
e.load({bundle!r})
rng = np.random.default_rng(9)
print("ready", flush=True)
while True:
    t.ask(e, t.draw(rng))
"""


def test_a_killed_writer_leaves_a_whole_file(tmp_path, bundle, dpi):
    path = tmp_path / "r"
    here = pathlib.Path(__file__).parent
    child = subprocess.Popen([sys.executable, "-c", CHILD.format(cli=str(here), tests=str(here), path=str(path), bundle=str(bundle))],
                             stdout=subprocess.PIPE, env=os.environ)
    try:
        assert child.stdout.readline() == b"ready\n"
        deadline = time.monotonic() + 60
        while path.stat().st_size < 100_000 and time.monotonic() < deadline:
            read_file(path.read_bytes())  # readable while it is written
            time.sleep(0.01)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
    _, requests, end, whole = read_file(path.read_bytes())
    assert end is None and len(requests) > 100
    told = dpi("replay", path, bundle, "--device", "cpu", "--json").json()
    assert told["ended"] is False and told["requests"] == len(requests) == told["requests"]
    assert told["whole_bytes"] == whole and told["same_rows"] == told["rows"]
    with Endpoint(share=1, path=path) as e:  # a file that is there is kept
        e.load(bundle)
    assert len(read_file(pathlib.Path(f"{path}.1").read_bytes())[1]) == len(requests)


# ---- who is recorded, and what recording does not disturb

def test_every_way_to_the_endpoint_is_recorded(tmp_path, bundle):
    rng = np.random.default_rng(11)
    with Endpoint(share=1, path=tmp_path / "r") as e:
        e.load(bundle)
        one, two, three = draw(rng, False), draw(rng, False), draw(rng)
        scores = [flat(e, one)[3]]
        held = ctypes.c_void_p()
        e.call("dpi_endpoint_acquire", e.handle, ctypes.byref(held))
        scores.append(flat(e, two, "dpi_predict_flat", held, ())[3])
        scores.append(ask(e, three))
        e.set("record.share", 0)
        ask(e, three)
        with pytest.raises(RuntimeError, match="^1: "):  # a refused call is none to be replayed
            e.set("record.share", 1)
            ask(e, {**three, "item_offsets": three["item_offsets"] + 1})
        e.close()
        flat(e, one, "dpi_predict_flat", held, ())  # a model that outlives its endpoint
        e.lib.dpi_model_free(held)
    _, requests, _, _ = read_file((tmp_path / "r").read_bytes())
    for recorded, given, score in zip(requests, (one, two, three), scores, strict=True):
        same(recorded, given, score)


@pytest.mark.parametrize("delay", [0, 3000])
def test_requests_of_a_batcher_are_recorded(tmp_path, bundle, delay):
    rng = np.random.default_rng(12)
    asked, batcher, options = {}, ctypes.c_void_p(), None
    with Endpoint(share=1, bytes_per_second=0, path=tmp_path / "r") as e:
        e.load(bundle)
        e.lib.dpi_options_create.restype = ctypes.c_void_p
        options = ctypes.c_void_p(e.lib.dpi_options_create())
        e.call("dpi_options_set", options, b"batch.max_delay_us", str(delay).encode())
        e.call("dpi_batcher_create_endpoint", e.handle, options, ctypes.byref(batcher))
        done = 0
        for i in range(200):
            request = draw(rng, False)
            if i % 4 == 3:
                asked[i] = request, flat(e, request, "dpi_batcher_predict_flat", batcher)[3]
                done += 1
            else:
                tail = (None, ctypes.c_uint64(i), ctypes.byref(ctypes.c_uint64()))
                asked[i] = request, flat(e, request, "dpi_batcher_submit_flat", batcher, tail)[3]
            if i % 16 == 15:
                while done < i + 1:
                    c, n = Completion(ctypes.sizeof(Completion)), ctypes.c_size_t()
                    e.call("dpi_batcher_poll", batcher, ctypes.byref(c), ctypes.c_size_t(1), ctypes.c_int64(1_000_000), ctypes.byref(n))
                    assert n.value == 0 or c.status == 0
                    done += n.value
        e.call("dpi_batcher_close", batcher, ctypes.c_uint64(0))
        while done < 200:
            c, n = Completion(ctypes.sizeof(Completion)), ctypes.c_size_t()
            e.call("dpi_batcher_poll", batcher, ctypes.byref(c), ctypes.c_size_t(1), ctypes.c_int64(1_000_000), ctypes.byref(n))
            done += n.value
        e.lib.dpi_batcher_free(batcher)
        e.lib.dpi_options_free(options)
    _, requests, end, _ = read_file((tmp_path / "r").read_bytes())
    assert end == (200, 0)
    left = [(given, scores) for given, scores in asked.values()]
    for r in requests:  # in another order than they were asked
        at = next(i for i, (given, scores) in enumerate(left) if r["item_dense"].tobytes() == given["item_dense"].tobytes())
        same(r, *left.pop(at))
    assert not left


def test_calls_go_on_while_the_path_changes(tmp_path, bundle):
    with Endpoint(share=1, bytes_per_second=0, bytes=65536) as e:
        e.load(bundle)
        stop, failures, scores = threading.Event(), [], {}

        def call(seed):
            request = draw(np.random.default_rng(seed))
            try:
                scores[seed] = ask(e, request)
                while not stop.is_set():
                    assert ask(e, request).tobytes() == scores[seed].tobytes()
            except Exception as fault:
                failures.append(fault)

        threads = [threading.Thread(target=call, args=(seed,)) for seed in range(3)]
        for t in threads:
            t.start()
        for i in range(30):
            e.set("record.path", tmp_path / f"r{i % 4}" if i % 5 else "off")
            time.sleep(0.02)
        stop.set()
        for t in threads:
            t.join()
        assert not failures
        told = e.status()["recording"]
        assert told["recorded"] > 100 and told["code"] == 0
    known = {s.tobytes() for s in scores.values()}
    for path in tmp_path.iterdir():
        _, requests, end, _ = read_file(path.read_bytes())
        assert end is not None and all(r["scores"].tobytes() in known for r in requests)


def test_a_forked_child_leaves_the_file_alone(tmp_path, bundle):
    request = draw(np.random.default_rng(13))
    with Endpoint(share=1, path=tmp_path / "r") as e:
        e.load(bundle)
        ask(e, request)
        child = os.fork()
        if child == 0:
            try:
                ask(e, request)
            except RuntimeError as fault:
                e.close()
                os._exit(0 if str(fault).startswith("13: ") else 2)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        ask(e, request)
    assert read_file((tmp_path / "r").read_bytes())[2] == (2, 0)


def test_files_rotate_while_a_forked_child_lives(tmp_path, bundle):
    rng = np.random.default_rng(16)
    with Endpoint(share=1, bytes=65536, path=tmp_path / "r") as e:
        e.load(bundle)
        ask(e, draw(rng))
        child = os.fork()
        if child == 0:
            time.sleep(60)
            os._exit(0)
        try:
            for _ in range(300):
                ask(e, draw(rng))
            e.set("record.path", "off")
            e.set("record.path", tmp_path / "r")
            ask(e, draw(rng))
            assert e.status()["recording"]["dropped"]["failed"] == 0
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    assert len(read_file((tmp_path / "r").read_bytes())[1]) == 1


def test_a_file_without_requests_takes_no_recordings_place(tmp_path, bundle):
    path, _ = record(tmp_path, bundle, 5)
    for begun in (b"", None):  # left by a full disk; by a start without requests
        if begun is not None:
            path.rename(f"{path}.1")
            path.write_bytes(begun)
        with Endpoint(share=1, path=path):
            pass
        assert len(read_file(pathlib.Path(f"{path}.1").read_bytes())[1]) == 5
    pathlib.Path(f"{path}.1").write_text("somebody's log")
    path.unlink()
    with Endpoint(share=1) as e, pytest.raises(RuntimeError, match="no record file"):
        e.set("record.path", path)


def test_a_limit_begins_with_a_whole_second(tmp_path, bundle):
    request = draw(np.random.default_rng(17))
    with Endpoint(share=1, bytes_per_second=0, path=tmp_path / "r") as e:
        e.load(bundle)
        for _ in range(2000):
            ask(e, request)
        e.set("record.bytes_per_second", 100_000)
        ask(e, request)
        assert e.status()["recording"]["dropped"]["rate"] == 0


def test_a_request_that_fits_no_file_ends_none(tmp_path, bundle):
    rng = np.random.default_rng(18)
    with Endpoint(share=1, bytes_per_second=0, bytes=65536, path=tmp_path / "r") as e:
        e.load(bundle)
        for _ in range(5):
            ask(e, draw(rng))
            ask(e, wide_request(2000))
    assert [p.name for p in tmp_path.iterdir()] == ["r"]
    assert len(read_file((tmp_path / "r").read_bytes())[1]) == 5


def test_the_metrics_have_what_the_status_has(tmp_path, bundle):
    with Endpoint(share=1, bytes_per_second=0, bytes=65536) as e:
        e.load(bundle)
        page = ctypes.create_string_buffer(1 << 18)
        e.lib.dpi_metrics.restype = ctypes.c_size_t

        def metrics():
            assert 0 < e.lib.dpi_metrics(None, ctypes.c_int32(0), page, ctypes.c_size_t(len(page))) <= len(page)
            return dict(line.rsplit(" ", 1) for line in page.value.decode().splitlines() if not line.startswith("#"))

        assert "recording" not in e.status() and not any(key.startswith("dpi_record") for key in metrics())
        e.set("record.path", tmp_path / "r")
        for _ in range(5):
            ask(e, draw(np.random.default_rng(14)))
        ask(e, wide_request(2000))  # no file of this size holds it
        deadline = time.monotonic() + 30
        while e.status()["recording"]["recorded"] < 5 or not e.status()["recording"]["dropped"]["large"]:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        told, page_now = e.status()["recording"], metrics()
        assert told["recorded"] == 5 and told["dropped"] == {"full": 0, "rate": 0, "large": 1, "failed": 0} and told["path"] == str(tmp_path / "r")
        assert float(page_now['dpi_recorded_requests_total{endpoint="recorded"}']) == 5
        assert float(page_now['dpi_recorded_bytes_total{endpoint="recorded"}']) == told["bytes"]
        for cause, n in told["dropped"].items():
            assert float(page_now[f'dpi_record_dropped_total{{endpoint="recorded",cause="{cause}"}}']) == n


def test_a_folder_that_goes_away_is_told_and_recording_recovers(tmp_path, bundle):
    folder = tmp_path / "folder"
    folder.mkdir()
    request = draw(np.random.default_rng(15))
    with Endpoint(share=1, bytes_per_second=0, bytes=65536, path=folder / "r") as e:
        e.load(bundle)

        def until(there):
            deadline = time.monotonic() + 60
            while not there(e.status()["recording"]):
                assert time.monotonic() < deadline, e.status()["recording"]
                ask(e, request)

        until(lambda told: told["recorded"] > 0)
        folder.rename(tmp_path / "gone")
        until(lambda told: told["dropped"]["failed"] > 0)
        told = e.status()["recording"]
        assert told["code"] == 3 and str(folder / "r") in told["error"]
        folder.mkdir()
        before = told["recorded"]
        until(lambda told: told["recorded"] > before and told["code"] == 0)
    assert read_file((folder / "r").read_bytes())[2] is not None
    left = [read_file(p.read_bytes())[2] for p in (tmp_path / "gone").iterdir()]  # r, or r.1 when the folder went between the two
    assert left and all(end is not None for end in left)
