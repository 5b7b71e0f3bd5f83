"""/metrics as Prometheus reads it."""

import pathlib
import subprocess

from prometheus_client.parser import text_string_to_metric_families

ROOT = pathlib.Path(__file__).resolve().parents[3]
OURS = {"endpoint": "scoreservice"}  # on every sample of the library's page
REFUSED = {"path", "method", "too_large", "json", "value", "overload", "timeout", "unavailable", "stopping", "client", "internal"}


def families(service):
    text = service.metrics()
    found = list(text_string_to_metric_families(text))
    assert len({f.name for f in found}) == len(found) == text.count("# TYPE ") == text.count("# HELP ")
    assert all(f.documentation for f in found)
    return {f.name: f for f in found}


def value(family, **labels):
    found = [s.value for s in family.samples if s.labels == labels]
    assert len(found) == 1, (labels, family)
    return found[0]


def test_every_request_is_counted(fresh):
    before = families(fresh)
    assert {s.labels["cause"] for s in before["dpi_http_refused"].samples} == REFUSED
    assert all(s.value == 0 for s in before["dpi_http_refused"].samples)
    for rows in ([{"uid": 7}], [{"uid": 8}, {}], [{"history": ["a"] * 5}]):
        assert fresh.score({"rows": rows})[0] == 200
    library(families(fresh))
    assert value(before["dpi_model_host_bytes"], **OURS) > 0 and value(before["dpi_model_device_bytes"], **OURS) == 0
    held = before["dpi_endpoint_held_bytes"]
    assert held.type == "gauge" and value(held, where="device", **OURS) == 0
    # Weights and tables at least, and never more than the forecast, which has every context that the service may take.
    assert value(before["dpi_model_host_bytes"], **OURS) <= value(held, where="host", **OURS) <= value(before["dpi_endpoint_forecast_bytes"], **OURS)
    assert fresh.score({"rows": [{"nope": 1}]})[0] == 400
    assert fresh.score({"rows": [{"day": 4}]})[0] == 400  # refused by the model itself
    assert fresh.score([])[0] == 400
    assert fresh.ask("GET", "/score")[0] == 405
    assert fresh.ask("GET", "/nowhere")[0] == 404
    assert fresh.healthy()
    after = families(fresh)
    http = after["dpi_http_requests"]
    assert http.type == "counter"
    assert value(http, path="/score", status="200") == 3 and value(http, path="/score", status="400") == 3
    assert value(http, path="/score", status="405") == 1 and value(http, path="other", status="404") == 1
    assert value(http, path="/health", status="200") == 1 and value(http, path="/metrics", status="200") == 2
    refused = {s.labels["cause"]: s.value for s in after["dpi_http_refused"].samples}
    assert refused == {**dict.fromkeys(REFUSED, 0), "value": 2, "json": 1, "method": 1, "path": 1}
    assert after["dpi_http_in_flight"].type == "gauge" and value(after["dpi_http_in_flight"]) == 0
    assert value(after["dpi_errors"], error="DPI_E_INVALID_ARGUMENT", **OURS) == 1
    histogram(after["dpi_http_score_seconds"], 7)


def library(found):
    """What three good requests moved on the library's page."""
    assert value(found["dpi_calls"], **OURS) == 3 and value(found["dpi_rows"], **OURS) == 4
    assert found["dpi_calls"].type == "counter"
    assert value(found["dpi_feature_cut"], feature="history", **OURS) == 1
    assert value(found["dpi_feature_missing"], feature="uid", **OURS) == 2
    assert found["dpi_longest_wait_seconds"].type == "gauge"
    for name, unit in (("dpi_call_seconds", None), ("dpi_call_rows", 4), ("dpi_wait_seconds", None)):
        sums = {s.name: s.value for s in found[name].samples if s.labels == OURS}
        assert found[name].type == "histogram" and sums[name + "_count"] == 3 and unit in (None, sums[name + "_sum"])
    assert {s.labels["stage"] for s in found["dpi_stage_seconds"].samples} == {"resolve", "fetch", "lookup", "compute", "copy"}


def histogram(family, count):
    assert family.type == "histogram"
    buckets = [(float(s.labels["le"]), s.value) for s in family.samples if s.name.endswith("_bucket")]
    assert buckets == sorted(buckets) and len(buckets) == 15 and buckets[-1] == (float("inf"), count)
    assert all(a[1] <= b[1] for a, b in zip(buckets, buckets[1:]))
    sums = {s.name: s.value for s in family.samples if not s.labels}
    assert sums["dpi_http_score_seconds_count"] == count
    # The sum lies between what the buckets' lower and upper ends allow.
    each = [(low[0], high[0], high[1] - low[1]) for low, high in zip([(0.0, 0)] + buckets, buckets)]
    assert sum(low * n for low, _, n in each) <= sums["dpi_http_score_seconds_sum"]
    assert sums["dpi_http_score_seconds_sum"] <= sum((high if high < 1e9 else 1e9) * n for _, high, n in each)


def test_promtool_takes_the_page(fresh):
    assert fresh.score({"rows": [{"uid": 7}]})[0] == 200
    text = fresh.metrics()
    said = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
    assert said.returncode == 0 and not said.stderr, said.stderr
    twice = subprocess.run(["promtool", "check", "metrics"], input=text + text, capture_output=True, text=True)
    assert twice.returncode != 0


def test_prometheus_reads_made_up_counters():
    """The library's own test compares what it makes of made_up_counters.json with this file; here it is compared with Prometheus."""
    text = (ROOT / "tests/runtime/made_up_counters.txt").read_text()
    found = {f.name: f for f in text_string_to_metric_families(text)}
    assert {f.type for f in found.values()} == {"counter", "gauge"} and len(found) == 23
    assert value(found["dpi_errors"], error='a"b\\c\nd') == 1
    assert value(found["dpi_feature_causes"], feature="city [home]", cause="unknown") == 5
    assert value(found["dpi_store_up"], store="redis") == 0 and value(found["dpi_store_node_up"], store="redis", node="a:1") == 1
    assert value(found["dpi_longest_wait_seconds"]) == 0.00125 and value(found["dpi_tier_read_seconds"], tier="users") == 2.5
    assert value(found["dpi_made_up"], made_up="first") == float(2**63 - 1)  # as every value of Prometheus
