"""What each cell of call C should take, before any measurement: the formula, and the committed table that a visit is held against.

    predict_tiers.py [--write]        prints tests/gpu/tiers.csv, or writes it

Microseconds; rates beside predict.py's are below, with where they are from. Of `lookups` = rows x tables each missing row costs the bus row + PACKET bytes:

    held    = budget / bytes of a line, the hottest rows of all tables alike (an ideal cache); hit rate = the law's share of them
    bus(m)  = LATENCY + m (row + PACKET) / HOST, or 0 without misses
    lookup  = SUBMIT + copy(4 lookups) + NODE + lookups (4 + 2 row [+ TAGS in a cache]) / L2 + bus(missing lookups)
    mapped  : all are missing. peers on one GPU: as resident
    uvm     : instead of bus, missing lookups x PAGE / PAGES
    chain   = the sum over tables of 3 WAIT + 4 NODE + copy(4 rows), and where unique keys are missing 2 WAIT + NODE + GATHER each + their copy
    model   = PACK, RESOLVE per key where rows have places, + SUBMIT + copies + device; device as predict.py has it, + lookup - resident lookup
    rows a second of n callers = rows / max(model / n, device)

The chain's hit rate is that of unique keys, as its own counters have it."""

import pathlib
import sys

import numpy as np

import predict
import tiers

TABLE = pathlib.Path(__file__).resolve().parents[1] / "tiers.csv"
HEAD = "level,way,part,zipf,batch,callers,hit_rate,us,rows_per_s,of_resident"
HOST = 55.6e3  # bytes a microsecond over PCIe 5 (tests/bench/peers_model/rates.csv: host)
PACKET = 24  # around each row (host_packet)
LATENCY = 1.2  # remote, of PCIe
TAGS = 64
TAG = 4  # of a line
CHAIN_TAG = 8
PAGE = 65536  # that a fault moves; assumed
PAGES = 12e3  # bytes a microsecond while faults are served one group after another; assumed
WAIT = 8.0  # a few bytes to the host and the host awake again; assumed, half a SUBMIT and a COPY_NODE
GATHER = 0.1  # a row of host memory by one thread (embedding store's guide; assumed)
RESOLVE = 11e-3  # a key's place in the host tier: tests/bench/README.md, 10 M rows, Zipf, 10 to 12 ns


def below(ranks, zipf, vocab):
    """The law's share of the first `ranks` ids: data.ids_of drawn backwards."""
    rest = 1 - float(zipf)
    return (1 - (ranks + 1.0) ** rest) / (1 - (vocab + 1.0) ** rest)


def hit_rate(way, part, zipf, line):
    shape = tiers.shape()
    vocab = shape.vocabs[0]
    if way == "mapped":
        return 0.0
    if way in ("resident", "peers"):
        return 1.0
    return float(below(held(part, line), zipf, vocab))


def held(part, line):
    """Rows of each table."""
    shape = tiers.shape()
    return min(shape.vocabs[0], tiers.budget(part) // line // len(shape.vocabs))


def bus(missing):
    return LATENCY + missing * (tiers.row_bytes() + PACKET) / HOST if missing > 0 else 0.0


def unique_keys(part, zipf, rows):
    """(unique keys of one table's lookups, those of them that its cache lacks)"""
    vocab = tiers.shape().vocabs[0]
    share = np.diff(below(np.arange(vocab + 1), zipf, vocab))
    asked = 1 - (1 - share) ** rows
    return float(asked.sum()), float(asked[held(part, tiers.row_bytes() + CHAIN_TAG):].sum())


def chain(part, zipf, rows):
    """(us, hit rate)"""
    unique, missing = unique_keys(part, zipf, rows)
    us = 3 * WAIT + 4 * predict.NODE + predict.copy_us(4 * rows)
    if missing > 0:
        us += 2 * WAIT + predict.NODE + missing * GATHER + predict.copy_us(missing * tiers.row_bytes())
    return len(tiers.shape().vocabs) * us, 1 - missing / unique


def gathered(way, part, hits, rows):
    """Device time of the lookup alone."""
    n, row = rows * len(tiers.shape().vocabs), tiers.row_bytes()
    us = predict.NODE + n * (4 + 2 * row + (TAGS if way == "cached" else 0)) / predict.L2
    missing = n * (1 - hits)
    return us + (missing * PAGE / PAGES if way == "uvm" else bus(missing))


def lookup(way, part, zipf, rows):
    """(hit rate, us, rows a second)"""
    if way == "chain":
        us, hits = chain(part, zipf, rows)
    else:
        hits = hit_rate(way, part, zipf, tiers.row_bytes() + (TAG if way == "cached" else 0))
        us = predict.SUBMIT + predict.copy_us(4 * rows * len(tiers.shape().vocabs)) + gathered(way, part, hits, rows)
    return hits, us, rows / us * 1e6


def model(way, part, zipf, rows, callers):
    shape = tiers.shape()
    hits = hit_rate(way, part, zipf, tiers.row_bytes() + TAG)
    device = predict.device_us(shape, "tf32", rows) + gathered(way, part, hits, rows) - gathered("resident", 0, 1.0, rows)
    call = predict.host_us(shape, "tf32", rows) - predict.device_us(shape, "tf32", rows) + device
    if way in ("cached", "mapped"):
        call += RESOLVE * rows * len(shape.vocabs)
    each = max(call / callers, device)
    return hits, call if callers == 1 else each * callers, rows / each * 1e6


def cells():
    """{(level, way, part, zipf, batch, callers): (hit rate, us, rows a second)}"""
    found = {("lookup", way, part, zipf, rows, 1): lookup(way, part, zipf, rows) for way, part, zipf, rows in tiers.lookup_cells()}
    for way, part, zipf, callers in tiers.model_cells():
        found["model", way, part, zipf, tiers.ROWS, callers] = model(way, part, zipf, tiers.ROWS, callers)
    return found


def text():
    made, lines = cells(), [HEAD]
    for cell, (hits, us, rate) in made.items():
        level, _, _, *rest = cell
        lines.append(",".join(map(str, cell)) + f",{hits:.4f},{us:.1f},{rate:.4g},{rate / made[(level, 'resident', 0, *rest)][2]:.3f}")
    return "".join(f"{line}\n" for line in lines)


def read(path=TABLE):
    """The committed table: {cell as in cells(): (hit rate, us, rows a second)}"""
    found = {}
    for line in path.read_text().splitlines()[1:]:
        level, way, part, zipf, batch, callers, hits, us, rate, _ = line.split(",")
        found[level, way, int(part), zipf, int(batch), int(callers)] = (float(hits), float(us), float(rate))
    return found


if __name__ == "__main__":
    if "--write" in sys.argv[1:]:
        TABLE.write_text(text())
    else:
        print(text(), end="")
