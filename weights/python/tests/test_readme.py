"""The code of the README, run as it stands there: its shapes, its list of ops, and the attention model against torch."""

import re
from pathlib import Path

import numpy as np
import pytest

from dpi_export import Builder, Bundle, Executor, Rows
from dpi_export.ops import shapes

README = (Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8")


def code(heading):
    """The Python under a heading."""
    return re.search(r"```python\n(.*?)```", README.split(f"\n## {heading}\n")[1], re.S)[1]


def run(heading):
    """(names that the code defines, number of shapes that were checked); each shape stands behind its line's `#`."""
    names, checked = {}, 0
    for line in code(heading).splitlines():
        exec(line, names)  # noqa: S102  (every statement of the README is one line)
        stated = re.match(r"(\w+) = .*# \[([\d, ]+)\]", line)
        if stated:
            want = tuple(int(d) for d in stated[2].split(","))
            assert names["b"].shape(names[stated[1]]) == want, line
            checked += 1
        elif re.match(r"(\w+) = .*# bag", line):
            assert names["b"].shape(names[line.split(" ", 1)[0]]) is None, line
            checked += 1
    return names, checked


def test_every_op_and_choice_is_shown_with_its_shape():
    names, checked = run("Every op")
    text, ops = code("Every op"), names["b"].ops
    assert checked >= 35 and {op["op"] for op in ops} == set(shapes.OPS)
    kinds = {(op["op"], op["attrs"].get("kind", op["attrs"].get("pooling", ""))) for op in ops}
    assert {k for o, k in kinds if o == "View"} == set(shapes.VIEW_KEYS)
    assert {k for o, k in kinds if o == "Embed"} == {"", "none", "sum", "mean", "max"}
    every = (shapes.UNARY + shapes.BINARY + shapes.REDUCE + shapes.RECURRENT + shapes.MASKS + ("single", "ninf", "add", "replace"))
    for word in every:
        assert re.search(rf"\b{word}\b", text), word
    for role in {r for _, _, _, params in shapes.OPS.values() for r in params} - {"value", "weight", "b_input", "b_hidden"}:
        assert re.search(rf"\b{role}\b", text), role
    for listed in re.findall(r"# \[6\] (relu .*)", text):
        assert tuple(listed.split()) == shapes.UNARY_PLAIN


def test_the_first_model_is_written_as_shown(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    cities = [f"city {i}" for i in range(998)]
    cities[2], cities[6] = "Rome", "Oslo"  # ids 3 and 7 of the golden rows
    given = {"city_weights": rng.normal(size=(1000, 3)), "visit_weights": rng.normal(size=(500, 2)).astype(np.float16),
             "w0": rng.normal(size=(4, 6)), "b0": rng.normal(size=4), "w1": rng.normal(size=(1, 4)), "b1": rng.normal(size=1)}
    f = {k: v.astype(np.float32).astype(np.float64) for k, v in given.items()}
    x = np.array([[*f["city_weights"][3], *f["visit_weights"][[1, 2]].mean(axis=0), 0.1], [*f["city_weights"][7], 0, 0, -1.2]])
    z = np.maximum(x @ f["w0"].T + f["b0"], 0) @ f["w1"].T + f["b1"]
    exec(code("By hand"), {"cities": cities, "p": 1 / (1 + np.exp(-z)), "z": z, **given})  # noqa: S102
    with Bundle(tmp_path / "ctr.h5") as bundle:
        bundle.verify_digests()
        assert bundle.name == "ctr"


def test_gates_lie_as_in_torch():
    torch = pytest.importorskip("torch")
    torch.manual_seed(6)
    gru = torch.nn.GRU(2, 4, batch_first=True)
    b = Builder("gru")
    e = b.reshape(b.input(b.dense("x", 10)), [5, 2])
    weights = [p.detach().numpy() for p in (gru.weight_ih_l0, gru.weight_hh_l0, gru.bias_ih_l0, gru.bias_hh_l0)]
    last = b.recurrent(e, b.const(np.ones(5)), *weights)
    for i in range(4):
        b.head(f"h{i}", b.slice(last, i, i + 1))
    x = np.random.default_rng(1).standard_normal((7, 10)).astype(np.float32)
    got = Executor(b).run(Rows(dense=x))["value"]
    with torch.no_grad():
        want = gru.double()(torch.from_numpy(x.reshape(7, 5, 2)).double())[1][0].numpy()
    np.testing.assert_allclose(np.stack([got[f"h{i}"] for i in range(4)], axis=1), want, rtol=1e-12, atol=1e-12)


def oracle(v, items, visits):
    """Logits in torch's float64, row by row, with the items that a row has and no padding."""
    torch = pytest.importorskip("torch")
    f = torch.nn.functional
    named = ("items", "w1", "b1", "slope", "w2", "b2", "w3", "b3")
    w = {k: torch.from_numpy(np.asarray(v[k], np.float32).astype(np.float64)) for k in named}
    out = []
    for item, bag in zip(items, visits):
        query = w["items"][item if 0 <= item < 50 else 49]
        interest = torch.zeros(v["D"], dtype=torch.float64)
        if bag:
            keys = w["items"][[i if 0 <= i < 50 else 49 for i in bag[-v["T"]:]]]
            asked = query.expand_as(keys)
            hidden = f.prelu(f.linear(torch.cat([asked, keys, asked - keys, asked * keys], dim=1), w["w1"], w["b1"]), w["slope"])
            interest = torch.softmax(f.linear(hidden, w["w2"], w["b2"])[:, 0], dim=0) @ keys
        out.append(f.linear(torch.cat([query, interest]), w["w3"], w["b3"]).item())
    return np.array(out)


def test_the_attention_model_equals_torch(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names, checked = run("A model with attention")
    assert checked >= 10
    rng = np.random.default_rng(2)
    rows = {key: list(value) for key, value in names["rows"].items()}
    rows["item"] += rng.integers(-3, 60, 40).tolist()
    rows["visits"] += [rng.integers(-3, 60, rng.integers(0, 13)).tolist() for _ in range(40)]
    want = oracle(names, rows["item"], rows["visits"])
    with Bundle(tmp_path / "din.h5") as bundle:
        bundle.verify_digests()
        run_rows = Executor(bundle).run(Rows.from_columns(bundle, rows))
        golden = np.array(bundle.golden["logit"])[:, 0]
    np.testing.assert_allclose(run_rows["logit"]["ctr"], want, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(run_rows["value"]["ctr"], 1 / (1 + np.exp(-want)), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(golden, want[:len(golden)], rtol=1e-6, atol=1e-6)
