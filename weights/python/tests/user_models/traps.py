"""Small forwards in which something is easily lost: other branches than those that random rows reach, ties, integers that wrap or
round, positions that count from the end, aliases, masks that say nothing. TRAPS: name -> (forward, features that it reads)."""

import torch
import torch.nn.functional as F
from torch import nn

from .case import Case, ids, padded

EDGES = {"x": [0.0, -0.0, 1.0, -1.0, 7.0, 14.0, 21.0, 49.0, 10.0, 70.0, -7.5, 0.5, 2.5, 1e6], "y": [0.0, 1.0, 1.0000001, -1.0, 3.0]}


class Trap(nn.Module):
    """Layers that a forward may use; `forward` is a function of it and its inputs."""

    def __init__(self, run):
        super().__init__()
        self.run = run
        self.a, self.b, self.h = nn.Embedding(12, 4), nn.Embedding(9, 4), nn.Embedding(20, 4, padding_idx=0)
        self.small, self.bag = nn.Embedding(6, 4), nn.EmbeddingBag(20, 4, mode="sum")
        self.fc, self.wide = nn.Linear(4, 1), nn.Linear(4, 3)
        self.bias = nn.Parameter(torch.zeros(6))
        self.register_buffer("edges", torch.tensor([-1.0, 0.5, 1.0, 7.0]))

    def forward(self, x, y, a, b, h):
        return self.run(self, x, y, a, b, h)


FEATURES = {"x": {}, "y": {}, "a": {"vocab_size": 12}, "b": {"vocab_size": 9}, "h": {"vocab_size": 20}}


def bins_of_a_product(m, x, y, a, b, h):
    """An integer of a number, clamped"""
    return m.fc(m.small((x * 10).long().clamp(0, 5)))


def bins_of_a_quotient(m, x, y, a, b, h):
    """x / 7 of a multiple of 7 is whole"""
    return m.fc(m.small(torch.floor(x.abs() / 7).clamp(0, 5).long()))


def bins_below_zero(m, x, y, a, b, h):
    """Towards zero"""
    return m.fc(m.small(x.long().clamp(max=5).clamp(min=0)))


def bins_from_two(m, x, y, a, b, h):
    """The clamp does not begin at 0"""
    return m.fc(m.small(x.int().clamp(min=2, max=4)))


def bins_then_shifted(m, x, y, a, b, h):
    """Arithmetic behind the clamp"""
    return m.fc(m.small(5 - (x.clamp(0, 4.5)).long()))


def bins_of_a_sigmoid(m, x, y, a, b, h):
    """A number whose bounds are known"""
    return m.fc(m.small((torch.sigmoid(x.clamp(-3, 3)) * 5).long()))


def bins_by_minimum(m, x, y, a, b, h):
    """torch.minimum in place of clamp"""
    return m.fc(m.small(torch.minimum(x.relu(), torch.tensor(5.0)).long()))


def bins_of_a_logarithm(m, x, y, a, b, h):
    """Powers of ten"""
    return m.fc(m.small(torch.log10(x.clamp(min=1)).long().clamp(0, 5)))


def bins_of_a_logarithm_plus_one(m, x, y, a, b, h):
    """log2(1 + x), and one more"""
    return m.fc(m.small((torch.log2(x.abs() + 1) + 1).long().clamp(0, 5)))


def position_from_the_end(m, x, y, a, b, h):
    """bias[-1] is the last one"""
    return m.bias[(x > 0).long() - 1] + m.fc(m.a(a)).squeeze(1)


def position_by_ids(m, x, y, a, b, h):
    """bias[a % 6], and of two ids"""
    return m.bias[a % 6] + m.bias[(a + b).clamp(max=5)] + y


def remainder_of_two_ids(m, x, y, a, b, h):
    """A hash of a cross"""
    return m.fc(m.small((a * 9 + b) % 6)) + m.fc(m.small((a * 9 + b) // 9 % 6))


def remainder_of_a_difference(m, x, y, a, b, h):
    """Python's and C's remainders differ below zero"""
    return m.fc(m.small((a - b) % 6))


def wrapping_product(m, x, y, a, b, h):
    """int32 wraps around"""
    return m.fc(m.small(((a.int() * 715827883 + b.int() * 1431655765) % 6).abs()))


def wrapping_product_of_one_id(m, x, y, a, b, h):
    """int32 wraps around, which torch does for each id"""
    return m.fc(m.small(((a.int() * 715827883) % 6).long()))


def buckets_right(m, x, y, a, b, h):
    """The boundary belongs to the other side"""
    return m.fc(m.small(torch.bucketize(x, m.edges, right=True))) + m.fc(m.small(torch.searchsorted(m.edges, y)))


def buckets_out_of_order(m, x, y, a, b, h):
    """A search in what is not sorted"""
    return m.fc(m.small(torch.bucketize(x, m.edges.flip(0))))


def buckets_of_doubles(m, x, y, a, b, h):
    """Boundaries that no float32 holds"""
    return m.fc(m.small(torch.bucketize(x, torch.tensor([0.1, 0.7], dtype=torch.float64))))


def ties(m, x, y, a, b, h):
    """x >= y and x > y where they are equal"""
    return (x >= y).float() + 2 * (x > y).float() + 4 * (x == y).float() + 8 * torch.maximum(x, y).clamp(-2, 2)


def signs(m, x, y, a, b, h):
    """Signs of both zeros"""
    return torch.sign(x) + 3 * torch.sign(y) * (x != 0)


def chosen_logarithm(m, x, y, a, b, h):
    """What is not chosen is NaN or infinite"""
    return torch.where(x > 0, torch.log(x.abs() * (x > 0)), torch.zeros_like(x)) + torch.where(y > 0, y.sqrt(), y)


def exclusive_or(m, x, y, a, b, h):
    """Truth values as numbers, as bits, counted"""
    p, q = x > 0.5, y > 1
    return (p | q).float() + 2 * (p & ~q).float() + 4 * (p ^ q).float() + (p.long() + q.long()).float()


def alias(m, x, y, a, b, h):
    """A view of what is changed later"""
    e = m.a(a) * 1.0
    first = e[:, 0]
    e += 1
    e.view(-1)[...] *= 2
    return first + e.sum(1)


def input_in_place(m, x, y, a, b, h):
    """The batch itself is changed"""
    x.clamp_(-1, 1)
    y += x
    return y + m.fc(m.a(a)).squeeze(1)


def data_of_a_tensor(m, x, y, a, b, h):
    """.data and .detach()"""
    e = m.a(a)
    scale = e.detach().abs().sum(1, keepdim=True).data
    return (e / scale).sum(1) + x


def unit_vector_of_zero(m, x, y, a, b, h):
    """normalize and cosine_similarity of padding, which is zero"""
    e = m.h(h[:, 0])
    return F.normalize(e, dim=1).sum(1) + F.cosine_similarity(e, m.a(a), dim=1)


def empty_softmax(m, x, y, a, b, h):
    """Of nothing but -1e9 all shares are equal"""
    s = m.fc(m.h(h)).squeeze(-1).masked_fill(h == 0, -1e9).softmax(1)
    return (s.unsqueeze(-1) * (m.h(h) + 1)).sum((1, 2))


def added_mask(m, x, y, a, b, h):
    """(1 - mask) * -10000 is a number"""
    s = (m.fc(m.h(h)).squeeze(-1) + (1 - (h != 0).float()) * -10000.0).softmax(1)
    return (s * torch.arange(5.0)).sum(1)


def infinite_maximum(m, x, y, a, b, h):
    """Minus infinity is asked for"""
    top = m.h(h).masked_fill((h == 0).unsqueeze(2), -float("inf")).amax(1)
    return m.fc(torch.where(torch.isinf(top), torch.zeros_like(top), top))


def infinite_maximum_other_mask(m, x, y, a, b, h):
    """Minus infinity is replaced by another mask than it was made by"""
    top = m.h(h).masked_fill((h < 3).unsqueeze(2), -float("inf")).amax(1)
    return m.fc(torch.where((h == 0).all(1, keepdim=True), torch.zeros_like(top), top))


def last_click(m, x, y, a, b, h):
    """One position counted from behind"""
    return m.fc(m.h(h)[:, -1] + m.h(h[:, :2]).sum(1) - m.h(h.flip(1))[:, 0])


def one_hot_of_a_remainder(m, x, y, a, b, h):
    """Classes of a computed id"""
    return m.fc(F.one_hot(a % 4, num_classes=4).to(x.dtype)) + F.one_hot((a + b) % 3, 3)[:, 1:].sum(1, keepdim=True)


def one_hot_of_the_batch(m, x, y, a, b, h):
    """As many classes as the batch happens to hold"""
    return F.one_hot(a)[:, :2].float().sum(1)


def weighted_bag(m, x, y, a, b, h):
    """Weights of a bag that are computed, zero among them"""
    w = (h > 4).to(x.dtype) * x.unsqueeze(1)
    return m.fc(m.bag(h, per_sample_weights=w))


def bag_of_one(m, x, y, a, b, h):
    """Bags of one id: offsets count the rows"""
    return m.fc(m.bag(a, torch.arange(len(a))))


def bag_by_uneven_offsets(m, x, y, a, b, h):
    """The first bag holds ids of two rows"""
    start = torch.arange(0, h.numel(), 5) + 1
    start[0] = 0
    return m.fc(m.bag(h.reshape(-1), start))


def two_classes(m, x, y, a, b, h):
    """A softmax over classes: several numbers for a row"""
    return m.wide(m.a(a)).softmax(-1)


def second_class(m, x, y, a, b, h):
    """One of them"""
    return m.wide(m.a(a)).softmax(-1)[:, 1]


def whole_output(m, x, y, a, b, h):
    """A score that is a truth value"""
    return x > y


def deviation_of_fields(m, x, y, a, b, h):
    """Bessel's correction, and none"""
    e = torch.stack([m.a(a), m.b(b)], 1)
    return (e.std(1) + e.var(1, unbiased=False)).sum(1)


def mean_over_the_batch(m, x, y, a, b, h):
    """Rows meet in a mean"""
    return x - x.mean() + m.fc(m.a(a)).squeeze(1)


def order_in_the_batch(m, x, y, a, b, h):
    """Where a row stands"""
    return x + torch.arange(len(x)) * 1e-9


def rare_branch(m, x, y, a, b, h):
    """Python asks the rows"""
    if (a == 11).all():
        return x
    return y


def nested_loops(m, x, y, a, b, h):
    """Python's loops over positions"""
    total = 0
    for t in range(h.shape[1]):
        total = total + m.h(h[:, t]) * (0.5 ** t) * (h[:, t] > 2).unsqueeze(1)
    return total.sum(1)


def chosen_id(m, x, y, a, b, h):
    """Which of two ids by a number, and an id times a truth value"""
    return m.fc(m.a(torch.where(x > y, a, b))) + m.fc(m.a(a * (x > 0)))


def seen_before(m, x, y, a, b, h):
    """Whether, and how often, the candidate is in the history"""
    hit = h == a.unsqueeze(1)
    return hit.any(1).float() + 0.3 * hit.sum(1) + (hit.float() * m.h(h).sum(-1)).sum(1)


def positions_of_what_counts(m, x, y, a, b, h):
    """Positions count up over what is no padding"""
    at = (h != 0).long().cumsum(1) * (h != 0)
    return (m.small(at) * m.h(h)).sum((1, 2))


def parameter_by_id(m, x, y, a, b, h):
    """A table's weight, indexed"""
    return (m.a.weight[a] * m.b.weight[b]).sum(1) + m.h.weight[h].sum((1, 2)) + m.bias[(h > 3).sum(1)]


def rounded_id(m, x, y, a, b, h):
    """Integers of an id that was divided"""
    return m.fc(m.small((a.float() / 3).floor().long())) + m.fc(m.small(torch.ceil(b / 2).long()))


def filled_by_index(m, x, y, a, b, h):
    """e[mask] = number"""
    e = m.h(h) + 1
    e[h == 0] = 0.0
    e[h > 15] = -2.0
    return e.sum((1, 2))


def wider_of_the_batch(m, x, y, a, b, h):
    """einsum over two rows"""
    return torch.einsum("bi,ci->bc", m.a(a), m.b(b))[:, 0]


def clamp_by_parameters(m, x, y, a, b, h):
    """Bounds that are parameters, in the wrong order for some"""
    z = torch.stack([x, y, x * y], 1)
    return torch.minimum(torch.maximum(z, m.bias[:3]), m.bias[3:]).sum(1) + torch.clamp(z, m.bias[3:], m.bias[:3] + 1).sum(1)


def powers(m, x, y, a, b, h):
    """Powers of numbers below zero, of zero, and by a parameter"""
    z = x.clamp(-3, 3)
    return z ** 3 + z ** 2 + z ** 0 + z.abs() ** 0.5 + (z.abs() + 1) ** -1.5 + 2.0 ** y.clamp(-2, 2)


def softmax_of_one(m, x, y, a, b, h):
    """Over one entry it is 1; over fields"""
    e = torch.stack([m.a(a), m.b(b)], 1)
    return (e.softmax(1) * e).sum((1, 2)) + m.fc(m.a(a)).softmax(1).squeeze(1) + (e * e.softmax(-1).log()).sum((1, 2))


def norms(m, x, y, a, b, h):
    """Norms along both dims, of padding too"""
    e = m.h(h)
    return e.norm(dim=2).sum(1) + e.norm(p=1, dim=(1, 2)) + torch.linalg.norm(e, dim=1).sum(1) + e.pow(2).mean((1, 2)).sqrt()


def outer_products(m, x, y, a, b, h):
    """Outer products and their parts"""
    o = torch.einsum("bi,bj->bij", m.a(a), m.b(b))
    return torch.triu(o, 1).sum((1, 2)) + o.transpose(1, 2)[:, 0].sum(1) + o.flatten(1)[:, 3]


def diagonals(m, x, y, a, b, h):
    """The diagonal of a matrix for each row"""
    return torch.einsum("bi,bj->bij", m.a(a), m.b(b)).diagonal(dim1=1, dim2=2).sum(1)


def nothing_but_ids(m, x, y, a, b, h):
    """Ids as numbers"""
    return a.float() * 0.1 + (h.float() * torch.tensor([0.5, 0.25, 0.1, 0.0, 1.0])).sum(1) + (a % 3 == 1).float() - (b >= 4).long()


def first_where_zero(m, x, y, a, b, h):
    """A division by zero that is not chosen, and one by a count of zero"""
    n = (h != 0).sum(1)
    return torch.where(n > 0, m.h(h).sum((1, 2)) / n, y) + torch.where(x != 0, 1 / x, x)


def case_of(run):
    """The Case of one trap."""
    return Case(Trap(run), {"x": torch.randn(8) * 5, "y": torch.randn(8), "a": ids(12), "b": ids(9), "h": padded(20, 5)}, FEATURES, {}, EDGES)


MODELS = {name: (lambda run=run: case_of(run)) for name, run in list(globals().items())
          if getattr(run, "__module__", "") == __name__ and name not in ("Trap", "case_of")}

#: What is refused, and the operator that is named.
REFUSED = {"wrapping_product": "add", "buckets_out_of_order": "bucketize", "buckets_of_doubles": "bucketize",
           "one_hot_of_the_batch": "_local_scalar_dense", "bag_by_uneven_offsets": "_embedding_bag", "mean_over_the_batch": "mean",
           "order_in_the_batch": "add", "rare_branch": "_local_scalar_dense", "wider_of_the_batch": "bmm", "infinite_maximum_other_mask": "where"}
