"""Bundles that are damaged, newer, hostile or simply fine: inspect, plan and verify."""

import hashlib
import json

import pytest


def op(manifest, kind):
    return next(o for o in manifest["ops"] if o["op"] == kind)


def test_missing_file(dpi):
    dpi("inspect", "/no/such.h5").fails(3, "/no/such.h5")


def test_not_hdf5(dpi, csv):
    dpi("inspect", csv("just a text that is longer than a user block\n" * 40, "a.h5")).fails(3, "a.h5")


def test_empty_file(dpi, csv):
    dpi("inspect", csv("", "a.h5")).fails(3, "a.h5")


def test_folder(dpi, tmp_path):
    dpi("inspect", tmp_path).fails(3, str(tmp_path))


@pytest.mark.parametrize("part", [0.1, 0.5, 0.99])
def test_truncated(dpi, bundle, csv, part):
    data = bundle.read_bytes()
    dpi("inspect", csv(data[:int(len(data) * part)], "cut.h5")).fails(3, "cut.h5")


def test_wrong_version(dpi, bundle, csv):
    data = bytearray(bundle.read_bytes())
    data[8] = 2
    dpi("inspect", csv(bytes(data), "v2.h5")).fails(3, "version")


def test_every_tenth_byte_of_the_tail_flipped_is_noticed(dpi, bundle, csv):
    data = bundle.read_bytes()
    for at in range(len(data) // 2, len(data), len(data) // 20):
        broken = bytearray(data)
        broken[at] ^= 0x40
        ran = dpi("verify", csv(bytes(broken), "flipped.h5"))
        assert ran.code == 3, f"byte {at}: exit {ran.code} {ran.out}{ran.err}"
        assert "digest" in ran.err


def test_unknown_op(dpi, doctored):
    path = doctored(lambda m: op(m, "Linear").update(op="Conv3"))
    dpi("inspect", path).fails(3, "Conv3", "not known", "doctored.h5")


def test_unknown_op_version(dpi, doctored):
    dpi("plan", doctored(lambda m: op(m, "Linear").update(v=7))).fails(3, "version 7", "Linear")


def test_unknown_attribute(dpi, doctored):
    dpi("plan", doctored(lambda m: op(m, "Concat")["attrs"].update(stride=2))).fails(3, "stride")


def test_cycle(dpi, doctored):
    def close(m):
        op(m, "Concat")["in"].append(op(m, "Linear")["name"])

    dpi("plan", doctored(close)).fails(3, "cycle")


def test_shapes_that_lie(dpi, doctored):
    dpi("plan", doctored(lambda m: m["tables"][0].update(dim=4))).fails(3, "job")


def test_vocabulary_larger_than_table(dpi, doctored):
    dpi("plan", doctored(lambda m: m["features"][1].update(vocab_size=7))).fails(3, "vocab_size 7")


def test_missing_parameter(dpi, doctored):
    dpi("plan", doctored(lambda m: op(m, "Linear")["params"].update(weight="gone"))).fails(3, "gone")


def test_head_that_is_no_scalar(dpi, doctored):
    dpi("plan", doctored(lambda m: m["heads"][0].update(value=op(m, "Concat")["name"]))).fails(3, "head 'click'")


def test_inspect(dpi, bundle):
    ran = dpi("inspect", bundle).ok()
    for text in ("small", "by hand", "job", "weighted", "vocab_string", "click", "memory"):
        assert text in ran.out
    j = dpi("inspect", bundle, "--json", "--graph").json()
    assert [f["name"] for f in j["features"]] == ["job", "tags", "seen", "age", "vec"]
    for where in ("host", "gpu"):  # with padding and derived tables, so at least what the file holds
        memory = j["memory"][where]
        assert memory["tables_bytes"] >= 4 * (4 * 3 + 6 * 2 + 5 * 2)
        assert memory["least_bytes"] == memory["tables_bytes"] + memory["weights_bytes"] + memory["flight_bytes"]
        assert memory["most_bytes"] >= memory["least_bytes"]
    assert j["provenance"]["framework"] == "by hand"
    assert "Concat" in j["graph"] and "Concat" in dpi("inspect", bundle, "--graph").ok().out


@pytest.mark.parametrize("flags", [[], ["--fold", "off"], ["--fold=on"], ["--schedule", "depth"], ["--schedule=single"],
                                   ["--option", "debug.fuse=off"], ["--device", "cpu"]])
def test_plan(dpi, bundle, flags):
    assert "plan" in dpi("plan", bundle, *flags).ok().out
    j = dpi("plan", bundle, "--json", *flags).json()
    assert j["ops"] and j["arena"]["bytes"] >= 0
    if "--schedule=single" in flags:
        assert j["streams"] == 1


def test_plan_without_fusion_holds_primitives(dpi, bundle):
    kinds = [o["kind"] for o in dpi("plan", bundle, "--json", "--option", "debug.fuse=off", "--fold=off").json()["ops"]]
    assert "Concat" in kinds and "Linear" in kinds and "MultiLookup" not in kinds


def test_plan_dot_and_implementations(dpi, bundle):
    assert dpi("plan", bundle, "--dot").ok().out.lstrip().startswith("digraph")
    assert "implementations on ref" in dpi("plan", bundle, "--implementations", "--device", "ref").ok().out


@pytest.mark.parametrize("device", ["ref", "cpu"])
def test_verify(dpi, bundle, device):
    assert "verified" in dpi("verify", bundle, "--device", device).ok().out
    j = dpi("verify", bundle, "--device", device, "--json", "--sha256").json()
    assert j["passed"] is True
    assert j["golden"]["scores"]["compared"] == 6 and j["golden"]["scores"]["failed"] == 0
    assert j["sha256"] == hashlib.sha256(bundle.read_bytes()).hexdigest()


def test_verify_without_golden_rows(dpi, doctored):
    assert "no golden rows" in dpi("verify", doctored(lambda m: None)).ok().out


def test_verify_fails_on_wrong_golden_rows(dpi, tmp_path):
    from conftest import build, golden_rows
    b = build()
    b.golden(golden_rows(b), value=[[0.5, 0.1]] * 3)
    path = tmp_path / "wrong.h5"
    b.write(path, check=False)
    ran = dpi("verify", path)
    assert ran.code == 4 and "FAILED" in ran.out
    j = json.loads(dpi("verify", path, "--json").out)
    assert j["passed"] is False and j["golden"]["scores"]["failed"] == 6


def test_required_signature(dpi, bundle):
    key = "00" * 32
    for command in ("verify", "inspect"):
        dpi(command, bundle, "--option", "require_signature=" + key).fails(3, "sign")


def test_devices(dpi):
    devices = {d["backend"]: d for d in dpi("devices", "--json").json()}
    assert devices["ref"]["usable"] and devices["cpu"]["usable"]
    assert "ref" in dpi("devices").ok().out


def test_bench(dpi, bundle):
    flags = ["--batch", "1,7", "--callers", "1,2", "--seconds", "0.01"]
    assert "rows/s" in dpi("bench", bundle, *flags).ok().out
    j = dpi("bench", bundle, *flags, "--json", "--profile").json()
    assert [(r["batch"], r["callers"]) for r in j["runs"]] == [(1, 1), (1, 2), (7, 1), (7, 2)]
    assert all(r["calls"] >= 0 for r in j["runs"])
    assert abs(sum(o["share"] for o in j["profile"]) - 1) <= 1e-6
