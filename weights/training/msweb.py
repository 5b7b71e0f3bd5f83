"""UCI Anonymous Microsoft Web Data as impressions, for the scripts that train on it.

Each user's last listed visit is held out as the positive candidate, the other visits are the history; four candidates a user did not visit
are drawn by popularity as negatives. Training users come from the .data file, test users (other people) from the .test file. The order of
the draws is fixed, so every script has the rows of msweb_test.csv.
"""

import numpy as np
import torch

import common
import dpi_export
from dpi_export import encoders as enc

MAX_LEN, NEGATIVES = 32, 4
BOUNDARIES = [2, 3, 4, 6, 9, 13]  # of the number of visits in the history
HISTORY, CANDIDATE, LENGTH = "history", "area", "visits"
DATA = "UCI Anonymous Microsoft Web Data (CC BY 4.0), users of the test file"


def read(path):
    """A list of users, each a list of area ids in the file's order."""
    users = []
    for line in open(path, encoding="latin-1"):
        cells = line.strip().split(",")
        if cells[0] == "C":
            users.append([])
        elif cells[0] == "V":
            users[-1].append(int(cells[1]))
    return [u for u in users if len(u) >= 2]


def impressions(users, popularity, rng):
    """(histories, candidates, labels): one positive and NEGATIVES negatives of each user."""
    areas = np.array(sorted(popularity))
    weight = np.array([popularity[a] for a in areas], dtype=np.float64)
    weight /= weight.sum()
    histories, candidates, labels = [], [], []
    for user in users:
        seen = set(user)
        negatives = [a for a in rng.choice(areas, size=40, p=weight) if a not in seen][:NEGATIVES]
        for area, label in [(user[-1], 1), *((a, 0) for a in negatives)]:
            histories.append(user[:-1])
            candidates.append(int(area))
            labels.append(label)
    return histories, candidates, np.array(labels, dtype=np.float32)


def load(folder):
    """(areas by number of visits, {"data" and "test": (histories, candidates, labels)})."""
    users = {part: read(folder / f"anonymous-msweb.{part}") for part in ("data", "test")}
    popularity = {}
    for user in users["data"]:
        for area in user:
            popularity[area] = popularity.get(area, 0) + 1
    rng = np.random.default_rng(2026)
    return popularity, {part: impressions(u, popularity, rng) for part, u in users.items()}


def schema(areas, name):
    """A Builder with three features; history and candidate have the same vocabulary."""
    b = dpi_export.Builder(name)
    size = len(areas) + 2
    vocabulary = dpi_export.Encoder([enc.vocab_int(sorted(areas))])
    b.sequence(HISTORY, size, max_len=MAX_LEN, keep="last", out_of_range="oov", oov_id=size - 1, missing="pad", encoder=vocabulary)
    b.categorical(CANDIDATE, size, out_of_range="oov", oov_id=size - 1, missing="pad",
                  encoder=dpi_export.Encoder([enc.vocab_int(sorted(areas))]))
    b.categorical(LENGTH, len(BOUNDARIES) + 1, encoder=dpi_export.Encoder([enc.to_float(), enc.buckets(BOUNDARIES)]))
    return b


def encode(b, histories, candidates):
    """Padded history [rows, MAX_LEN], candidate and bucketed length, as tensors of ids."""
    of = {f["name"]: f for f in b.features}
    padded = np.zeros((len(histories), MAX_LEN), dtype=np.int64)
    for r, history in enumerate(histories):
        ids = [of[HISTORY]["encoder"].encode_for(of[HISTORY], str(a)) for a in history][-MAX_LEN:]
        padded[r, :len(ids)] = ids
    area = common.encode_column(b, CANDIDATE, [str(a) for a in candidates]).astype(np.int64)
    length = common.encode_column(b, LENGTH, [str(len(h)) for h in histories]).astype(np.int64)
    return [torch.from_numpy(padded), torch.from_numpy(area), torch.from_numpy(length)]


def raw_columns(histories, candidates):
    """{feature: texts}, a list of texts for each history, as a CSV has them."""
    return {HISTORY: [list(map(str, h)) for h in histories], CANDIDATE: [str(a) for a in candidates], LENGTH: [str(len(h)) for h in histories]}
