"""Random features with every rule of FORMAT.md part 4, and rows that make each rule act."""

import numpy as np


def add_features(m):
    """Features and their columns. Returns {kind: [names]}."""
    m.n_items = int(m.rng.integers(4, 10))
    m.n_items = m.rows_wanted or m.n_items
    with_shared = m.chance(0.5) or m.users_wanted is not None
    if m.users_wanted is not None:
        m.n_items, m.shared_counts = sum(m.users_wanted), list(m.users_wanted)
    elif with_shared:
        users = int(m.rng.integers(1, 4)) * (m.n_items // 10 + 1)
        cuts = np.sort(m.rng.integers(0, m.n_items + 1, users - 1))
        m.shared_counts = [int(n) for n in np.diff(np.concatenate([[0], cuts, [m.n_items]]))]
    names = {"categorical": [], "sequence": [], "numeric": [], "dense": []}
    plan = ["categorical"] * int(m.rng.integers(2, 5)) + ["sequence"] * int(m.rng.integers(1, 3)) \
        + ["numeric"] * int(m.rng.integers(1, 4)) + ["dense"] * int(m.rng.integers(0, 2))
    for i in m.rng.permutation(len(plan)):
        kind = plan[i]
        name = f"{kind[:3]}{len(names[kind])}"
        space = "shared" if with_shared and m.chance(0.4 if m.users_wanted is None else 0.5) else "item"
        {"categorical": _categorical, "sequence": _sequence, "numeric": _numeric, "dense": _dense}[kind](m, name, space)
        names[kind].append(name)
    m.close_features()
    return names


def _id_rules(m):
    vocab = int(m.rng.integers(4, 12))
    rules = {"vocab_size": vocab, "out_of_range": m.one("error", "oov", "default"),
             "missing": m.one("error", "pad", "pad", "default"), "pad_id": m.one(0, int(m.rng.integers(vocab)))}
    rules["missing_id"] = m.one(None, -1, int(m.rng.integers(vocab)))
    if rules["out_of_range"] == "oov":
        rules["oov_id"] = int(m.rng.integers(vocab))
    if "default" in (rules["out_of_range"], rules["missing"]):
        rules["default_id"] = int(m.rng.integers(vocab))
    return rules


def _any_id(m, rules):
    """A valid id, or one outside where a rule takes it. The pad id often: the mask rules differ in it."""
    valid = [i for i in range(rules["vocab_size"]) if i != rules["missing_id"]]
    if m.chance(0.25) and rules["pad_id"] in valid:
        return rules["pad_id"]
    if rules["out_of_range"] != "error" and m.chance(0.2):
        outside = [i for i in (-1, -7, rules["vocab_size"], 2**40) if i != rules["missing_id"]]
        return m.one(*outside)
    return m.one(*valid)


def _categorical(m, name, space):
    rules = _id_rules(m)
    m.b.categorical(name, space=space, **rules)
    column = []
    for _ in range(m.n_rows(space)):
        gone = rules["missing"] != "error" and m.chance(0.3)
        column.append(m.one(None, rules["missing_id"]) if gone else _any_id(m, rules))
    m.columns[name] = column


def _sequence(m, name, space):
    rules = _id_rules(m)
    max_len, weighted = m.one(0, 1, 3, 4, 6), m.chance(0.3)
    m.b.sequence(name, space=space, max_len=max_len, keep=m.one("first", "last"), pad_side=m.one("post", "pre"),
                 weighted=weighted, **rules)
    bags = []
    for _ in range(m.n_rows(space)):
        least = 1 if rules["missing"] == "error" else 0
        n = int(m.rng.integers(least, (max_len or 4) + 3))
        bag = [_any_id(m, rules) for _ in range(n)]
        if rules["missing_id"] is not None and rules["missing"] != "error":
            bag = [rules["missing_id"] if m.chance(0.15) else i for i in bag]
        bags.append(bag if m.chance(0.8) or least else [])
    m.columns[name] = bags
    if weighted and m.chance(0.8):
        m.weights[name] = [[float(m.one(0.25, 0.5, 1.0, 1.5, 2.0)) for _ in bag] for bag in bags]


def _floats(m, rules, n, dim):
    x = m.noise(n, dim)
    if rules["missing"] != "error":
        x[m.rng.random(x.shape) < 0.2] = np.nan
    return x


def _number_rules(m):
    return {"missing": m.one("error", "pad", "default"), "default": m.one(0.0, -0.75, 1.5)}


def _numeric(m, name, space):
    rules = _number_rules(m)
    m.b.numeric(name, space=space, **rules)
    m.columns[name] = _floats(m, rules, m.n_rows(space), 1)[:, 0].tolist()


def _dense(m, name, space):
    rules, dim = _number_rules(m), int(m.rng.integers(2, 7))
    m.b.dense(name, dim, space=space, **rules)
    m.columns[name] = _floats(m, rules, m.n_rows(space), dim).tolist()
