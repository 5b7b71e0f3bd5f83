"""A model whose scores one can add up by hand: the sum of what each feature is worth, exact in float32."""

import numpy as np

import dpi_export
from dpi_export import encoders as e

BIG = 2**53 + 1  # the first integer that no double holds

# Feature -> what its values are worth. "?" stands for a value that is not in the vocabulary; a missing one is worth nothing.
UID = {7: 1.0, 1000: 2.0, BIG - 1: 3.0, BIG: 4.0, -5: 5.0, "?": 0.5}
TAG = {"red": 16.0, str(BIG): 24.0, "1.5": 32.0, "true": 40.0, "\ufffd": 48.0, "1000": 56.0, "é": 60.0, "?": 8.0}
DAY = [0.0, 64.0, 128.0, 192.0]  # plain ids; 0 is for a missing one
HISTORY = {"a": 256.0, "b": 512.0, "7": 1024.0, "?": 0.0}  # at most 3 elements
CITY = {"Riga": 2048.0, "Oslo": 4096.0, "?": 0.0}  # a shared feature
PRICE = 0.25  # times the number
VECTOR = [0.125, 0.0625, 4.0]  # 3e38 becomes infinite


def write(path, more=0.0):
    """`more`: what every row is worth besides."""
    b = dpi_export.Builder("services")

    def worth(name, values, encoder, add, **keys):
        """The last row of the table is for what is unknown, the one before for what is missing."""
        known = [k for k in values if k != "?"]
        table = [0.0, *(values[k] for k in known), values["?"]]
        add(name, vocab_size=len(table), out_of_range="oov", oov_id=len(table) - 1, encoder=[encoder(known)], **keys)
        return b.table(name, np.array(table, np.float32).reshape(-1, 1))

    single = {"missing": "default", "default_id": 0}
    tables = {"uid": worth("uid", UID, e.vocab_int, b.categorical, **single),
              "tag": worth("tag", TAG, e.vocab_string, b.categorical, **single)}
    b.categorical("day", vocab_size=len(DAY), **single)
    tables["day"] = b.table("day", np.array(DAY, np.float32).reshape(-1, 1))
    tables["city"] = worth("city", CITY, e.vocab_string, b.categorical, space="shared", **single)
    history = worth("history", HISTORY, e.vocab_string, b.sequence, max_len=3, missing="pad")
    b.numeric("price", missing="default", encoder=[e.to_float()])
    b.dense("vector", len(VECTOR), missing="default")

    values = [b.embed(b.input(name), table) for name, table in tables.items()]
    values += [b.embed(b.input("history"), history, pooling="sum"), b.input("price"), b.input("vector")]
    weights = np.array([[1.0] * (len(tables) + 1) + [PRICE] + VECTOR], np.float32)
    b.head("worth", b.linear(b.concat(values), weights, np.float32([more])), activation="none")
    rows = {"uid": [1], "tag": [1], "day": [1], "city": [1], "history": [[1, 2]], "price": [1.0], "vector": [[1.0, 1.0, 1.0]]}
    want = UID[7] + TAG["red"] + DAY[1] + CITY["Riga"] + HISTORY["a"] + HISTORY["b"] + PRICE + sum(VECTOR) + more
    b.golden(dpi_export.Rows.from_columns(b, rows, shared_counts=[1]), value=np.array([[want]]))
    b.write(path)
