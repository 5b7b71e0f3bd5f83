"""Counters and latencies for Prometheus, by its own parser, and calls that were slow."""

import numpy as np
import pytest
from drawn import ADULT, MSWEB, arguments

import dpi


def samples(families):
    """{name: value} of the samples whose labels are a model's alone."""
    return {s.name: s.value for family in families for s in family.samples if list(s.labels) == ["model"]}


def test_metrics_count_calls():
    parser = pytest.importorskip("prometheus_client.parser")
    from prometheus_client.openmetrics import parser as openmetrics

    with dpi.Env() as env, dpi.Model(ADULT, env=env, device="cpu") as model:
        for seed in range(7):
            model.predict(**arguments(model, 3, seed, "plain"))
        for found in (samples(parser.text_string_to_metric_families(env.metrics())),
                      samples(openmetrics.text_string_to_metric_families(env.metrics(openmetrics=True)))):
            assert found["dpi_call_seconds_count"] == found["dpi_calls_total"] == 7
            assert found["dpi_call_rows_sum"] == found["dpi_rows_total"] == 21
        assert len(env.metrics(fine=True)) > len(env.metrics())
    with pytest.raises(dpi.Closed):
        env.metrics()
    assert isinstance(dpi.default_env.metrics(), str)


def test_slow_calls_are_kept():
    ids = np.zeros((900, 3), np.int64)
    with dpi.Model(MSWEB) as quiet:
        quiet.predict(ids)
        assert quiet.slow() == []
    with dpi.Model(MSWEB, slow_us=1) as model:
        model.predict(ids)
        (call,) = model.slow()
        assert (call["rows"], call["ids"]["area"], call["code"]) == (900, 900, 0) and call["took_us"] >= 1
    with pytest.raises(dpi.Closed):
        model.slow()
    with dpi.Env() as env, dpi.Endpoint("slow", env=env, options={"slow_us": 1}) as e:
        e.load(MSWEB, 5)
        e.predict(ids)
        assert e.slow()[0]["version"] == 5
