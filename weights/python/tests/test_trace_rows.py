"""What mixes rows, or depends on their number, is refused with operator, layer and source line; what only looks like it is not."""

import re

import numpy as np
import pytest

torch = pytest.importorskip("torch")
nn = torch.nn

from dpi_export import Bundle, Executor, Rows, UnsupportedModelError, from_torch  # noqa: E402
from dpi_export.trace import batch_axis, pair  # noqa: E402


class Model(nn.Module):
    """A Linear, and something that a test does to rows before it."""

    def __init__(self, before):
        super().__init__()
        torch.manual_seed(0)
        self.before, self.head = before, nn.Linear(3, 1)

    def forward(self, x):
        return torch.sigmoid(self.head(self.before(x)))


def export(before, path):
    from_torch(Model(before).eval(), path, features={"x": {}}, example={"x": torch.randn(5, 3)})


class Unbatched(nn.MultiheadAttention):
    """Of two dims, torch takes the first for positions."""

    def __init__(self):
        super().__init__(3, 1)

    def forward(self, x):
        return super().forward(x, x, x)[0]


class UnbatchedGru(nn.GRU):
    """As Unbatched."""

    def forward(self, x):
        return super().forward(x)[0]


def softmax_of_heads(x):
    """[B, 3] as [3, B, 1] and a softmax over what looks like positions."""
    return torch.softmax(x.t().unsqueeze(-1), dim=1).squeeze(-1).t()


def in_place(x):
    y = x.clone()
    y[0] = 0
    return y


def branch(x):
    return x * 2 if len(x) > 39 else x


def reads(x):
    return x * 2 if x.sum() > 0 else x


#: name -> (what is done to x, what the refusal says)
def kept(x, body, where=None):
    """body(rows whose first number is positive) in their places, zeros elsewhere."""
    rows, out = x[:, 0] > 0, torch.zeros_like(x)
    out[rows if where is None else where(x)] = body(x[rows])
    return out


MIXES = {
    "x - x.mean(0)": (lambda x: x - x.mean(0), "aten.mean.dim.*goes over dim 0, where the rows are"),
    "x - x.mean()": (lambda x: x - x.mean(), "aten.mean.default.*the rows are"),
    "x / x.sum(0)": (lambda x: x / x.sum(0, keepdim=True), "aten.sum.dim_IntList.*goes over dim 0"),
    "x / x.max(0)": (lambda x: x / x.max(0)[0], "aten.max.dim.*goes over dim 0"),
    "(x - mean) / std": (lambda x: x / x.std(0), "aten.std.*goes over dim 0"),
    "softmax over rows": (lambda x: torch.softmax(x, 0), "aten._softmax.*goes along dim 0, where the rows are"),
    "softmax over transposed rows": (softmax_of_heads, "aten._softmax.*goes along dim 1, where the rows are"),
    "cumsum": (lambda x: x.cumsum(0), "aten.cumsum.*goes along dim 0"),
    "flip": (lambda x: x.flip(0), "aten.flip.*goes along dim 0"),
    "roll": (lambda x: x.roll(1, 0), "aten.roll.*goes along dim 0"),
    "sort": (lambda x: x.sort(0)[0], "aten.sort.*goes along dim 0"),
    "topk": (lambda x: x - x.topk(1, 0)[0], "aten.topk.*goes along dim 0"),
    "gather": (lambda x: x.gather(0, (x > 0).long()), "aten.gather.*picks entries along dim 0"),
    "scatter": (lambda x: x.scatter(0, (x > 0).long(), x), "aten.scatter.*writes along dim 0, where the rows are"),
    "scatter_add": (lambda x: x.scatter_add(0, (x > 0).long(), x), "aten.scatter_add.*writes along dim 0, where the rows are"),
    "x @ x.T": (lambda x: (x @ x.t()) @ x, "aten.mm.*multiplies rows with other rows"),
    "x.T @ x": (lambda x: x @ (x.t() @ x), "aten.mm.*multiplies rows with other rows"),
    "attention over rows": (lambda x: torch.bmm(x[None], x.t()[None]).squeeze(0) @ x, "aten.bmm.*multiplies rows with other rows"),
    "pairs of rows": (lambda x: (x[:, None] - x[None]).abs()[:, 0], "aten.sub.*rows meet other rows"),
    "first row": (lambda x: x - x[0], "aten.select.*takes one row, number 0"),
    "half the rows": (lambda x: torch.cat([x[:2], x[2:]]), "aten.slice.*takes some of the rows"),
    "a row in place": (in_place, "aten.select.*takes one row|aten.select_scatter.*writes into some of the rows"),
    "rows by index": (lambda x: x[torch.arange(len(x) - 1, -1, -1)], "aten.index.*where the rows are"),
    "torn rows": (lambda x: x.reshape(3, -1).t(), "tears rows apart|not one entry per row"),
    "batch norm of the batch": (nn.BatchNorm1d(3, track_running_stats=False), "aten.native_batch_norm.*statistics of the batch"),
    "layer norm over rows": (lambda x: nn.functional.layer_norm(x.t(), [x.shape[0]]).t(),
                             "aten.native_layer_norm.*computes with 37 where there are 37 rows"),
    "random": (lambda x: nn.functional.dropout(x, 0.5), "aten.(native_dropout|bernoulli).*it is random"),
    "one of the rows": (lambda x: x - x.unbind(0)[0], "aten.unbind.*takes the rows apart|depends on the number"),
    "blocks of 20": (lambda x: torch.cat(x.split(20)), "aten.split.*splits the rows|depends on the number"),
    "a row more": (lambda x: torch.cat([x, torch.zeros(1, 3)]), "aten.cat.*puts constant rows among the rows"),
    "sum by a product": (lambda x: x - torch.ones(1, len(x)) @ x, "aten.mm.*adds up over"),
    "sum by a product, transposed": (lambda x: x - (x.t() @ torch.ones(len(x), 1)).t(), "aten.mm.*adds up over dim 1, where the rows are"),
    "sum by bmm": (lambda x: x - torch.bmm(torch.ones(1, 1, len(x)), x[None])[0], "aten.bmm.*adds up over dim 1, where the rows are"),
    "triangle": (lambda x: x[None].tril()[0], "aten.tril.*triangle of a matrix that has the rows in it"),
    "Fourier transform": (lambda x: torch.fft.fft(x, dim=0).real, "aten._fft.*Fourier transform over the rows"),
    "a part replaced": (lambda x: torch.select_scatter(x, torch.zeros(3), 0, 0), "aten.select_scatter.*writes into some of the rows"),
    "a convolution": (lambda x: nn.functional.conv1d(x.t()[None], torch.ones(3, 3, 3), padding=1)[0].t(), "aten.convolution.*rows"),
    "a maximum of neighbours": (lambda x: nn.functional.max_pool1d(x.t()[None], 3, 1, 1)[0].t(), "aten.max_pool.*rows"),
    "rows of zeros": (lambda x: nn.functional.pad(x, (0, 0, 1, 0)), "aten.constant_pad_nd.*adds rows"),
    "a GRU of one argument": (UnbatchedGru(3, 3), "rows"),
    "attention of one argument": (Unbatched(), "rows"),
    # their number
    "x * len(x)": (lambda x: x * len(x), "aten.mul.Tensor.*computes with 37 where there are 37 rows and with 41"),
    "x / x.shape[0]": (lambda x: x / x.shape[0], "aten.div.Tensor.*computes with 37"),
    "x * 1 / len(x)": (lambda x: x * (1 / len(x)), "aten.mul.Tensor.*a row's score would depend on the number of rows"),
    "x * torch.tensor(len(x))": (lambda x: x * torch.tensor(x.shape[0]), "aten.mul.Tensor.*constant that differs between 37 and 41 rows"),
    "x * torch.full": (lambda x: x * torch.full((len(x), 1), float(len(x))), "aten.mul.Tensor.*constant that differs"),
    "place in the batch": (lambda x: x * torch.arange(len(x)).unsqueeze(1), "aten.mul.Tensor.*another value for every row"),
    "noise": (lambda x: x + torch.randn(3), "aten.randn.*it is random"),
    "if B > 39": (branch, "depends on the number or the content of the rows"),
    "a loop over rows": (lambda x: torch.stack([row * 2 for row in x]), "takes the rows apart|takes one row|depends on the number"),
    # what Python reads
    "if x.sum() > 0": (reads, "aten.(_local_scalar_dense|is_nonzero).*Python reads a value"),
    "x.numpy()": (lambda x: x * float(x.detach().numpy().max()), "Tensor.numpy.*Python reads a value"),
    "np.asarray(x)": (lambda x: x * (2.0 if np.asarray(x.detach()).max() > 1e3 else 1.0), "Tensor.(__array__|numpy).*Python reads a value"),
    "x.tolist()": (lambda x: x * max(map(max, x.tolist())), "Tensor.tolist.*Python reads a value"),
    "x.storage()": (lambda x: x * (2 if x.detach().storage().tolist()[0] > 1e3 else 1), "Tensor.storage.*Python reads a value"),
    "if (x > 0).any()": (lambda x: x * (2 if (x > 1e3).any() else 1), "Python reads a value"),
    "allclose": (lambda x: x * (2 if torch.allclose(x, torch.zeros(3)) else 1), "Python reads a value"),
    "torch.equal": (lambda x: x * (2 if torch.equal(x, x * 2) else 1), "Python reads a value"),
    # sizes that follow what the rows hold, where no value reaches the output
    "len(unique)": (lambda x: x * (1 if len(torch.unique(x > -1e3)) == 1 else 2), "unique.*how many entries it gives depends"),
    "nonzero": (lambda x: x * (1 if (x > 1e3).nonzero().shape[0] == 0 else 2), "aten.nonzero.*how many entries it gives depends"),
    "argwhere": (lambda x: x * (1 if len(torch.argwhere(x > 1e3)) == 0 else 2), "aten.(nonzero|argwhere).*how many entries"),
    "bincount": (lambda x: x * torch.bincount((x.view(-1) > -1e3).long()).shape[0], "aten.bincount.*how many entries it gives depends"),
    "len(x[x > 0])": (lambda x: x * (1 if len(x[x > 1e3]) == 0 else 2), "aten.index.*how many entries it gives depends"),
    "masked_select": (lambda x: x * (1 if len(x.masked_select(x > 1e3)) == 0 else 2), "aten.masked_select.*how many entries"),
    "len(x[rows])": (lambda x: x * (1 if len(x[x[:, 0] > 1e3]) == 0 else 2), "Tensor.shape.*how many rows a mask keeps"),
    "x[rows].shape": (lambda x: kept(x, lambda y: y / y.shape[0]), "aten.div.Tensor.*computes with 37"),
    "x[rows].size": (lambda x: kept(x, lambda y: y if y.size(0) > 1 else y * 2), "Tensor.shape.*how many rows a mask keeps"),
    "mean of x[rows]": (lambda x: kept(x, lambda y: y - y.mean(0)), "aten.mean.*goes over dim 0, where the rows are"),
    "first of x[rows]": (lambda x: kept(x, lambda y: y - y[0]), "aten.select.*takes one row"),
    "x[rows] put elsewhere": (lambda x: kept(x, lambda y: y * 2, lambda x: x[:, 1] > 0), "aten.index_put.*not picked by the mask"),
    "x[rows] and all rows": (lambda x: kept(x, lambda y: y + x), "aten.add.*joins rows that were picked by a mask with other rows"),
    "x[rows] alone": (lambda x: x[x[:, 0] > 0], "aten.*joins|how many rows it has depends"),
    "repeat_interleave": (lambda x: x * (1 if len(x.repeat_interleave((x[:, 0] > -1e3).long(), 0)) > 0 else 2),
                          "aten.repeat_interleave.*how many entries"),
    "x.item()": (lambda x: x * x[:1, 0].item(), "Python reads a value"),
}


@pytest.mark.parametrize("name", MIXES)
def test_refused(name, tmp_path):
    before, text = MIXES[name]
    with pytest.raises(UnsupportedModelError, match=text) as e:
        export(before, tmp_path / "m.h5")
    assert re.search(r"test_trace_rows\.py:\d+", str(e.value)), "the source line is named"
    assert "layer 'before'" in str(e.value) if isinstance(before, nn.Module) else "layer 'Model'" in str(e.value)
    assert not (tmp_path / "m.h5").exists()


def overwritten(x):
    """Rows by a mask in place, and by masked_select."""
    y, rows = x * 2, x.sum(1) > 0
    y[rows] = torch.masked_select(x, rows.view(-1, 1)).view(-1, 3) - 1
    return y


#: What keeps rows apart although it looks as if it did not.
KEEPS = {
    "ones of the batch": lambda x: x * torch.ones(x.shape[0], 1),
    "cat with zeros of the batch": lambda x: torch.cat([x, torch.zeros(len(x), 2)], 1)[:, :3],
    "time first": lambda x: x.unsqueeze(1).transpose(0, 1).softmax(-1).transpose(0, 1).squeeze(1),
    "merged and back": lambda x: x.repeat(1, 2).view(-1, 3).tanh().view(len(x), 2, 3)[:, 1],
    "blocks of rows": lambda x: torch.cat([x, x * 2], 0).chunk(2, 0)[1],
    "unused mean over rows": lambda x: (x.mean(0), x)[1],
    "flip of columns": lambda x: x.flip(1),
    "roll of columns": lambda x: x.roll(1, 1),
    "cumsum of columns": lambda x: x.cumsum(1),
    "a view of rows": lambda x: x[:].view(x.size(0), -1),
    "gram of a row": lambda x: (x.unsqueeze(2) @ x.unsqueeze(1)).sum(2),
    "numpy of a constant": lambda x: x * torch.from_numpy(torch.arange(3.0).numpy() + 1) * float(torch.arange(3).tolist()[1]),
    "x[rows] in their places": lambda x: kept(x, lambda y: (y @ torch.ones(3, 3)).tanh().view(-1, 3)),
    "x[rows] over what is there": overwritten,
    "write through a view": lambda x: x.clone().t().mul_(2).t(),
}


@pytest.mark.parametrize("name", KEEPS)
def test_not_refused(name, tmp_path):
    export(KEEPS[name], tmp_path / "m.h5")
    assert (tmp_path / "m.h5").exists()


#: Branches that the two traced batches do not take.
SIZES = {
    "x.shape[0] > 1": (lambda x: x * 2 if x.shape[0] > 1 else x, 1),
    "len(x) < 64": (lambda x: x if len(x) < 64 else x - x.mean(0), 257),
    "len(x) > 2": (lambda x: x if len(x) > 2 else x + 1, 2),
}


@pytest.mark.parametrize("name", SIZES)
def test_branches_on_the_number_of_rows_are_run(name, tmp_path):
    before, n = SIZES[name]
    with pytest.raises(UnsupportedModelError, match=f"with a batch of {n} the model gives.*depends on the number of rows"):
        export(before, tmp_path / "m.h5")
    assert not (tmp_path / "m.h5").exists()


def test_a_model_that_cannot_take_one_row_is_noted(tmp_path):
    with pytest.warns(UserWarning, match="fails on a batch of 1 .*so a batch of 1 was not compared"):
        export(lambda x: x.unsqueeze(2).squeeze().softmax(1), tmp_path / "m.h5")
    assert (tmp_path / "m.h5").exists()


@pytest.mark.parametrize("name", ["cumsum", "flip", "softmax over rows"])
def test_a_rule_that_lets_rows_mix_is_caught_by_the_check(name, tmp_path, monkeypatch):
    """A planted fault: without the rule the lowering has no axis for the rows, or the run beside the model shows it."""
    for op in ("cumsum", "flip", "_softmax"):
        monkeypatch.setitem(batch_axis.RULES, op, batch_axis._same)
    with pytest.raises((UnsupportedModelError, IndexError)):
        export(MIXES[name][0], tmp_path / "m.h5")
    assert not (tmp_path / "m.h5").exists()


def test_constants_are_compared(tmp_path, monkeypatch):
    """A planted fault: with constants taken from one trace only, a factor of the batch size is not seen until the model is run."""
    monkeypatch.setattr(pair.Pair, "constant", lambda self, node, user, layout=None, rank=None: node.value.detach().numpy())
    with pytest.raises(UnsupportedModelError, match="check"):
        export(MIXES["x * torch.tensor(len(x))"][0], tmp_path / "m.h5")


def test_the_model_is_left_as_it_was(tmp_path):
    model = Model(nn.Dropout(0.5)).train()
    model.head.weight.requires_grad_(False)
    from_torch(model, tmp_path / "m.h5", features={"x": {}}, example={"x": np.zeros((2, 3), np.float32)})
    assert model.training and model.before.training and not model.head.weight.requires_grad and model.head.bias.requires_grad
    assert "new_tensor" not in vars(torch.Tensor) and "tolist" not in vars(torch.Tensor)
    assert torch.ones(2).numpy().tolist() == np.asarray(torch.ones(2)).tolist() == [1, 1]


def test_functions_of_ones_own_are_traced(tmp_path):
    """A torch.autograd.Function is what its forward computes; a forward that mixes rows is refused like any other."""
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, centre):
            ctx.save_for_backward(x)
            return (x - x.mean(0) if centre else x) * 2

    export(lambda x: Twice.apply(x, False), tmp_path / "m.h5")
    assert (tmp_path / "m.h5").exists()
    with pytest.raises(UnsupportedModelError, match="aten.mean.*at test_trace_rows.*where the rows are"):
        export(lambda x: Twice.apply(x, True), tmp_path / "other.h5")


class FadingBag(nn.Module):
    """Weighs a visit by its position, by numbers of the model's own."""

    def __init__(self):
        super().__init__()
        self.visits, self.head = nn.EmbeddingBag(12, 3, mode="sum"), nn.Linear(3, 1)
        self.register_buffer("fading", 0.5 ** torch.arange(4))

    def forward(self, visits):
        return torch.sigmoid(self.head(self.visits(visits, per_sample_weights=self.fading.expand(visits.shape[0], -1))))


def test_a_bag_weighed_by_constants(tmp_path):
    torch.manual_seed(0)
    model = FadingBag().eval()
    from_torch(model, tmp_path / "m.h5", features={"visits": {"table": "visits"}}, example={"visits": torch.randint(12, (5, 4))})
    visits = torch.randint(12, (64, 4))
    with Bundle(tmp_path / "m.h5") as bundle:
        got = Executor(bundle).run(Rows.from_columns(bundle, {"visits": visits.tolist()}))["value"]
    want = model.double()(visits).detach().numpy()[:, 0]
    assert np.abs(next(iter(got.values())) - want).max() <= 1e-7


def test_torchscript_is_refused_by_its_layer(tmp_path):
    with pytest.raises(UnsupportedModelError, match="layer 'before': is TorchScript.*give the nn.Module"):
        export(torch.jit.script(nn.Linear(3, 3)), tmp_path / "m.h5")
