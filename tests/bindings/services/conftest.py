import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(HERE), str(ROOT / "weights" / "python")]

import client  # noqa: E402
import model  # noqa: E402


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("services")


@pytest.fixture(scope="session")
def bundle(folder):
    model.write(folder / "services.h5")
    return folder / "services.h5"


def started(bundle, log, *options):
    """The time for clients is long where a test does not look for its end, so that a slow machine does not matter."""
    service = client.Service(bundle, log, *(options or ("-client-seconds", "60")))
    yield service
    service.end()
    text = log.read_text()
    for wrong in ("internal error", "Exception", "OutOfMemory", "panic", "goroutine "):
        assert wrong not in text, text


@pytest.fixture(scope="session")
def service(bundle, folder):
    """The service over the model of model.py."""
    yield from started(bundle, folder / "log")


@pytest.fixture()
def impatient(bundle, tmp_path):
    """For one test alone, with little time for its clients."""
    yield from started(bundle, tmp_path / "log", "-client-seconds", "1")


@pytest.fixture()
def hurried(bundle, tmp_path):
    """For one test alone, without any time for scoring."""
    yield from started(bundle, tmp_path / "log", "-scoring-millis", "0")


@pytest.fixture()
def fresh(bundle, tmp_path):
    """The same, for one test alone."""
    yield from started(bundle, tmp_path / "log")


@pytest.fixture(scope="session")
def score_csv():
    """Scores of a CSV by the C sample."""

    def run(bundle, table):
        done = subprocess.run([os.environ["DPI_BIN"] + "/score_csv", str(bundle), str(table)], capture_output=True, text=True, check=True)
        return [float(line) for line in done.stdout.split()]

    return run
