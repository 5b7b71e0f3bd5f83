"""New versions under load: every request is answered, by one version whole, and the answer names it."""

import json
import os
import threading

import client
import model
import pytest

CLIENTS = 4
VERSIONS = 12
STEP = 65536.0  # what version n is worth besides, times n: exact beside all that a row is worth
ROWS = [{"uid": 7, "tag": "red"}, {"uid": 1000}, {"day": 1, "price": 2}]
WORTH = [model.UID[7] + model.TAG["red"], model.UID[1000], model.DAY[1] + 2 * model.PRICE]


def put(folder, number, write):
    """As a publisher does: whole, by rename."""
    write(folder / "part")
    os.rename(folder / "part", folder / f"v{number:04}.h5")


def version(number):
    return lambda path: model.write(path, number * STEP)


@pytest.fixture()
def followed(tmp_path):
    folder = tmp_path / "versions"
    folder.mkdir()
    return folder


@pytest.fixture()
def reloading(followed, tmp_path):
    put(followed, 1, version(1))
    yield from client.started(None, tmp_path / "log", "-follow", str(followed), "-client-seconds", "60", "-scoring-millis", "60000")


def serves(service):
    return json.loads(service.ask("GET", "/health")[2])["version"]


def wait_until_serves(service, number):
    client.eventually(lambda: serves(service) == number, f"version {number} does not come")


def ask(connection, wrong):
    """The version of one answer; appends what is wrong with it."""
    connection.request("POST", "/score", json.dumps({"rows": ROWS}))
    status, headers, text = client.answer_of(connection)
    number = int(headers.get("Model-Version", "0"))
    want = [[w + number * STEP] for w in WORTH]
    if status != 200 or json.loads(text)["scores"] != want:
        wrong.append(f"{status}, version {number}: {text}")
    return number


def test_versions_are_swapped_under_load(reloading, followed):
    wrong, seen, stop = [], set(), threading.Event()

    def run():
        connection = reloading.connect()
        last = 0
        while not stop.is_set() and not wrong:
            try:
                number = ask(connection, wrong)
            except Exception as fault:  # a request that fails in any way is wrong
                wrong.append(repr(fault))
                return
            if number < last:
                wrong.append(f"version {number} after {last}")
            last = number
            seen.add(number)

    threads = [threading.Thread(target=run) for _ in range(CLIENTS)]
    for t in threads:
        t.start()
    for number in range(2, VERSIONS + 1):
        if number % 4 == 0:  # a file that is no bundle in between
            put(followed, 100 + number, lambda path: path.write_bytes(b"no bundle"))
        put(followed, number, version(number))
        wait_until_serves(reloading, number)
    stop.set()
    for t in threads:
        t.join()
    assert wrong == []
    assert len(seen) > VERSIONS // 2, seen


def test_a_service_begins_with_a_bundle_and_follows_from_there(tmp_path, followed):
    model.write(tmp_path / "first.h5", STEP)
    put(followed, 1, version(5))  # the bundle is version 1: this is not above it
    for service in client.started(tmp_path / "first.h5", tmp_path / "log", "-follow", str(followed)):
        wrong = []
        assert serves(service) == 1 and ask(service.connect(), wrong) == 1 and wrong == []
        put(followed, 2, version(2))
        wait_until_serves(service, 2)
        assert ask(service.connect(), wrong) == 2 and wrong == []
