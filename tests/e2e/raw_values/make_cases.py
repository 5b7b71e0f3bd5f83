"""Writes data/raw_values.h5, data/more_kinds.h5 and data/cases.json: raw values, and what a model that shows them must score.

    python3 tests/e2e/raw_values/make_cases.py        # numpy, pandas, scikit-learn, xxhash

One table for everything that takes raw values: raw_values_test.cpp (C), tests/java/.../RawValuesTest.java, bindings/go/raw_values_test.go
and tests/e2e/cli/test_raw_values.py (`dpi predict --raw`) each run every case. The model has one head per feature, whose score is the
encoded value itself: a float, an id, or for `history` the sum of id_t * 16^t. Python and xxhash compute what is wanted; the package's own
encoders only write the bundle. `member`, `narrow`, `half`, `bins` and `half_bins` have encoders of scikit-learn, fitted on columns of booleans,
float32 and float16: what is wanted is the id that the fitted object gives for the number or boolean in its own column, whichever way the cell
shows it (as it is, as pandas' CSV writes it, as its JSON does).

A case is
  feature  what is set, in a row in which nothing else is
  value    {"text"}, {"json": a number's text}, {"int"}, {"uint"}, {"double"}, {"bool"}, {"null"}, or {"list": [values]}
  csv      the same as a cell of `dpi predict --raw` (a list of cells for a vector), null where a cell cannot say it
  score    what the feature's head scores; or error: texts that the refusal holds
  counts   what it adds to the feature's counters (missing, out_of_range, unknown, unparsable); all others stay
"""

import json
import math
import pathlib
import re
import sys

import numpy as np
import pandas
import xxhash
from sklearn import preprocessing

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "weights/python"))

from dpi_export import Builder  # noqa: E402
from dpi_export import encoders as e  # noqa: E402
from dpi_export.encoding.sources import convert_encoders  # noqa: E402

KEYS = [26, 7, -1, 0, 2**53 - 1, 2**53, 2**53 + 1, -2**53 - 1, 2**63 - 1, -2**63]  # ids 1 ... 10
WORDS = ["26", "26.0", "true", "false", "A", str(2**53 + 1), str(2**64 - 1), str(-2**63), "2.5", "1e3"]
OOV, DEFAULT, VOCAB = 14, 15, 16  # of `user` and `history`
INTEGER, DECIMAL = re.compile(r"[+-]?[0-9]+"), re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
CASES = []

# -- fitted objects, and the columns that they saw ---------------------------------------------------------------------
COLUMNS = {"member": np.array([True, False, True]), "narrow": np.array([0.1, 0.2, 0.3, 1 / 3, 2.5, 16777216, 123456.789], np.float32),
           "half": np.array([0.1, 0.2, 1 / 3, 2.5, 65504], np.float16), "bins": np.array([0, 0.1, 0.2, 0.3, 0.4], np.float32),
           "half_bins": np.array([0.1, 0.2, 0.3, 0.5], np.float16)}
FITTED = {name: (preprocessing.KBinsDiscretizer(4, encode="ordinal", strategy="uniform") if "bins" in name else
                 preprocessing.OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=12)).fit(pandas.DataFrame({name: column}))
          for name, column in COLUMNS.items()}


def fitted_id(name, numbers):
    """The ids that the fitted object gives for numbers of its own column's type."""
    column = np.asarray(numbers, COLUMNS[name].dtype)
    return [int(i) for i in FITTED[name].transform(pandas.DataFrame({name: column}))[:, 0]]


def beside_edges(name):
    """Numbers of the column's type at and next to each edge of its bins."""
    if "bins" not in name:
        return []
    kind = COLUMNS[name].dtype.type
    at = [kind(x) for x in FITTED[name].bin_edges_[0][1:-1]]
    return [f(x) for x in at for f in (lambda x: x, lambda x: np.nextafter(x, kind(-9)), lambda x: np.nextafter(x, kind(9)))]


def shown(x):
    """A number as it is, as pandas' CSV writes it and as its JSON does."""
    return [repr(float(x)), str(x), repr(round(float(x), 10))]


class Refused(Exception):
    """A raw value that is an error: the cause that is counted, and texts of the message."""

    def __init__(self, cause, *texts):
        super().__init__(cause, *texts)
        self.cause, self.texts = cause, list(texts)


class Missing(Exception):
    pass


class Unknown(Exception):
    pass


def build():
    b = Builder("raw values")
    ids = np.arange(2048, dtype="f4")[:, None]
    keys = [e.vocab_int(KEYS, first_id=1)]
    b.categorical("user", VOCAB, out_of_range="oov", oov_id=OOV, missing="default", default_id=DEFAULT, encoder=keys)
    b.categorical("token", 1010, missing="pad", encoder=[e.hash_xxh64(1009, offset=1)])
    b.categorical("word", 16, missing="pad", encoder=[e.trim(), e.missing(["?"]), e.vocab_string(WORDS, first_id=1)])
    b.categorical("plain", 30, out_of_range="oov", oov_id=29, missing="pad")
    b.categorical("bucket", 8, missing="default", default_id=7, encoder=[e.to_float(), e.buckets([0.0, 10.0, 1e20])])
    b.numeric("age", missing="default", default=-7.0, encoder=[e.to_float(), e.standard(40.0, 10.0)])
    b.numeric("log", missing="default", default=-1.0, encoder=[e.to_float(), e.log1p()])
    b.numeric("amount", missing="default", default=-3.0)
    b.sequence("history", VOCAB, max_len=4, out_of_range="oov", oov_id=OOV, missing="pad", encoder=keys)
    b.dense("vector", dim=2, missing="default", default=-5.0)
    for name, encoder in convert_encoders({**FITTED, "half_bins": (FITTED["half_bins"], 0, "float16")}).items():
        rules = {} if "bins" in name else {"out_of_range": "oov", "oov_id": 12}
        b.categorical(name, 14, missing="default", default_id=13, encoder=encoder, **rules)
    for name, rows in (("user", VOCAB), ("token", 1010), ("word", 16), ("plain", 30), ("bucket", 8), *((name, 14) for name in FITTED)):
        b.head(name, b.embed(b.input(name), b.table(name, ids[:rows])), activation="none")
    for name in ("age", "log", "amount"):
        b.head(name, b.linear(b.input(name), np.ones((1, 1), "f4")), activation="none")
    bag = b.op("View", [b.embed(b.input("history"), b.table("history", ids[:VOCAB]), pooling="none")], {"kind": "reshape", "dims": [4]})
    b.head("history", b.linear(bag, np.array([[1, 16, 256, 4096]], "f4")), activation="none")
    b.head("vector", b.linear(b.input("vector"), np.array([[1, 1024]], "f4")), activation="none")
    b.write(HERE / "data/raw_values.h5", check=False)

    b = Builder("more kinds")  # what the table's rows cannot show: weights, a shared part, a vector with an encoder
    b.numeric("user", space="shared", missing="default", encoder=[e.to_float()])
    b.sequence("tags", 8, weighted=True, missing="pad", encoder=[e.vocab_string(["26", "7", str(2**53 + 1)], first_id=1)])
    b.dense("scaled", dim=2, missing="default", encoder=[e.to_float(), e.standard(40.0, 10.0)])
    b.head("user", b.linear(b.input("user"), np.ones((1, 1), "f4")), activation="none")
    b.head("tags", b.embed(b.input("tags"), b.table("tags", ids[:8]), pooling="sum"), activation="none")
    b.head("scaled", b.linear(b.input("scaled"), np.ones((1, 2), "f4")), activation="none")
    b.write(HERE / "data/more_kinds.h5", check=False)


# -- what a value must become: (id or float), or Missing, Unknown, Refused -------------------------------------------------
def float32(x):
    with np.errstate(over="ignore"):
        got = float(np.float32(x))
    if math.isinf(got):
        raise Refused("unparsable", "not finite")
    return got


def decimal(text):
    if not DECIMAL.fullmatch(text) or math.isinf(float(text)):
        raise Refused("unparsable", "number")
    return float(text)


def integer_key(text):
    """A text with a point or an exponent is the float that it writes."""
    if not INTEGER.fullmatch(text) and DECIMAL.fullmatch(text) and math.isfinite(float(text)):
        x = float(text)
        if abs(x) >= 2**53:
            raise Refused("unparsable", "2^53")
        text = str(int(x)) if x == int(x) else text
    if not INTEGER.fullmatch(text) or int(text) not in KEYS:
        raise Unknown
    return KEYS.index(int(text)) + 1


def log1p(x):
    if not x > -1:
        raise Refused("unparsable", "log1p")
    return math.log1p(x)


def word(text):
    text = text.strip(" ")
    if text in ("", "?"):
        raise Missing
    if text not in WORDS:
        raise Refused("unknown", "not in the vocabulary")
    return WORDS.index(text) + 1


def plain_id(text):
    if not INTEGER.fullmatch(text) or not -2**63 <= int(text) < 2**63:
        raise Refused("unparsable", "no id")
    return int(text)


def member(text):
    truth = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}.get(text.lower())
    if truth is None:
        raise Unknown
    return fitted_id("member", [truth])[0]


def category(name):
    forms = {float(t): i for x, i in zip(COLUMNS[name], fitted_id(name, COLUMNS[name])) for t in shown(x)}

    def read(text):
        if decimal(text) not in forms:
            raise Unknown
        return forms[decimal(text)]
    return read


def in_bins(name):
    return lambda text: fitted_id(name, [np.clip(decimal(text), -60000, 60000)])[0]


READ = {"user": integer_key, "history": integer_key, "word": word, "plain": plain_id,
        "token": lambda t: 1 + xxhash.xxh64_intdigest(t.encode(), 0) % 1009,
        "bucket": lambda t: int(np.digitize(decimal(t), [0.0, 10.0, 1e20])),
        "age": lambda t: float32((decimal(t) - 40.0) / 10.0), "log": lambda t: float32(log1p(decimal(t))), "amount": lambda t: float32(decimal(t)),
        "member": member, "narrow": category("narrow"), "half": category("half"), "bins": in_bins("bins"), "half_bins": in_bins("half_bins")}
NAMES = ("user", "member", "token", "word", "plain", "history")  # their ids name something


def of_double(feature, x):
    if math.isnan(x):
        raise Missing
    if math.isinf(x):
        raise Refused("unparsable", "infinite")
    if feature in NAMES and abs(x) >= 2**53:
        raise Refused("unparsable", "2^53")
    return READ[feature](str(int(x)) if x == int(x) else repr(x))


def cell(value):
    """The CSV cell of one value, None when a cell cannot say it."""
    (kind, x), = value.items()
    if kind in ("text", "json", "int", "uint"):
        return x
    return {"bool": "true" if x else "false", "null": ""}.get(kind)


def encoded(feature, value):
    """(what it becomes, counts) of one value; raises Refused."""
    (kind, x), = value.items()
    try:
        if kind == "double":
            return of_double(feature, float(x)), {}
        text = cell(value)
        if text == "":
            raise Missing
        return READ[feature](text), {}
    except Missing:
        return None, {"missing": 1}
    except Unknown:
        return 12 if feature in FITTED else OOV, {"unknown": 1}


MISSING = {"user": DEFAULT, "token": 0, "word": 0, "plain": 0, "bucket": 7, "age": -7.0, "log": -1.0, "amount": -3.0, **dict.fromkeys(FITTED, 13)}


def bag_score(ids):
    return float(sum(i * 16**t for t, i in enumerate(ids[:4])))


def case(feature, value, csv, outcome, counts):
    CASES.append({"feature": feature, "value": value, "csv": csv, **outcome, "counts": {k: n for k, n in counts.items() if n}})


def add(feature, *values):
    """Cases of single values."""
    for value in values:
        try:
            got, counts = encoded(feature, value)
        except Refused as r:
            case(feature, value, cell(value), {"error": [f"'{feature}'", *r.texts]}, {r.cause: 1})
            continue
        if feature == "history":
            score = bag_score([] if got is None else [got])
        elif got is None:
            score = MISSING[feature]
        elif feature == "plain" and not 0 <= got < 30:
            score, counts = 29, {"out_of_range": 1}
        else:
            score = got
        case(feature, value, cell(value), {"score": float(score)}, counts)


def add_bag(*values):
    ids, sums = [], {}
    csv = [cell(v) for v in values]
    for v in values:
        got, counts = encoded("history", v)
        ids += [] if got is None else [got]
        for k, n in counts.items():
            sums[k] = sums.get(k, 0) + n
    cut = len(ids) > 4
    case("history", {"list": list(values)}, None if None in csv else "|".join(csv), {"score": bag_score(ids)}, {**sums, "cut": int(cut)})


def refused(feature, value, *texts, csv=None, counts=None):
    case(feature, value, csv, {"error": [f"'{feature}'", *texts]}, counts or {})


def kinds(*pairs):
    return [{kind: x} for kind, x in pairs]


def lists():
    T, J, I, U = (lambda x, k=k: {k: str(x)} for k in ("text", "json", "int", "uint"))
    add_bag()
    add_bag(I(2**53 + 1), I(2**53), I(2**53 - 1))
    add_bag(J(2**53 + 1), J(2**53), J(-2**63), J(2**63 - 1))
    add_bag(T(26), I(7), J(-1), {"double": "26"})
    add_bag(I(26), {"null": None}, I(7))
    add_bag(T(26), T(""), T(7))
    add_bag(I(26), I(27), U(2**64 - 1), T("no key"))
    add_bag(I(26), I(7), I(-1), I(0), I(26))
    add_bag({"bool": True}, I(26))
    double = {"double": str(float(2**53))}
    refused("history", {"list": [I(26), double]}, "2^53", counts={"unparsable": 1})
    one, nested = {"list": [I(26)]}, {"list": [{"list": [I(26)]}]}
    for feature, kind in (("user", "categorical"), ("token", "categorical"), ("plain", "categorical"), ("age", "numeric"), ("amount", "numeric")):
        for value in (one, {"list": []}, {"list": [I(26), I(7)]}, {"list": [{"double": "26"}]}, nested):
            refused(feature, value, "a list for a " + kind)
    refused("history", nested, "a list inside a list")
    refused("history", {"list": [I(26), {"list": []}]}, "a list inside a list")


def vectors():
    J, D = (lambda x, k=k: {k: str(x)} for k in ("json", "double"))
    for value, want in (([J("1.5"), J("2")], [1.5, 2]), ([D("1.5"), {"int": "2"}], [1.5, 2]), ([J("1e2"), J("-0.25")], [100, -0.25]),
                        ([{"null": None}, J("2")], [-5, 2]), ([D("NaN"), J("1")], [-5, 1])):
        cells = [cell(v) for v in value]
        missing = sum(v == {"null": None} or v == D("NaN") for v in value)
        case("vector", {"list": value}, None if None in cells else cells, {"score": float(want[0] + 1024 * want[1])}, {"missing": missing})
    case("vector", {"null": None}, ["", ""], {"score": -5.0 + 1024 * -5.0}, {"missing": 2})
    for value in (J("1.5"), {"text": "1.5"}, {"bool": True}):
        refused("vector", value, "vector")
    for value in ([J("1.5")], [], [J(1), J(2), J(3)]):
        refused("vector", {"list": value}, "expected 2")
    refused("vector", {"list": [J("1"), {"text": "2"}]}, "element 1")
    refused("vector", {"list": [{"bool": True}, J("1")]}, "element 0")
    refused("vector", {"list": [J("1"), {"list": [J("1")]}]}, "element 1")
    refused("vector", {"list": [J("1"), D("Infinity")]}, "infinite")


def main():
    build()
    texts = ["26", "", " 26", "abc", "26.0", "2.6e1", "-1.0", "26.5", "9007199254740991.0", "9007199254740992.0", "9.223372036854776e+18", str(2**53 + 1), str(-2**63), str(2**64 - 1), str(2**63), "true", "1e3", "nan", "inf", "+7", "?", "A"]
    numbers = ["26", "26.0", "30", str(2**53 + 1), str(-2**63), str(2**63 - 1), str(2**64 - 1), "1e3", "1E400", "1e39", "1e-400", "-0", "2.5", "0.1"]
    doubles = ["26", "2.5", "0.1", "-0.0", str(2**53 - 1), str(float(2**53)), str(float(-2**53)), str(float(2**53 + 2)), "1e300", "NaN", "Infinity",
               "-Infinity"]
    for feature in READ:
        add(feature, *kinds(*(("text", t) for t in texts), *(("json", n) for n in numbers)))
        add(feature, *kinds(*(("int", str(i)) for i in [*KEYS, 27, -2]), *(("uint", str(u)) for u in (26, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1))))
        add(feature, *kinds(*(("double", d) for d in doubles), ("bool", True), ("bool", False), ("null", None)))
    for name in FITTED:
        cells = [t for x in COLUMNS[name] for t in shown(x)] + [t for x in beside_edges(name) for t in shown(x)] \
            if name != "member" else ["True", "False", "TRUE", "false", "0", "1", "1.0", "0.0", "yes", "2"]
        add(name, *kinds(*((kind, t) for kind in ("text", "json", "double") for t in dict.fromkeys(cells)
                           if kind == "text" or not t[0].isalpha())))
    lists()
    vectors()
    with open(HERE / "data/cases.json", "w", encoding="utf-8") as f:
        f.write("[" + ",\n".join(json.dumps(c) for c in CASES) + "]\n")
    print(len(CASES), "cases")


if __name__ == "__main__":
    main()
