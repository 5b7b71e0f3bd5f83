"""The numbers that the model rests on: rates.csv, one row a number with its source, one column a platform."""

import csv
import dataclasses
import math
import pathlib

TABLE = pathlib.Path(__file__).resolve().parent / "rates.csv"
KINDS = ("published", "measured", "derived", "assumed")
PLATFORMS = ("h100", "gb200", "pcie5")


def table():
    with TABLE.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@dataclasses.dataclass
class Platform:
    """Bytes, microseconds and bytes a microsecond (1 GB/s = 1000 bytes a microsecond)."""
    name: str
    values: dict

    def __getitem__(self, name):
        return self.values[name]

    def gather(self, row):
        """Random rows of the own memory, bytes a microsecond."""
        shares = [(64, self["row_share_64"]), (128, self["row_share_128"]), (256, self["row_share_256"])]
        share = shares[0][1] * min(1, row / 64)
        for (low, at_low), (high, at_high) in zip(shares, shares[1:]):
            if row > low:
                share = at_low + (at_high - at_low) * min(1, (row - low) / (high - low))
        return self.stream * share

    @property
    def stream(self):
        return self["stream"] * 1e3

    @property
    def link(self):
        return self["link"] * 1e3

    def wire(self, row):
        """Bytes on the wire, towards the reader and the other way, of one row that is read over the link."""
        packets = math.ceil(row / self["payload"])
        return row + packets * self["packet"], packets * self["request"]

    def host(self, row):
        """Random rows from host memory, bytes a microsecond."""
        return self["host"] * 1e3 * self["host_share"] * row / (row + self["host_packet"])

    def _by_gpus(self, name, gpus):
        known = (8, 16, 32, 64)
        at = min(max(gpus, known[0]), known[-1])
        for low, high in zip(known, known[1:]):
            if at <= high:
                part = math.log(at / low) / math.log(high / low)
                return self[f"{name}_{low}"] * (1 - part) + self[f"{name}_{high}"] * part
        raise AssertionError(at)

    def exchange_us(self, gpus):
        """An all-to-all of next to nothing."""
        return self._by_gpus("exchange_us", gpus)

    def exchange_rate(self, gpus):
        """What a large all-to-all moves into or out of a GPU, bytes a microsecond."""
        return self._by_gpus("exchange_rate", gpus) * 1e3


def platform(name, **changes):
    """`changes` replace numbers of the table, by its names and in its units."""
    values = {row["name"]: float(row[name]) for row in table()}
    unknown = changes.keys() - values.keys()
    if unknown:
        raise KeyError(f"no {', '.join(sorted(unknown))} in {TABLE.name}")
    values.update(changes)
    return Platform(name, values)
