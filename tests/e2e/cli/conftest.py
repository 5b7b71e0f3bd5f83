"""Runs the program `dpi` (environment: DPI_PROGRAM, else the release build) on small bundles made here with dpi_export."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "weights" / "python"))
PROGRAM = os.environ.get("DPI_PROGRAM", str(ROOT / "build" / "release" / "bin" / "dpi"))

from dpi_export import Builder, Rows, encoders  # noqa: E402
from dpi_export.bundle import writer  # noqa: E402


class Ran:
    """What one call of the program gave."""

    def __init__(self, done):
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    def ok(self):
        assert self.code == 0, f"exit {self.code}\n{self.out}\n{self.err}"
        return self

    def fails(self, code, *texts):
        """Asserts the exit code and that stderr names each text."""
        assert self.code == code, f"exit {self.code}, expected {code}\n{self.out}\n{self.err}"
        for text in texts:
            assert text in self.err, f"'{text}' is not in: {self.err}"
        assert "unexpected failure" not in self.err
        return self

    def json(self):
        return json.loads(self.ok().out)

    def scores(self):
        lines = self.ok().out.splitlines()
        return lines[0].split(","), np.array([[float(x) for x in line.split(",")] for line in lines[1:]])


@pytest.fixture(scope="session")
def dpi():
    """dpi("predict", ...): runs the program."""
    if not os.path.exists(PROGRAM):
        pytest.skip(f"{PROGRAM} is not built")

    def run(*args, stdin=None):
        return Ran(subprocess.run([PROGRAM, *map(str, args)], input=stdin, capture_output=True, text=True, timeout=120))

    return run


def build(name="small", rng_seed=3):
    """A categorical with vocabulary, a weighted bag, a bag that pads, a numeric with scaling, a vector; two heads."""
    rng = np.random.default_rng(rng_seed)
    b = Builder(name)
    b.categorical("job", vocab_size=4, out_of_range="oov", oov_id=3, missing="pad",
                  encoder=[encoders.trim(), encoders.vocab_string(["cook", "clerk"], first_id=1)])
    b.sequence("tags", vocab_size=6, weighted=True, missing="pad", out_of_range="error")
    b.sequence("seen", vocab_size=5, max_len=3, missing="pad", out_of_range="default", default_id=2)
    b.numeric("age", missing="default", encoder=[encoders.to_float(), encoders.standard(40.0, 10.0)])
    b.dense("vec", dim=2)
    parts = [b.embed(b.input("job"), b.table("job", rng.normal(size=(4, 3)).astype("f4"))),
             b.embed(b.input("tags"), b.table("tags", rng.normal(size=(6, 2)).astype("f4")), pooling="sum"),
             b.embed(b.input("seen"), b.table("seen", rng.normal(size=(5, 2)).astype("f4")), pooling="mean"),
             b.input("age"), b.input("vec")]
    x = b.op("Concat", parts)
    logit = b.linear(x, rng.normal(size=(1, 10)).astype("f4"), np.zeros(1, "f4"))
    prob = b.op("Unary", [logit], {"kind": "sigmoid"})
    b.head("click", prob, logit=logit)
    b.head("raw", logit, activation="none")
    return b


def golden_rows(b):
    return Rows.from_columns(b, {"job": [1, 2, 0], "tags": [[1], [2, 3], []], "seen": [[1, 2], [], [4, 4, 4]],
                                 "age": [0.5, -1.0, 0.0], "vec": [[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]]})


@pytest.fixture(scope="session")
def bundle(tmp_path_factory):
    path = tmp_path_factory.mktemp("cli") / "small.h5"
    b = build()
    b.provenance(framework="by hand", metrics={"auc": 0.5, "logloss": 0.7, "rows": 3})
    b.golden(golden_rows(b))
    b.write(path)
    return path


@pytest.fixture
def csv(tmp_path):
    """csv(text): a file with this text."""
    def make(text, name="rows.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return make


@pytest.fixture
def doctored(tmp_path, monkeypatch):
    """doctored(change): a bundle whose manifest went through `change(dict)` before its digests were made: valid bytes, wrong content."""
    def make(change, arrays=None):
        original = writer.manifest_of

        def changed(model, *rest):
            manifest, more = original(model, *rest)
            manifest = json.loads(json.dumps(manifest))
            change(manifest)
            return manifest, more

        with monkeypatch.context() as m:
            m.setattr(writer, "manifest_of", changed)
            path = tmp_path / "doctored.h5"
            build().write(path, check=False)
        return path

    return make
