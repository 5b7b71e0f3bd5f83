#!/usr/bin/env python3
"""Scores a CSV file with a bundle and compares with its labels, as a data scientist would in a notebook.

    score_csv.py BUNDLE CSV [--label label] [--split history=|] [--out scored.csv]

    score_csv.py weights/demo/adult_widedeep.h5 weights/demo/adult_test.csv
    score_csv.py weights/demo/msweb_deepfm.h5 weights/demo/msweb_test.csv --split 'history=|'
"""
import argparse
import sys
import time

import dpi
import pandas as pd
from sklearn.metrics import log_loss, roc_auc_score

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("bundle")
parser.add_argument("csv")
parser.add_argument("--label", default="label")
parser.add_argument("--split", action="append", default=[], metavar="COLUMN=MARK", help="a column that holds lists")
parser.add_argument("--out", help="writes the rows with a column for each head")
args = parser.parse_args()

# %% The file as texts: the bundle's own encoders read them as training did. Numbers as numbers would do as well.
try:
    frame = pd.read_csv(args.csv, dtype=str, keep_default_na=False)
except UnicodeDecodeError as e:
    sys.exit(f"{args.csv}: {e}; expected UTF-8: convert UTF-16 with iconv, and unpack a gzip file whose name does not end in .gz")
for split in args.split:
    column, mark = split.split("=", 1)
    frame[column] = frame[column].str.split(mark, regex=False)

# %% The model. It names its features; what the file holds besides (the label) is left out.
with dpi.Model(args.bundle, device="cpu", threads=2) as model:
    print(f"{args.bundle}: {', '.join(f.name for f in model.features)} -> {', '.join(model.heads)}")
    missing = [f.name for f in model.features if f.name not in frame]
    if len(missing) == len(model.features):
        sys.exit(f"{args.csv}: no column is a feature, found {', '.join(map(repr, frame.columns[:3]))}; expected cells with commas between them")
    if missing:
        print(f"not in the file, so missing in every row: {', '.join(missing)}")
    begin = time.perf_counter()
    scores = model.predict_raw(frame, extra="ignore")  # [rows, heads] float32
    print(f"{len(scores)} rows in {time.perf_counter() - begin:.3f} s")

    # %% What the model met that training did not know
    for counted in model.counters()["features"]:
        odd = {cause: n for cause, n in counted.items() if cause != "name" and n}
        if odd:
            print(f"  {counted['name']}: {odd}")

# %% How good the scores are
labels = frame[args.label].astype(int)
for i, head in enumerate(model.heads):
    print(f"{head}: AUC {roc_auc_score(labels, scores[:, i]):.6f}, log loss {log_loss(labels, scores[:, i].astype(float)):.6f}")
if args.out:
    frame.assign(**{head: scores[:, i] for i, head in enumerate(model.heads)}).to_csv(args.out, index=False)
