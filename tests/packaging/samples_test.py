#!/usr/bin/python3
"""The samples where a package lays them: samples_test.py ROOT WORK. ROOT has the packages (/ where they are installed), WORK is an empty folder. Their
README.md and services.md are carried out in a copy, line by line: the programs print scores, and the services in Java and Go answer the request of
services.md with the same scores, under /health and /metrics too, until they are asked to stop."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request

ROOT, WORK = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
TIMEOUT = 600  # of a command: cgo compiles
(EXAMPLES,) = ROOT.glob("usr/share/doc/libdpi-dev/examples")
(LIB,) = (ROOT / "usr/lib").glob("*-linux-gnu")


def environment():
    """What the README asks for where nothing lies in the system's own places."""
    env = {**os.environ, "GOPROXY": "off", "PATH": "/usr/bin:" + os.environ["PATH"]}  # Debian's Python
    if ROOT == pathlib.Path("/"):
        return env
    usr = ROOT / "usr"
    return {**env, "PREFIX": str(usr), "DPI_JAR": str(usr / "share/java/dpi.jar"), "DPI_GO": str(usr / "share/gocode/src/dpiframe.org/dpi"),
            "PKG_CONFIG_PATH": str(LIB / "pkgconfig"), "LD_LIBRARY_PATH": str(LIB), "JAVA_TOOL_OPTIONS": f"-Djava.library.path={LIB / 'jni'}",
            "PYTHONPATH": str(usr / "lib/python3/dist-packages"), "PYTHONDONTWRITEBYTECODE": "1"}


def shell(lines):
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", "\n".join(lines)], cwd=WORK / "samples", env={"PREFIX": "", **environment()}, capture_output=True, text=True,
                          timeout=TIMEOUT)
    assert done.returncode == 0, "\n".join([*lines, done.stdout, done.stderr])
    return done.stdout


def ask(port, path, body=None):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", body, timeout=60) as answer:
        return answer.read().decode()


def wait_for(pattern, log, process):
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline and process.poll() is None:
        found = re.search(pattern, log.read_text())
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"'{pattern}' is not in\n{log.read_text()}")


def serve(lines, body):
    """Builds by all lines but the last, starts that, and asks; the answer to /score."""
    where = [line for line in lines if line.startswith(("cd ", "jars="))]
    shell(lines[:-1])
    log = WORK / "log"
    with open(log, "wb") as to:
        command = "\n".join([*where, f"exec {lines[-1]} -listen 127.0.0.1:0"])
        process = subprocess.Popen(["bash", "-euc", command], cwd=WORK / "samples", env=environment(), stdout=to, stderr=to)
    try:
        port = wait_for(r"listening on http://127\.0\.0\.1:(\d+)", log, process).group(1)
        health, scores = json.loads(ask(port, "/health")), json.loads(ask(port, "/score", body))
        assert health["status"] == "ok" and health["version"] == 1, health
        assert 'dpi_endpoint_swaps_total{kind="load"} 1\n' in ask(port, "/metrics")
        wait_for(r"endpoint: scoreservice: version 1 serves, from ", log, process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, log.read_text()
        assert log.read_text().endswith(" stopped: every request that was begun is answered\n"), log.read_text()
    finally:
        process.kill()
        process.wait()
    return scores


def main():
    shutil.copytree(EXAMPLES, WORK / "samples")
    readme, services = ((EXAMPLES / name).read_text(encoding="utf-8") for name in ("README.md", "services.md"))
    c, java, go = (block.splitlines() for block in re.findall(r"(?ms)^```sh\n(.*?)^```", readme))
    shell(c)
    for command in re.findall(r"\| `((?:build/|python3 )[^`]+)` \|", readme):
        assert len(shell([command]).splitlines()) > 1, command
    (body,) = re.findall(r"curl -d '([^']*)' http://127.0.0.1:8080/score", services)
    answers = [serve(lines, body.encode()) for lines in (java, go)]
    assert answers[0] == answers[1] and all(0 < score < 1 for row in answers[0]["scores"] for score in row), answers
    print(f"{len(c) + len(java) + len(go)} lines carried out; the services answer {answers[0]}")


if __name__ == "__main__":
    main()
