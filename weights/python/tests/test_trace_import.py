"""from_torch and explain: forms of inputs, features, heads, row spaces, encoders, and what a caller can get wrong."""

import re

import numpy as np
import pytest

torch = pytest.importorskip("torch")
nn = torch.nn

from dpi_export import Bundle, BundleError, Encoder, Executor, Rows, UnsupportedModelError, encoders, explain, from_torch  # noqa: E402
from dpi_export.bundle.golden import compare_golden  # noqa: E402
from dpi_export.importers.torch_import import TorchImport  # noqa: E402
from dpi_export.trace import lower_table  # noqa: E402
from dpi_export.trace.normalise import from_builder, reachable  # noqa: E402
from program import program  # noqa: E402


class Small(nn.Module):
    """One id, one number."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.table, self.head = nn.Embedding(9, 3), nn.Linear(4, 1)

    def forward(self, item, price):
        return torch.sigmoid(self.head(torch.cat([self.table(item.long()), price.view(-1, 1)], dim=1)))


class OfDict(Small):
    def forward(self, inputs):
        return super().forward(inputs["item"], inputs["price"])


class OfMatrix(Small):
    def forward(self, x):
        return super().forward(x[:, 1], x[:, 0:1])


ITEM, PRICE = torch.tensor([3, 7, 0, 8]), torch.tensor([0.5, -1.0, 2.0, 0.0])
#: model, example, features: one model in every form that inputs come in
FORMS = {
    "arguments": (Small, (ITEM, PRICE), {"item": {"table": "table"}, "price": {}}),
    "keywords": (Small, {"item": ITEM, "price": PRICE}, {"item": {"table": "table"}, "price": {}}),
    "a dict": (OfDict, {"item": ITEM, "price": PRICE}, {"item": {"vocab_size": 9}, "price": {}}),
    "a dict of columns": (OfDict, {"item": ITEM[:, None][:, 0], "price": PRICE[:, None]}, {"item": {"vocab_size": 9}, "price": {}}),
    "one matrix": (OfMatrix, torch.stack([PRICE, ITEM.float()], 1), {
        "item": {"columns": 1, "vocab_size": 9}, "price": {"columns": (0, 1)}}),
    "other names": (OfDict, {"item": ITEM, "price": PRICE}, {"a": {"vocab_size": 9, "input": "item"}, "b": {"input": "price"}}),
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_inputs(form, tmp_path):
    model, example, features = FORMS[form]
    from_torch(model(), tmp_path / "m.h5", features=features, example=example)
    item, price = features
    with torch.no_grad():
        want = Small()(ITEM, PRICE)[:, 0].numpy()
    with Bundle(tmp_path / "m.h5") as bundle:
        assert bundle.golden["n"] == 4 and np.abs(bundle.golden["value"][:, 0] - want).max() <= 1e-6
        rows = Rows.from_columns(bundle, {item: ITEM.tolist(), price: PRICE.tolist()})
        assert np.abs(Executor(bundle).run(rows)["value"]["ctr"] - want).max() <= 1e-6


def test_call_and_outputs(tmp_path):
    def call(model, inputs):
        p = model(inputs["item"], inputs["price"])
        return p, 1 - p, torch.cat([p, p * p], dim=1)

    from_torch(Small(), tmp_path / "m.h5", features={"item": {"table": "table"}, "price": {}}, example={"item": ITEM, "price": PRICE},
               call=call, outputs=["click", "skip", "both"])
    with Bundle(tmp_path / "m.h5") as bundle:
        assert [h["name"] for h in bundle.heads] == ["click", "skip", "both[0]", "both[1]"]
        assert [h["activation"] for h in bundle.heads] == ["sigmoid", "identity", "sigmoid", "identity"]
        run = Executor(bundle).run(bundle.golden["rows"])["value"]
        assert np.abs(run["click"] + run["skip"] - 1).max() <= 1e-6 and np.abs(run["click"] ** 2 - run["both[1]"]).max() <= 1e-6


def test_entries_of_one_output_by_name(tmp_path):
    """A score that is a sigmoid has a logit whatever stands beside it."""
    def call(model, inputs):
        p = model(inputs["item"], inputs["price"])
        return torch.cat([p, 2 * p, p], dim=1)

    given = {"features": {"item": {"table": "table"}, "price": {}}, "example": {"item": ITEM, "price": PRICE}, "call": call}
    from_torch(Small(), tmp_path / "m.h5", outputs=["click", "twice", "again"], **given)
    with Bundle(tmp_path / "m.h5") as bundle:
        assert [(h["name"], h["activation"]) for h in bundle.heads] == [("click", "sigmoid"), ("twice", "identity"), ("again", "sigmoid")]
        run, golden = Executor(bundle).run(bundle.golden["rows"]), bundle.golden
        assert np.abs(run["logit"]["again"] - golden["logit"][:, 2]).max() <= 1e-5
        assert np.abs(run["logit"]["twice"] - golden["value"][:, 1]).max() <= 1e-6
    with pytest.raises(ValueError, match="outputs: 2 names for 3 scores"):
        from_torch(Small(), tmp_path / "n.h5", outputs=["click", "twice"], **given)


def test_tables_keep_the_types_of_their_weights(tmp_path):
    """As an import by hand keeps them; a table whose rows became other numbers is stored as float32."""
    class Short(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(2)
            self.a, self.b, self.c = nn.Embedding(9, 3).half(), nn.Embedding(7, 3).to(torch.bfloat16), nn.Embedding(5, 3)

        def forward(self, a, b, c):
            return (self.a(a).float() * self.b(b).float() * self.c(c)).sum(1)

    ids = {"a": torch.tensor([1, 8]), "b": torch.tensor([0, 6]), "c": torch.tensor([2, 4])}
    from_torch(Short(), tmp_path / "m.h5", features={name: {"table": name} for name in ids}, example=ids)
    with Bundle(tmp_path / "m.h5") as bundle:
        assert {table["name"]: table["dtype"] for table in bundle.tables} == {"a": "f16", "b": "bf16", "c": "f32"}


def test_rules_encoders_and_spaces_are_the_bundles(tmp_path):
    words = ["", "tea", "rye", "oat", "fig", "hop", "nut", "egg", "ham"]
    features = {"item": {"table": "table", "out_of_range": "oov", "oov_id": 0, "space": "shared"},
                "price": {"missing": "default", "default": 1.5}}
    from_torch(Small(), tmp_path / "m.h5", features=features, example=(ITEM, PRICE), name="shop", metrics={"auc": 0.7}, table_dtype="f16",
               provenance={"data": "a shop's own", "framework": "another"},
               encoders={"item": Encoder([encoders.vocab_string(words[1:])]), "price": Encoder([encoders.to_float()])})
    with Bundle(tmp_path / "m.h5") as bundle:
        item, price = bundle.features
        assert (item["oov_id"], item["space"], price["default"]) == (0, "shared", 1.5)
        assert bundle.tables[0]["dtype"] == "f16" and bundle.manifest["provenance"]["metrics"] == {"auc": 0.7}
        assert bundle.manifest["provenance"]["data"] == "a shop's own" and bundle.manifest["provenance"]["framework"].startswith("torch")
        assert bundle.golden["raw"] is not None and bundle.manifest["name"] == "shop"


def test_what_the_model_does_not_read_is_left_out(tmp_path):
    features = {"item": {"table": "table"}, "price": {}, "unread": {"vocab_size": 4}}
    from_torch(OfDict(), tmp_path / "m.h5", features=features, example={"item": ITEM, "price": PRICE, "unread": ITEM % 4})
    with Bundle(tmp_path / "m.h5") as bundle:
        assert [f["name"] for f in bundle.features] == ["item", "price"]


WRONG = [
    ({"item": {}, "price": {}}, "feature 'item': give vocab_size=, or table="),
    ({"item": {"table": "head"}, "price": {}}, "'head' is no nn.Embedding"),
    ({"item": {"table": "table"}, "cost": {}}, "the example has no input 'cost', only 'item', 'price'"),
    ({"item": {"table": "table"}, "price": {"kind": "money"}}, "kind is 'money'"),
    ({"item": {"table": "table"}}, "reads entry 0 of input 'price', which features= does not describe"),
    ({"item": {"table": "table"}, "price": {"kind": "length", "of": "item"}}, "is no sequence feature"),
    ({"item": {"vocab_size": 11}, "price": {}}, "own forward fails on rows within the vocabularies: IndexError"),
    ({"item": {"table": "table", "hue": 1}, "price": {}}, "feature 'item': a categorical feature has no rule 'hue' (rules: out_of_range, oov_id, "),
    ({"item": {"table": "table", "out_of_rnage": "oov"}, "price": {}}, "has no rule 'out_of_rnage', did you mean 'out_of_range'?"),
    ({"item": {"table": "table"}, "price": {"misssing": "default"}}, "feature 'price': a numeric feature has no rule 'misssing', did you mean 'missing'?"),
    ({"item": {"table": "table", "default": 0}, "price": {}}, "a categorical feature has no rule 'default', did you mean 'default_id'?"),
    ({"item": {"tabel": "table"}, "price": {}}, "has no rule 'tabel', did you mean 'table'?"),
]


@pytest.mark.parametrize("features, text", WRONG, ids=[t for _, t in WRONG])
def test_wrong_features(features, text, tmp_path):
    with pytest.raises(ValueError, match=re.escape(text)):
        from_torch(Small(), tmp_path / "m.h5", features=features, example={"item": ITEM, "price": PRICE})
    assert not (tmp_path / "m.h5").exists()


REFUSED = [
    (lambda m: m.double(), "is torch.float64"), (lambda m: m.table.weight.data[2, 1].fill_(float("nan")), "holds NaN"),
    (lambda m: setattr(m.head.weight, "data", m.head.weight.data * float("inf")), "holds NaN or infinity"),
]


@pytest.mark.parametrize("change, text", REFUSED, ids=[t for _, t in REFUSED])
def test_weights_that_are_refused(change, text, tmp_path):
    model = Small()
    change(model)
    with pytest.raises(UnsupportedModelError, match=text):
        from_torch(model, tmp_path / "m.h5", features=FORMS["arguments"][2], example=(ITEM, PRICE))


@pytest.mark.parametrize("name, op", [("add", "mul"), ("sigmoid", "tanh"), ("native_layer_norm", "_softmax")])
def test_a_wrong_line_in_the_table_is_caught(name, op, tmp_path, monkeypatch):
    """A planted fault in the lowering: the run beside the model shows it, and nothing is written."""
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Tanh(), nn.Linear(4, 1), nn.Sigmoid())
    handler = lower_table.TABLE[op]
    if name == "native_layer_norm":
        monkeypatch.setitem(lower_table.TABLE, name, lambda lower, node: [lower.floats(node.args[0]), None, None])
    else:
        monkeypatch.setitem(lower_table.TABLE, name, handler)
    with pytest.raises(UnsupportedModelError, match="check"):
        from_torch(Doubled(model), tmp_path / "m.h5", features={"x": {}}, example={"x": torch.randn(4, 3)})
    assert not (tmp_path / "m.h5").exists()


class Doubled(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x) + x[:, :1]


class OfHistory(nn.Module):
    """body(self, ids) of a history."""

    def __init__(self, table, body):
        super().__init__()
        torch.manual_seed(2)
        self.items, self.head, self.body = table, nn.Linear(4, 1), body

    def forward(self, h):
        return self.head(self.body(self.items(h)).float())


SHORT = [
    (lambda: nn.Embedding(9, 4, max_norm=1.0), lambda e: e.sum(1), "layer 'items': max_norm=1.0"),
    (lambda: nn.EmbeddingBag(9, 4, max_norm=1.0, mode="sum"), lambda e: e, "layer 'items': max_norm=1.0"),
    (lambda: nn.Embedding(9, 4).bfloat16(), lambda e: e.sum(1), r"aten\.sum.* at test_trace_import\.py:\d+: computes in torch.bfloat16"),
    (lambda: nn.Embedding(9, 4), lambda e: e.bfloat16().sum(1), r"aten\._to_copy.*: computes in torch.bfloat16"),
    (lambda: nn.Embedding(9, 4).half(), lambda e: (e * e).sum(1), r"aten\.mul.*: computes in torch.float16"),
]


@pytest.mark.parametrize("table, body, text", SHORT, ids=[text for _, _, text in SHORT])
def test_short_floats_and_max_norm_are_refused(table, body, text, tmp_path):
    with pytest.raises(UnsupportedModelError, match=text):
        from_torch(OfHistory(table(), body), tmp_path / "m.h5", features={"h": {"vocab_size": 9}}, example={"h": ITEM.view(2, 2)})


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_tables_of_short_floats_are_carried_over(dtype, tmp_path):
    model, rows = OfHistory(nn.Embedding(9, 4).to(dtype), lambda e: e.float().sum(1)), {"h": ITEM.view(2, 2)}
    from_torch(model, tmp_path / "m.h5", features={"h": {"vocab_size": 9}}, example=rows)
    with torch.no_grad(), Bundle(tmp_path / "m.h5") as bundle:
        got = Executor(bundle).run(Rows.from_columns(bundle, {"h": rows["h"].tolist()}))["value"]["ctr"]
        assert np.abs(got - model(rows["h"])[:, 0].numpy()).max() <= 1e-6


def test_quantized_layers_are_refused(tmp_path):
    model = torch.quantization.quantize_dynamic(nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1)), {nn.Linear})
    with pytest.raises(UnsupportedModelError, match="layer '0': is quantized"):
        from_torch(model, tmp_path / "m.h5", features={"x": {}}, example=torch.randn(2, 3))


class OfLength(nn.Module):
    """A mean and a masked sum by a length, with padding on either side."""

    def __init__(self, side):
        super().__init__()
        torch.manual_seed(4)
        self.side, self.items, self.head = side, nn.Embedding(9, 4), nn.Linear(4, 1)

    def forward(self, h, n):
        at, n = torch.arange(3), n.unsqueeze(1)
        inside = (at >= 3 - n) if self.side == "pre" else (at < n)
        e = self.items(h) * inside.unsqueeze(2)
        return self.head(e.sum(1) / n.clamp(min=1).float() + e[:, -1] + torch.sqrt(n.float()))


@pytest.mark.parametrize("side", ["pre", "post"])
def test_a_length_with_padding_on_either_side(side, tmp_path):
    h = torch.tensor([[0, 0, 3], [0, 2, 8], [1, 2, 3], [0, 0, 0]])
    rows = {"h": h if side == "pre" else h.flip(1), "n": torch.tensor([1, 2, 3, 0])}
    model = OfLength(side)
    from_torch(model, tmp_path / "m.h5", features={"h": {"vocab_size": 9, "pad_side": side}, "n": {"kind": "length", "of": "h"}},
               example=rows)
    columns = {"h": [[i for i in row if i] for row in rows["h"].tolist()]}
    with torch.no_grad(), Bundle(tmp_path / "m.h5") as bundle:
        got = Executor(bundle).run(Rows.from_columns(bundle, columns))["value"]["ctr"]
        assert np.abs(got - model(**rows)[:, 0].numpy()).max() <= 1e-6


@pytest.mark.parametrize("after, low", [(lambda p: torch.clamp(p, 1e-6, 1 - 1e-6), 0), (lambda p: p.clamp_(0.3, 0.7), 0.3),
                                        (lambda p: p.mul_(0.5), 0), (lambda p: p * 1.0, 0)])
def test_what_is_done_to_a_sigmoid_is_a_score_of_its_own(after, low, tmp_path):
    class Bounded(Small):
        def forward(self, item, price):
            return after(super().forward(item, price))

    from_torch(Bounded(), tmp_path / "m.h5", features=FORMS["arguments"][2], example=(ITEM, PRICE))
    with torch.no_grad():
        want = Bounded()(ITEM, PRICE)[:, 0].numpy()
    with Bundle(tmp_path / "m.h5") as bundle:
        run = Executor(bundle).run(bundle.golden["rows"])
        assert np.abs(run["value"]["ctr"] - want).max() <= 1e-6 and run["value"]["ctr"].min() >= low


def test_equal_work_is_done_once():
    class Twice(Small):
        def forward(self, item, price):
            return super().forward(item, price) * super().forward(item, price)

    traced = TorchImport(Twice(), {"features": FORMS["arguments"][2], "example": (ITEM, PRICE)})
    builder = traced.build()
    assert [op["op"] for op in builder.ops].count("Embed") == 1 and [op["op"] for op in builder.ops].count("Linear") == 1
    assert len(reachable(from_builder(builder)[1])) == len(builder.ops)


def test_hooks_and_reparametrised_weights_are_what_they_do(tmp_path):
    model = Small()
    nn.utils.weight_norm(model.head)
    with torch.no_grad():
        model.head.weight_g.mul_(1.7)
    model.table.register_forward_hook(lambda m, i, o: o * 2)
    from_torch(model, tmp_path / "m.h5", features=FORMS["arguments"][2], example=(ITEM, PRICE))
    with torch.no_grad():
        want = model(ITEM, PRICE)[:, 0].numpy()
        assert np.abs(want - Small()(ITEM, PRICE)[:, 0].numpy()).max() > 1e-3
    with Bundle(tmp_path / "m.h5") as bundle:
        assert np.abs(Executor(bundle).run(bundle.golden["rows"])["value"]["ctr"] - want).max() <= 1e-6


def test_explain():
    found = explain(Small(), features=FORMS["arguments"][2], example=(ITEM, PRICE))
    rows = {row["layer"]: row for row in found.layers}
    assert rows["head"]["primitives"] == {"Linear": 1} and rows["head"]["flops"] == 2 * 4 + 1
    assert rows["table"]["primitives"]["Embed"] == 1 and rows["table"]["flops"] == 0
    assert found.flops == sum(row["flops"] for row in found.layers) == 2 * 4 + 1 + 1
    assert "head" in str(found) and "10 floating-point operations per row" in str(found)


def test_explain_says_what_the_engine_fuses():
    """Each op of the engine's plan stands in one row: a Dense for Linear and ReLU, a Tail for the last Linear and the sigmoid."""
    class Deep(Small):
        def __init__(self):
            super().__init__()
            self.hidden, self.act, self.out = nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 1)

        def forward(self, item, price):
            x = torch.cat([self.table(item), price.view(-1, 1)], 1)
            return torch.sigmoid(self.out(self.act(self.hidden(x))))

    given = {"features": FORMS["arguments"][2], "example": (ITEM, PRICE)}
    found = explain(Deep(), program=program(), **given)
    ops = {row["layer"]: row["ops"] for row in found.layers if row["ops"]}
    assert ops == {"(model)": {"Tail": 1}, "hidden": {"Dense": 1}, "(inputs)": {"MultiLookup": 1}}
    assert "1 Linear -> 1 Dense" in str(found) and found.flops == explain(Deep(), **given).flops
    assert all("ops" not in row for row in explain(Deep(), **given).layers)
    with pytest.raises((RuntimeError, OSError)):
        explain(Deep(), program="/bin/false", **given)


def test_explain_counts_each_layer_of_a_network():
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 1, bias=False))
    found = explain(model, features={"x": {}}, example=torch.randn(3, 6))
    assert [(row["layer"], row["flops"]) for row in found.layers] == [("(model)", 0), ("0", 8 * 13), ("1", 8), ("2", 0), ("3", 16)]
    with pytest.raises(ValueError, match="features= and example="):
        explain(model)


class Pooled(nn.Module):
    """A softmax over a history, NaN where it is empty."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.items = nn.Embedding(4, 2, padding_idx=0)

    def forward(self, history):
        e = self.items(history)
        share = e.sum(-1).masked_fill(history == 0, float("-inf")).softmax(1)
        return torch.sigmoid((share.unsqueeze(-1) * e).sum((1, 2)))


def test_rows_without_an_answer_are_left_out_with_their_raw_cells(tmp_path):
    encoder = Encoder([encoders.vocab_string(["tea", "rye", "oat"])], splitter="|")
    rows = {"history": torch.tensor([[1, 2, 0], [0, 0, 0], [3, 0, 0], [2, 2, 1]])}
    with pytest.warns(UserWarning, match=re.escape("NaN for 1 of 4 rows given (as a softmax over an empty bag is)")):
        from_torch(Pooled(), tmp_path / "m.h5", features={"history": {"table": "items", "out_of_range": "oov", "oov_id": 3}}, example=rows,
                   rows=rows, encoders={"history": encoder}, raw={"history": ["tea|rye", "", "oat", "rye|rye|tea"]})
    with Bundle(tmp_path / "m.h5") as bundle:
        assert bundle.golden["n"] == 3 and not np.isnan(bundle.golden["value"]).any()
        assert compare_golden(bundle)["failures"] == [] and compare_golden(bundle)["raw_rows"] == 3


GAPS = {"item": {"table": "table", "missing": "default", "default_id": 0}, "price": {"missing": "default"}}


def test_a_missing_number_is_named_as_what_it_is(tmp_path):
    rows = {"item": ITEM, "price": torch.tensor([0.5, float("nan"), 2.0, float("nan")])}
    says = "NaN for 2 of 4 rows given (a number is missing, that is NaN: 'price' in 2 of 4; "
    with pytest.warns(UserWarning, match=re.escape(says)) as told:
        from_torch(OfDict(), tmp_path / "m.h5", features=GAPS, example=rows, rows=rows)
    assert not any("empty bag" in str(w.message) for w in told)
    with Bundle(tmp_path / "m.h5") as bundle:
        assert bundle.golden["n"] == 2 and compare_golden(bundle)["failures"] == []


def test_missing_numbers_are_counted_among_the_rows_given_alone(tmp_path):
    """Golden rows that the exporter makes of encoders do not count as the caller's."""
    rows = {"item": ITEM, "price": torch.tensor([0.5, float("nan"), 2.0, 1.0])}
    with pytest.warns(UserWarning) as told:
        from_torch(OfDict(), tmp_path / "m.h5", features=GAPS, example=rows, rows=rows, encoders={"item": Encoder([encoders.vocab_string(WORDS)])})
    counts = [re.search(r"NaN for (.*?) \(", str(w.message)) for w in told]
    assert {found.group(1) for found in counts if found} == {"1 of 4 rows given"}
    with Bundle(tmp_path / "m.h5") as bundle:
        assert bundle.golden["n"] > 4 and compare_golden(bundle)["failures"] == []


class PooledAndPrice(Pooled):
    """Pooled, plus a number."""

    def forward(self, history, price):
        return torch.sigmoid(super().forward(history) + price)


def test_each_reason_for_nan_is_counted(tmp_path):
    rows = {"history": torch.tensor([[1, 2, 0], [0, 0, 0], [3, 0, 0], [2, 2, 1], [1, 0, 0]]), "price": torch.tensor([float("nan"), 1.0, 2.0, 3.0, float("nan")])}
    says = "NaN for 3 of 5 rows given (a number is missing, that is NaN: 'price' in 2 of 5; "
    with pytest.warns(UserWarning, match=re.escape(says) + ".*; 1 of them for another reason, as a softmax over an empty bag"):
        from_torch(PooledAndPrice(), tmp_path / "m.h5", features={"history": {"table": "items"}, "price": {"missing": "default"}}, example=rows, rows=rows)
    with pytest.warns(UserWarning, match=r"NaN for \d+ of 32 rows made for the check \(as a softmax over an empty bag is\)"):
        from_torch(PooledAndPrice(), tmp_path / "m.h5", features={"history": {"table": "items"}, "price": {"missing": "default"}}, example=rows, rows=rows)


#: the same cells in each form that a caller has them in, numbers with a gap among them
CELLS = {"item": ["tea", "oat", "", "rye"], "price": [0.5, -1.0, 2.0, None]}
WORDS = ["tea", "rye", "oat", "fig", "hop", "nut", "egg", "ham"]


def _series(pandas, name, index, dtype):
    return pandas.Series(CELLS[name], index=index, dtype=dtype)


@pytest.mark.parametrize("index", [[0, 1, 2, 3], [3, 2, 1, 0], [90, 91, 92, 93], [0, 0, 1, 1], list("abcd")], ids=str)
@pytest.mark.parametrize("types", [("object", "float64"), ("string", "Float64"), ("category", "float32")], ids=str)
def test_raw_columns_of_pandas_are_taken_by_position(index, types, tmp_path):
    pandas = pytest.importorskip("pandas")
    raw = {name: _series(pandas, name, index, dtype) for name, dtype in zip(CELLS, types)}
    ids = torch.tensor([1, 3, 0, 2])
    rows = {"item": ids, "price": torch.tensor([0.5, -1.0, 2.0, 0.0])}
    held = []
    for form in (CELLS, raw, pandas.DataFrame(raw), {name: column.to_numpy() for name, column in raw.items()}):
        from_torch(OfDict(), tmp_path / "m.h5", example=rows, rows=rows, raw=form,
                   features={"item": {"table": "table", "missing": "default", "default_id": 0}, "price": {"missing": "default"}},
                   encoders={"item": Encoder([encoders.vocab_string(WORDS)]), "price": Encoder([encoders.to_float()])})
        with Bundle(tmp_path / "m.h5") as bundle:
            held.append(bundle.golden["raw"])
            assert compare_golden(bundle) == {**compare_golden(bundle), "failures": [], "raw_rows": 4}
    assert held[0] == {"item": [["tea"], ["oat"], [""], ["rye"]], "price": [["0.5"], ["-1"], ["2"], [""]]} and held[1:] == held[:1] * 3


@pytest.mark.parametrize("raw, text", [([1], "raw: expected {feature: cells of the data file} or a DataFrame, not list"),
                                       ({"item": "tea"}, "raw: feature 'item': expected a list, an array or a Series"),
                                       ({"item": 3}, "a cell for each row, not int")], ids=str)
def test_raw_of_another_form_is_refused(raw, text, tmp_path):
    example = {"item": ITEM, "price": PRICE}
    with pytest.raises(BundleError, match=re.escape(text)):
        from_torch(OfDict(), tmp_path / "m.h5", features={"item": {"table": "table"}, "price": {}}, example=example, raw=raw)
