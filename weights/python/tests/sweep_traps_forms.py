"""Traps: types, masks and padding, forms of outputs, functions and layers."""

import collections
import dataclasses
import math

import torch
import torch.nn.functional as F
from sweep_traps import trap
from torch import nn


# -- types --------------------------------------------------------------------------------------------------------------
@trap()
def an_integer_and_a_float(m, x, e, h, c, a):
    return c * 0.5 + h.sum(1)


@trap()
def integers_divided(m, x, e, h, c, a):
    return c / 3 + c // 3


@trap()
def a_truth_value_added(m, x, e, h, c, a):
    return (c > 3) + (c > 5) + x[:, 0]


@trap(".float()")
def autocast_on_the_cpu(m, x, e, h, c, a):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return F.linear(x, m.w)


@trap(".float()")
def double_on_the_way(m, x, e, h, c, a):
    return (x.double() * 3).float()


@trap(".float()")
def double_decides(m, x, e, h, c, a):
    return (x.double() * 3 > 0.3).float()


@trap("wraps around")
def int8_wraps(m, x, e, h, c, a):
    return (c.to(torch.int8) * torch.tensor(100, dtype=torch.int8) + h[:, 0].to(torch.int8)).float()


@trap()
def a_half_table(m, x, e, h, c, a):
    return m.short(c).float()


@trap()
def truth_times_number(m, x, e, h, c, a):
    return x * (x > 0)


@trap()
def a_hash_of_two_ids(m, x, e, h, c, a):
    return m.table((c * 7 + h[:, 0] * 13) % 30)


@trap()
def a_hash_beyond_float32(m, x, e, h, c, a):
    return m.table((c * 2654435761) % 30)


@trap("bits of numbers")
def a_hash_of_two_ids_beyond_float32(m, x, e, h, c, a):
    return m.table(((c * 2654435761) ^ (h[:, 0] * 40503)) % 30)


@trap()
def a_negative_remainder(m, x, e, h, c, a):
    return m.table((c - 10) % 30) + torch.fmod(c - 10, 7)[:, None]


@trap()
def an_age_bucket(m, x, e, h, c, a):
    return m.table((a[:, 0].clamp(0, 99) / 10).long())


@trap("clamp")
def an_age_bucket_without_a_clamp(m, x, e, h, c, a):
    return m.table((a[:, 0] // 10).long())


@trap("clamp")
def a_remainder_of_a_number(m, x, e, h, c, a):
    return m.table((a[:, 0] % 7).long())


# -- masks and padding ---------------------------------------------------------------------------------------------------
@trap()
def a_masked_mean(m, x, e, h, c, a):
    k = (h != 0).float()
    return (e * k[:, :, None]).sum(1) / k.sum(1, keepdim=True).clamp(min=1)


@trap()
def a_masked_mean_with_epsilon(m, x, e, h, c, a):
    k = h.ne(0).unsqueeze(-1)
    return (e * k).sum(1) / (k.sum(1) + 1e-9)


@trap()
def a_maximum_over_padding(m, x, e, h, c, a):
    return e.masked_fill((h == 0)[:, :, None], -1e4).max(1)[0]


@trap()
def a_softmax_of_minus_infinity(m, x, e, h, c, a):
    s = e.sum(-1).masked_fill(h == 0, float("-inf"))
    return (s.softmax(-1).nan_to_num(0.0)[:, :, None] * e).sum(1)


@trap()
def a_mask_by_lengths(m, x, e, h, c, a):
    n = (h != 0).sum(1)
    return (e * (torch.arange(4)[None] < n[:, None])[:, :, None]).sum(1)


@trap()
def the_last_item(m, x, e, h, c, a):
    return e[torch.arange(len(e)), (h != 0).sum(1).clamp(min=1) - 1]


@trap()
def the_last_item_of_an_empty_bag(m, x, e, h, c, a):
    return e[torch.arange(len(e)), (h != 0).sum(1) - 1]


@trap()
def packed_sequences(m, x, e, h, c, a):
    n = (h != 0).sum(1).clamp(min=1)
    packed = nn.utils.rnn.pack_padded_sequence(e, n, batch_first=True, enforce_sorted=False)
    return m.gru(packed)[1][0]


@trap("total_length")
def packed_and_padded_to_the_longest(m, x, e, h, c, a):
    n = (h != 0).sum(1).clamp(min=1)
    packed = nn.utils.rnn.pack_padded_sequence(e, n, batch_first=True, enforce_sorted=False)
    return nn.utils.rnn.pad_packed_sequence(m.gru(packed)[0], batch_first=True)[0].sum(1)


@trap()
def bags_that_skip_padding(m, x, e, h, c, a):
    return F.embedding_bag(h, m.table.weight, mode="mean", padding_idx=0)


@trap()
def bags_that_are_weighted(m, x, e, h, c, a):
    return F.embedding_bag(h, m.table.weight, mode="sum", per_sample_weights=x[:, :4])


@trap("other rows")
def bags_of_uneven_offsets(m, x, e, h, c, a):
    return F.embedding_bag(h.reshape(-1), m.table.weight, (h != 0).sum(1).cumsum(0) - (h != 0).sum(1), mode="sum")


@trap()
def a_bag_of_all_history(m, x, e, h, c, a):
    return F.embedding_bag(h, m.table.weight, mode="max")


@trap("missing")
def a_missing_number(m, x, e, h, c, a):
    return torch.where(torch.isnan(x), torch.zeros_like(x), x)


@trap()
def a_causal_mask(m, x, e, h, c, a):
    s = e @ e.transpose(1, 2) / math.sqrt(8)
    return s.masked_fill(torch.ones(4, 4).triu(1).bool(), float("-inf")).softmax(-1) @ e


# -- forms of outputs, functions, layers ---------------------------------------------------------------------------------
class Double(torch.autograd.Function):
    """Twice its argument; its gradient is another one."""

    @staticmethod
    def forward(ctx, x):
        """2 x"""
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        """Nonsense."""
        return gradient * 17


@trap()
def a_function_of_its_own(m, x, e, h, c, a):
    return Double.apply(x)


@trap()
def a_straight_through_estimator(m, x, e, h, c, a):
    hard = (x > 0).float()
    return hard + x.sigmoid() - x.sigmoid().detach()


@trap()
def gradients_are_scaled(m, x, e, h, c, a):
    return x * 0.1 + (x - x * 0.1).detach()


@trap()
def no_gradients(m, x, e, h, c, a):
    with torch.no_grad():
        y = F.linear(x, m.w)
    return x + y


@trap()
def dropout_in_evaluation(m, x, e, h, c, a):
    return m.drop(x)


@trap("training=self.training")
def a_functional_dropout(m, x, e, h, c, a):
    return F.dropout(x, 0.3)


@trap()
def a_dict_of_layers(m, x, e, h, c, a):
    layers = {"one": m.norm, "two": m.drop}
    for layer in layers.values():
        x = layer(x)
    return x


@trap()
def a_named_tuple(m, x, e, h, c, a):
    return collections.namedtuple("Out", "score hidden")(x, e).score


@trap()
def a_data_class_inside(m, x, e, h, c, a):
    made = dataclasses.make_dataclass("Out", ["score"])
    return made(x.tanh()).score


@trap()
def a_hook_changes_what_a_layer_gives(m, x, e, h, c, a):
    handle = m.norm.register_forward_hook(lambda module, given, out: out * 2)
    y = m.norm(x)
    handle.remove()
    return y


@trap()
def a_generator_of_parts(m, x, e, h, c, a):
    return sum(part for part in (e[:, i] * i for i in range(4)))


@trap()
def a_while_loop_on_a_shape(m, x, e, h, c, a):
    y = e
    while y.shape[1] > 1:
        y = y[:, ::2] + y[:, 1::2]
    return y


@trap()
def a_functional_call_of_weights(m, x, e, h, c, a):
    return F.linear(x, m.w * torch.sigmoid(m.v), m.v)


@trap()
def a_checkpoint(m, x, e, h, c, a):
    from torch.utils.checkpoint import checkpoint

    return checkpoint(m.norm, x) if m.training else m.norm(x)


@trap()
def a_tensor_made_from_numbers(m, x, e, h, c, a):
    return x * torch.tensor([math.pi] * 8)


@trap()
def a_size_of_columns(m, x, e, h, c, a):
    return x / x.shape[1] ** 0.5


@trap()
def squeezed_and_seen_with_one_row(m, x, e, h, c, a):
    return a.squeeze(1)


@trap()
def memory_shared_with_an_expanded_view(m, x, e, h, c, a):
    return a.expand(-1, 8) * x


@trap("torch.where(y == 0")
def identical_outputs_of_two_paths(m, x, e, h, c, a):
    return torch.where(x > 1e9, x / 0, x)


@trap()
def a_quotient_by_zero_masked(m, x, e, h, c, a):
    return torch.where(x != 0, 1 / torch.where(x != 0, x, torch.ones_like(x)), torch.zeros_like(x)).clamp(-100, 100)


@trap()
def a_table_read_backwards(m, x, e, h, c, a):
    return m.table(29 - c)


@trap()
def an_id_from_the_end(m, x, e, h, c, a):
    return m.table.weight[c - 5]


@trap()
def one_id_in_two_tables(m, x, e, h, c, a):
    return m.table(c) * m.short(c).float() + m.g[c % 4]
