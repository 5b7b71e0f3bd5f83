"""Functions of torch, one a line, each as a model for from_torch: which of them are exported, with the torch of this interpreter.

  python3 functions.py          prints "exported<TAB>function" or "refused<TAB>function" for each

What an older torch exports, a newer one must (torch2.py compares them): torch moves functions from composed operators to operators of their
own, and its composed ones write in place.
"""

import tempfile
import warnings
from pathlib import Path

import torch
import torch.nn.functional as F
from dpi_export import UnsupportedModelError, from_torch
from torch import nn

#: Of x [rows, 8], e [rows, 4, 8] and the weights w [8, 8], v [8], g [4, 8]. "module | function": m is the module.
FUNCTIONS = """
nn.TransformerEncoderLayer(8, 2, 16, batch_first=True) | m(e)
nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2) | m(e, src_key_padding_mask=e[:, :, 0] > 9)
nn.TransformerDecoderLayer(8, 2, 16, batch_first=True) | m(e, e)
nn.MultiheadAttention(8, 2, batch_first=True) | m(e, e, e)[1]
nn.MultiheadAttention(8, 2, batch_first=True, bias=False, add_bias_kv=True) | m(x[:, None], e, e, need_weights=False)[0]
F.threshold(x, 0.1, 0.2)
F.gelu(x, approximate="tanh")
F.glu(x)
F.softmax(e, -1)
F.log_softmax(e, -1)
F.softmin(e, -1)
F.softmax(e, 1, dtype=torch.float32)
F.layer_norm(e, (8,))
nn.LayerNorm((4, 8)) | m(e)
nn.GroupNorm(2, 4) | m(e)
nn.InstanceNorm1d(4, affine=True) | m(e)
nn.InstanceNorm1d(4, affine=True, track_running_stats=True) | m(e)
nn.BatchNorm1d(4) | m(e)
nn.BatchNorm1d(8) | m(x)
nn.LocalResponseNorm(2) | m(e[:, None])
F.normalize(e, dim=-1)
F.normalize(e, p=1, dim=1)
torch.norm(e, dim=-1)
torch.norm(x, float("inf"), dim=1)
torch.linalg.norm(e, dim=-1)
torch.linalg.vector_norm(e, 1, dim=-1)
torch.linalg.matrix_norm(e)
F.cosine_similarity(x, e[:, 0])
F.cosine_similarity(x[:, None], e, dim=-1)
F.pairwise_distance(x, e[:, 0])
nn.PairwiseDistance(keepdim=True) | m(x, e[:, 1])
torch.cdist(e, e)
torch.cdist(e, e, p=1)
torch.einsum("bfd,de->bfe", e, w)
torch.einsum("bfd,bgd->bfg", e, e)
torch.einsum("bi,bj->bij", x, e[:, 0])
torch.einsum("bfd,fd->b", e, g)
torch.einsum("bi,ij,bj->b", x, w, e[:, 0])
F.bilinear(x, e[:, 0], torch.ones(3, 8, 8) / 9, torch.ones(3))
nn.Bilinear(8, 8, 3) | m(x, e[:, 0])
torch.tensordot(e, w, dims=1)
e @ w
e @ v
e @ e.mT
torch.inner(e, v)
torch.kron(x, v[None])
torch.baddbmm(e, e, w.expand(x.shape[0], -1, -1))
torch.addmm(v, x, w)
torch.linalg.multi_dot([x, w, w])
torch.mv(x, v)
torch.cross(x[:, :3], e[:, 0, :3], dim=1)
torch.linalg.cross(x[:, :3], e[:, 0, :3])
torch.linalg.vecdot(x, e[:, 0])
nn.Conv1d(4, 3, 3, padding=1) | m(e)
nn.Conv1d(4, 3, 3, padding="same") | m(e)
nn.Conv1d(4, 3, 3, padding=1, padding_mode="circular") | m(e)
nn.Conv1d(4, 3, 3, padding=1, padding_mode="reflect") | m(e)
nn.Conv2d(1, 3, (2, 3)) | m(e[:, None])
nn.ConvTranspose1d(4, 3, 3) | m(e)
F.max_pool1d(e, 2)
F.max_pool2d(e[:, None], 2)
F.avg_pool1d(e, 2)
F.avg_pool2d(e[:, None], 2)
F.adaptive_avg_pool1d(e, 1)
F.adaptive_avg_pool1d(e, 2)
F.adaptive_max_pool1d(e, 1)
F.adaptive_max_pool1d(e, 2)
F.lp_pool1d(e, 2, 2)
e.unfold(2, 3, 1)
F.unfold(e[:, None], (2, 2))
F.pixel_shuffle(e[:, :, None], 2)
nn.ChannelShuffle(2) | m(e[:, :, :, None])
F.interpolate(e, scale_factor=2)
F.interpolate(e, size=5, mode="linear")
F.pad(e, (1, 1), mode="constant")
F.pad(e, (1, 1), mode="reflect")
F.pad(e, (1, 1), mode="replicate")
F.pad(e, (1, 1), mode="circular")
torch.all(e > 0, 1)
torch.any(e > 0, 1)
torch.aminmax(e, dim=1)[1]
torch.cat(torch.var_mean(e, dim=1), 1)
torch.cat(torch.std_mean(e, dim=1), 1)
e.max(1)[0]
e.min(1)[0]
e.sum((1, 2))
e.std(1, unbiased=False)
torch.quantile(e, 0.5, dim=1)
e.kthvalue(2, dim=1)[0]
e.topk(2, dim=1)[0]
e.sort(dim=1)[0]
torch.sort(x, dim=1, descending=True)[0]
torch.trapz(x, dim=1)
torch.cumulative_trapezoid(x, dim=1)
torch.diff(x, dim=1)
torch.gradient(x, dim=1)[0]
torch.where(x > 0, x, e[:, 0])
torch.where(x > 0, x, 0.0)
torch.lerp(x, e[:, 0], 0.3)
torch.lerp(x, e[:, 0], torch.sigmoid(v))
torch.addcmul(x, x, e[:, 0], value=0.5)
torch.addcdiv(x, x, e[:, 0].abs() + 1)
x.clamp(-1, 1)
torch.clamp(x, v - 5, v + 5)
x.clip(max=0.3)
x.masked_fill(x > 1, 0.0)
torch.rsub(x, 1.0)
torch.div(x.clamp(-3, 3), 0.5, rounding_mode="floor")
e.flatten(1)
x.unflatten(1, (2, 4))
e.movedim(1, 2)
e.swapaxes(1, 2)
e.permute(0, 2, 1)
e.chunk(2, 1)[1]
e.tensor_split(3, 1)[1]
e.split([1, 3], 1)[1]
e.unbind(1)[2]
e.narrow(1, 1, 2)
e.roll(1, 1)
e.flip(1)
x.fliplr()
torch.rot90(e, 1, (1, 2))
x.tile(1, 2)
x.repeat(1, 2)
x.repeat_interleave(2, 1)
x[:, None].expand_as(e) * e
torch.broadcast_tensors(x[:, None], e)[0]
torch.stack([x, e[:, 0]], 1)
torch.hstack([x, e[:, 0]])
torch.dstack([x, e[:, 0]])
torch.column_stack([x, e[:, 0]])
torch.cat([x[:, None], e], 1)
torch.diag_embed(x)
e[:, :, :4].diagonal(dim1=1, dim2=2)
(e @ e.mT).tril()
e.index_select(1, torch.tensor([2, 0]))
e.gather(1, e.argsort(1)[:, :2])
torch.take_along_dim(e, e.argmax(1, keepdim=True), 1)
e[:, [0, 2]]
e[:, [0, 1], [2, 3]]
e[:, torch.tensor([True, False, True, False])]
(e @ e.mT)[:, torch.triu_indices(4, 4, 1)[0], torch.triu_indices(4, 4, 1)[1]]
torch.atleast_3d(x)
x.view_as(e[:, 0])
e.transpose(1, 2).contiguous().flatten(1)
x.to(torch.float16).float()
(x > 0).type_as(x)
x.double().float()
torch.cat([x.new_zeros(x.shape[0], 2), x], 1)
torch.zeros_like(x) + x
torch.full((x.shape[0], 1), 2.0) * x
x * torch.arange(8)
x @ torch.eye(8)
x * torch.linspace(0, 1, 8)
torch.bucketize(x, torch.tensor([-1.0, 0, 1])).float()
torch.searchsorted(torch.tensor([-1.0, 0, 1]), x).float()
F.one_hot((x[:, 0] > 0).long(), 2).float()
(y := x * 2, y.add_(e[:, 0]), y)[-1]
(y := e * 2, y[:, 1].copy_(x), y)[-1]
(y := e * 2, y[:, 1:3].add_(x[:, None]), y)[-1]
(y := x * 2, y.masked_fill_(x > 0, 1.0), y)[-1]
(y := x * 2, y.__setitem__(x > 0, 0.0), y)[-1]
(y := torch.zeros(x.shape[0], 4, 8), y[:, 2].copy_(x), y)[-1]
(y := torch.empty(x.shape[0], 8), y.copy_(x), y)[-1]
(y := e * 2, y.transpose(1, 2).clamp_(0, 1), y)[-1]
(y := x * 2, y.chunk(2, 1)[0].sigmoid_(), y)[-1]
(y := e @ e.mT, y.diagonal(dim1=1, dim2=2).zero_(), y)[-1]
(y := e[:, :1] * 1, y.squeeze_(1), y)[-1]
(y := x * 1, y.mul_(2).sub_(1).div_(3), y)[-1]
F.relu(x * 1, inplace=True)
torch.zeros(x.shape[0], 4, 8).scatter_(1, e.argmax(1, keepdim=True), 1.0)
torch.zeros(x.shape[0], 4, 8).scatter_add_(1, e.argsort(1), e)
e.index_add(1, torch.tensor([0, 2]), e[:, :2])
e.index_fill(1, torch.tensor([0, 2]), 0.0)
F.mse_loss(x, e[:, 0], reduction="none")
F.l1_loss(x, e[:, 0], reduction="none")
F.smooth_l1_loss(x, e[:, 0], reduction="none")
F.huber_loss(x, e[:, 0], reduction="none")
F.binary_cross_entropy_with_logits(x, torch.sigmoid(e[:, 0]), reduction="none")
F.kl_div(F.log_softmax(x, 1), F.softmax(e[:, 0], 1), reduction="none")
F.triplet_margin_loss(x, e[:, 0], e[:, 1], reduction="none")
F.hinge_embedding_loss(x, torch.ones(8), reduction="none")
F.margin_ranking_loss(x, e[:, 0], torch.ones(8), reduction="none")
F.soft_margin_loss(x, torch.ones_like(x), reduction="none")
torch.view_as_real(torch.fft.rfft(x, dim=1))
torch.fft.irfft(torch.fft.rfft(e, dim=1), n=4, dim=1)
torch.view_as_real(torch.fft.fft2(e))
torch.view_as_real(torch.polar(x.abs(), e[:, 0]))
torch.view_as_real(torch.complex(x, e[:, 0]) * torch.complex(e[:, 0], x))
nn.EmbeddingBag(4, 3, mode="mean") | m(torch.bucketize(x, torch.tensor([-1.0, 0, 1])))
nn.PReLU(4) | m(e)
nn.Dropout(0.5) | m(x)
nn.AlphaDropout(0.5) | m(x)
nn.Softmax2d() | m(e[:, :, :, None])
nn.utils.weight_norm(nn.Linear(8, 3)) | m(x)
nn.utils.spectral_norm(nn.Linear(8, 3)) | m(x)
nn.utils.parametrizations.spectral_norm(nn.Linear(8, 3)) | m(x)
nn.utils.parametrizations.orthogonal(nn.Linear(8, 3)) | m(x)
""".strip().splitlines()
_ONE = """abs ceil floor round trunc frac sign neg exp exp2 expm1 log log2 log10 log1p sqrt rsqrt square reciprocal sin cos tan asin acos atan sinh
 cosh asinh acosh atanh erf erfc erfinv lgamma digamma sigmoid logit deg2rad rad2deg sinc isinf isfinite positive signbit sgn""".split()
_TWO = """add sub mul div true_divide floor_divide remainder fmod pow atan2 maximum minimum fmax fmin hypot logaddexp logaddexp2 copysign
 float_power xlogy ldexp heaviside nextafter gt lt ge le eq ne isclose logical_and logical_or logical_xor""".split()
_OVER = "sum mean amax amin prod std var logsumexp nanmean nansum cumsum cumprod logcumsumexp argmax argmin count_nonzero median".split()
_ACTIVATIONS = """relu relu6 elu selu celu gelu silu mish softplus softsign tanhshrink hardsigmoid hardswish hardtanh hardshrink softshrink
 logsigmoid leaky_relu tanh rrelu""".split()
FUNCTIONS += [f"torch.{name}(x.abs() / 9 + 0.2)" for name in _ONE] + [f"torch.{name}(x.abs() + 0.5, e[:, 0].abs() + 0.5)" for name in _TWO]
FUNCTIONS += [f"torch.{name}(e, dim=1)" for name in _OVER] + [f"F.{name}(x)" for name in _ACTIVATIONS]


class Model(nn.Module):
    """One function between a table, a dense input and a score."""

    def __init__(self, line):
        super().__init__()
        torch.manual_seed(3)
        self.table, self.out = nn.Embedding(30, 8), nn.Linear(1, 1)
        self.w, self.v, self.g = (nn.Parameter(torch.randn(*dims)) for dims in ((8, 8), (8,), (4, 8)))
        module, _, function = line.rpartition(" | ")
        self.m = eval(module, globals()) if module else None  # noqa: S307  (a line of this file)
        self.code = compile(function, line, "eval")

    def forward(self, h, x):
        names = {"x": x, "e": self.table(h), "m": self.m, "w": self.w, "v": self.v, "g": self.g}
        y = eval(self.code, {**globals(), **names})  # noqa: S307
        y = y[0] if isinstance(y, tuple) else y
        y = (y.flatten(1) if y.dim() > 1 else y[:, None]).float()
        return self.out((y * torch.linspace(0.5, 1.5, y.shape[1])).sum(1, keepdim=True))


def exported(line, folder):
    """True where from_torch takes the function, which compares the bundle with the model. Any other error than a refusal is one."""
    example = {"h": torch.randint(0, 30, (6, 4)), "x": torch.randn(6, 8)}
    try:
        from_torch(Model(line).eval(), Path(folder) / "m.h5", example=example, features={"h": {"vocab_size": 30, "kind": "sequence"}, "x": {}})
    except UnsupportedModelError:
        return False
    return True


def main():
    """Prints what becomes of each."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        for line in FUNCTIONS:
            print(f"{'exported' if exported(line, folder) else 'refused'}\t{line}")


if __name__ == "__main__":
    main()
