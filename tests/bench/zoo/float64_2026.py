"""The models of mixers.py and streams.py in numpy float64, from the papers' formulas and not from the modules: loops over tokens, heads, groups
and experts. `score(name, weights, arrays)` has weights by their names in the state of the module; an expert whose gate is 0 is not computed."""

import math

import numpy as np

_erf = np.vectorize(math.erf, otypes=[np.float64])


def gelu(x):
    return 0.5 * x * (1 + _erf(x / math.sqrt(2)))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def norm(w, path, x, eps=1e-5):
    """LayerNorm of the last axis with the weights of a path."""
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x ** 2).mean(-1, keepdims=True) + eps) * w[f"{path}.weight"] + w[f"{path}.bias"]


def linear(w, path, x):
    """nn.Linear, with or without a bias."""
    y = x @ w[f"{path}.weight"].T
    return y + w[f"{path}.bias"] if f"{path}.bias" in w else y


def own(w, path, t, x):
    """The Linear of token t: x [B, in]."""
    return x @ w[f"{path}.weight"][t] + w[f"{path}.bias"][t]


def count(w, path):
    """How many layers a list has."""
    return len({name[len(path) + 1:].split(".")[0] for name in w if name.startswith(path + ".")})


def fields(w, ids):
    """Embeddings [B, fields, dim]."""
    return w["fields.table.weight"][ids + w["fields.offsets"].astype(np.int64)]


# -- RankMixer ----------------------------------------------------------------------------------------------------------------
def _experts(w, path, t, s, top):
    """Token t of [B, D] through the experts that its gate sends it to, row by row."""
    experts, hidden = w[f"{path}.second"].shape[1:3]
    out = np.zeros_like(s)
    for row, x in enumerate(s):
        g = own(w, f"{path}.gate", t, x)
        g = np.maximum(g, 0) if not top else softmax(g)
        chosen = np.flatnonzero(g) if not top else np.argsort(-g, kind="stable")[:top]
        for j in chosen:
            cut = slice(j * hidden, (j + 1) * hidden)
            h = gelu(x @ w[f"{path}.first.weight"][t][:, cut] + w[f"{path}.first.bias"][t][cut])
            out[row] += g[j] * (h @ w[f"{path}.second"][t, j] + w[f"{path}.bias"][t, j])
    return out


def _rankmixer(w, arrays, ffn):
    e = fields(w, arrays["ids"])
    tokens = len(w["project.weight"])
    cuts = np.split(e.reshape(len(e), -1), tokens, 1)
    x = [own(w, "project", t, cut) for t, cut in enumerate(cuts)]
    for i in range(count(w, "layers")):
        heads = [np.split(token, tokens, 1) for token in x]
        mixed = [np.concatenate([heads[t][h] for t in range(tokens)], 1) for h in range(tokens)]
        s = [norm(w, f"layers.{i}.norm_1", m + token) for m, token in zip(mixed, x)]
        x = [norm(w, f"layers.{i}.norm_2", ffn(w, f"layers.{i}.ffn", t, token) + token) for t, token in enumerate(s)]
    return sigmoid(linear(w, "out", sum(x) / tokens))[:, 0]


def rankmixer(w, arrays):
    return _rankmixer(w, arrays, lambda w, path, t, s: own(w, f"{path}.second", t, gelu(own(w, f"{path}.first", t, s))))


def rankmixer_relu(w, arrays):
    return _rankmixer(w, arrays, lambda w, path, t, s: _experts(w, path, t, s, 0))


def rankmixer_top(w, arrays):
    return _rankmixer(w, arrays, lambda w, path, t, s: _experts(w, path, t, s, 2))


# -- Wukong -------------------------------------------------------------------------------------------------------------------
def mlp(w, path, x):
    """criteo.mlp: Linear layers with a ReLU after each but the last, which stand at even places."""
    last = max(int(name[len(path) + 1:].split(".")[0]) for name in w if name.startswith(path + "."))
    for i in range(0, last + 1, 2):
        x = linear(w, f"{path}.{i}", x)
        x = np.maximum(x, 0) if i < last else x
    return x


def wukong(w, arrays):
    """All pairs' dots first, then their projection: the order that the module leaves out."""
    x = fields(w, arrays["ids"])
    for i in range(count(w, "layers")):
        path, rows = f"layers.{i}", len(x)
        dots = np.stack([row @ row.T for row in x]) @ w[f"{path}.fm.y"]
        fm = mlp(w, f"{path}.fm.mlp", norm(w, f"{path}.fm.norm", dots.reshape(rows, -1))).reshape(rows, -1, x.shape[2])
        compressed = np.stack([w[f"{path}.linear.weight"] @ row for row in x])
        rest = np.stack([w[f"{path}.rest.weight"] @ row for row in x]) if f"{path}.rest.weight" in w else x
        x = norm(w, f"{path}.norm", np.concatenate([fm, compressed], 1) + rest)
    return sigmoid(mlp(w, "mlp", x.reshape(len(x), -1)))[:, 0]


# -- models over histories ----------------------------------------------------------------------------------------------------
def history(w, arrays):
    """(fields [B, F, D], target [B, 3 D], places [B, T, 3 D], lengths): places behind the length are zeros."""
    ids, parts = arrays["history"], [w[f"parts.{i}.weight"] for i in range(3)]
    n = ids.shape[1] // 3
    places = np.concatenate([table[ids[:, i * n:(i + 1) * n]] for i, table in enumerate(parts)], 2)
    target = np.concatenate([table[arrays["target"][:, i]] for i, table in enumerate(parts)], 1)
    return fields(w, arrays["fields"]), target, places, (ids[:, :n] != 0).sum(1)


def attend(q, k, v, keys, heads):
    """One query of a row: q [D] over the keys of k, v [m, D] that `keys` names; of no key the mean of all, as a fill of -1e9 has it."""
    d, out = len(q) // heads, []
    for h in range(heads):
        cut = slice(h * d, (h + 1) * d)
        weights = softmax(k[keys][:, cut] @ q[cut] / math.sqrt(d)) if keys else np.full(len(k), 1 / len(k))
        out.append(weights @ (v[keys] if keys else v)[:, cut])
    return np.concatenate(out)


# -- OneTrans -----------------------------------------------------------------------------------------------------------------
TOKENS, PYRAMID, HEADS = 8, (20, 0), 4


def rms(w, path, x):
    return x / np.sqrt((x ** 2).mean(-1, keepdims=True) + 1e-5) * w[f"{path}.weight"]


def by_token(w, path, x, events):
    """x [n, in] of one row: the events' Linear, then a Linear of each token behind them."""
    return np.stack([linear(w, f"{path}.events", row) if i < events else own(w, f"{path}.own", i - events, row) for i, row in enumerate(x)])


def _onetrans_block(w, path, x, length, asked):
    """One row [n + TOKENS, d] of which `length` events are real; gives [asked + TOKENS, d]."""
    events, normed = len(x) - TOKENS, rms(w, f"{path}.norms.0", x)
    kv, d = by_token(w, f"{path}.kv", normed, events), x.shape[1]
    stay = [*range(asked), *range(events, len(x))]
    q, out = by_token(w, f"{path}.q", normed[stay], asked), []
    for i, place in enumerate(stay):
        keys = [j for j in range(events) if j < length and (place >= events or j >= place)] + [j for j in range(events, len(x)) if j <= place]
        out.append(attend(q[i], kv[:, :d], kv[:, d:], keys, HEADS))
    z = x[stay] + by_token(w, f"{path}.out", np.stack(out), asked)
    return z + by_token(w, f"{path}.second", gelu(by_token(w, f"{path}.first", rms(w, f"{path}.norms.1", z), asked)), asked)


def onetrans(w, arrays):
    given, target, places, lengths = history(w, arrays)
    states = []
    for row, length in enumerate(lengths):
        tokens = linear(w, "split", np.concatenate([given[row].reshape(-1), target[row]])).reshape(TOKENS, -1)
        x = np.concatenate([linear(w, "events", places[row]), tokens])
        for i, asked in enumerate(PYRAMID):
            x = _onetrans_block(w, f"blocks.{i}", x, length, asked)
        states.append(x.reshape(-1))
    return sigmoid(mlp(w, "mlp", np.stack(states)))[:, 0]


# -- LONGER -------------------------------------------------------------------------------------------------------------------
USER, MERGE, RECENT, GLOBALS = 6, 5, 4, 3


def _block(w, path, asking, read, keys, heads):
    """A transformer block of one row; `keys[i]` are those of query i."""
    kv, d = linear(w, f"{path}.kv", norm(w, f"{path}.norms.0", read)), asking.shape[1]
    q = linear(w, f"{path}.q", norm(w, f"{path}.norms.0", asking))
    x = asking + linear(w, f"{path}.out", np.stack([attend(q[i], kv[:, :d], kv[:, d:], k, heads) for i, k in enumerate(keys)]))
    return x + linear(w, f"{path}.second", gelu(linear(w, f"{path}.first", norm(w, f"{path}.norms.1", x))))


def _merged(w, places, length):
    """Tokens of MERGE places each, of one row."""
    e, out = linear(w, "events", places) + w["place"], []
    for begin in range(0, len(e), MERGE):
        real = [i for i in range(MERGE) if begin + i < length]
        out.append(_block(w, "inner", e[begin:begin + MERGE], e[begin:begin + MERGE], [real] * MERGE, 1).reshape(-1))
    return out


def longer(w, arrays):
    given, target, places, lengths = history(w, arrays)
    states = []
    for row, length in enumerate(lengths):
        user, shown = given[row][:USER].reshape(-1), given[row][USER:].reshape(-1)
        tokens = _merged(w, places[row], length)
        x = np.stack([linear(w, "target", np.concatenate([target[row], shown])), linear(w, "user", user), w["summary"], *tokens])
        real = [GLOBALS + j for j in range(len(tokens)) if j * MERGE < length]
        sees = [[*range(GLOBALS), *real]] * GLOBALS + [[*range(GLOBALS), *(j for j in real if j >= GLOBALS + i)] for i in range(RECENT)]
        read, x = x, x[:GLOBALS + RECENT]
        for i in range(count(w, "layers")):
            x = _block(w, f"layers.{i}", x, read, sees, HEADS)
            read, sees = x, [[j for j in keys if j < GLOBALS + RECENT] for keys in sees]
        states.append(norm(w, "norm", x[:GLOBALS]).reshape(-1))
    return sigmoid(mlp(w, "mlp", np.stack(states)))[:, 0]


# -- MTGR ---------------------------------------------------------------------------------------------------------------------
NEW = 10


def silu(x):
    return x * sigmoid(x)


def group_norm(w, path, x, groups):
    """The tokens of a group through a LayerNorm of its own."""
    out = np.empty_like(x)
    for g in set(groups):
        mine = np.flatnonzero(np.asarray(groups) == g)
        out[mine] = norm({f"{path}.weight": w[f"{path}.gain"][g], f"{path}.bias": w[f"{path}.shift"][g]}, path, x[mine])
    return out


def _mtgr_layer(w, path, x, groups, sees):
    k, q, v, u = np.split(silu(linear(w, f"{path}.joined", group_norm(w, f"{path}.norms.0", x, groups))), 4, 1)
    d, y = x.shape[1] // HEADS, np.zeros_like(x)
    for i, keys in enumerate(sees):
        for h in range(HEADS):
            cut = slice(h * d, (h + 1) * d)
            y[i, cut] = silu(k[keys][:, cut] @ q[i, cut]) / len(x) @ v[keys][:, cut]
    return x + linear(w, f"{path}.out", group_norm(w, f"{path}.norms.1", y * u, groups))


def mtgr(w, arrays):
    given, target, places, lengths = history(w, arrays)
    states, old = [], places.shape[1] - NEW
    groups = [0] * USER + [1] * old + [2] * NEW + [3]
    for row, length in enumerate(lengths):
        users = [own(w, "user", t, given[row][t]) for t in range(USER)]
        candidate = linear(w, "candidate", np.concatenate([target[row], given[row][USER:].reshape(-1)]))
        x = np.concatenate([users, linear(w, "events", places[row][NEW:]), linear(w, "new", places[row][:NEW]), [candidate]])
        fixed = [*range(USER), *(USER + j for j in range(old) if NEW + j < length)]
        new = [USER + old + j for j in range(NEW) if j < length]
        sees = [fixed] * (USER + old) + [fixed + [j for j in new if j >= USER + old + i] for i in range(NEW)] + [fixed + new + [len(x) - 1]]
        for i in range(count(w, "layers")):
            x = _mtgr_layer(w, f"layers.{i}", x, groups, sees)
        states.append(x[-1])
    return sigmoid(mlp(w, "mlp", np.stack(states)))[:, 0]


MODELS = {f.__name__: f for f in (rankmixer, rankmixer_relu, rankmixer_top, wukong, onetrans, longer, mtgr)}


def score(name, weights, arrays):
    """[B] scores; weights {name: array} of any float type."""
    return MODELS[name]({k: np.asarray(v, np.float64) for k, v in weights.items()}, arrays)
