"""x[torch.arange(B), i]: what each row picks for itself, beside the model; bags of every length, negative positions, one row of a batch."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from dpi_export import Bundle, Executor, Rows, UnsupportedModelError, from_torch  # noqa: E402
from dpi_export.trace.features import Inputs  # noqa: E402

nn = torch.nn
T, V = 5, 20
FEATURES = {"h": {"vocab_size": V}, "n": {"kind": "length", "of": "h"}, "k": {"vocab_size": T}, "x": {}}
EXAMPLE = {"h": torch.zeros(4, T, dtype=torch.int64), "n": torch.zeros(4, dtype=torch.int64), "k": torch.zeros(4, dtype=torch.int64),
           "x": torch.zeros(4)}


def rows_of(e):
    return torch.arange(e.size(0), device=e.device)


def masked(h):
    return (h != 0).sum(1)


#: (embedded history [B, T, 4], ids, length, an id below T, a number) -> what is picked [B, ...]
PICKS = {
    "the last item by length": lambda e, h, n, k, x: e[rows_of(e), n - 1],
    "an empty bag's first item": lambda e, h, n, k, x: e[rows_of(e), (n - 1).clamp(min=0)],
    "the last item by mask": lambda e, h, n, k, x: e[rows_of(e), masked(h) - 1],
    "all of it named": lambda e, h, n, k, x: e[torch.arange(len(h)), n - 1, :],
    "the last place": lambda e, h, n, k, x: e[rows_of(e), -1],
    "the last place by a list": lambda e, h, n, k, x: e[rows_of(e), [-2]],
    "every row": lambda e, h, n, k, x: e[rows_of(e)],
    "an id": lambda e, h, n, k, x: e[rows_of(e), k],
    "a negative id": lambda e, h, n, k, x: e[rows_of(e), -k],
    "one number of it": lambda e, h, n, k, x: e[rows_of(e), k, 2] + e[rows_of(e), 1, k.clamp(max=3)],
    "two computed places": lambda e, h, n, k, x: e[rows_of(e), n - 1, k.clamp(max=3)],
    "the last id": lambda e, h, n, k, x: h[rows_of(h), n - 1].to(e.dtype) * 0.01,
    "several places": lambda e, h, n, k, x: e[rows_of(e)[:, None], torch.stack([masked(h) - 1, k], 1)],
    "the best places": lambda e, h, n, k, x: e[rows_of(e)[:, None], (e.sum(-1) * x[:, None]).topk(2).indices],
    "constant places": lambda e, h, n, k, x: e[rows_of(e).unsqueeze(1), torch.tensor([0, 3, -1])],
    "a number cut": lambda e, h, n, k, x: e[rows_of(e), (x.abs() * 2).long().clamp(0, T - 1)],
    "rows in the second dim": lambda e, h, n, k, x: e.transpose(0, 1)[n - 1, rows_of(e)],
    "the state of a GRU": lambda e, h, n, k, x: torch.tanh(e).cumsum(1)[rows_of(e), n - 1],
}


class Picks(nn.Module):
    def __init__(self, how, outputs):
        super().__init__()
        torch.manual_seed(3)
        self.how, self.emb, self.out = how, nn.Embedding(V, 4), nn.Linear(outputs, 1)

    def forward(self, h, n, k, x):
        picked = self.how(self.emb(h), h, n, k, x)
        return self.out(picked.reshape(len(h), -1)).squeeze(1) + x


def model_of(how):
    given = [torch.ones((2, T), dtype=torch.int64), torch.ones(2, dtype=torch.int64), torch.ones(2, dtype=torch.int64), torch.ones(2)]
    return Picks(how, how(torch.zeros(2, T, 4), *given).reshape(2, -1).shape[1]).eval()


def export(model, path):
    from_torch(model, path, features=FEATURES, example=EXAMPLE)


@pytest.mark.parametrize("name", PICKS)
def test_picks_by_row(name, tmp_path):
    model = model_of(PICKS[name])
    export(model, tmp_path / "m.h5")
    inputs = Inputs(model, EXAMPLE, FEATURES)
    rows = inputs.arrays(inputs.random_rows(np.random.default_rng(5), 64))
    with torch.no_grad():
        want = model.double()(*(t.double() if t.is_floating_point() else t for t in inputs.tensors(rows))).numpy()
    with Bundle(tmp_path / "m.h5") as bundle:
        inputs.read_only([f["name"] for f in bundle.features])
        got = Executor(bundle).run(Rows.from_columns(bundle, inputs.columns(rows)))["value"]["ctr"]
        alone = inputs.columns({key: value[3:4] for key, value in rows.items()})
        one = Executor(bundle).run(Rows.from_columns(bundle, alone))["value"]["ctr"]
    assert np.all(np.abs(got - want) <= 1e-6 * np.maximum(1, np.abs(want))) and abs(one[0] - want[3]) <= 1e-6


OTHERS = {
    "the rows in reverse": (lambda e, h, n, k, x: e[rows_of(e).flip(0), n - 1], "rows"),
    "the first row": (lambda e, h, n, k, x: e[torch.zeros_like(rows_of(e)), n - 1], "rows"),
    "rows by their ids": (lambda e, h, n, k, x: e[k].sum(1), r"torch.arange\(len\(x\)\), i\]"),
    "dims apart": (lambda e, h, n, k, x: e[rows_of(e), :, k.clamp(max=3)][:, :4], "lie together"),
    "rows beside rows": (lambda e, h, n, k, x: e[rows_of(e)[:, None], n[None, :] - 1].mean(1), "rows"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_picks_over_other_rows_are_refused(name, tmp_path):
    how, text = OTHERS[name]
    model = model_of(lambda *_: torch.zeros(2, 4))
    model.how = how
    with pytest.raises(UnsupportedModelError, match=f"aten.index.*{text}"):
        export(model, tmp_path / "m.h5")
