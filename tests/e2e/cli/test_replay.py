"""`dpi replay`: scores and places against numpy and a second reader (record_files.py); files that are refused."""

import json
import struct

import numpy as np
import pytest

from record_files import digest, made, model, read_file, record


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return made(tmp_path_factory)


def test_replay_has_the_same_bits(tmp_path, bundle, dpi):
    path, asked = record(tmp_path, bundle)
    told = dpi("replay", path, bundle, "--device", "cpu", "--json", "--limit", "0").json()
    assert told["requests"] == len(asked) and told["rows"] == sum(a["rows"] for a in asked) == told["same_rows"]
    assert told["ended"] is True and told["within_limit"] is True
    (source,) = told["recorded"]
    assert source["version"] == 7 and source["same_bundle"] is True and source["scored"]["model"] == "recorded"
    for h, head in enumerate(told["heads"]):
        scores = np.concatenate([a["scores"][:, h] for a in asked]).astype("f8")
        assert head["mean_recorded"] == pytest.approx(scores.mean(), rel=1e-12) and head["shift"]["largest"] == 0
    assert 0 < told["latency_us"]["recorded"]["p50"] <= told["latency_us"]["recorded"]["p99"]
    text = dpi("replay", path, bundle, "--device", "cpu").ok().out
    assert "rows with the same bits" in text and "of this bundle" in text and "not ended" not in text


def test_replay_measures_how_far_another_bundle_is(tmp_path, bundle, dpi):
    path, asked = record(tmp_path, bundle)
    other = model(tmp_path / "other.h5", scale=1.25)
    (tmp_path / "x").mkdir()
    again, _ = record(tmp_path / "x", other)
    want = np.concatenate([r["scores"] for r in read_file(again.read_bytes())[1]]).astype("f8")
    was = np.concatenate([a["scores"] for a in asked]).astype("f8")
    ran = dpi("replay", path, other, "--device", "cpu", "--json", "--limit", "0.01")
    ran.fails(4, "head '", "--limit is 0.01", "request ")
    told = json.loads(ran.out)
    assert told["recorded"][0]["same_bundle"] is False and told["within_limit"] is False
    first = np.cumsum([0] + [a["rows"] for a in asked])
    for h, head in enumerate(told["heads"]):
        apart = np.abs(want[:, h] - was[:, h])
        shift = head["shift"]
        assert shift["largest"] == pytest.approx(apart.max(), rel=1e-12) and shift["mean"] == pytest.approx(apart.mean(), rel=1e-9)
        assert first[shift["request"]] + shift["row"] == apart.argmax()
        assert read_file(path.read_bytes())[1][shift["request"]]["at"] == shift["byte"]


def test_replay_refuses_another_schema(tmp_path, bundle, dpi):
    path, _ = record(tmp_path, bundle, 3)
    at = read_file(path.read_bytes())[1][0]["at"]
    other = model(tmp_path / "other.h5", vocabulary=("cook", "nurse"))
    dpi("replay", path, other).fails(2, f"request 0 at byte {at}", "another schema", "version 7")
    dpi("replay", path, tmp_path / "none.h5").fails(3, "none.h5")
    dpi("replay", tmp_path / "none.rec", bundle).fails(2, "none.rec")
    dpi("replay", bundle, bundle).fails(2, "it is no record file")


def sealed(kind, payload, at, **head):
    """A frame with digests that are right."""
    first = struct.pack("<IIQQ", kind, head.get("zero", 0), head.get("length", len(payload)), digest(payload))
    return first + struct.pack("<Q", digest(first, seed=at)) + payload


def test_hostile_files_are_refused_by_their_place(tmp_path, bundle, dpi):
    path, _ = record(tmp_path, bundle, 3)
    data = path.read_bytes()
    _, requests, _, _ = read_file(data)
    last = requests[-1]["at"]
    (n,) = struct.unpack_from("<Q", data, last + 8)
    payload = data[last + 32:last + 32 + n]
    bad = tmp_path / "bad.rec"

    def refused(bytes_, *texts):
        bad.write_bytes(bytes_)
        dpi("replay", bad, bundle).fails(2, "bad.rec", *texts)

    refused(data[:39], "ends before its first 40 bytes")
    refused(data[:100], "no whole request")
    refused(b"X" + data[1:], "no record file")
    refused(data[:8] + b"\2" + data[9:], "version 2")
    refused(data[:20] + b"\xff" + data[21:], "first bytes")
    refused(data + bytes(8), "bytes follow its last frame")
    for at in range(last, last + 32 + n, 7):  # any byte of a frame
        refused(data[:at] + bytes([data[at] ^ 4]) + data[at + 1:], f"byte {last}:", "2 requests before it are whole")
    cut = data[:last]
    where = f"byte {last}: "
    refused(cut + sealed(9, payload, last), where, "kind 9")
    refused(cut + sealed(2, payload, last, length=1 << 60), where, "frame of")
    refused(cut + sealed(2, payload, last, length=n + 1), where, "frame of")
    refused(cut + sealed(2, payload[:40], last), where, "request of 40 bytes")
    refused(cut + sealed(1, payload[:48], last), where)
    refused(cut + sealed(3, struct.pack("<QQ", 9, 0), last), where, "counts 9 requests")
    refused(cut + sealed(2, payload, last + 8), where, "head of a frame")  # a frame of another place
    for at, form, value in ((0, "<I", 1), (4, "<I", 64), (24, "<q", 0), (24, "<q", 1 << 62), (24, "<q", -1), (32, "<q", 1 << 61), (32, "<q", -8),
                            (40, "<q", 1 << 31), (56, "<I", 0xffffffff), (60, "<I", 0xffffffff), (72, "<I", 0), (72, "<I", 1 << 31), (76, "<I", 1)):
        changed = bytearray(payload)
        struct.pack_into(form, changed, at, value)
        refused(cut + sealed(2, bytes(changed), last), where)
    for cut_at in (last + 1, last + 31, last + 32 + n // 2):  # what is cut is told, and the rest is replayed
        bad.write_bytes(data[:cut_at])
        told = dpi("replay", bad, bundle, "--json").json()
        assert (told["ended"], told["requests"], told["whole_bytes"], told["left_over_bytes"]) == (False, 2, last, cut_at - last)


def test_requests_that_the_model_refuses_name_their_place(tmp_path, bundle, dpi):
    path, _ = record(tmp_path, bundle, 2)
    data = path.read_bytes()
    _, requests, _, _ = read_file(data)
    r = requests[1]
    at = r["at"]
    (n,) = struct.unpack_from("<Q", data, at + 8)
    payload = bytearray(data[at + 32:at + 32 + n])
    struct.pack_into("<q", payload, 80 + 8 * r["nnz"], 5)  # the first bag's offset
    bad = tmp_path / "bad.rec"
    bad.write_bytes(data[:at] + sealed(2, bytes(payload), at))
    dpi("replay", bad, bundle).fails(2, f"bad.rec: request 1 at byte {at}: ", "offsets[0] is 5")
