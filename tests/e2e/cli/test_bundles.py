"""Bundles that are damaged, newer, hostile or simply fine: inspect, plan and verify."""

import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess

import h5py
import numpy as np
import pytest

from conftest import PROGRAM, ROOT
from dpi_export import Bundle


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
    data[8] = 3
    dpi("inspect", csv(bytes(data), "v3.h5")).fails(3, "bundle format 3.0, this reader knows 2.x")


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
        assert memory["encoder_bytes"] > 0 and memory["model_bytes"] > 0 and memory["loading_bytes"] > 0
        parts = ("tables_bytes", "packed_weight_bytes", "encoder_bytes", "model_bytes", "flight_bytes", "context_bytes")
        assert memory["least_bytes"] == sum(memory[part] for part in parts)
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


@pytest.fixture
def signed(dpi, bundle, tmp_path):
    """(path of a signed copy of the bundle, its public key, the key's id, the key file)."""
    key = tmp_path / "team.key"
    out = dpi("keygen", key).ok().out.split()
    path = tmp_path / "signed.h5"
    path.write_bytes(bundle.read_bytes())
    assert out[-1] in dpi("sign", path, "--key", key).ok().out
    return path, pathlib.Path(f"{key}.pub").read_text().split()[1], out[-1], key


def test_sign(dpi, signed, csv):
    path, public, key_id, key = signed
    option = ["--option", "require_signature=" + public]
    assert "signature ok" in dpi("verify", path, "--option", f"require_signature={'00' * 32},{key}.pub").ok().out
    dpi("verify", path, "--option", f"require_signature={key}").fails(1, f"{key}: is the secret key; give {key}.pub")
    for endless in ("/dev/zero", path):
        dpi("sign", path, "--key", endless).fails(1, f"{endless}: is no signing key")
    dpi("verify", path, "--option", f"require_signature={path}").fails(1, f"{path}: is no public key")
    assert "signature ok" in dpi("verify", path, *option).ok().out
    assert dpi("verify", path, "--json", *option).json()["signed_by"] == [key_id]
    assert key_id in dpi("inspect", path, *option).ok().out
    assert "signature not checked" in dpi("verify", path).ok().out
    dpi("verify", path, "--option", f"require_signature={'00' * 32},{public}").ok()
    dpi("verify", path, "--option", f"require_signature={'00' * 32}").fails(3, key_id, "is required")
    dpi("verify", path, "--option", "require_signature=" + public + ",x").fails(1, "require_signature")
    dpi("sign", path, "--remove", key_id).ok()
    dpi("verify", path, *option).fails(3, "is not signed")
    dpi("sign", path, "--remove", key_id).fails(3, "no signature by key")


def test_a_required_signature_covers_what_the_model_does_not_read(dpi, signed):
    path, public, _, _ = signed
    load = ["bench", path, "--batch", "1", "--seconds", "0.001", "--option", "require_signature=" + public]
    places = {}

    def note(name, item):
        if isinstance(item, h5py.Dataset) and item.size:
            places[name] = item.id.get_offset()

    with h5py.File(path) as f:
        f.visititems(note)
        places.pop("manifest", None)  # metadata
    assert any(name.startswith("golden/") for name in places) and any(name.startswith("tables/") for name in places)
    whole = path.read_bytes()
    for name, at in places.items():
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:])
        dpi(*load).fails(3, name)
    path.write_bytes(whole)
    dpi(*load).ok()


def test_keygen_makes_both_files_or_none(dpi, tmp_path):
    for there, other in (("a.key.pub", "a.key"), ("a.key", "a.key.pub")):
        (tmp_path / there).write_text("mine")
        dpi("keygen", tmp_path / "a.key").fails(1, there, "cannot be made")
        assert not (tmp_path / other).exists() and (tmp_path / there).read_text() == "mine"
        (tmp_path / there).unlink()
    before = os.umask(0)
    try:
        dpi("keygen", tmp_path / "a.key").ok()
    finally:
        os.umask(before)
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("a.key", "a.key.pub")] == [0o600, 0o644]


def test_sign_refuses(dpi, signed, bundle, tmp_path):
    path, _, _, key = signed
    dpi("sign", path).fails(1, "--key and --remove")
    dpi("sign", path, "--key", tmp_path / "none").fails(1, "cannot be read")
    dpi("sign", path, "--key", f"{key}.pub").fails(1, "is no signing key")
    dpi("sign", path, "--remove", "12").fails(1, "32 hex digits")
    dpi("sign", tmp_path / "none.h5", "--key", key).fails(3, "none.h5")
    dpi("sign", key, "--key", key).fails(3, "team.key")
    dpi("keygen", key).fails(1, "cannot be made")
    data = bytearray(bundle.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    dpi("sign", path, "--key", key).fails(3, "damaged")


def test_earlier_format_says_what_to_do(dpi, bundle, tmp_path):
    data = bytearray(bundle.read_bytes())
    data[8] = 1
    path = tmp_path / "old.h5"
    path.write_bytes(data)
    dpi("inspect", path).fails(3, "bundle format 1.0", "write it anew: dpi repack OLD NEW")


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


@pytest.mark.parametrize("device", ["ref", "cpu"])
def test_profile_stands_beside_the_whole_call(dpi, bundle, device):
    j = dpi("bench", bundle, "--batch", "512", "--seconds", "0.2", "--device", device, "--json", "--profile").json()
    call = j["profiled_call"]
    assert call["rows"] == 512 and call["calls"] >= 1
    assert 0 < call["explained"] <= 1.05  # medians of parts need not add up to the median of the whole
    for op in j["profile"]:
        assert 0 <= op["us_per_call"] <= call["us_per_call"]
        assert abs(op["share"] - op["us_per_call"] / call["us_per_call"]) <= 1e-6
    # Each median stands for itself: where other work takes the processor in half of the calls they do not add up.
    assert call["explained"] / 4 <= sum(op["share"] for op in j["profile"]) <= call["explained"] * 4
    p50 = j["runs"][0]["p50_us"]
    assert p50 / 10 <= call["us_per_call"] <= p50 * 10  # the same call, measured apart
    out = dpi("bench", bundle, "--batch", "512", "--seconds", "0.05", "--device", device, "--profile").ok().out
    assert re.search(r"these ops explain \d+\.\d % of a call of [\d.]+ (us|ms)", out) and "medians of" in out


def test_profile_of_users(dpi):
    small = str(pathlib.Path(__file__).resolve().parents[2] / "bundle" / "data" / "small.h5")
    flags = ["bench", small, "--batch", "7", "--seconds", "0.01", "--json", "--profile"]
    assert dpi(*flags).json()["profiled_call"]["users"] is None
    assert dpi(*flags, "--users", "1,3").json()["profiled_call"]["users"] == 3


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """39 fields as of Criteo, crossed twice beside an MLP."""
    import numpy as np
    from dpi_export import Builder
    rng = np.random.default_rng(0)
    b = Builder("wide")
    weight = lambda rows, columns: (rng.normal(size=(rows, columns)) * 0.05).astype("f4")  # noqa: E731
    parts = []
    for i in range(26):
        b.categorical(f"C{i + 1}", vocab_size=20, missing="pad", out_of_range="default", default_id=0)
        parts.append(b.embed(b.input(f"C{i + 1}"), b.table(f"C{i + 1}", weight(20, 16))))
    for i in range(13):
        b.numeric(f"I{i + 1}", missing="default")
        parts.append(b.input(f"I{i + 1}"))
    x0 = x = deep = b.op("Concat", parts)
    for _ in range(2):
        crossed = b.op("Binary", [x0, b.linear(x, weight(429, 429), np.zeros(429, "f4"))], {"kind": "mul"})
        x = b.op("Binary", [crossed, x], {"kind": "add"})
    for out, size in ((128, 429), (64, 128)):
        deep = b.op("Unary", [b.linear(deep, weight(out, size), np.zeros(out, "f4"))], {"kind": "relu"})
    logit = b.linear(b.op("Concat", [x, deep]), weight(1, 493), np.zeros(1, "f4"))
    b.head("click", b.op("Unary", [logit], {"kind": "sigmoid"}), logit=logit)
    path = tmp_path_factory.mktemp("wide") / "wide.h5"
    b.write(path, check=False)
    return path


def boxes(dot):
    return re.findall(r'^ *([nh]\d+) \[label="((?:[^"\\]|\\.)*)"', dot, re.M)


@pytest.mark.parametrize("flags,texts", [
    ([], ["26 x ids, 13 x [1] -> [429]", "identity *mul +add", "[429] -> [128]", "relu", "weights [64,128], [64]", "sigmoid", "C1 .. I13 (39)"]),
    (["--fold=off"], ["26 x ids, 13 x [1] -> [429]", "*mul +add", "[128] -> [64]", "relu"]),
    (["--fold=off", "--option", "debug.fuse=off"], ["x Embed", "ids -> [16]", "mul", "relu", "26 x [16], 13 x [1] -> [429]"]),
])
def test_dot_shows_shapes_and_fusion_and_can_be_read(dpi, wide, flags, texts):
    dot = dpi("plan", wide, "--dot", *flags).ok().out
    drawn = dict(boxes(dot))
    assert len(drawn) <= 24, drawn  # 39 fields are a few boxes
    for text in texts:
        assert any(text in label for label in drawn.values()), (text, drawn)
    ops = len(dpi("plan", wide, "--json", *flags).json()["ops"])
    counts = [int(m[1]) if (m := re.match(r"(\d+) x ", label)) else 1 for name, label in drawn.items() if name[0] == "n"]
    assert sum(counts) == ops  # every op is in one box
    used = set(re.findall(r"^ *([nh]\d+) -> ([nh]\d+)", dot, re.M))
    assert {name for edge in used for name in edge} == set(drawn)  # and every box has an edge
    done = subprocess.run(["dot", "-Tsvg"], input=dot, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stderr == "" and "<svg" in done.stdout


def test_verify_with_tolerance_0_names_the_row_that_differs(dpi, tmp_path):
    from dpi_export import Builder, Rows

    for wrong in range(3):
        b = Builder("exact")
        b.numeric("x")
        b.head("y", b.unary("abs", b.input("x")))
        golden = [1.0, 2.0, 3.0]
        golden[wrong] += 0.5
        b.golden(Rows.from_columns(b, {"x": [1.0, 2.0, 3.0]}), value=[[v] for v in golden], tolerance=0)
        path = tmp_path / "exact.h5"
        b.write(path, check=False)
        ran = dpi("verify", path, "--json")
        assert ran.code == 4
        scores = json.loads(ran.out)["golden"]["scores"]
        assert (scores["failed"], scores["worst_row"]) == (1, wrong) and scores["worst"] > 0.1


def wide_lookups(tmp_path, heads=1):
    """A table wider than the cpu backend's buffers, read once and as a mean, beside others; a linear part for each head."""
    from dpi_export import Builder

    rng, b = np.random.default_rng(2), Builder("wide")
    parts, linear = [], []
    for name, dim, kind in (("a", 1024, "one"), ("b", 16, "one"), ("c", 900, "bag"), ("d", 8, "bag")):
        if kind == "one":
            b.categorical(name, 30)
            parts.append(b.embed(b.input(name), b.table(name, rng.normal(size=(30, dim)))))
        else:
            b.sequence(name, 30, max_len=4, missing="pad")
            parts.append(b.embed(b.input(name), b.table(name, rng.normal(size=(30, dim))), "mean"))
        linear.append((b.input(name), kind))
    x = b.concat(parts)
    deep = b.linear(b.relu(b.linear(x, rng.normal(size=(8, 1948)) / 50)), rng.normal(size=(1, 8)))
    for h in range(heads):
        own = [b.embed(i, b.table(f"l{k}.{h}", rng.normal(size=(30, 1))), **({"pooling": "sum"} if kind == "bag" else {}))
               for k, (i, kind) in enumerate(linear)]
        b.head(f"y{h}", b.sigmoid(b.add(deep, b.reduce("sum", b.concat(own), axis=0, keepdim=True))))
    path = tmp_path / f"wide{heads}.h5"
    b.write(path, check=False)
    return path


@pytest.mark.parametrize("heads", [1, 150])
def test_a_wide_table_or_many_heads_do_not_send_the_lookup_to_the_reference(dpi, csv, tmp_path, heads):
    path = wide_lookups(tmp_path, heads)
    chosen = dpi("plan", path, "--json", "--implementations", "--device", "cpu").json()["implementations"]
    lookups = [i for i in chosen if i["op"] == "lookup"]
    assert len(lookups) == 1 and "refused" not in str(lookups), lookups
    rows = "a,b,c,d\n" + "".join(f"{i},{29 - i},{i}|{i // 2},{'|'.join(str(k) for k in range(i % 5))}\n" for i in range(30))
    scores = [dpi("predict", path, csv(rows), "--device", device).scores()[1] for device in ("cpu", "ref")]
    assert np.abs(scores[0] - scores[1]).max() <= 1e-5 and np.ptp(scores[0]) > 0.1


def test_dot_of_a_long_chain(dpi, tmp_path):
    """Two chains of 20,000 ops that differ in their last op: each op is told apart, and soon enough."""
    from dpi_export import Builder

    b = Builder("chains")
    b.numeric("x")
    for last in ("tanh", "exp"):
        x = b.input("x")
        for i in range(20_000):
            x = b.unary("sigmoid" if i % 3 else "tanh", x)
        b.head(last, b.unary(last, x))
    path = tmp_path / "chains.h5"
    b.write(path, check=False)
    out = dpi("plan", path, "--dot", "--option", "debug.fuse=off", "--fold=off").ok().out
    assert out.count("label=") >= 40_000 - 4 and " (4)" not in out


def test_plugins_are_found_without_proc(tmp_path):
    program = shutil.copy(PROGRAM, tmp_path / "dpi")
    command = f"mount -t tmpfs none /proc && exec {program} devices --json"
    ran = subprocess.run(["unshare", "-m", "sh", "-c", command], capture_output=True, text=True, env={"PATH": os.environ["PATH"]})
    if "unshare" in ran.stderr or "mount" in ran.stderr:
        pytest.skip(ran.stderr.strip())
    plain = subprocess.run([program, "devices", "--json"], capture_output=True, text=True, env={"PATH": os.environ["PATH"]})
    assert ran.returncode == 0, ran.stderr
    searched = lambda text: [d.get("searched") for d in json.loads(text)]  # noqa: E731
    assert searched(ran.stdout) == searched(plain.stdout) and "installation" in plain.stdout


def test_verify_holds_each_row_to_its_own_tolerance(dpi, tmp_path):
    """FM over an empty bag's -1e9: float32 has no digit of that row, and it does not loosen the others."""
    from dpi_export import Builder, Bundle, Rows

    def make(name, **golden):
        rng, b = np.random.default_rng(1), Builder("fm")
        b.categorical("c", 9)
        b.sequence("s", 9, missing="pad")
        vectors = [b.embed(b.input("c"), b.table("u", rng.normal(size=(9, 4)))),
                   b.embed(b.input("s"), b.table("v", rng.normal(size=(9, 4))), pooling="max", empty=-1e9)]
        e = b.reshape(b.concat(vectors), [2, 4])
        s = b.reduce("sum", e, axis=0)
        pairs = b.reduce("sum", b.sub(b.mul(s, s), b.reduce("sumsq", e, axis=0)), axis=0, keepdim=True)
        logit = b.unary("affine", pairs, a=1e-9, b=0.0)
        b.head("p", b.sigmoid(logit), logit=logit)
        b.golden(Rows.from_columns(b, {"c": [1, 2, 3], "s": [[1, 2], [], [5]]}), **golden)
        with pytest.warns(UserWarning, match="row 1"):
            b.write(tmp_path / name, check=False)
        return tmp_path / name

    path = make("fm.h5")
    for fold in ("on", "off"):
        ran = dpi("verify", path, "--option", f"debug.fold={fold}").ok()
        assert "row 1 is ill-conditioned in float32" in ran.out
    j = dpi("verify", path, "--json").json()
    assert [r["row"] for r in j["golden"]["loose_rows"]] == [1] and j["golden"]["loose_rows"][0]["tolerance"] > 1
    with Bundle(path) as q:
        value, own = q.golden["value"].copy(), q.golden["tolerances"]["value"]
    value[2] += 1e-4
    wrong = make("wrong.h5", value=value, tolerance={"value": own})
    ran = dpi("verify", wrong, "--json")
    assert ran.code == 4
    j = json.loads(ran.out)["golden"]["scores"]
    assert j["failed"] == 1 and j["worst_row"] == 2
    dpi("verify", wrong, "--tolerance", "10").ok()
    dpi("predict", wrong, tmp_path / "none.csv", "--option", "verify=golden").fails(3, "golden row 2")


@pytest.mark.parametrize("file", ["weights/demo/adult_widedeep.h5", "weights/demo/msweb_deepfm.h5", "tests/bundle/data/small.h5"])
def test_inspect_prints_slots_and_columns(dpi, file):
    """The widths of a batch, counted from the features as the exporter's own reader gives them."""
    with Bundle(ROOT / file) as bundle:
        widths = {}
        for f in bundle.features:
            slots, columns = widths.get(f.get("space", "item"), (0, 0))
            ids = f["kind"] in ("categorical", "sequence")
            widths[f.get("space", "item")] = (slots + ids, columns + (0 if ids else f.get("dim", 1)))
        want = f"features ({len(bundle.features)}): slots %d, columns %d" % widths["item"]
    want += ", shared slots %d, columns %d" % widths["shared"] if "shared" in widths else ""
    assert want in dpi("inspect", ROOT / file).ok().out.splitlines()
