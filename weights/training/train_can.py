#!/usr/bin/env python3
"""CAN (arXiv 2011.05625) on UCI Anonymous Microsoft Web Data: weights/demo/msweb_can.h5, scored on the rows of msweb_test.csv.

Will a user visit this area of the site? Rows as msweb.py has them: the history is a bag of areas, the candidate an area, and the number of
visits in the history comes in buckets. Two co-actions, of the candidate and of the bucket with the history, in the shapes that the authors
released: 160 numbers a micro-MLP, three orders, 36 outputs each. The model is an nn.Module of dpi_export.models, traced by from_torch.
"""

import time

import torch

import common
import dpi_export
import msweb
from dpi_export.models import CAN
from msweb import BOUNDARIES, CANDIDATE, HISTORY, LENGTH

DIM, HIDDEN, GOLDEN = 16, (64, 32), 64
INPUTS = (HISTORY, CANDIDATE, LENGTH)


class Logit(torch.nn.Module):
    """The model as the training loop calls it: positional inputs, no sigmoid. A batch is as wide as its longest history: of 32 positions that
    saves two thirds of the time, and changes a score by roundings only."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, history, area, visits):
        history = history[:, :int((history != 0).sum(dim=1).max())]
        return self.model.logit(dict(zip(INPUTS, (history, area, visits))))


def described(b):
    """features= and encoders= of from_torch, as the schema of the other models of this data has them."""
    features = {f["name"]: {key: f[key] for key in ("vocab_size", "out_of_range", "oov_id", "missing", "keep") if f.get(key) is not None}
                for f in b.features}
    return {name: features[name] for name in INPUTS}, {f["name"]: f["encoder"] for f in b.features}


def main():
    args = common.arguments(__doc__, "python3 weights/training/train_can.py --data <folder with anonymous-msweb.data>")
    common.seed_everything()
    popularity, rows = msweb.load(args.data)
    b = msweb.schema(popularity, "msweb_can")
    inputs = {part: msweb.encode(b, r[0], r[1]) for part, r in rows.items()}
    areas = len(popularity) + 2
    model = CAN({CANDIDATE: areas, LENGTH: len(BOUNDARIES) + 1}, {HISTORY: CANDIDATE}, [(CANDIDATE, HISTORY), (LENGTH, HISTORY)],
                dim=DIM, hidden=HIDDEN)
    start = time.process_time()
    common.train(Logit(model), inputs["data"], torch.from_numpy(rows["data"][2]), args.epochs or 4, lr=2e-3)
    print(f"trained in {time.process_time() - start:.0f} s of one processor")
    _, probability = common.score(Logit(model).eval(), inputs["test"])
    histories, candidates, labels = rows["test"]
    features, encoders = described(b)
    golden = {name: x[:GOLDEN] for name, x in zip(INPUTS, inputs["test"])}
    path, result = args.out / "msweb_can.h5", common.metrics(labels, probability)
    dpi_export.from_torch(model, path, features=features, example=golden, encoders=encoders, name="msweb_can", metrics=result, outputs=["visits_area"],
                          provenance={"data": msweb.DATA, "notes": "CAN, D 16, two co-actions of 36, MLP 64-32, seed 2026"},
                          raw=msweb.raw_columns(histories[:GOLDEN], candidates[:GOLDEN]))
    print(f"{path.name}: AUC {result['auc']:.6f}, log loss {result['logloss']:.6f} on {result['rows']} rows, {path.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
