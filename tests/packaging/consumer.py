#!/usr/bin/python3
"""What a user of the package python3-dpi does: consumer.py ROOT BUNDLE ROWS.csv SCORES.csv. SCORES.csv is what `dpi predict --raw` wrote of
ROWS.csv; ROOT (/ where the packages are installed) is where the package and the library must come from. Prints what
samples/02_score_batch.c prints of the bundle. Numbers: predict on arrays, predict_raw on columns, against the other programs' scores."""

import csv
import pathlib
import sys

import dpi
import numpy as np


def refused(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


def where_from(root):
    package, library = pathlib.Path(dpi.__file__).resolve(), pathlib.Path(dpi.build_info()["path"]).resolve()
    usr = root.resolve() / "usr"
    assert package.parents[1].name in ("dist-packages", "site-packages") and usr in package.parents, package
    assert usr in library.parents and package.parent not in library.parents, library
    assert dpi.version() == dpi.__version__


def columns_of(rows):
    with open(rows, newline="", encoding="utf-8") as file:
        table = list(csv.reader(file))
    return {name: list(values) for name, values in zip(table[0], zip(*table[1:]))}


def score(model, rows, scores):
    ids = np.zeros((2, model.info.slots), np.int64)
    dense = np.zeros((2, model.info.dense_dim), np.float32)
    got = model.predict(ids, dense)
    assert got.dtype == np.float32 and got.shape == (2, model.info.heads)
    for row, value in enumerate(got[:, 0]):
        print(f"row {row}: {model.heads[0]} = {value:.6f}")
    wanted = np.loadtxt(scores, skiprows=1, ndmin=2)
    raw = model.predict_raw(columns_of(rows), extra="ignore")
    assert len(wanted) > 1000 and raw.shape == wanted.shape
    assert np.all(np.abs(raw - wanted) <= 1e-6 * np.abs(wanted)), np.abs(raw - wanted).max()  # false for NaN
    error = refused(dpi.InvalidArgument, lambda: model.predict(ids[:, 1:], dense))
    assert error.status and str(error)
    error = refused(dpi.InvalidArgument, lambda: model.predict_raw([{"age": 30}, {"age": "old"}]))
    assert error.row == 1 and model.features[error.feature].name == "age", error


def facts(model):
    assert [f["name"] for f in model.schema()["features"]] == [f.name for f in model.features]
    assert "cpu" in str(model.report()) and model.plan()
    assert str(model.options()["max_rows"]) == "512", model.options()


def main(root, bundle, rows, scores):
    where_from(pathlib.Path(root))
    refused(dpi.NotFound, lambda: dpi.Model(bundle + ".gone"))
    with dpi.Model(bundle, device="cpu", max_rows=512) as model:
        score(model, rows, scores)
        facts(model)
    refused(dpi.Closed, lambda: model.predict(rows=1))


main(*sys.argv[1:])
