"""`dpi predict`: the CSV form, scores, metrics, and each refusal with its place."""

import json
import resource

import numpy as np
import pytest

HEADER = "job,tags,seen,age,vec[0],vec[1]\n"
ROWS = HEADER + "1,1,1|2,0.5,0,1\n2,2|3,,-1,1,0\n0,,4|4|4,0,0.5,0.5\n"


def test_scores_are_the_golden_ones(dpi, bundle, csv):
    from dpi_export import Bundle
    with Bundle(bundle) as b:
        want = np.array(b.golden["value"])
    names, scores = dpi("predict", bundle, csv(ROWS)).scores()
    assert names == ["click", "raw"] and scores.shape == (3, 2)
    assert np.abs(scores - want).max() <= 1e-6
    assert np.abs(1 / (1 + np.exp(-scores[:, 1])) - scores[:, 0]).max() <= 1e-6


def test_columns_in_any_order_ignored_ones_noted(dpi, bundle, csv):
    _, want = dpi("predict", bundle, csv(ROWS)).scores()
    lines = [line.split(",") for line in ROWS.splitlines()]
    other = "\n".join(",".join(["id" if i == 0 else f"r{i}"] + line[::-1]) for i, line in enumerate(lines)) + "\n"
    ran = dpi("predict", bundle, csv(other))
    _, got = ran.scores()
    assert np.array_equal(want, got)
    assert ran.err == "dpi: note: column 'id' is not a feature, ignored\n"


def processor_time():
    """Seconds that the programs run so far took, whatever else the machine did."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_many_columns_are_one_note_and_take_no_time(dpi, bundle, csv):
    names = [f"extra{i}" for i in range(60000)]
    text = ",".join([HEADER.strip()] + names) + "\n1,1,1,0,0,0" + "," * len(names) + "\n"
    began = processor_time()
    ran = dpi("predict", bundle, csv(text)).ok()
    assert processor_time() - began < 20
    assert "60000 columns are not features, ignored: 'extra0', " in ran.err and len(ran.err) < 300
    _, want = dpi("predict", bundle, csv(HEADER + "1,1,1,0,0,0\n")).scores()
    assert np.array_equal(ran.scores()[1], want)


def test_stdin_output_and_batches(dpi, bundle, csv, tmp_path):
    want = dpi("predict", bundle, csv(ROWS)).ok().out
    assert dpi("predict", bundle, "-", stdin=ROWS).ok().out == want
    assert dpi("predict", bundle, csv(ROWS), "--batch", "1").ok().out == want
    assert dpi("predict", bundle, csv(ROWS.replace("\n", "\r\n"))).ok().out == want


def test_no_rows(dpi, bundle, csv):
    assert dpi("predict", bundle, csv(HEADER)).ok().out == "click,raw\n"
    j = dpi("predict", bundle, csv(HEADER), "--summary", "--json").json()
    assert j["rows"] == 0


def test_missing_out_of_range_and_cut(dpi, bundle, csv):
    # empty job = pad id 0; 9 = oov id 3; empty age = 0; out-of-range in `seen` = 2; bags longer than 3 keep the first
    _, a = dpi("predict", bundle, csv(HEADER + ",1,1,,0,0\n9,1,9,1,0,0\n1,1,1|2|3|4,1,0,0\n")).scores()
    _, b = dpi("predict", bundle, csv(HEADER + "0,1,1,0,0,0\n3,1,2,1,0,0\n1,1,1|2|3,1,0,0\n")).scores()
    assert np.array_equal(a, b)


def test_a_column_that_is_nearly_an_element_is_ignored(dpi, bundle, csv):
    _, want = dpi("predict", bundle, csv(ROWS)).scores()
    for name in ("vec[1x]", "vec[0 ]", "vec[1]]", "vec[99999999999]"):
        ran = dpi("predict", bundle, csv("".join(f"{line},{name if i == 0 else 7}\n" for i, line in enumerate(ROWS.splitlines()))))
        _, got = ran.scores()
        assert np.array_equal(want, got)
        assert ran.err == f"dpi: note: column '{name}' is not a feature, ignored\n"


def test_weights(dpi, bundle, csv):
    _, a = dpi("predict", bundle, csv(HEADER + "1,1:2|3:0.5,,0,0,0\n")).scores()
    _, b = dpi("predict", bundle, csv(HEADER + "1,1|1|3:0.5,,0,0,0\n")).scores()
    assert np.abs(a - b).max() <= 1e-6


def test_raw(dpi, bundle, csv):
    _, a = dpi("predict", bundle, "--raw", csv(HEADER + "cook,1,1,45,0,0\n clerk ,1:2,1,30,0,0\nking,1,1,,0,0\n,1,1,40,0,0\n")).scores()
    _, b = dpi("predict", bundle, csv(HEADER + "1,1,1,0.5,0,0\n2,1:2,1,-1,0,0\n3,1,1,0,0,0\n0,1,1,0,0,0\n")).scores()
    assert np.array_equal(a, b)


@pytest.mark.parametrize("text,place,names", [
    ("", ":1:", ["header"]),
    ("job;tags;seen;age;vec[0];vec[1]\n1;1;1;0,5;0;0\n", ":1:", ["no comma but ';'", "write the file with commas"]),
    ("job\ttags\tseen\tage\tvec[0]\tvec[1]\n", ":1:", ["no comma but tabs", "write the file with commas"]),
    ("job,tags,seen,age,vec[0]\n", ":1:", ["vec[1]"]),
    ("tags,seen,age,vec[0],vec[1]\n", ":1:", ["feature 'job'"]),
    ("job,job,tags,seen,age,vec[0],vec[1]\n", ":1:2:", ["'job' occurs twice"]),
    ("job,tags,seen,age,vec\n", ":1:5:", ["vec[0]"]),
    ("job,tags,seen,age,vec[0],vec[1],vec[2]\n", ":1:7:", ["'vec' has 2 elements"]),
    (HEADER + "1,1,1,0,0\n", ":2:5:", ["5 cells", "header 6"]),
    (HEADER + "1,1,1,0,0,0\n1,1,1,0,0,0,0\n", ":3:7:", ["7 cells"]),
    (HEADER + "1,1,1,0,0,0\n\n", ":3:1:", ["1 cells"]),
    (HEADER + "cook,1,1,0,0,0\n", ":2:1:", ["'job'", "'cook' is not an id", "--raw"]),
    (HEADER + "1.5,1,1,0,0,0\n", ":2:1:", ["not an id"]),
    (HEADER + "1|2,1,1,0,0,0\n", ":2:1:", ["not an id"]),
    (HEADER + "1,1||2,1,0,0,0\n", ":2:2:", ["'tags'", "'' is not an id"]),
    (HEADER + "1,1:x,1,0,0,0\n", ":2:2:", ["'1:x'"]),
    (HEADER + "1,99999999999999999999,1,0,0,0\n", ":2:2:", ["not an id"]),
    (HEADER + "1,1,1,old,0,0\n", ":2:4:", ["'age'", "'old' is not a number"]),
    (HEADER + "1,1,1,0,0,1e\n", ":2:6:", ["not a number"]),
    (HEADER + "1,1,1,0,0,0\n1,6,1,0,0,0\n", ":3:2:", ["tags", "6"]),
    (HEADER + "1,-1,1,0,0,0\n", ":2:2:", ["tags", "-1"]),
    (HEADER + "1,1,1,inf,0,0\n", ":2:4:", ["age"]),
    (HEADER + "1,1,1,0,,0\n", ":2:5:", ["vec"]),
    (HEADER + "1,1,1,0,0,\"0\n", ":2:6:", ["closing quote"]),
    (HEADER + "1,1,1,0,0,\"0\"0\n", ":2:6:", ["after the closing quote"]),
    (HEADER + "1,1,1,0\",0,0\n", ":2:4:", ["quote inside"]),
])
@pytest.mark.parametrize("batch", ["256", "1"])
def test_refusals(dpi, bundle, csv, text, place, names, batch):
    dpi("predict", bundle, csv(text), "--batch", batch).fails(2, "rows.csv" + place, *names)


def test_raw_refusals(dpi, bundle, csv):
    dpi("predict", bundle, "--raw", csv(HEADER + "cook,1,1,45,0,0\ncook,1,1,many,0,0\n")).fails(2, "rows.csv:3:4:", "age", "many")
    dpi("predict", bundle, "--raw", csv(HEADER + "cook,x,1,45,0,0\n")).fails(2, "rows.csv:2:2:", "tags")


def test_missing_csv_and_labels(dpi, bundle, csv):
    dpi("predict", bundle, "/no/such.csv").fails(2, "/no/such.csv")
    dpi("predict", bundle, csv(ROWS), "--label", "y").fails(2, "rows.csv:1", "'y'")
    labelled = csv(ROWS.replace("\n", ",2\n").replace("vec[1],2", "vec[1],y"))
    dpi("predict", bundle, labelled, "--label", "y").fails(2, "rows.csv:2:7:", "expected 0 or 1")
    named = csv(ROWS.replace("\n", ",1\n").replace("vec[1],1", "vec[1],clicked"))
    dpi("predict", bundle, named, "--label", "cliked").fails(2, "no column 'cliked' for the label (did you mean 'clicked'?)")


def test_summary_equals_scikit_learn(dpi, bundle, csv):
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(11)
    labels = (rng.random(997) < 0.4).astype(int)
    rows = "".join(f"{rng.integers(4)},{rng.integers(6)},{rng.integers(5)},{rng.integers(3)},{rng.integers(2)},0,{y}\n" for y in labels)
    path = csv(HEADER.strip() + ",y\n" + rows)
    ran = dpi("predict", bundle, path, "--label", "y", "--json")
    _, scores = ran.scores()
    j = json.loads(ran.err)  # the scores took standard output
    assert abs(j["auc"]["value"] - metrics.roc_auc_score(labels, scores[:, 0])) <= 1e-12
    assert abs(j["logloss"]["value"] - metrics.log_loss(labels, scores[:, 0])) <= 1e-8
    assert j["auc"]["framework"] == 0.5 and j["rows"] == 997 and j["framework_rows"] == 3
    assert abs(j["auc"]["difference"] - (j["auc"]["value"] - 0.5)) <= 1e-15
    ran = dpi("predict", bundle, path, "--label", "y", "--summary", "--batch", "100").ok()
    for text in ("AUC", "log loss", "rows/s", "p50", "training framework 0.5", "of 3 rows", "100 rows"):
        assert text in ran.out
    assert ran.err == ""


def test_one_class_has_no_auc(dpi, bundle, csv):
    path = csv(ROWS.replace("\n", ",1\n").replace("vec[1],1", "vec[1],y"))
    assert "not defined" in dpi("predict", bundle, path, "--label", "y", "--summary").ok().out
    assert dpi("predict", bundle, path, "--label", "y", "--summary", "--json").json()["auc"]["value"] is None


def test_auto_says_why_not_cuda_when_asked(dpi, bundle, csv):
    devices = {d["backend"]: d["usable"] for d in dpi("devices", "--json").json()}
    ran = dpi("predict", bundle, csv(ROWS), "--device", "auto").ok()
    assert ("note" in ran.err and "cuda" in ran.err) or devices.get("cuda")
    assert dpi("predict", bundle, csv(ROWS)).ok().err == ""


def test_other_head(dpi, bundle, csv):
    dpi("predict", bundle, csv(ROWS), "--head", "raw").ok()
    dpi("predict", bundle, csv(ROWS), "--head", "zip").fails(1, "zip", "click, raw")


def test_devices_agree(dpi, bundle, csv):
    _, a = dpi("predict", bundle, csv(ROWS), "--device", "ref").scores()
    _, b = dpi("predict", bundle, csv(ROWS), "--device", "cpu").scores()
    assert np.abs(a - b).max() <= 1e-6


def _linear_model(path, features):
    from dpi_export import Builder
    b = Builder("sum")
    names = features(b)
    x = b.op("Concat", [b.input(name) for name in names])
    width = b.shape(x)[0]
    b.head("sum", b.linear(x, np.ones((1, width), "f4")), activation="none")
    b.write(path, check=False)
    return path


def test_user_features_come_in_each_row(dpi, csv, tmp_path):
    path = _linear_model(tmp_path / "shared.h5", lambda b: [b.numeric("user", space="shared"), b.numeric("item")])
    _, scores = dpi("predict", path, csv("item,user\n1,10\n2,10\n3,20\n"), "--batch", "2").scores()
    assert scores[:, 0].tolist() == [11, 12, 23]
    assert "BroadcastRows" in dpi("inspect", path, "--graph").ok().out
    assert "explain" in dpi("bench", path, "--batch", "3", "--seconds", "0.01", "--profile").ok().out


def test_bench_scores_a_pool_of_rows(dpi, bundle):
    def batches(*args):
        return [run["different_batches"] for run in json.loads(dpi("bench", bundle, "--seconds", "0.01", "--json", *args).ok().out)["runs"]]
    assert batches("--batch", "1,64,40000") == [32768, 512, 1]
    assert batches("--batch", "64", "--pool", "1") == [1]
    assert batches("--batch", "64", "--pool", "200", "--callers", "3", "--profile") == [3]
    dpi("bench", bundle, "--pool", "0").fails(1, "--pool")


def test_users_are_found_in_rows_side_by_side(dpi, csv, tmp_path):
    """The user's features are looked up once per user; so are a wrong one's place and the counts of raw values."""
    def features(b):
        return [b.numeric("user", space="shared"), b.dense("vector", 2, space="shared"), b.numeric("item")]

    path = _linear_model(tmp_path / "users.h5", features)
    text = "item,user,vector[0],vector[1],y\n" + "".join(f"{i},{i // 3 % 2},{i // 4},2,{i % 2}\n" for i in range(20))
    want = dpi("predict", path, csv(text)).ok().out
    for batch in ("1", "3", "256"):
        assert dpi("predict", path, csv(text), "--users", "--batch", batch).ok().out == want
    with_label = ("predict", path, csv(text), "--users", "--label", "y", "--json", "--output", tmp_path / "scores.csv")
    assert dpi(*with_label).json()["rows"] == 20 and (tmp_path / "scores.csv").read_text() == want
    wrong = text.splitlines()
    wrong[7] = wrong[8] = "1,x,0,2,0"
    dpi("predict", path, csv("\n".join(wrong)), "--users").fails(2, "rows.csv:8:2:", "'user'", "'x' is not a number")
    wrong[7] = wrong[8] = "1,,0,2,0"
    dpi("predict", path, csv("\n".join(wrong)), "--users").fails(2, "rows.csv:8:2:", "'user'", "missing")
    plain = _linear_model(tmp_path / "plain.h5", lambda b: [b.numeric("item")])
    assert dpi("predict", plain, csv("item\n1\n1\n"), "--users").scores()[1].tolist() == [[1], [1]]


def test_raw_vector_with_encoder_is_refused(dpi, csv, tmp_path):
    from dpi_export import encoders
    steps = [encoders.to_float(), encoders.standard(1.0, 2.0)]
    path = _linear_model(tmp_path / "vector.h5", lambda b: [b.dense("v", dim=2, encoder=steps)])
    rows = csv("v[0],v[1]\n1,2\n")
    dpi("predict", path, rows, "--raw").fails(2, "rows.csv:1:1:", "'v'", "encoder")
    assert dpi("predict", path, rows).scores()[1].tolist() == [[3]]
