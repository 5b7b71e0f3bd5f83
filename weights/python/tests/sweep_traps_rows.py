"""Traps: Python that looks at values, rows that see each other, what is written in place."""

import math
import random

import torch
import torch.nn.functional as F
from sweep_traps import trap


# -- Python looks at values ---------------------------------------------------------------------------------------------
@trap("torch.where")
def branch_on_a_sum(m, x, e, h, c, a):
    return x * 2 if x.sum() > 0 else x


@trap("torch.where")
def item_of_one_number(m, x, e, h, c, a):
    return x * x.max().item()


@trap("torch.where")
def a_loop_over_the_longest(m, x, e, h, c, a):
    y = x
    for i in range(int((h != 0).sum(1).max())):
        y = y + e[:, i]
    return y


@trap("torch.where")
def numbers_by_numpy(m, x, e, h, c, a):
    return x + torch.from_numpy(x.detach().numpy() * 2)


@trap("torch.where")
def a_list_of_numbers(m, x, e, h, c, a):
    return x * sum(a[:, 0].tolist())


@trap("Python reads how many rows")
def a_length_of_kept_rows(m, x, e, h, c, a):
    return x / max(1, len(x[a[:, 0] > 50]))


@trap()
def a_branch_on_the_mode(m, x, e, h, c, a):
    return x * 100 if m.training else x


@trap()
def a_branch_on_gradients(m, x, e, h, c, a):
    return x * 2 if torch.is_grad_enabled() and m.training else x


@trap("explain()")
def gradients_decide(m, x, e, h, c, a):
    return x * 2 if torch.is_grad_enabled() else x


@trap()
def a_branch_on_a_type(m, x, e, h, c, a):
    return x * 2 if x.dtype.is_floating_point else x


@trap("number of rows")
def a_branch_on_one_row(m, x, e, h, c, a):
    return x * 2 if x.shape[0] == 1 else x


@trap("number of rows")
def a_branch_on_many_rows(m, x, e, h, c, a):
    return x * 2 if len(x) > 200 else x


@trap()
def an_assertion_in_training(m, x, e, h, c, a):
    if m.training:
        assert not x.isnan().any()
    return x


@trap("if self.training")
def an_assertion_on_values(m, x, e, h, c, a):
    assert not torch.isnan(x).any()
    return x


@trap()
def an_assertion_on_shapes(m, x, e, h, c, a):
    assert x.dim() == 2 and x.shape[1] == 8
    return x


@trap("number of rows")
def python_random_numbers(m, x, e, h, c, a):
    return x * random.random()


@trap()
def its_own_try(m, x, e, h, c, a):
    try:
        return x.new_method()
    except AttributeError:
        return x * 3


@trap("multiply by a mask")
def a_try_around_a_refusal(m, x, e, h, c, a):
    try:
        return x * len(x.nonzero())
    except Exception:
        return x


# -- rows see each other ------------------------------------------------------------------------------------------------
@trap("other rows")
def centred_over_the_batch(m, x, e, h, c, a):
    return x - x.mean(0)


@trap("other rows")
def first_row_subtracted(m, x, e, h, c, a):
    return x - x[:1]


@trap("other rows")
def in_batch_similarity(m, x, e, h, c, a):
    return (x @ x.T).softmax(1) @ x


@trap("other rows")
def attention_with_the_batch_as_length(m, x, e, h, c, a):
    return (x @ x.T / math.sqrt(8)).softmax(-1) @ x


@trap("other rows")
def a_recurrence_over_the_batch(m, x, e, h, c, a):
    return m.gru(e.transpose(0, 1))[0].transpose(0, 1)


@trap("other rows")
def a_view_that_tears_rows(m, x, e, h, c, a):
    return x.reshape(8, -1).T


@trap()
def a_view_that_moves_rows_about_and_back(m, x, e, h, c, a):
    return x.T.contiguous().T.reshape(-1, 2, 4).transpose(0, 1).transpose(1, 0)


@trap()
def rows_merged_with_positions(m, x, e, h, c, a):
    return F.linear(e.reshape(-1, 8), m.w).reshape(-1, 4, 8)


@trap()
def rows_repeated_and_folded_back(m, x, e, h, c, a):
    return (x.repeat_interleave(4, 0) * e.reshape(-1, 8)).reshape(len(x), 4, 8)


@trap("other rows")
def rows_repeated_in_the_wrong_order(m, x, e, h, c, a):
    return (x.repeat(4, 1) * e.reshape(-1, 8)).reshape(len(x), 4, 8)


@trap()
def a_candidate_tiled_beside_its_history(m, x, e, h, c, a):
    return torch.cat([x.unsqueeze(1).repeat(1, 4, 1), e], -1)


@trap("rows")
def a_position_within_the_batch(m, x, e, h, c, a):
    return x + torch.arange(x.shape[0])[:, None]


# -- written in place ---------------------------------------------------------------------------------------------------
@trap()
def an_input_in_place(m, x, e, h, c, a):
    x.mul_(2)
    return x + 1


@trap()
def an_input_in_place_read_twice(m, x, e, h, c, a):
    y = x
    x += 1
    return x * y


@trap()
def a_view_written(m, x, e, h, c, a):
    y = x.clone()
    y.view(-1, 2, 4)[:, 0].mul_(3)
    return y


@trap()
def a_column_written(m, x, e, h, c, a):
    y = x.clone()
    y[:, 3] = a[:, 0]
    return y


@trap()
def columns_written_in_a_loop(m, x, e, h, c, a):
    y = torch.empty(len(x), 8)
    for i in range(8):
        y[:, i] = x[:, 7 - i] * i
    return y


@trap()
def a_mask_written(m, x, e, h, c, a):
    y = x.clone()
    y[y < 0] = -1
    return y


@trap()
def positions_masked_in_place(m, x, e, h, c, a):
    s = e.sum(-1)
    s[h == 0] = -1e9
    return s.softmax(-1)


@trap("x.scatter(1")
def an_item_by_row_written(m, x, e, h, c, a):
    y = torch.zeros(len(x), 20)
    y[torch.arange(len(x)), c] = 1
    return y


@trap("other rows")
def the_first_row_written(m, x, e, h, c, a):
    y = x.clone()
    y[0] = 0
    return y


@trap("forward changes 'count'")
def a_buffer_counts(m, x, e, h, c, a):
    m.count += 1
    return x * m.count


@trap("forward changes 'count'")
def a_buffer_assigned(m, x, e, h, c, a):
    m.count = m.count * 0.9 + x.mean()
    return x


@trap("forward changes")
def a_parameter_changed(m, x, e, h, c, a):
    with torch.no_grad():
        m.v.add_(0.001)
    return x * m.v


@trap("forward changes self.calls")
def an_attribute_counts(m, x, e, h, c, a):
    m.calls = getattr(m, "calls", 0) + 1
    return x * m.calls


@trap("explain()")
def a_list_grows(m, x, e, h, c, a):
    m.kept.append(1)
    return x * len(m.kept)


@trap("first rows")
def a_cache_of_the_first_rows(m, x, e, h, c, a):
    m.cache.setdefault("mean", x.mean())
    return x - m.cache["mean"]


@trap()
def a_cache_of_positions(m, x, e, h, c, a):
    if "position" not in m.cache:
        m.cache["position"] = torch.arange(4, dtype=torch.float32)
    return e * m.cache["position"][:, None]


@trap()
def an_embedding_scaled_out_of_place(m, x, e, h, c, a):
    return F.embedding(c, m.table.weight * 0.5)


@trap()
def an_embedding_normalised(m, x, e, h, c, a):
    return F.embedding(c, F.normalize(m.table.weight, dim=1))
