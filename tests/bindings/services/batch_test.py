"""With -batch on concurrent requests are scored together: each gets its own answer or refusal, word for word that of a service without, and what was
begun at SIGTERM is answered."""

import json
import os
import random
import shlex
import signal
import subprocess
import threading

import client
import pytest

CLIENTS = 16


@pytest.fixture()
def batched(bundle, tmp_path):
    yield from client.started(bundle, tmp_path / "log", "-batch", "on", "-client-seconds", "60", "-scoring-millis", "60000")


def requests():
    """Of one and several rows, with and without a shared part, and with rows that are refused."""
    draw = random.Random(5)

    def row():
        return {"uid": draw.choice([7, 1000, -5, 3]), "tag": draw.choice(["red", "true", "blue"]), "day": draw.randrange(4), "price": draw.randrange(9),
                "history": draw.sample(["a", "b", "7", "c"], draw.randrange(4))}

    found = []
    for n in range(60):
        rows = [row() for _ in range(1 + n % 5)]
        if n % 7 == 3:
            rows[-1]["price"] = "dear"
        found.append({"rows": rows} if n % 2 else {"shared": {"city": draw.choice(["Riga", "Oslo"])}, "rows": rows})
    return found


def test_answers_are_those_of_single_requests(service, batched):
    asked = requests()
    want = [service.score(request) for request in asked]
    assert {status for status, _ in want} == {200, 400}
    wrong = []

    def run(number):
        order = list(range(len(asked)))
        random.Random(number).shuffle(order)
        try:
            connection = batched.connect()
            for i in order:
                connection.request("POST", "/score", json.dumps(asked[i]))
                status, _, text = client.answer_of(connection)
                if (status, json.loads(text)) != want[i]:
                    wrong.append((asked[i], status, text, want[i]))
            connection.close()
        except Exception as e:  # noqa: BLE001 (a thread's failure is the test's)
            wrong.append(repr(e))

    threads = [threading.Thread(target=run, args=(i,)) for i in range(CLIENTS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def test_stop_answers_what_was_begun(batched):
    request = json.dumps(requests()[1])
    connections = [batched.connect() for _ in range(8)]
    for c in connections:
        c.request("POST", "/score", request)
    batched.process.send_signal(signal.SIGTERM)
    assert [client.answer_of(c)[0] for c in connections] == [200] * 8
    assert batched.process.wait(client.TIMEOUT) == 0
    assert batched.lines()[-1] == "stopped: every request that was begun is answered"


def test_a_wrong_value_is_refused():
    """The program ends with usage, status 2."""
    command = [*shlex.split(os.environ["DPI_TEST_SERVICE"]), "-bundle", "x.h5", "-batch", "perhaps"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=client.TIMEOUT)
    assert done.returncode == 2 and "option -batch: 'perhaps' is neither on nor off" in done.stderr
