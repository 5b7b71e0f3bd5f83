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


@pytest.fixture(scope="session")
def service(bundle, folder):
    """The service over the model of model.py."""
    yield from client.started(bundle, folder / "log")


@pytest.fixture(scope="module")
def crowded(bundle, tmp_path_factory):
    """The same, for the tests of one file."""
    yield from client.started(bundle, tmp_path_factory.mktemp("crowded") / "log")


@pytest.fixture()
def impatient(bundle, tmp_path):
    """For one test alone, with little time for its clients."""
    yield from client.started(bundle, tmp_path / "log", "-client-seconds", "1")


@pytest.fixture()
def hurried(bundle, tmp_path):
    """For one test alone, without any time for scoring."""
    yield from client.started(bundle, tmp_path / "log", "-scoring-millis", "0")


@pytest.fixture()
def fresh(bundle, tmp_path):
    """For one test alone."""
    yield from client.started(bundle, tmp_path / "log")


@pytest.fixture(scope="session")
def score_csv():
    """Scores of a CSV by the C sample."""

    def run(bundle, table):
        done = subprocess.run([os.environ["DPI_BIN"] + "/score_csv", str(bundle), str(table)], capture_output=True, text=True, check=True)
        return [float(line) for line in done.stdout.split()]

    return run
