"""Starts a scoring service as a process, and speaks HTTP to it: rightly, and as badly as a test wants."""

import http.client
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import time

TIMEOUT = 60  # seconds until a test that waits for the service has failed


class Service:
    """A service on a free port of this machine. DPI_TEST_SERVICE is the command without its options."""

    def __init__(self, bundle, log, *options, listens=True):
        """listens: waits until it does, and so for its first version."""
        first = [] if bundle is None else ["-bundle", str(bundle)]
        command = [*shlex.split(os.environ["DPI_TEST_SERVICE"]), *first, "-listen", "127.0.0.1:0", *options]
        self.log = log
        with open(log, "wb") as to:
            self.process = subprocess.Popen(command, stdout=to, stderr=to)
        if not listens:
            return
        try:
            self.listen()
        except BaseException:
            self.end()
            raise

    def listen(self):
        self.port = int(self.wait_for(r"listening on http://127\.0\.0\.1:(\d+)").group(1))

    def wait_for(self, pattern):
        deadline = time.monotonic() + TIMEOUT
        while time.monotonic() < deadline:
            found = re.search(pattern, self.log.read_text())
            if found:
                return found
            if self.process.poll() is not None:
                break
            time.sleep(0.01)
        raise AssertionError(f"'{pattern}' is not in\n{self.log.read_text()}")

    def lines(self):
        """What it wrote to standard error, without the time that each line begins with."""
        lines = [line for line in self.log.read_text().splitlines() if not line.startswith("Picked up ")]
        for line in lines:
            time.strptime(line[:20], "%Y/%m/%d %H:%M:%S ")
        return [line[20:] for line in lines]

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)

    def ask(self, method, path, body=None, headers=None):
        """(status, headers, body) of one request over a connection of its own."""
        connection = self.connect()
        try:
            connection.request(method, path, body, headers or {})
            return answer_of(connection)
        finally:
            connection.close()

    def score(self, request):
        status, _, text = self.ask("POST", "/score", json.dumps(request))
        return status, json.loads(text)

    def raw(self, data=b""):
        """A connection for which nobody speaks HTTP."""
        s = socket.create_connection(("127.0.0.1", self.port), TIMEOUT)
        s.sendall(data)
        return s

    def metrics(self):
        status, headers, text = self.ask("GET", "/metrics")
        assert status == 200 and headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        return text.decode()

    def healthy(self):
        status, _, text = self.ask("GET", "/health")
        return status == 200 and json.loads(text)["status"] == "ok"

    def peak_memory(self):
        """The most that was resident so far, in bytes."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            return int(re.search(r"VmHWM:\s*(\d+) kB", status.read()).group(1)) << 10

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def end(self):
        self.process.kill()
        self.process.wait(TIMEOUT)


def started(bundle, log, *options):
    """Without options all times are long, so that a slow machine does not matter where a test does not look for their end."""
    service = Service(bundle, log, *(options or ("-client-seconds", "60", "-scoring-millis", "60000")))
    try:
        yield service
    finally:  # also where a fixture fails that began it
        service.end()
    text = log.read_text()
    for wrong in ("internal error", "Exception", "OutOfMemory", "panic", "goroutine "):
        assert wrong not in text, text


def eventually(probe, fault):
    """The first value of `probe` that is true."""
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        found = probe()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(fault)


def answer_of(connection):
    answer = connection.getresponse()
    return answer.status, answer.headers, answer.read()


def closed(sock, within=TIMEOUT):
    """Whether the other side closes the connection in time; what it sends before that is read away."""
    sock.settimeout(within)
    try:
        while sock.recv(1 << 16):
            pass
        return True
    except (TimeoutError, BlockingIOError):  # the second when within is 0
        return False
    except ConnectionError:
        return True
