"""Model.table_lookup: the rows that went into the bundle, bit for bit, by row number and by key, from memory and from a host tier that
holds a part of them; what is refused takes no memory and leaves `out` as it is."""

import os
import sys
import threading
import tracemalloc

import numpy as np
import pytest
from drawn import MSWEB, ROOT, anywhere

import dpi

sys.path.append(str(ROOT / "weights/python"))
import dpi_export  # noqa: E402

USERS, ITEMS = 500, 4000
LARGEST = 2**63 - 1


class Drawn:
    """A bundle with a table of 64-bit keys, one of row numbers, one of row numbers in float16, and what went into it."""

    def __init__(self, path):
        rng = np.random.default_rng(11)
        self.keys = np.unique(np.append(rng.integers(-2**63, LARGEST, USERS), [-2**63, -1, 0, LARGEST]))
        self.users = rng.normal(size=(len(self.keys), 6)).astype(np.float32)
        self.default = np.arange(1, 7, dtype=np.float32)
        self.items = rng.normal(size=(ITEMS, 8)).astype(np.float32)
        self.halves = rng.normal(size=(40, 3)).astype(np.float16)
        b = dpi_export.Builder("tables")
        b.categorical("user", keys="user")
        b.categorical("item", vocab_size=ITEMS)
        b.categorical("half", vocab_size=40)
        b.keyed_table("user", self.keys, self.users, default=self.default)
        b.table("item", self.items)
        b.table("half", self.halves.astype(np.float32), dtype="f16")
        b.table("idle", self.items)
        x = b.concat([b.embed(b.input(name), name) for name in ("user", "item", "half")])
        b.head("z", b.linear(b.relu(b.linear(x, rng.normal(size=(4, 17)), rng.normal(size=4))), rng.normal(size=(1, 4))))
        self.path = path
        b.write(path)

    def load(self, **options):
        return dpi.Model(self.path, device="cpu", options={"debug.fold": "off", **options})

    def load_tiered(self, **more):
        return self.load(**{"store.host_bytes": 40000, "store.resident_bytes": 0, **{k.replace("__", "."): v for k, v in more.items()}})


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    return Drawn(tmp_path_factory.mktemp("tables") / "tables.h5")


def tier(model, name):
    """The counters of a table in the host tier."""
    return next(t for t in model.counters()["tiers"] if t["name"] == name)


def test_rows_are_those_that_went_in(drawn):
    asked = np.array([3999, 0, 17, 17], np.int64)
    with drawn.load() as model:
        rows = model.table_lookup("item", asked)
        assert rows.dtype == np.float32 and rows.shape == (4, 8) and rows.flags.c_contiguous
        assert rows.tobytes() == drawn.items[asked].tobytes()
        assert model.table_lookup("half", range(40)).tobytes() == drawn.halves.astype(np.float32).tobytes()
        assert model.table_lookup("item", []).shape == (0, 8) and model.table_lookup("user", np.empty(0, np.uint64)).shape == (0, 6)
        assert not model.counters()["calls"]


def test_keys_of_every_form(drawn):
    asked = np.array([5, 3999, 0, 12], np.int64)
    want = drawn.items[asked].tobytes()
    forms = [asked, asked.astype(np.uint64), asked.astype(np.int32), asked.astype(np.uint16), asked.tolist(), tuple(asked.tolist()),
             np.repeat(asked, 3)[::3], asked[::-1].copy()[::-1], anywhere(asked), asked.astype(">i8"), asked.astype(">u8"), memoryview(asked)]
    with drawn.load() as model:
        for form in forms:
            assert model.table_lookup("item", form).tobytes() == want, form


def test_keys_of_64_bits(drawn):
    known = dict(zip(drawn.keys.tolist(), drawn.users))
    asked = np.array([0, -1, LARGEST, -2**63, 1, *drawn.keys[::7]], np.int64)
    want = np.stack([known.get(int(k), drawn.default) for k in asked]).tobytes()
    with drawn.load() as model:
        assert model.table_lookup("user", asked).tobytes() == want
        assert model.table_lookup("user", asked.view(np.uint64)).tobytes() == want  # the int64 of the same bits
        assert model.table_lookup("user", [2**64 - 1, 2**63]).tobytes() == np.stack([known[-1], known[-2**63]]).tobytes()


def test_out(drawn):
    asked = np.array([5, 3999, 0], np.int64)
    want = drawn.items[asked]
    wide, frozen = np.zeros((3, 9), np.float32), np.zeros((3, 8), np.float32)
    frozen.flags.writeable = False
    with drawn.load() as model:
        for out in (np.empty((3, 8), np.float32), np.empty(24, np.float32)):
            assert model.table_lookup("item", asked, out=out) is out
            assert out.tobytes() == want.tobytes()
        for out in (wide[:, :8], frozen, np.zeros((3, 8)), np.zeros((3, 7), np.float32), np.zeros((8, 3), np.float32), np.zeros((8, 3), np.float32).T,
                    np.zeros((4, 8), np.float32), np.zeros((3, 8), np.int32), anywhere(np.zeros((3, 8), np.float32)), [0.0] * 24, "out"):
            with pytest.raises(dpi.InvalidArgument, match=r"out: expected a contiguous, writable float32 array \[3, 8\]"):
                model.table_lookup("item", asked, out=out)
        assert not wide.any() and not frozen.any()


def test_deadlines_and_cancels(drawn):
    out, asked = np.full((2, 8), 7, np.float32), [5, 3999]
    cancel = dpi.Cancel()
    with drawn.load() as model:
        assert model.table_lookup("item", asked, timeout=60, cancel=cancel).tobytes() == drawn.items[asked].tobytes()
        with pytest.raises(dpi.Timeout):
            model.table_lookup("item", asked, out=out, timeout=-1)
        cancel.set()
        with pytest.raises(dpi.Cancelled):
            model.table_lookup("item", np.array(asked), out=out, cancel=cancel)
        with pytest.raises(dpi.InvalidArgument, match="cancel: expected a Cancel"):
            dpi.model._table_lookup(model._cell, "item", np.array(asked), out, 0, out)
    assert (out == 7).all()


@pytest.mark.parametrize("keys", [3, None, [[1]], [1.5], np.zeros(2), np.zeros((2, 1), np.int64), np.zeros((0, 1), np.int64), ["1"], [None],
                                  np.array([True]), [-1, 2**63], [2**64], np.array(3), np.array(3).astype(np.int32)])
def test_keys_that_are_no_list_of_integers(drawn, keys):
    with drawn.load() as model, pytest.raises(dpi.InvalidArgument, match="^DPI_E_INVALID_ARGUMENT: keys: "):
        model.table_lookup("item", keys)


def test_what_the_library_refuses(drawn):
    out = np.full((3, 8), 2, np.float32)
    with drawn.load() as model:
        for table, keys, error, row, text in [
                ("nowhere", [0], dpi.NotFound, -1, "there is no table 'nowhere'"), ("idle", [0], dpi.NotFound, -1, "'idle' is not loaded as it is"),
                ("item", [0, 5, ITEMS], dpi.InvalidArgument, 2, f"key 2 is {ITEMS}, table 'item' has rows 0 to {ITEMS - 1}"),
                ("item", [0, -1, 5], dpi.InvalidArgument, 1, "key 1 is -1"), ("item\0", [0], dpi.InvalidArgument, -1, "NUL"),
                ("item", np.array([0, 0, 2**64 - 1], np.uint64), dpi.InvalidArgument, 2, "key 2 is"), (None, [0], dpi.InvalidArgument, -1, "null")]:
            with pytest.raises(error) as caught:
                model.table_lookup(table, keys, out=out)
            e = caught.value
            assert (e.row, e.feature, e.native_code, e.in_shared) == (row, -1, 0, False) and text in e.message, e
        with pytest.raises(TypeError):
            model.table_lookup(3, [0])
        assert (out == 2).all()
    with pytest.raises(dpi.Closed):
        model.table_lookup("item", [0])


def traced(call):
    """The most bytes that the call took at a time."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory(drawn):
    keys, out = np.zeros(200_000, np.int64), np.empty((200_000, 8), np.float32)

    def refused():
        with pytest.raises(dpi.NotFound):
            model.table_lookup("nowhere", keys)

    with drawn.load() as model:
        assert traced(lambda: model.table_lookup("item", keys)) >= out.nbytes  # numpy's memory is traced
        assert traced(lambda: model.table_lookup("item", keys.astype(np.int32), out=out)) >= keys.nbytes
        for given in (keys, keys.view(np.uint64)):
            assert traced(lambda given=given: model.table_lookup("item", given, out=out)) < 100_000
        assert traced(refused) < 100_000


def test_a_host_tier_that_holds_a_part(drawn):
    rng = np.random.default_rng(3)
    known = dict(zip(drawn.keys.tolist(), drawn.users))
    with drawn.load_tiered() as model:
        for _ in range(60):
            at = rng.integers(ITEMS, size=30)
            assert model.table_lookup("item", at).tobytes() == drawn.items[at].tobytes()
            keys = np.append(rng.choice(drawn.keys, 20), rng.integers(-2**63, LARGEST, 5))
            want = np.stack([known.get(int(k), drawn.default) for k in keys])
            assert model.table_lookup("user", keys.view(np.uint64)).tobytes() == want.tobytes()
        item = tier(model, "item")
        assert item["late"] > 0 and item["fetched"] > 0 and item["defaulted"] == 0
        assert item["hits"] + item["late"] == 60 * 30
        with pytest.raises(dpi.OutOfMemory):
            model.table_lookup("item", np.arange(ITEMS))


def test_policies_of_the_host_tier(drawn):
    with drawn.load_tiered(table__item__miss="default", table__item__default=0.5) as model:
        handed_out = 0
        for key in range(ITEMS):
            row = model.table_lookup("item", [key])
            late = bool((row == 0.5).all())
            assert late or row.tobytes() == drawn.items[key].tobytes()
            handed_out += late
        assert handed_out > 0 and tier(model, "item")["defaulted"] == handed_out and tier(model, "item")["late"] == 0
    with drawn.load_tiered(table__item__miss="fail") as model, pytest.raises(dpi.NotFound) as caught:
        model.table_lookup("item", [0, ITEMS - 1])  # the first rows are there from the start
    assert (caught.value.row, caught.value.feature) == (1, -1) and f"key {ITEMS - 1} is not in host memory" in caught.value.message


def test_threads_that_drive_each_others_rows_out(drawn):
    wrong = []

    def read(seed):
        rng = np.random.default_rng(seed)
        try:
            for _ in range(100):
                at = rng.integers(ITEMS, size=8)
                if model.table_lookup("item", at).tobytes() != drawn.items[at].tobytes():
                    wrong.append(at)
        except Exception as error:  # noqa: B902
            wrong.append(error)

    with drawn.load_tiered() as model:
        threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def test_a_forked_child():
    with dpi.Model(MSWEB) as model:
        child = os.fork()
        if child == 0:
            try:
                model.table_lookup("area", [0])
            except dpi.Forked:
                os._exit(7)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert model.table_lookup("area", [0]).shape == (1, 16)
