"""What both services answer: every line of cases.json, ids as by the C sample's CSV, damaged texts, and the metrics."""

import json
import os
import pathlib
import random
import re
import shlex
import socket
import subprocess

import pytest

import client
import model

CASES = json.loads((pathlib.Path(__file__).parent / "cases.json").read_text(encoding="utf-8"))


def spelled(part):
    """A text, or one that repeats a unit: head, times x unit, tail, times x end, last."""
    if isinstance(part, str):
        return part.encode()
    times = part["times"]
    text = part.get("head", "") + part["unit"] * times + part.get("tail", "") + part.get("end", "") * times + part.get("last", "")
    return text.encode()


def ask(service, case):
    body = bytes.fromhex(case["hex"]) if "hex" in case else spelled(case["body"]) if "body" in case else None
    if "chunks" in case:
        body = (spelled(chunk) for chunk in case["chunks"])  # http.client sends it chunked
    method = case.get("method", "GET" if body is None else "POST")
    return service.ask(method, case.get("path", "/score"), body, case.get("headers"))


@pytest.mark.parametrize("case", CASES, ids=[case["about"] for case in CASES])
def test_case(service, case):
    status, headers, text = ask(service, case)
    assert status == case["status"], text
    assert headers["Content-Type"] == "application/json"
    assert headers.get("Allow") == case.get("allow")
    if case.get("method") == "HEAD":
        return
    answer = json.loads(text)
    if status == 200:
        assert answer["heads"] == ["worth"] and all(len(row) == 1 for row in answer["scores"])
        if "rows" in case:
            assert len(answer["scores"]) == case["rows"]
        else:
            assert [row[0] for row in answer["scores"]] == case["scores"]
        return
    error = answer.pop("error")
    assert error and not re.search(r"Gson|Reader|Exception|setLenient|path \$|github|For input|strconv|Unmarshal", error), error  # no library's own words
    assert answer == {key: case[key] for key in ("cause", "row", "user", "feature") if key in case}


ARGUMENTS = [(["-help"], 0, "-follow"), ([], 2, "-follow"), (["-bundle"], 2, "-bundle"), (["-bundle", "x.h5", "-warm-up", "many"], 2, "-warm-up"),
             (["-bundle", "x.h5", "-no-such", "1"], 2, "-no-such"), (["-bundle", "x.h5", "-option", "store.down"], 2, "'store.down' is not name=value")]


@pytest.mark.parametrize("arguments, status, named", ARGUMENTS, ids=[" ".join(a) or "none" for a, _, _ in ARGUMENTS])
def test_arguments(arguments, status, named):
    done = subprocess.run([*shlex.split(os.environ["DPI_TEST_SERVICE"]), *arguments], capture_output=True, text=True, timeout=client.TIMEOUT)
    told = done.stdout + done.stderr
    assert done.returncode == status and named in told and "-scoring-millis" in told, told
    assert not re.search(r"Exception|Index \d|For input", told), told


def test_a_start_that_fails_says_why(bundle):
    """No model, then an address that is taken: status 1, and the reason without a stack."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for arguments, named in ((["-bundle", "no_such.h5"], "no_such.h5: cannot be opened"),
                                 (["-bundle", str(bundle), "-option", "store.down=fail", "-option", "no.such=1"], "no.such"), (["-bundle", str(bundle), "-listen", f"127.0.0.1:{port}"], f"127.0.0.1:{port}: ")):
            done = subprocess.run([*shlex.split(os.environ["DPI_TEST_SERVICE"]), *arguments], capture_output=True, text=True, timeout=client.TIMEOUT)
            assert done.returncode == 1 and named in done.stderr and not re.search(r"Exception|\tat ", done.stderr), done.stderr


def test_the_table_has_every_kind_of_case():
    assert {case["status"] for case in CASES} == {200, 400, 404, 405, 413}
    assert len({case["about"] for case in CASES}) == len(CASES)


def test_ids_score_as_in_a_csv(service, bundle, score_csv, tmp_path):
    ids = [model.BIG - 1, model.BIG, model.BIG + 1, 7, -5, 0, 2**63 - 1, -(2**63)]
    table = tmp_path / "ids.csv"
    table.write_text("uid,tag,day\n" + "".join(f"{i},{i},{i % 4}\n" for i in ids))
    want = score_csv(bundle, table)
    status, answer = service.score({"rows": [{"uid": i, "tag": i, "day": i % 4} for i in ids]})
    assert status == 200 and [row[0] for row in answer["scores"]] == want
    assert want[:2] == [model.UID[i] + model.TAG.get(str(i), model.TAG["?"]) + model.DAY[i % 4] for i in ids[:2]]


def test_damaged_texts_are_refused_or_scored(service):
    """Never an internal error, a lost connection or a wrong status, whatever becomes of a good text."""
    rng = random.Random(20261122)
    good = json.dumps({"rows": [{"uid": model.BIG, "tag": "é\n", "history": ["a", 7], "vector": [1, 2.5, -3e-2], "day": 1},
                                {"price": -1.25, "uid": None}], "shared": {"city": "Riga"}}, ensure_ascii=False).encode()
    connection = service.connect()
    seen = set()
    for _ in range(400):
        text = bytearray(good)
        for _ in range(rng.randint(1, 3)):
            at, how = rng.randrange(len(text)), rng.randrange(3)
            if how == 0:
                text[at] = rng.choice(b'[]{}",:\\0eE-.x \x00\xff') if rng.random() < 0.7 else rng.randrange(256)
            elif how == 1:
                del text[at:at + rng.randint(1, 8)]
            else:
                text[at:at] = text[rng.randrange(len(text)):][:rng.randint(1, 16)]
        connection.request("POST", "/score", bytes(text))
        status, _, answer = client.answer_of(connection)
        assert status in (200, 400), (text, answer)
        # Python's parser is the judge of what is JSON; of what it takes beyond JSON it is told to take nothing.
        try:
            json.loads(text.decode("utf-8"), parse_constant=refuse_constant)
        except ValueError:
            assert status == 400 and json.loads(answer)["cause"] == "json", (text, answer)
        seen.add(status)
    connection.close()
    assert seen == {200, 400}


def refuse_constant(name):
    raise ValueError(name)
