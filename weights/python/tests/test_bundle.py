"""Writing and reading bundle files: round trip, HDF5 profile, determinism, flat memory, refusals of damage."""

import tracemalloc

import h5py
import numpy as np
import pytest

from dpi_export import Builder, Bundle, BundleError, Executor, Rows
from dpi_export.cli import main
from dpi_export.ops.conditioning import rounding_errors
from dpi_export.encoders import vocab_int, vocab_string
from dpi_export.bundle.golden import compare_golden


def golden(b):
    b.golden(Rows.from_columns(b, b.columns))
    return b


def test_round_trip(small, tmp_path):
    golden(small).write(tmp_path / "a.h5")
    with Bundle(tmp_path / "a.h5") as q:
        assert q.verify_digests() == len(q.extents) > 0
        assert [f["name"] for f in q.features] == ["item", "hist", "age", "vec"]
        assert q.ops == small.ops and q.heads == small.heads and q.tables == small.tables
        for op in small.ops:
            assert q.shape(op["name"]) == small.shape(op["name"]) and q.space(op["name"]) == small.space(op["name"])
            for name in op.get("params", {}).values():
                np.testing.assert_array_equal(q.param(name), small.param(name))
        for t in small.tables:
            np.testing.assert_array_equal(q.table(t["name"]), small.gather(t["name"], np.arange(t["rows"])))
        again = Executor(q).run(q.golden["rows"])["value"]["ctr"]
        np.testing.assert_allclose(again, q.golden["value"][:, 0], atol=1e-7)
        assert q.features[0]["encoder"].encode("b") == 2


def test_equal_vocabularies_are_stored_once(tmp_path):
    b = Builder("m")
    for i, (texts, ids) in enumerate((("ab c", None), ("ab c", [2, 1]), ("a bc", None), ("ab c", [2, 1]))):
        b.categorical(f"f{i}", 9, out_of_range="oov", oov_id=0, encoder=[vocab_string(texts.split(), ids=ids)])
    for i in range(2):
        b.categorical(f"k{i}", 9, out_of_range="oov", oov_id=0, encoder=[vocab_int([5, 6])])
    b.head("s", b.input(b.numeric("x")), activation="none")
    b.write(tmp_path / "a.h5")
    with Bundle(tmp_path / "a.h5") as q:
        assert sorted(p for p in q.data_sets if p.startswith("/encoders/")) == [
            "/encoders/f0.bytes", "/encoders/f0.offsets", "/encoders/f1.ids", "/encoders/f2.bytes", "/encoders/f2.offsets", "/encoders/k0.keys"]
        coded = {f["name"]: f["encoder"].encode for f in q.features if f.get("encoder")}
        assert [coded[f"f{i}"]("ab") for i in (0, 1, 3)] == [1, 2, 2] and coded["f2"]("bc") == 2
        assert coded["k0"](6) == coded["k1"](6) == 2


def test_table_types_are_close(small):
    whole = small.gather("f32", np.arange(30))
    assert np.abs(whole).max() > 1
    for dtype, bound in (("f16", 2.0**-11), ("bf16", 2.0**-8)):
        source = small.table_source(dtype).array
        error = np.abs(small.gather(dtype, np.arange(30)) - source) / np.abs(source)
        assert (error <= bound).all()
    source = small.table_source("i8").array
    step = np.abs(source).max(axis=1, keepdims=True) / 127
    assert (np.abs(small.gather("i8", np.arange(30)) - source) <= 0.51 * step).all()


def test_profile_by_low_level_api(small, tmp_path):
    golden(small).write(tmp_path / "a.h5")
    seen = []
    with h5py.File(tmp_path / "a.h5", "r") as f:
        assert f.userblock_size >= 512
        def visit(name, item):
            assert not len(item.attrs)
            if isinstance(item, h5py.Dataset):
                plist = item.id.get_create_plist()
                assert plist.get_layout() == h5py.h5d.CONTIGUOUS and plist.get_nfilters() == 0
                assert plist.get_external_count() == 0 and item.id.get_type().get_class() in (h5py.h5t.INTEGER, h5py.h5t.FLOAT)
                assert item.dtype.newbyteorder("<") == item.dtype and item.maxshape == item.shape
                seen.append(name)
            else:
                assert name.count("/") == 0
        f.visititems(visit)
        assert not len(f.attrs)
    assert "manifest" in seen and "tables/i8.scale" in seen and "golden/value" in seen


def test_equal_input_gives_equal_bytes(small, tmp_path):
    golden(small)
    small.write(tmp_path / "a.h5")
    small.write(tmp_path / "b.h5")
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()


def test_iterator_tables_need_little_memory(tmp_path):
    rows, dim, block = 400_000, 64, 4096  # 98 MiB

    def blocks():
        for at in range(0, rows, block):
            n = min(block, rows - at)
            yield np.full((n, dim), at, np.float32)

    b = Builder("large")
    b.categorical("f", rows)
    b.table("t", blocks(), rows=rows, dim=dim)
    b.head("s", b.reduce("sum", b.embed(b.input("f"), "t"), keepdim=True), activation="none")
    b.golden(Rows.from_columns(b, {"f": [0, block, rows - 1]}), value=[0, block * 64, (rows - 1) // block * block * 64])
    tracemalloc.start()
    b.write(tmp_path / "a.h5")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= 40 << 20
    assert (tmp_path / "a.h5").stat().st_size > rows * dim * 4
    with pytest.raises(BundleError, match="already read"):
        b.write(tmp_path / "b.h5")


def test_iterator_without_golden_values(tmp_path):
    b = Builder("m")
    b.categorical("f", 10)
    b.table("t", (np.full((5, 1), k, np.float32) for k in range(2)), rows=10, dim=1)
    b.head("s", b.embed(b.input("f"), "t"), activation="none")
    b.golden(Rows.from_columns(b, {"f": [4, 5]}))
    b.write(tmp_path / "a.h5")
    with Bundle(tmp_path / "a.h5") as q:
        assert q.golden["value"][:, 0].tolist() == [0, 1]
    assert [p.name for p in tmp_path.iterdir()] == ["a.h5"]


@pytest.mark.parametrize("blocks, text", [([(4, 2)], "hold 4 rows"), ([(6, 2), (6, 2)], "within 10 rows"), ([(10, 3)], "expected")])
def test_iterators_that_lie(tmp_path, blocks, text):
    b = Builder("m")
    b.categorical("f", 10)
    b.table("t", iter([np.zeros(s, np.float32) for s in blocks]), rows=10, dim=2)
    b.head("s", b.reduce("sum", b.embed(b.input("f"), "t"), keepdim=True))
    with pytest.raises(BundleError, match=text):
        b.write(tmp_path / "a.h5")
    assert not list(tmp_path.iterdir())


def test_wrong_golden_values_refuse_the_file(small, tmp_path):
    rows = Rows.from_columns(small, small.columns)
    right = Executor(small).run(rows)["value"]["ctr"]
    small.golden(rows, value=right + np.array([0, 0, 1e-3, 0]))
    with pytest.raises(BundleError, match="head 'ctr' value: 1 of 4 golden rows differ, first row 2"):
        small.write(tmp_path / "a.h5")
    assert not list(tmp_path.iterdir())
    small.write(tmp_path / "a.h5", check=False)
    assert main(["verify", str(tmp_path / "a.h5")]) == 1


def fm_over_a_max(tmp_path, **golden_rows):
    """FM over a bag's largest elements, -1e9 each for the empty bag of row 1: float32 has no digit of that row, and all of the others."""
    rng, b = np.random.default_rng(1), Builder("m")
    b.categorical("c", 9)
    b.sequence("s", 9, missing="pad")
    e = b.reshape(b.concat([b.embed(b.input("c"), b.table("u", rng.normal(size=(9, 4)))),
                            b.embed(b.input("s"), b.table("v", rng.normal(size=(9, 4))), pooling="max", empty=-1e9)]), [2, 4])
    s = b.reduce("sum", e, axis=0)
    pairs = b.reduce("sum", b.sub(b.mul(s, s), b.reduce("sumsq", e, axis=0)), axis=0, keepdim=True)
    logit = b.unary("affine", pairs, a=1e-9, b=0.0)
    b.head("p", b.sigmoid(logit), logit=logit)
    b.golden(Rows.from_columns(b, {"c": [1, 2, 3], "s": [[1, 2], [], [5]]}), **golden_rows)
    return b, tmp_path / "fm.h5"


def test_a_row_that_float32_cannot_hold_has_its_own_tolerance(tmp_path):
    b, path = fm_over_a_max(tmp_path)
    with pytest.warns(UserWarning, match=r"ill-conditioned in float32.*: row 1 \([^)]*\)$"):
        b.write(path)
    with Bundle(path) as q:
        own = q.golden["tolerances"]
        assert own["value"][1, 0] > 0.1 and own["logit"][1, 0] > 1
        assert (own["value"][[0, 2]] == np.float32(1e-5)).all() and (own["logit"][[0, 2]] == np.float32(1e-5)).all()
        assert q.golden["tolerance"] == pytest.approx(1e-5)
        report = compare_golden(q)
        assert not report["failures"] and list(report["loose_rows"]) == [1]
        value = q.golden["value"].copy()
    value[2] += 1e-4
    wrong, _ = fm_over_a_max(tmp_path, value=value, tolerance={"value": own["value"]})
    with pytest.warns(UserWarning), pytest.raises(BundleError, match="1 of 3 golden rows differ, first row 2"):
        wrong.write(path)


def test_rounding_errors_are_those_of_float32(small):
    rows = Rows.from_columns(small, small.columns)
    exact, near = Executor(small).run(rows)["logit"]["ctr"], Executor(small, np.float32).run(rows)["logit"]["ctr"]
    bound = rounding_errors(small, rows)["logit"][:, 0]
    assert (np.abs(near - exact) <= bound).all() and (bound <= 1e-5 * np.maximum(1, np.abs(exact))).all()


def test_every_flipped_byte_is_found(small, tmp_path):
    golden(small).write(tmp_path / "a.h5")
    data = (tmp_path / "a.h5").read_bytes()
    bad = tmp_path / "b.h5"
    for at in range(0, len(data), 97):
        spoiled = bytearray(data)
        spoiled[at] ^= 1
        bad.write_bytes(spoiled)
        if 64 <= at < 128:
            continue  # the signature's place, zeros when there is none
        with pytest.raises(BundleError):
            with Bundle(bad) as q:
                q.verify_digests()


def test_convert(small, tmp_path, capsys):
    golden(small).write(tmp_path / "a.h5")
    for dtype, tolerance in (("f16", 1e-2), ("bf16", 1e-1), ("i8", 1e-1), ("f32", 1e-5)):
        out = tmp_path / f"{dtype}.h5"
        assert main(["convert", str(tmp_path / "a.h5"), str(out), "--dtype", dtype, "--tolerance", str(tolerance)]) == 0
        assert main(["verify", str(out)]) == 0
        with Bundle(out) as q:
            assert {t["dtype"] for t in q.tables} == {dtype}
    assert main(["convert", str(tmp_path / "a.h5"), str(out), "--dtype", "i8", "--table", "nowhere"]) == 1
    assert "there is no table 'nowhere'" in capsys.readouterr().err


def test_inspect_and_json(small, tmp_path, capsys):
    golden(small).write(tmp_path / "a.h5")
    assert main(["inspect", str(tmp_path / "a.h5")]) == 0
    assert "categorical" in capsys.readouterr().out
    assert main(["inspect", str(tmp_path / "a.h5"), "--json"]) == 0
    assert '"golden"' in capsys.readouterr().out
    assert main(["verify", str(tmp_path / "missing.h5"), "--json"]) == 1
    assert '"ok": false' in capsys.readouterr().out
    with pytest.raises(SystemExit) as stop:
        main(["convert", "a", "b"])
    assert stop.value.code == 2
