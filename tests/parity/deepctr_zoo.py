#!/usr/bin/env python3
"""Every class of DeepCTR-Torch x its options by tracing, on every backend, against the class's own forward in float64.

    deepctr_zoo.py [--only TEXT] [--engine LIBRARY|none] [--devices ref,cpu,cuda_emu]

For each case: random weights and statistics of batch norms; the model is traced and written with golden rows; other rows (empty bags, full
ones) are scored by the package's executor, and by the engine on each device with the plan's folds and fuses on and off. The tolerances are
suite.py's: |p - p64| <= max(1e-6, 2 |p32 - p64|), |logit - logit64| <= 1e-5 max(1, |logit64|). `run_all(engine, devices)` yields (name,
text, problem). Cases of REFUSED must be refused with that text.
"""

import argparse
import copy
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "weights" / "python")]

import oracles  # noqa: E402, F401  (before the libraries)
import deepctr_torch.models as dt_models  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
import zoo  # noqa: E402
from deepctr_torch.inputs import DenseFeat, SparseFeat, VarLenSparseFeat  # noqa: E402
from deepctr_torch.models.basemodel import BaseModel  # noqa: E402
from dpi_export import Bundle, Executor, UnsupportedModelError  # noqa: E402
from dpi_export.importers.library_rows import matrix_of  # noqa: E402
from dpi_export.importers.run import export, to_rows  # noqa: E402
from dpi_export.importers.traced_libraries import DeepctrTrace  # noqa: E402
from engine import Engine, find_library  # noqa: E402
from fuxictr_zoo import MAX_STD, MIN_STD, _everything_double, logit  # noqa: E402

ROWS = 41
#: Class -> what it is refused for.
REFUSED = {"DIEN": "depends on"}  # it takes its histories of some length out of the batch, and packed sequences apart
#: What classes of several scores call them.
NAMES = {**dict.fromkeys(("SharedBottom", "MMOE", "PLE"), ["a", "b"]), "ESMM": ["ctr", "ctcvr"]}
#: Classes whose scores are no sigmoid of a logit, by head: a sum of products, and the product of two sigmoids.
PRODUCTS = {"MLR": [True], "ESMM": [False, True]}


# -- cases --------------------------------------------------------------------------------------------------------------------
def _sparse():
    return [SparseFeat(f"c{i}", 7 + i, 4) for i in range(4)]


def _columns(bags=True):
    """Ids, numbers and, but for classes that take none, bags of both kinds."""
    out = [SparseFeat("user", 9, 4), SparseFeat("item", 11, 4), SparseFeat("cate", 7, 4), DenseFeat("age", 1)]
    if bags:
        out.append(VarLenSparseFeat(SparseFeat("tags", 13, 4), 5, combiner="mean", length_name="tags_length"))
        out.append(VarLenSparseFeat(SparseFeat("seen", 12, 4), 3, combiner="sum"))
    return out


def _history():
    pairs = (("item_id", 11, 8), ("cate_id", 7, 4))
    return [SparseFeat("user", 9, 4), SparseFeat("gender", 3, 4), *(SparseFeat(n, v, d) for n, v, d in pairs), DenseFeat("pay", 1),
            *(VarLenSparseFeat(SparseFeat(f"hist_{n}", v, d, embedding_name=n), 4, length_name="seq_length") for n, v, d in pairs)]


#: Class -> what makes it, given its options.
_MAKERS = {
    **{name: lambda cls, **o: cls(_columns(), _columns(), **o) for name in (
        "WDL", "DeepFM", "DCN", "DCNMix", "xDeepFM", "AutoInt", "FiBiNET", "NFM", "IFM", "DIFM", "AFN")},
    "ONN": lambda cls, **o: cls(_columns(), _columns(), **o),
    "AFM": lambda cls, **o: cls(_columns(), _sparse(), **o),
    "CCPM": lambda cls, **o: cls(_sparse(), _sparse(), **o),
    **{name: lambda cls, **o: cls(_columns(), **o) for name in ("PNN", "MLR", "SharedBottom", "ESMM", "MMOE", "PLE")},
    **{name: lambda cls, **o: cls(_history(), ["item_id", "cate_id"], **o) for name in ("DIN", "DIEN")},
}
_DNN, _BN = {"dnn_hidden_units": (8,)}, {"dnn_hidden_units": (8, 5), "dnn_use_bn": True}
#: Not Dice: the library's own forward fails with it in a DNN, which makes it for three dims.
_USUAL = {"": _DNN, "batch norm": _BN, "prelu": {**_DNN, "dnn_activation": "prelu"},
          "regression": {**_DNN, "task": "regression"}}
_TASKS = {"task_types": ["binary"] * 2, "task_names": ["a", "b"]}
_MIXED = {"task_types": ["binary", "regression"], "task_names": ["a", "b"]}
_EXPERTS = {"expert_dnn_hidden_units": (8,), "gate_dnn_hidden_units": (5,), "tower_dnn_hidden_units": (4,)}
_PLAIN = {"expert_dnn_hidden_units": (8,), "gate_dnn_hidden_units": (), "tower_dnn_hidden_units": ()}
_DIN = {"dnn_hidden_units": (8,), "att_hidden_size": (6, 4)}
_NO_BN = {name: options for name, options in _USUAL.items() if name != "batch norm"}
#: Class -> {case: options}.
OPTIONS = {
    "WDL": {**_USUAL, "no DNN": {"dnn_hidden_units": ()}},
    "DeepFM": {**_USUAL, "no FM": {"use_fm": False, **_DNN}, "no DNN": {"dnn_hidden_units": ()}},
    "DCN": {**_USUAL, "matrix": {"cross_parameterization": "matrix", "cross_num": 3, **_DNN},
            "no cross layers": {"cross_num": 0, **_DNN}},
    "DCNMix": {**_USUAL, "low rank": {"low_rank": 2, "num_experts": 3, **_DNN}},
    "xDeepFM": {**_USUAL, "CIN not split": {"cin_split_half": False, "cin_layer_size": (6, 4), **_DNN},
                "CIN linear": {"cin_activation": "linear", "cin_layer_size": (6, 4), **_DNN}, "no CIN": {"cin_layer_size": (), **_DNN},
                "no DNN": {"dnn_hidden_units": (), "cin_layer_size": (6,)}},
    "AutoInt": {**_USUAL, "no residual": {"att_res": False, **_DNN}, "a head, a layer": {"att_head_num": 1, "att_layer_num": 1, **_DNN},
                "no DNN": {"dnn_hidden_units": ()}, "no attention": {"att_layer_num": 0, **_DNN}},
    "FiBiNET": {**_NO_BN, "all": {"bilinear_type": "all", **_DNN}, "each": {"bilinear_type": "each", "reduction_ratio": 1, **_DNN}},
    "NFM": {**_NO_BN, "dropout": {"bi_dropout": 0.5, **_DNN}},
    "ONN": _USUAL,
    "IFM": _USUAL,
    "DIFM": {**_USUAL, "no residual": {"att_res": False, "att_head_num": 2, **_DNN}},
    "AFN": {"": {"afn_dnn_hidden_units": (8,)}, "few logarithms": {"ltl_hidden_size": 5, "afn_dnn_hidden_units": (8, 4)},
            "prelu": {"afn_dnn_hidden_units": (8,), "dnn_activation": "prelu"}},
    "AFM": {"": {}, "no attention": {"use_attention": False}, "factor 3": {"attention_factor": 3, "afm_dropout": 0.5}},
    "CCPM": {**_USUAL, "three filters": {"conv_kernel_width": (4, 3, 2), "conv_filters": (2, 3, 2), **_DNN}},
    "PNN": {**_NO_BN, "outer, mat": {"use_outter": True, **_DNN}, "outer, vec": {"use_outter": True, "kernel_type": "vec", **_DNN},
            "outer, num": {"use_outter": True, "use_inner": False, "kernel_type": "num", **_DNN},
            "no products": {"use_inner": False, **_DNN}},
    "MLR": {"": {}, "two regions": {"region_num": 2}, "regression": {"task": "regression"},
            "base and bias": {"base_feature_columns": _sparse(), "bias_feature_columns": [SparseFeat("c0", 7, 4)]}},
    "DIN": {"": _DIN, "softmax": {"att_weight_normalization": True, **_DIN}, "sigmoid": {"att_activation": "sigmoid", **_DIN},
            "batch norm": {**_DIN, **_BN}},
    "DIEN": {kind: {"gru_type": kind, "dnn_hidden_units": (8,), "att_hidden_units": (6, 4)} for kind in ("GRU", "AIGRU", "AGRU", "AUGRU")},
    "SharedBottom": {"": {"bottom_dnn_hidden_units": (8,), "tower_dnn_hidden_units": (4,), **_TASKS},
                     "one of them a regression": {"bottom_dnn_hidden_units": (8,), "tower_dnn_hidden_units": (), **_MIXED}},
    "ESMM": {"": {"tower_dnn_hidden_units": (8,)}, "batch norm": {"tower_dnn_hidden_units": (8, 4), "dnn_use_bn": True}},
    "MMOE": {"": {**_EXPERTS, **_TASKS}, "plain": {**_PLAIN, "num_experts": 2, **_MIXED}, "batch norm": {**_EXPERTS, **_TASKS, "dnn_use_bn": True}},
    "PLE": {"": {**_EXPERTS, **_TASKS}, "plain": {**_PLAIN, "num_levels": 1, **_MIXED},
            "more experts": {**_EXPERTS, **_TASKS, "num_levels": 3, "shared_expert_num": 2, "specific_expert_num": 2}},
}


def cases():
    """{name: (class name, options)}."""
    return {name + (f", {text}" if text else ""): (name, options) for name, kinds in OPTIONS.items() for text, options in kinds.items()}


def library_classes():
    """The names of the library's classes; OPTIONS has each of them."""
    return {name for name, cls in vars(dt_models).items() if isinstance(cls, type) and issubclass(cls, BaseModel) and cls is not BaseModel}


# -- the oracle ---------------------------------------------------------------------------------------------------------------
def said(model, rows, dtype):
    """(values, logits) [rows, heads] of the model's own forward; a score that is no sigmoid is its own logit."""
    tasks = model.out if isinstance(model.out, torch.nn.ModuleList) else [model.out]
    plain = PRODUCTS.get(type(model).__name__, [layer.task == "regression" for layer in tasks])
    with torch.no_grad(), _everything_double() if dtype == torch.float64 else torch.no_grad():
        p = copy.deepcopy(model).to(dtype)(torch.from_numpy(rows).to(dtype)).double().numpy().reshape(len(rows), -1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return p, np.where(plain, p, logit(p))


def spread_out(model, rows):
    """Scales the weights until the logits' standard deviation is one that a score can have."""
    for _ in range(80):
        std = said(model, rows, torch.float64)[1].std(axis=0)
        if (std <= MAX_STD).all() and std.max() >= MIN_STD:
            return True
        with torch.no_grad():
            for p in model.parameters():
                p.mul_(0.93 if not (std <= MAX_STD).all() else 1.07)
    return False


def made(name, seed):
    """The class with random weights."""
    kind, options = cases()[name]
    torch.manual_seed(seed)
    model = zoo.randomise(_MAKERS[kind](getattr(dt_models, kind), **options), seed).eval()
    with torch.no_grad():
        for p in model.parameters():
            if not p.any():
                p.normal_(0, 0.3)
    return model


# -- one case -----------------------------------------------------------------------------------------------------------------
def scorers(path, engine, devices):
    """(who, function of Rows and their number to values and logits) of a bundle."""
    with Bundle(path) as bundle:
        executor, heads = Executor(bundle), [h["name"] for h in bundle.heads]

        def by_package(rows, _count):
            run = executor.run(rows)
            return [np.stack([run[key][h] for h in heads], axis=1) for key in ("value", "logit")]

        yield "f64", by_package
    for device in devices if engine else ():
        for rewrites in ("on", "off"):
            with engine.load(path, device=device, verify="golden", **{"debug.fold": rewrites, "debug.fuse": rewrites}) as model:
                yield f"{device}{'' if rewrites == 'on' else ' plain'}", lambda rows, n, predict=model.predict: predict(rows, n, len(heads))


def check(name, engine, devices, folder, spoil=None):
    """(text, problem) of one case; `spoil` changes the model behind the export."""
    seed, kind = sum(map(ord, name)) % 9973, cases()[name][0]
    model, path = made(name, seed), Path(folder) / "deepctr.h5"
    probe = DeepctrTrace(model, None)
    rows = matrix_of(model, probe.random_rows(np.random.default_rng(seed), ROWS)).astype(np.float32)
    if not spread_out(model, rows):
        return "", "no spread of the logits that a score can have"
    given = {"rows": rows, **dict.fromkeys(("raw", "encoders", "features", "name", "metrics", "table_dtype", "stats")), "check": True}
    try:
        export(DeepctrTrace, model, None, path, given)
    except UnsupportedModelError as e:
        return "refused", "" if kind in REFUSED and REFUSED[kind] in str(e) else f"refused: {e}"
    if kind in REFUSED:
        return "", f"was not refused for {REFUSED[kind]}"
    imported = DeepctrTrace(model, None)
    imported.build()
    heads = [head["name"] for head in imported.b.heads]
    if heads != NAMES.get(kind, ["ctr"]):
        return "", f"the scores are called {heads}"
    if spoil is not None:
        spoil(model)
    (p32, _), (p64, z64) = (said(model, rows, dtype) for dtype in (torch.float32, torch.float64))
    bound_p, bound_z = np.maximum(1e-6, 2 * np.abs(p32 - p64)), 1e-5 * np.maximum(1, np.abs(z64))
    bound_p = np.where(p64 == z64, bound_z, bound_p)  # a regression's output is its logit
    text, problem = [f"std {z64.std():4.2f}"], ""
    for who, score in scorers(path, engine, devices):
        for keep in (np.arange(ROWS), np.arange(7), np.array([2])):
            p, z = score(to_rows(imported, rows[keep]), len(keep))
            dp, dz = np.abs(p - p64[keep]), np.abs(z - z64[keep])
            if not ((dp <= bound_p[keep]).all() and (dz <= bound_z[keep]).all()):
                problem = problem or f"{who}: beyond the tolerance, p {dp.max():.1e}, logit {dz.max():.1e}"
            if len(keep) == ROWS:
                text.append(f"{who} p {dp.max():.1e} logit {(dz / np.maximum(1, np.abs(z64[keep]))).max():.1e}")
    return " ".join(text), problem


def run_all(engine, devices, only=""):
    """(name, text, problem) of every case, and whether a class has none."""
    with tempfile.TemporaryDirectory() as folder:
        for name in cases():
            if only in name:
                try:
                    yield name, *check(name, engine, devices, folder)
                except Exception as e:  # noqa: BLE001  (a crash of one case is its failure, not the run's)
                    yield name, "", f"{type(e).__name__}: {e}"
        if not only:
            left = library_classes() ^ set(OPTIONS)
            yield f"{len(OPTIONS)} classes are all that the library has", "", f"not so: {left}" if left else ""
            spoiled = check("AutoInt", None, (), folder, lambda model: model.dnn_linear.weight.data.mul_(1.01))[1]
            yield "a planted fault: a weight changed behind the import", "", "" if spoiled else "was not seen"


def checks(engine, devices):
    """(name, problem, text) for suite.py, on the emulated GPU too; only names of cases begin with the library's."""
    for name, text, problem in run_all(engine, [*devices, "cuda_emu"]):
        yield f"DeepCTR {name}" if name in cases() else name, problem, text


def main():
    """Prints one line for each case; exit status 1 when one did not pass."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--engine", default=find_library())
    parser.add_argument("--devices", default="ref,cpu,cuda_emu")
    options = parser.parse_args()
    torch.set_num_threads(1)
    engine, passed, failed = None if options.engine in (None, "none") else Engine(options.engine), 0, 0
    for name, text, problem in run_all(engine, options.devices.split(","), options.only):
        passed, failed = passed + (not problem), failed + bool(problem)
        print(f"{'FAIL' if problem else 'ok  '} DeepCTR {name:<42} {text} {problem}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
