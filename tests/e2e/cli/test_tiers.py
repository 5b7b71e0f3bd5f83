"""What `dpi bench` and `dpi inspect` say of tables in the host tier and of copies of their rows on the GPU."""

import math
import pathlib

import numpy as np
import pytest

from conftest import PROGRAM, ROOT, Builder

PLUGINS = pathlib.Path(PROGRAM).resolve().parents[1] / "lib" / "dpi" / "backends-1"
LATE = PLUGINS.parents[2] / "test_plugins" / "late"  # a store whose reads take 10 ms: tests/store/plugin/late_store.cpp
MODEL = ROOT / "weights" / "demo" / "msweb_deepfm.h5"
TIER = ["--option", "store.host_bytes=67108864", "--option", "store.resident_bytes=0"]


@pytest.fixture
def emulated():
    if not list(PLUGINS.glob("libdpi_cuda_emu*.so")):
        pytest.skip("the emulated GPU is not built")
    return ["--device", "cuda_emu", "--option", f"backend_dir={PLUGINS}"]


def bench(*more, seconds="0.3"):
    return ["bench", MODEL, "--batch", "32", "--seconds", seconds, "--pool", "4", *TIER, *more]


def check_rates(rates, on_device):
    assert rates["lookups"] == sum(t["lookups"] for t in rates["tables"]) > 0
    assert rates["host_hit_rate"] > 0.99  # all rows were loaded
    assert rates["device_sampled"] == sum(t["device_sampled"] for t in rates["tables"])
    for t in rates["tables"]:
        assert t["name"] and (t["lookups"] == 0 or 0.99 < t["host_hit_rate"] <= 1)
    if not on_device:
        assert rates["device_hit_rate"] is None and rates["device_sampled"] == 0


def test_bench_shows_the_host_tiers_hit_rate(dpi):
    j = dpi(*bench("--device", "cpu", "--json")).json()
    for rates in [j["tiers"], *(run["tiers"] for run in j["runs"])]:
        check_rates(rates, on_device=False)
    out = dpi(*bench("--device", "cpu")).ok().out
    assert "host tier" in out.splitlines()[1] and "100.0 %" in out.splitlines()[2]
    for table in j["tiers"]["tables"]:
        assert any(line.startswith(table["name"]) and "100.0 %" in line for line in out.splitlines())


def test_bench_without_a_tier_has_no_rates(dpi):
    flags = ["bench", MODEL, "--batch", "8", "--seconds", "0.01", "--device", "cpu"]
    j = dpi(*flags, "--json").json()
    assert "tiers" not in j and "tiers" not in j["runs"][0]
    assert "host tier" not in dpi(*flags).ok().out


def test_bench_shows_what_the_gpus_copies_hold(dpi, emulated):
    whole = dpi(*bench(*emulated, "--option", "store.gpu_bytes=67108864", "--json", seconds="1")).json()["tiers"]
    check_rates(whole, on_device=True)
    assert whole["device_sampled"] > 0 and whole["device_hit_rate"] == 1  # it has room for every row
    assert all(t["device_hit_rate"] in (1, None) for t in whole["tables"])
    part = dpi(*bench(*emulated, "--option", "store.gpu_bytes=12000", "--json", seconds="1")).json()["tiers"]
    check_rates(part, on_device=True)
    assert part["device_hit_rate"] < 1
    out = dpi(*bench(*emulated, "--option", "store.gpu_bytes=67108864", seconds="1")).ok().out.splitlines()
    assert out[1].split()[-1] == "GPU" and out[2].count("100.0 %") == 2


def test_inspect_says_how_the_gpus_copies_are_shared_out(dpi):
    def memory(gpu):
        return dpi("inspect", MODEL, *TIER, "--option", f"store.gpu_bytes={gpu}", "--json").json()["memory"]

    for gpu in (20000, 60000, 67108864):
        m = memory(gpu)
        taken, shares = m["gpu"]["device_cache_bytes"], m["device_cache"]
        assert 0 < taken <= gpu
        assert sorted(n for s in shares for n in s["tables"]) == sorted(t["name"] for t in m["in_host_tier"])
        for s in shares:
            assert s["bytes"] == s["lines"] * (s["row_bytes"] + 4) and s["lines"] % 16 == 0
        spent = sum(s["bytes"] for s in shares)
        assert spent <= taken
        assert taken < gpu or spent > gpu - 2048 - 1280 * len(shares) - 20 * max(s["row_bytes"] for s in shares)
    assert dpi("inspect", MODEL, *TIER, "--json").json()["memory"]["device_cache"] == []
    out = dpi("inspect", MODEL, *TIER, "--option", "store.gpu_bytes=60000").ok().out
    assert sum(line.startswith("copies on the gpu") for line in out.splitlines()) == len(memory(60000)["device_cache"])


@pytest.fixture
def late_model(tmp_path):
    """A bundle with two tables of 20,000 rows in the late store, and the flags that load it with a tier for some of them."""
    if not (LATE / "libdpi_rocksdb.so").exists():
        pytest.skip("the late store is not built")
    b = Builder("late")
    for i, name in enumerate(("users", "items")):
        b.categorical(name[:-1], 20_000)
        b.external_table(name, 4, rows=20_000, digest=f"{i}" * 64)
    x = b.concat([b.embed(b.input(n[:-1]), n) for n in ("users", "items")])
    b.head("y", b.linear(x, np.ones((1, 8), np.float32)), activation="none")
    b.write(tmp_path / "late.h5")
    counted = tmp_path / "counted"
    options = {"backend_dir": LATE, "store.rocksdb_path": counted, "store.host_bytes": 40_000, "store.resident_bytes": 0, "max_contexts": 3}
    return [tmp_path / "late.h5", "--device", "cpu", *(w for k, v in options.items() for w in ("--option", f"{k}={v}"))], counted


def test_bench_sizes_the_fetch_threads_of_a_slow_store(dpi, late_model):
    flags, counted = late_model
    slow = ["bench", *flags, "--batch", "8", "--callers", "2", "--pool", "16000", "--seconds", "1.5"]
    run, = dpi(*slow, "--option", "store.fetch_threads=16", "--json").json()["runs"]
    f, (reads, rows) = run["fetches"], map(int, counted.read_text().split())
    assert 0 < f["reads"] <= reads and 0 < f["reads"] * f["rows_per_read"] <= rows  # the store's own count has the warm-up too
    assert f["read_us"] >= 10_000
    # Little's law: two callers who wait for reads of both tables keep at most four threads busy.
    assert f["threads_busy"] == pytest.approx(f["reads_per_second"] * f["read_us"] * 1e-6, rel=1e-6)
    assert 1 < f["threads_busy"] <= 4.1 and not f["limited"]
    assert f["threads_needed"] == math.ceil(f["threads_busy"] / 0.5)
    # 3 contexts, and 4 times as many calls may wait without one; each of them reads two tables.
    assert (f["fetch_threads"], f["fetch_queue"], f["waiting_calls"], f["queue_needed"]) == (16, 64, 15, 30)
    few, = dpi(*slow, "--option", "store.parked=2", "--option", "store.fetch_threads=16", "--json").json()["runs"]
    assert (few["fetches"]["waiting_calls"], few["fetches"]["queue_needed"]) == (5, 10)

    one = dpi(*slow, "--option", "store.fetch_threads=1", "--json").json()["runs"][0]["fetches"]
    assert one["limited"] and one["threads_busy"] <= 1.05
    assert one["reads_per_second"] < f["reads_per_second"]
    text = dpi(*slow, "--option", "store.fetch_threads=1").ok().out
    assert "reads into the host tier: " in text and "store.fetch_threads=1: all were busy, and callers waited for them" in text
    assert "store.fetch_queue=64: up to 15 calls wait at once, which need 30" in text
    text = dpi(*slow, "--option", "store.fetch_threads=16").ok().out
    assert "these reads need " in text and " at a load of 0.5" in text


def test_bench_of_rows_that_are_all_cached_has_no_reads(dpi):
    assert dpi(*bench("--device", "cpu", "--json")).json()["runs"][0]["fetches"] is None
