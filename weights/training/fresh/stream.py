"""The rows of UCI Bank Marketing in their order of date, in ten periods of ten tenths."""

import csv
import gzip
import io

import numpy as np

NUMERIC = ("balance", "pdays", "previous")
WORDS = ("job", "marital", "education", "default", "housing", "loan", "contact", "month", "poutcome")
NUMBERS = ("age", "day", "campaign")  # integers that are names: each value has a row of its own
CATEGORICAL = WORDS + NUMBERS
FEATURES = NUMERIC + CATEGORICAL
PERIODS, TENTHS = 10, 10


class Stream:
    """Raw texts by column, labels, and where each tenth begins."""

    def __init__(self, columns, labels):
        self.columns, self.labels = columns, labels
        self.starts = [i * len(labels) // (PERIODS * TENTHS) for i in range(PERIODS * TENTHS + 1)]

    def rows(self, first, end):
        """The rows of tenths first .. end-1, as a slice."""
        return slice(self.starts[first], self.starts[end])

    def cells(self, rows):
        """{column: raw texts} of a slice of rows."""
        return {name: self.columns[name][rows].tolist() for name in FEATURES}


def _stream(text, label, positive):
    delimiter = ";" if ";" in text.split("\n", 1)[0] else ","
    rows = list(csv.DictReader(io.StringIO(text), delimiter=delimiter))
    return Stream({name: np.array([r[name].strip() for r in rows]) for name in FEATURES}, np.array([r[label] == positive for r in rows]))


def read(path):
    """The stream of the file that `write` wrote."""
    with gzip.open(path, "rt") as f:
        return _stream(f.read(), "label", "1")


def read_uci(folder):
    """The stream of the data set as UCI ships it, which has its rows in their order of date."""
    with gzip.open(folder / "bank-full.csv.gz", "rt") as f:
        return _stream(f.read(), "y", "yes")


def write(stream, path):
    """The rows as gzipped CSV; equal rows give equal bytes. `duration` is not there: it is known only after the call."""
    text = io.StringIO()
    out = csv.writer(text, lineterminator="\n")
    out.writerow([*FEATURES, "label"])
    out.writerows(zip(*[stream.columns[name] for name in FEATURES], stream.labels.astype(int)))
    path.write_bytes(gzip.compress(text.getvalue().encode(), 9, mtime=0))
