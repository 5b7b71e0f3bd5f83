"""CoAction by its formulas (Bian et al., WSDM 2022, part 4), row by row, order by order and item by item in float64."""
import numpy as np

from lookups import ID, LENGTH, random_bags
from recorder import Bags, Table, f32, f64

IDENTITY, RELU, SIGMOID, TANH, SELU = 0, 1, 2, 3, 10
ACT = {IDENTITY: lambda x: x, RELU: lambda x: np.where(x > 0, x, 0.0), SIGMOID: lambda x: 1 / (1 + np.exp(-x)), TANH: np.tanh,
       SELU: lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(np.minimum(x, 0)))}


def attributes(widths, orders=1, acts=None, bias=False, joined=False, independent=False, added=False, last=False, first_weight=0, **more):
    """The columns as a CAN's exporter leaves them: W row by row and b behind it, level by level, order by order; dst order by order."""
    inputs, at, out, levels = widths[0] * (orders if joined else 1), first_weight, 0, []
    for k, outputs in enumerate(widths[1:]):
        collected = not last or k == len(widths) - 2
        level = dict(inputs=inputs, outputs=outputs, weight=at, bias=at + inputs * outputs if bias else -1, out_col=out if collected else -1,
                     act=dict(kind=(acts or [TANH] * 9)[k], a=0, b=0))
        at += inputs * outputs + outputs * bias
        out += outputs * collected
        inputs = outputs
        levels.append(level)
    return dict(levels=levels, orders=orders, joined=int(joined), weight_step=(at - first_weight) * independent,
                out_step=0 if added or joined or orders == 1 else out, feed_col=more.get("feed_col", 0), feed_dim=widths[0],
                mean=int(more.get("mean", False)), mask=more.get("mask", LENGTH), pad_id=more.get("pad_id", 0), max_len=more.get("max_len", 0),
                mapped=int(more.get("mapped", False)))


def sizes_of(a):
    """(numbers of the induction, outputs)"""
    runs = 1 if a["joined"] else a["orders"]
    last = a["levels"][-1]
    end = last["weight"] + last["inputs"] * last["outputs"] + last["outputs"] * (last["bias"] >= 0)
    return end + (runs - 1) * a["weight_step"], sum(x["outputs"] for x in a["levels"] if x["out_col"] >= 0) * (runs if a["out_step"] else 1)


def item(a, induction, feed, out):
    """Adds what one item gives."""
    powers = [np.array([v ** p for v in feed]) for p in range(1, a["orders"] + 1)]
    for order, h in enumerate([np.concatenate(powers)] if a["joined"] else powers):
        for level in a["levels"]:
            n, start = level["outputs"], level["weight"] + order * a["weight_step"]
            z = [sum(h[i] * induction[start + i * n + o] for i in range(level["inputs"])) for o in range(n)]
            if level["bias"] >= 0:
                z = [z[o] + induction[level["bias"] + order * a["weight_step"] + o] for o in range(n)]
            h = ACT[level["act"]["kind"]](np.array(z))
            if level["out_col"] >= 0:
                first = level["out_col"] + order * a["out_step"]
                out[first:first + n] += h


def co_action(a, induction, feeds):
    """feeds: for each row the items that count."""
    result = np.zeros((len(feeds), sizes_of(a)[1]))
    for row, items in enumerate(feeds):
        for feed in items:
            item(a, induction[row], feed[a["feed_col"]:a["feed_col"] + a["feed_dim"]], result[row])
        if a["mean"] and len(items) > 0:
            result[row] /= len(items)
    return result


def record_history(rec, rng, name, rows, a, longest, dtype="f32", row_map=None):
    table = Table(f32(rng, 13, a["feed_col"] + a["feed_dim"] + 3) * np.float32(0.7), dtype)
    bags = random_bags(rng, 3 if row_map is not None else rows, 13, longest)
    induction = f32(rng, rows, sizes_of(a)[0] + 2) * np.float32(0.5)
    of_row = [bags.bags[r if row_map is None else row_map[r]] for r in range(rows)]
    feeds = [[table.values[i] for i in bag if a["mask"] == LENGTH or i != a["pad_id"]] for bag in of_row]
    rec.add("CoAction", f"{name}_r{rows}", rows, [induction, bags], [co_action(a, f64(induction), feeds)], {**a, "max_len": longest},
            tables=[table], row_map=row_map)


def record_co_action(rec, rng):
    released = dict(widths=(16, 8, 4), orders=3, acts=[TANH, IDENTITY])  # 160 numbers, 36 outputs
    for rows in (0, 1, 5, 33):
        record_history(rec, rng, "released", rows, attributes(**released), 7)
    record_history(rec, rng, "released_by_id", 9, attributes(**released, mask=ID, pad_id=4), 12)
    record_history(rec, rng, "released_long", 4, attributes(**released, first_weight=160, feed_col=16), 131)  # several blocks of items
    record_history(rec, rng, "released_mapped", 8, attributes(**released, mapped=True), 5, row_map=[0, 0, 1, 1, 1, 2, 2, 2])
    for dtype in ("f16", "bf16", "i8"):
        record_history(rec, rng, f"released_{dtype}", 3, attributes(**released, feed_col=1), 6, dtype)
    record_history(rec, rng, "mean_of_joined", 7, attributes((6, 5, 3), 3, bias=True, joined=True, mean=True), 5)
    record_history(rec, rng, "independent", 7, attributes((5, 4, 3), 2, [SIGMOID, RELU], True, independent=True), 5)
    record_history(rec, rng, "independent_added", 7, attributes((5, 4), 3, [SIGMOID], independent=True, added=True, mean=True, mask=ID), 5)
    record_history(rec, rng, "last_of_four", 5, attributes((4, 6, 5, 3, 2), 4, [RELU] * 4, last=True), 6)
    record_history(rec, rng, "one_order", 5, attributes((8, 5, 3), 1, [SELU, SELU], True, last=True), 6)
    record_history(rec, rng, "widest", 3, attributes((64, 63, 1), 4), 17)
    record_history(rec, rng, "narrowest", 3, attributes((1, 1), 2), 3)
    record_history(rec, rng, "wide_level", 3, attributes((17, 33, 31), 1, bias=True), 29)
    for rows, a in ((4, attributes((16, 16), 5, added=True)), (0, attributes((3, 2))), (33, attributes((7, 5, 2), 2, bias=True, feed_col=3)),
                    (2, attributes((3, 31), 3, joined=True))):
        x, induction = f32(rng, rows, a["feed_col"] + a["feed_dim"] + 1), f32(rng, rows, sizes_of(a)[0]) * np.float32(0.3)
        rec.add("CoAction", f"single_{a['feed_dim']}_r{rows}", rows, [induction, x], [co_action(a, f64(induction), f64(x)[:, None])], a)


def record_row_types(rec, rng):
    """Histories in i4, i2 and fp8, of which the feed begins with a byte and inside one."""
    released = dict(widths=(16, 8, 4), orders=3, acts=[TANH, IDENTITY])
    for dtype in ("i4", "i2", "fp8"):
        for feed_col in (0, 1, 2, 3, 16):
            record_history(rec, rng, f"released_{dtype}_from{feed_col}", 3, attributes(**released, feed_col=feed_col), 6, dtype)
