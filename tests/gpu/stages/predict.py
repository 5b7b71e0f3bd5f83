"""What each cell of the paper's grid should take, before any measurement: the formula, and the committed table that a visit is held against.

    predict.py [--write]        prints tests/gpu/predictions.csv, or writes it

Rates and latencies are those of the project's GPU guide for one H200 (measured there: stream rate and 16-bit GEMM rate; the others are data sheets' or
assumed). Microseconds. A call of `batch` rows with `fields` one-hot fields, `width` = fields x dim:

    host   = PACK fields batch + SUBMIT + copy(4 fields batch) + device + copy(4 batch)
    copy(n) = COPY_NODE + n / BUS
    device = the sum over the longest chain of kernels of NODE + work
    work of the lookup   = (4 fields + fields row(dim) + width out) batch / L2
    work of a layer m, k, n = the least over tiles a x b of ceil(m/a) ceil(n/b) / 132, rounded up, x 2 a b k / (RATE share(a, b) / 132)
    work of the tail     = width batch element / L2

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
NODE = 2.8  # of a graph: 1.3 from one kernel to the next, 1.5 to fill and drain the GPU
SUBMIT = 7.0  # from the launch of a graph to its first kernel, and from its last to the caller
COPY_NODE = 4.0
PACK = 0.5e-3  # host, per id: checked and narrowed. Measured on one core of an EPYC with AVX-512, at 512 rows
EAGER_LAUNCH = 6.5
EAGER_FIELD = 15.0  # of the stock code: one column gathered, copied from pageable memory and waited for, cast
EAGER_FP32 = 55e6 * 0.6  # operations a microsecond: without tensor cores
# Launches of FuxiCTR's code with 39 fields, without copies; a field has one lookup, Wide&Deep and DeepFM two.
EAGER_LAUNCHES = {"widedeep": (91, 2), "deepfm": (99, 2), "dcn": (49 + 4 * CROSS_LAYERS, 1), "dcnv2": (49 + 3 * CROSS_LAYERS, 1)}


def layer(rows, depth, columns, precision):
    def of(a, b, share):
        waves = math.ceil(math.ceil(rows / a) * math.ceil(columns / b) / MULTIPROCESSORS)
        return waves * 2 * a * b * depth / (RATE[precision] * share / MULTIPROCESSORS)
    return min(of(*tile, share) for tile, share in SHARE.items())


def device_us(shape, precision, rows=BATCH):
    element = 2 if precision == "fp16" else 4
    row = max(64, shape.dim * element)
    widths = [shape.width, *shape.hidden]
    work = [(4 * shape.fields + shape.fields * row + shape.width * element) * rows / L2]
    work += [layer(rows, a, b, precision) for a, b in zip(widths, widths[1:])]
    cross = [layer(rows, shape.width, shape.width, precision) for _ in range(CROSS_LAYERS if shape.kind == "dcnv2" else 0)]
    tail = (shape.hidden[-1] + (shape.width if cross else 0)) * element * rows / L2
    nodes = 2 + max(len(shape.hidden), len(cross)) + (len(cross) > 0)  # DCNv2 also joins two streams
    return nodes * NODE + sum(work) + sum(cross) + tail


def copy_us(nbytes):
    return COPY_NODE + nbytes / BUS


def host_us(shape, precision, rows=BATCH):
    return PACK * shape.fields * rows + SUBMIT + copy_us(4 * shape.fields * rows) + device_us(shape, precision, rows) + copy_us(4 * rows)


def eager_us(shape, rows=BATCH):
    """Host to host, fp32."""
    launches, per_field = EAGER_LAUNCHES[shape.kind]
    launches -= per_field * (39 - shape.fields)
    return shape.fields * EAGER_FIELD + max(launches * EAGER_LAUNCH, rows * shape.flops_per_row() / EAGER_FP32)


def cells():
    """{(dataset, model, dim, hidden, precision): {"device_us", "host_us", "eager_us"}}"""
    return {(s.dataset, s.kind, s.dim, s.hidden[0], p): {"device_us": device_us(s, p), "host_us": host_us(s, p), "eager_us": eager_us(s)}
            for s in paper_grid() for p in PRECISIONS}


def text():
    lines = ["dataset,model,dim,hidden,precision,device_us,host_us,stock_eager_fp32_us,ratio"]
    for key, c in cells().items():
        lines.append(",".join(map(str, key)) + f",{c['device_us']:.1f},{c['host_us']:.1f},{c['eager_us']:.0f},{c['eager_us'] / c['host_us']:.2f}")
    return "".join(f"{line}\n" for line in lines)


def read(path=TABLE):
    """The committed table: {(dataset, model, dim, hidden, precision): (device us, host us, stock eager us)}"""
    found = {}
    for line in path.read_text().splitlines()[1:]:
        dataset, model, dim, hidden, precision, device, host, eager, _ = line.split(",")
        found[dataset, model, int(dim), int(hidden), precision] = (float(device), float(host), float(eager))
    return found


if __name__ == "__main__":
    if "--write" in sys.argv[1:]:
        TABLE.write_text(text())
    else:
        print(text(), end="")
