"""CAN (dpi_export/models) beside its formulas in float64 numpy (can_numpy.py), which share no code with it: the unit with every option, models
of can_models.py traced by from_torch, and the engine on every device with folds and fuses on and off. test_a_fault_shows has wrong formulas."""

import itertools
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")
sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[3] / "tests" / "parity")]

import can_models  # noqa: E402
import can_numpy  # noqa: E402
from dpi_export import Bundle, Executor, Rows, from_torch  # noqa: E402
from dpi_export.models import CAN, CoActionNetwork, CoActionUnit, MicroMlp  # noqa: E402
from dpi_export.trace.features import Inputs  # noqa: E402
from engine import Engine  # noqa: E402
from program import DEVICES, program, verified  # noqa: E402

EXACT = list(can_models.MODELS)
CHOICES = {"order_weights": ("shared", "independent"), "order_join": ("concat", "sum", "input"), "activation": sorted(can_numpy.ACT),
           "act_on_last": (False, True), "collect": ("all", "last"), "pool": ("sum", "mean", "none")}


# -- the unit -----------------------------------------------------------------------------------------------------------
def drawn_options(rng, **fixed):
    """Options of a micro-MLP."""
    widths = tuple(int(w) for w in rng.integers(1, 7, rng.integers(2, 5)))
    bias = [False, True, tuple(bool(b) for b in rng.integers(0, 2, len(widths) - 1))][rng.integers(3)]
    found = {"widths": widths, "bias": bias, "orders": int(rng.integers(1, 5)),
             **{name: some[rng.integers(len(some))] for name, some in CHOICES.items()}, **fixed}
    if found["order_join"] == "input":
        found["order_weights"] = "shared"
    return found


def unit_beside(options, rng, rows=5, single=False):
    """(the unit's outputs, the formula's) for random numbers; the first row has no position that counts, unless values are single."""
    micro = MicroMlp(**options)
    t = 1 if single else int(rng.integers(1, 7))
    induction, feed = rng.normal(size=(rows, micro.induction_dim)), rng.normal(size=(rows, t, micro.feed_dim))
    mask = rng.integers(0, 2, (rows, t)) if not single else np.ones((rows, 1))
    mask[0] = 1 if single else 0
    given = [torch.from_numpy(x) for x in (induction, feed[:, 0] if single else feed)]
    got = CoActionUnit(micro)(*given, None if single else torch.from_numpy(mask).double()).numpy()
    want = np.stack([can_numpy.co_action(options, *row) for row in zip(induction, feed, mask > 0)])
    assert got.shape == want.shape == (rows, *((t,) if options.get("pool") == "none" else ()), micro.output_dim)
    assert np.isfinite(want).all()  # the comparison that follows takes NaN for NaN
    return got, want


EVERY = [{"order_join": j, "order_weights": w, "act_on_last": a, "collect": c, "pool": p}
         for j, w, a, c, p in itertools.product(CHOICES["order_join"], CHOICES["order_weights"], (False, True), CHOICES["collect"], CHOICES["pool"])
         if (j, w) != ("input", "independent")]


@pytest.mark.parametrize("fixed", EVERY, ids=lambda f: "-".join(str(v) for v in f.values()))
def test_the_unit_is_the_formula(fixed):
    for seed in range(6):
        rng = np.random.default_rng(seed)
        got, want = unit_beside(drawn_options(rng, **fixed), rng, single=seed == 5)
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


def test_all_positions_count_without_a_mask():
    for pool in CHOICES["pool"]:
        rng = np.random.default_rng(3)
        options = drawn_options(rng, pool=pool)
        micro = MicroMlp(**options)
        induction, feed = rng.normal(size=(4, micro.induction_dim)), rng.normal(size=(4, 6, micro.feed_dim))
        got = CoActionUnit(micro)(torch.from_numpy(induction), torch.from_numpy(feed)).numpy()
        want = [can_numpy.co_action(options, i, f, [True] * 6) for i, f in zip(induction, feed)]
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


def test_the_released_graph():
    """160 numbers a micro-MLP, three orders, 36 outputs a pair, in the authors' order, from tables of their shapes."""
    micro = MicroMlp()
    assert (micro.induction_dim, micro.feed_dim, micro.output_dim) == (160, 16, 36)
    assert MicroMlp((16, 16), orders=5, order_join="sum", act_on_last=True).induction_dim == 256
    torch.manual_seed(2)
    net = CoActionNetwork({"item": 30, "cate": 9}, {"item_his": 30, "cate_his": 9}, [("item", "item_his"), ("cate", "cate_his")]).double()
    with torch.no_grad():
        for p in net.parameters():
            p.normal_()
    tables = {"item_mlp_embedding_var": net.induction["item"], "cate_mlp_embedding_var": net.induction["cate"],
              "item_input_embedding_var": net.feed["item_his"], "cate_input_embedding_var": net.feed["cate_his"]}
    tables = {name: table.weight.detach().numpy() for name, table in tables.items()}
    assert [t.shape for t in tables.values()] == [(30, 160), (9, 160), (30, 16), (9, 16)]
    rng = np.random.default_rng(4)
    ids = {"item": rng.integers(30, size=6), "cate": rng.integers(9, size=6), "item_his": rng.integers(30, size=(6, 5)),
           "cate_his": rng.integers(9, size=(6, 5))}
    given = {name: torch.from_numpy(x) for name, x in ids.items()}
    lengths = np.array([5, 0, 1, 3, 5, 2])
    mask = torch.from_numpy((np.arange(5) < lengths[:, None]).astype(float))
    got = net(given, given, {"item_his": mask, "cate_his": mask}).detach().numpy()
    want = [can_numpy.released_graph(tables, i, c, ih[:n], ch[:n]) for i, c, ih, ch, n in zip(*ids.values(), lengths)]
    assert got.shape == (6, 72)
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
    whole = CAN({"uid": 5, "mid": 30, "cate": 9}, {"mid_his": "mid", "cate_his": "cate"})
    assert whole.norm.num_features == 18 * 5 + 72 and [m.out_features for m in whole.mlp if hasattr(m, "out_features")] == [200, 80, 1]


def test_what_does_not_fit_is_refused():
    for wrong in ({"widths": (4,)}, {"widths": (4, 0)}, {"orders": 0}, {"bias": (True,)}, {"activation": "swish"}, {"pool": "max"},
                  {"order_join": "input", "order_weights": "independent"}):
        with pytest.raises(ValueError, match="MicroMlp"):
            MicroMlp(**wrong)
    with pytest.raises(ValueError, match="pool"):
        CoActionNetwork({"a": 3}, {"b": 3}, micro=MicroMlp(pool="none"))
    with pytest.raises(ValueError, match="pair"):
        CoActionNetwork({"a": 3}, {"b": 3}, pairs=[("a", "c")])


def test_tables_start_as_layers_do():
    """A level's numbers have the spread 1 / sqrt(inputs), biases are 0."""
    torch.manual_seed(1)
    net = CoActionNetwork({"a": 4000}, {"b": 4000, "c": 5}, micro=MicroMlp((9, 4, 1), bias=(True, False), order_weights="independent", orders=2))
    rows = net.induction["a"].weight.detach().numpy().reshape(4000, 2, 2, 44)
    for first, last, spread in ((0, 36, 1 / 3), (36, 40, 0), (40, 44, 1 / 2)):
        assert abs(rows[..., first:last].std() - spread) < 0.01
    assert abs(net.feed["b"].weight.std() - 0.1) < 0.01


def test_the_readme_is_run(tmp_path, monkeypatch):
    """The block of README.md writes a bundle that `dpi verify` takes."""
    monkeypatch.chdir(tmp_path)
    text = (pathlib.Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8")
    exec(re.search(r"```python\n(.*?)```", text.split("\n## CAN\n")[1], re.S)[1], {})  # noqa: S102
    with Bundle(tmp_path / "can.h5") as bundle:
        assert {f["name"]: f["space"] for f in bundle.features if "space" in f} == {"user": "shared", "visits": "shared"}
    done = verified(tmp_path / "can.h5")
    assert done.returncode == 0, done.stdout + done.stderr


# -- models -------------------------------------------------------------------------------------------------------------
def weights_of(model):
    """{name: float64 array}, and the epsilon of the batch normalisation."""
    w = {name: t.double().numpy() for name, t in model.state_dict().items()}
    return {**w, "eps": model.norm.eps if model.norm is not None else None}


def formula(made, arrays):
    """(p, logit) [rows] of can_numpy."""
    w, said = {**weights_of(made.model), "hidden": made.said["hidden"]}, made.said
    logits = []
    for r in range(len(arrays["uid"])):
        row = {name: values[r] for name, values in arrays.items()}
        row["counts"] = {h: [t < row[said["lengths"][h]] if h in said["lengths"] else row[h][t] != 0 for t in range(can_models.T)]
                         for h in said["histories"]}
        logits.append(can_numpy.can(w, said, row))
    logits = np.array(logits)
    return 1 / (1 + np.exp(-logits)), logits


def exported(name, path, rows=64):
    """(Described, Inputs, arrays) of a bundle written to path, whose golden rows are `arrays`: empty and full histories, holes of padding."""
    made = can_models.make(name)
    inputs = Inputs(made.model, made.example, made.features)
    form = inputs.random_rows(np.random.default_rng(17), rows)
    from_torch(made.model, path, features=made.features, example=made.example, rows=form)
    return made, inputs, inputs.arrays(form)


@pytest.mark.parametrize("name", EXACT)
def test_exact(name, tmp_path):
    made, inputs, _ = exported(name, tmp_path / "m.h5")
    with Bundle(tmp_path / "m.h5") as bundle:
        for seed, n in ((1, 5), (2, 64), (3, 131)):
            form = inputs.random_rows(np.random.default_rng(seed), n)
            p, z = formula(made, inputs.arrays(form))
            assert 0.1 < z.std() <= 4
            with torch.no_grad():
                exact = made.model.double().logit({k: torch.as_tensor(v) for k, v in inputs.arrays(form).items()}).numpy()
                made.model.float()
            np.testing.assert_allclose(exact, z, rtol=1e-12, atol=1e-12)
            run = Executor(bundle).run(Rows.from_columns(bundle, inputs.columns(form)))
            np.testing.assert_allclose(run["logit"]["ctr"], z, rtol=1e-6, atol=1e-6)
            np.testing.assert_allclose(run["value"]["ctr"], p, rtol=0, atol=1e-6)


def library():
    """The engine of the build that the program dpi is of."""
    return Engine(str(program().parent.parent / "lib" / "libdpi.so.1"))


def loaded(path, device, **options):
    """A model on a device; skips where the plugin is not built."""
    if device == "cuda_emu" and not (program().parent.parent / "lib" / "dpi" / "backends-1" / "libdpi_cuda_emu.so").exists():
        pytest.skip(f"there is no {device}")
    return library().load(path, device=device, **options)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", EXACT)
def test_the_engine_agrees(name, device, tmp_path):
    """|p - p64| <= max(1e-6, 2 |p32 - p64|) with the formula's p64 and torch's p32, logits within 1e-5 max(1, |logit|); all rows of a batch
    at once, with folds and fuses on and off, and the first row alone."""
    made, inputs, arrays = exported(name, tmp_path / "m.h5")
    p64, z64 = (x[:, None] for x in formula(made, arrays))
    with torch.no_grad():
        p32 = made.model({k: torch.as_tensor(v) for k, v in arrays.items()}).numpy()[:, None]
    with Bundle(tmp_path / "m.h5") as bundle:
        rows = Rows.from_columns(bundle, inputs.columns(inputs.joined(list(arrays.values()))))
        first = Rows.from_columns(bundle, inputs.columns(inputs.joined([a[:1] for a in arrays.values()])))
    for rewrites in ("on", "off"):
        with loaded(tmp_path / "m.h5", device, **{"debug.fold": rewrites, "debug.fuse": rewrites}) as model:
            for some, n in ((rows, len(p64)), (first, 1)):
                p, z = model.predict(some, n)
                assert (np.abs(p - p64[:n]) <= np.maximum(1e-6, 2 * np.abs(p32 - p64)[:n])).all()
                assert (np.abs(z - z64[:n]) <= 1e-5 * np.maximum(1, np.abs(z64[:n]))).all()


@pytest.mark.parametrize("fold", ["on", "off"])
@pytest.mark.parametrize("name", EXACT)
def test_a_pair_is_one_op(name, fold, tmp_path):
    """The engine's plan has a CoAction for each pair and none of the primitives that a pair is traced to."""
    made, _, _ = exported(name, tmp_path / "m.h5")
    said = subprocess.run([program(), "plan", tmp_path / "m.h5", "--fold", fold], capture_output=True, text=True, check=True).stdout
    kinds = [line.split(" level ")[1].split()[1] for line in said.splitlines() if line.startswith("op ")]
    assert kinds.count("CoAction") == len(made.said["pairs"])
    assert not {"MatMul", "Mask", "Embed", "View"} & set(kinds)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["released", "orders_at_the_input", "independent_orders", "single_values"])
def test_a_row_does_not_depend_on_its_batch(name, device, tmp_path):
    """Under determinism=strict each row has the same bits alone, and with all rows in the opposite order."""
    _, inputs, arrays = exported(name, tmp_path / "m.h5", rows=24)
    with Bundle(tmp_path / "m.h5") as bundle:
        of = lambda some: Rows.from_columns(bundle, inputs.columns(inputs.joined(some)))  # noqa: E731
        whole, back = of(list(arrays.values())), of([a[::-1] for a in arrays.values()])
        alone = [of([a[r:r + 1] for a in arrays.values()]) for r in range(24)]
    with loaded(tmp_path / "m.h5", device, determinism="strict") as model:
        logits = model.predict(whole, 24)[1]
        assert np.isfinite(logits).all() and len(set(logits[:, 0])) > 12
        assert (model.predict(back, 24)[1][::-1] == logits).all()
        assert all(model.predict(row, 1)[1][0] == logits[r] for r, row in enumerate(alone))


@pytest.mark.parametrize("device", DEVICES)
def test_histories_of_a_host_tier(device, tmp_path):
    """A history whose rows are moved by the store is read where they lie: the bits are those of resident tables."""
    _, inputs, arrays = exported("released_all_pairs", tmp_path / "m.h5")
    with Bundle(tmp_path / "m.h5") as bundle:
        rows = Rows.from_columns(bundle, inputs.columns(inputs.joined(list(arrays.values()))))
    scores = []
    for options in ({}, {"store.host_bytes": 1 << 16, "store.resident_bytes": 0}):
        with loaded(tmp_path / "m.h5", device, determinism="strict", **options) as model:
            scores += [model.predict(rows, len(arrays["uid"]))[1] for _ in range(2)]
    assert np.isfinite(scores[0]).all() and all((s == scores[0]).all() for s in scores)


@pytest.mark.parametrize("precision", ["tf32", "bf16", "fp16"])
@pytest.mark.parametrize("name", EXACT)
def test_short_products_agree(name, precision, tmp_path):
    """The CUDA backend's products in short floats, by its emulator: a probability within 5e-3."""
    made, inputs, arrays = exported(name, tmp_path / "m.h5")
    with Bundle(tmp_path / "m.h5") as bundle:
        rows = Rows.from_columns(bundle, inputs.columns(inputs.joined(list(arrays.values()))))
    with loaded(tmp_path / "m.h5", "cuda_emu", precision=precision) as model:
        p = model.predict(rows, len(arrays["uid"]))[0][:, 0]
    assert (np.abs(p - formula(made, arrays)[0]) <= 5e-3).all()


def test_the_golden_rows_verify(tmp_path):
    exported("released", tmp_path / "m.h5")
    done = verified(tmp_path / "m.h5")
    assert done.returncode == 0 and "agree" in done.stdout, done.stdout + done.stderr


def test_what_padding_holds_does_not_count(tmp_path):
    """Rows of id 0 are any numbers: a history scores as its ids that count, whatever stands beside them."""
    made, inputs, arrays = exported("released_all_pairs", tmp_path / "m.h5")
    before = formula(made, arrays)[1]
    given = {k: torch.as_tensor(v) for k, v in arrays.items()}
    with torch.no_grad():
        logits = made.model.logit(given)
        for history in can_models.HISTORIES:
            made.model.co_action.feed[history].weight[0] += 5
        np.testing.assert_array_equal(made.model.logit(given).numpy(), logits.numpy())
    np.testing.assert_allclose(formula(made, arrays)[1], before, rtol=0, atol=0)


def wrong_formulas(made):
    """{fault: Described of another formula, or arrays -> arrays}: what a mistaken module would compute."""
    def said(**changes):
        return can_models.Described(made.model, made.example, made.features, {**made.said, **changes})

    def orders_swapped(options, induction, feeds, counts):
        out = co_action(options, induction, feeds, counts)
        return np.concatenate([out[12:24], out[:12], out[24:]])

    def weights_transposed(options, induction, feeds, counts):
        return co_action(options, np.concatenate([induction[:128].reshape(8, 16).T.ravel(), induction[128:]]), feeds, counts)

    co_action = can_numpy.co_action
    return {"orders swapped": (made, orders_swapped),
            "weights transposed": (made, weights_transposed),
            "padding counted": (made, lambda o, i, f, c: co_action(o, i, f, [True] * len(c))),
            "an order too few": (made, lambda o, i, f, c: np.concatenate([co_action({"orders": 2}, i, f, c), np.zeros(12)])),
            "a mean": (said(micro={"pool": "mean"}), co_action),
            "activation on the last level": (said(micro={"act_on_last": True}), co_action),
            "another activation": (said(micro={"activation": "sigmoid"}), co_action),
            "one slice for all pairs": (made, lambda o, i, f, c: co_action(o, np.roll(i, 1), f, c)),
            "pairs swapped": (said(pairs=made.said["pairs"][::-1]), co_action)}


def test_a_fault_shows(tmp_path, monkeypatch):
    """The comparisons of this file can fail: each wrong formula is off by more than a hundred times what they allow."""
    made, _, arrays = exported("released", tmp_path / "m.h5")
    p, z = formula(made, arrays)
    for fault, (other, co_action) in wrong_formulas(made).items():
        with monkeypatch.context() as m:
            m.setattr(can_numpy, "co_action", co_action)
            wrong_p, wrong_z = formula(other, arrays)
        assert np.abs(wrong_p - p).max() > 1e-4 and np.abs(wrong_z - z).max() > 1e-3, fault


def test_the_history_side_is_computed_once_for_all_candidates(tmp_path):
    """With user and histories as shared features, powers of the feed are in the user's row space, and the scores are those of plain rows."""
    made = can_models.make("released_all_pairs")
    features = {name: {**rules, **({"space": "shared"} if name in ("uid", "mid_his", "cate_his") else {})} for name, rules in made.features.items()}
    inputs = Inputs(made.model, made.example, features)
    users = inputs.arrays(inputs.random_rows(np.random.default_rng(8), 5))
    counts, rng = [3, 1, 0, 7, 4], np.random.default_rng(9)
    arrays = {name: np.repeat(values, counts, axis=0) for name, values in users.items()}
    for name in ("mid", "cate"):
        arrays[name] = rng.integers(0, can_models.SIZES[name], sum(counts))
    from_torch(made.model, tmp_path / "m.h5", features=features, example=made.example)
    p64, z64 = (x[:, None] for x in formula(made, arrays))
    with Bundle(tmp_path / "m.h5") as bundle:
        spaces = [(op["op"], bundle.space(op["name"])) for op in bundle.ops if op.get("module") == "co_action.unit" or "co_action/unit" in op["name"]]
        assert {s for o, s in spaces if o in ("Binary", "Concat")} >= {"shared"} and ("MatMul", "item") in spaces
        assert sum(s == "shared" for o, s in spaces if o == "Binary") == 8  # a square and a cube for each of four pairs
        columns = {n: v.tolist() for n, v in arrays.items()}
        columns.update({n: [[i for i in bag if i] if np.ndim(bag) else int(bag) for bag in users[n]] for n in ("uid", "mid_his", "cate_his")})
        rows = Rows.from_columns(bundle, columns, shared_counts=counts)
        columns.update({n: [columns[n][u] for u, n_items in enumerate(counts) for _ in range(n_items)] for n in ("uid", "mid_his", "cate_his")})
        expanded = Rows.from_columns(bundle, columns, shared_counts=[1] * sum(counts))
    said = subprocess.run([program(), "plan", tmp_path / "m.h5"], capture_output=True, text=True, check=True).stdout
    assert said.count("CoAction") == said.count(", shared rows}") == 4
    for device in DEVICES:
        with loaded(tmp_path / "m.h5", device, determinism="strict") as model:
            p, z = model.predict(rows, sum(counts))
            assert (model.predict(expanded, sum(counts))[1] == z).all()
            assert (np.abs(p - p64) <= 2e-6).all() and (np.abs(z - z64) <= 1e-5 * np.maximum(1, np.abs(z64))).all()
