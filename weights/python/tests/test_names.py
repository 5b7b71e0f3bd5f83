"""Names beyond ASCII, from the Builder through the file and back; names that are refused."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dpi_export import Builder, Bundle, BundleError, Executor, Rows
from dpi_export import encoders as e

PACKAGE = str(Path(__file__).resolve().parents[1])
#: Han, Cyrillic, a decomposed and a composed letter (two names), right to left, beyond the basic plane.
NAMES = ["城市", "возраст", "cafe\u0301", "caf\u00e9", "מחיר", "𠮷/😀 [1]"]


def model():
    """Names of every list; the tables' names differ only in letters that a data set name cannot hold."""
    rng = np.random.default_rng(8)
    b = Builder("Δ-модель")
    parts = []
    for name in NAMES[:4]:
        b.categorical(name, 5, out_of_range="oov", oov_id=4, encoder=[e.vocab_string(["Köln", "京都"])])
        b.table(f"表/{name}", rng.normal(size=(5, 3)), dtype="i8" if name == "城市" else "f32")
        parts.append(b.embed(b.input(name), f"表/{name}", name=f"embed/{name}", module="嵌入"))
    for name in NAMES[4:]:
        parts.append(b.input(b.numeric(name, missing="default", encoder=[e.to_float()])))
    logit = b.linear(b.concat(parts), rng.normal(size=(1, 14)), name="логит")
    b.head("点击", b.sigmoid(logit), logit=logit)
    raw = {**{n: ["Köln", "京都", "?"] for n in NAMES[:4]}, NAMES[4]: ["1", "2", ""], NAMES[5]: ["0.5", "-1", "3"]}
    columns = {**{n: [1, 2, 4] for n in NAMES[:4]}, NAMES[4]: [1.0, 2.0, None], NAMES[5]: [0.5, -1.0, 3.0]}
    b.golden(Rows.from_columns(b, columns), raw=raw)
    return b, columns


def test_names_come_back_and_tables_stay_apart(tmp_path):
    b, columns = model()
    path = tmp_path / "имя.h5"
    b.write(path)
    want = Executor(b).run(Rows.from_columns(b, columns))["value"]["点击"]
    with Bundle(path) as bundle:
        bundle.verify_digests()
        assert [f["name"] for f in bundle.features] == NAMES and bundle.manifest["name"] == "Δ-модель"
        assert [t["name"] for t in bundle.tables] == [f"表/{n}" for n in NAMES[:4]]
        data = [t["data"] for t in bundle.manifest["tables"]]
        assert len(set(data)) == 4 and all(d.isascii() for d in data)
        got = Executor(bundle).run(Rows.from_columns(bundle, columns))["value"]["点击"]
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("encoding, shown", [("utf-8", "城市"), ("ascii", "\\u57ce\\u5e02"), ("latin-1", "\\u57ce\\u5e02")])
def test_commands_print_them_in_every_encoding(tmp_path, encoding, shown):
    path = tmp_path / "a.h5"
    model()[0].write(path)
    environment = {**os.environ, "PYTHONPATH": PACKAGE, "PYTHONIOENCODING": encoding}
    for command in ("inspect", "verify"):
        line = [sys.executable, "-m", "dpi_export", command, str(path)]
        done = subprocess.run(line, env=environment, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        assert command != "inspect" or shown in done.stdout.decode(encoding)


def test_a_table_beyond_ascii_names_its_data():
    from dpi_export.errors import table_path

    assert table_path({"name": "a/b"}) == "/tables/a_b" and table_path({"name": "表", "data": "/tables/x"}) == "/tables/x"
    with pytest.raises(BundleError, match="table '表': data is missing"):
        table_path({"name": "表"})


@pytest.mark.parametrize("name", ["é" * 100, "城" * 66, "x" * 200, "\u00a0", "\u2027", "\u202f", "\u2065", "\u206a", "\ud7ff",
                                  "\ue000", "\U0010ffff"])
def test_accepted(name):
    assert Builder("m").numeric(name) == name


@pytest.mark.parametrize("name", ["", "é" * 101, "城" * 67, "x" * 201, "a\n", "a\x7f", "\x80", "\x9f", "\u2028", "\u2029",
                                  "\u202a", "\u202e", "\u2066", "\u2069", "\ud800", "\udfff", "a,b", 'a"b', "a\\b", "a\tb", None, 3, b"a"])
def test_refused(name):
    b = Builder("m")
    for call in (b.numeric, lambda n: b.table(n, np.zeros((2, 2))), lambda n: b.const(1.0, name=n or "\n"), Builder):
        with pytest.raises(BundleError, match="name .*expected 1 to 200 bytes of UTF-8"):
            call(name)
