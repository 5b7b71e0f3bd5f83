"""How rows become ids and floats: vocabularies that only grow, scalers that stay what they were fitted on."""

import common
import numpy as np

import dpi_export
from dpi_export import encoders as enc

from .stream import CATEGORICAL, NUMERIC, WORDS

PAD, OOV, FIRST = 0, 1, 2  # ids with a meaning lie below the entries, so that these may grow


def builder(features):
    """A Builder with these features."""
    b = dpi_export.Builder("bank_fresh")
    for f in features:
        getattr(b, f["kind"])(**{k: v for k, v in f.items() if k != "kind"})
    return b


def grown_by_tenth(stream, tenths):
    """[features after t tenths] for t = 0 .. tenths, without scalers: each is grown from the one before by the rows of one tenth."""
    b = dpi_export.Builder("vocabularies")
    for name in CATEGORICAL:
        vocabulary = enc.vocab_string([], first_id=FIRST) if name in WORDS else enc.vocab_int([], first_id=FIRST)
        b.categorical(name, FIRST, out_of_range="oov", oov_id=OOV, missing="pad", encoder=[enc.trim(), vocabulary])
    out = [b.features]
    for t in range(tenths):
        rows = stream.rows(t, t + 1)
        out.append([dpi_export.grow(f, stream.columns[f["name"]][rows])[0] for f in out[-1]])
    return out


def scalers(stream, tenths):
    """Features of the numbers, fitted on the first tenths."""
    b, rows = dpi_export.Builder("scalers"), stream.rows(0, tenths)
    for name in NUMERIC:
        b.numeric(name, encoder=common.numeric_encoder(stream.columns[name][rows].astype(np.float64)))
    return b.features


def sizes(features):
    """Rows of the tables of categorical features."""
    return [f["vocab_size"] for f in features if f["kind"] == "categorical"]


def encode(features, stream):
    """[rows, features] of all rows of the stream by the features' own encoders, each different text once."""
    columns = []
    for f in features:
        texts, back = np.unique(stream.columns[f["name"]], return_inverse=True)
        columns.append(np.array([f["encoder"].encode_for(f, t) for t in texts.tolist()])[back])
    return np.stack(columns, axis=1)


def as_known(ids, limits):
    """Ids of a longer vocabulary as those of a shorter one: what came later is unknown to it."""
    return np.where(ids < np.array(limits), ids, OOV)
