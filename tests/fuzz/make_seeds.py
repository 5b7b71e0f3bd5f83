"""Writes the seeds of the fuzz targets: tiny bundles (together every op, feature kind, table type, encoder step and golden
array), and inputs of the other targets.

    python3 tests/fuzz/make_seeds.py FOLDER        # FOLDER/<target>/seed_*; tests/fuzz/run.sh does it by itself
"""

import pathlib
import re
import struct
import sys

import numpy as np
import xxhash

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "weights/python"), str(ROOT / "packaging/doc/generator")]

import options  # noqa: E402
from dpi_export import Builder, Encoder, Rows  # noqa: E402
from dpi_export import encoders as e  # noqa: E402
from dpi_export.ops.shapes import BINARY, UNARY  # noqa: E402


def values(*dims):
    """Small numbers that float32 holds exactly."""
    return (np.arange(int(np.prod(dims)), dtype=np.float32).reshape(dims) % 7 - 3) / 4


def score(b, parts):
    """One head over the values, each flattened."""
    x = b.concat([b.reshape(p, [-1]) for p in parts])
    logit = b.linear(x, values(1, b.shape(x)[0]), np.float32([0.125]))
    b.head("ctr", b.sigmoid(logit), logit=logit)
    return b


def with_dense(name, dim=4):
    b = Builder(name)
    return b, b.input(b.dense("x", dim, missing="pad"))


def with_bag(name, **keys):
    b = Builder(name)
    bag = b.input(b.sequence("s", 5, max_len=3, missing="pad", **keys))
    return b, bag, b.table("t", values(5, 2))


def activations():
    b, x = with_dense("activations")
    scalars = {"leaky": {"a": 0.1}, "elu": {"a": 1.5}, "pow": {"a": 2.0}, "clamp": {"a": -1.0, "b": 1.0}, "affine": {"a": 2.0, "b": 1.0}}
    positive = b.unary("softplus", x)
    return score(b, [b.unary(kind, positive, **scalars.get(kind, {})) for kind in UNARY if kind not in ("prelu", "dice")])


def with_params():
    b, x = with_dense("with_params")
    return score(b, [b.unary("prelu", x, slope=values(4)), b.unary("dice", x, alpha=values(4), scale=values(4), shift=values(4)),
                     b.unary("affine", x, scale=values(4), shift=values(4)), b.layer_norm(x, gamma=values(4), beta=values(4))])


def matrices():
    b, x = with_dense("matrices", 6)
    m = b.reshape(x, [3, 2])
    return score(b, [b.matmul(m, m, trans_b=True, alpha=0.5), b.linear(m, values(2, 3), axis="field"),
                     b.linear(m, values(3, 2, 2), values(3, 2), groups=3), b.softmax(m), b.transpose(m, [1, 0])])


def arithmetic():
    b, x = with_dense("arithmetic")
    c = b.const(np.float32([1, 2, 3, 4]))
    return score(b, [b.binary(kind, x, c) for kind in BINARY])


def views():
    b, x = with_dense("views", 6)
    m = b.reshape(x, [3, 2])
    return score(b, [b.slice(x, 1, 4), b.index_select(m, [2, 0], axis=0), b.expand(b.reshape(x, [1, 6]), [2, 6]),
                     *(b.reduce(kind, m, axis=1) for kind in ("sum", "mean", "max", "sumsq"))])


def pooling():
    b, bag, t = with_bag("pooling", weighted=True)
    return score(b, [b.embed(bag, t, pooling="none"), b.embed(bag, t, pooling="sum"), b.embed(bag, t, pooling="mean", mask="id")])


def masks():
    b, bag, t = with_bag("masks", pad_side="pre", keep="last")
    rows, valid = b.embed(bag, t, pooling="none"), b.mask(bag, "length")
    attention = b.softmax(b.reshape(b.linear(rows, values(1, 2)), [3]), valid)
    return score(b, [attention, b.reduce("mean", rows, b.mask(rows, "nonzero"), axis=0), b.embed(bag, t, pooling="max")])


def recurrent(kind):
    b, bag, t = with_bag("recurrent_" + kind)
    rows, valid = b.embed(bag, t, pooling="none"), b.mask(bag, "id")
    att = None if kind == "gru" else b.reshape(b.linear(rows, values(1, 2)), [3])
    return score(b, [b.recurrent(rows, valid, values(6, 2), values(6, 2), values(6), values(6), att=att, kind=kind,
                                 output="last" if kind == "gru" else "all")])


def tables():
    b = Builder("tables")
    parts = []
    for dtype in ("f32", "f16", "bf16", "i8", "i4", "i2", "fp8"):
        b.categorical(dtype, 3, missing="pad", out_of_range="oov", oov_id=1)
        parts.append(b.embed(b.input(dtype), b.table(dtype, values(3, 2), dtype=dtype)))
    return score(b, parts)


def shared_rows():
    b = Builder("shared_rows")
    user = b.embed(b.input(b.categorical("user", 4, space="shared")), b.table("user", values(4, 3)))
    item = b.embed(b.input(b.categorical("item", 5)), b.table("item", values(5, 3)))
    age = b.input(b.numeric("age", space="shared", missing="default", default=0.5))
    score(b, [b.mul(user, item), age])
    b.golden(Rows(ids=[1, 0, 4], offsets=np.arange(4), shared_offsets=[0, 2, 3], shared_dense=[[1.0], [-0.5]], shared_ids=[3, 2],
                  shared_bag_offsets=np.arange(3)))
    return b


def fm():
    b = Builder("fm")
    rows = [b.reshape(b.embed(b.input(b.categorical(n, 4, missing="default", default_id=2)), b.table(n, values(4, 3))), [1, 3])
            for n in "abc"]
    x = b.concat(rows, axis=0)
    total = b.reduce("sum", x, axis=0)
    pairs = b.sub(b.mul(total, total), b.reduce("sumsq", x, axis=0))
    score(b, [pairs])
    b.golden(Rows(ids=[0, 1, 2, 3, 0, 1], offsets=np.arange(7)))
    return b


def encoded():
    b = Builder("encoded")
    words = Encoder([e.trim(), e.lower(), e.missing(["?"]), e.vocab_string(["ulm", "bonn", "köln"])])
    parts = []
    for name, encoder in (("words", words), ("whole", Encoder([e.vocab_int([30, -20, 10], ids=[1, 2, 3])])),
                          ("hashed", Encoder([e.hash_xxh64(4, seed=7, offset=1)])), ("id", Encoder([e.to_id()])),
                          ("bin", Encoder([e.to_float(), e.buckets([0.0, 1.0, 2.0])]))):
        b.categorical(name, 5, out_of_range="oov", oov_id=0, missing="pad", encoder=encoder)
        parts.append(b.embed(b.input(name), b.table(name, values(5, 1))))
    b.numeric("age", missing="default", default=0.5,
              encoder=Encoder([e.to_float(), e.clip(-9.0, 99.0), e.signed_log1p(), e.standard(1.0, 2.0), e.minmax(-1.0, 1.0)]))
    return score(b, parts + [b.input("age")])


def split_bags():
    b = Builder("split_bags")
    b.sequence("tags", 5, max_len=3, missing="pad", out_of_range="oov", oov_id=4,
               encoder=Encoder([e.trim(), e.hash_murmur3(3, seed=1)], splitter="^", missing_element=0))
    b.sequence("free", 5, missing="default", default_id=1, encoder=Encoder([e.to_float(), e.vocab_float([0.5, 1.0, 2.5])]))
    t = b.table("t", values(5, 2))
    parts = [b.embed(b.input("tags"), t, pooling="mean"), b.embed(b.input("free"), t, pooling="sum")]
    score(b, parts)
    b.golden(Rows.from_columns(b, {"tags": [[1, 2], []], "free": [[3], [0, 1]]}))
    return b


def lookup():
    b = Builder("lookup")
    out = []
    for n in "ab":
        b.categorical(n, 4, missing="pad", missing_id=-1)
        out.append(b.embed(b.input(n), b.table(n, values(4, 2))))
        out.append(b.embed(b.input(n), b.table(n + "1", values(4, 1))))
    return score(b, out + [b.input(b.numeric("n"))])


def keys():
    b = Builder("keys")
    user = b.input(b.categorical("user", keys="user", missing="pad", pad_id=0, encoder=[e.hash_xxh64()]))
    seen = b.input(b.sequence("seen", keys="user", max_len=3, missing="pad", encoder=[e.to_id()]))
    b.keyed_table("user", [-2**63, -1, 0, 2**63 - 1], values(4, 2), default=[1, 2], dtype="i8")
    b.keyed_table("weight", [-2**63, -1, 0, 2**63 - 1], values(4, 1), key_set="user")
    return score(b, [b.embed(user, "user"), b.embed(user, "weight"), b.embed(seen, "user", "mean", mask="id"), b.embed(seen, "user", "none")])


BUNDLES = [activations, with_params, matrices, arithmetic, views, pooling, masks, tables, shared_rows, fm, encoded, split_bags, lookup, keys]


def write_bundles(folder):
    folder.mkdir(parents=True, exist_ok=True)
    made = [(make.__name__, make()) for make in BUNDLES] + [(f"recurrent_{k}", recurrent(k)) for k in ("gru", "augru")]
    for name, bundle in made:
        bundle.write(folder / f"seed_{name}.h5")
    return [folder / f"seed_{name}.h5" for name, _ in made]


HEADER = "city,tags,age,vec[0],vec[1],vec[2],half,brain,byte"
TABLE = """dpi-tuning 2
device NVIDIA H200
capability 90
multiprocessors 132
cublaslt 130100
# precision end out in rows implementation tile algorithm microseconds
fp16 plain 400 432 64 cublaslt-fp16 - %s 4.2
fp32 fused 624 624 2048 own-3xtf32 128 - 90.3
bf16 fused 1 2 3 cublaslt-bf16 staged %s 1
small_batch fp16 494544 tensor 8 8 256 off 6.3
lookup 2048 16 yes no f32 f16 rows 8 0 256 keep off 5.4
lookup * * * * * * auto 0 0 0 plain on 1
""" % ("0123456789abcdef" * 8, "f" * 128)
#: Of the model that deltas start from (tests/bundle/make_delta.py).
DELTA_SEED = 31
#: The first byte of a CSV input: 1 = small limits, 2 = raw values.
CSV = {"ids": "\0" + HEADER + "\n1,1|2,0.5,1,2,3,0,1,2\n,,,,,,,,\n", "label": "\0" + HEADER + ",label\r\n1,2:0.5|3,1e3,1,2,3,-1,1,2,1\r\n",
       "raw": "\2" + HEADER + '\n" bonn ",30|-20:2,12,1,2,3,0,1,2\n"k""x",,?,,,,,0,0\n', "small": '\1a,"b",\nc,"d\n""e",f'}
#: Values of options that options.def describes by what they are, and does not name.
DESCRIBED = {"absolute folder": ["/", "x"], "bytes": ["0", "1000"], "Ed25519 keys in hex": ["00" * 32, "00,11"], "default | off | path": ["off", "default", "/"],
             "none | pass,pass": ["none", "lookup,elementwise,merge,tail"], "cpu | cuda[:N] | auto | ref | name": ["ref", "cpu", "auto", "cuda", "cuda:1", "none"]}
ROW = '{"city":"bonn","age":12,"half":1,"brain":"2","byte":0}'
HTTP = {"rows": '{"rows":[%s,{"city":null,"brain":1,"byte":2}]}' % ROW,
        "shared": '{"shared":{"tags":[30,"-20"],"vec":[1,-2.5,3e1]},"rows":[%s]}' % ROW,
        "after": '{"rows":[%s],"shared":null}' % ROW, "empty": '{"rows":[]}', "escaped": '{"rows":[{"c\\u0069ty":"k\\u00f6ln","brain":0,"byte":"\\ud83d\\ude00"}]}',
        "nested": '{"rows":[{"city":[[{}]]}]}', "twice": '{"rows":[{"age":1,"age":2}]}', "list": "[1,2]"}


def option_values(values):
    """Words and bounds of what options.def says: "a | b" gives both, "1 ... 8" both, "8 ..." the one."""
    return DESCRIBED.get(values) or [word for word in re.split(r" \| | \.\.\. ?", values) if word]


def write_deltas(folder):
    """Deltas from tests/bundle/data/changing.h5: some rows, all rows, nothing (so the one after fits the base too)."""
    sys.path.insert(0, str(ROOT / "weights/python/tests"))
    import delta_models as d
    from dpi_export import delta

    folder.mkdir(parents=True, exist_ok=True)
    base, start, out = ROOT / "tests/bundle/data/changing.h5", d.first(DELTA_SEED), []
    for name, share in (("some", 0.4), ("all", 1.0), ("none", 0.0)):
        d.write(d.later(start, 1, share), folder / "next", golden=False)
        out.append(folder / f"seed_{name}")
        delta(base, folder / "next", out[-1])
    d.write(d.later(d.later(start, 1, 0.0), 2, 0.3), folder / "after", golden=False)
    out.append(folder / "seed_after")
    delta(folder / "next", folder / "after", out[-1])
    for left in ("next", "after"):
        (folder / left).unlink()
    return out


def record_frame(kind, payload, at):
    head = struct.pack("<IIQQ", kind, 0, len(payload), xxhash.xxh3_64(payload).intdigest())
    return head + struct.pack("<Q", xxhash.xxh3_64(head, seed=at).intdigest()) + payload


def record_request(flags, rows, users=0):
    """For adult_widedeep.h5: 8 slots and 6 columns, all in the item part."""
    pad = lambda b: b + bytes(-len(b) % 8)
    out = struct.pack("<IIqQqqqqIIIIII", 0, flags, 0, 1000, rows, 8 * rows, users, 0, 8, 6, 0, 0, 1, 0) + struct.pack(f"<{8 * rows}q", *([1] * 8 * rows))
    out += struct.pack(f"<{8 * rows + 1}q", *range(8 * rows + 1)) if flags & 4 else b""
    out += struct.pack(f"<{8 * rows}f", *([1.0] * 8 * rows)) if flags & 8 else b""
    out += struct.pack(f"<{6 * rows}f", *([0.5] * 6 * rows))
    out += struct.pack(f"<{users + 1}q", *range(users), rows) if flags & 1 else b""
    return out + pad(struct.pack(f"<{rows}f", *([0.25] * rows)))


def write_records(folder):
    """Record files (weights/RECORD.md): each form of a request, an ended file, one that is cut."""
    folder.mkdir(parents=True, exist_ok=True)
    head = b"DPIRECD\0" + struct.pack("<IIqQ", 1, 0, 0, 1)
    head += struct.pack("<Q", xxhash.xxh3_64(head).intdigest())
    schema, info = b'{"features":[],"heads":[]}', b"{}"
    bundle = bytes(32) + struct.pack("<QQII", 1, xxhash.xxh3_64(schema).intdigest(), len(schema), len(info)) + schema + info
    bundle += bytes(-len(bundle) % 8)
    requests = {"plain": [record_request(0, 2)], "bags": [record_request(4, 1), record_request(12, 3)], "slots": [record_request(2, 2)],
                "users": [record_request(5, 3, 2), record_request(1, 1, 1)], "none": []}
    for name, payloads in requests.items():
        data = head
        for payload in [bundle, *payloads]:
            data += record_frame(1 if payload is bundle else 2, payload, len(data))
        (folder / f"seed_{name}_cut").write_bytes(data[:-5])
        (folder / f"seed_{name}").write_bytes(data + record_frame(3, struct.pack("<QQ", len(payloads), 0), len(data)))


def write_texts(folder, texts):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / f"seed_{name}").write_bytes(text.encode())


def main():
    folder = pathlib.Path(sys.argv[1])
    files = write_bundles(folder / "bundle")
    files += write_deltas(folder / "delta")
    write_records(folder / "record")
    write_texts(folder / "csv", CSV)
    write_texts(folder / "http", HTTP)
    write_texts(folder / "tuning", {"table": TABLE})
    write_texts(folder / "options", {o.key: "".join(f"{o.key.replace('NAME', 'tags')}={v}\n" for v in option_values(o.values)) for o in options.read()})
    for target in ("rows", "capi"):  # any bytes are a sequence of values or calls
        write_texts(folder / target, {"zeros": "\0" * 64})
    print(f"{len(files)} seeds, {sum(f.stat().st_size for f in files)} bytes, largest {max(f.stat().st_size for f in files)}")


if __name__ == "__main__":
    main()
