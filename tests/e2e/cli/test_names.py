"""Features, tables, ops and heads with names beyond ASCII, from the Builder through every command; headers of a CSV file."""

import numpy as np
import pytest

from dpi_export import Builder, Bundle, BundleError, Rows, encoders

CITY, TAGS, AGE, VECTOR = "城市", "תגיות", "возраст", "cafe\u0301"  # the last with a letter of two characters
RAW = [("Köln", "京都|Köln", "40", "1", "-2"), ("京都", "", "22.5", "0", "0"), ("?", "Köln", "", "3", "4")]


def names_model():
    rng = np.random.default_rng(4)
    b = Builder("Модель 点击率")
    words = encoders.vocab_string(["Köln", "京都"], first_id=1)
    b.categorical(CITY, 4, out_of_range="oov", oov_id=3, encoder=[words])
    b.sequence(TAGS, 4, missing="pad", out_of_range="oov", oov_id=3, encoder=encoders.Encoder([words], splitter="|"))
    b.numeric(AGE, missing="default", default=0.5, encoder=[encoders.to_float(), encoders.standard(40.0, 10.0)])
    b.dense(VECTOR, 2)
    parts = [b.embed(b.input(CITY), b.table("表/" + CITY, rng.normal(size=(4, 3)), dtype="i8")),
             b.embed(b.input(TAGS), b.table("表/" + TAGS, rng.normal(size=(4, 3))), "sum"), b.input(AGE), b.input(VECTOR)]
    logit = b.linear(b.concat(parts, module="嵌入"), rng.normal(size=(1, 9)), name="логит")
    b.head("点击", b.sigmoid(logit, name="πιθανότητα"), logit=logit)
    rows = {CITY: [1, 2, 3], TAGS: [[2, 1], [], [1]], AGE: [0.0, -1.75, None], VECTOR: [[1, -2], [0, 0], [3, 4]]}
    b.golden(Rows.from_columns(b, rows), raw={name: [r[i] for r in RAW] for i, name in enumerate((CITY, TAGS, AGE))})
    return b


@pytest.fixture(scope="module")
def names_bundle(tmp_path_factory):
    path = tmp_path_factory.mktemp("имена") / "модель.h5"
    names_model().write(path)
    return path


def text_of(names, rows):
    return "\n".join(",".join(line) for line in [names, *rows]) + "\n"


HEADER = [CITY, TAGS, AGE, f"{VECTOR}[0]", f"{VECTOR}[1]"]


@pytest.mark.parametrize("start", ["", "\ufeff"])
@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4], [4, 2, 1, 0, 3]])
def test_predict_finds_columns_by_name(dpi, names_bundle, csv, start, order):
    with Bundle(names_bundle) as b:
        want = np.array(b.golden["value"])
    text = start + text_of([HEADER[i] for i in order], [[row[i] for i in order] for row in RAW])
    names, scores = dpi("predict", names_bundle, "--raw", csv(text)).scores()
    assert names == ["点击"] and np.abs(scores - want).max() <= 1e-6
    ids = [("1", "2|1", "0", "1", "-2"), ("2", "", "-1.75", "0", "0"), ("3", "1", "", "3", "4")]
    _, scores = dpi("predict", names_bundle, csv(text_of(HEADER, ids))).scores()
    assert np.abs(scores - want).max() <= 1e-6


def test_names_are_compared_byte_for_byte(dpi, names_bundle, csv):
    composed = [name.replace("e\u0301", "\u00e9") for name in HEADER]
    dpi("predict", names_bundle, "--raw", csv(text_of(composed, RAW))).fails(2, VECTOR)


def test_a_refused_cell_names_them(dpi, names_bundle, csv):
    rows = [RAW[0], (*RAW[1][:2], "много", *RAW[1][3:])]
    dpi("predict", names_bundle, "--raw", csv(text_of(HEADER, rows))).fails(2, "rows.csv:3:3", AGE, "много")


def test_inspect_plan_and_verify_show_them(dpi, names_bundle):
    text = dpi("inspect", names_bundle).ok().out
    for name in (CITY, TAGS, AGE, VECTOR, "表/" + CITY, "点击", "Модель 点击率"):
        assert name in text
    assert [f["name"] for f in dpi("inspect", names_bundle, "--json").json()["features"]] == [CITY, TAGS, AGE, VECTOR]
    assert "点击" in dpi("verify", names_bundle).ok().out
    for more in ([], ["--dot"], ["--json"]):
        assert CITY in dpi("plan", names_bundle, *more).ok().out


@pytest.mark.parametrize("name", ["\x80", "\x9f", "\u2028", "\u202e", "\u2069", "é" * 101, "城" * 67, "a\x7f", 'a"b', "a\\b"])
@pytest.mark.parametrize("kind", ["features", "tables", "ops", "heads"])
def test_what_the_package_refuses_the_engine_refuses(dpi, doctored, kind, name):
    def rename(manifest):
        entry = manifest[kind][-1]
        if kind == "tables":
            entry.setdefault("data", "/tables/" + entry["name"])
        entry["name"] = name
    with pytest.raises(BundleError, match="name"):
        Builder("m").numeric(name)
    dpi("inspect", doctored(rename)).fails(3, "is empty, too long or has characters that names may not have")


def test_a_table_beyond_ascii_needs_its_data_set(dpi, doctored):
    def rename(manifest):
        table = manifest["tables"][0]["name"]
        manifest["tables"][0]["name"] = "表"
        for op in manifest["ops"]:
            if op.get("attrs", {}).get("table") == table:
                op["attrs"]["table"] = "表"
    dpi("inspect", doctored(rename)).fails(3, "表")
