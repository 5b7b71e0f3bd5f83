"""A version that does not come to serve is told three times: in standard error, under /health and under /metrics; so is each that does."""

import json
import os
import struct

import client
import model
import numpy as np
import pytest
import xxhash
from metrics_test import families, value
from reload_test import followed, put, version, wait_until_serves  # noqa: F401  (a fixture)

import dpi_export

CODES = {"INVALID_ARGUMENT", "NOT_FOUND", "IO", "BAD_MODEL", "UNSUPPORTED", "OUT_OF_MEMORY", "DEVICE", "NO_DEVICE", "TIMEOUT", "CANCELLED", "QUEUE_FULL", "CLOSED",
         "FORKED", "VERSION", "INTERNAL"}


@pytest.fixture()
def following(followed, tmp_path):  # noqa: F811
    put(followed, 1, version(1))
    yield from client.started(None, tmp_path / "log", "-follow", str(followed), "-client-seconds", "60", "-scoring-millis", "60000")


def health(service):
    status, _, text = service.ask("GET", "/health")
    answer = json.loads(text)
    assert status == 200 and answer["status"] == "ok", answer
    return answer


def until(service, what, probe):
    return client.eventually(lambda: probe(health(service)), f"/health does not come to {what}")


def digest(path):
    """Of the user block, whose length stands at byte 16 and which has digests of all else."""
    data = path.read_bytes()
    return xxhash.xxh3_64_hexdigest(data[:struct.unpack_from("<Q", data, 16)[0]])


def told(found):
    """(loads, rollbacks, failed loads by error, files that wait) of /metrics."""
    swaps, failed = found["dpi_endpoint_swaps"], found["dpi_endpoint_failed_loads"]
    assert swaps.type == failed.type == "counter"
    by_error = {s.labels["error"]: s.value for s in failed.samples}
    assert set(by_error) == {"DPI_E_" + code for code in CODES}  # those that did not happen too
    return value(swaps, kind="load"), value(swaps, kind="rollback"), {e: n for e, n in by_error.items() if n}, value(found["dpi_endpoint_refused"])


def serves(service, folder, number):
    """What all three say of a version that serves."""
    path = folder / f"v{number:04}.h5"
    service.wait_for(rf"info: endpoint: scoreservice: version {number} serves, from {path}\n")
    answer, found = health(service), families(service)
    assert answer["version"] == number and answer["digest"] == digest(path) and "refused" not in answer
    assert value(found["dpi_model_version"]) == number
    assert value(found["dpi_model_info"], version=str(number), digest=digest(path)) == 1
    assert value(found["dpi_model_since_seconds"]) >= os.stat(path).st_ctime - 1
    return found


def other_features(path):
    b = dpi_export.Builder("other")
    b.numeric("weight", missing="default")
    b.head("worth", b.linear(b.input("weight"), np.float32([[1]]), np.float32([0])), activation="none")
    b.write(path)


def test_a_refused_version_is_told_and_a_good_one_clears_it(following, followed):  # noqa: F811
    found = serves(following, followed, 1)
    assert told(found) == (1, 0, {}, 0)
    build = found["dpi_build_info"].samples[0]
    assert build.value == 1 and build.labels["version"] == health(following)["library"] and build.labels["compiler"]

    put(followed, 2, lambda path: path.write_bytes(b"no bundle"))
    refused = until(following, "a refused version", lambda answer: answer.get("refused"))
    path = followed / "v0002.h5"
    assert refused.pop("reason").startswith(str(path) + ": ") and refused == {"version": 2, "path": str(path), "error": "DPI_E_BAD_MODEL"}
    following.wait_for(rf"warning: endpoint: scoreservice: a load failed: {path}: ")
    assert told(families(following)) == (1, 0, {"DPI_E_BAD_MODEL": 1}, 1)
    assert health(following)["version"] == 1

    put(followed, 3, other_features)
    refused = until(following, "version 3", lambda answer: answer["refused"]["version"] == 3 and answer["refused"])
    assert refused["error"] == "DPI_E_UNSUPPORTED" and "features" in refused["reason"]
    following.wait_for(rf"a load failed: {followed}/v0003.h5: .*features")
    assert told(families(following)) == (1, 0, {"DPI_E_BAD_MODEL": 1, "DPI_E_UNSUPPORTED": 1}, 2)

    put(followed, 4, version(4))
    wait_until_serves(following, 4)
    assert told(serves(following, followed, 4)) == (2, 0, {"DPI_E_BAD_MODEL": 1, "DPI_E_UNSUPPORTED": 1}, 0)


def test_a_delta_that_nothing_leads_to_is_told(following, followed, tmp_path):  # noqa: F811
    model.write(tmp_path / "elsewhere.h5", 7.0)
    model.write(tmp_path / "after.h5", 8.0)
    dpi_export.delta(str(tmp_path / "elsewhere.h5"), str(tmp_path / "after.h5"), str(tmp_path / "part"))
    os.rename(tmp_path / "part", followed / "v0002.delta")
    refused = until(following, "a held back delta", lambda answer: answer.get("refused"))
    assert refused["version"] == 2 and "no file of the folder leads to" in refused["reason"]
    following.wait_for(rf"a delta is held back: {followed}/v0002.delta: ")
    assert told(families(following)) == (1, 0, {}, 1)  # it was not tried
    put(followed, 3, version(3))
    wait_until_serves(following, 3)
    assert told(serves(following, followed, 3)) == (2, 0, {}, 0)


def test_a_folder_that_cannot_be_read_is_told(following, followed, tmp_path):  # noqa: F811
    unreadable = lambda: value(families(following)["dpi_endpoint_folder_unreadable"])  # noqa: E731
    assert unreadable() == 0
    os.rename(followed, tmp_path / "away")
    client.eventually(lambda: unreadable() == 1, "the folder is not missed")
    following.wait_for("warning: endpoint: scoreservice: the followed folder cannot be read: ")
    os.rename(tmp_path / "away", followed)
    client.eventually(lambda: unreadable() == 0, "the folder is not found again")


def test_what_is_refused_before_the_first_version_serves_is_told(followed, tmp_path):  # noqa: F811
    """There is no /health yet: the service waits for a version, and says why it has none."""
    put(followed, 1, lambda path: path.write_bytes(b"no bundle"))
    log = tmp_path / "log"
    waiting = client.Service(None, log, "-follow", str(followed), listens=False)
    try:
        waiting.wait_for(rf"waiting for a version in {followed}\n")
        waiting.wait_for(rf"warning: endpoint: scoreservice: a load failed: {followed}/v0001.h5: ")
        put(followed, 2, version(2))
        waiting.listen()
        serves(waiting, followed, 2)
    finally:
        waiting.end()


def test_a_service_that_waits_for_a_version_stops_at_sigterm(followed, tmp_path):  # noqa: F811
    waiting = client.Service(None, tmp_path / "log", "-follow", str(followed), listens=False)
    try:
        waiting.wait_for(rf"waiting for a version in {followed}\n")
        waiting.terminate()
        assert waiting.process.wait(client.TIMEOUT) == 0
        assert waiting.lines()[-1] == "stopped: no version came to serve"
    finally:
        waiting.end()
