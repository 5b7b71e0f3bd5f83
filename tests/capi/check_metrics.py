#!/usr/bin/env python3
"""Reads pages of dpi_metrics as Prometheus does: check_metrics.py read|quantiles|endpoints FOLDER [N].

    read       page.txt by promtool check metrics and prometheus_client's parser; page.om and fine.om by its OpenMetrics parser. All three have
               the same families, and histograms that only rise and end in their count
    quantiles  quantiles of `times`, the caller's own nanoseconds, by numpy: the page's agree within 5 %, so do those that one reads from the
               bounds of fine.om
    endpoints  the page has N endpoints, and each label is one sample of each family
"""

import pathlib
import subprocess
import sys

import numpy
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as plain


def families(folder, name):
    text = (folder / name).read_text(encoding="utf-8")
    return list((open_metrics if name.endswith(".om") else plain)(text))


def series(family):
    """Buckets of each series, by its labels without le."""
    found = {}
    for s in family.samples:
        if s.name.endswith("_bucket"):
            labels = tuple(sorted((k, v) for k, v in s.labels.items() if k != "le"))
            found.setdefault(labels, []).append((float(s.labels["le"]), s.value))
    return found


def check_family(family):
    keys = [(s.name, tuple(sorted(s.labels.items()))) for s in family.samples]
    assert len(keys) == len(set(keys)), f"{family.name}: a sample twice"
    assert family.documentation and family.type in ("counter", "gauge", "histogram"), family
    for labels, buckets in series(family).items():
        bounds, counts = zip(*buckets)
        assert list(bounds) == sorted(set(bounds)) and bounds[-1] == float("inf"), (family.name, labels)
        assert list(counts) == sorted(counts), (family.name, labels)
        (count,) = [s.value for s in family.samples if s.name.endswith("_count") and tuple(sorted(s.labels.items())) == labels]
        assert counts[-1] == count, (family.name, labels)


def read(folder):
    with open(folder / "page.txt", "rb") as page:
        said = subprocess.run(["promtool", "check", "metrics"], stdin=page, capture_output=True, text=True)
    assert said.returncode == 0 and not said.stderr, said.stderr
    assert (folder / "page.om").read_text(encoding="utf-8").endswith("\n# EOF\n")
    names = []
    for page in ("page.txt", "page.om", "fine.om"):
        found = families(folder, page)
        for family in found:
            check_family(family)
        names.append([f.name for f in found])
        assert len(names[-1]) == len(set(names[-1])) > 10
    assert sorted(names[0]) == sorted(names[1]) == sorted(names[2])


def quantiles(folder):
    times = numpy.fromfile(folder / "times", numpy.uint64) / 1e9
    by_name = {f.name: f for f in families(folder, "page.txt")}
    fine = {f.name: f for f in families(folder, "fine.om")}
    (buckets,) = series(fine["dpi_call_seconds"]).values()
    for q in (0.5, 0.9):  # not of a few calls, during which another process may have run between the two clocks
        want = float(numpy.quantile(times, q, method="inverted_cdf"))
        (said,) = [s.value for s in by_name["dpi_call_quantile_seconds"].samples if float(s.labels["q"]) == q]
        at = next(i for i, (_, n) in enumerate(buckets) if n >= q * len(times))
        middle = (buckets[at - 1][0] + buckets[at][0]) / 2
        for got in (said, middle):
            assert abs(got - want) <= 0.05 * want, (q, got, want)
    (total,) = [s.value for s in fine["dpi_call_seconds"].samples if s.name.endswith("_sum")]
    assert 0 < total <= times.sum()


def endpoints(folder, n):
    for family in families(folder, "page.txt"):
        if family.name == "dpi_calls":
            assert len({s.labels["endpoint"] for s in family.samples if "endpoint" in s.labels}) == n, family.samples


def main():
    what, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    if what == "read":
        read(folder)
    elif what == "quantiles":
        quantiles(folder)
    else:
        endpoints(folder, int(sys.argv[3]))


if __name__ == "__main__":
    main()
