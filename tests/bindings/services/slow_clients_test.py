"""Clients that send or read slowly, or far too much: /health answers meanwhile, memory stays bounded, and scoring goes on."""

import contextlib
import json
import re
import resource
import select
import socket
import threading
import time

import client
import pytest

CONNECTIONS = 1024  # that a service keeps open
REQUESTS = 64  # to /score that it has under way
BODY = 2 << 20
MEMORY = 640 << 20  # bytes that a service may have resident at its worst; tests/run.d gives Java a heap of 384 MiB


def allow_open_files():
    """As many as a test of many connections has, or it is skipped: the hard limit is not ours to raise."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2 * CONNECTIONS:
        pytest.skip(f"no more than {hard} open files are allowed here (ulimit -H -n)")
    if soft != resource.RLIM_INFINITY and soft < 2 * CONNECTIONS:
        resource.setrlimit(resource.RLIMIT_NOFILE, (2 * CONNECTIONS, hard))


def head(length):
    return b"POST /score HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % length


def works(service):
    assert service.healthy()
    status, answer = service.score({"rows": [{"uid": 7}]})
    assert status == 200 and answer["scores"] == [[1]]


def in_the_end(call):
    """For a service of little patience: on a busy machine our own clients, too, are slow ones."""
    deadline = time.monotonic() + client.TIMEOUT
    while True:
        try:
            return call()
        except (AssertionError, OSError, ValueError, client.http.client.HTTPException):
            if time.monotonic() > deadline:
                raise


def until_in_flight(service, count):
    deadline = time.monotonic() + client.TIMEOUT
    while f"dpi_http_in_flight {count}\n" not in service.metrics():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def reads_nothing(service):
    """A client that asks, and asks again, until nobody takes its questions any more, and never reads."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.connect(("127.0.0.1", service.port))
    body = json.dumps({"rows": [{}] * 4000}).encode()
    sock.settimeout(1)
    with contextlib.suppress(OSError):  # no room any more, or the service hung up already
        while True:
            sock.sendall(head(len(body)) + body)
    return sock


def dropped(sock):
    """Whether the other side gives up a connection on which we read nothing."""
    watch = select.poll()
    watch.register(sock, select.POLLRDHUP)
    return bool(watch.poll(1000 * client.TIMEOUT))


def slow(stack, service, count):
    """So many clients each of whom has connected only, sent half a head, or half a body."""
    made = [service.raw(sent) for sent in (b"", b"POST /score HTTP/1.1\r\nHost: x\r\nX-Slow: ") for _ in range(count)]
    made += [service.raw(head(100) + b'{"rows": [') for _ in range(min(count, REQUESTS - 8))]
    stack.callback(lambda: [s.close() for s in made])
    return made


def test_hundreds_of_slow_clients(crowded):
    """/health and scoring go on beside them."""
    allow_open_files()
    with contextlib.ExitStack() as stack:
        waiting = slow(stack, crowded, 400)
        for _ in range(3):
            works(crowded)
        assert not any(client.closed(s, 0) for s in waiting)
        until_in_flight(crowded, REQUESTS - 8)
    until_in_flight(crowded, 0)
    works(crowded)
    assert crowded.peak_memory() < MEMORY


def test_slow_clients_are_left(impatient):
    with contextlib.ExitStack() as stack:
        readers = [stack.enter_context(reads_nothing(impatient)) for _ in range(2)]
        assert all(client.closed(s) for s in slow(stack, impatient, 3))
        assert all(dropped(s) for s in readers)
        in_the_end(lambda: works(impatient))
    gone = re.search(r'dpi_http_refused_total{cause="client"} (\d+)\n', in_the_end(impatient.metrics))
    assert int(gone.group(1)) >= 3  # the half bodies


def test_connections_beyond_the_limit_are_closed(fresh):
    allow_open_files()
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(fresh.raw()) for _ in range(CONNECTIONS)]
        assert all(client.closed(stack.enter_context(fresh.raw())) for _ in range(20))
        assert not client.closed(held[0], 0.2) and not client.closed(held[-1], 0.2)
        held.pop().close()
        deadline = time.monotonic() + client.TIMEOUT
        while time.monotonic() < deadline:  # until the service has seen that one is gone
            with contextlib.suppress(OSError, client.http.client.HTTPException):
                assert fresh.healthy()
                break
        else:
            raise AssertionError("no connection is taken although one was closed")


def test_requests_beyond_the_limit_are_refused(crowded):
    """As many bodies as are admitted lie in memory but for a byte; then /score is busy, /health is not, and no body is lost."""
    body = b'{"rows": [{"uid": 7}]}'.ljust(BODY)
    with contextlib.ExitStack() as stack:
        begun = [stack.enter_context(crowded.raw(head(BODY))) for _ in range(REQUESTS)]
        threads = [threading.Thread(target=s.sendall, args=(body[:-1],)) for s in begun]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(client.TIMEOUT)
        until_in_flight(crowded, REQUESTS)
        status, headers, text = crowded.ask("POST", "/score", b'{"rows": []}')
        assert (status, json.loads(text)["cause"], headers["Retry-After"]) == (503, "overload", "1")
        assert crowded.healthy()
        for s in begun[4:]:
            s.close()
        for s in begun[:4]:
            s.sendall(body[-1:])
            answer = client.http.client.HTTPResponse(s)
            answer.begin()
            assert answer.status == 200 and json.loads(answer.read())["scores"] == [[1]]
    works(crowded)
    assert crowded.peak_memory() < MEMORY


def test_a_head_without_end(crowded):
    """Of a request line, and of headers: the service hangs up, or says so first; it does not collect them."""
    for beginning, unit in ((b"GET /", b"x" * 8192), (b"GET /health HTTP/1.1\r\n", b"X-%d: y\r\n" * 1000)):
        with crowded.raw(beginning) as s:
            with contextlib.suppress(ConnectionError):
                for _ in range(8192):  # 64 MiB
                    s.sendall(unit)
                raise AssertionError("all of it was taken")
    with contextlib.suppress(OSError, client.http.client.HTTPException):
        assert crowded.ask("GET", "/health", headers={"X-Long": "y" * 60000})[0] == 431
    works(crowded)
    assert crowded.peak_memory() < MEMORY


def test_scoring_has_a_deadline(hurried):
    status, answer = hurried.score({"rows": [{"uid": 7}]})
    assert status == 503 and answer["cause"] == "timeout"
    assert hurried.healthy() and 'dpi_http_refused_total{cause="timeout"} 1\n' in hurried.metrics()


def test_large_and_nested_bodies(crowded):
    """Each is as large as a body may be, and of a kind that a tree of objects would make much larger."""
    bodies = [b"[" * BODY, (b'{"rows": [{"history": ' + b"[" * 9000 + b"]" * 9000 + b"}]}").ljust(BODY),
              b'{"rows": [' + b"{}," * 600000 + b"{}]}", b'{"rows": [{"history": [' + b"[]," * 600000 + b"[]]}]}",
              b'{"rows": [{"history": [' + b"1," * 1000000 + b"1]}]}", b'{"rows": [{"tag": "' + b"x" * (BODY - 100) + b'"}]}',
              b'{"rows": [{' + b",".join(b'"%d":0' % i for i in range(180000)) + b"}]}",
              b'{"rows": [{"uid": ' + b"9" * 1000000 + b"}]}"]
    assert all(len(body) <= BODY for body in bodies)
    wrong = []

    def run(body):
        status = crowded.ask("POST", "/score", body)[0]
        if status not in (400, 413, 503):
            wrong.append((status, body[:40]))

    threads = [threading.Thread(target=run, args=(body,)) for body in bodies * 2]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert crowded.healthy()
        time.sleep(0.05)
    assert not wrong
    works(crowded)
    assert crowded.peak_memory() < MEMORY
