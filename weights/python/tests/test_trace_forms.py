"""Operators in forms where a slip of the lowering would not show otherwise: square weights, whose axes could be taken for each other,
numbers other than torch's defaults, padding with an id of its own. Each is exact beside the module in float64; nothing is compared before
the bundle is written, so that these tests alone say so."""

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch")
nn = torch.nn
F = nn.functional

from dpi_export import Bundle, Executor, Rows, UnsupportedModelError, from_torch  # noqa: E402
from dpi_export.trace.features import Inputs  # noqa: E402

N, FIELDS, DIM, PAD = 6, 4, 4, 3  # as many fields as dims


class Module(nn.Module):
    """body(self, x [rows, 4, 4], embedded history [rows, 5, 4], its ids) as one number."""

    def __init__(self, body):
        super().__init__()
        torch.manual_seed(6)
        self.items, self.body = nn.Embedding(15, DIM), body
        self.one, self.many = (nn.Parameter(torch.randn(dims)) for dims in ((DIM, DIM), (FIELDS, DIM, DIM)))
        self.layer_norm, self.batch_norm = nn.LayerNorm(DIM, eps=0.3), nn.BatchNorm1d(FIELDS, eps=0.4)
        self.group_norm = nn.GroupNorm(2, FIELDS, eps=0.2)
        self.gru, self.attention = nn.GRU(DIM, DIM, batch_first=True), nn.MultiheadAttention(DIM, 2, batch_first=True)
        self.bilinear, self.bag = nn.Bilinear(DIM, DIM, DIM), nn.EmbeddingBag(15, DIM, mode="mean", padding_idx=PAD)
        with torch.no_grad():
            for p in self.parameters():
                p.copy_(torch.randn(p.shape))
            self.batch_norm.running_mean.normal_()
            self.batch_norm.running_var.uniform_(0.1, 0.5)
        self.spoil = 0.0

    def forward(self, x, h):
        x = x.reshape(-1, FIELDS, DIM)
        out = self.body(self, x, self.items(h), h)
        return (out.reshape(len(x), -1) * torch.linspace(0.5, 1.5, out[0].numel(), dtype=x.dtype)).sum(1) + self.spoil


def einsum(text, *weights):
    return lambda m, x, e, h: torch.einsum(text, x, *(getattr(m, w) for w in weights))


BODIES = {
    **{text: einsum(text, "one") for text in ("bfd,de->bfe", "bfd,ed->bfe", "bfd,fg->bgd", "bfd,gf->bgd", "bfd,fd->bf", "bfd,df->bd")},
    **{text: einsum(text, "many") for text in ("bfd,fde->bfe", "bfd,fed->bfe", "bfd,dfe->bfe", "bfd,efd->be", "bfd,gfd->bgd")},
    "pairs, bfd,bgd->bfg": lambda m, x, e, h: torch.einsum("bfd,bgd->bfg", x, x * m.one),
    "pairs, bfd,bdg->bfg": lambda m, x, e, h: torch.einsum("bfd,bdg->bfg", x, x * m.one),
    "bmm by field": lambda m, x, e, h: torch.bmm(x.transpose(0, 1), m.many).transpose(0, 1),
    "bmm by field, weight first": lambda m, x, e, h: torch.bmm(m.many, x.permute(1, 2, 0)).permute(2, 0, 1),
    "weight first": lambda m, x, e, h: m.one @ x,
    "one weight on both sides": lambda m, x, e, h: m.one @ x @ m.one.T,
    "addmm": lambda m, x, e, h: torch.addmm(m.one[0], x[:, 0], m.one, beta=0.5, alpha=1.5),
    "baddbmm": lambda m, x, e, h: torch.baddbmm(x, x, x.transpose(1, 2), beta=0.5, alpha=1.5),
    "bilinear": lambda m, x, e, h: m.bilinear(x[:, 0], x[:, 1]),
    "LayerNorm": lambda m, x, e, h: m.layer_norm(x),
    "LayerNorm over two dims": lambda m, x, e, h: F.layer_norm(x, (FIELDS, DIM), m.one, m.one.T, eps=0.3),
    "BatchNorm": lambda m, x, e, h: m.batch_norm(x),
    "GroupNorm": lambda m, x, e, h: m.group_norm(x),
    "GroupNorm of two dims": lambda m, x, e, h: F.group_norm(x[:, :, 0], 2, eps=0.2),
    "GroupNorm of four dims": lambda m, x, e, h: m.group_norm(x.reshape(-1, FIELDS, 2, 2)),
    "InstanceNorm": lambda m, x, e, h: F.instance_norm(x, weight=m.one[0], bias=m.one[1], eps=0.2),
    "normalize": lambda m, x, e, h: F.normalize(x * 0.01, dim=1, eps=0.1),
    "cosine": lambda m, x, e, h: F.cosine_similarity(x * 0.01, x.roll(1, 1), dim=2, eps=0.1),
    "softmax over fields": lambda m, x, e, h: x.softmax(1),
    "log softmax over fields": lambda m, x, e, h: x.log_softmax(1),
    "sum over fields": lambda m, x, e, h: x.pow(2).sum(1),
    "largest over fields": lambda m, x, e, h: x.amax(1),
    "ascending over fields": lambda m, x, e, h: x.sort(1).values,
    "descending": lambda m, x, e, h: x.sort(-1, descending=True).values,
    "cumsum over fields": lambda m, x, e, h: x.cumsum(1),
    "scatter of the largest": lambda m, x, e, h: torch.zeros_like(x).scatter(2, x.topk(2, 2).indices, x.topk(2, 2).values.softmax(2)),
    "scatter over fields": lambda m, x, e, h: x.scatter(1, (-x).topk(3, 1).indices, x.exp()),
    "scatter of a number": lambda m, x, e, h: x.scatter(2, (x.abs() * 2).long().clamp(0, 3), 5.0),
    "scatter_add": lambda m, x, e, h: x.scatter_add(1, (x.abs() * 2).long().clamp(0, 3), x * 2),
    "scatter_add of a number of ids": lambda m, x, e, h: torch.zeros(len(h), 15, dtype=x.dtype).scatter_add(1, h, x.reshape(len(x), 16)[:, :5]),
    "parts without entries": lambda m, x, e, h: torch.cat([x[:, :0], *x.split([0, 1, 3], 1)], 1),
    "every other": lambda m, x, e, h: x[:, 1::2, ::2] * x[:, ::2, :2] + x[:, :2, 1::2],
    "ids from all over": lambda m, x, e, h: e[:, [4, 0, 2, 2]] * (h[:, ::2] != PAD).float().sum(1)[:, None, None] + e.flip(1)[:, :4],
    "W x by transposes": lambda m, x, e, h: F.linear(x.transpose(1, 2), m.one, m.one[0]).transpose(1, 2),
    "a bias of each field": lambda m, x, e, h: torch.einsum("bfd,fde->bfe", x, m.many) + m.one,
    "a bias of each field, read twice": lambda m, x, e, h: (lambda y: (y + m.one) * y)(torch.einsum("bfd,fde->bfe", x, m.many)),
    "triangle": lambda m, x, e, h: (x @ x.transpose(1, 2)).tril(-1),
    "GRU": lambda m, x, e, h: m.gru(x)[0],
    "multi-head attention": lambda m, x, e, h: m.attention(x, x * 0.5, x * 2)[0],
    "leaky": lambda m, x, e, h: F.leaky_relu(x, 0.3) + F.elu(x, 0.7) + F.softplus(x, 2.0) + F.gelu(x),
    "mean of what counts": lambda m, x, e, h: (e * (h != PAD).unsqueeze(-1)).sum(1) / (h != PAD).sum(1, keepdim=True).clamp(min=1),
    "largest of what counts": lambda m, x, e, h: e.masked_fill((h == PAD).unsqueeze(-1), -1e4).amax(1),
    "how many count": lambda m, x, e, h: (h != PAD).float().sum(1, keepdim=True),
    "how many are padding": lambda m, x, e, h: (h == PAD).float().sum(1, keepdim=True),
    "softmax of what counts": lambda m, x, e, h: e.sum(-1).masked_fill(h == PAD, -1e9).softmax(-1),
    "bag with padding": lambda m, x, e, h: m.bag(h),
    "id 0 is an id": lambda m, x, e, h: (h != 0).float() * e.sum(-1),
}

HISTORY = torch.tensor([[1, PAD, PAD, PAD, PAD], [1, 0, 2, PAD, PAD], [4, PAD, 5, 0, 1], [6, 7, 8, 9, 2], [0, PAD, PAD, PAD, PAD], [0, 0, 14, 5, PAD]])
FEATURES = {"x": {}, "h": {"vocab_size": 15, "pad_id": PAD}}


def worst(body, path, spoil=0.0):
    """The largest error relative to max(1, |score|) of a bundle that nothing was compared with."""
    torch.manual_seed(7)
    model, rows = Module(body).eval(), {"x": torch.randn(N, FIELDS * DIM), "h": HISTORY}
    from_torch(model, path, features=FEATURES, example=rows, check=None)
    model.spoil = spoil
    with torch.no_grad():
        want = copy.deepcopy(model).double()(rows["x"].double(), rows["h"]).numpy()
    with Bundle(path) as bundle:
        inputs = Inputs(model, rows, FEATURES)
        inputs.read_only({feature["name"] for feature in bundle.features})
        got = Executor(bundle).run(Rows.from_columns(bundle, inputs.columns(rows)))["value"]["ctr"]
    error = np.abs(got - want) / np.maximum(1, np.abs(want))
    assert np.isfinite(error).all() and want.std() > 1e-2
    return error.max()


@pytest.mark.parametrize("name", BODIES)
def test_exact(name, tmp_path):
    assert worst(BODIES[name], tmp_path / "m.h5") <= 1e-6


@pytest.mark.parametrize("body, text", [
    (lambda m, x, e, h: x.scatter(1, (x.abs() * 2).long().clamp(0, 3), x), r"aten\.scatter\..*may be the same one; scatter_add adds"),
    (lambda m, x, e, h: x + x[:, :0].sum(1, keepdim=True), r"aten\.sum\..*reads a part that has no entries"),
    (lambda m, x, e, h: x.scatter(2, x.topk(2, 1).indices.transpose(1, 2), x), r"aten\.scatter\..*may be the same one; scatter_add adds"),
    (lambda m, x, e, h: x.scatter(2, x.topk(2, 2).indices, x, reduce="multiply"), r"aten\.scatter\..*reduces what it writes"),
    (lambda m, x, e, h: x.scatter_add(2, x[:, :2].topk(2, 2).indices, x), r"aten\.scatter_add\..*leaves entries of other dims out"),
])
def test_places_that_torch_leaves_open_are_refused(body, text, tmp_path):
    with pytest.raises(UnsupportedModelError, match=rf"layer 'Module': {text}") as e:
        worst(body, tmp_path / "m.h5")
    assert "test_trace_forms.py:" in str(e.value)


def test_another_score_shows(tmp_path):
    assert worst(BODIES["LayerNorm"], tmp_path / "m.h5", spoil=1e-4) > 1e-6
