"""A fault of the store that a model's rows come from is the service's, not the client's: 503 with a general text. What names servers is in the log only."""

import json
import pathlib
import re
import subprocess

import client
import pytest

HERE = pathlib.Path(__file__).resolve().parent
HOST = "redis-7.internal.example"
IO, TIMEOUT = 3, 9
TEXT = f"store 'redis' is down (store.down=fail); its last error: redis {HOST}:6379: cannot connect: Connection refused"
REQUEST = {"rows": [{"uid": 7, "tag": "red", "vector": [1, 2, 3]}]}


@pytest.fixture()
def faulty(bundle, tmp_path, monkeypatch):
    """The service, and the file by which its scoring fails."""
    library = tmp_path / "store_fault.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-Wall", "-Werror", f"-I{HERE.parents[2]}/capi/include", str(HERE / "store_fault.c"), "-o", str(library)], check=True)
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("DPI_TEST_FAULT", str(tmp_path / "fault"))
    for service in client.started(bundle, tmp_path / "log"):
        yield service, tmp_path / "fault"


def refused(service, cause):
    """The count of /metrics."""
    found = re.search(rf'dpi_http_refused[^\n]*cause="{cause}"[^\n]* (\d+)', service.metrics())
    assert found, service.metrics()
    return int(found.group(1))


@pytest.mark.parametrize("code, cause, text", [(IO, "unavailable", "rows of the model cannot be read now"), (TIMEOUT, "timeout", "no score in time")])
def test_a_fault_of_the_store_is_503_and_names_no_server(faulty, code, cause, text):
    service, fault = faulty
    assert service.score(REQUEST)[0] == 200
    before = refused(service, cause)
    fault.write_text(f"{code}\n{TEXT}\n")
    status, headers, body = service.ask("POST", "/score", json.dumps(REQUEST))
    answer = json.loads(body)
    assert (status, answer["cause"], answer["error"], headers["Retry-After"]) == (503, cause, text, "1"), answer
    for part in (HOST, "6379", "redis", "store"):
        assert part not in body.decode() and part not in str(headers)
    assert refused(service, cause) == before + 1
    service.wait_for(re.escape(HOST))  # the log has it
    fault.unlink()
    assert service.score(REQUEST)[0] == 200
