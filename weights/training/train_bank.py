#!/usr/bin/env python3
"""DCN V2 (arXiv 2008.13535, parallel structure) on UCI Bank Marketing: weights/demo/bank_dcnv2.h5 and bank_test.csv.

The column `duration` is left out: it is known only after the call, so a model that uses it cannot be served. 9 categorical
features (month among them) as embeddings of dimension 8; 6 numeric ones as x * v (no bias), the day of the month in buckets.
Three full-matrix cross layers beside an MLP 64-32 with batch normalisation. Random 80/20 split, fixed seed.
"""

import csv
import gzip
import io

import numpy as np
import torch

import common
import dpi_export
from dpi_export import encoders as enc

NUMERIC = ["age", "balance", "campaign", "pdays", "previous"]
BUCKETS = {"day": [6, 11, 16, 21, 26]}
CATEGORICAL = ["job", "marital", "education", "default", "housing", "loan", "contact", "month", "poutcome"]
FEATURES = NUMERIC + list(BUCKETS) + CATEGORICAL
DIM, CROSS_LAYERS, HIDDEN = 8, 3, (64, 32)


def read(folder):
    """{column: array of raw texts}; the separator is whatever the copy uses."""
    with gzip.open(folder / "bank-full.csv.gz", "rt") as f:
        text = f.read()
    delimiter = ";" if ";" in text.split("\n", 1)[0] else ","
    rows = list(csv.DictReader(io.StringIO(text), delimiter=delimiter))
    return {name: np.array([r[name].strip() for r in rows]) for name in [*FEATURES, "y"]}


class DCNv2(torch.nn.Module):
    """logit = w . [cross_3(x0); MLP(x0)] with x_{l+1} = x0 * (W_l x_l + b_l) + x_l."""

    def __init__(self, vocab_sizes, n_numeric):
        super().__init__()
        self.tables = torch.nn.ModuleList(torch.nn.Embedding(v, DIM) for v in vocab_sizes)
        self.numeric = torch.nn.Parameter(torch.randn(n_numeric, DIM) * 0.1)
        n = (len(vocab_sizes) + n_numeric) * DIM
        self.cross = torch.nn.ModuleList(torch.nn.Linear(n, n) for _ in range(CROSS_LAYERS))
        widths = [n, *HIDDEN]
        self.hidden = torch.nn.ModuleList(torch.nn.Linear(a, b) for a, b in zip(widths, widths[1:]))
        self.norms = torch.nn.ModuleList(torch.nn.BatchNorm1d(b) for b in HIDDEN)
        self.out = torch.nn.Linear(n + HIDDEN[-1], 1)
        for table in self.tables:
            torch.nn.init.normal_(table.weight, std=0.05)

    def forward(self, numerics, ids):
        fields = [numerics[:, j:j + 1] * self.numeric[j] for j in range(numerics.shape[1])]
        x0 = torch.cat(fields + [t(ids[:, i]) for i, t in enumerate(self.tables)], dim=1)
        x, h = x0, x0
        for layer in self.cross:
            x = x0 * layer(x) + x
        for layer, norm in zip(self.hidden, self.norms):
            h = torch.relu(norm(layer(h)))
        return self.out(torch.cat([x, h], dim=1))[:, 0]


def schema(raw):
    """A Builder with all features; slots are the bucketed day and the categorical features."""
    b = dpi_export.Builder("bank_dcnv2")
    for name in NUMERIC:
        b.numeric(name, encoder=common.numeric_encoder(raw[name].astype(np.float64)))
    for name, boundaries in BUCKETS.items():
        encoder = dpi_export.Encoder([enc.trim(), enc.to_float(), enc.buckets(boundaries)])
        b.categorical(name, len(boundaries) + 1, encoder=encoder)
    for name in CATEGORICAL:
        encoder, size = common.categorical_encoder(raw[name])
        b.categorical(name, size, out_of_range="oov", oov_id=size - 1, missing="pad", encoder=encoder)
    return b


def graph(b, model):
    """The forward pass in the bundle's primitives; batch normalisation as an affine step (folded by the engine)."""
    fields = []
    for j, name in enumerate(NUMERIC):
        fields.append(b.linear(b.input(name), common.array(model.numeric)[j][:, None], name=f"{name}/vector", module="embedding"))
    for i, name in enumerate([*BUCKETS, *CATEGORICAL]):
        fields.append(b.embed(b.input(name), b.table(name, common.array(model.tables[i].weight)), module="embedding"))
    x0 = b.concat(fields, name="x0", module="embedding")
    x, h = x0, x0
    for i, layer in enumerate(model.cross):
        product = b.mul(x0, b.linear(x, common.array(layer.weight), common.array(layer.bias), module=f"cross/{i}"),
                        module=f"cross/{i}")
        x = b.add(product, x, name=f"cross/{i}", module=f"cross/{i}")
    for i, (layer, norm) in enumerate(zip(model.hidden, model.norms)):
        scale = common.array(norm.weight).astype(np.float64) / np.sqrt(norm.running_var.numpy().astype(np.float64) + norm.eps)
        shift = common.array(norm.bias) - norm.running_mean.numpy() * scale
        h = b.linear(h, common.array(layer.weight), common.array(layer.bias), name=f"mlp/{i}", module="mlp")
        h = b.unary("affine", h, scale=scale.astype(np.float32), shift=shift.astype(np.float32), name=f"mlp/{i}/bn", module="mlp")
        h = b.relu(h, name=f"mlp/{i}/relu", module="mlp")
    both = b.concat([x, h], name="cross_and_deep", module="head")
    logit = b.linear(both, common.array(model.out.weight), common.array(model.out.bias), name="logit", module="head")
    b.head("subscribes", b.sigmoid(logit, name="probability", module="head"), logit=logit)


def main():
    args = common.arguments(__doc__, "python3 weights/training/train_bank.py --data <folder with bank-full.csv.gz>")
    common.seed_everything()
    raw = read(args.data)
    n = len(raw["y"])
    order = np.random.default_rng(2026).permutation(n)
    test, fit = np.sort(order[:n // 5]), np.sort(order[n // 5:])
    b = schema({name: values[fit] for name, values in raw.items()})
    numerics = np.stack([common.encode_column(b, c, raw[c]) for c in NUMERIC], axis=1).astype(np.float32)
    slots = [*BUCKETS, *CATEGORICAL]
    ids = np.stack([common.encode_column(b, c, raw[c]) for c in slots], axis=1).astype(np.int64)
    labels = (raw["y"] == "yes").astype(np.float32)
    part = {k: [torch.from_numpy(numerics[rows]), torch.from_numpy(ids[rows])] for k, rows in (("fit", fit), ("test", test))}
    model = DCNv2([f["vocab_size"] for f in b.features if f["kind"] == "categorical"], len(NUMERIC))
    common.train(model, part["fit"], torch.from_numpy(labels[fit]), args.epochs or 5, weight_decay=1e-4)
    logit, probability = common.score(model, part["test"])
    graph(b, model)
    golden = 64
    columns = {c: part["test"][1][:golden, i].tolist() for i, c in enumerate(slots)}
    columns.update({c: part["test"][0][:golden, i].numpy() for i, c in enumerate(NUMERIC)})
    b.golden(dpi_export.Rows.from_columns(b, columns), value=probability[:golden, None], logit=logit[:golden, None],
             raw={c: raw[c][test][:golden].tolist() for c in FEATURES})
    common.write_csv(args.out / "bank_test.csv", [*FEATURES, "label"],
                     [*[raw[c][test] for c in FEATURES], labels[test].astype(int)])
    common.finish(b, args.out / "bank_dcnv2.h5", "UCI Bank Marketing (CC BY 4.0), random 20 % held out, without duration",
                  common.metrics(labels[test], probability), "DCN V2 parallel, D 8, 3 cross layers, MLP 64-32 with batch norm, seed 2026")


if __name__ == "__main__":
    main()
