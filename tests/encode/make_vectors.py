"""Writes data/encoders.h5 (one feature per encoder) and data/vectors.json: raw values and what they must become.

    python3 tests/encode/make_vectors.py        # numpy, scikit-learn, xxhash

data/splits.json holds texts, splitters and what Python's str.split makes of them.

What they must become is computed by numpy, scikit-learn, xxhash and Python itself, not by the package's own encoders, which only
write the bundle. Each vector is {"feature", "text" or "number", and one of "id", "float", "missing", "error"}.
"""

import json
import math
import pathlib
import sys

import numpy as np
import xxhash
from sklearn.preprocessing import KBinsDiscretizer, MinMaxScaler, OrdinalEncoder, StandardScaler
from sklearn.utils import murmurhash3_32

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "weights/python"))

from dpi_export import Builder, Encoder  # noqa: E402
from dpi_export import encoders as e  # noqa: E402

RNG = np.random.default_rng(7)
VECTORS = []
B = Builder("encoders")

TEXTS = ["", "a", "ab", "abc", "abcd", "abcde", "köln", "x" * 31, "x" * 32, "x" * 33, "z" * 257, "0", "-1", " padded ", "A,B|C:D",
         "\u00df", "Hello, world!", "1e5", "\t"]
NUMBERS = [0.0, -0.0, 1.0, -1.0, 0.5, 0.1, 1 / 3, 1e-5, 1.5e-7, 123456789.0, 2.0**53 - 1, 2.0**53, 1e15, 1e16, 1e22, -2.5e300, 5e-324,
           9007199254740993.0]


def add(feature, want, **raw):
    VECTORS.append({"feature": feature, **raw, **want})


def slot(name, vocab, *steps, **keys):
    B.categorical(name, vocab, encoder=Encoder(list(steps)), **keys)
    return name


def number(name, *steps):
    B.numeric(name, encoder=Encoder([e.to_float(), *steps]))
    return name


def plain(x):
    """A number as text, in the shortest form that reads back; integers without exponent."""
    return str(int(x)) if x == int(x) else repr(x)


def hashes():
    for seed in (0, 1, 2**31 - 1):
        name = slot(f"murmur {seed}", 5000, e.hash_murmur3(4999, seed=seed, offset=1))
        for t in TEXTS:
            h = murmurhash3_32(t.encode(), seed=seed, positive=True)
            add(name, {"missing": True} if t == "" else {"id": 1 + int(h) % 4999}, text=t)
    for seed in (0, 42, 2**63 - 1):
        name = slot(f"xxh {seed}", 1000, e.hash_xxh64(1000, seed=seed))
        for t in TEXTS:
            add(name, {"missing": True} if t == "" else {"id": xxhash.xxh64(t.encode(), seed=seed).intdigest() % 1000}, text=t)
        for x in NUMBERS:  # from 2^53 on a number may stand for another integer
            exact = abs(x) < 2**53
            add(name, {"id": xxhash.xxh64(plain(x).encode(), seed=seed).intdigest() % 1000} if exact else {"error": True}, number=x)


def vocabularies():
    words = sorted({"".join(chr(97 + c) for c in RNG.integers(0, 26, RNG.integers(1, 12))) for _ in range(1500)} | {"köln", " "})
    oracle = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1).fit(np.array(words, dtype=object)[:, None])
    name = slot("words", len(words) + 1, e.vocab_string(list(oracle.categories_[0]), first_id=1), out_of_range="oov", oov_id=0)
    asked = words + [w + "q" for w in words[:200]]
    for w, k in zip(asked, oracle.transform(np.array(asked, dtype=object)[:, None])[:, 0]):
        add(name, {"id": int(k) + 1}, text=w)
    strict = slot("strict", 4, e.trim(), e.lower(), e.missing(["?", "n/a"]), e.vocab_string(["yes", "no"], ids=[3, 2]))
    for t, want in (("yes", {"id": 3}), (" NO\n", {"id": 2}), ("?", {"missing": True}), (" N/A ", {"missing": True}),
                    ("maybe", {"error": True}), ("  ", {"missing": True}), ("", {"missing": True}), ("y" * 70000, {"error": True}),
                    ("ÿes", {"error": True})):
        add(strict, want, text=t)
    upper = slot("upper", 2, e.upper(), e.vocab_string(["ÄäZ"], first_id=1), out_of_range="default", default_id=0)
    for t, want in (("Ääz", 1), ("ääz", 0)):
        add(upper, {"id": want}, text=t)
    keys = np.unique(RNG.integers(-2**62, 2**62, 500))
    ids = RNG.permutation(len(keys))
    name = slot("keys", 600, e.vocab_int([int(k) for k in keys] + [7, -1, 0], ids=[int(i) for i in ids] + [510, 511, 512]),
                out_of_range="oov", oov_id=599)
    for k, i in zip(keys, ids):
        add(name, {"id": int(i)}, text=str(int(k)))
        add(name, {"id": 599}, text=str(int(k) + 1))
    for t, want in (("7", 510), ("+7", 510), ("-1", 511), ("0", 512), ("-0", 512), ("007", 510), ("7.0", 510), ("7e0", 510), ("-1.00", 511), ("7.5", 599),
                    ("x", 599), ("7.0x", 599), ("7 ", 599), (".", 599), ("1e400", 599), ("9" * 30, 599)):
        add(name, {"id": want}, text=t)
    for t in (f"{2**53}.0", f"-{2**53}.0", "9.223372036854776e+18"):
        add(name, {"error": True}, text=t)
    for x, want in ((7.0, 510), (-1.0, 511), (7.5, 599)):
        add(name, {"id": want}, number=x)
    for x in (1e300, 2.0**53, -(2.0**53)):
        add(name, {"error": True}, number=x)


def identifiers():
    name = slot("id", 100, e.to_id())
    for t in ("0", "7", "-3", "+12", "99", "100", str(2**63 - 1), str(-2**63)):
        add(name, {"id": int(t)}, text=t)
    for t in ("1.5", "1e3", "0x10", "--1", "+-1", "", " 1", "1 ", str(2**63), "one", "nan", "1\x00"):
        add(name, {"missing": True} if t == "" else {"error": True}, text=t)
    for x, want in ((3.0, {"id": 3}), (-1.0, {"id": -1}), (0.5, {"error": True}), (1e19, {"error": True}),
                    (2.0**53 - 1, {"id": 2**53 - 1}), (2.0**53, {"error": True}),
                    (float("nan"), {"missing": True}), (float("inf"), {"error": True})):
        add(name, want, number=x)


def arithmetic():
    column = RNG.normal(3.0, 7.0, 60)
    scaler, scale = StandardScaler().fit(column[:, None]), MinMaxScaler(feature_range=(-1, 3)).fit(column[:, None])
    steps = {
        "standard": ([e.standard(float(scaler.mean_[0]), float(scaler.scale_[0]))], lambda x: scaler.transform([[x]])[0, 0]),
        "minmax": ([e.minmax(float(column.min()), float(column.max()), -1.0, 3.0)], lambda x: scale.transform([[x]])[0, 0]),
        "clip": ([e.clip(-1.0, 2.5)], lambda x: np.clip(x, -1.0, 2.5)),
        "slog": ([e.signed_log1p()], lambda x: np.sign(x) * np.log1p(np.abs(x))),
        "log": ([e.clip(0.0, 1e9), e.log1p()], lambda x: np.log1p(np.clip(x, 0.0, 1e9))),
        "float": ([], float),
    }
    for name, (list_, oracle) in steps.items():
        number(name, *list_)
        for x in [*column, 0.0, 1.0, -1.0, 1e-9, 1e30, -1e30]:
            x = float(x)
            add(name, {"float": float(oracle(x))}, text=repr(x))
            add(name, {"float": float(oracle(x))}, number=x)
    for t in ("1e3", "1E-3", "+1.5", ".5", "5.", "-0", "1e-400", "00012.50"):
        add("float", {"float": float(t)}, text=t)
    for t in ("", "1e400", "0x1p3", "inf", "nan", "1,5", "1_000", " 1", "1 ", "e5", ".", "-", "+", "1e", "1e+", "--1", "1e39"):
        add("float", {"missing": True} if t == "" else {"error": True}, text=t)
    for t in ("-1", "-2"):
        add(number("log1p bare" + t, e.log1p()), {"error": True}, text=t)


def bins():
    column = RNG.normal(0, 1, 300)
    edges = KBinsDiscretizer(9, encode="ordinal", strategy="quantile").fit(column[:, None]).bin_edges_[0][1:-1]
    for right in (False, True):
        name = slot(f"bins {right}", 12, e.to_float(), e.buckets([float(b) for b in edges], right=right, first_id=2))
        for x in [*column[:80], *edges, *np.nextafter(edges, -9), *np.nextafter(edges, 9), -99.0, 99.0]:
            want = {"id": 2 + int(np.digitize(x, edges, right=right))}
            add(name, want, text=repr(float(x)))
            add(name, want, number=float(x))


def float_vocabulary():
    """Float categories, and the texts and numbers that are equal to one, or nearly."""
    values = np.unique(np.concatenate([RNG.normal(0, 100, 200), RNG.integers(-50, 50, 60), [0.1, 1e300, 5e-324, 2.0**53]]))
    oracle = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1).fit(values[:, None])
    name = slot("floats", len(values) + 1, e.to_float(), e.vocab_float(list(oracle.categories_[0]), first_id=1),
                out_of_range="oov", oov_id=0)
    asked = [*values, *np.nextafter(values, 9e307), 0.5, -0.0, 1e22]
    for x, k in zip(asked, oracle.transform(np.array(asked)[:, None])[:, 0]):
        x, want = float(x), {"id": int(k) + 1}
        add(name, want, number=x)
        for text in sorted({repr(x), f"{x:.17g}", f"{x:.25e}", repr(x) if repr(x)[0] == "-" else "+" + repr(x), plain(x)}):
            add(name, want, text=text)
    for t in ("one", "nan", "inf", "1,5", "0x1", " 1"):
        add(name, {"error": True}, text=t)
    few = slot("float ids", 9, e.to_float(), e.vocab_float([2.5, -1, 0], ids=[8, 7, 1]), out_of_range="default", default_id=3)
    for t, want in (("2.50", 8), ("-1.0", 7), ("-1", 7), ("0.0", 1), ("-0", 1), ("0e5", 1), ("2", 3)):
        add(few, {"id": want}, text=t)


def elements():
    """Missing elements of bags."""
    for name, missing in (("bag", 5), ("bag that drops", None)):
        B.sequence(name, 9, max_len=4, missing="pad", out_of_range="oov", oov_id=8,
                   encoder=Encoder([e.trim(), e.missing(["NA"]), e.vocab_string(["a", "b"])], splitter="^", missing_element=missing))
        for t, want in (("a", 1), (" b", 2), ("c", 8), ("", missing), (" ", missing), ("NA", missing)):
            add(name, {"missing": True} if want is None else {"id": want}, text=t)
    B.sequence("id bag", 9, encoder=Encoder([e.to_id()], splitter=","))


def splits():
    """[{"text", "splitter", "want"}]; an empty text holds no elements."""
    space = [chr(c) for c in range(0x110000) if chr(c).isspace()]
    texts = ["", "^", "a", "a^b", "^a", "a^", "a^^b", "^^", "a, b,c, ", ", , ", "aaa", "aaaaa", " a  b ", "\ta\nb\r\n", "k\u00f6ln^\u00df", "  "]
    texts += [f"x{s}y{s}{s}z{s}" for s in space] + [f"x{chr(c)}y" for c in (0x200B, 0x2007, 0x200B, 0xFEFF, 0x0E, 0x7F, 0x180E, 0x84, 0xE2)]
    alphabet = ["a", "b", "^", ", ", " ", "\u2003", "\u00a0", "\u00e9"]
    texts += ["".join(RNG.choice(alphabet, RNG.integers(1, 12))) for _ in range(300)]
    out = [{"text": t, "splitter": s, "want": t.split(s or None) if t else []} for t in texts for s in ("", "^", ", ", "aa")]
    with open(HERE / "data/splits.json", "w", encoding="utf-8") as f:
        f.write("[" + ",\n".join(json.dumps(v) for v in out) + "]\n")


def main():
    for part in (hashes, vocabularies, identifiers, arithmetic, bins, float_vocabulary, elements):
        part()
    splits()
    x = B.concat([B.input(f["name"]) for f in B.features if f["kind"] == "numeric"])
    B.head("y", B.linear(x, np.ones((1, B.shape(x)[0]), np.float32)))
    (HERE / "data").mkdir(exist_ok=True)
    B.write(HERE / "data/encoders.h5")
    for v in VECTORS:
        if "number" in v and not math.isfinite(v["number"]):
            v["number"] = str(v["number"])
    with open(HERE / "data/vectors.json", "w", encoding="utf-8") as f:
        f.write("[" + ",\n".join(json.dumps(v) for v in VECTORS) + "]\n")
    print(len(VECTORS), "vectors")


if __name__ == "__main__":
    main()
