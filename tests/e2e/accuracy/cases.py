"""The models whose error is measured, each with at least ROWS rows: bundles of the tree over rows drawn from their golden ones, random
models, and models built to hurt a fold."""

import pathlib
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "weights" / "python"), str(ROOT / "tests" / "parity"), str(ROOT / "tests" / "e2e" / "random")]

from dpi_export import Builder, Rows  # noqa: E402
from dpi_export.ops.executor import Executor  # noqa: E402
from dpi_export.bundle.reader import Bundle  # noqa: E402
from dpi_export.schema import Schema  # noqa: E402
from models import random_model  # noqa: E402

ROWS = 1024


class Case:
    """`path`: a bundle; `model`: what the executor reads; `rows`: n of them; `built`: to hurt a fold."""

    def __init__(self, name, path, model, rows, n, built=False):
        self.name, self.path, self.model, self.rows, self.n, self.built = name, path, model, rows, n, built
        self.heads = [h["name"] for h in model.heads]

    def with_more_rows(self, times):
        """The same model with so many times the rows, drawn from its own; None where they have a shared part."""
        if self.rows.shared_rows:
            return None
        n = times * self.n
        return Case(self.name, self.path, self.model, drawn_rows(self.model, self.rows, self.n, np.random.default_rng(7), n), n, self.built)


# -- bundles of the tree ------------------------------------------------------------------------------------------------
def bundle_cases(pattern="*"):
    """The golden bundles of the importers, and the demos."""
    for folder in ("tests/e2e/golden", "weights/demo"):
        for path in sorted((ROOT / folder).glob(f"{pattern}.h5")):
            bundle = Bundle(path)
            yield Case(path.stem, path, bundle, drawn_rows(bundle, bundle.golden["rows"], bundle.golden["n"], np.random.default_rng(5)), ROWS)


def drawn_rows(model, golden, n, rng, rows=ROWS):
    """Rows whose every column and bag comes from some of `golden`'s n, each from another one: values as the model met them, rows that are new."""
    if golden.shared_rows:
        raise ValueError("rows with a shared part are not drawn from")
    schema = Schema(model.features)
    dense = None
    if golden.dense is not None:
        columns = golden.dense.shape[1]
        dense = golden.dense[rng.integers(n, size=(rows, columns)), np.arange(columns)]
    slots = len(schema.slots())
    if not slots:
        return Rows(dense=dense, n=rows)
    offsets = golden.offsets if golden.offsets is not None else np.arange(n * slots + 1)
    bag = (rng.integers(n, size=(rows, slots)) * slots + np.arange(slots)).reshape(-1)
    length = offsets[bag + 1] - offsets[bag]
    ends = np.concatenate([[0], np.cumsum(length)])
    take = np.repeat(offsets[bag] - ends[:-1], length) + np.arange(ends[-1])
    weights = None if golden.weights is None else golden.weights[take]
    return Rows(dense=dense, ids=golden.ids[take], offsets=ends, weights=weights, n=rows)


# -- random models ------------------------------------------------------------------------------------------------------
def random_case(seed, folder):
    """The random model of a seed, with many rows."""
    m = random_model(seed, rows=ROWS)
    path = pathlib.Path(folder) / f"random{seed}.h5"
    m.b.write(path)
    return Case(f"random{seed}", path, m.b, m.rows, m.n_items)


# -- models built to hurt a fold ----------------------------------------------------------------------------------------
class Maker:
    """A Builder with categorical and numeric features, and columns for them."""

    def __init__(self, name, seed=3):
        self.b, self.rng, self.columns = Builder(name), np.random.default_rng(seed), {}

    def noise(self, *dims, scale=1.0):
        return (scale * self.rng.standard_normal(dims)).astype(np.float32)

    def categorical(self, i, vocab=50, space="item"):
        self.b.categorical(f"c{i}", vocab_size=vocab, space=space)
        self.columns[f"c{i}"] = self.rng.integers(vocab, size=ROWS).tolist()
        return self.b.input(f"c{i}")

    def numeric(self, i, mean=0.0, std=1.0):
        self.b.numeric(f"n{i}")
        self.columns[f"n{i}"] = (mean + std * self.rng.standard_normal(ROWS)).tolist()
        return self.b.input(f"n{i}")

    def sequence(self, i, vocab=50, space="item"):
        self.b.sequence(f"s{i}", vocab_size=vocab, max_len=6, missing="pad", space=space)
        self.columns[f"s{i}"] = [self.rng.integers(vocab, size=self.rng.integers(7)).tolist() for _ in range(ROWS)]
        return self.b.input(f"s{i}")

    def table(self, name, rows, dim, scale, dtype="f32"):
        self.b.table(name, self.noise(rows, dim, scale=scale), dtype=dtype)
        return name

    def layers(self, x, widths=(16, 1), norm=None):
        for i, out in enumerate(widths):
            n = int(np.prod(self.b.shape(x)))
            x = self.b.linear(x, self.noise(out, n, scale=1 / np.sqrt(n)), self.noise(out, scale=0.1))
            if norm and out > 1:
                x = norm(x, out)
            if i + 1 < len(widths):
                x = self.b.unary("relu", x)
        return x

    def statistics(self, x):
        """Mean and deviation of a value over the rows, as BatchNorm would have counted them."""
        value = Executor(self.b).run(Rows.from_columns(self.b, self.columns), keep=True)["ops"][x]
        return value.mean(axis=0), value.std(axis=0) + 1e-3

    def finish(self, logit, folder):
        self.b.head("p", self.b.sigmoid(logit), logit=logit)
        path = pathlib.Path(folder) / f"{self.b.name}.h5"
        self.b.write(path)
        rows = Rows.from_columns(self.b, self.columns)
        return Case(self.b.name, path, self.b, rows, ROWS, built=True)


def batch_norm(m, x):
    """BatchNorm over the rows as it is exported: scale and shift, each a float32. gamma near 1, beta near 0."""
    mean, std = m.statistics(x)
    gamma, beta = 1 + 0.1 * m.rng.standard_normal(mean.shape), 0.1 * m.rng.standard_normal(mean.shape)
    return m.b.unary("affine", x, scale=(gamma / std).astype(np.float32), shift=(beta - gamma * mean / std).astype(np.float32))


def normed_inputs(ratio, folder, form):
    """Numerics of this mean over deviation, and embeddings, through BatchNorm into layers ("deep"), into the last sum ("wide") or both;
    "hand": the numerics alone, less a constant and over another, as by hand."""
    m = Maker(f"norm_{form}_{ratio:.10g}")
    std = [3.0, 0.5, 20.0, 1.0]
    numbers = [m.numeric(i, ratio * s, s) for i, s in enumerate(std)]
    vectors = [m.b.embed(m.categorical(i), m.table(f"t{i}", 50, 8, 0.3)) for i in range(4)]
    if form == "hand":
        numbers = [m.b.div(m.b.sub(x, m.b.const(np.float32([ratio * s]))), m.b.const(np.float32([s]))) for x, s in zip(numbers, std)]
        x = m.b.concat(numbers + vectors)
    else:
        x = batch_norm(m, m.b.concat(numbers + vectors))
    terms = []
    if form in ("deep", "both"):
        terms.append(m.layers(x))
    if form in ("wide", "both", "hand"):
        terms.append(m.b.linear(x, m.noise(1, 36, scale=1 / 6), m.noise(1, scale=0.1)))
    return m.finish(terms[0] if len(terms) == 1 else m.b.add(*terms), folder)


def normed_tables(ratio, folder, form):
    """Embeddings whose every column has this mean over deviation (pooled ones too), normalised before layers or the last sum."""
    m = Maker(f"norm_table_{form}_{ratio:.10g}")
    columns = []
    for i in range(6):
        m.b.table(f"t{i}", (ratio + m.noise(50, 8)).astype(np.float32))
        columns.append(m.b.embed(m.sequence(i), f"t{i}", pooling="mean") if i == 5 else m.b.embed(m.categorical(i), f"t{i}"))
    x = batch_norm(m, m.b.concat(columns))
    return m.finish(m.layers(x, widths=(16, 1) if form == "deep" else (1,)), folder)


def normed_layers(ratio, folder, form):
    """BatchNorm in two hidden layers before or behind the activation, over biases of this size; "shifted": over numerics of this mean."""
    m = Maker(f"norm_hidden_{form}_{ratio:.10g}")
    x = m.b.concat([m.numeric(i, ratio if form == "shifted" else 0.0) for i in range(6)]
                   + [m.b.embed(m.categorical(i), m.table(f"t{i}", 50, 8, 0.5)) for i in range(3)])
    for width in (24, 16):
        n = int(np.prod(m.b.shape(x)))
        x = m.b.linear(x, m.noise(width, n, scale=1 / np.sqrt(n)), m.noise(width, scale=0.1 if form == "shifted" else ratio))
        x = batch_norm(m, m.b.unary("relu", x)) if form == "behind" else m.b.unary("relu", batch_norm(m, x))
    return m.finish(m.b.linear(x, m.noise(1, 16, scale=0.25)), folder)


def scaled(folder, scale, shift, weight, std):
    """An affine map in front of a layer and one behind it whose scale, times a weight, is no normal number in float32. Some inputs are 0."""
    m = Maker(f"scaled_{scale:g}_{weight:g}_{shift:g}".replace("+", ""))
    x = m.b.concat([m.numeric(i, 0.0, std) for i in range(4)])
    m.columns["n0"][::3] = [0.0] * len(m.columns["n0"][::3])
    map_of = lambda x, n: m.b.unary("affine", x, scale=np.full(n, scale, np.float32), shift=np.full(n, shift, np.float32))  # noqa: E731
    layer = lambda x: m.b.linear(x, np.abs(m.noise(8, 4, scale=weight)))  # noqa: E731
    before, behind = layer(map_of(x, 4)), map_of(layer(x), 8)
    return m.finish(m.b.linear(m.b.unary("tanh", m.b.concat([before, behind])), m.noise(1, 16, scale=0.25)), folder)


def fm(folder, dim, fields, scale, numbers=0, bags=0, number_scale=1.0):
    """FM and its linear terms over embeddings of this width and size, over numerics' vectors, over bags; an MLP beside it."""
    m = Maker(f"fm_d{dim}_f{fields}_n{numbers}_b{bags}_s{scale:g}_x{number_scale:g}")
    vectors, linear = [], []
    for i in range(fields):
        x = m.categorical(i)
        vectors.append(m.b.embed(x, m.table(f"v{i}", 50, dim, scale)))
        linear.append(m.b.embed(x, m.table(f"w{i}", 50, 1, 0.1)))
    for i in range(bags):
        x = m.sequence(i)
        vectors.append(m.b.embed(x, m.table(f"bv{i}", 50, dim, scale), pooling=("mean", "sum", "max")[i % 3]))
    for i in range(numbers):
        x = m.numeric(i, 0.0, number_scale)
        vectors.append(m.b.linear(x, m.noise(dim, 1, scale=scale)))
        linear.append(m.b.linear(x, m.noise(1, 1, scale=0.1 / number_scale)))
    e = m.b.reshape(m.b.concat(vectors), [len(vectors), dim])
    s = m.b.reduce("sum", e, axis=0)
    pairs = m.b.sub(m.b.mul(s, s), m.b.reduce("sumsq", e, axis=0))
    y = m.b.unary("affine", m.b.reduce("sum", pairs, axis=0, keepdim=True), a=0.5, b=0.0)
    y = m.b.add(y, m.b.reduce("sum", m.b.concat(linear), axis=0, keepdim=True))
    return m.finish(m.b.add(y, m.layers(m.b.concat(vectors))), folder)


def many_columns(folder, fields):
    """Logistic regression over many one-column tables and numerics."""
    m = Maker(f"lr_{fields}")
    columns = [m.b.embed(m.categorical(i), m.table(f"w{i}", 50, 1, 0.5)) for i in range(fields)]
    columns += [m.b.linear(m.numeric(i), m.noise(1, 1, scale=0.3)) for i in range(fields // 2)]
    return m.finish(m.b.reduce("sum", m.b.concat(columns), axis=0, keepdim=True), folder)


def cross(folder, layers, scale):
    """DCN with weight vectors."""
    m = Maker(f"cross_{layers}_s{scale:g}")
    x0 = m.b.concat([m.b.embed(m.categorical(i), m.table(f"t{i}", 50, 8, scale)) for i in range(5)] + [m.numeric(i) for i in range(3)])
    x, n = x0, 43
    for _ in range(layers):
        x = m.b.add(m.b.add(m.b.mul(x0, m.b.linear(x, m.noise(1, n, scale=1 / np.sqrt(n)))), m.b.const(m.noise(n, scale=0.1))), x)
    return m.finish(m.b.linear(x, m.noise(1, n, scale=0.2)), folder)


def target(folder, mean, weight, space="item"):
    """Target attention over [q, k, q - k, q k], vectors of this mean over deviation, the difference's weights so many times the others'.
    With a history of the user its part is a product of its own."""
    m = Maker(f"target_m{mean:g}_w{weight:g}_{space}")
    m.b.table("t", (mean + m.noise(50, 16)).astype(np.float32))
    q = m.b.expand(m.b.reshape(m.b.embed(m.categorical(0), "t"), [1, 16]), [6, 16])
    k = m.b.embed(m.sequence(1, space=space), "t", pooling="none")
    w = m.noise(24, 64, scale=1 / 8)
    w[:, 32:48] *= weight
    w[:, 48:] /= 1 + mean
    h = m.b.relu(m.b.linear(m.b.concat([q, k, m.b.sub(q, k), m.b.mul(q, k)]), w, m.noise(24, scale=0.1)))
    pooled = m.b.reduce("mean", m.b.mul(m.b.linear(h, m.noise(1, 24, scale=0.2)), m.b.sub(k, m.b.const(np.float32([mean])))), axis=0)
    return m.finish(m.layers(pooled), folder)


def towers(folder, mean, width):
    """The dot of a user's vector of this mean over deviation and an item's layer of this width."""
    m = Maker(f"towers_m{mean:g}_{width}")
    tables = [m.table(f"t{i}", 50, 16, 0.5) for i in range(2)]
    u = m.b.linear(m.b.embed(m.categorical(0, space="shared"), tables[0]), m.noise(width, 16, scale=0.3), mean + m.noise(width))
    h = m.b.relu(m.b.linear(m.b.embed(m.categorical(1), tables[1]), m.noise(40, 16, scale=0.3), m.noise(40, scale=0.2)))
    i = m.b.linear(h, m.noise(width, 40, scale=0.1), m.noise(width, scale=0.2))
    logit = m.b.reduce("sum", m.b.mul(u, i), keepdim=True)
    return m.finish(m.b.unary("affine", logit, a=float(1 / (width ** 0.5 * (1 + mean))), b=0.0), folder)


def constructed(folder):
    """(make, arguments) of every constructed case."""
    for ratio in (0.5, 1, 2, 8, 700, 1e6):
        yield from ((normed_inputs, (ratio, folder, form)) for form in ("deep", "wide", "both", "hand"))
        yield from ((normed_tables, (ratio, folder, form)) for form in ("deep", "wide"))
    for ratio in (0.5, 1, 2, 4, 8, 700):
        yield from ((normed_layers, (ratio, folder, form)) for form in ("before", "behind", "shifted"))
    yield from ((scaled, (folder, scale, 0.4, 1.0, 1.0)) for scale in (1e-38, 1e-41, 1e-43, 2e-45, 0.0))  # the smallest subnormal is 1.4e-45
    yield from ((scaled, (folder, scale, shift, weight, 1e-39)) for scale, weight in ((1e30, 1e9), (1e9, 1e30)) for shift in (0.0, 0.4))
    for dim, scale in ((8, 0.3), (16, 1.0), (40, 0.3), (128, 0.3), (128, 1.0)):
        yield fm, (folder, dim, 10, scale)
        yield fm, (folder, dim, 4, scale, 6)
    yield fm, (folder, 16, 6, 0.2, 4, 3)
    yield fm, (folder, 16, 3, 0.3, 5, 0, 100.0)
    yield from ((many_columns, (folder, n)) for n in (12, 60))
    yield from ((target, (folder, mean, weight)) for mean in (0, 1, 8) for weight in (0.3, 1.0, 1.15, 3.0))
    yield from ((target, (folder, mean, weight, "shared")) for mean in (0, 1, 8) for weight in (0.3, 1.0))
    yield from ((towers, (folder, mean, width)) for mean in (0, 1, 8) for width in (4, 64))
    yield from ((cross, (folder, n, s)) for n, s in ((1, 0.3), (3, 0.3), (3, 1.0), (6, 0.5)))
