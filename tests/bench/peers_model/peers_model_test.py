"""The model of compare.py against what is known without it: closed forms, laws of queues and of order statistics, sums counted one by one,
others' measurements. Each check is then run on models with a fault planted, which it must find."""

import json
import math
import pathlib
import subprocess
import sys

import numpy as np
import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import compare  # noqa: E402
import exchange  # noqa: E402
import links  # noqa: E402
import order  # noqa: E402
import rates  # noqa: E402
import serve  # noqa: E402
import traffic  # noqa: E402

INFINITE = {"link": math.inf, "remote": 0.0, "packet": 0.0, "request": 0.0}
CALM = {"jitter": 0.0, "stall_share": 0.0}


def load(**changes):
    return traffic.Load(**{**CALM, "tables_gb": 300.0, "rows": 1024, **changes})


def h100(**changes):
    return rates.platform("h100", **changes)


def close(value, expected, part):
    assert abs(value - expected) <= part * abs(expected), f"{value} instead of {expected}"


# ---- traffic ----

def check_zipf_mass():
    """Against sums of every rank, and for s = 2 against zeta(2) = pi^2 / 6."""
    ranks = np.arange(1, 3_000_001, dtype=np.float64)
    for s in (0.8, 1.0, 1.05, 1.2):
        close(traffic.harmonic(3_000_000, s), float(np.sum(ranks ** -s)), 1e-9)
    close(traffic.harmonic(10 ** 12, 2.0), math.pi ** 2 / 6, 1e-9)


def check_placement():
    """Nothing more fits: with one more hot row the memory of a GPU would not do."""
    for field_rows, room, gpus in ((1000, 400, 4), (1000, 250, 4), (977, 500, 2), (10 ** 9, 3 * 10 ** 8, 72)):
        hot = traffic.hot_rows(field_rows, room, gpus)
        assert 0 <= hot < field_rows
        assert hot + (field_rows - hot) / gpus <= room < hot + 1 + (field_rows - hot - 1) / gpus
    assert traffic.hot_rows(1000, 249, 4) is None
    assert traffic.hot_rows(1000, 1000, 4) == 1000


def check_shares():
    """Owners and hot rows together are all lookups, and the hot part is what Zipf's law gives the first ranks."""
    small = load(fields=2, tables_gb=0.002, zipf=1.1)
    shares = traffic.Shares(small, 4, 100, np.random.default_rng(5))
    weights = np.arange(1, small.field_rows + 1, dtype=np.float64) ** -1.1
    close(shares.hot, weights[:100].sum() / weights.sum(), 1e-9)
    close(shares.hot + shares.owners.sum(), 1.0, 1e-9)


# ---- links ----

def check_fair_shares():
    """No resource is used more than all of the time, and who is slowed crosses one that is: what makes an allocation max-min fair."""
    rng = np.random.default_rng(7)
    for _ in range(50):
        demands = rng.random((rng.integers(1, 9), 12))
        demands[:, 1:] *= rng.random((len(demands), 11)) < 0.3
        demands[:, 0] *= 0.1
        pace = links.paces(demands)
        use = demands / links.alone(demands)[:, None]
        busy = pace @ use
        assert (busy <= 1 + 1e-6).all() and (pace > 0).all() and (pace <= 1 + 1e-9).all()
        for call in np.flatnonzero(pace < 1 - 1e-6):
            full = (busy > 1 - 1e-6) & (use[call] > 0)
            assert any(pace[call] >= pace[use[:, k] > 0].max() - 1e-6 for k in np.flatnonzero(full)), "could be faster at nobody's cost"


def check_two_readers_one_owner():
    """Two lookups that only read GPU 2 get half of its outgoing link each."""
    r = links.Resources(h100(packet=0, request=0), 3, 64)
    rows = 1_000_000
    one = np.array([r.demand(0, np.array([0, 0, 0, rows])), r.demand(1, np.array([0, 0, 0, rows]))])
    close(links.alone(one)[0], rows * 64 / 450e3, 1e-9)
    assert np.allclose(links.paces(one), 0.5)


# ---- calls that are each whole on one GPU ----

def check_one_gpu_is_copies():
    """Peers of one GPU are copies, call by call, whether rows count as everyone's or as its own."""
    same = load(tables_gb=100.0, jitter=0.1, rows_cv=0.3)
    copies, peers, own = (compare.Cell(way, h100(), same, 1) for way in ("copies", "peers", "peers"))
    own.shares = traffic.Shares(same, 1, 0, np.random.default_rng(1))
    ends = [cell.served(300, 0.02)[1] for cell in (copies, peers, own)]
    assert np.array_equal(ends[0], ends[1]) and np.allclose(ends[0], ends[2], rtol=1e-9)


def check_no_skew_and_no_link():
    """Rows all alike and links without end: peers bear what copies would. Their memories are shared by chance, so up to 2 % less. With the
    link as it is they bear less than 0.9 of it."""
    even = load(zipf=0.0, tables_gb=900.0, rows=4096)
    bear = compare.copies_bear(h100(), even, 8)
    free = compare.Cell("peers", h100(**INFINITE), even, 8).capacity(400)
    assert 0.98 * bear <= free <= 1.001 * bear, free / bear
    assert compare.Cell("peers", h100(), even, 8).capacity(400) < 0.9 * bear


def lindley(arrivals, services):
    ended = 0.0
    for arrival, service in zip(arrivals, services):
        ended = max(arrival, ended) + service
        yield ended


def check_lindley():
    """One GPU is the queue of Lindley's recursion, call by call."""
    cell = compare.Cell("copies", h100(), load(tables_gb=100.0, jitter=0.3, rows_cv=0.5), 1)
    calls, rows = cell.calls(400, 0.03)
    read = rows * 26 * 64 / h100().gather(64)
    _, ended = cell.served(400, 0.03)
    assert np.allclose(ended, list(lindley(calls.arrivals, read + calls.after)), rtol=1e-9)


def check_queue_law():
    """M/D/1: the mean wait is rho S / (2 (1 - rho)). Ten runs; the law lies within four standard errors of their mean, which is 8 %."""
    service = 1024 * 26 * 64 / h100().gather(64) + 14 + 0.002 * 1024
    waits = []
    for seed in range(10):
        cell = compare.Cell("copies", h100(), load(tables_gb=100.0), 1, seed)
        calls, ended = cell.served(1000, 0.6 / service)
        waits.append(np.mean(ended - calls.arrivals - service))
    error = np.std(waits, ddof=1) / math.sqrt(len(waits))
    law = 0.6 * service / (2 * (1 - 0.6))
    assert abs(np.mean(waits) - law) < 4 * error and error < 0.08 * law, (np.mean(waits), law, error)


def check_free_gpu_takes():
    """A call that comes while a GPU has none begins at once, and on a GPU without one."""
    cell = compare.Cell("copies", h100(), load(tables_gb=100.0, jitter=0.5), 4)
    calls, _ = cell.calls(400, 0.12)
    out = serve.Cluster(cell.resources, calls).run()
    free = 0
    for i, arrival in enumerate(calls.arrivals):
        there = [j for j in range(i) if out.ended[j] > arrival]
        if len({out.gpu[j] for j in there}) < 4:
            free += 1
            assert out.started[i] == arrival and out.gpu[i] not in {out.gpu[j] for j in there}
    assert 50 < free < 390


def check_bytes_on_links():
    """What the links carried, added up while the simulation ran, is what was looked up: row by row, each way; and no link was in use
    longer than the clock ran."""
    cell = compare.Cell("peers", h100(), load(zipf=0.8, tables_gb=400.0), 4)
    calls, _ = cell.calls(300, 0)
    out = serve.Cluster(cell.resources, calls, central=True).run()
    towards = np.zeros((4, 4))   # rows that i read of j
    for call, gpu in enumerate(out.gpu):
        towards[gpu] += calls.counts[call][1:]
    towards -= np.diag(np.diag(towards))
    busy = {kind: out.busy[k * 4:][:4] * 450e3 for k, kind in enumerate(links.KINDS)}
    assert np.allclose(busy["in"], towards.sum(axis=1) * 96 + towards.sum(axis=0) * 32, rtol=1e-6)
    assert np.allclose(busy["out"], towards.sum(axis=0) * 96 + towards.sum(axis=1) * 32, rtol=1e-6)
    close(busy["in"].sum(), busy["out"].sum(), 1e-9)
    assert out.busy.max() <= out.ended.max()
    close(towards.sum() / calls.counts.sum(), cell.remote_share(), 0.01)


def check_link_bound():
    """Without a dense part a call takes as long as its remote rows on the link in, if nobody else reads."""
    bare = h100(fixed=0.0, dense=0.0, remote=0.0)
    cell = compare.Cell("peers", bare, load(zipf=0.0, tables_gb=950.0), 8)
    calls, ended = cell.served(40, 1e-4)
    counts = calls.counts[:, 1:]
    owner_mean = counts.sum(axis=1) * 7 / 8 * 96 / 450e3
    assert np.allclose(ended - calls.arrivals, owner_mean, rtol=0.03)


def check_host():
    """Of what no GPU holds, all comes over the host's link, at its rate."""
    bare = h100(fixed=0.0, dense=0.0)
    cell = compare.Cell("host", bare, load(zipf=0.0, tables_gb=480.0), 2)
    calls, ended = cell.served(40, 1e-5)
    expected = 1024 * 26 * (1 - 120 / 480) * 64 / (55.6e3 * 64 / 88)
    assert np.allclose(ended - calls.arrivals, expected, rtol=0.03)


# ---- all-to-all ----

def step_parts(gpus, count, **changes):
    even = load(tables_gb=gpus * 100.0, **changes)
    cell = compare.Cell("exchange", h100(largest=gpus), even, gpus)
    calls, rows = cell.calls(count, 0)
    return cell, exchange.Step(cell.platform, even, gpus, 2.3), calls, rows


def check_exchange_bound():
    """No exchange is faster than its busiest link, nor than all remote bytes spread over all links."""
    for zipf in (0.0, 1.2):
        _, step, calls, rows = step_parts(8, 8, zipf=zipf, fields=1)
        took = step.exchange(calls.counts, rows)
        wanted = calls.counts[:, 1:] * (1 - np.eye(8))
        even = wanted.sum() / 8 * 64 / 335e3
        hottest = wanted.sum(axis=0).max() * 64 / 335e3
        assert took > 4.6 + max(even, hottest)
        assert zipf == 0.0 or hottest > 1.5 * even
        assert took < 4.6 + 1.2 * hottest + calls.counts.sum() * 64 / step.gather
    assert step.busiest(np.array([[90.0, 1, 2], [3, 90, 4], [5, 6, 90]])) == 11


def check_slowest_decides():
    """Full steps end when the slowest GPU does: on the average the mean of the largest of n, by its integral; calls that are each on one
    GPU lose nothing to the others' jitter."""
    shaky = {"jitter": 0.5, "zipf": 0.0, "tables_gb": 100.0}
    bare = h100(fixed=1000.0, dense=0.0)
    sigma = math.sqrt(math.log1p(0.5 ** 2))
    x = np.linspace(0, 40, 40_001)[1:]
    below = np.array([0.5 * math.erfc(-(math.log(v) + sigma ** 2 / 2) / (sigma * math.sqrt(2))) for v in x])
    largest = float(np.sum(1 - below ** 8) * (x[1] - x[0]))
    assert 1.7 < largest < 2.1
    times = {way: 8 * 1024 / compare.Cell(way, bare, load(**shaky), 8).capacity(4000) * 1e6 for way in ("exchange", "copies")}
    close(times["exchange"] / 1000, largest, 0.03)
    close(times["copies"] / 1000, 1.0, 0.03)


def check_one_slow_gpu():
    """One of eight that takes twice as long halves what an all-to-all bears, and costs calls of their own a sixteenth."""
    bare = h100(fixed=1000.0, dense=0.0)
    for way, left in (("exchange", 0.5), ("copies", 15 / 16)):
        calm, slow = (compare.Cell(way, bare, load(tables_gb=100.0, slow=s), 8).capacity(800) for s in (1.0, 2.0))
        close(slow / calm, left, 0.03)


def check_one_gpu_exchanges_nothing():
    _, step, calls, rows = step_parts(1, 1)
    close(step.exchange(calls.counts, rows), 1024 * 26 * 64 / h100().gather(64), 1e-9)


def check_bags():
    """Of a bag each owner sends one sum: as many as it has rows when bags are short, one per bag when they are long."""
    for bag, expected in ((1, 1.0), (1000, 0.001)):
        _, step, calls, rows = step_parts(4, 4, bag=bag, rows=64, zipf=0.0)
        wanted = calls.counts[:, 1:]
        close(step.answers(wanted, rows).sum() / wanted.sum(), expected * (4 if bag > 1 else 1), 0.01)


def check_measured_exchange():
    """TensorRT-LLM's blog 18, dispatch on GB200 by GPUs and batch; the model knows batch 1 and 2048 of it only."""
    p = rates.platform("gb200")
    assert (p.exchange_rate(2), p.exchange_rate(16), p.exchange_rate(72)) == (700e3, 679e3, 618e3) and 618e3 < p.exchange_rate(36) < 643e3
    for gpus, batch, measured in ((8, 256, 50.8), (8, 512, 89.5), (8, 1024, 166.3), (16, 512, 97.1), (32, 512, 109.6), (64, 512, 115.7), (64, 1024, 209.4)):
        moved = batch * 8 * 14336 * (gpus - 1) / gpus
        close(p.exchange_us(gpus) + moved / p.exchange_rate(gpus), measured, 0.12)


# ---- both ----

def check_overlap():
    """Rows that are read behind the dense part cost nothing as long as they take less than it."""
    p = h100()
    for way in ("copies", "peers", "exchange-best"):
        calm = load(zipf=0.8, tables_gb=100.0 if way == "copies" else 600.0, rows=8192, overlap=True)
        found = compare.Cell(way, p, calm, 8).capacity(400)
        assert 0.97 < found / (8 * 8192 / (14 + 0.002 * 8192 if way != "exchange-best" else hidden(p, calm)) * 1e6) < 1.01, (way, found)


def hidden(p, calm):
    """The larger of a step's two sides."""
    cell = compare.Cell("exchange-best", p, calm, 8)
    calls, rows = cell.calls(8, 0)
    return max(14 + 0.002 * 8192, exchange.Step(p, calm, 8, 2.3).exchange(calls.counts, rows))


def check_order():
    """Nobody is faster than the links; rotation reaches them; ids that say nothing of owners nearly do, and a queue at one owner does not."""
    for gpus, window in ((4, 8), (8, 64)):
        least = (gpus - 1) * 60
        same, rotated, mixed = (order.ticks(o, gpus, 60, window) / least for o in order.ORDERS)
        assert 1 <= rotated < 1.1 and 1 < mixed < 1.25 < same, (same, rotated, mixed)
    assert all(order.ticks(o, 8, 60, 10 ** 6) == 7 * 60 for o in ("rotated", "same"))
    assert order.ticks("mixed", 8, 60, 10 ** 6) < 1.05 * 7 * 60
    assert order.ticks("same", 2, 50, 1) == 50


def check_table():
    """Each number says what it is and where it is from; the derived ones follow from theirs."""
    rows = {row["name"]: row for row in rates.table()}
    for row in rows.values():
        assert row["kind"] in rates.KINDS and len(row["source"]) > 1 and all(float(row[p]) >= 0 for p in rates.PLATFORMS), row
    close(128 / (128 + float(rows["packet"]["h100"])), 0.8, 1e-9)
    close(float(rows["packet"]["gb200"]), float(rows["packet"]["h100"]), 1e-9)
    for gpus, took, first in ((8, 311.8, 18.4), (16, 343.3, 18.8), (32, 373.7, 19.6), (64, 399.2, 24.8)):
        moved = 2048 * 8 * 14336 * (gpus - 1) / gpus
        close(float(rows[f"exchange_rate_{gpus}"]["gb200"]), moved / (took - first) / 1e3, 0.002)


CHECKS = [f for name, f in sorted(globals().items()) if name.startswith("check_")]

# module, text of it, what an error would make of it, the check that finds it
FAULTS = [
    (traffic, "total += area", "total += 0 * area", check_zipf_mass),
    (traffic, "// (gpus - 1))", "// gpus)", check_placement),
    (traffic, "np.arange(hot + 1, min", "np.arange(1, min", check_shares),
    (traffic, "count) - sigma ** 2 / 2), load.stall_us", "count)), load.stall_us", check_slowest_decides),
    (links, "use.sum(axis=0).max() <= 1:", "use.sum(axis=0).max() <= 1e9:", check_fair_shares),
    (links, "use.sum(axis=0).max() <= 1:", "use.sum(axis=0).max() <= 1e9:", check_two_readers_one_owner),
    (links, "~(use[:, full] > 0).any(axis=1)", "(not full.any())", check_fair_shares),
    (links, "remote[reader] = 0", "remote[reader] *= 1", check_one_gpu_is_copies),
    (links, 'self._of(d, "out")[:] += towards', 'self._of(d, "out")[:] += 0 * towards', check_two_readers_one_owner),
    (links, 'self._of(d, "in")[reader] += towards.sum()', 'self._of(d, "in")[reader] += towards.max()', check_link_bound),
    (links, 'self._of(d, "out")[reader] += back.sum()', "pass", check_bytes_on_links),
    (links, 'self._of(d, "reader")[reader] = (counts.sum() + from_host)', 'self._of(d, "reader")[reader] = counts[0]', check_no_skew_and_no_link),
    (rates, 'row + packets * self["packet"]', "row", check_bytes_on_links),
    (rates, '* row / (row + self["host_packet"])', "", check_host),
    (rates, "* (1 - part) +", "* part +", check_measured_exchange),
    (serve, "+= (self.rates * passed)", "+= ((self.rates > 0) * passed)", check_bytes_on_links),
    (serve, "gpu.queue.popleft()", "gpu.queue.pop()", check_lindley),
    (serve, "(overlap or self.computing is None)", "True", check_lindley),
    (serve, "(overlap or self.computing is None)", "True", check_queue_law),
    (serve, "(overlap or self.computing is None)", "self.computing is None", check_overlap),
    (serve, "(self.slow if g == 0 else 1.0)", "self.slow", check_one_slow_gpu),
    (serve, "else self._least_loaded()", "else call % len(self.gpus)", check_free_gpu_takes),
    (exchange, "return max(between.sum(axis=0).max(), between.sum(axis=1).max())", "return between.sum(axis=1).mean()", check_exchange_bound),
    (exchange, "per_pair - np.diag(np.diag(per_pair))", "per_pair", check_exchange_bound),
    (exchange, "2 * self.fixed", "0 * self.fixed", check_exchange_bound),
    (exchange, "if self.gpus == 1:", "if False:", check_one_gpu_exchanges_nothing),
    (exchange, "else computed.max()", "else computed.min()", check_slowest_decides),
    (exchange, "free = starts.max() if overlap", "free = computed.max() if overlap", check_overlap),
    (exchange, "(1 - (1 - share) ** bag)", "share", check_bags),
    (order, "(gpu + k) % gpus", "k % gpus", check_order),
    (order, "if r not in taken", "if True", check_order),
    (order, "under_way[g] < window", "True", check_order),
    (compare, "* (self.gpus - 1) / self.gpus if", "if", check_bytes_on_links),
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda f: f.__name__)
def test_model(check):
    check()


def run_as(module, source):
    exec(compile(source, module.__file__, "exec"), module.__dict__)  # noqa: S102


@pytest.mark.parametrize("module, text, fault, check", FAULTS, ids=lambda x: getattr(x, "__name__", None))
def test_planted_fault_is_found(module, text, fault, check):
    source = pathlib.Path(module.__file__).read_text()
    assert source.count(text) == 1, "the fault follows its line"
    run_as(module, source.replace(text, fault))
    try:
        with pytest.raises(AssertionError):
            check()
    finally:
        run_as(module, source)


def test_every_check_finds_a_fault():
    assert {f.__name__ for f in CHECKS} == {fault[3].__name__ for fault in FAULTS} | {"check_table"}   # check_table is over data


def test_table_finds_a_number_without_source(monkeypatch):
    rows = rates.table()
    for change in ({"source": ""}, {"kind": "guessed"}, {"h100": "-1"}):
        monkeypatch.setattr(rates, "table", lambda: [{**rows[0], **change}, *rows[1:]])
        with pytest.raises(AssertionError):
            check_table()


def test_readme_has_what_the_model_gives():
    rows = [[c.strip() for c in line.strip("|\n ").split("|")] for line in (HERE / "README.md").open() if line.startswith("| h100 |")]
    assert len(rows) == 4
    for name, gpus, tables, zipf, remote, *shares in rows[1:]:
        p = rates.platform(name)
        for way, said in zip(compare.WAYS[1:4], shares):
            c = compare.cell(way, p, traffic.Load(zipf=float(zipf), tables_gb=float(tables) * p["memory"]), int(gpus), 600, 0.6)
            close(c["capacity"] / c["copies"], float(said.split(",")[0]), 0.04)
            assert way != "peers" or abs(c["remote_share"] - float(remote)) < 0.006


# ---- the program ----

def program(*args):
    return subprocess.run([sys.executable, str(HERE), *args], capture_output=True, text=True)


def test_program_writes_the_same_figures_twice(tmp_path):
    written = []
    for name in ("a", "b"):
        done = program("--smoke", "--json", str(tmp_path / name))
        assert done.returncode == 0, done.stderr
        written.append((tmp_path / name).read_text())
    assert written[0] == written[1]
    cells = json.loads(written[0])["cells"]
    assert len(cells) == 2 * len(compare.WAYS)
    assert [c["fits"] for c in cells if c["way"] == "copies"] == [False, False]
    assert all(0 < c["capacity"] < c["copies"] and c["p50_us"] <= c["p99_us"] for c in cells if "p50_us" in c)


def test_program_draws(tmp_path):
    pytest.importorskip("matplotlib")
    done = program("--smoke", "--plot", str(tmp_path / "cells.svg"))
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "cells.svg").read_text()
    assert [f">{way}<" in text for way in compare.WAYS] == [False, True, True, True, True]   # copies do not fit


def test_program_says_what_is_wrong():
    for args, told in ((("--set", "lnk=1"), "lnk"), (("--set", "link"), "--set"), (("--gpus", "0"), "at least one GPU")):
        done = program("--smoke", *args) if args[0] == "--set" else program(*args)
        assert done.returncode == 2 and told in done.stderr and "Traceback" not in done.stderr
    assert "python3 tests/bench/peers_model --platform gb200" in program("--help").stdout
