"""The op Attention: what Builder refuses, its numpy value against torch, and what from_torch and from_onnx recognise it in."""

import io
import pathlib
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import attention_models as models  # noqa: E402
from attention_models import VOCAB, Block, Encoder, Hstu, T, sdpa, softmax  # noqa: E402
from dpi_export import Builder, Bundle, BundleError, Executor, Rows, from_onnx, from_torch  # noqa: E402
from dpi_export.trace import attention  # noqa: E402

FEATURES = {"hist": {"kind": "sequence", "vocab_size": VOCAB, "max_len": T, "pad_id": 0}}
PER_PAIR = torch.randn(T, T, generator=torch.Generator().manual_seed(3))
LINE = torch.randn(2 * T - 1, generator=torch.Generator().manual_seed(4))
DIAGONALS = LINE[torch.arange(T) - torch.arange(T)[:, None] + T - 1]


@pytest.fixture
def always(monkeypatch):
    """Attention wherever it is found, not only where the engine would not find it."""
    monkeypatch.setattr(attention, "ENGINE_NUMBERS", 1)


def histories(least=1, seed=0):
    """Lengths `least` to T, padded behind."""
    rng = np.random.default_rng(seed)
    x = rng.integers(1, VOCAB, (12, T))
    for row, length in enumerate([least, T, *rng.integers(least, T + 1, 10)]):
        x[row, length:] = 0
    return torch.from_numpy(x)


def exported(model, path, least=1, onnx=False):
    """(attributes of the Attention ops, version) after the scores of other rows were compared with torch."""
    model, rows = model.eval(), histories(least)
    if onnx:
        data = io.BytesIO()
        torch.onnx.export(model, (rows[:3],), data, input_names=["hist"], output_names=["ctr"], dynamic_axes={"hist": {0: "n"}}, opset_version=14)
        from_onnx(data.getvalue(), path, features=FEATURES, rows={"hist": rows.numpy()})
    else:
        from_torch(model, path, features=FEATURES, example=rows, rows=rows)
    others = histories(least, 1)
    with torch.no_grad():
        want = model.double()(others).reshape(-1).numpy()
    with Bundle(path) as bundle:
        bags = [row[row != 0] for row in others.numpy()]
        for dtype, bound in ((np.float64, 1e-6), (np.float32, 1e-5)):
            got = Executor(bundle, dtype).run(Rows.from_columns(bundle, {"hist": bags}))["value"]["ctr"]
            np.testing.assert_allclose(got, want, rtol=0, atol=bound)
        return [op["attrs"] for op in bundle.ops if op["op"] == "Attention"], bundle.manifest["version"]


INFINITE, FAR = -np.inf, -1e9
#: name -> (model, the shortest history, what Attention is to say)
SOFTMAX = {
    **{f"{heads} heads": (lambda heads=heads: Block(heads, softmax()), 1, {"heads": heads, "mask": "keys", "empty": None}) for heads in (2, 4, 8)},
    "one head": (lambda: Block(1, softmax()), 1, {"mask": "keys", "empty": None, "scale": 0.25}),
    "filled far below": (lambda: Block(2, softmax(FAR)), 0, {"heads": 2, "mask": "keys", "empty": "mean"}),
    "causal": (lambda: Block(2, softmax(INFINITE, causal=True)), 1, {"heads": 2, "mask": "keys", "causal": True}),
    "causal, far below": (lambda: Block(2, softmax(FAR, causal=True)), 0, {"heads": 2, "mask": "keys", "causal": True, "empty": "mean"}),
    "by matmul": (lambda: Block(2, softmax(by="matmul", factor=0.3)), 1, {"heads": 2, "mask": "keys"}),
    "no mask": (lambda: Block(2, softmax(None)), 0, {"heads": 2}),
    "a bias": (lambda: Block(2, softmax(bias=PER_PAIR)), 1, {"heads": 2, "mask": "keys", "bias": "pairs"}),
    "a relative bias": (lambda: Block(2, softmax(bias=DIAGONALS)), 1, {"heads": 2, "mask": "keys", "bias": "relative"}),
    "a bias of heads": (lambda: Block(2, softmax(bias=torch.stack([DIAGONALS, -DIAGONALS]))), 1, {"heads": 2, "mask": "keys", "bias": "relative"}),
    "MultiheadAttention": (lambda: Encoder(4, False), 1, {"heads": 4, "mask": "keys"}),
    "MultiheadAttention, causal": (lambda: Encoder(4, True), 1, {"heads": 4, "mask": "keys", "causal": True}),
    "MultiheadAttention, positions first": (lambda: Encoder(2, True, False), 1, {"heads": 2, "mask": "keys", "causal": True}),
}
POINTWISE = {
    **{f"{heads} heads": (lambda heads=heads: Hstu(heads), 0, {"heads": heads, "bias": "relative", "causal": True, "mask": "keys"}) for heads in (2, 4)},
    "one head": (lambda: Hstu(1), 0, {"bias": "relative", "causal": True, "mask": "keys", "divisor": float(T)}),
    "no bias": (lambda: Hstu(2, bias=False), 0, {"heads": 2, "causal": True, "mask": "keys"}),
    "not causal": (lambda: Hstu(2, mask="none"), 0, {"heads": 2, "mask": "keys"}),
    "candidates": (lambda: Hstu(2, mask="candidates", last=3), 0, {"causal": True, "candidates": 3, "mask": "keys"}),
}


def says(found, want):
    """Attributes of one op hold these."""
    assert len(found) == 1 and {key: found[0].get(key) for key in want} == want, found


@pytest.mark.parametrize("name", SOFTMAX)
@pytest.mark.filterwarnings("ignore:.*output is NaN")
def test_softmax_is_recognised(name, tmp_path, always):
    make, least, want = SOFTMAX[name]
    found, version = exported(make(), tmp_path / "m.h5", least)
    says(found, want)
    assert "form" not in found[0] and version == [2, 2]


@pytest.mark.parametrize("name", POINTWISE)
def test_pointwise_attention_is_recognised(name, tmp_path):
    make, least, want = POINTWISE[name]
    found, version = exported(make(), tmp_path / "m.h5", least)
    says(found, {**want, "form": "silu"})
    assert version == [2, 2]


def first_counts(q, k, v, valid):
    """A mask that is joined of parts, as torch.nn.functional.pad makes it."""
    counts = torch.nn.functional.pad(valid[:, 1:].to(v.dtype), (1, 0), value=1.0)
    return torch.nn.functional.silu(q @ k.transpose(-1, -2)) / T * counts[:, None, None] @ v


def test_a_joined_mask(tmp_path):
    says(exported(Block(2, first_counts), tmp_path / "m.h5", 0)[0], {"form": "silu", "mask": "keys", "divisor": float(T)})


class WithItem(torch.nn.Module):
    """A history and the candidate behind it as one sequence."""

    def __init__(self):
        super().__init__()
        self.items, self.out = torch.nn.Embedding(VOCAB, 4), torch.nn.Linear(4, 1)

    def forward(self, hist, item):
        x = torch.cat([self.items(hist), self.items(item).unsqueeze(1)], 1)
        return torch.sigmoid(self.out(torch.relu(x).sum(1)))


@pytest.mark.parametrize("space", ["shared", "item"])
def test_users_are_joined_with_rows_by_position(space, tmp_path):
    """So that the engine sees where the user's positions end; without users one flat join is what it knows best."""
    rows = {"hist": histories(), "item": torch.arange(12)}
    described = {"hist": {**FEATURES["hist"], "space": space}, "item": {"vocab_size": VOCAB}}
    from_torch(WithItem(), tmp_path / "m.h5", features=described, example=rows, rows=rows)
    with Bundle(tmp_path / "m.h5") as bundle:
        joins = [op.get("attrs", {}).get("axis", -1) for op in bundle.ops if op["op"] == "Concat"]
    assert joins == [0 if space == "shared" else -1]


def test_layers(tmp_path):
    found, _ = exported(Hstu(2, layers=3), tmp_path / "m.h5", 0)
    assert len(found) == 3 and all(a["form"] == "silu" for a in found)


@pytest.mark.skipif(not hasattr(torch.nn.functional, "scaled_dot_product_attention"), reason="torch 1.13 has none")
@pytest.mark.parametrize("causal", [False, True])
def test_scaled_dot_product_attention(causal, tmp_path, always):
    says(exported(Block(4, sdpa(causal)), tmp_path / "m.h5", 1)[0], {"heads": 4, "causal": True} if causal else {"heads": 4, "mask": "keys"})


@pytest.mark.parametrize("name", ["pointwise", "softmax"])
def test_from_onnx(name, tmp_path, always):
    pytest.importorskip("onnx")
    model = Hstu(2) if name == "pointwise" else Block(2, softmax(FAR, causal=True))
    found, _ = exported(model, tmp_path / "m.h5", 0, onnx=True)
    says(found, {"heads": 2, "causal": True, "mask": "keys"})


def test_short_sequences_stay_primitives(tmp_path):
    """The engine makes one op of them by itself, and readers of format 2.0 take the file."""
    assert exported(Block(2, softmax()), tmp_path / "m.h5") == ([], [2, 0])


def near(q, k, v, valid):
    return torch.softmax((q @ k.transpose(-1, -2)).masked_fill(~valid[:, None, None], -1.0), -1) @ v


def by_query(q, k, v, valid):
    return (torch.softmax(q @ k.transpose(-1, -2), 2)) @ v


def read_twice(q, k, v, valid):
    scores = q @ k.transpose(-1, -2)
    return torch.softmax(scores, -1) @ v + scores.mean(-1, keepdim=True)


def weights_read(q, k, v, valid):
    weights = torch.softmax(q @ k.transpose(-1, -2), -1)
    return weights @ v + weights[..., :1]


def scaled_after_bias(q, k, v, valid):
    return torch.softmax((q @ k.transpose(-1, -2) + PER_PAIR) * 0.5, -1) @ v


def mask_of_heads(q, k, v, valid):
    left = torch.stack([torch.ones(T, T), torch.tril(torch.ones(T, T))])
    return torch.nn.functional.silu(q @ k.transpose(-1, -2)) * left @ v


@pytest.mark.parametrize("attend", [near, by_query, read_twice, weights_read, scaled_after_bias, mask_of_heads])
def test_what_is_no_attention_stays_primitives(attend, tmp_path, always):
    assert exported(Block(2, attend), tmp_path / "m.h5") == ([], [2, 0])


def test_long_bags_are_cut(tmp_path):
    """Of a bag that is longer than max_len the last ones count, as the feature says."""
    model = Hstu(2).eval()
    rows = histories()
    from_torch(model, tmp_path / "m.h5", example=rows, rows=rows, features={"hist": {**FEATURES["hist"], "keep": "last"}})
    bag = np.arange(1, T + 6)
    with Bundle(tmp_path / "m.h5") as bundle, torch.no_grad():
        got = Executor(bundle).run(Rows.from_columns(bundle, {"hist": [bag]}))["value"]["ctr"]
        np.testing.assert_allclose(got, model.double()(torch.from_numpy(bag[-T:])[None]).reshape(-1).numpy(), atol=1e-6)


@pytest.mark.parametrize(("given", "text"), [
    ({"heads": 3}, "not a multiple of 3 heads"), ({"heads": 17}, "expected 1 to 16"), ({"form": "relu"}, "expected one of"),
    ({"divisor": 2.0}, "divisor is for form silu"), ({"form": "silu", "empty": "mean"}, "empty is for form softmax"),
    ({"form": "silu", "divisor": 0.0}, "expected a number above 0"), ({"candidates": 6}, "expected 0 to 5"), ({"mask": "four"}, r"mask is \[4\], expected \[5\]"),
    ({"bias": "four"}, r"bias is \[4\], expected \[5, 5\]"), ({"k": "four by four"}, r"expected as many"), ({"bias": "four", "relative": True}, r"expected \[9\]"),
])
def test_builder_refuses(given, text):
    b = Builder("m")
    for name, dims in (("x", [5, 4]), ("four", [4]), ("four by four", [4, 4])):
        b.reshape(b.input(b.dense(f"{name} flat", dim=int(np.prod(dims)))), dims, name=name)
    with pytest.raises(BundleError, match=text):
        b.attention("x", given.pop("k", "x"), "x", **given)


def test_candidates_are_positions_of_one_sequence():
    b = Builder("m")
    q, k = (b.reshape(b.input(b.dense(f"d{n}", dim=4 * n)), [n, 4]) for n in (3, 5))
    with pytest.raises(BundleError, match="3 queries, 5 keys"):
        b.attention(q, k, k, candidates=1)
    with pytest.raises(BundleError, match="16385 positions, 16384 are the most"):
        many = b.const(np.zeros((16385, 4)))
        b.attention(many, k, k)


@pytest.mark.parametrize("keys", [1, 600, 16384])
def test_numpy_value_is_torchs(keys):
    """In tiles, against torch in float64; 16,384 keys and queries that are fewer."""
    rng, n = np.random.default_rng(keys), min(keys, 5)
    b, heads = Builder("m"), 2
    q, k, v, line = (rng.normal(size=s) for s in ((n, 6), (keys, 6), (keys, 4), (n + keys - 1,)))
    y = b.attention(*(b.const(x) for x in (q, k, v)), bias=b.const(line), relative=True, heads=heads, scale=0.5, causal=True)
    b.head("ctr", b.add(b.slice(b.reshape(b.reduce("sum", y, axis=0), [4]), 0, 1), b.input(b.numeric("x"))))
    found = Executor(b).run(Rows.from_columns(b, {"x": [0.0]}), keep=True)["ops"][y][0]
    tq, tk, tv, tl = (torch.from_numpy(x.astype(np.float32)).double() for x in (q, k, v, line))
    s = 0.5 * torch.einsum("nhd,mhd->hnm", tq.view(n, 2, 3), tk.view(keys, 2, 3)) + tl[torch.arange(keys) - torch.arange(n)[:, None] + n - 1]
    s = s.masked_fill(torch.arange(keys) > torch.arange(n)[:, None], -np.inf)
    want = torch.einsum("hnm,mhd->nhd", torch.softmax(s, -1), tv.view(keys, 2, 2)).reshape(n, 4)
    np.testing.assert_allclose(found, want.numpy(), rtol=1e-9, atol=1e-12)


def test_a_file_that_states_less_is_refused(tmp_path, monkeypatch):
    b = Builder("m")
    x = b.reshape(b.input(b.dense("x", dim=8)), [4, 2])
    b.head("ctr", b.reduce("sum", b.reduce("sum", b.attention(x, x, x), axis=0), keepdim=True))
    b.write(tmp_path / "m.h5")
    assert Bundle(tmp_path / "m.h5").manifest["version"] == [2, 2]
    monkeypatch.setattr("dpi_export.bundle.versions._LATER", {})
    b.write(tmp_path / "old.h5", check=None)
    monkeypatch.undo()
    with pytest.raises(BundleError, match=r"\(Attention\): needs format 2.2, the file says 2.0"):
        Bundle(tmp_path / "old.h5")


def test_masks_of_models():
    assert models.masks("candidates", 3)[-2].tolist() == [1] * 8 + [0, 1, 0]
