"""What the generated models must have met: every attribute value of the op list, every rule of the features, every way of a value
through a lookup. The list follows from dpi_export's own tables, so that a new op, attribute or kind is missed by name."""

from collections import defaultdict

from dpi_export.ops.batch import ITEM
from dpi_export.schema import get
from dpi_export.ops.shapes import (BINARY, MASKS, OPS, OPTIONAL_PARAMS, RECURRENT, REDUCE, UNARY, VIEW_KEYS, mask_is_prefix)

POOLINGS = ("single", "none", "sum", "mean", "max")
MASK_MODES = ("none", "ninf", "add", "replace")
FLAG = (False, True)
#: (op, attribute) -> (default, values); values None: the default and another number must be met; "free": sizes and names,
#: which have no list of values.
DOMAINS = {
    ("Input", "feature"): "free", ("Embed", "table"): "free", ("Embed", "pooling"): ("single", POOLINGS),
    ("Embed", "mask"): ("length", MASKS), ("Embed", "eps"): (0, None), ("Embed", "empty"): (0, None),
    ("Mask", "rule"): (None, ("id", "length", "nonzero")), ("Linear", "groups"): (1, None),
    ("Linear", "axis"): ("last", ("last", "field")), ("MatMul", "trans_a"): (False, FLAG), ("MatMul", "trans_b"): (False, FLAG),
    ("MatMul", "alpha"): (1, None), ("Binary", "kind"): (None, BINARY), ("Unary", "kind"): (None, UNARY), ("Unary", "a"): "free",
    ("Unary", "b"): "free", ("LayerNorm", "eps"): (1e-5, None), ("Softmax", "axis"): (-1, None),
    ("Softmax", "mask_mode"): ("none", MASK_MODES), ("Softmax", "value"): (-1e9, None), ("Reduce", "kind"): (None, REDUCE),
    ("Reduce", "axis"): (-1, None), ("Reduce", "keepdim"): (False, FLAG), ("Reduce", "eps"): (0, None),
    ("Reduce", "empty"): (0, None), ("Concat", "axis"): (-1, None), ("View", "kind"): (None, tuple(VIEW_KEYS)),
    ("View", "dims"): "free", ("View", "perm"): "free", ("View", "axis"): "free", ("View", "begin"): "free",
    ("View", "end"): "free", ("View", "indices"): "free", ("Recurrent", "kind"): (None, RECURRENT),
    ("Recurrent", "reset"): (None, ("after", "before")), ("Recurrent", "output"): (None, ("last", "all")),
    ("TopK", "k"): "free", ("TopK", "axis"): (-1, None), ("TopK", "largest"): (True, FLAG), ("Gather", "axis"): (-1, None),
    ("Attention", "heads"): (1, None), ("Attention", "scale"): (1, None), ("Attention", "form"): ("softmax", ("softmax", "silu")),
    ("Attention", "divisor"): (1, None), ("Attention", "causal"): (False, FLAG), ("Attention", "candidates"): (0, None),
    ("Attention", "mask"): ("none", ("none", "keys", "pairs")), ("Attention", "bias"): ("none", ("none", "pairs", "relative")),
    ("Attention", "empty"): ("zeros", ("zeros", "mean")),
}
ID_KINDS, FLOAT_KINDS = ("categorical", "sequence"), ("numeric", "dense")


def required():
    """Facts that a set of models must show, all together."""
    facts = set()
    for op, (_, _, attrs, params) in OPS.items():
        for attr in attrs:
            domain = DOMAINS[op, attr]  # a KeyError here: an attribute that this suite does not know yet
            if domain != "free":
                default, values = domain
                facts |= {f"{op}.{attr}={v}" for v in (values or ("default", "other"))}
        facts |= {f"{op} {how} {role}" for role in params if role in OPTIONAL_PARAMS for how in ("with", "without")}
    for pooling, masks in {"sum": MASKS, "mean": MASKS, "max": ("length", "id", "none"), "none": ("length", "id", "none")}.items():
        facts |= {f"Embed {pooling} over {mask}" for mask in masks}
    facts |= {f"Recurrent {k} {r} {o}" for k in RECURRENT for r in ("after", "before") for o in ("last", "all")}
    facts |= {f"Reduce {k} {m}" for k in REDUCE for m in ("masked", "plain")}
    facts |= {f"Softmax {mode} {how}" for mode in MASK_MODES[1:] for how in ("prefix", "broadcast")}
    facts |= {f"affine by {how}" for how in ("parameters", "scalars")} | {f"prelu [{n}]" for n in ("1", "d")}
    facts |= {f"LayerNorm {role} {n}" for role in ("gamma", "beta") for n in ("[d]", "[F, d]")}
    facts |= {f"{use} table {t}" for t in ("f32", "f16", "bf16", "i8", "i4", "i2", "fp8") for use in ("one-column", "wide")}
    facts |= {f"two Embeds of one feature and table differ in {a}" for a in ("pooling", "mask", "eps", "empty")}
    facts |= {"a table of two features", "two Embeds alike but for the table", "several sums in one head"}
    facts |= {f"space {s}" for s in ("item", "shared", "constant")} | {f"cross with a weight {w}" for w in ("vector", "matrix")}
    facts |= {f"head: {form}" for form in ("sigmoid", "value only", "plain")}
    return facts | _required_of_features()


def _required_of_features():
    facts = {f"{kind} {key}={v}" for kind in ID_KINDS for key, values in (
        ("out_of_range", ("error", "oov", "default")), ("missing", ("error", "pad", "default"))) for v in values}
    facts |= {f"{kind} missing={v}" for kind in FLOAT_KINDS for v in ("error", "pad", "default")}
    facts |= {f"{kind} {how} {key}" for kind in ID_KINDS for key in ("pad_id", "missing_id") for how in ("with", "without")}
    facts |= {f"{kind} space={s}" for kind in ID_KINDS + FLOAT_KINDS for s in ("item", "shared")}
    facts |= {f"{kind} {rule} applied" for kind in ID_KINDS for rule in ("out_of_range", "missing")}
    facts |= {f"{kind} missing applied" for kind in FLOAT_KINDS} | {"sequence truncated applied"}
    facts |= {f"sequence keep={v}" for v in ("first", "last")} | {f"sequence pad_side={v}" for v in ("post", "pre")}
    facts |= {"sequence with max_len", "sequence without max_len", "sequence weighted=True", "sequence weighted=False"}
    return facts | {"an empty bag", "weights given", "weights left out", "a user without items"}


def facts_of(m):
    """Facts that one model shows."""
    facts = set(m.marks)
    for op in m.b.ops:
        facts |= _facts_of_op(m.b, op)
    return facts | _facts_of_lookups(m.b) | _facts_of_features(m)


def _facts_of_op(b, op):
    kind, attrs, given = op["op"], op["attrs"], op.get("params", {})
    facts = {f"space {b.space(op['name'])}"}
    for attr in OPS[kind][2]:
        if DOMAINS[kind, attr] == "free":
            continue
        default, values = DOMAINS[kind, attr]
        value = attrs.get(attr, default)
        facts.add(f"{kind}.{attr}={value if values else 'default' if value == default else 'other'}")
    for role in set(OPS[kind][3]) & OPTIONAL_PARAMS:
        facts.add(f"{kind} {'with' if role in given else 'without'} {role}")
    dims = [b.shape(i) for i in op["in"]]
    if kind == "Recurrent":
        facts.add(f"Recurrent {attrs['kind']} {attrs['reset']} {attrs['output']}")
    elif kind == "Reduce":
        facts.add(f"Reduce {attrs['kind']} {'masked' if len(dims) == 2 else 'plain'}")
    elif kind == "Softmax" and len(dims) == 2:
        prefix = mask_is_prefix(dims[0], dims[1], attrs.get("axis", -1))
        facts.add(f"Softmax {attrs['mask_mode']} {'prefix' if prefix else 'broadcast'}")
    elif kind == "Unary" and attrs["kind"] == "affine":
        facts.add(f"affine by {'parameters' if given else 'scalars'}")
    elif kind == "Unary" and attrs["kind"] == "prelu":
        facts.add(f"prelu [{'d' if b.param(given['slope']).size > 1 else '1'}]")
    elif kind == "LayerNorm":
        facts |= {f"LayerNorm {role} {'[d]' if b.param(name).ndim == 1 else '[F, d]'}" for role, name in given.items()}
    return facts


def _facts_of_lookups(b):
    """How the Embeds of a model relate: by feature and table."""
    facts, readers, together = set(), defaultdict(set), defaultdict(list)
    info = {t["name"]: t for t in b.tables}
    for op in b.ops:
        if op["op"] != "Embed":
            continue
        attrs, table = op["attrs"], info[op["attrs"]["table"]]
        rule = {key: attrs.get(key, DOMAINS["Embed", key][0]) for key in ("pooling", "mask", "eps", "empty")}
        facts.add(f"Embed {rule['pooling']} over {rule['mask']}")
        facts.add(f"{'one-column' if table['dim'] == 1 else 'wide'} table {table['dtype']}")
        readers[table["name"]].add(op["in"][0])
        for other, at in together[op["in"][0]]:
            differ = [key for key in rule if rule[key] != other[key]]
            if at == table["name"] and len(differ) == 1:
                facts.add(f"two Embeds of one feature and table differ in {differ[0]}")
            if at != table["name"] and not differ:
                facts.add("two Embeds alike but for the table")
        together[op["in"][0]].append((rule, table["name"]))
    return facts | ({"a table of two features"} if any(len(r) > 1 for r in readers.values()) else set())


def _facts_of_features(m):
    facts = set()
    for f in m.b.features:
        kind, name = f["kind"], f["name"]
        facts |= {f"{kind} missing={get(f, 'missing')}", f"{kind} space={get(f, 'space')}"}
        facts |= {f"{kind} {rule} applied" for rule in m.counts.get(name, {})}
        if kind not in ID_KINDS:
            continue
        facts.add(f"{kind} out_of_range={get(f, 'out_of_range')}")
        facts |= {f"{kind} {'with' if key in f else 'without'} {key}" for key in ("pad_id", "missing_id")}
        if kind == "sequence":
            facts |= {f"sequence {key}={get(f, key)}" for key in ("keep", "pad_side", "weighted")}
            facts.add(f"sequence {'with' if get(f, 'max_len') else 'without'} max_len")
            facts |= {"an empty bag"} if any(len(bag) == 0 for bag in m.columns[name]) else set()
            if get(f, "weighted"):
                facts.add("weights given" if name in m.weights else "weights left out")
    has_idle_user = any(n == 0 for n in m.shared_counts or [])
    return facts | ({"a user without items"} if has_idle_user and any(
        get(f, "space") != ITEM for f in m.b.features) else set())
