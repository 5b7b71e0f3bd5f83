"""What the training scripts share: seeds, feature encoding, the training loop, metrics, writing bundle and raw rows."""

import argparse
import csv
import pathlib
import random
import sys

import numpy as np
import sklearn.metrics
import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "python"))

import dpi_export  # noqa: E402
from dpi_export import encoders as enc  # noqa: E402

DEMO = HERE.parent / "demo"


def arguments(description, example):
    """--data FOLDER --out FOLDER --epochs N of every script."""
    p = argparse.ArgumentParser(description=description, epilog=f"example: {example}",
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--data", type=pathlib.Path, required=True, help="folder with the data set as UCI ships it")
    p.add_argument("--out", type=pathlib.Path, default=DEMO, help="where bundle and raw rows go (default: weights/demo)")
    p.add_argument("--epochs", type=int, default=None)
    return p.parse_args()


def seed_everything(seed=2026):
    """One thread and fixed seeds: the same bundle from the same torch on the same kind of processor."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)


def categorical_encoder(values, missing=()):
    """Vocabulary by falling frequency, ids from 1; 0 is padding (missing), the last id is out-of-vocabulary."""
    texts, counts = np.unique([v for v in values if v not in missing and v != ""], return_counts=True)
    order = np.lexsort((texts, -counts))
    steps = [enc.trim()] + ([enc.missing(sorted(missing))] if missing else []) + [enc.vocab_string(list(texts[order]))]
    return dpi_export.Encoder(steps), len(texts) + 2


def numeric_encoder(values):
    """sign(x) log(1 + |x|), standardised."""
    x = np.asarray(values, dtype=np.float64)
    x = np.sign(x) * np.log1p(np.abs(x))
    return dpi_export.Encoder([enc.trim(), enc.to_float(), enc.signed_log1p(), enc.standard(float(x.mean()), float(x.std()) or 1.0)])


def encode_column(builder, name, raw):
    """Raw texts of one feature -> array of ids or float32, as serving will encode them."""
    feature = next(f for f in builder.features if f["name"] == name)
    return np.array([feature["encoder"].encode_for(feature, v) for v in raw])


def train(model, inputs, labels, epochs, batch=256, lr=1e-3, weight_decay=1e-5):
    """Adam on binary cross-entropy. inputs: list of tensors with equal first dimension."""
    optimiser = torch.optim.Adam(model.parameters(), lr=lr, weight_decay=weight_decay)
    loss_of = torch.nn.BCEWithLogitsLoss()
    n = len(labels)
    model.train()
    for epoch in range(epochs):
        order = torch.randperm(n)
        total = 0.0
        for start in range(0, n, batch):
            rows = order[start:start + batch]
            optimiser.zero_grad()
            loss = loss_of(model(*[x[rows] for x in inputs]), labels[rows])
            loss.backward()
            optimiser.step()
            total += float(loss) * len(rows)
        print(f"epoch {epoch + 1}/{epochs}  loss {total / n:.4f}", file=sys.stderr)
    model.eval()


def score(model, inputs):
    """(logits, probabilities) in float32, as the framework computes them."""
    with torch.inference_mode():
        logit = model(*inputs)
        return logit.numpy(), torch.sigmoid(logit).numpy()


def metrics(labels, probability):
    """What `dpi predict --summary` prints, by scikit-learn."""
    p = probability.astype(np.float64)
    return {"auc": float(sklearn.metrics.roc_auc_score(labels, p)),
            "logloss": float(sklearn.metrics.log_loss(labels, p)), "rows": int(len(labels))}


def write_csv(path, header, columns):
    """Raw rows as the program reads them (RFC 4180)."""
    with open(path, "w", newline="") as f:
        out = csv.writer(f, lineterminator="\n")
        out.writerow(header)
        out.writerows(zip(*columns))


def finish(builder, path, data, result, note):
    """Writes the bundle with its provenance; golden rows are checked before anything is written."""
    builder.provenance(framework=f"torch {torch.__version__}", data=data, metrics=result, notes=note)
    builder.write(str(path), check=True)
    print(f"{path.name}: AUC {result['auc']:.6f}, log loss {result['logloss']:.6f} on {result['rows']} rows, "
          f"{path.stat().st_size / 1e6:.2f} MB")


def array(parameter):
    """A torch parameter as float32 numpy."""
    return parameter.detach().numpy()
