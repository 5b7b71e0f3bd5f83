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
