"""Masks of minus infinity that are constants of the model, alone and beside masks of padding: exact on rows that are not padding alone."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
nn = torch.nn

from dpi_export import Bundle, Executor, Rows, from_torch  # noqa: E402
from dpi_export.trace.features import Inputs  # noqa: E402

ROWS = {"h": torch.tensor([[1, 0, 0, 0, 0], [1, 2, 3, 0, 0], [4, 0, 5, 0, 1], [6, 7, 8, 9, 2]])}
CAUSAL = nn.Transformer.generate_square_subsequent_mask(5)
NEVER = float("-inf")


class Attention(nn.Module):
    """body(self, embedded history, where it is padding) as one number."""

    def __init__(self, body):
        super().__init__()
        torch.manual_seed(5)
        self.items, self.body = nn.Embedding(15, 4), body
        self.register_buffer("causal", CAUSAL.clone())
        self.layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
        self.encoder = nn.TransformerEncoder(self.layer, 2)
        self.first = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, norm_first=True)

    def forward(self, h):
        return self.body(self, self.items(h), h == 0).sum((1, 2))


def scores(e):
    return e @ e.transpose(1, 2)


BODIES = {
    "added": lambda m, e, pad: (scores(e) + m.causal).softmax(-1) @ e,
    "added in front": lambda m, e, pad: (m.causal + scores(e)).softmax(-1) @ e,
    "baddbmm": lambda m, e, pad: torch.baddbmm(m.causal, e, e.transpose(1, 2)).softmax(-1) @ e,
    "by truth": lambda m, e, pad: scores(e).masked_fill(m.causal < 0, NEVER).softmax(-1) @ e,
    "behind padding": lambda m, e, pad: (scores(e).masked_fill(pad[:, None], NEVER) + m.causal).softmax(-1) @ e,
    "before padding": lambda m, e, pad: (scores(e) + m.causal).masked_fill(pad[:, None], NEVER).softmax(-1) @ e,
    "a number over infinity": lambda m, e, pad: scores(e).masked_fill(m.causal < 0, NEVER).masked_fill(pad[:, None], -1.0).softmax(-1) @ e,
    "twice a number": lambda m, e, pad: scores(e).masked_fill(m.causal < 0, -1e9).masked_fill(pad[:, None], -1e9).softmax(-1) @ e,
    "infinity over a number": lambda m, e, pad: scores(e).masked_fill(pad[:, None], -1e9).masked_fill(m.causal < 0, NEVER).softmax(-1) @ e,
    "a layer": lambda m, e, pad: m.layer(e, m.causal),
    "an encoder with padding": lambda m, e, pad: m.encoder(e, src_key_padding_mask=pad)[:, :1],
    "a layer with padding": lambda m, e, pad: m.first(e, m.causal, pad),
}


@pytest.mark.filterwarnings("ignore:.*output is NaN")
@pytest.mark.parametrize("name", BODIES)
def test_constant_masks(name, tmp_path):
    model, features = Attention(BODIES[name]).eval(), {"h": {"vocab_size": 15}}
    from_torch(model, tmp_path / "m.h5", features=features, example=ROWS)
    with torch.no_grad():
        want = model(ROWS["h"]).numpy()
    with Bundle(tmp_path / "m.h5") as bundle:
        got = Executor(bundle).run(Rows.from_columns(bundle, Inputs(model, ROWS, features).columns(ROWS)))["value"]["ctr"]
    assert np.isfinite(want).all() and (np.abs(got - want) <= 1e-5 * np.maximum(1, np.abs(want))).all()


MEANS = {"clamp": lambda total, count: total / count.clamp(min=1e-5), "clamp of one": lambda total, count: total / count.clamp(min=1.0),
         "added": lambda total, count: total / (count + 1e-5)}


@pytest.mark.parametrize("name,rule", [("clamp", "id"), ("clamp", "nonzero"), ("clamp of one", "id"), ("clamp of one", "nonzero"),
                                       ("added", "id"), ("added", "nonzero")])
def test_means_over_what_counts(name, rule, tmp_path):
    """A bound below the count changes no count of 1 and more, where a number that is added does: both to 1e-7. Row 0 of the table is
    zeros; row 3 adds up to 0 and is not, so by "nonzero" it counts for nothing and adds all the same. Alone in a bag, over nothing but the
    added number, it would be huge, and no pooled mean is: such a table is refused by the comparison, and left out here."""
    class Mean(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(3)
            self.items = nn.Embedding(15, 4, padding_idx=0)
            with torch.no_grad():
                self.items.weight[3] = self.items.weight[3] if (name, rule) == ("added", "nonzero") else torch.tensor([1.0, -1.0, 2.0, -2.0])

        def forward(self, h):
            e = self.items(h)
            counts = (h != 0) if rule == "id" else e.sum(-1) != 0
            held = e * counts.float().unsqueeze(-1) if rule == "id" else e
            return MEANS[name](held.sum(1), counts.float().sum(1, keepdim=True)).pow(2).sum(1)

    rows = {"h": torch.tensor([[1, 0, 0, 0, 0], [0, 0, 0, 0, 0], [3, 0, 0, 0, 0], [1, 3, 2, 0, 0], [6, 7, 0, 9, 2]])}
    model, features = Mean().eval(), {"h": {"vocab_size": 15}}
    from_torch(model, tmp_path / "m.h5", features=features, example=rows)
    with torch.no_grad():
        want = model.double()(rows["h"]).numpy()
    with Bundle(tmp_path / "m.h5") as bundle:
        got = Executor(bundle).run(Rows.from_columns(bundle, Inputs(model, rows, features).columns(rows)))["value"]["ctr"]
    assert (np.abs(got - want) <= 1e-7 * np.maximum(1, np.abs(want))).all()


@pytest.mark.parametrize("pad_id", [0, 3])
@pytest.mark.parametrize("zeros", [None, 0, 1, 3])
@pytest.mark.parametrize("kind", ["sum", "mean", "max"])
def test_padding_counts_as_its_row_says(kind, zeros, pad_id, tmp_path):
    """Without a mask the row of padding is a row as any other, whichever row of the table is zeros."""
    class Pooled(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(4)
            self.items = nn.Embedding(15, 4)
            with torch.no_grad():
                self.items.weight.add_(0.5)
                if zeros is not None:
                    self.items.weight[zeros] = 0

        def forward(self, h):
            e = self.items(h)
            return (e.amax(1) if kind == "max" else getattr(e, kind)(1)).pow(3).sum(1)

    ids = torch.tensor([[1, 9, 9, 9, 9], [9, 9, 9, 9, 9], [1, 5, 2, 9, 9], [6, 7, 8, 10, 2], [4, 9, 9, 9, 9]])
    rows = {"h": torch.where(ids == 9, torch.tensor(pad_id), ids)}
    model, features = Pooled().eval(), {"h": {"vocab_size": 15, "pad_id": pad_id}}
    from_torch(model, tmp_path / "m.h5", features=features, example=rows, check=None)
    with torch.no_grad():
        want = model.double()(rows["h"]).numpy()
    with Bundle(tmp_path / "m.h5") as bundle:
        got = Executor(bundle).run(Rows.from_columns(bundle, Inputs(model, rows, features).columns(rows)))["value"]["ctr"]
    assert (np.abs(got - want) <= 1e-6 * np.maximum(1, np.abs(want))).all()
