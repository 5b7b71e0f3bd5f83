"""Rows of i4, i2 and fp8 as the exporter rounds them: i4 and i2 byte for byte as FBGEMM does by way of torch, fp8 to the nearest of all 256
numbers; what is refused; what the reader says to files that are wrong."""

import json

import h5py
import numpy as np
import pytest
import torch

from dpi_export import Builder, BundleError, repack
from dpi_export.bundle.reader import Bundle
from dpi_export.bundle.tables import decode, encode

WIDE = {"i4": (2, 4, 8, 10, 16, 64, 128), "i2": (4, 8, 12, 16, 64, 128)}  # widths that FBGEMM has


def rows(dim, size, seed=0):
    rng = np.random.default_rng(seed)
    v = (rng.normal(size=(200, dim)) * size).clip(-65000, 65000).astype("f4")
    v[0], v[1], v[2], v[3] = 0, v[1, 0], 1.5, np.abs(v[3])
    v[4, 1:] = v[4, 0]
    return v


@pytest.mark.parametrize("dtype", ("i4", "i2"))
@pytest.mark.parametrize("size", (6e-8, 1e-6, 1e-3, 1, 100, 3e4))
def test_rows_are_those_of_fbgemm(dtype, size):
    bits = int(dtype[1])
    prepack, unpack = (getattr(torch.ops.quantized, f"embedding_bag_{bits}bit_{what}") for what in ("prepack", "unpack"))
    for dim in WIDE[dtype]:
        values = rows(dim, size)
        want = prepack(torch.from_numpy(values))
        stored, (scale, offset) = encode(values, dtype)
        got = np.concatenate([stored, scale.view("u1").reshape(-1, 2), offset.view("u1").reshape(-1, 2)], axis=1)
        assert np.array_equal(got, want.numpy()), dim
        np.testing.assert_allclose(decode(stored, dtype, (scale, offset), dim), unpack(want).numpy(), rtol=2e-7, atol=1e-7 * size)


@pytest.mark.parametrize("dtype", ("i4", "i2"))
def test_odd_widths_are_wide_rows_cut_off(dtype):
    """A row padded with its own elements has the same scale and offset, and its first bytes are the same but for the last one."""
    for dim in (1, 2, 3, 5, 7, 9, 33):
        values = rows(dim, 1.0, dim)
        stored, scalars = encode(values, dtype)
        wide, same = encode(np.tile(values, 8), dtype)
        assert all(np.array_equal(a, b) for a, b in zip(scalars, same))
        assert np.array_equal(decode(stored, dtype, scalars, dim), decode(wide, dtype, same, 8 * dim)[:, :dim])
        used = dim * int(dtype[1]) % 8
        assert not used or not (stored[:, -1] >> used).any()


def test_fp8_is_the_nearest_number():
    numbers = np.array([(-1) ** (b >> 7) * (m * 2.0**-9 if e == 0 else (8 + m) * 2.0**(e - 10))
                        for b in range(256) for e, m in [(b >> 3 & 15, b & 7)] if b & 127 != 127])
    for size in (1e-30, 1e-3, 1.0, 1e30):
        values = rows(7, size)
        stored, (scale,) = encode(values, "fp8")
        assert scale.dtype == np.dtype("<f4") and not ((stored & 127) == 127).any()
        got = decode(stored, "fp8", (scale,)).astype(np.float64)
        x = np.divide(values, scale[:, None], where=scale[:, None] > 0, out=np.zeros_like(values)).astype(np.float64)
        best = np.abs(x[..., None] - numbers).min(axis=-1)
        off = np.abs(got - values) / np.where(scale > 0, scale, 1)[:, None]
        assert (off <= best + 1e-4 * np.abs(x)).all()
        assert (np.abs(got).max(axis=1) >= 0.999999 * np.abs(values).max(axis=1)).all()
    assert encode(np.zeros((1, 3)), "fp8")[0].tolist() == [[0, 0, 0]]


@pytest.mark.parametrize("dtype", ("i4", "i2", "fp8"))
@pytest.mark.parametrize("bad", (np.nan, np.inf, -np.inf))
def test_what_is_not_finite_is_refused_by_the_table(dtype, bad):
    values = rows(5, 1.0)
    values[7, 2] = bad
    b = Builder("m")
    b.categorical("c", len(values))
    x = b.embed(b.input("c"), b.table("item", values, dtype=dtype))
    b.head("z", b.linear(x, np.ones((1, 5))))
    with pytest.raises(BundleError, match=r"table 'item', rows 0\.\.199: a value is not finite"):
        b.write("/dev/null")


@pytest.mark.parametrize("dtype", ("i4", "i2"))
@pytest.mark.parametrize("value", (-7e4, 3e6))
def test_what_f16_does_not_hold_is_refused(dtype, value):
    with pytest.raises(BundleError, match=f"are beyond what an f16 scale and offset of {dtype} hold"):
        encode(np.array([[0, 1, value]]), dtype)


def bundle(path, dtype="i4", dim=5):
    b = Builder("m")
    b.categorical("c", 6)
    b.head("z", b.linear(b.embed(b.input("c"), b.table("item", rows(dim, 1.0)[:6], dtype=dtype)), np.ones((1, dim))))
    b.write(path)
    return path


@pytest.mark.parametrize("dtype", ("i4", "i2", "fp8"))
def test_read_write_and_repack_keep_the_bytes(tmp_path, dtype):
    made = bundle(tmp_path / "a.h5", dtype)
    with h5py.File(made, "r") as source, h5py.File(tmp_path / "b.h5", "w") as f:  # as any HDF5 tool might write it
        assert json.loads(source["manifest"][()].tobytes())["version"] == [2, 2]
        for group in source:
            item = source[group]
            if group == "manifest":
                f.create_dataset(group, data=item[()])
            else:
                for name in item:
                    f.create_dataset(f"{group}/{name}", data=item[name][()], chunks=True, compression="gzip")
    repack(tmp_path / "b.h5", tmp_path / "c.h5")
    assert Bundle(made).table("item").tobytes() == Bundle(tmp_path / "c.h5").table("item").tobytes()
    with h5py.File(made) as a, h5py.File(tmp_path / "c.h5") as c:
        assert all(np.array_equal(a[f"tables/{n}"][()], c[f"tables/{n}"][()]) for n in a["tables"])


def edited(path, target, change):
    """The bundle with another manifest, by way of repack."""
    with h5py.File(path, "r") as source, h5py.File(target.with_suffix(".edit"), "w") as f:
        manifest = json.loads(source["manifest"][()].tobytes())
        change(manifest)
        f.create_dataset("manifest", data=np.frombuffer(json.dumps(manifest).encode(), "u1"))
        for group in source:
            if group != "manifest":
                source.copy(source[group], f, group)
    repack(target.with_suffix(".edit"), target, check=None)
    return target


@pytest.mark.parametrize("change, text", (
    (lambda m: m.update(version=[2, 1]), "dtype i4 needs format 2.2, the file says 2.1"),
    (lambda m: m["tables"][0].pop("offset"), "offset of table 'item'"),
    (lambda m: m["tables"][0].update(dim=7), r"\[6, 3\]"),
    (lambda m: m["tables"][0].update(dtype="f32"), "key 'offset' is not known"),
    (lambda m: m["tables"][0].update(offset=m["tables"][0]["scale"]), "names it, and another table does too")))
def test_wrong_files_are_refused(tmp_path, change, text):
    with pytest.raises(BundleError, match=text):
        Bundle(edited(bundle(tmp_path / "a.h5"), tmp_path / "b.h5", change))
