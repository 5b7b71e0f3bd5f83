"""One operator a line, each a model of its own for test_sweep.py: OPERATORS are exported, REFUSED with a text that holds the words given.

Names: x [rows, 8] floats, e [rows, 4, 8] rows of a table for the ids h [rows, 4] (0 is padding), c [rows] ids below 20, a [rows, 1] one number,
w [8, 8], v [8], g [4, 8] weights, "module | function": m is the module.
"""

OPERATORS = """
torch.add(x, e[:, 0], alpha=2.5)
torch.add(x, 3, alpha=-2)
torch.sub(x, e[:, 1], alpha=0.5)
torch.rsub(x, e[:, 1], alpha=0.5)
torch.rsub(x, 2.0, alpha=3)
torch.subtract(x, v)
torch.multiply(x, v)
torch.true_divide(x, v)
torch.addcmul(x, e[:, 0], e[:, 1], value=-1.5)
torch.addcmul(x, x, v)
torch.addcdiv(x, e[:, 0], v.abs() + 1, value=0.3)
x.addcdiv(e[:, 0], x.abs() + 1)
torch.lerp(x, e[:, 0], 0.25)
torch.lerp(x, e[:, 0], x.sigmoid())
x.lerp(v, 2.0)
torch.hypot(x, e[:, 0])
torch.logaddexp(x, e[:, 0])
torch.logaddexp2(x, e[:, 0])
torch.fmax(x, e[:, 0])
torch.fmin(x, e[:, 0])
torch.max(x, e[:, 0])
torch.min(x, v)
torch.ldexp(x, torch.arange(8))
torch.xlogy(x.abs(), x.abs() + 1)
torch.special.xlog1py(x, x.abs())
torch.float_power(x.abs() + 0.1, 1.5).float()
torch.pow(2.0, x.clamp(-9, 9))
x ** 3
x ** 4
x ** -1
(x.abs() + 0.1) ** 0.3
x.clamp(min=1) ** -0.5
torch.heaviside(x, v)
torch.heaviside(x, torch.tensor(0.5))
torch.sign(x)
torch.sgn(x)
torch.positive(x)
torch.frac(x.clamp(0, 9))
torch.trunc(x.clamp(-9, 9))
torch.fix(x.clamp(-9, 9))
torch.round(x.clamp(-9, 9))
torch.floor(x.clamp(-9, 9))
(a.clamp(0, 99) / 10).floor()
a.clamp(0, 99) // 10
a.clamp(0, 99) % 7
torch.fmod(a.clamp(-50, 50), 7)
a.clamp(0, 99).long() // 10
a.clamp(0, 99).long() % 7
a.clamp(0, 99).round().long() % 7
c // 3
c % 3
torch.fmod(c, 3)
c.bitwise_and(3)
c << 2
c >> 1
c ** 2
(c + h[:, 0]) % 5
(c * 20 + h[:, 0]).float()
c.float() / 7
c / 7
torch.true_divide(c, 7)
-c
c.neg().abs().float()
1 / (x.abs() + 1)
5 - x
x - 5
torch.reciprocal(x.abs() + 1)
torch.rsqrt(x.abs() + 1)
torch.square(x)
torch.sqrt(x.abs())
torch.exp(x.clamp(max=5))
torch.expm1(x.clamp(max=5))
torch.exp2(x.clamp(max=5))
torch.log(x.abs() + 1)
torch.log1p(x.abs())
torch.log2(x.abs() + 1)
torch.log10(x.abs() + 1)
torch.special.expit(x)
torch.special.ndtr(x)
torch.erf(x)
torch.sinc(x)
torch.sin(x)
torch.cos(x)
torch.tan(x.clamp(-1, 1))
torch.asin(x.tanh() * 0.9)
torch.atan2(x, e[:, 0])
torch.sinh(x.clamp(-4, 4))
torch.atanh(x.tanh() * 0.9)
torch.clamp(x, -1, 1)
torch.clamp(x, min=v - 1)
x.clip(-1)
x.clamp_max(2.0)
x + x.clamp(2, -2)
x.clamp(e[:, 0], e[:, 1])
torch.cumsum(x, 1)
torch.cumprod(x.tanh(), 1)
torch.logcumsumexp(x, 1)
torch.diff(x, n=2, dim=1)
F.softsign(x)
F.hardsigmoid(x)
F.hardswish(x)
F.hardtanh(x, -2.0, 0.5)
F.hardshrink(x, 0.7)
F.softshrink(x, 0.7)
F.tanhshrink(x)
F.threshold(x, 0.5, -1.0)
F.logsigmoid(x)
F.softplus(x, beta=3)
F.softplus(x, beta=2, threshold=5)
F.celu(x, 0.5)
F.elu(x, 0.5)
F.selu(x)
F.silu(x)
F.mish(x)
F.gelu(x)
F.gelu(x, approximate="tanh")
F.leaky_relu(x, 0.3)
F.leaky_relu(x, -0.5)
F.rrelu(x)
F.relu6(x)
F.glu(x, 1)
F.prelu(x, v[:1])
nn.PReLU(8) | m(x)
nn.Hardtanh(0.0, 1.0) | m(x)
nn.Softmin(1) | m(x)
nn.Softmax() | m(x)
nn.LogSoftmax(1) | m(x)
F.softmax(e, dim=2)
F.normalize(x, p=1, dim=1)
F.normalize(x, p=3, dim=1)
F.normalize(x, p=float("inf"), dim=1)
F.dropout(x, 0.5, training=False)
F.one_hot(c, 20).float()
F.one_hot(c % 3, 3).float()
F.one_hot(h, 30).sum(1).float()
F.embedding(c, w.repeat(3, 1))
F.embedding(h, w.repeat(4, 1), padding_idx=0).sum(1)
F.embedding_bag(h, w.repeat(4, 1), mode="sum")
F.embedding_bag(h, w.repeat(4, 1), mode="mean", padding_idx=0)
F.embedding_bag(h, w.repeat(4, 1), mode="max")
F.embedding_bag(h, w.repeat(4, 1), mode="sum", per_sample_weights=x[:, :4])
F.embedding_bag(c, w.repeat(3, 1), torch.arange(len(c)))
F.linear(x, w, v)
F.bilinear(x, e[:, 0], g[:, :, None] * w[None], v[:4])
torch.matmul(x, w)
x @ w.T
torch.einsum("bi,bj->bij", x, e[:, 0])
torch.einsum("bfd,d->bf", e, v)
torch.einsum("bfd,bfd->b", e, e)
torch.bmm(e, e.transpose(1, 2))
torch.baddbmm(w[:4, :4], e, e.transpose(1, 2), alpha=0.5, beta=2)
torch.addmv(v[:1], x, v)
torch.chain_matmul(x, w, w)
torch.linalg.multi_dot((x, w, w))
torch.tensordot(e, g, dims=2)
torch.vdot(v, v) * x
torch.cross(x[:, :3], v[:3].expand(len(x), 3), dim=1)
torch.cdist(e, g[None])
F.pairwise_distance(x, v[None])
F.cosine_similarity(x, v[None])
torch.sum(x, dim=1)
torch.sum(x, dim=-1, keepdim=True)
torch.sum(e, dim=(1, 2))
torch.mean(e, (1, 2))
torch.median(x, 1)[0]
torch.median(x[:, :7], dim=1).values
torch.quantile(x, 0.3, dim=1)
torch.std(x, 1)
torch.var(x, 1, unbiased=False)
torch.std_mean(x, 1)[1]
torch.prod(x, 1)
torch.prod(e, 2)
torch.amax(e, (1, 2))
torch.aminmax(x, dim=1).min
torch.max(x, 1)[0]
torch.max(x, 1)[1].float()
torch.argmax(x, 1).float()
torch.argmin(x, 1, keepdim=True).float()
torch.logsumexp(x, 1)
torch.logsumexp(e, (1, 2))
torch.norm(x, p=1, dim=1)
torch.norm(x.relu(), p=0, dim=1)
torch.norm(x, p=float("-inf"), dim=1)
torch.linalg.norm(x, ord=3, dim=1)
torch.linalg.norm(e, dim=(1, 2))
torch.count_nonzero(x.relu(), dim=1).float()
torch.any(x > 1, 1).float()
torch.all(x > -3, 1).float()
torch.trapz(x, dim=1)
torch.topk(x, 3, 1)[0]
torch.topk(x, 3, 1, largest=False)[0]
torch.sort(x, 1)[0]
torch.sort(x, 1, descending=True)[1].float()
torch.argsort(x, 1).argsort(1).float()
torch.kthvalue(x, 3, dim=1)[0]
torch.gather(x, 1, h % 8)
torch.take_along_dim(x, x.argsort(1), 1)
torch.take(v, h % 8)
v[c % 8]
v[h.clamp(max=7)].sum(1)
g[c % 4]
x[torch.arange(len(x)), c % 8]
torch.where(x > 0, x, -x)
torch.where(x > 0, 1.0, 0.0)
torch.where(c[:, None] == 0, torch.zeros(()), x)
x.masked_fill(c[:, None] == 3, 7.0)
x.masked_fill(x > 1, float("-inf")).softmax(1)
torch.scatter(x, 1, h % 8, 0.0)
torch.scatter_add(x, 1, h % 8, x[:, :4])
torch.index_add(x, 1, torch.tensor([0, 0]), e[:, 0, :2])
torch.index_add(x, 1, torch.tensor([1, 0]), e[:, 0, :2])
torch.index_copy(x, 1, torch.tensor([1, 0]), e[:, 0, :2])
torch.index_fill(x, 1, torch.tensor([1, 0]), 3.0)
torch.index_select(x, 1, torch.tensor([7, 7, 0]))
torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0]), right=True).float()
torch.searchsorted(torch.tensor([-1.0, 0.0, 1.0]), x, right=True).float()
torch.bucketize(x, torch.tensor([-1, 0, 1])).float()
torch.isin(c, torch.tensor([1, 5, 7])).float()
torch.isclose(x, v, atol=0.5).float()
torch.eq(c, h[:, 0]).float()
(x > v).float() + (x <= 0.5).float()
x.relu().bool().float()
torch.logical_xor(x > 0, e[:, 0] > 0).float()
(x > 0).logical_not().float()
~(x > 0) & (x < 3) | (x > 5)
torch.bitwise_not(c).float()
torch.view_as_complex(x.reshape(-1, 4, 2)).abs()
torch.fft.fft(x, dim=1).abs()
torch.reshape(x, (-1, 2, 4))
x.view(len(x), 2, 4)
x.view(x.size(0), -1)
torch.squeeze(x[:, :1])
e.flatten(1)
x.unflatten(1, (4, 2))
x.repeat(1, 2)
torch.tile(x, (1, 2))
x.repeat_interleave(2, dim=1)
torch.roll(x, 1, 1)
torch.flip(x, [1])
torch.rot90(e, 1, [1, 2])
torch.narrow(x, 1, 2, 3)
x[:, 1:7:2]
x[:, -3:]
x[..., None]
x[:, [0, 0, 3]]
torch.split(x, 3, 1)[2]
torch.chunk(x, 3, 1)[2]
torch.tensor_split(x, [1, 3], 1)[1]
torch.hsplit(x, 2)[1]
torch.unbind(e, 1)[3]
torch.stack((x, e[:, 0]), 2)
torch.cat((x, e[:, 0]), 1)
torch.hstack((x, a))
torch.column_stack((x, a))
torch.cartesian_prod(v, v)[:8, 0] * x
torch.combinations(v)[:8, 0] * x
torch.diag(w) * x
torch.diag_embed(x)
torch.diagonal(e[:, :, :4], dim1=1, dim2=2)
torch.trace(w) * x
torch.tril(e @ e.transpose(1, 2), -1)
torch.kron(v[None, :2], x)
F.pad(x, (1, 2), value=3.0)
F.pad(x[:, None], (1, 2), mode="reflect")
F.max_pool1d(e, 3, stride=1)
F.avg_pool1d(e, 3, stride=1, padding=1)
F.avg_pool1d(e, 3, stride=1, padding=1, count_include_pad=False)
F.interpolate(e, size=16)
F.interpolate(e, size=16, mode="linear", align_corners=True)
F.pixel_shuffle(e[:, :, None], 2)
F.local_response_norm(e, 2)
F.layer_norm(x, (8,), v, v)
F.group_norm(x, 4)
F.instance_norm(e)
F.batch_norm(x, v, v.abs() + 1)
nn.BatchNorm1d(8) | m(x)
nn.LayerNorm(8, elementwise_affine=False) | m(x)
nn.Conv1d(4, 4, 3, groups=2, dilation=2) | m(e)
nn.GRU(8, 5, batch_first=True) | m(e)[0]
nn.LSTM(8, 5, batch_first=True) | m(e)[1][0][0]
nn.LSTM(8, 5, batch_first=True, proj_size=3) | m(e)[0]
nn.RNN(8, 5, batch_first=True, nonlinearity="relu") | m(e)[0]
nn.GRUCell(8, 5) | m(x)
nn.LSTMCell(8, 5) | m(x)[0]
nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True) | m(e)
nn.Embedding(20, 8, scale_grad_by_freq=True) | m(c)
nn.EmbeddingBag(30, 8, mode="max", padding_idx=0) | m(h)
nn.EmbeddingBag(30, 8, mode="sum", include_last_offset=False) | m(h)
nn.Bilinear(8, 8, 3) | m(x, x)
nn.CosineSimilarity(1) | m(x, e[:, 0])
nn.Unflatten(1, (2, 4)) | m(x)
nn.Identity() | m(x)
nn.Dropout1d(0.5) | m(e)
nn.FeatureAlphaDropout(0.5) | m(x)
nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5]) | m.log_prob(x)
nn.ZeroPad2d(1) | m(e[:, None])
nn.Upsample(scale_factor=2) | m(e)
x.new_tensor([1.0, 2.0]).sum() * x
torch.as_tensor(3.0) * x
x.to(torch.float64).to(torch.float32)
x.clamp(-9, 9).to(torch.int8).float()
x.clamp(0, 9).to(torch.uint8).float()
x.type(torch.float32)
x.contiguous(memory_format=torch.contiguous_format)
torch.sigmoid_(x.clone())
F.relu_(x.clone())
x.clone().mul_(2).add_(x)
x.clone().fill_(3.0) + x
x.clone().zero_() + x
x.clone().index_add_(1, torch.tensor([0, 1]), x[:, :2])
x.clone().clamp_(0, 1)
x.clone().copy_(e[:, 0])
x.clone().t_().t()
x.sum_to_size(x.shape[0], 1)
torch.special.logit(x.sigmoid(), 1e-6)
torch.special.softmax(x, 1)
torch.cumulative_trapezoid(x, dim=1)
torch.tril_indices(4, 4)[0].sum() * x
torch.sigmoid(x).logit()
""".strip().splitlines()

REFUSED = {
    "torch.copysign(x, e[:, 0])": "torch.where(y < 0",
    "torch.pow(x.abs() + 0.1, e[:, 0])": "(y * x.log()).exp()",
    "torch.signbit(x).float()": "write x < 0",
    "torch.floor(x)": "clamp them",
    "a // 10": "clamp them",
    "a % 7": "clamp them",
    "torch.fmod(a, 7)": "clamp them",
    "a.long()": "clamp them",
    "torch.round(x.clamp(-9, 9), decimals=1)": "multiply, round and divide",
    "torch.lgamma(x.abs() + 1)": "in preprocessing",
    "torch.nan_to_num(x)": "missing=",
    "torch.isnan(x).float()": "missing=",
    "torch.nanmean(x, 1)": "missing=",
    "torch.cummax(x, 1)[0]": "amax(1)",
    "F.one_hot(c).float()": "torch.where",
    "F.embedding(c, w.repeat(3, 1), max_norm=1.0)": "scale them once",
    "torch.linalg.solve(w + 9 * torch.eye(8), x.T).T": "x @ inverse.T",
    "torch.scatter(x, 1, h % 8, x[:, :4])": "scatter_add",
    "torch.masked_scatter(x, x > 0, x * 2)": "torch.where(mask",
    "x.repeat(2, 1)": "once each",
}
