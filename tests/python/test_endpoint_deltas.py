"""Deltas by path from Python, and the process that applies them killed at any moment: a new one comes to the same bits by the same files."""

import errno
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from drawn import ROOT

import dpi

TAGS, KILLS = 16, int(os.environ.get("DPI_TEST_KILLS", "50"))
IDS = np.array([[a, b] for a in range(TAGS) for b in (0, 7, 15)])

# Publishes deltas v2 ... by rename, each applied by an endpoint that follows the folder; says each version it serves.
SERVE = """
import os, shutil, sys
sys.path[:0] = sys.argv[4:]
import dpi
made, folder, prefix = sys.argv[1:4]
with dpi.Env() as env, dpi.Endpoint("killed", env=env, device="cpu", max_contexts=1, **{"debug.fold": "off"}) as e:
    for key, value in (("follow_ms", "1"), ("keep_seconds", "0"), ("warm_up_rows", "1")):
        e.set(key, value)
    e.follow(folder)
    number = max([int(n[1:].split(".")[0]) for n in os.listdir(folder) if n[0] == "v"])
    while True:
        e.wait(number, timeout=60)
        print(number, flush=True)
        shutil.copy(f"{made}/{prefix}{(number - 1) % 16}.delta", f"{folder}/next.part")
        os.replace(f"{folder}/next.part", f"{folder}/v{number + 1}.delta")
        number += 1
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("versions")
    subprocess.run([sys.executable, "-B", ROOT / "tests/capi/make_versions.py", folder], check=True)
    return folder


@pytest.fixture(scope="module")
def deep(tmp_path_factory):
    folder = tmp_path_factory.mktemp("deep")
    subprocess.run([sys.executable, "-B", ROOT / "tests/capi/make_deep.py", folder], check=True)
    return folder


def scores_of(path, more=()):
    with dpi.Env() as env, dpi.Endpoint("whole", env=env, device="cpu", max_contexts=1) as e:
        e.load(path)
        for delta in more:
            e.load(delta)
        return e.predict(IDS).tobytes(), e.status()["digest"]


def test_a_delta_is_a_path(made):
    assert scores_of(made / "3.h5", [made / "3.delta", made / "4.delta"]) == scores_of(made / "5.h5")
    with dpi.Env() as env, dpi.Endpoint("gap", env=env, device="cpu", max_contexts=1) as e:
        e.load(made / "3.h5", 7)
        with pytest.raises(dpi.BadModel, match="5.delta: starts from version [0-9a-f]{64}, .*3.h5 is version [0-9a-f]{64}"):
            e.load(made / "5.delta")
        assert e.version == 7


def test_a_delta_that_cannot_be_opened_is_an_io_error(made):
    """A process without a free descriptor: the file is sound, so the load is worth another try."""
    with dpi.Env() as env, dpi.Endpoint("full", env=env, device="cpu", max_contexts=1) as e:
        e.load(made / "3.h5", 7)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))  # 0, 1 and 2 are open
        try:
            with pytest.raises(dpi.Io, match=f"3.delta: cannot be opened: {os.strerror(errno.EMFILE)}"):
                e.load(made / "3.delta", 8)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert e.version == 7
        e.load(made / "3.delta", 8)
        assert e.version == 8


def last_number(folder):
    return max(int(name[1:].split(".")[0]) for name in os.listdir(folder) if name[0] == "v")


def killed_and_started_anew(made, prefix, folder, kills, check):
    """Serves deltas in a child, kills it at a random moment, and lets `check` look at an endpoint that comes to the folder's last number."""
    draw, served = random.Random(20), 0
    for _ in range(kills):
        child = subprocess.Popen([sys.executable, "-c", SERVE, made, folder, prefix, *sys.path], stdout=subprocess.PIPE, text=True)
        first = child.stdout.readline()
        assert first, child.wait()
        time.sleep(draw.uniform(0, 0.03))
        child.send_signal(signal.SIGKILL)
        child.stdout.read()
        assert child.wait() == -signal.SIGKILL
        child.stdout.close()
        number = last_number(folder)
        served += number > int(first)
        with dpi.Env() as env, dpi.Endpoint("anew", env=env, device="cpu", max_contexts=1, **{"debug.fold": "off"}) as e:
            e.follow(folder)
            e.wait(number, timeout=60)
            assert e.version == number
            check(e, (number - 1) % TAGS)
    assert served > kills // 4 and last_number(folder) > kills  # most were killed between two deltas


def test_killed_at_any_moment_and_started_anew(made, tmp_path):
    want = [scores_of(made / f"{n}.h5") for n in range(TAGS)]
    shutil.copy(made / "0.h5", tmp_path / "v1.h5")

    def check(e, tag):
        assert (e.predict(IDS).tobytes(), e.status()["digest"]) == want[tag]

    killed_and_started_anew(made, "", tmp_path, KILLS, check)


def test_killed_while_rows_lie_in_spare_rows_or_go_home(deep, tmp_path):
    shutil.copy(deep / "tag0.h5", tmp_path / "v1.h5")

    def check(e, tag):
        want = 33 * (tag + 1) + IDS.sum(axis=1) / 1024  # make_versions.py: exact in float32
        assert np.array_equal(e.predict(IDS).ravel(), want.astype("f4"))

    killed_and_started_anew(deep, "tag", tmp_path, max(10, KILLS // 5), check)
