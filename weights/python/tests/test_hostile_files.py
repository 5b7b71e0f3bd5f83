"""The reader on changed bytes: a Bundle or a BundleError, whatever they are. Digests and hashes are written anew each time, as their
author could."""

import json
import os
import pathlib
import random
import struct
import subprocess
import sys

import numpy as np
import pytest
import xxhash

from dpi_export import Builder, Bundle, BundleError, Rows
from dpi_export.bundle import digest
from dpi_export.bundle.content_hash import DATA, METADATA, TreeHash


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A bundle's bytes with vocabularies, shared rows, i8 and golden rows."""
    b = Builder("sound")
    b.categorical("city", 5, out_of_range="oov", oov_id=0, missing="pad",
                  encoder=[{"op": "trim"}, {"op": "vocab_string", "bytes": np.frombuffer(b"ulmbonn", "u1"),
                                            "offsets": np.array([0, 3, 7], "u8"), "first_id": 1}])
    b.sequence("tags", 7, max_len=3, weighted=True, missing="pad", space="shared",
               encoder=[{"op": "vocab_int", "keys": np.array([5, -6], "i8"), "ids": np.array([1, 2], "i8"), "first_id": 1}])
    b.numeric("age", missing="default")
    b.table("city", np.arange(20.0).reshape(5, 4), dtype="i8")
    b.table("tags", np.arange(14.0).reshape(7, 2), dtype="f16")
    x = b.concat([b.embed(b.input("city"), "city"), b.embed(b.input("tags"), "tags", pooling="sum"), b.input("age")])
    logit = b.linear(x, np.ones((1, 7)), np.zeros(1))
    b.head("ctr", b.sigmoid(logit), logit=logit)
    b.golden(Rows(dense=[[0.5], [1.0]], ids=[1, 2], offsets=[0, 1, 2], shared_offsets=[0, 2], shared_ids=[3], shared_bag_offsets=[0, 1],
                  shared_weights=[0.5]))
    path = tmp_path_factory.mktemp("sound") / "a.h5"
    b.write(path)
    return path.read_bytes()


class Image:
    """A bundle's bytes and where its parts are."""

    def __init__(self, data, path):
        self.data = data
        path.write_bytes(data)
        with Bundle(path) as b:
            self.u, self.extents, self.sets = b.u, b.extents, b.data_sets
        taken = {i for offset, n, *_ in self.extents for i in range(offset, offset + n)}
        self.places = [i for i in range(self.u, len(data)) if i not in taken]
        m = self.sets["/manifest"]
        self.manifest = range(m["offset"], m["offset"] + m["bytes"])

    def sealed(self, data):
        """`data` with all hashes and digests right."""
        rest, at, extents = b"", self.u, []
        for offset, n, *_ in self.extents:
            rest += data[at:offset]
            at = offset + n
            extents.append((offset, n, xxhash.xxh3_64_intdigest(data[offset:at]), tree(DATA, data[offset:at])))
        rest += data[at:]
        parts = (self.u, len(data), extents)
        value = xxhash.xxh3_64_intdigest(digest.pack(*parts, 0, tree(METADATA, rest)) + rest)
        return digest.pack(*parts, value, tree(METADATA, rest)) + data[self.u:]


def tree(domain, data):
    state = TreeHash(domain)
    state.update(data)
    return state.digest()


def read(path, data):
    """Reads all there is; True when it was accepted."""
    path.write_bytes(data)
    try:
        with Bundle(path) as b:
            b.verify_digests()
            assert b.golden is None or b.golden["n"] > 0
            for t in b.tables:
                b.table(t["name"])
            for f in b.features:
                if f.get("encoder") and f["encoder"].steps:
                    try:
                        f["encoder"].encode_for(f, "bonn" if f["name"] == "city" else "5")
                    except BundleError:
                        pass
        return True
    except BundleError as e:
        assert str(e)
        return False


def test_each_structure_byte(sound, tmp_path):
    image, tried = Image(sound, tmp_path / "s.h5"), 0
    structures = [i for i in image.places if i not in image.manifest]
    for at in structures[::3]:
        changed = bytearray(sound)
        changed[at] ^= 1 << at % 8
        read(tmp_path / "a.h5", image.sealed(bytes(changed)))
        tried += 1
    assert tried > 500


def test_structure_words(sound, tmp_path):
    image, rng = Image(sound, tmp_path / "s.h5"), random.Random(3)
    words = [i for i in image.places if i % 8 == 0 and i not in image.manifest and i + 8 <= len(sound)]
    refused = 0
    for _ in range(1500):
        changed = bytearray(sound)
        for at in rng.sample(words, rng.randint(1, 2)):
            value = rng.choice([0, 1, 2**64 - 1, 2**63, 2**32, len(sound) - image.u, rng.choice(words) - image.u, rng.getrandbits(64)])
            struct.pack_into("<Q", changed, at, value)
        refused += not read(tmp_path / "a.h5", image.sealed(bytes(changed)))
    assert refused > 300


def test_manifest_characters(sound, tmp_path):
    image, rng = Image(sound, tmp_path / "s.h5"), random.Random(4)
    alphabet = b'0123456789"{}[],:.-eaNtrufls \\\x00\xff'
    for _ in range(1500):
        changed = bytearray(sound)
        for at in rng.sample(list(image.manifest), rng.randint(1, 3)):
            changed[at] = rng.choice(alphabet)
        read(tmp_path / "a.h5", image.sealed(bytes(changed)))


def places_of(value, path=()):
    """Every place of a JSON value."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places_of(inner, (*path, key))


def test_manifest_values(sound, tmp_path):
    """Every value of the manifest becomes another: of another type, huge, negative, gone."""
    image = Image(sound, tmp_path / "s.h5")
    text = sound[image.manifest.start:image.manifest.stop]
    manifest, room = json.loads(text), len(text)
    del manifest["provenance"]
    accepted = 0
    for place in list(places_of(manifest))[1:]:
        for value in (None, True, -1, 2**62, 2**80, 1.5, 1e308, "", "x", [], {}, [[]], [{}], "delete"):
            changed = json.loads(json.dumps(manifest))
            parent = changed
            for key in place[:-1]:
                parent = parent[key]
            if value == "delete":
                del parent[place[-1]]
            else:
                parent[place[-1]] = value
            new = json.dumps(changed, separators=(",", ":")).encode().ljust(room)
            if len(new) > room:
                continue
            data = sound[:image.manifest.start] + new + sound[image.manifest.stop:]
            accepted += read(tmp_path / "a.h5", image.sealed(data))
    assert accepted > 0


def test_data_values(sound, tmp_path):
    """Offsets, ids, keys and golden rows of any value."""
    image, rng = Image(sound, tmp_path / "s.h5"), random.Random(5)
    for _ in range(600):
        changed = bytearray(sound)
        offset, n, *_ = rng.choice(image.extents)
        for _ in range(rng.randint(1, 3)):
            changed[offset + rng.randrange(n)] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
        read(tmp_path / "a.h5", image.sealed(bytes(changed)))


@pytest.mark.parametrize("script", ["make_raw_bundles.py", "make_bad_bundles.py"])
def test_what_the_engine_refuses(tmp_path, script):
    """The lists of malformed bundles that the engine's reader is held to (tests/bundle/bad_list_test.cpp)."""
    path = pathlib.Path(__file__).resolve().parents[3] / "tests" / "bundle" / script
    subprocess.run([sys.executable, "-B", path, tmp_path], check=True, capture_output=True, env=os.environ)
    cases = json.loads((tmp_path / "cases.json").read_text())
    accepted = []
    for case in cases:
        try:
            with Bundle(tmp_path / case["file"]) as b:
                b.verify_digests()
                assert b.golden is None or b.golden["n"] > 0
            accepted.append(case["file"])
        except BundleError:
            pass
    assert len(cases) > 90 and accepted == [case["file"] for case in cases if case["status"] == "DPI_OK"]


def test_cut(sound, tmp_path):
    for n in range(0, len(sound), 41):
        assert not read(tmp_path / "a.h5", sound[:n])


def test_the_sound_one_is_read(sound, tmp_path):
    assert read(tmp_path / "a.h5", sound)
    assert read(tmp_path / "a.h5", Image(sound, tmp_path / "s.h5").sealed(sound))
