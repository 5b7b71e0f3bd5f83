"""What the plan's fused forms should take on the GPU beside their primitives, before any measurement, and why each is taken there or not.

    predict_forms.py [--write]        prints tests/gpu/forms.csv, or writes it

Shapes are those of the zoo (tests/bench/README.md), histories half full. fp32, one graph, microseconds. Layers (Dense) are predict.py's. Of another kernel:

    NODE + the largest of  traffic / L2                          values read and written once each
                           32 sectors / L1                       what warps ask their caches for, in sectors of 32 bytes
                           2 multiply-adds / SIMT                without tensor cores
                           steps x STEP                          what one warp does one after another, waiting for a load or a barrier in between

A warp whose lanes read neighbours asks for 4 sectors, one number for all its lanes for 1, numbers of 32 rows for 32. A form is taken where this
says so in the geometric mean over 64 and 1024 rows, because a plan is made once for all batches; the reason says what decides."""

import csv
import io
import math
import pathlib
import sys

from predict import L2, MULTIPROCESSORS, NODE, RATE, layer

TABLE = pathlib.Path(__file__).resolve().parents[1] / "forms.csv"
ROWS = (64, 1024)
L1 = MULTIPROCESSORS * 128 * 1750  # bytes a microsecond: 128 a clock of each multiprocessor
SIMT = 55e6  # operations a microsecond
STEP = 0.03  # microseconds: some 50 clocks
HEAD = ("form", "model", "taken", "rows", "form_us", "primitives_us", "ratio", "reason")


def kernel(floats=0, sectors=0, products=0, steps=0):
    return NODE + max(4 * floats / L2, 32 * sectors / L1, 2 * products / SIMT, steps * STEP)


def linear(rows, slices, n_in, out):
    """ops/sums.cu: a thread per output, so a warp's lanes read 32 rows of the weight and one number of x."""
    products = rows * slices * n_in * out
    return kernel(rows * slices * (n_in + out), products / 32 * 33, products)


def product(rows, outputs, depth, floats):
    """ops/sums.cu, MatMul: a's number for all lanes, b's side by side."""
    return kernel(rows * floats, rows * outputs * depth / 32 * 5, rows * outputs * depth)


def each(rows, floats):
    """An op with a thread per element that reads and writes so many floats a row."""
    return kernel(rows * floats)


def attention(rows, heads, queries, keys, dim, counted=1.0):
    """(form, primitives): a warp per query and a lane per key, whose vector is a row of its own, read four numbers at a time; a lane per column of
    the values. The primitives bring heads forward (three views), multiply, soften, multiply and bring them back."""
    asked, width = counted * queries * heads, heads * dim
    scores = math.ceil(keys / 32) * dim / 4 * 33
    values = keys * (1 + math.ceil(dim / 8))
    form = kernel(rows * 4 * keys * width, rows * asked * (scores + values), rows * asked * keys * dim * 2)
    moved = 3 * each(rows, 2 * keys * width) + each(rows, 2 * queries * width)
    soft = each(rows, 2 * heads * queries * keys)
    return form, moved + soft + 2 * product(rows, heads * queries * keys, dim, 2 * keys * width + heads * queries * keys)


def block(rows, places, width, part):
    """The four layers, two LayerNorms and four element-wise ops of a transformer block of which so much of the places counts."""
    layers = sum(linear(rows * part, places, a, b) for a, b in ((width, 3 * width), (width, width), (width, 2 * width), (2 * width, width)))
    return layers + 2 * kernel(rows * 2 * places * width, part * rows * places * width / 32 * 12) + 4 * each(rows, (1 + part) * places * width)


def cin(rows, fields, maps, dim):
    """(form, primitives) of a layer over pairs of fields with themselves: eight maps a thread, each product made once for all of them."""
    pairs = fields * (fields + 1) // 2
    form = kernel(rows * (fields + maps) * dim, rows * pairs * dim / 32 * math.ceil(maps / 8) * 8, rows * pairs * dim * maps)
    outer = each(rows, fields * fields * dim)
    return form, outer + kernel(rows * fields * fields * dim, rows * maps * dim / 32 * fields ** 2 * 5, rows * fields ** 2 * dim * maps) + each(rows, 2 * maps * dim)


def pairs(rows, fields, dim):
    half = fields * (fields - 1) // 2
    return product(rows, half, dim, 2 * fields * dim + half), product(rows, fields ** 2, dim, 2 * fields * dim + fields ** 2) + each(rows, 2 * half)


def mixture(rows, experts, width, tasks):
    return tasks * product(rows, width, experts, (experts + 1) * width), tasks * (each(rows, 2 * experts * width) + each(rows, (experts + 1) * width))


def target(rows, places, dim, out):
    """The first layer over [q, k, q - k, q k]: q's columns are multiplied for each place here too, but the difference is spread over its neighbours."""
    return linear(rows, places, 3 * dim, out) + each(rows, 4 * places * dim), linear(rows, places, 4 * dim, out) + 2 * each(rows, 5 * places * dim)


def recurrent(rows, places, width):
    """A block of two warps per row, step by step, its lanes reading rows of the weights; unrolled, two layers and four element-wise ops a step."""
    a_step = 6 * width * width / 32 * 33
    waves = max(1, rows / MULTIPROCESSORS)
    form = NODE + places / 2 * a_step * 32 / (L1 / MULTIPROCESSORS) * waves
    return form, places * (2 * (NODE + layer(rows, width, 3 * width, RATE["fp32"])) + 4 * each(rows, 6 * width))


def co_action(rows, places, widths, orders):
    """A warp per row and its items one after another; the primitives multiply, bend and pool each level of each order."""
    chain = sum(widths[:-1]) + 4 * len(widths)
    form = kernel(rows * places / 2 * widths[0], steps=places / 2 * chain)
    level = [product(rows, places * b, a, places * (a + b)) + each(rows, 2 * places * b) + product(rows, b, places, places * b) for a, b in zip(widths, widths[1:])]
    return form, each(rows, 2 * places * widths[0]) + (orders - 1) * each(rows, 3 * places * widths[0]) + orders * sum(level) + 2 * each(rows, 2 * sum(widths))


def hoist(rows, user, item, out):
    """One user's columns once; the item's layer adds that row where it ends. Else the user's columns are repeated first."""
    both = layer(rows, item, out, RATE["fp32"]) + layer(1, user, out, RATE["fp32"])
    return 2 * NODE + both, each(rows, 2 * user) + NODE + layer(rows, user + item, out, RATE["fp32"])


def grouped(rows, groups, n_in, out):
    """Layers of one shape as one Linear of so many groups, against Dense on streams of their own, which share the GPU; each joins by an event."""
    return linear(rows, groups, n_in, out), NODE + groups * layer(rows, n_in, out, RATE["fp32"]) + (groups - 1) * 1.5


FORMS = (
    ("attention over fields", "AutoInt, a layer: 39 fields, 2 heads of 16", True, lambda n: attention(n, 2, 39, 39, 16),
     "one launch for seven; scores stay in shared memory. With many rows loads decide: lanes take keys, so each load is 32 rows, of four numbers each"),
    ("attention over places", "BST: 51 places, 2 heads of 48, half of them counted", True, lambda n: attention(n, 2, 51, 51, 48, 0.5),
     "one launch for seven, and no query for padding"),
    ("attention over a history", "HSTU, a layer: 1024 events, 4 heads of 32, causal", True, lambda n: attention(n, 4, 1024, 1024, 32, 0.5),
     "the format's op: half of the pairs, 512 keys at a time; the primitives move four million scores a row four times"),
    ("places that count", "BST: layers, LayerNorm, element-wise ops, half of the places", True, lambda n: (block(n, 51, 96, 0.5), block(n, 51, 96, 1)),
     "a warp whose places do not count writes zeros and ends: half of the layers' loads, which decide"),
    ("compressed interactions", "xDeepFM, first layer: 39 fields, 16 maps, dim 16", True, lambda n: cin(n, 39, 16, 16),
     "the outer product of 97 KB a row is never written, half of the products, weights in shared memory"),
    ("products of pairs", "DLRM: 27 vectors of 16", True, lambda n: pairs(n, 27, 16), "one launch for two, half of the products"),
    ("gates over experts", "MMoE: 4 experts of 128, 2 tasks", True, lambda n: mixture(n, 4, 128, 2), "one launch for two a task; nothing between them is written"),
    ("target attention's first layer", "DIN: 50 places of 96, 80 outputs", True, lambda n: target(n, 50, 96, 80),
     "three quarters of the weight's columns and one launch less; the target's part is not made once a row here, as on cpu"),
    ("recurrent cells", "DIEN: 50 places, 96 wide", True, lambda n: recurrent(n, 50, 96),
     "one launch for 300, and steps end with the history. With many rows the unrolled layers win: a block's lanes read rows of the weights, 33 sectors a "
     "product. Taken all the same: the format has the cell whole"),
    ("co-action", "CAN, a pair: 16-8-4, 3 orders, 50 places", True, lambda n: co_action(n, 50, (16, 8, 4), 3),
     "one launch for some twenty; a row's time is its items' chain, whatever the batch"),
    ("one user once", "DCNv2, a cross layer: 480 columns of the user, 144 of the item", True, lambda n: hoist(n, 480, 144, 624),
     "a quarter of the products and no copies of the user's columns; with few rows the second launch costs what they save"),
    ("experts' later layers grouped", "MMoE: 4 x 256 to 128", False, lambda n: grouped(n, 4, 256, 128),
     "Linear has no tensor cores and reads 33 sectors a product; four Dense on streams of their own have both"),
)


def lines():
    for form, model, taken, of, reason in FORMS:
        for rows in ROWS:
            mine, primitives = of(rows)
            yield form, model, "yes" if taken else "no", rows, f"{mine:.1f}", f"{primitives:.1f}", f"{primitives / mine:.2f}", reason


def text():
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEAD)
    writer.writerows(lines())
    return out.getvalue()


def read(path=TABLE):
    """The committed lines, as dicts."""
    return list(csv.DictReader(path.read_text().splitlines()))


if __name__ == "__main__":
    if "--write" in sys.argv[1:]:
        TABLE.write_text(text())
    else:
        print(text(), end="")
