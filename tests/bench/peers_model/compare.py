"""One cell: a load, a platform, a number of GPUs and a way to place tables; how many rows it bears and how long a call takes."""

import numpy as np

import exchange
import links
import serve
import traffic

WAYS = ("copies", "host", "peers", "exchange", "exchange-best")


def room(platform, load):
    """Rows of each field that one GPU holds."""
    return int(platform["memory"] * 1e9 / load.row_bytes / load.fields)


def placed(way, platform, load, gpus):
    """Hot rows of a field on every GPU; None if the way cannot hold the tables."""
    each = room(platform, load)
    if way == "copies":
        return load.field_rows if each >= load.field_rows else None
    if way == "host":
        return min(each, load.field_rows) if load.tables_gb <= platform["host_memory"] else None
    hot = traffic.hot_rows(load.field_rows, each, gpus)
    return 0 if way == "exchange" and hot is not None else hot


class Cell:
    def __init__(self, way, platform, load, gpus, seed=1):
        self.way, self.platform, self.load, self.gpus, self.seed = way, platform, load, gpus, seed
        self.hot = placed(way, platform, load, gpus)
        if self.hot is None:
            return
        self.exchanges = way.startswith("exchange") and self.hot < load.field_rows  # rows that all have need none
        self.resources = links.Resources(platform, gpus, load.row_bytes)
        self.shares = traffic.Shares(load, gpus, self.hot, np.random.default_rng(seed))

    @property
    def fits(self):
        return self.hot is not None

    def calls(self, count, rate):
        """`count` calls of a Poisson process, `rate` a us; 0: all are there at the begin. Equal for all ways but for the rows' places."""
        rng = np.random.default_rng([self.seed, 1])
        arrivals = np.cumsum(rng.exponential(1 / rate, count)) if rate else np.zeros(count)
        rows = traffic.sizes(self.load, count, rng)
        factor, stall = traffic.slowdowns(self.load, count, rng)
        after = (self.platform["fixed"] + self.platform["dense"] * 1e-3 * rows) * factor + stall
        keys = np.asarray(rows * self.load.keys)
        drawn = np.random.default_rng([self.seed, 2])
        from_host = np.zeros(count)
        if self.way == "host":
            counts = np.zeros((count, 1 + self.gpus))
            counts[:, 0] = drawn.binomial(keys, min(1.0, self.shares.hot))
            from_host = keys - counts[:, 0]
        else:
            counts = drawn.multinomial(keys, self.shares.all)
        return serve.Calls(arrivals, counts, from_host, after, self.platform["remote"]), rows

    def served(self, count, rate, progress=None):
        """When each call came and ended."""
        calls, rows = self.calls(count, rate)
        if self.exchanges:
            fixed = self.platform["barrier"] if self.way == "exchange-best" else self.platform.exchange_us(self.gpus)
            step = exchange.Step(self.platform, self.load, self.gpus, fixed)
            return calls, exchange.run(step, calls, rows, self.load.slow, self.load.overlap)
        cluster = serve.Cluster(self.resources, calls, self.load.slow, self.load.overlap, central=not rate, rng=np.random.default_rng([self.seed, 3]))
        return calls, cluster.run(progress).ended

    def capacity(self, count, progress=None):
        """Rows a second when there is always a call: the slope of the calls that ended over the time, the first and last tenth left out."""
        _, ended = self.served(count, 0, progress)
        middle = slice(count // 10, count - count // 10)
        slope = np.polyfit(np.arange(count)[middle], np.sort(ended)[middle], 1)[0]
        return self.load.rows / slope * 1e6

    def latency(self, count, rows_a_second, progress=None):
        """Median and p99 of a call, us, at that rate; the first tenth is left out."""
        calls, ended = self.served(count, rows_a_second / self.load.rows * 1e-6, progress)
        times = (ended - calls.arrivals)[count // 10:]
        return float(np.percentile(times, 50)), float(np.percentile(times, 99))

    def remote_share(self):
        """Of all lookups, those that go over a link."""
        return float(self.shares.owners.sum()) * (self.gpus - 1) / self.gpus if self.way != "host" else 0.0


def copies_bear(platform, load, gpus):
    """Rows a second of copies of all tables, without jitter and stalls: in closed form."""
    gather = load.rows * load.keys * load.row_bytes / platform.gather(load.row_bytes)
    dense = platform["fixed"] + platform["dense"] * 1e-3 * load.rows
    return gpus * load.rows / (max(gather, dense) if load.overlap else gather + dense) * 1e6


def cell(way, platform, load, gpus, count, part, progress=None):
    """The figures of one way, as a dictionary; `fits` is False where it cannot hold the tables. Calls are timed at `part` of what copies
    would bear."""
    c = Cell(way, platform, load, gpus)
    result = {"way": way, "platform": platform.name, "gpus": gpus, "zipf": load.zipf, "tables_gb": load.tables_gb, "fits": c.fits}
    if not c.fits:
        return result
    count = max(count, gpus * (300 if c.exchanges else 60))   # so that a step, or a round, more or less does not count
    copies = copies_bear(platform, load, gpus)
    asked = part * copies
    result.update(copies=copies, hot_rows_share=c.hot / load.field_rows, hot_hits=c.shares.hot, remote_share=c.remote_share(), offered=asked,
                  capacity=c.capacity(count, progress))
    if result["capacity"] > asked:
        result["p50_us"], result["p99_us"] = c.latency(count, asked, progress)
    return result
