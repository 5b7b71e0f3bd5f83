"""What each cell of the paper's grid should take, before any measurement: the formula, and the committed table that a visit is held against.

    predict.py [--write | --ways]        prints tests/gpu/predictions.csv, writes it, or prints README.md's table of ways to bring the ids

Rates and latencies are those of the project's GPU guide for one H200 (measured there: stream rate and 16-bit GEMM rate; the others are data sheets' or
assumed). Microseconds. A call of `batch` rows with `fields` one-hot fields, `width` = fields x dim:

    host   = PACK fields batch + SUBMIT + copy(4 fields batch) + device + copy(4 batch)
    copy(n) = COPY_NODE + n / BUS
    device = the sum over the longest chain of kernels of NODE + work
    work of the lookup   = (4 fields + fields row(dim) + width out) batch / L2
    work of a layer m, k, n = the least over tiles a x b of ceil(m/a) ceil(n/b) / 132, rounded up, x 2 a b k / (RATE share(a, b) / 132)
    work of the tail     = width batch element / L2
    work of a cross layer: that of a layer, and in fp32 and tf32, whose ends the library does not have, a kernel for the end: NODE + 16 width batch / L2, in fp32
                           also one that splits x: NODE + 16 width batch / L2
    fp32 deeper than SPLIT_IN: in our kernel, which has the end, at OWN (that other layers so deep run there too is not counted)

What the ways of bringing the ids to the device win of a call, host to host (`wins`; README.md says what follows from them):

    pieces p     (p - 1) / p of the bytes' time on the bus, while the next piece is packed; each piece after the first one costs COPY_CALL
    16 bits      the bus is spared 2 bytes for each id of a table below 65,536 rows; packing takes PACK_16 more an id; a kernel of its own that
                 widens them on the device takes NODE, lookups that read 16 bits take none
    fetched      a kernel of the graph reads them across the bus in place (NODE + BUS_LATENCY for COPY_NODE), and scores are written across it
                 (no copy back)
    two chunks   the first half of the rows is on its way while the second is packed (option max_rows=1024): one more packing, launch and copy
                 call, and the device computes both halves one after the other

Chains: lookup, three layers, tail; DCNv2 runs its cross layers beside the three layers, and the GPU shares its rate between them, so their work adds up, and
only the longer branch's kernels count as nodes. Stock eager: its launches one after another, a copy and a cast per field, or its GEMMs if they take
longer."""

import math
import pathlib
import sys

from spec import CROSS_LAYERS, paper_grid

TABLE = pathlib.Path(__file__).resolve().parents[1] / "predictions.csv"
PRECISIONS = ("fp32", "tf32", "fp16")
BATCH = 2048
MULTIPROCESSORS = 132
L2 = 5.5e6  # bytes a microsecond
BUS = 53e3  # of pinned memory
RATE = {"fp32": 130e6, "tf32": 395e6, "fp16": 788e6}  # operations a microsecond; fp32: three tf32 products count as one
SHARE = {(64, 64): 0.50, (128, 64): 0.65, (128, 128): 0.75}  # of the rate that tiles of so many rows and columns reach on full waves
OWN = 60e6  # of our kernel of three tf32 products, on full waves of 128 x 128: put at three fifths of mma.sync's rate, by the instructions of its loop
SPLIT_IN = 768  # kMostSplitIn
NODE = 2.8  # of a graph: 1.3 from one kernel to the next, 1.5 to fill and drain the GPU
SUBMIT = 7.0  # from the launch of a graph to its first kernel, and from its last to the caller
COPY_NODE = 4.0
PACK = 0.5e-3  # host, per id: checked and narrowed. tests/bench/pack_bench; the processor beside the GPU is not known
PACK_16 = 0.06e-3  # host, per id in 16 bits: 4 to 7 us more for 79,872 ids where 32 bits take 24 (one core of an EPYC with AVX2)
COPY_CALL = 1.5  # host, of one more asynchronous copy; assumed
LAUNCH_CALL = 2.5  # host, of one more graph; assumed
BUS_LATENCY = 1.2  # of a kernel's read of host memory; assumed
NARROW_ROWS = 1 << 16
EAGER_LAUNCH = 6.5
EAGER_FIELD = 15.0  # of the stock code: one column gathered, copied from pageable memory and waited for, cast
EAGER_FP32 = 55e6 * 0.6  # operations a microsecond: without tensor cores
# Launches of FuxiCTR's code with 39 fields, without copies; a field has one lookup, Wide&Deep and DeepFM two.
EAGER_LAUNCHES = {"widedeep": (91, 2), "deepfm": (99, 2), "dcn": (49 + 4 * CROSS_LAYERS, 1), "dcnv2": (49 + 3 * CROSS_LAYERS, 1)}


def layer(rows, depth, columns, rate):
    def of(a, b, share):
        waves = math.ceil(math.ceil(rows / a) * math.ceil(columns / b) / MULTIPROCESSORS)
        return waves * 2 * a * b * depth / (rate * share / MULTIPROCESSORS)
    return min(of(*tile, share) for tile, share in SHARE.items())


def cross_layer(rows, width, precision):
    """(work, kernels)"""
    own = precision == "fp32" and width > SPLIT_IN
    kernels = 1 if own else {"fp32": 3, "tf32": 2, "fp16": 1}[precision]
    return layer(rows, width, width, OWN / SHARE[128, 128] if own else RATE[precision]) + (kernels - 1) * 16 * width * rows / L2, kernels


def device_us(shape, precision, rows=BATCH):
    element = 2 if precision == "fp16" else 4
    row = max(64, shape.dim * element)
    widths = [shape.width, *shape.hidden]
    work = [(4 * shape.fields + shape.fields * row + shape.width * element) * rows / L2]
    work += [layer(rows, a, b, RATE[precision]) for a, b in zip(widths, widths[1:])]
    layers = CROSS_LAYERS if shape.kind == "dcnv2" else 0
    cross, kernels = cross_layer(rows, shape.width, precision)
    tail = (shape.hidden[-1] + (shape.width if layers else 0)) * element * rows / L2
    nodes = 2 + max(len(shape.hidden), layers * kernels) + (layers > 0)  # DCNv2 also joins two streams
    return nodes * NODE + sum(work) + layers * cross + tail


def copy_us(nbytes):
    return COPY_NODE + nbytes / BUS


def host_us(shape, precision, rows=BATCH):
    return PACK * shape.fields * rows + SUBMIT + copy_us(4 * shape.fields * rows) + device_us(shape, precision, rows) + copy_us(4 * rows)


def narrow_ids(shape):
    """Ids of a row that fit into 16 bits."""
    return sum(v < NARROW_ROWS for v in shape.vocabs)


def two_chunks_us(shape, precision, rows=BATCH):
    half = rows // 2
    pack, device = PACK * shape.fields * half, device_us(shape, precision, half)
    one = SUBMIT + copy_us(4 * shape.fields * half) + device
    calls = COPY_CALL + LAUNCH_CALL  # on the host, before it packs the second half
    return pack + max(pack + calls + one, one + device + NODE) + copy_us(4 * half)


def wins(shape, precision, rows=BATCH):
    """{way: microseconds that it wins of host_us; below 0: it loses}"""
    nbytes = 4 * shape.fields * rows
    spared = 2 * narrow_ids(shape) * rows / BUS - PACK_16 * shape.fields * rows
    fetched = COPY_NODE - NODE - BUS_LATENCY + copy_us(4 * rows)
    found = {f"{p} pieces": (p - 1) / p * nbytes / BUS - (p - 1) * COPY_CALL for p in (2, 3, 4)}
    found |= {"16 bits": spared, "16 bits, widened": spared - NODE, "fetched": fetched, "fetched, 16 bits": fetched + spared}
    return found | {"two chunks": host_us(shape, precision, rows) - two_chunks_us(shape, precision, rows)}


def eager_us(shape, rows=BATCH):
    """Host to host, fp32."""
    launches, per_field = EAGER_LAUNCHES[shape.kind]
    launches -= per_field * (39 - shape.fields)
    return shape.fields * EAGER_FIELD + max(launches * EAGER_LAUNCH, rows * shape.flops_per_row() / EAGER_FP32)


def cells():
    """{(dataset, model, dim, hidden, precision): {column of the table: microseconds}}"""
    found = {}
    for s in paper_grid():
        for p in PRECISIONS:
            device, host, eager = device_us(s, p), host_us(s, p), eager_us(s)
            found[s.dataset, s.kind, s.dim, s.hidden[0], p] = {"device_us": device, "host_us": host, "host_fetched_us": host - wins(s, p)["fetched"],
                                                               "stock_eager_fp32_us": eager, "ratio": eager / host}
    return found


def text():
    lines = ["dataset,model,dim,hidden,precision," + ",".join(next(iter(cells().values())))]
    for key, c in cells().items():
        lines.append(",".join(map(str, key)) + "," + ",".join(f"{us:.{2 if name == 'ratio' else 0 if name.startswith('stock') else 1}f}" for name, us in c.items()))
    return "".join(f"{line}\n" for line in lines)


def read(path=TABLE):
    """The committed table, as cells() gives it, with its digits."""
    head, *lines = (line.split(",") for line in path.read_text().splitlines())
    return {(line[0], line[1], int(line[2]), int(line[3]), line[4]): dict(zip(head[5:], map(float, line[5:]))) for line in lines}


def ways_table():
    """README.md's lines of what each way wins: of the smallest and the largest cell where cells differ."""
    lines = []
    for dataset in ("criteo", "avazu"):
        of = [wins(s, p) for s in paper_grid() if s.dataset == dataset for p in PRECISIONS]
        for way in of[0]:
            least, most = (f"{pick(w[way] for w in of):+.1f}".replace("+0.0", "0").replace("-0.0", "0") for pick in (min, max))
            lines.append((dataset, way, least if least == most else f"{least} to {most}"))
    ways = dict.fromkeys(way for _, way, _ in lines)
    value = {(d, w): v for d, w, v in lines}
    return [f"| {way} | {value['criteo', way]} | {value['avazu', way]} |" for way in ways]


if __name__ == "__main__":
    if "--write" in sys.argv[1:]:
        TABLE.write_text(text())
    elif "--ways" in sys.argv[1:]:
        print("\n".join(ways_table()))
    else:
        print(text(), end="")
