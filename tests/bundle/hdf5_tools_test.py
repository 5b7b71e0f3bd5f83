"""Every bundle is a plain HDF5 file, and the engine's reader sees in it what h5py and h5dump see. The package's reader, which uses
no h5py either, accepts what the engine's accepts.

    hdf5_tools_test.py HDF5_LISTING LIBDPI FOLDER ON|OFF

HDF5_LISTING prints the engine's view (hdf5_listing.cpp). Compared are all bundles of the source tree and bundles made here for
structures that those do not have: B-trees of three levels, long names, continued object headers, time stamps.
LIBDPI is the library, which must need no HDF5 itself; ON: nor anything but libc and libm (DPI_SELF_CONTAINED). FOLDER/gpu_make_bundle, where it is built, writes one more without HDF5's
library.
"""

import json
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("weights/demo", "tests/e2e/golden", "tests/e2e/op_bundles", "tests/encode/data", "tests/bundle/data")
SKIPPED = 77
sys.path.insert(0, str(ROOT / "weights/python"))
TYPES = {"u8": "|u1", "i8": "|i1", "u16": "<u2", "i64": "<i8", "u64": "<u8", "f32": "<f4"}

try:
    import h5py
    import numpy as np
    import xxhash
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(SKIPPED)


def seal(path, u):
    """Writes the user block of FORMAT.md part 1 into a finished HDF5 file, without hashes: nobody here asks for them."""
    data, extents = bytearray(path.read_bytes()), []

    def visit(_, item):
        if isinstance(item, h5py.Dataset) and item.name != "/manifest" and item.size:
            extents.append((item.id.get_offset(), item.size * item.dtype.itemsize))
    with h5py.File(path, "r") as f:
        f.visititems(visit)
    extents.sort()
    body = b"".join(struct.pack("<QQQ32x", o, n, xxhash.xxh3_64_intdigest(bytes(data[o:o + n]))) for o, n in extents)
    assert 768 + len(body) <= u

    def block(value):
        head = struct.pack("<8sIIQQQQ", b"DPIBNDL\0", 2, 0, u, len(data), len(extents), value)
        return (head.ljust(768, b"\0") + body).ljust(u, b"\0")
    state, at = xxhash.xxh3_64(block(0)), u
    for o, n in extents:
        state.update(bytes(data[at:o]))
        at = o + n
    state.update(bytes(data[at:]))
    data[:u] = block(state.intdigest())
    path.write_bytes(data)


def make(path, fill, u=8192, track_times=False):
    """A bundle file whose data sets `fill(create)` makes; create(name, array) gives the h5py data set."""
    fcpl = h5py.h5p.create(h5py.h5p.FILE_CREATE)
    fcpl.set_userblock(u)
    fapl = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    fapl.set_libver_bounds(h5py.h5f.LIBVER_EARLIEST, h5py.h5f.LIBVER_V110)
    with h5py.File(h5py.h5f.create(os.fsencode(path), h5py.h5f.ACC_TRUNC, fcpl, fapl)) as f:
        f.create_dataset("manifest", data=np.frombuffer(b"{}", "u1"))
        fill(lambda name, array: f.create_dataset(name, data=array, track_times=track_times))
    seal(path, u)
    return path


def made(folder):
    """Bundles with structures that the tree's own bundles do not have."""
    rng = np.random.default_rng(3)

    def many(create):
        for i in rng.permutation(9000):
            create(f"params/p{i}", np.float32([i]) if i % 3 == 0 else np.empty((0, 3), "f4"))

    def kinds(create):
        for kind, dtype in TYPES.items():
            for rank in range(1, 9):
                create(f"params/{kind}.{rank}", rng.integers(0, 100, size=[1 + (r + rank) % 2 for r in range(rank)]).astype(dtype))

    def continued(create):
        for i in range(20):
            d = create(f"tables/t{i}", np.arange(6, dtype="<f4").reshape(2, 3))
            for k in range(8):
                d.attrs[f"a{k}"] = np.arange(40.0)
            for k in range(8):
                del d.attrs[f"a{k}"]

    def long_names(create):
        for i in range(150):
            create(f"encoders/{'x' * (200 - len(str(i)))}{i}", np.arange(i + 1))
    yield make(folder / "many.h5", many, u=1 << 18)
    yield make(folder / "kinds.h5", kinds)
    yield make(folder / "continued.h5", continued)
    yield make(folder / "long_names.h5", long_names, u=1 << 14)
    yield make(folder / "times.h5", kinds, track_times=True)


def written_alone(program, folder):
    """A bundle of gpu_make_bundle, which writes HDF5's structures itself."""
    arrays = [{"path": f"/params/p{i}", "shape": [1 + i % 3] * (1 + i % 8), "scale": 1.0} for i in range(100)]
    arrays += [{"path": "/tables/t", "shape": [1000, 16], "scale": 0.1}]
    spec, out = folder / "spec.json", folder / "alone.h5"
    spec.write_text(json.dumps({"manifest": {}, "arrays": arrays}), encoding="utf-8")
    subprocess.run([program, spec, out], check=True, timeout=60)
    with h5py.File(out, "r") as f:
        for a in arrays:
            assert list(f[a["path"]].shape) == a["shape"], a
        assert abs(f["/tables/t"][()].std() - 0.1) < 0.01
    return out


def compare(view):
    """The engine's view of one file against h5py's; returns the number of data sets."""
    path, seen = view["file"], {}
    data = pathlib.Path(path).read_bytes()
    with h5py.File(path, "r") as f:
        f.visititems(lambda _, item: seen.__setitem__(item.name, item) if isinstance(item, h5py.Dataset) else None)
        manifest = seen.pop("/manifest")
        assert f"{xxhash.xxh3_64_intdigest(manifest[()].tobytes()):016x}" == view["manifest_xxh3"], path
        assert sorted(seen) == [s["path"] for s in view["sets"]], path
        for s in view["sets"]:
            other = seen[s["path"]]
            where = f"{path}:{s['path']}"
            assert other.dtype == np.dtype(TYPES[s["type"]]) and list(other.shape) == s["shape"], where
            assert s["bytes"] == other.size * other.dtype.itemsize, where
            if s["bytes"]:
                assert other.id.get_offset() == s["offset"], where
                assert other[()].tobytes() == data[s["offset"]:s["offset"] + s["bytes"]], where
    assert view["bytes_read"] <= 2 * view["metadata"], path
    return len(view["sets"])


def dump(view, folder):
    """h5dump lists the file, and writes one data set as the engine finds it."""
    path = view["file"]
    out = subprocess.run(["h5dump", "-n", path], capture_output=True, text=True, check=True, timeout=60).stdout
    listed = [line.split(None, 1)[1].strip() for line in out.splitlines() if line.startswith(" dataset")]
    assert sorted(listed) == sorted([s["path"] for s in view["sets"]] + ["/manifest"]), path
    s = max(view["sets"], key=lambda s: s["bytes"])
    raw = folder / "raw"
    subprocess.run(["h5dump", "-d", s["path"], "-b", "LE", "-o", raw, path], capture_output=True, check=True, timeout=60)
    data = pathlib.Path(path).read_bytes()
    assert raw.read_bytes() == data[s["offset"]:s["offset"] + s["bytes"]], f"{path}:{s['path']}"


def changed_copies(folder, rounds):
    """Copies of small.h5 with bytes of their HDF5 structures changed and the digest of the other bytes written anew."""
    sound, rng = (ROOT / "tests/bundle/data/small.h5").read_bytes(), random.Random(11)
    u, n = struct.unpack_from("<Q", sound, 16)[0], struct.unpack_from("<Q", sound, 32)[0]
    extents = [struct.unpack_from("<QQ", sound, 768 + 56 * i) for i in range(n)]
    taken = {i for offset, size in extents for i in range(offset, offset + size)}
    places = [i for i in range(u, len(sound)) if i not in taken]
    for k in range(rounds):
        data = bytearray(sound)
        for at in rng.sample(places, rng.randint(1, 2)):
            if rng.random() < 0.5:
                data[at] ^= 1 << rng.randrange(8)
            elif at + 8 <= len(data):
                data[at:at + 8] = struct.pack("<Q", rng.choice((0, 1, 2**64 - 1, 2**63, 96, rng.choice(places) - u)))
        data = data[:len(sound)]
        state, at = xxhash.xxh3_64(bytes(data[:40]) + bytes(8) + bytes(data[48:u])), u
        for offset, size in [*extents, (len(data), 0)]:
            state.update(bytes(data[at:offset]))
            at = offset + size
        data[40:48] = struct.pack("<Q", state.intdigest())
        path = folder / f"changed{k}.h5"
        path.write_bytes(data)
        yield path


def python_view(path):
    """What the package's reader sees of the HDF5 part, or None when it refuses it."""
    from dpi_export import BundleError
    from dpi_export.bundle import digest
    from dpi_export.bundle.hdf5_structures import Metadata, Structures
    with open(path, "rb") as f:
        block = digest.unpack(f, path.stat().st_size)
        try:
            runs = digest.metadata_runs(block.u, block.length, block.extents)
            sets, _ = Structures(Metadata(f, block.u, block.length, runs)).contents(block.extents)
        except BundleError:
            return None
    return sorted((name, s["dtype"].str, list(s["shape"]), s["bytes"]) for name, s in sets.items() if name != "/manifest")


def check_same_rules(listing, folder, rounds=1500):
    """The engine's reader and the package's accept the same files, and see the same in them."""
    paths = list(changed_copies(folder, rounds))
    out = subprocess.run([listing, *paths], capture_output=True, text=True, timeout=300).stdout
    engine = {v["file"]: sorted((s["path"], TYPES[s["type"]], s["shape"], s["bytes"]) for s in v["sets"])
              for v in map(json.loads, out.splitlines())}
    for path in paths:
        ours = python_view(path)
        assert ours == engine.get(str(path)), f"{path}: {ours} and {engine.get(str(path))}"
        path.unlink()
    assert rounds // 10 < len(engine) < rounds, len(engine)
    return len(engine), rounds


def check_needed(library, self_contained):
    """The library needs the few that the README names, and nothing that HDF5 would bring."""
    allowed = {"libc", "libm", "ld-linux-x86-64", "ld-linux-aarch64"}
    if not self_contained:
        allowed |= {"libxxhash", "libsodium", "libstdc++", "libgcc_s"}
    out = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True).stdout
    needed = {line.split("[")[1].split(".so")[0] for line in out.splitlines() if "(NEEDED)" in line}
    more = {n for n in needed if not n.startswith(("libasan", "libubsan", "libtsan", "libclang_rt"))} - allowed
    assert not more, f"{library} needs {sorted(more)}"


def main():
    listing, library, tools, self_contained = sys.argv[1:]
    check_needed(library, self_contained == "ON")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        committed = sorted(p for top in FOLDERS for p in (ROOT / top).rglob("*.h5"))
        assert len(committed) >= 41, len(committed)
        paths = committed + list(made(folder))
        program = pathlib.Path(tools, "gpu_make_bundle")
        if program.exists():
            paths.append(written_alone(program, folder))
        out = subprocess.run([listing, *paths], capture_output=True, text=True, timeout=120)
        assert out.returncode == 0, out.stderr
        views = [json.loads(line) for line in out.stdout.splitlines()]
        assert [v["file"] for v in views] == [str(p) for p in paths]
        sets = sum(compare(view) for view in views)
        assert sets > 10000, sets
        if shutil.which("h5dump") is None:
            print("h5dump is not installed: compared with h5py only")
        else:
            for view in views:
                dump(view, folder)
        accepted, rounds = check_same_rules(listing, folder)
    print(f"{rounds} changed bundles: the engine's reader and the package's accept the same {accepted}")
    print(f"{len(views)} bundles, {sets} data sets: the same for the engine, h5py and h5dump")


if __name__ == "__main__":
    main()
