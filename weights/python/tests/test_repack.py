"""repack: from any HDF5 file with the right contents to a bundle, reading where nothing else can be done."""

import json
import os
import resource
import struct
import subprocess
import sys

import h5py
import numpy as np
import pytest

from dpi_export import Builder, Bundle, BundleError, Rows, encoders, repack
from dpi_export.cli import main


@pytest.fixture
def bundle(small, tmp_path):
    """A bundle with golden rows."""
    small.golden(Rows.from_columns(small, small.columns))
    small.write(tmp_path / "a.h5")
    return tmp_path / "a.h5"


def edited(bundle, path, change=lambda f, m: None, **storage):
    """The bundle's contents in an HDF5 file of h5py's own making; `change(file, manifest)` edits it."""
    with h5py.File(bundle, "r") as source, h5py.File(path, "w", libver="latest") as f:
        manifest = json.loads(source["manifest"][()].tobytes())
        for group in ("tables", "params", "encoders", "golden"):
            for name, item in source.get(group, {}).items():
                f.create_dataset(f"{group}/{name}", data=item[()], **(storage if item.size else {}))
        change(f, manifest)
        f["manifest"] = np.frombuffer(json.dumps(manifest).encode(), "u1")
    return path


def contents(path):
    with Bundle(path) as b:
        b.verify_digests()
        return b.manifest, {p: b.array(p) for p in b.data_sets if p != "/manifest"}


def same(a, b):
    assert a[0] == b[0] and set(a[1]) == set(b[1])
    for path, array in a[1].items():
        np.testing.assert_array_equal(array, b[1][path])


@pytest.mark.parametrize("storage", [{}, {"chunks": True, "compression": "gzip", "shuffle": True}, {"chunks": True, "compression": "lzf"},
                                     {"chunks": True, "fletcher32": True}])
def test_any_storage(bundle, tmp_path, storage):
    path = edited(bundle, tmp_path / "e.h5", **storage)
    repack(path, tmp_path / "out.h5")
    same(contents(bundle), contents(tmp_path / "out.h5"))


def test_a_bundle_stays_what_it_is(bundle, tmp_path):
    repack(bundle, tmp_path / "out.h5")
    same(contents(bundle), contents(tmp_path / "out.h5"))
    repack(tmp_path / "out.h5", tmp_path / "again.h5")
    assert (tmp_path / "again.h5").read_bytes() == (tmp_path / "out.h5").read_bytes()


def test_other_types_are_converted(bundle, tmp_path):
    def wide(f, _):
        for name in list(f["params"]):
            array = f[f"params/{name}"][()]
            del f[f"params/{name}"]
            f[f"params/{name}"] = array.astype(">f8")
        ids = f["golden/ids"][()]
        del f["golden/ids"]
        f["golden/ids"] = ids.astype("<i4")
        bits = f["tables/f16"][()]
        del f["tables/f16"]
        f["tables/f16"] = bits.view("<f2")
    repack(edited(bundle, tmp_path / "e.h5", wide), tmp_path / "out.h5")
    same(contents(bundle), contents(tmp_path / "out.h5"))


@pytest.fixture
def float_keys(tmp_path):
    """A bundle with a vocabulary of floats."""
    b = Builder("keys")
    b.categorical("c", 9, out_of_range="oov", oov_id=0, encoder=[encoders.to_float(), encoders.vocab_float([1, 2, 37])])
    b.table("c", np.arange(9.0).reshape(9, 1))
    b.head("y", b.embed(b.input("c"), "c"))
    b.write(tmp_path / "k.h5")
    return tmp_path / "k.h5"


@pytest.mark.parametrize("dtype, keys", [("<f8", [1, 2, 37]), (">f8", [0.1, -0.0, 1e300]), ("<f4", [0.5, -2, 3]), ("<f2", [0.5, 1, 37])])
def test_keys_given_as_floats(float_keys, tmp_path, dtype, keys):
    """FORMAT.md stores them as bit patterns: as integers 37.0 would be 1.8e-322."""
    def edit(f, _):
        name, = f["encoders"]
        del f[f"encoders/{name}"]
        f[f"encoders/{name}"] = np.array(keys, dtype)
    repack(edited(float_keys, tmp_path / "e.h5", edit), tmp_path / "out.h5")
    with Bundle(tmp_path / "out.h5") as b:
        encoder = b.features[0]["encoder"]
        assert [encoder.encode(repr(float(k))) for k in keys] == [1, 2, 3]
        assert encoder.steps[1]["keys"].tobytes() == (np.array(keys, "<f8") + 0.0).tobytes()


@pytest.mark.parametrize("dtype", ["<i8", "<u8", ">i8"])
def test_keys_given_as_bits(float_keys, tmp_path, dtype):
    def edit(f, _):
        name, = f["encoders"]
        keys = f[f"encoders/{name}"][()]
        del f[f"encoders/{name}"]
        f[f"encoders/{name}"] = keys.astype(dtype)
    repack(edited(float_keys, tmp_path / "e.h5", edit), tmp_path / "out.h5")
    same(contents(float_keys), contents(tmp_path / "out.h5"))


def _short_keys(f, _):
    name, = f["encoders"]
    del f[f"encoders/{name}"]
    f[f"encoders/{name}"] = np.array([1, 2, 37], "<i4")


def test_keys_that_are_neither(float_keys, tmp_path):
    with pytest.raises(BundleError, match="keys of vocab_float are int32, expected floats"):
        repack(edited(float_keys, tmp_path / "e.h5", _short_keys), tmp_path / "out.h5")


def test_an_edited_weight_is_in_the_result(bundle, tmp_path):
    def edit(f, m):
        m.pop("golden")
        del f["golden"]
        f["tables/f32"][3, 0] = 1234.5
        f.attrs["note"] = "gone"
        f["tables/f32"].attrs["note"] = "gone"
    repack(edited(bundle, tmp_path / "e.h5", edit), tmp_path / "out.h5")
    with Bundle(tmp_path / "out.h5") as b:
        assert b.table("f32")[3, 0] == 1234.5 and b.golden is None


def test_golden_rows_are_recomputed(bundle, tmp_path):
    def edit(f, _):
        f["tables/f32"][...] = 3.0
    path = edited(bundle, tmp_path / "e.h5", edit)
    with pytest.raises(BundleError, match="golden rows"):
        repack(path, tmp_path / "out.h5")
    assert not (tmp_path / "out.h5").exists() and not (tmp_path / "out.h5.part").exists()
    repack(path, tmp_path / "out.h5", check=False)
    assert main(["repack", str(path), str(tmp_path / "cli.h5")]) == 1
    assert main(["repack", str(path), str(tmp_path / "cli.h5"), "--no-golden"]) == 0


@pytest.mark.parametrize("values", [slice(None), slice(0, 1)])
def test_golden_values_that_are_not_numbers(bundle, tmp_path, values):
    def edit(f, _):
        f["golden/value"][values] = np.nan
    with pytest.raises(BundleError, match="value: [14] of 4 golden rows differ"):
        repack(edited(bundle, tmp_path / "e.h5", edit), tmp_path / "out.h5")
    assert not (tmp_path / "out.h5").exists()


def test_format_1(bundle, tmp_path):
    def edit(_, m):
        m["version"] = [1, 0]
    repack(edited(bundle, tmp_path / "e.h5", edit), tmp_path / "out.h5")
    assert contents(tmp_path / "out.h5")[0]["version"] == [2, 0]


def _group(f, _):
    f.create_group("tables/deep")


def _other(f, _):
    f["extra"] = np.zeros(3)


def _compound(f, _):
    f["params/c"] = np.zeros(3, dtype=[("a", "<f4"), ("b", "<i4")])


def _strings(f, _):
    f.create_dataset("params/s", data=["a", "b"])


def _external(f, _):
    f["params/e"] = h5py.ExternalLink("/etc/passwd", "/x")


def _external_storage(f, _):
    f.create_dataset("params/e", (32,), "u1", external=[("/etc/passwd", 0, 32)])


def _overflow(f, _):
    f["params/o"] = np.array([1e300])


def _negative(f, _):
    del f["golden/ids"]
    f["golden/ids"] = np.array([0.5])


@pytest.mark.parametrize("change, text", [
    (_group, "/tables/deep"), (_other, "/extra"), (_compound, "/params/c"), (_strings, "/params/s"), (_external, "cannot be read"),
    (_overflow, "cannot be stored"), (_negative, "cannot be stored"), (_external_storage, "cannot be read")])
def test_what_is_no_bundle(bundle, tmp_path, change, text):
    with pytest.raises(BundleError, match=text):
        repack(edited(bundle, tmp_path / "e.h5", change), tmp_path / "out.h5")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.h5", "e.h5"]


def test_a_bomb_is_stopped(bundle, tmp_path):
    def bomb(f, _):
        f.create_dataset("params/zeros", (1 << 28,), "u1", chunks=(1 << 20,), compression="gzip")[:] = 0
    path = edited(bundle, tmp_path / "e.h5", bomb)
    with pytest.raises(BundleError, match="more than the limit"):
        repack(path, tmp_path / "out.h5", limit=1 << 24)


@pytest.mark.parametrize("shape, limit", [((1 << 45,), None), ((1 << 22,), 1 << 22), ((1 << 62, 1 << 62), None)])
def test_what_is_declared_is_weighed_before_it_is_written(bundle, tmp_path, monkeypatch, shape, limit):
    """An unwritten set takes nothing in the file and everything in a bundle; as a parameter of u8 it becomes f32, four times as much."""
    def declare(f, _):
        f.create_dataset("params/z", shape, "u1", chunks=(1 << 20,) + (1,) * (len(shape) - 1), compression="gzip")
    module = sys.modules["dpi_export.bundle.repack"]
    monkeypatch.setattr(module, "ProfileFile", None)  # nothing is written
    with pytest.raises(BundleError, match="/params/z: .* more than the limit"):
        module.unpack(str(edited(bundle, tmp_path / "e.h5", declare)), str(tmp_path / "out.h5"), limit)


def _limited(*args, file_bytes=None):
    """(status, standard error) of the command, whose files may not grow beyond so many bytes."""
    def limit():
        if file_bytes is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    done = subprocess.run([sys.executable, "-B", "-m", "dpi_export", *map(str, args)], capture_output=True, text=True, preexec_fn=limit,
                          env={**os.environ, "PYTHONPATH": root}, timeout=120)
    return done.returncode, done.stderr


@pytest.mark.parametrize("full_at", [2048, 4096, 9000])
def test_a_full_disk_is_told_and_leaves_nothing(bundle, tmp_path, full_at):
    """HDF5's library crashes after a write that failed: not in the caller's process."""
    status, text = _limited("repack", bundle, tmp_path / "out.h5", file_bytes=full_at)
    assert (status, text) == (1, f"error: {tmp_path / 'out.h5'}.part: cannot be written: File too large\n")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.h5"]


def test_where_nothing_can_be_written(bundle, tmp_path):
    status, text = _limited("repack", bundle, tmp_path / "no" / "out.h5")
    assert status == 1 and text.endswith("cannot be written: No such file or directory\n") and text.count("\n") == 1
    (tmp_path / "folder").mkdir()
    status, text = _limited("repack", bundle, tmp_path / "folder")
    assert status == 1 and text == f"error: {tmp_path / 'folder'}: cannot be written: Is a directory\n"


def test_damaged_files_end_in_a_text(bundle, tmp_path):
    """HDF5's library may crash on these; that is the reading process's affair."""
    data = edited(bundle, tmp_path / "e.h5", chunks=True, compression="gzip").read_bytes()
    rng = np.random.default_rng(2)
    for _ in range(25):
        spoiled = bytearray(data)
        for at in rng.integers(0, min(len(data), 20000), 6):
            spoiled[at] = rng.integers(256)
        (tmp_path / "b.h5").write_bytes(spoiled)
        try:
            repack(tmp_path / "b.h5", tmp_path / "out.h5", check=False)
        except BundleError as e:
            assert str(e)
    with pytest.raises(BundleError):
        repack(tmp_path / "none.h5", tmp_path / "out.h5")


def _confined(code):
    """Runs code in a process confined as the reading one is."""
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "dpi_export", "bundle")
    text = (f"import sys, os, socket, ctypes; sys.path.append({root!r}); import confine; confine.limit(1 << 30, 20)\n"
            f"assert confine.refuse_system_calls()\n{code}")
    return subprocess.run([sys.executable, "-I", "-c", text], capture_output=True, text=True, timeout=60)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="seccomp is Linux's")
@pytest.mark.parametrize("code", ["open('/etc/passwd')", "open('none', 'w')", "os.listdir('/')", "socket.socket()", "os.fork()",
                                  "os.execv('/bin/true', ['true'])", "os.kill(os.getppid(), 0)", "os.unlink('none')",
                                  "os.mkdir('none')", "os.symlink('a', 'none')", "os.pipe()", "os.stat('/etc/passwd')"])
def test_what_the_reading_process_cannot_do(code):
    ran = _confined(code)
    assert ran.returncode == 1 and "Operation not permitted" in ran.stderr, (ran.returncode, ran.stderr)


def test_what_it_can_do():
    assert _confined("os.write(1, b'x' * 10); bytearray(50 << 20)").stdout == "x" * 10
    ran = _confined("bytearray(2 << 30)")
    assert "MemoryError" in ran.stderr


def test_truncated_answers(bundle, tmp_path, monkeypatch):
    """What comes from the reading process is not trusted either."""
    from dpi_export import repack as function
    module = sys.modules["dpi_export.bundle.repack"]
    assert function is module.repack

    def answer(data):
        class Fake:
            path, size, left = "x", 10, 0

            def __init__(self, _):
                self.data = data

            def take(self, n):
                self.left -= n
                if self.left < 0 or n > len(self.data):
                    raise BundleError("x: ends")
                out, self.data = self.data[:n], self.data[n:]
                return out

            def close(self):
                pass
        monkeypatch.setattr(module, "_Reader", Fake)
        monkeypatch.setattr(module, "_unpack_in_a_process", module.unpack)
        with pytest.raises(BundleError):
            repack(bundle, tmp_path / "out.h5")

    def index(*sets):
        text = json.dumps({"confined": True, "sets": list(sets)}).encode()
        return struct.pack("<I", len(text)) + text
    answer(b"")
    answer(struct.pack("<I", 2**32 - 1))
    answer(struct.pack("<I", 2) + b"[]")
    answer(index())
    good = {"path": "/manifest", "dtype": "|u1", "shape": [2]}
    for bad in ({"path": "/manifest"}, {**good, "shape": [-1]}, {**good, "shape": [2**62, 4]}, {**good, "dtype": "|O8"},
                {**good, "path": "/../x"}, {**good, "shape": "x"}, {**good, "dtype": 3}):
        answer(index(bad) + b"{}")
        answer(index(good, {**bad, "path": "/params/x"}) + b"{}")


def test_the_source_is_not_written_over(bundle, tmp_path):
    """The bundle is written as TARGET.part first."""
    source = edited(bundle, tmp_path / "out.h5.part")
    before = source.read_bytes()
    with pytest.raises(BundleError, match="out.h5.part: is the file that is read"):
        repack(source, tmp_path / "out.h5")
    assert source.read_bytes() == before and not (tmp_path / "out.h5").exists()
