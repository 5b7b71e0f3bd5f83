"""random_model(seed): features with rows, CTR parts and single ops in random order, heads over them. No value stays unread."""

import functools

from dpi_export.ops.shapes import BINARY, UNARY

from ctr_parts import Parts
from features import add_features
from model import Model
from op_parts import RECURRENT_FORMS, REDUCE_FORMS, SOFTMAX_FORMS, STREAM_FORMS, Ops


def random_model(seed, rows=None, users=None):
    """The Model of a seed: the same one each time. With `rows` item rows; None: a few. `users`: the item rows of each user of a shared part
    to which each feature belongs as likely as not."""
    m = Model(f"random{seed}", seed, rows, users)
    parts = Parts(m, add_features(m))
    ops = Ops(m, parts)
    steps = [parts.fm] * m.one(0, 1, 2, 3) + [parts.cross] * m.one(0, 0, 1) + [parts.layers] * m.one(0, 1, 2) \
        + [parts.logistic] * m.one(0, 1, 2) + [ops.any] * m.one(0, 4, 8, 12, 16)
    if users is not None:
        steps += [parts.towers, parts.attention] * 2
    if seed % 4:  # the long lists of kinds go round; a model in four has none of this
        turn = seed - seed // 4
        lists = ((ops.unary, UNARY), (ops.binary, BINARY), (ops.softmax, SOFTMAX_FORMS), (ops.reduce, REDUCE_FORMS), (ops.order, (True, False)),
                 (ops.recurrent, RECURRENT_FORMS))
        steps += [functools.partial(add, forms[turn % len(forms)]) for add, forms in lists]
    for i in m.rng.permutation(len(steps)):
        steps[i]()
    if seed % 4:
        ops.history(STREAM_FORMS[turn % len(STREAM_FORMS)])
    heads = m.one(1, 1, 2, 3)
    rest = _unread(m)
    for h in range(heads):
        _head(m, parts, h, rest[h::heads])
    return m


def _unread(m):
    """Values that no op reads."""
    read = {i for op in m.b.ops for i in op["in"]}
    return [x for x in dict.fromkeys(m.pool) if x not in read]


def _head(m, parts, h, rest):
    """A sum of FMs, columns and layers, then the activation, in the forms that the frameworks write."""
    b = m.b
    values = list(dict.fromkeys(rest + m.some(m.pool, 1)[:4]))
    if m.chance(0.2):
        values.append(parts.layers())
    joined = b.concat([m.flat(x) for x in values])
    terms = [b.linear(joined, m.weight(1, m.size(joined)), m.noise(1, scale=0.3) if m.chance(0.6) else None)]
    terms += m.some(list(dict.fromkeys(parts.sums)), 0) + m.some(parts.columns, 0)[:2]
    terms = [terms[i] for i in m.rng.permutation(len(terms))]
    fms = [t for t in terms if t in parts.sums]
    if len(fms) > 1:
        m.marks.add("several sums in one head")
    if len(terms) > 1 and m.chance(0.3):
        logit = b.reduce("sum", b.concat(terms), keepdim=True)
    else:
        logit = terms[0]
        for t in terms[1:]:
            logit = b.add(logit, t)
    if m.chance(0.2):
        logit = b.unary("affine", logit, a=0.5, b=0.25)
    logit = m.tame(logit, 12.0)
    form = m.one("sigmoid", "sigmoid", "sigmoid", "value only", "plain")
    m.marks.add("head: " + form)
    if form == "plain":
        b.head(f"h{h}", logit, activation="none")
    else:
        b.head(f"h{h}", b.sigmoid(logit), logit=None if form == "value only" else logit)
