#!/usr/bin/env python3
"""Wide & Deep (arXiv 1606.07792) on the UCI Adult data: weights/demo/adult_widedeep.h5 and adult_test.csv.

8 categorical and 6 numeric features. Wide: one weight per category and per numeric. Deep: embeddings of dimension 8 and the
numerics through an MLP 64-32. Trained on adult.data, measured on all rows of adult.test.
"""

import gzip

import numpy as np
import torch

import common
import dpi_export

COLUMNS = ["age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship",
           "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "label"]
NUMERIC = ["age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"]
CATEGORICAL = [c for c in COLUMNS[:-1] if c not in NUMERIC]
DIM, HIDDEN = 8, (64, 32)


def read(path):
    """{column: list of raw texts} of a UCI file."""
    with gzip.open(path, "rt") as f:
        rows = [[cell.strip() for cell in line.split(",")] for line in f if line.strip()]
    return {name: [r[i] for r in rows] for i, name in enumerate(COLUMNS)}


class WideDeep(torch.nn.Module):
    """logit = wide(ids) + wide(numerics) + MLP([embeddings; numerics])."""

    def __init__(self, vocab_sizes, n_numeric):
        super().__init__()
        self.tables = torch.nn.ModuleList(torch.nn.Embedding(v, DIM) for v in vocab_sizes)
        self.wide = torch.nn.ModuleList(torch.nn.Embedding(v, 1) for v in vocab_sizes)
        self.wide_numeric = torch.nn.Linear(n_numeric, 1, bias=False)
        widths = [len(vocab_sizes) * DIM + n_numeric, *HIDDEN]
        self.hidden = torch.nn.ModuleList(torch.nn.Linear(a, b) for a, b in zip(widths, widths[1:]))
        self.out = torch.nn.Linear(widths[-1], 1)
        for table in self.wide:
            torch.nn.init.zeros_(table.weight)
        for table in self.tables:
            torch.nn.init.normal_(table.weight, std=0.05)

    def forward(self, ids, numerics):
        wide = sum(w(ids[:, i]) for i, w in enumerate(self.wide)) + self.wide_numeric(numerics)
        h = torch.cat([t(ids[:, i]) for i, t in enumerate(self.tables)] + [numerics], dim=1)
        for layer in self.hidden:
            h = torch.relu(layer(h))
        return (wide + self.out(h))[:, 0]


def schema(raw):
    """A Builder with all features and their encoders."""
    b = dpi_export.Builder("adult_widedeep")
    for name in COLUMNS[:-1]:
        if name in NUMERIC:
            b.numeric(name, missing="default", default=0.0, encoder=common.numeric_encoder([float(v) for v in raw[name]]))
        else:
            encoder, size = common.categorical_encoder(raw[name], missing=("?",))
            b.categorical(name, size, out_of_range="oov", oov_id=size - 1, missing="pad", encoder=encoder)
    return b


def graph(b, model):
    """The forward pass above in the bundle's primitives."""
    inputs = {name: b.input(name) for name in COLUMNS[:-1]}
    wide, deep = [], []
    for i, name in enumerate(CATEGORICAL):
        wide.append(b.embed(inputs[name], b.table(f"{name}.wide", common.array(model.wide[i].weight)), module="linear"))
        deep.append(b.embed(inputs[name], b.table(name, common.array(model.tables[i].weight)), module="embedding"))
    numerics = b.concat([inputs[name] for name in NUMERIC], name="numerics", module="embedding")
    wide_sum = b.reduce("sum", b.concat(wide, module="linear"), keepdim=True, name="wide/ids", module="linear")
    wide_numeric = b.linear(numerics, common.array(model.wide_numeric.weight), name="wide/numerics", module="linear")
    h = b.concat([*deep, numerics], name="x0", module="embedding")
    for i, layer in enumerate(model.hidden):
        h = b.linear(h, common.array(layer.weight), common.array(layer.bias), name=f"mlp/{i}", module="mlp")
        h = b.relu(h, name=f"mlp/{i}/relu", module="mlp")
    h = b.linear(h, common.array(model.out.weight), common.array(model.out.bias), name="mlp/out", module="mlp")
    logit = b.add(b.add(wide_sum, wide_numeric, module="linear"), h, name="logit", module="head")
    b.head("income_over_50k", b.sigmoid(logit, name="probability", module="head"), logit=logit)


def main():
    args = common.arguments(__doc__, "python3 weights/training/train_adult.py --data <folder with adult.data.gz>")
    common.seed_everything()
    raw = {part: read(args.data / f"adult.{part}.gz") for part in ("data", "test")}
    b = schema(raw["data"])
    x, y = {}, {}
    for part, columns in raw.items():
        ids = np.stack([common.encode_column(b, c, columns[c]) for c in CATEGORICAL], axis=1).astype(np.int64)
        numerics = np.stack([common.encode_column(b, c, columns[c]) for c in NUMERIC], axis=1).astype(np.float32)
        x[part] = [torch.from_numpy(ids), torch.from_numpy(numerics)]
        y[part] = np.array([label == ">50K" for label in columns["label"]], dtype=np.float32)
    model = WideDeep([f["vocab_size"] for f in b.features if f["kind"] == "categorical"], len(NUMERIC))
    common.train(model, x["data"], torch.from_numpy(y["data"]), args.epochs or 6)
    logit, probability = common.score(model, x["test"])
    graph(b, model)
    golden = 64
    columns = {c: x["test"][0][:golden, i].tolist() for i, c in enumerate(CATEGORICAL)}
    columns.update({c: x["test"][1][:golden, i].numpy() for i, c in enumerate(NUMERIC)})
    b.golden(dpi_export.Rows.from_columns(b, columns), value=probability[:golden, None], logit=logit[:golden, None],
             raw={c: raw["test"][c][:golden] for c in COLUMNS[:-1]})
    common.write_csv(args.out / "adult_test.csv", COLUMNS, [
        raw["test"][c] if c != "label" else y["test"].astype(int) for c in COLUMNS])
    common.finish(b, args.out / "adult_widedeep.h5", "UCI Adult (CC BY 4.0), held-out rows of adult.test",
                  common.metrics(y["test"], probability), "Wide & Deep, D 8, MLP 64-32, Adam, seed 2026")


if __name__ == "__main__":
    main()
