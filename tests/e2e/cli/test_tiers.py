"""What `dpi bench` and `dpi inspect` say of tables in the host tier and of copies of their rows on the GPU."""

import pathlib

import pytest

from conftest import PROGRAM, ROOT

PLUGINS = pathlib.Path(PROGRAM).resolve().parents[1] / "lib" / "dpi" / "backends-1"
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
