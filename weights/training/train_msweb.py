#!/usr/bin/env python3
"""DeepFM (arXiv 1703.04247) with a multi-hot history on UCI Anonymous Microsoft Web Data: msweb_deepfm.h5 and msweb_test.csv.

Will a user visit this area of the site? History (a bag, mean-pooled), candidate and label as msweb.py has them. The history and
the candidate share one table.
"""

import torch

import common
import dpi_export
import msweb
from msweb import BOUNDARIES, CANDIDATE, HISTORY, LENGTH

DIM, HIDDEN = 16, (64, 32)


class DeepFM(torch.nn.Module):
    """logit = LR + FM2 + MLP over three fields: mean of the history, candidate, bucketed history length."""

    def __init__(self, n_areas, n_lengths):
        super().__init__()
        self.area = torch.nn.Embedding(n_areas, DIM, padding_idx=0)
        self.length = torch.nn.Embedding(n_lengths, DIM)
        self.lr_history = torch.nn.Embedding(n_areas, 1, padding_idx=0)
        self.lr_area = torch.nn.Embedding(n_areas, 1, padding_idx=0)
        self.lr_length = torch.nn.Embedding(n_lengths, 1)
        self.bias = torch.nn.Parameter(torch.zeros(1))
        widths = [3 * DIM, *HIDDEN]
        self.hidden = torch.nn.ModuleList(torch.nn.Linear(a, b) for a, b in zip(widths, widths[1:]))
        self.out = torch.nn.Linear(widths[-1], 1, bias=False)
        for table in (self.area, self.length, self.lr_history, self.lr_area, self.lr_length):
            with torch.no_grad():
                table.weight.normal_(std=0.05)
        with torch.no_grad():
            self.area.weight[0] = self.lr_history.weight[0] = self.lr_area.weight[0] = 0

    @staticmethod
    def pooled(table, ids):
        """Mean over positions whose id is not 0; zeros for an empty bag."""
        mask = (ids != 0).float()
        total = (table(ids) * mask[:, :, None]).sum(dim=1)
        return total / mask.sum(dim=1, keepdim=True).clamp(min=1)

    def forward(self, history, area, length):
        fields = torch.stack([self.pooled(self.area, history), self.area(area), self.length(length)], dim=1)
        fm = 0.5 * (fields.sum(dim=1) ** 2 - (fields ** 2).sum(dim=1)).sum(dim=1, keepdim=True)
        lr = self.pooled(self.lr_history, history) + self.lr_area(area) + self.lr_length(length) + self.bias
        h = fields.flatten(1)
        for layer in self.hidden:
            h = torch.relu(layer(h))
        return (lr + fm + self.out(h))[:, 0]


def graph(b, model):
    """The forward pass in the bundle's primitives."""
    history, area, length = b.input(HISTORY), b.input(CANDIDATE), b.input(LENGTH)
    table = b.table("area", common.array(model.area.weight))
    fields = [b.embed(history, table, pooling="mean", mask="id", module="embedding"),
              b.embed(area, table, module="embedding"),
              b.embed(length, b.table("visits", common.array(model.length.weight)), module="embedding")]
    lr = [b.embed(history, b.table("history.lr", common.array(model.lr_history.weight)), pooling="mean", mask="id", module="linear"),
          b.embed(area, b.table("area.lr", common.array(model.lr_area.weight)), module="linear"),
          b.embed(length, b.table("visits.lr", common.array(model.lr_length.weight)), module="linear")]
    linear = b.reduce("sum", b.concat(lr, module="linear"), keepdim=True, module="linear")
    linear = b.add(linear, b.const(common.array(model.bias), module="linear"), name="linear", module="linear")
    x0 = b.concat(fields, name="x0", module="embedding")
    e = b.reshape(x0, [3, DIM], module="fm")
    total = b.reduce("sum", e, axis=0, module="fm")
    square_of_sum = b.reduce("sumsq", total, keepdim=True, module="fm")
    sum_of_squares = b.reduce("sumsq", x0, keepdim=True, module="fm")
    fm = b.unary("affine", b.sub(square_of_sum, sum_of_squares, module="fm"), a=0.5, b=0.0, name="fm", module="fm")
    h = x0
    for i, layer in enumerate(model.hidden):
        h = b.linear(h, common.array(layer.weight), common.array(layer.bias), name=f"mlp/{i}", module="mlp")
        h = b.relu(h, name=f"mlp/{i}/relu", module="mlp")
    deep = b.linear(h, common.array(model.out.weight), name="mlp/out", module="mlp")
    logit = b.add(b.add(linear, fm, module="head"), deep, name="logit", module="head")
    b.head("visits_area", b.sigmoid(logit, name="probability", module="head"), logit=logit)


def main():
    args = common.arguments(__doc__, "python3 weights/training/train_msweb.py --data <folder with anonymous-msweb.data>")
    common.seed_everything()
    popularity, rows = msweb.load(args.data)
    b = msweb.schema(popularity, "msweb_deepfm")
    inputs = {part: msweb.encode(b, r[0], r[1]) for part, r in rows.items()}
    model = DeepFM(len(popularity) + 2, len(BOUNDARIES) + 1)
    common.train(model, inputs["data"], torch.from_numpy(rows["data"][2]), args.epochs or 4, lr=2e-3)
    logit, probability = common.score(model, inputs["test"])
    graph(b, model)
    golden = 64
    history, area, length = (x[:golden].tolist() for x in inputs["test"])
    columns = {HISTORY: [[i for i in bag if i != 0] for bag in history], CANDIDATE: area, LENGTH: length}
    histories, candidates, labels = rows["test"]
    raw = msweb.raw_columns(histories[:golden], candidates[:golden])
    b.golden(dpi_export.Rows.from_columns(b, columns), value=probability[:golden, None], logit=logit[:golden, None], raw=raw)
    common.write_csv(args.out / "msweb_test.csv", [HISTORY, CANDIDATE, LENGTH, "label"],
                     [["|".join(map(str, h)) for h in histories], candidates, [len(h) for h in histories], labels.astype(int)])
    common.finish(b, args.out / "msweb_deepfm.h5", msweb.DATA,
                  common.metrics(labels, probability), "DeepFM, D 16, MLP 64-32, mean-pooled history, seed 2026")


if __name__ == "__main__":
    main()
