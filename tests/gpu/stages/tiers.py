"""The cells of call C, shared by its stages, the prediction and the report: one model of CTR shape, tables that take four times the device memory they
may have, and where their rows lie meanwhile."""

from spec import Shape

ROWS = 2048
SHARES = 4  # allocations that a range is made of
ZIPFS = ("1.05", "0.8", "1.2")  # the goal's first
GOAL = ("1.05", 4)  # exponent, tables over budget
GOAL_SHARE = 0.8
PARTS = (4, 2, 8, 16, 1)  # tables over the budget of the device cache
CALLERS = (16, 1)
LOOKUP_WAYS = ("resident", "cached", "mapped", "chain", "uvm", "peers")
MODEL_WAYS = ("resident", "cached", "mapped", "peers")
BUDGETED = ("cached", "chain", "uvm")


def shape(dry=False):
    """Wide first layers would hide what lookups cost; this is the smallest MLP of the sweeps."""
    return Shape("deepfm", "tiered_dry", 16, (8, 8, 8)) if dry else Shape("deepfm", "tiered", 16, (400, 400, 400))


def row_bytes(dim=16):
    return 4 * dim


def resident_bytes(dry=False):
    """Tables of at most so many bytes stay in device memory: the linear weights, 4 bytes a row, not the vectors."""
    return 300_000 if dry else 4 << 20


def table_bytes(dry=False):
    """Of the vectors. The model's linear weights, a sixteenth of that, are no part of what a budget is compared with."""
    s = shape(dry)
    return sum(s.vocabs) * row_bytes(s.dim)


def budget(part, dry=False):
    return table_bytes(dry) // part


def lookup_cells():
    """(way, tables over budget or 0, exponent, rows of a call), in order of value."""
    cells = [(way, 4 if way in BUDGETED else 0, zipf, ROWS) for zipf in ZIPFS for way in LOOKUP_WAYS]
    cells += [("cached", part, zipf, ROWS) for zipf in ZIPFS for part in PARTS[1:]]
    return cells + [(way, 4 if way in BUDGETED else 0, ZIPFS[0], 64) for way in LOOKUP_WAYS]


def model_cells():
    """(way, tables over budget or 0, exponent, callers), in order of value: the goal's exponent first, then those of a load together."""
    loads = [(way, 4 if way == "cached" else 0) for way in MODEL_WAYS] + [("cached", part) for part in PARTS[1:]]
    return [(way, part, zipf, callers) for zipfs in (ZIPFS[:1], ZIPFS[1:]) for way, part in loads for zipf in zipfs for callers in CALLERS]


def key(record):
    """Of a record of either stage, as predict_tiers.py has it."""
    return (record["level"], record["way"], int(record["part"]), str(record["zipf"]), int(record["batch"]), int(record["callers"]))
